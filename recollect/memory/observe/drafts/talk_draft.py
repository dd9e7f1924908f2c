"""The draft of a stretch in which people and the model only talk."""

from __future__ import annotations

from recollect.memory.observe import cues, replies
from recollect.memory.observe.drafts.draft import (
    Draft,
    add_facts,
    add_narrative,
    choose_subtitle,
    format_title,
)
from recollect.memory.observe.drafts.selection import (
    best_clause,
    find_answers,
    find_finding,
    find_request,
    find_statements,
    first_text,
    is_small_talk,
    list_facts,
)
from recollect.memory.observe.drafts.stretches import Stretch
from recollect.memory.observe.salience import Salience
from recollect.memory.observe.sentence_words import overlap
from recollect.memory.observe.work import error_line


def draft_talk(stretch: Stretch, salience: Salience) -> Draft | None:
    if is_small_talk(stretch):
        return None
    statements = find_statements(stretch, salience)
    if stretch.is_everyday and not statements:
        return None
    request = find_request(stretch, salience)
    answers = find_answers(stretch, salience)
    lists = list_facts(stretch.model_sentences)
    if _is_trivial_talk(stretch) and not lists and not (answers and _is_long_answer(stretch)):
        return None
    if not statements and not request and not answers:
        return None
    if stretch.is_among_people and statements:
        request = ""
    best_answer = first_text(answers)
    finding = ""
    if not stretch.is_everyday:
        finding = find_finding(request, answers)
    title = (
        finding
        or request
        or first_text(statements)
        or _first_heading(stretch)
        or best_answer
        or first_text(lists).removeprefix("Listed: ")
    )
    if not title.strip():
        return None
    draft = Draft(_type_of_talk(stretch, request, best_answer), format_title(title))
    facts = [text for text in statements if overlap(text, [draft.title]) < 0.9]
    add_facts(draft, facts, 4)
    add_facts(draft, lists[:1], 5)
    add_facts(draft, [error_line(stretch.pasted)], 5)
    add_facts(draft, (best_clause(answer, salience) for answer in answers[:2]), 2)
    draft.subtitle = choose_subtitle(answers, draft)
    if finding:
        draft.subtitle = choose_subtitle([request], draft)
    add_narrative(draft, stretch, salience)
    draft.narrative += lists[1:]
    return draft


def _type_of_talk(stretch: Stretch, request: str, answer: str) -> str:
    own_words = [s.text for s in stretch.person_sentences if not s.question]
    type_ = cues.type_of_talk(own_words, request, answer, question=bool(request))
    if type_ in ("learning", "discovery") and stretch.is_choice:
        return "decision"
    return type_


def _is_trivial_talk(stretch: Stretch) -> bool:
    if not stretch.person_sentences:
        return True
    return replies.TRIVIAL.match(stretch.request.strip()) is not None


def _is_long_answer(stretch: Stretch) -> bool:
    return len(" ".join(sentence.text for sentence in stretch.model_sentences)) >= 160


def _first_heading(stretch: Stretch) -> str:
    for sentence in stretch.model_sentences:
        if sentence.heading and not sentence.text.endswith(":"):
            return sentence.text
    return ""
