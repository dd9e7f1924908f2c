"""All matches of a query with their times: the same on both stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from messages import NOON, conversation, message

from recollect import Filter
from recollect.language.queries.query import parse
from recollect.store.audience import AudienceStore
from recollect.store.base import Store
from recollect.store.values import NO_TIME, TimedMatches


def times_by_key(matches: TimedMatches) -> dict[int, datetime | None]:
    times = matches.times.tolist()
    return {
        key: None if time == NO_TIME else datetime.fromtimestamp(time / 1e6, UTC)
        for key, time in zip(matches.keys.tolist(), times, strict=True)
    }


@pytest.mark.every_store
def test_messages_have_their_own_times_and_other_items_those_of_their_documents(
    store: Store,
) -> None:
    later = NOON + timedelta(days=1)
    chat = conversation(
        message("a", "A walrus", minutes=1),
        message("b", "Another walrus")._replace(created_at=None),
        message("c", "A seal", minutes=2),
    )
    note = conversation(message("a", "Walrus notes"), id="n", kind="note", updated_at=later)
    undated = conversation(
        message("a", "Walrus"), id="u", kind="prompt", created_at=None, updated_at=None
    )
    store.save([chat, note, undated])
    matches = store.match_times(parse("walrus"), Filter())
    times = sorted(times_by_key(matches).values(), key=str)
    assert times == [NOON, NOON + timedelta(minutes=1), later, None]
    assert len(set(matches.documents.tolist())) == 3
    notes = store.match_times(parse("walrus"), Filter(kinds=("note",)))
    assert list(times_by_key(notes).values()) == [later]
    assert not len(store.match_times(parse("bus"), Filter()).keys)
    visible = AudienceStore(store)
    assert times_by_key(visible.match_times(parse("walrus"), Filter())) == times_by_key(matches)


def test_an_agent_does_not_get_the_times_of_human_only_messages(store: Store) -> None:
    secret = message("a", "A secret tram", metadata={"human_only": True})
    store.save([conversation(secret), conversation(message("b", "A tram"), id="c2")])
    assert len(store.match_times(parse("tram"), Filter()).keys) == 2
    (key,) = AudienceStore(store).match_times(parse("tram"), Filter()).keys.tolist()
    assert store.passages_by_key([key])[key][1].id == "b"
