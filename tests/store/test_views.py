"""The views of a store handle every method that they must handle, also methods added later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from contents import all_contents
from messages import recent

from recollect import Document, Filter, Passage, Receipt
from recollect.errors import InvalidInput, NotFound
from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import Word
from recollect.model.receipts import FileReceipt
from recollect.model.undo import Edit
from recollect.store.audience import AudienceStore, LabelledStore
from recollect.store.base import Store
from recollect.store.postgres import PostgresStore
from recollect.store.redacting import RedactingStore
from recollect.store.sqlite import SqliteStore
from recollect.store.values import Batch
from recollect.store.views import METHODS, StoreView

SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
EVERYTHING = Filter(hidden=True)


def overrides(view: type[StoreView]) -> set[str]:
    """The methods of a view that are neither passed on nor refused."""
    return {name for name in METHODS & vars(view).keys() if callable(vars(view)[name])}


# -- all methods ---


@pytest.mark.parametrize("engine", [SqliteStore, PostgresStore])
def test_an_engine_has_every_method(engine: type[Store]) -> None:
    defaults = {"missing_features"}
    missing = {name for name in METHODS if getattr(engine, name) is getattr(Store, name)}
    assert missing <= defaults


def test_a_view_passes_on_what_it_does_not_change(store: Store) -> None:
    view = StoreView(store)
    assert all(getattr(view, name) == getattr(store, name) for name in METHODS)


@pytest.mark.parametrize("view", [RedactingStore, AudienceStore])
def test_a_view_that_protects_refuses_what_it_does_not_know(
    store: Store, view: type[StoreView]
) -> None:
    assert set(view.PASSES) < METHODS
    for name in METHODS - overrides(view) - set(view.PASSES):
        with pytest.raises(InvalidInput, match="needs the whole library"):
            getattr(view(store), name)


def test_the_labelled_view_labels_everything_that_returns_candidates() -> None:
    returns = {
        name: str(getattr(Store, name).__annotations__["return"])
        for name in METHODS
        if callable(getattr(Store, name))
    }
    with_candidates = {
        name for name, kind in returns.items() if "Candidate" in kind or "CandidatePage" in kind
    }
    assert "candidates" in with_candidates
    assert overrides(LabelledStore) == with_candidates | {"has_match"}


# -- the redacting view ---


def conversation(*texts: str) -> Document:
    passages = tuple(
        Passage(f"m{n}", "user", text, created_at=NOON) for n, text in enumerate(texts)
    )
    return Document("test", "c1", "A talk", passages=passages, updated_at=NOON)


def note(text: str) -> Document:
    return Document("test", "n1", "A note", kind="note", passages=(Passage("0", None, text),))


def receipt_with_secret(store: Store) -> Receipt:
    receipt = store.start_import("folder")
    receipt.files = [FileReceipt("file", "test", samples={"unreadable": [f"line {SECRET}"]})]
    return receipt


def rewrite(store: Store) -> None:
    store.save([note("plain")])
    store.rewrite("n1", note(f"now {SECRET}"))


WRITES: dict[str, Callable[[Store], object]] = {
    "save": lambda store: store.save([note(f"a {SECRET}")]),
    "rewrite": rewrite,
    "append": lambda store: store.append("c1", Passage("x", "user", f"b {SECRET}")),
    "extend": lambda store: store.extend("c1", [Passage("y", "user", f"c {SECRET}")]),
    "edit": lambda store: store.edit(
        "c1", Edit("tag", f"d {SECRET}", (SECRET,), metadata={"e": SECRET})
    ),
    "revise": lambda store: store.revise("c1", lambda _: conversation(f"f {SECRET}")),
    "save_observations": lambda store: store.save_observations("c1", 1, note(f"g {SECRET}")),
    "update_receipt": lambda store: store.update_receipt(receipt_with_secret(store)),
}


def test_every_writer_is_tested() -> None:
    assert WRITES.keys() == overrides(RedactingStore)


@pytest.mark.parametrize("name", WRITES)
def test_no_writer_of_the_redacting_view_stores_a_secret(store: Store, name: str) -> None:
    store.save([conversation("plain")])
    WRITES[name](RedactingStore(store))
    kinds = Filter(kinds=("conversation", "note"), hidden=True)
    stored = all_contents(store.iter_documents(kinds)) + all_contents(store.receipts())
    assert SECRET not in stored
    assert "[redacted:github-pat]" in stored


def test_a_library_cannot_be_moved_into_the_redacting_view(store: Store) -> None:
    with pytest.raises(InvalidInput, match="needs the whole library"):
        RedactingStore(store).import_batch(Batch("document", (0,), [], True))


# -- the audience view ---

TEXT = "zebra plans"
HIDDEN = ("h0", "h1", "h2")


@pytest.fixture
def agent(store: Store) -> AudienceStore:
    """A view of a conversation in which an agent may see only the first and the last message."""
    people = {"visibility": "human_only"}
    passages = (
        Passage("a", "user", TEXT),
        Passage("h0", "user", TEXT, parent="a", **people),  # type: ignore[arg-type]
        Passage("h1", "user", TEXT, parent="h0", metadata={"audience": "human"}),
        Passage("h2", "user", TEXT, parent="h1", metadata={"human_only": True}),
        Passage("b", "user", TEXT, parent="h2"),
    )
    store.save([Document("test", "c1", "Zebras", passages=passages)], index_ids=True)
    space = store.add_space("model", "1", 2, None)
    unembedded, _ = store.unembedded(space, 10)
    assert len(unembedded) == 5
    return AudienceStore(store)


def key_of(view: AudienceStore, passage: str) -> int:
    return view._store.passage_key("c1", passage)


def embed(view: AudienceStore) -> tuple[Any, Any]:
    import numpy as np

    (space,) = view.spaces()
    vector = np.array([1.0, 0.0], np.float32)
    passages, _ = view._store.unembedded(space, 10)
    view._store.add_vectors(space, {passage: [vector] for passage in passages})
    view._store.update_space(space, ready=True)
    return view.spaces()[0], vector


def test_an_agent_reads_documents_without_the_hidden_messages(agent: AudienceStore) -> None:
    assert [p.id for p in agent.document("c1").passages] == ["a", "b"]
    assert [p.id for d in agent.iter_documents(EVERYTHING) for p in d.passages] == ["a", "b"]
    assert [position.id for position in agent.positions("c1")] == ["a", "b"]
    assert not agent.is_linear("c1")
    page, total = agent.passage_page("c1", 1, 1)
    assert ([p.id for p in page], total) == (["b"], 2)


def test_an_agent_cannot_look_up_a_hidden_message(agent: AudienceStore) -> None:
    assert agent.passage_key("c1", "a") == key_of(agent, "a")
    with pytest.raises(NotFound) as hidden:
        agent.passage_key("c1", "h0")
    with pytest.raises(NotFound) as missing:
        agent.passage_key("c1", "zz")
    assert str(hidden.value).replace("h0", "zz") == str(missing.value)
    assert agent.documents_containing("test", ["a", *HIDDEN]) == [("c1", "a")]


def test_an_agent_gets_nothing_for_the_keys_of_hidden_messages(agent: AudienceStore) -> None:
    visible = key_of(agent, "a")
    keys = [visible, *(key_of(agent, id) for id in HIDDEN)]
    assert agent.passages_by_key(keys).keys() == {visible}
    assert [key for key, _, _ in agent.change_times(keys)] == [visible]
    assert [c.id for c in agent.candidates(keys, EVERYTHING)] == ["a"]
    assert [c.id for c in agent.candidates([key_of(agent, "b")], EVERYTHING, True)] == []
    assert agent.text_scores(parse("zebra"), keys).keys() == {visible}


def test_an_agent_searches_without_the_hidden_messages(agent: AudienceStore) -> None:
    visible = {key_of(agent, "a"), key_of(agent, "b")}
    assert set(agent.match(parse("zebra"), EVERYTHING, 2)) == visible
    assert agent.count(parse("zebra"), EVERYTHING) == (2, True)
    assert set(agent.title_matches([Word("zebras")])) == {key_of(agent, "a")}
    matches = agent.newest(EVERYTHING, 10, text="zebra")
    assert matches.is_complete
    for candidates, total in (page[:2] for page in (agent.newest(EVERYTHING, 10, 0), matches)):
        assert ({c.key for c in candidates}, total) == (visible, 2)
    assert {c.key for c in recent(agent, "zebra", EVERYTHING, 2)} == visible


def test_hidden_messages_do_not_take_the_places_of_visible_neighbours(agent: AudienceStore) -> None:
    space, vector = embed(agent)
    assert len(agent.nearest(space, vector, EVERYTHING, 2)) == 2


def test_an_agent_gets_no_vectors_of_hidden_messages(agent: AudienceStore) -> None:
    visible = {key_of(agent, "a"), key_of(agent, "b")}
    hidden = key_of(agent, "h0")
    (space,) = agent.spaces()
    space, vector = embed(agent)
    assert {key for key, _ in agent.nearest(space, vector, EVERYTHING, 10)} == visible
    assert agent.cosines(space, vector, [*visible, hidden]).keys() == visible
    assert agent.vectors(space, hidden) == []
    assert len(agent.vectors(space, key_of(agent, "a"))) == 1


def test_an_agent_cannot_do_what_needs_the_whole_library(agent: AudienceStore) -> None:
    batches: list[Batch] = []
    states: list[str] = []
    for operation in (
        lambda: agent.delete("c1"),
        lambda: agent.trash("c1", NOON),
        lambda: agent.delete("c1", "b"),
        lambda: agent.revise("c1", lambda document: document),
        lambda: agent.delete_undo_states(lambda state: bool(states.append(state))),
        lambda: agent.export_batches(batches.append),
    ):
        with pytest.raises(InvalidInput, match="needs the whole library"):
            operation()
    assert (batches, states) == ([], [])
    assert len(agent._store.document("c1").passages) == 5
