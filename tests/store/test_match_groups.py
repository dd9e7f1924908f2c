"""All matches of a query, grouped for counting: the same on both stores."""

from __future__ import annotations

from messages import NOON, conversation, message

from recollect import Filter
from recollect.language.queries.query import parse
from recollect.store.audience import AudienceStore
from recollect.store.base import Store
from recollect.store.values import DocumentGroup, MatchGroups, PassageGroup, Profile

MONTH = f"{NOON:%Y-%m}"


def fill(store: Store) -> None:
    store.save(
        [
            conversation(
                message("a", content="Where is the tram?", role="user"),
                message("b", content="The tram is late.", role="assistant", model="gpt-4o"),
                message("c", content="Another tram is here.", role="assistant", model="o3"),
                message("d", content="Thank you.", role="user"),
            ),
            conversation(
                message("a", content="A tram of old", role="user")._replace(created_at=None),
                id="c2",
                project="work",
            ),
        ]
    )


def matches(groups: MatchGroups) -> int:
    return sum(group.matches for group in groups.passages)


def test_matches_are_grouped_by_profile_and_role(store: Store) -> None:
    fill(store)
    groups = store.match_groups(parse("tram"), Filter())
    ours = Profile("conversation", "test", "default", ("gpt-4o", "o3"))
    work = Profile("conversation", "test", "work", ())
    assert sorted(groups.passages, key=str) == [
        PassageGroup(ours, "assistant", 2, {MONTH: 2}),
        PassageGroup(ours, "user", 1, {MONTH: 1}),
        PassageGroup(work, "user", 1, {}),
    ]
    assert sorted(groups.documents, key=lambda group: group.profile) == [
        DocumentGroup(ours, frozenset({"user", "assistant"}), 1),
        DocumentGroup(work, frozenset({"user"}), 1),
    ]
    assert groups.is_complete
    assert matches(store.match_groups(None, Filter())) == 5
    assert matches(store.match_groups(parse('"tram is"'), Filter())) == 2
    assert store.match_groups(parse("bus"), Filter()) == MatchGroups([], [])


def test_filters_apply_to_groups_also_by_model(store: Store) -> None:
    fill(store)
    tram = parse("tram")
    (group,) = store.match_groups(tram, Filter.of(projects="work")).passages
    assert group.profile.project == "work"
    assert matches(store.match_groups(tram, Filter.of(models="o3"))) == 3
    assert matches(store.match_groups(tram, Filter.of(models="o4"))) == 0
    assert matches(store.match_groups(tram, Filter.of(pinned=False))) == 4
    assert len(store.match(tram, Filter.of(models="gpt-4o"), 10)) == 3
    assert store.count(tram, Filter.of(not_sources="test")) == (0, True)


def test_an_agent_counts_only_what_it_may_see(store: Store) -> None:
    fill(store)
    secret = message("a", content="A secret tram", role="user", metadata={"human_only": True})
    store.save([conversation(secret, id="c3")])
    assert matches(store.match_groups(parse("tram"), Filter())) == 5
    visible = AudienceStore(store)
    assert matches(visible.match_groups(parse("tram"), Filter())) == 4
    keys = store.match(parse("tram"), Filter(), 10)
    assert matches(store.match_groups(None, Filter(), keys)) == 5
    assert matches(visible.match_groups(None, Filter(), keys)) == 4
