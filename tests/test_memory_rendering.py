"""How results of the memory are written: paths, titles, facts, and lines for agents."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from recollect.language.text import storable
from recollect.memory.formats import conversation_id, conversation_path
from recollect.memory.rendering import OWN_LENGTH, search_compact, search_text, top_facts
from recollect.memory.results import MemoryResults, ObservationHit
from recollect.model.observations import Observation


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_every_id_can_be_read_back_from_its_path(project: str, id_: str) -> None:
    path = conversation_path(project, id_)
    assert path.isprintable() and "`" not in path and path.count("/") == 2
    assert conversation_id(path) == storable(id_)


def test_a_list_shows_the_fact_that_has_words_of_the_query() -> None:
    facts = (
        "Nothing of note happened here at all, and the same goes for the days before.",
        "The token is rotated. " + "word " * 60,
        "And more.",
    )
    hit = ObservationHit(
        Observation("obs-1", "decision", "T", "c", (), facts=facts),
        "/p/c.jsonl",
        terms=("rotated",),
    )
    (excerpt,) = top_facts(hit)
    assert excerpt.startswith("The token is rotated.") and excerpt.endswith("…")
    assert len(excerpt) < OWN_LENGTH
    text = search_text(MemoryResults("observations", (hit,), total=1), "token")
    assert len(text) // 4 < 70
    long = replace(hit.observation, title="T " + "long " * 15)
    assert top_facts(hit._replace(observation=long, terms=("long",))) == []


def test_statements_come_before_questions_and_what_was_done() -> None:
    facts = (
        "Modified src/token.ts (+1 −1)",
        "Ran `npm test token`: passed",
        "Why is the token rejected?",
        "The clock was wrong",
    )
    observation = Observation("obs-1", "decision", "Fix the check", "c", (), facts=facts)
    hit = ObservationHit(observation, "/p/c.jsonl", terms=("token",))
    assert top_facts(hit)[0] == "The clock was wrong"


def compact_line(observation: Observation) -> str:
    hit = ObservationHit(observation, "/p/c.jsonl")
    return search_compact(MemoryResults("observations", (hit,), total=1), "x")


def test_a_compact_line_shortens_a_long_title_for_the_best_fact() -> None:
    title = "Certificates expired tonight although the manager was running on all of the hosts"
    fact = "The token of the DNS provider became invalid when the account was moved"
    observation = Observation("obs-1", "bugfix", title, "c", (), facts=(fact,))
    short_title = "Certificates expired tonight although the manager was running…"
    assert compact_line(observation) == f"obs-1 unknown bugfix: {short_title} · {fact}"
    observation = replace(observation, title="The token of the DNS provider…")
    assert compact_line(observation) == f"obs-1 unknown bugfix: {fact}"
