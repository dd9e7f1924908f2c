"""Random histories of operations, with crashes between them, against a model of plain dicts.

A crash is what kill -9 leaves: the files as they are at that moment, without closing anything. On
PostgreSQL, the connections of the library end in the middle of what they do.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import recollect
from recollect import Filter
from recollect.language.queries.query import parse

WORDS = ("amber", "birch", "cobalt", "delta")
IDS = st.sampled_from("abcd")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


class History(RuleBasedStateMachine):
    """A library and the model of it: the title and messages of each conversation."""

    def __init__(self, place: str, folder: Path, user: str) -> None:
        super().__init__()
        self.place = place
        self.folder = folder
        self.user = f"{user}-{uuid.uuid4()}"
        self.is_file = not place
        if self.is_file:
            self.place = str(folder / str(uuid.uuid4()))
        self.titles: dict[str, str] = {}
        self.messages: dict[str, dict[str, str]] = {}
        self.imports: dict[int, set[str]] = {}
        self.count = 0

    @initialize()
    def open(self) -> None:
        self.library = recollect.open(self.place, self.user, background=False)

    # -- operations ---

    @rule(id_=IDS, title=st.sampled_from(("Castle", "Harbour")))
    def add_or_rename_conversation(self, id_: str, title: str) -> None:
        if id_ in self.titles:
            self.library.update_conversation(id_, title=title)
        else:
            self.library.add_conversation(id_, title)
            self.messages[id_] = {}
        self.titles[id_] = title

    @precondition(lambda self: self.titles)
    @rule(data=st.data(), text=TEXTS)
    def append(self, data: st.DataObject, text: str) -> None:
        conversation = data.draw(st.sampled_from(sorted(self.titles)))
        self.count += 1
        id_ = f"m{self.count}"
        self.library.add_message(conversation, "user", text, id=id_)
        self.messages[conversation][id_] = text

    @precondition(lambda self: any(self.messages.values()))
    @rule(data=st.data())
    def delete_last_message(self, data: st.DataObject) -> None:
        full = sorted(id_ for id_, messages in self.messages.items() if messages)
        conversation = data.draw(st.sampled_from(full))
        message = list(self.messages[conversation])[-1]
        self.library.delete_message(conversation, message)
        del self.messages[conversation][message]

    @precondition(lambda self: self.titles)
    @rule(data=st.data())
    def delete_conversation(self, data: st.DataObject) -> None:
        conversation = data.draw(st.sampled_from(sorted(self.titles)))
        self.library.delete_conversation(conversation)
        self._forget(conversation)

    @rule(texts=st.lists(TEXTS, min_size=1, max_size=3))
    def import_file(self, texts: list[str]) -> None:
        self.count += 1
        id_ = f"import-{self.count}"
        turns = [
            {"id": f"{id_}-{number}", "role": "user", "content": text}
            for number, text in enumerate(texts)
        ]
        path = self.folder / f"{id_}.json"
        path.write_text(
            json.dumps({"conversations": [{"id": id_, "title": id_, "messages": turns}]})
        )
        receipt = self.library.import_path(path)
        self.imports[receipt.id] = {id_}
        self.titles[id_] = id_
        self.messages[id_] = {str(turn["id"]): turn["content"] for turn in turns}

    @precondition(lambda self: self.imports)
    @rule(data=st.data())
    def undo_import(self, data: st.DataObject) -> None:
        receipt = data.draw(st.sampled_from(sorted(self.imports)))
        self.library.undo_import(receipt)
        for id_ in self.imports.pop(receipt):
            if id_ in self.titles:
                self._keep_later_messages(id_)

    def _keep_later_messages(self, id_: str) -> None:
        """Undoing an import removes what it added, not what was written into it afterwards."""
        later = {m: text for m, text in self.messages[id_].items() if not m.startswith("import-")}
        if later:
            self.messages[id_] = later
        else:
            self._forget(id_)

    def _forget(self, id_: str) -> None:
        del self.titles[id_], self.messages[id_]

    @rule()
    def index(self) -> None:
        self.library.index()

    @rule()
    def restart(self) -> None:
        self.library.close()
        self.open()

    @rule()
    def crash(self) -> None:
        if self.is_file:
            copy = str(self.folder / str(uuid.uuid4()))
            shutil.copytree(self.place, copy, ignore=shutil.ignore_patterns("*-shm"))
            self.library.close()
            self.place = copy
            self.open()
        else:
            end_connections(self.place)

    # -- what always holds ---

    @invariant()
    def the_library_agrees_with_the_model(self) -> None:
        if not hasattr(self, "library"):
            return
        stored = {
            document.id: {passage.id: passage.content for passage in document.passages}
            for document in self.library.documents()
        }
        assert stored == self.messages
        assert {s.id: s.title for s in self.library.conversation_page(limit=50)[0]} == self.titles
        texts = [text for messages in self.messages.values() for text in messages.values()]
        for word in WORDS:
            count, _ = self.library._store.count(parse(f'"{word}"'), Filter())
            assert count == sum(word in text.split() for text in texts)

    def teardown(self) -> None:
        if hasattr(self, "library"):
            assert self.library.verify().healthy
            self.library.close()


def end_connections(url: str) -> None:
    """Terminate all other connections to the database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def test_any_history_of_operations_and_crashes_agrees_with_a_model(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, user: str
) -> None:
    place = ""
    if store == "postgres":
        place = request.getfixturevalue("database")
    run_state_machine_as_test(
        lambda: History(place, tmp_path, user),
        settings=settings(
            max_examples=max(5, settings.default.max_examples // 2), stateful_step_count=15
        ),
    )
