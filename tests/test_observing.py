"""Observations are kept beside their conversations, follow them, and go with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recollect.errors import InvalidInput
from recollect.library import Library
from recollect.memory import backlog as observing
from recollect.memory.observe import from_passage
from recollect.memory.observe.model import ObserverResult
from recollect.model.audience import HUMAN_ONLY
from recollect.model.documents import Document
from recollect.model.kinds import OBSERVATION
from recollect.model.observations import Observation
from recollect.model.search import Filter

NOW = datetime(2026, 3, 4, tzinfo=UTC)
OBSERVED = Filter(hidden=True, kinds=(OBSERVATION,))


def talk(
    library: Library,
    id_: str = "c",
    said: str = "I prefer the blue kettle, because it whistles at 95 degrees.",
) -> None:
    library.add_conversation(
        id_,
        "Kettles",
        project="kitchen",
        messages=[
            {"role": "user", "content": said, "created_at": NOW},
            {
                "role": "assistant",
                "content": "Noted: the blue kettle whistles at 95 degrees.",
                "created_at": NOW,
            },
        ],
    )


def observed(library: Library) -> list[Observation]:
    found, _ = library._store.summaries(OBSERVED, "", 100, 0)
    return [
        from_passage(p, d.project) for d in found for p in library._store.document(d.id).passages
    ]


@pytest.fixture
def by_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """An observer of another make, which says whether it saw everything."""
    complete = [True]

    def observe(document: Document) -> ObserverResult:
        id_ = document.id
        one = Observation(
            f"obs-{id_}",
            "decision",
            "ObserverResult by a model",
            id_,
            (document.passages[0].id,),
            maker="model:x/1",
        )
        return ObserverResult(
            (one,), complete[-1], "" if complete[-1] else "The budget is used up."
        )

    monkeypatch.setattr(
        observing, "_configured_observer", lambda: observing.Observer("model:x/1", observe)
    )
    yield complete


def test_indexing_observes_what_is_new(library: Library) -> None:
    talk(library)
    assert observing.has_backlog(library._store)
    library.index()
    (found,) = observed(library)
    assert (found.type, found.conversation, found.project, found.maker) == (
        "preference",
        "c",
        "kitchen",
        "rules-1",
    )
    assert "kettle" in found.title
    assert found.passages[0] == "c:0"
    assert not observing.has_backlog(library._store)


def test_a_conversation_that_goes_on_is_observed_again_and_what_stays_keeps_its_id(
    library: Library,
) -> None:
    talk(library)
    library.index()
    before = {o.id for o in observed(library)}
    library.add_message(
        "c",
        "user",
        "We decided to buy the red toaster instead of the oven, since it costs 40 euros.",
    )
    library.add_message("c", "assistant", "The red toaster it is, for 40 euros.")
    assert observing.has_backlog(library._store)
    library.index()
    after = observed(library)
    assert before < {o.id for o in after}
    assert any("toaster" in o.title for o in after)


def test_observations_are_found_by_no_ordinary_search(library: Library) -> None:
    talk(library)
    library.index()
    assert {hit.kind for hit in library.search("kettle").hits} == {"conversation"}
    assert {hit.kind for hit in library.search("kettle", Filter.of(hidden=True)).hits} == {
        "conversation"
    }
    assert library.conversations()[1] == 1
    assert [d.kind for d in library.documents()] == ["conversation"]
    assert library.knowledge.search("kettle")["total_estimated"] == 2
    assert library.stats()["messages"] == 2


def test_deleting_a_conversation_deletes_what_was_observed_in_it(library: Library) -> None:
    talk(library)
    talk(library, "other", "I always use the green pan for eggs, never the iron one.")
    library.index()
    library.delete_conversation("c")
    assert {o.conversation for o in observed(library)} == {"other"}
    library.delete_conversation("other")
    assert observed(library) == []


def test_undoing_an_import_takes_its_observations_along(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(
        '{"format": "recollect", "conversations": [{"id": "i", "messages": [{"id": "m", "role": "user", '
        '"content": "I prefer tea from the blue kettle at 95 degrees."}]}]}'
    )
    receipt = library.import_path(file)
    library.index()
    assert observed(library) != []
    library.undo_import(receipt.id)
    assert observed(library) == []


def test_what_is_only_for_people_is_never_observed(library: Library) -> None:
    thread = library.thread("plans")
    library.post(
        thread.id,
        "kim",
        "We decided that the secret word is heliotrope, for 40 euros.",
        visibility=HUMAN_ONLY,
    )
    library.index()
    assert not any(
        "heliotrope" in p for o in observed(library) for p in (o.title, o.narrative, *o.facts)
    )


def test_another_observer_observes_everything_anew(library: Library, by_model: list[bool]) -> None:
    talk(library)
    library.index()
    assert [o.maker for o in observed(library)] == ["model:x/1"]
    assert not observing.has_backlog(library._store)


def test_what_a_model_could_not_finish_is_tried_again_another_day(
    library: Library, by_model: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_model.append(False)
    talk(library)
    library.index()
    assert not observing.has_backlog(library._store), "it is not tried again and again"
    by_model.append(True)
    assert observing.catch_up(library._store) == 0
    library._store.set_marker("observer_tried", 1)
    assert observing.catch_up(library._store) == 1
    assert observing.catch_up(library._store) == 0


def test_a_conversation_that_cannot_be_observed_does_not_keep_the_others(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(document: Document) -> ObserverResult:
        if document.id == "c":
            raise ZeroDivisionError
        return ObserverResult((Observation("obs-1", "learning", "Fine", document.id, ("x",)),))

    monkeypatch.setattr(
        observing, "_configured_observer", lambda: observing.Observer("fails/1", fails)
    )
    talk(library)
    talk(library, "other")
    library.index()
    assert {o.conversation for o in observed(library)} == {"other"}


def test_observing_can_be_turned_off(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")
    talk(library)
    library.index()
    assert observed(library) == []
    assert not observing.has_backlog(library._store)


@pytest.mark.parametrize(
    ("said", "told"), [("telepathy", "rules, model, off"), ("model", "RECOLLECT_MODEL")]
)
def test_a_setting_that_means_nothing_is_told(
    library: Library, monkeypatch: pytest.MonkeyPatch, said: str, told: str
) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", said)
    talk(library)
    with pytest.raises(InvalidInput, match=told):
        library.index()
