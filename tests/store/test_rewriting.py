"""Documents that are not conversations: rewritten as a whole, versioned, undone state by state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import header, recent

from recollect import Document, Filter, Passage
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.language.queries.query import parse
from recollect.model.kinds import CHARACTER, MEDIA, NOTE
from recollect.model.undo import Edit
from recollect.store.base import Store

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
EVERYTHING = Filter()


def note(*paragraphs: str, id: str = "n1", minutes: int = 0, **fields: Any) -> Document:
    """A note with a passage per paragraph; the text is part of the id, as with chunks."""
    passages = tuple(
        Passage(f"{id}-{text}", None, text, type="chunk", created_at=NOON, metadata={"start": n})
        for n, text in enumerate(paragraphs)
    )
    defaults: dict[str, Any] = {
        "title": "A note",
        "created_at": NOON,
        "updated_at": NOON + timedelta(minutes=minutes),
    }
    return Document("notes", id, kind=NOTE, id=id, passages=passages, **(defaults | fields))


def texts(store: Store, id: str = "n1") -> list[str]:
    return [p.content for p in store.document(id).passages]


def import_documents(store: Store, *documents: Document) -> int:
    receipt = store.start_import("a folder")
    store.save(documents, receipt.id)
    store.update_receipt(receipt)
    return receipt.id


def matching_texts(store: Store, query: str, filter: Filter = EVERYTHING) -> list[str]:
    keys = store.match(parse(query), filter, 100)
    contents = {c.key: c.content for c in store.candidates(keys, filter)}
    assert store.count(parse(query), filter) == (len(contents), True)
    return [contents[key] for key in keys]


# -- rewriting ---


@pytest.mark.parametrize(
    "document", [note("heron", minutes=-5), note("heron", partial=True, minutes=5)]
)
def test_an_older_or_partial_note_changes_nothing(store: Store, document: Document) -> None:
    store.save([note("walrus", "seal")])
    (saved,) = store.save([document])
    assert (saved.outdated, saved.new, saved.removed) == (1, 0, 0)
    assert texts(store) == ["walrus", "seal"]


def test_tags_that_a_note_no_longer_has_are_removed(store: Store) -> None:
    store.save([note("walrus", metadata={"tags": ["sea"], "links": ["seal"]})])
    store.save([note("walrus", minutes=1, metadata={"links": ["seal"]})])
    assert header(store, "n1").metadata == {"links": ["seal"]}


# -- changes by a person ---


def test_a_person_can_rewrite_a_note_whatever_its_dates_are(store: Store) -> None:
    store.save([note("walrus", "seal", minutes=5)])
    saved = store.rewrite("n1", note("seal", "heron", title="Mine", minutes=-60))
    assert (saved.id, saved.new, saved.removed) == ("n1", 1, 1)
    now = store.document("n1")
    assert (texts(store), now.title, now.version) == (["seal", "heron"], "Mine", 2)
    assert now.updated_at is not None and now.updated_at > NOON + timedelta(days=30)
    store.save([note("walrus", minutes=9)])  # the file is older than the rewrite
    assert texts(store) == ["seal", "heron"]


def test_rewriting_another_version_raises_conflict(store: Store) -> None:
    store.save([note("walrus")])
    store.rewrite("n1", note("seal"), version=1)
    with pytest.raises(Conflict, match="has changed: it is now version 2, not 1"):
        store.rewrite("n1", note("heron"), version=1)
    assert texts(store) == ["seal"]
    with pytest.raises(NotFound):
        store.rewrite("nowhere", note("heron"))
    store.save([Document("test", "c1", passages=(Passage("a", "user", "x"),))])
    with pytest.raises(InvalidInput, match="conversation"):
        store.rewrite("c1", note("heron"))


def test_every_change_increments_the_version(store: Store) -> None:
    store.save([Document("test", "c1", passages=(Passage("a", "user", "x"),)), note("walrus")])

    def versions() -> tuple[int, int]:
        return store.document("c1").version, store.summary("n1").version

    assert versions() == (1, 1)
    store.append("c1", Passage("b", "user", "y"))
    store.append("c1", store.document("c1").passages[-1])
    assert versions() == (2, 1)
    store.extend("c1", [Passage("c", "user", "z"), Passage("d", "user", "z")])
    assert versions() == (3, 1)
    store.edit("c1", Edit(title="New"))
    store.edit("n1", Edit(title="New"))
    assert versions() == (4, 2)
    receipt = import_documents(
        store,
        note("seal", minutes=10**9 // 60),
        Document("test", "c1", passages=(Passage("e", "user", "w"),)),
    )
    assert versions() == (5, 3)
    store.undo_import(receipt)
    assert versions() == (6, 4)
    assert {s.id: s.version for s in store.summaries(EVERYTHING, "", 9, 0)[0]} == {"c1": 6, "n1": 4}


# -- undo ---


def test_what_a_person_wrote_survives_undoing_earlier_imports(store: Store) -> None:
    first, second = (
        import_documents(store, note("one")),
        import_documents(store, note("two", minutes=1)),
    )
    store.rewrite("n1", note("mine"))
    later = import_documents(store, note("three", minutes=10**9 // 60))
    with pytest.raises(Conflict, match=f"Undo import {later} first"):
        store.undo_import(second)
    store.undo_import(later)
    assert texts(store) == ["mine"]
    store.undo_import(second)
    store.undo_import(first)
    assert texts(store) == ["mine"]


states = st.lists(st.sampled_from(["red", "green", "blue"]), unique=True, min_size=1)
actions_strategy = st.one_of(
    st.tuples(st.just("import"), states),
    st.tuples(st.just("import"), states),
    st.tuples(st.just("write"), states),
    st.tuples(st.just("undo"), st.integers(0, 5)),
)


@given(st.lists(actions_strategy, max_size=9))
def test_a_note_has_the_text_of_the_last_import_or_person(
    reopen: Callable[[], Store], actions: list[Any]
) -> None:
    store = reopen()
    for document in list(store.iter_documents(EVERYTHING)):
        store.delete(document.id)
    history: list[tuple[int | None, list[str]]] = []  # the import, or None for a person
    receipts: list[int] = []
    for number, (action, value) in enumerate(actions):
        if action == "import":
            # Newer than what a person wrote, like a file that was edited afterwards.
            receipts.append(
                import_documents(store, note(*value, minutes=10**9 // 60 + number, title=""))
            )
            history.append((receipts[-1], value))
        elif action == "write" and history:
            store.rewrite("n1", note(*value, minutes=10**9 // 60 + number, title=""))
            if value != history[-1][1]:
                history.append((None, value))
        elif action == "undo" and receipts:
            receipt = receipts.pop()
            store.undo_import(receipt)
            history = [(author, state) for author, state in history if author != receipt]
        assert [texts(store, d.id) for d in store.iter_documents(EVERYTHING)] == [
            state for _, state in history[-1:]
        ]
    for word in ("red", "green", "blue"):
        assert matching_texts(store, word) == [
            w for _, state in history[-1:] for w in state if w == word
        ]
    assert store.verify().healthy


# -- filters ---


@pytest.fixture
def mixed(store: Store) -> Store:
    store.save(
        [
            note("a walrus"),
            Document(
                "test",
                "c1",
                "Talk",
                created_at=NOON,
                updated_at=NOON,
                metadata={"character_id": 7},
                passages=(
                    Passage("b", "user", "b walrus", author="Ann", created_at=NOON),
                    Passage("c", "Assistant", "c walrus", created_at=NOON),
                ),
            ),
            Document(
                "test",
                "c2",
                "Talk",
                created_at=NOON,
                updated_at=NOON,
                metadata={"character_id": "seven"},
                passages=(
                    Passage("d", "assistant", "d walrus", author="ÄRA", created_at=NOON),
                    Passage("e", "user", "e walrus", author="ann", created_at=NOON),
                ),
            ),
            Document(
                "media",
                "m1",
                "Film",
                MEDIA,
                created_at=NOON,
                metadata={"media_type": "Video"},
                passages=(
                    Passage("f", None, "f walrus", type="chunk", author="Ann", created_at=NOON),
                ),
            ),
            Document(
                "media",
                "m2",
                "Book",
                MEDIA,
                created_at=NOON,
                metadata={"media_type": "pdf"},
                passages=(Passage("g", None, "g walrus", type="chunk", created_at=NOON),),
            ),
            Document(
                "characters",
                "x",
                "Bo",
                CHARACTER,
                created_at=NOON,
                passages=(Passage("h", "name", "h walrus", type="field", created_at=NOON),),
            ),
        ]
    )
    space = store.add_space("test", "1", 4, None)
    unembedded, _ = store.unembedded(space, 100)
    store.add_vectors(space, {passage: [_unit(n)] for n, passage in enumerate(unembedded)})
    store.update_space(space, ready=True)
    return store


def _unit(n: int) -> Any:
    import numpy as np

    vector = np.array([1, n, n * n, -n], np.float32)
    return vector / np.linalg.norm(vector)


FILTERS = [
    (Filter(), "abcdefgh"),
    (Filter(kinds=("note",)), "a"),
    (Filter(kinds=("conversation",)), "bcde"),
    (Filter(kinds=("conversation", "media", "character")), "bcdefgh"),
    (Filter(kinds=("prompt",)), ""),
    (Filter(media_types=("VIDEO",)), "f"),
    (Filter(media_types=("video", "pdf")), "fg"),
    (Filter(kinds=("conversation",), media_types=("pdf",)), ""),
    (Filter(characters=("7",)), "bc"),
    (Filter(characters=("seven", "7")), "bcde"),
    (Filter(characters=("Seven",)), ""),
    (Filter(senders=("ann",)), "bef"),
    (Filter(senders=("ASSISTANT",)), "cd"),
    (Filter(senders=("ära", "user")), "bde"),
    (Filter(senders=("name",)), "h"),
    (Filter(senders=("nobody",)), ""),
    (Filter(senders=("ann",), roles=("user",)), "be"),
    (Filter(senders=("ann",), kinds=("media",)), "f"),
]


@pytest.mark.parametrize("sealed", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_filter_applies_to_every_kind_of_search(
    mixed: Store, sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sealed:
        seal(mixed, monkeypatch)
    for filter, expected in FILTERS:
        check_every_kind_of_search(mixed, filter, expected)


def check_every_kind_of_search(mixed: Store, filter: Filter, expected: str) -> None:
    assert "".join(sorted(c[0] for c in matching_texts(mixed, "walrus", filter))) == expected
    assert (
        "".join(
            sorted(
                c[0]
                for c in matching_texts(
                    mixed, 'a OR b OR c OR d OR "e walrus" OR f* OR g OR h', filter
                )
            )
        )
        == expected
    )
    (space,) = mixed.spaces()
    near = mixed.nearest(space, _unit(1), filter, 20)
    assert len(near) == len(expected)
    assert mixed.nearest(space, _unit(1), filter, 2) == near[:2]
    everything = mixed.candidates(list(range(1, 20)), filter)
    assert "".join(sorted(c.content[0] for c in everything)) == expected
    assert {key for key, _ in near} == {c.key for c in everything}
    assert "".join(sorted(c.content[0] for c in mixed.newest(filter, 20, 0)[0])) == expected
    assert mixed.newest(filter, 20, 0)[1] == len(expected)
    documents = {c.document for c in everything}
    assert {c.document for c in mixed.newest(filter, 20, 0, by_document=True)[0]} == documents
    assert mixed.newest(filter, 20, 0, by_document=True)[1] == len(documents)
    for text in (None, "alru", "walrus", " "):
        assert "".join(sorted(c.content[0] for c in recent(mixed, text, filter, 20))) == expected
    assert mixed.newest(filter, 20, text=" ")[1] == len(expected)
    summaries, total = mixed.summaries(filter, "", 20, 0)
    assert ({s.id for s in summaries}, total) == (documents, len(documents))
    assert {d.id for d in mixed.iter_documents(filter)} == documents


def seal(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make SQLite seal its index into volumes."""
    from recollect.store.sqlite import sealing, vector_files, vector_search

    for name in ("MIN_VOLUME_PASSAGES", "MAX_VOLUME_PASSAGES"):
        monkeypatch.setattr(sealing, name, 3)
    monkeypatch.setattr(vector_search, "_MAX_PASSAGES_READ_SINGLY", 0)
    monkeypatch.setattr(vector_files, "_MIN_ROWS_TO_COPY", 1)
    store.refresh()


# -- counting ---
