"""Lists of the conversations that have a message with some role, author or date."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from messages import NOON, conversation, message

from recollect import Filter, Passage
from recollect.store.base import Store
from recollect.store.sqlite import filters
from recollect.store.values import LIST_START

ROLES = ("user", "assistant", "tool", "narrator", "r" * 201, None)
AUTHORS = ("Ada", "Bob", "n" * 201, None)
FILTERS = (
    Filter(roles=("user",)),
    Filter(roles=("user", "narrator")),
    Filter(roles=("narrator",)),
    Filter(roles=("r" * 201,)),
    Filter(roles=("nobody",)),
    Filter(authors=("Ada",)),
    Filter(authors=("n" * 201, "Bob")),
    Filter(authors=("nobody",)),
    Filter(senders=("ada", "NARRATOR")),
    Filter(senders=("nobody",)),
    Filter(senders=("user", "Bob")),
    Filter(not_roles=("user", "assistant"), not_authors=("Ada",)),
    Filter(after=NOON + timedelta(minutes=4)),
    Filter(before=NOON + timedelta(minutes=1), roles=("narrator",)),
    Filter(after=NOON, before=NOON + timedelta(minutes=2), authors=("Bob",)),
    Filter(authors=("Ada",), roles=("tool", "narrator"), hidden=True),
)


def passes(passage: Passage, filter: Filter) -> bool:
    names = {(name or "").casefold() for name in (passage.role, passage.author)}
    senders = {sender.casefold() for sender in filter.senders}
    assert passage.created_at is not None
    return (
        (not filter.roles or passage.role in filter.roles)
        and (not filter.authors or passage.author in filter.authors)
        and (not senders or not senders.isdisjoint(names))
        and passage.role not in filter.not_roles
        and passage.author not in filter.not_authors
        and (filter.after is None or passage.created_at >= filter.after)
        and (filter.before is None or passage.created_at <= filter.before)
        and (filter.hidden or passage.visibility != "hidden")
    )


@pytest.mark.parametrize("most_checked", [0, 2_000])
def test_long_lists_have_the_conversations_with_a_matching_message(
    store: Store, monkeypatch: pytest.MonkeyPatch, most_checked: int
) -> None:
    monkeypatch.setattr(filters, "MAX_LISTED_DOCUMENTS", most_checked)
    generator = random.Random(3)
    conversations = {}
    for number in range(40):
        passages = [
            message(
                f"m{number}-{place}",
                role=generator.choice(ROLES),
                author=generator.choice(AUTHORS),
                minutes=generator.randint(0, 5),
                visibility=generator.choice(("all", "all", "hidden")),
            )
            for place in range(generator.randint(1, 3))
        ]
        conversations[f"c{number}"] = passages
        store.save([conversation(*passages, id=f"c{number}")])
    for _ in range(2):
        for filter in FILTERS:
            expected = {
                id_
                for id_, passages in conversations.items()
                if any(passes(passage, filter) for passage in passages)
            }
            with store.snapshot():
                summaries, total = store.summaries(filter, "", 200, 0)
                listed, _ = store.summaries_after(filter, "", 200, "updated", LIST_START)
            assert {summary.id for summary in summaries} == expected, filter
            assert {summary.id for summary in listed} == expected, filter
            assert total == len(expected), filter
        store.append("c0", message("new", role="narrator", author="Ada", minutes=9))
        conversations["c0"].append(message("new", role="narrator", author="Ada", minutes=9))
