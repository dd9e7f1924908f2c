"""A draft of an observation, and how it is filled within its limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from recollect.memory.observe import replies
from recollect.memory.observe.drafts.stretches import Stretch
from recollect.memory.observe.prose import shorten, split_clauses, without_lead
from recollect.memory.observe.salience import Salience
from recollect.memory.observe.sentence_words import overlap, terms

TITLE_LENGTH = 120
SUBTITLE_LENGTH = 120
MAX_FACTS = 6
MAX_FACT_LENGTH = 120
_TOTAL_LENGTH = 1_000  # characters of title, subtitle, facts and narrative together
_MAX_NARRATIVE = 6  # sentences
_MAX_ANSWERS_IN_NARRATIVE = 1  # answers are added only up to this many sentences


@dataclass(slots=True)
class Draft:
    type: str
    title: str
    subtitle: str = ""
    facts: list[str] = field(default_factory=list)
    narrative: list[str] = field(default_factory=list)
    has_files: bool = True


def add_facts(draft: Draft, facts: Iterable[str], limit: int) -> None:
    """Add facts that say something new, up to `limit` facts in the draft."""
    for fact in facts:
        if len(draft.facts) >= limit:
            return
        text = shorten(fact.strip(), MAX_FACT_LENGTH)
        if text and overlap(text, draft.facts) < 0.8 and overlap(text, [draft.title]) < 1:
            draft.facts.append(text)


def choose_subtitle(candidates: Iterable[str], draft: Draft) -> str:
    for candidate in candidates:
        if overlap(candidate, [draft.title]) < 0.8 and len(candidate) <= 2 * SUBTITLE_LENGTH:
            return shorten(candidate, SUBTITLE_LENGTH)
    return ""


def add_narrative(draft: Draft, stretch: Stretch, salience: Salience) -> None:
    """Fill the narrative in the order of the source: what else was said, then answered."""
    texts = [draft.title, *draft.facts]
    room = _TOTAL_LENGTH - len(draft.subtitle) - sum(map(len, texts))
    person_ranking = sorted(
        (-salience.of_person(sentence.text, question=False), number, sentence.text)
        for number, sentence in enumerate(stretch.person_sentences)
    )
    offset = len(person_ranking)
    model_ranking = [(score, offset + number, text) for score, number, text in stretch.ranking]
    narrative: list[tuple[int, str]] = []
    for ranking, limit, min_score, min_terms in (
        (person_ranking, _MAX_NARRATIVE, 0.3, 1),
        (model_ranking, _MAX_ANSWERS_IN_NARRATIVE, 1.6, 3),
    ):
        for negated_score, number, text in ranking:
            if len(narrative) >= limit or -negated_score < min_score:
                break
            is_suitable = len(text) <= min(room, 400) and len(terms(text)) >= min_terms
            if is_suitable and overlap(text, texts) < 1:
                narrative.append((number, text))
                texts.append(text)
                room -= len(text) + 1
    draft.narrative = [text for _, text in sorted(narrative)]


def format_title(text: str) -> str:
    """The text, or its first clauses if it is long: a title is no cut copy of a fact."""
    title = split_clauses(without_politeness(text).strip(), TITLE_LENGTH)[0].rstrip(".!:,; ")
    return shorten(title[:1].upper() + title[1:], TITLE_LENGTH)


def without_politeness(text: str) -> str:
    """A request without polite opening words."""
    return replies.strip_politeness(without_lead(text))
