"""Observations are stored with their conversations, updated with them and deleted with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from test_index import server

from recollect import Document, Filter, Library
from recollect.errors import InvalidInput
from recollect.memory import background_jobs
from recollect.memory import backlog as observing
from recollect.memory.observe import MAKER, from_passage, observe
from recollect.memory.observe.model import ObserverResult
from recollect.model.audience import HUMAN_ONLY
from recollect.model.kinds import OBSERVATION
from recollect.model.observations import Observation
from recollect.models.stopping import Stop, never_stop
from recollect.settings import LIMITS

__all__ = ["server"]

NOW = datetime(2026, 3, 4, tzinfo=UTC)
OBSERVED = Filter(hidden=True, kinds=(OBSERVATION,))


def add_conversation(
    library: Library,
    id_: str = "c",
    text: str = "I prefer the blue kettle, because it whistles at 95 degrees.",
) -> None:
    library.add_conversation(
        id_,
        "Kettles",
        project="kitchen",
        messages=[
            {"role": "user", "content": text, "created_at": NOW},
            {
                "role": "assistant",
                "content": "Noted: the blue kettle whistles at 95 degrees.",
                "created_at": NOW,
            },
        ],
    )


def observations(library: Library) -> list[Observation]:
    summaries, _ = library._store.summaries(OBSERVED, "", 100, 0)
    return [
        from_passage(p, d.project)
        for d in summaries
        for p in library._store.document(d.id).passages
    ]


@pytest.fixture
def by_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Replace the rules by another observer. Append False to make its results incomplete."""
    complete = [True]

    def observe(document: Document, stop: Stop) -> ObserverResult:
        id_ = document.id
        one = Observation(
            f"obs-{id_}",
            "decision",
            "ObserverResult by a model",
            id_,
            (document.passages[0].id,),
            maker="model:x/1",
        )
        if complete[-1]:
            return ObserverResult((one,))
        return ObserverResult((one,), False, "The budget is used up.")

    monkeypatch.setattr(
        observing,
        "configured_observer",
        lambda store: observing.Observer("model:x/1", observe),
    )
    yield complete


def test_indexing_observes_new_conversations(library: Library) -> None:
    add_conversation(library)
    assert observing.has_backlog(library._store)
    library.index()
    (observation,) = observations(library)
    assert (observation.type, observation.conversation, observation.project, observation.maker) == (
        "preference",
        "c",
        "kitchen",
        MAKER,
    )
    assert "kettle" in observation.title
    assert observation.passages[0] == "c:0"
    assert not observing.has_backlog(library._store)


def test_observations_keep_their_ids_when_the_conversation_continues(
    library: Library,
) -> None:
    add_conversation(library)
    library.index()
    before = {o.id for o in observations(library)}
    library.add_message(
        "c",
        "user",
        "We decided to buy the red toaster instead of the oven, since it costs 40 euros.",
    )
    library.add_message("c", "assistant", "The red toaster it is, for 40 euros.")
    assert observing.has_backlog(library._store)
    library.index()
    after = observations(library)
    assert before < {o.id for o in after}
    assert any("toaster" in o.title for o in after)


def test_undoing_an_import_deletes_its_observations(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(
        '{"format": "recollect", "conversations": [{"id": "i", "messages": ['
        '{"id": "m", "role": "user", '
        '"content": "I prefer tea from the blue kettle at 95 degrees."}]}]}'
    )
    receipt = library.import_path(file)
    library.index()
    assert observations(library) != []
    library.undo_import(receipt.id)
    assert observations(library) == []


@pytest.mark.parametrize(
    "mark", [{"visibility": HUMAN_ONLY}, {"metadata": {"human_only": True}}], ids=str
)
def test_human_only_messages_are_never_observed(library: Library, mark: dict[str, Any]) -> None:
    thread = library.thread("plans")
    library.post(
        thread.id,
        "kim",
        "We decided that the secret word is heliotrope, for 40 euros.",
        **mark,
    )
    library.index()
    assert not any(
        "heliotrope" in p for o in observations(library) for p in (o.title, o.narrative, *o.facts)
    )


def test_a_new_observer_observes_everything_again(library: Library, by_model: list[bool]) -> None:
    add_conversation(library)
    library.index()
    assert [o.maker for o in observations(library)] == ["model:x/1"]
    assert not observing.has_backlog(library._store)


def test_incomplete_observations_are_retried_on_another_day(
    library: Library, by_model: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_model.append(False)
    add_conversation(library)
    library.index()
    assert not observing.has_backlog(library._store), "it is not retried on the same day"
    by_model.append(True)
    assert observing.catch_up(library._store) == 0
    library._store.set_marker("observer_tried", 1)
    assert observing.catch_up(library._store) == 1
    assert observing.catch_up(library._store) == 0


def test_a_failure_in_one_conversation_does_not_affect_the_others(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(document: Document, stop: Stop) -> ObserverResult:
        if document.id == "c":
            raise ZeroDivisionError
        return ObserverResult((Observation("obs-1", "learning", "Fine", document.id, ("x",)),))

    monkeypatch.setattr(
        observing, "configured_observer", lambda store: observing.Observer("fails/1", fails)
    )
    add_conversation(library)
    add_conversation(library, "other")
    library.index()
    assert {o.conversation for o in observations(library)} == {"other"}


def test_a_conversation_that_keeps_changing_is_observed_once_per_run(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add_conversation("busy", messages=[{"role": "user", "content": "I prefer tea."}])
    library.add_conversation("quiet", messages=[{"role": "user", "content": "I prefer coffee."}])
    observe = observing.observe
    document_ids: list[str] = []

    def observe_while_somebody_writes(document: Document, stop: Stop) -> list[Observation]:
        document_ids.append(document.id or "")
        assert len(document_ids) < 10
        library.add_message("busy", "user", "More.")
        return list(observe(document, stop))

    monkeypatch.setattr(observing, "observe", observe_while_somebody_writes)
    assert observing.catch_up(library._store) == 2
    assert sorted(document_ids) == ["busy", "quiet"]
    assert observing.has_backlog(library._store)


def test_the_observer_can_be_turned_off(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", "off")
    add_conversation(library)
    library.index()
    assert observations(library) == []
    assert not observing.has_backlog(library._store)


@pytest.mark.parametrize(
    ("value", "message"), [("telepathy", "rules, model, off"), ("model", "RECOLLECT_MODEL")]
)
def test_an_invalid_observer_setting_is_rejected(
    library: Library, monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", value)
    add_conversation(library)
    with pytest.raises(InvalidInput, match=message):
        library.index()


def test_a_long_run_in_the_background_is_followed_by_a_pause_in_every_process(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_OBSERVER", "rules")
    monkeypatch.setattr(background_jobs, "_SHORT_RUN", 0.0)
    monkeypatch.setattr(background_jobs, "_MAX_CPU_SHARE", 1e-9)
    library.add_conversation("c", "Boats")
    library.add_message("c", "user", "We decided to paint the boat green.")
    store = library._store
    background_jobs.observe_job(store).run(lambda: False)
    assert not observing.has_backlog(store)
    library.add_message("c", "user", "We decided to paint the oars red.")
    background_jobs.observe_job(store).run(lambda: False)
    assert observing.has_backlog(store)
    store.set_marker("observer_next_run", int(time.time()) - 1)
    background_jobs.observe_job(store).run(lambda: False)
    assert not observing.has_backlog(store)


def test_messages_get_vectors_in_the_background_before_they_are_observed(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[tuple[int, int]] = []

    def embedded() -> tuple[int, int]:
        status = library.index_status()
        return status.embedded, status.passages

    def observe_later(document: Document, stop: Stop) -> list[Observation]:
        counts.append(embedded())
        return observe(document, stop)

    monkeypatch.setattr(observing, "observe", observe_later)
    add_conversation(library)
    library.run_background_jobs(never_stop)
    assert counts == [(2, 2)]
    assert embedded() == (3, 3), "also the observation"


def test_what_is_sent_to_a_model_on_a_day_is_bounded_for_all_programs(library: Library) -> None:
    store = library._store
    assert observing.spend(store, LIMITS.observer_characters_each_day - 20)
    assert not observing.spend(store, 30)
    assert observing.spend(store, 20)
    store.set_marker("observer_day", 1)
    assert observing.spend(store, 30)
