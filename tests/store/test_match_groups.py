"""All matches of a query, grouped for counting: the same on both stores."""

from __future__ import annotations

from messages import NOON, conversation, message

from recollect.language.query import parse
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.values import MatchGroup
from recollect.store.views.audience import AudienceStore

DAY = int(NOON.timestamp()) // 86_400


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


def test_matches_are_grouped_by_document_role_and_day(store: Store) -> None:
    fill(store)
    matches = store.match_groups(parse("tram"), Filter())
    assert sorted(matches.groups, key=str) == [
        MatchGroup("c1", "conversation", "test", "default", "assistant", DAY, 2),
        MatchGroup("c1", "conversation", "test", "default", "user", DAY, 1),
        MatchGroup("c2", "conversation", "test", "work", "user", None, 1),
    ]
    assert matches.models == {"c1": ("gpt-4o", "o3")}
    assert matches.is_complete
    assert sum(g.matches for g in store.match_groups(None, Filter()).groups) == 5
    assert sum(g.matches for g in store.match_groups(parse('"tram is"'), Filter()).groups) == 2


def test_filters_apply_to_groups_also_by_model(store: Store) -> None:
    fill(store)
    tram = parse("tram")
    (group,) = store.match_groups(tram, Filter.of(projects="work")).groups
    assert group.document == "c2"
    assert {g.document for g in store.match_groups(tram, Filter.of(models="o3")).groups} == {"c1"}
    assert store.match_groups(tram, Filter.of(models="o4")).groups == []
    assert len(store.match(tram, Filter.of(models="gpt-4o"), 10)) == 3
    assert store.count(tram, Filter.of(not_sources="test")) == (0, True)


def test_an_agent_counts_only_what_it_may_see(store: Store) -> None:
    fill(store)
    secret = message("a", content="A secret tram", role="user", metadata={"human_only": True})
    store.save([conversation(secret, id="c3")])
    assert sum(g.matches for g in store.match_groups(parse("tram"), Filter()).groups) == 5
    visible = AudienceStore(store).match_groups(parse("tram"), Filter())
    assert sum(group.matches for group in visible.groups) == 4
    assert visible.models == {"c1": ("gpt-4o", "o3")}
