"""The drafts of a stretch in which tools were called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recollect.memory.observe import cues, replies
from recollect.memory.observe.drafts.draft import (
    MAX_FACT_LENGTH,
    MAX_FACTS,
    Draft,
    add_facts,
    add_narrative,
    choose_subtitle,
    format_title,
    without_politeness,
)
from recollect.memory.observe.drafts.selection import (
    FACT_LENGTH,
    MIN_OUTCOME_TERMS,
    best_clause,
    find_answers,
    find_finding,
    find_outcome,
    find_request,
    find_statements,
    first_text,
    is_small_talk,
)
from recollect.memory.observe.drafts.stretches import Stretch
from recollect.memory.observe.prose import split_clauses
from recollect.memory.observe.salience import Salience, is_empty
from recollect.memory.observe.sentence_words import overlap, terms
from recollect.memory.observe.work import Work, basename, error_line

_MAX_FILE_FACTS = 4
_RUN_ORDER = re.compile(
    r"(?:re-?)?run (?:the |all |our )?(?:\w+ )?(?:tests?|checks?|suite)\b", re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
_PERSONAL = (("decision", cues.DECISION), ("preference", cues.PREFERENCE))


def has_work(stretch: Stretch) -> bool:
    work = stretch.work
    if not work.calls:
        return False
    return bool(
        work.changes
        or work.commits
        or work.renames
        or work.runs
        or work.errors
        or work.files_read
        or stretch.model_sentences
    )


def draft_work(stretch: Stretch, salience: Salience) -> Draft | None:
    work = stretch.work
    if is_small_talk(stretch):
        return None
    request = ""
    if not replies.TRIVIAL.match(stretch.request.strip()):
        request = find_request(stretch, salience)
    statements = find_statements(stretch, salience)
    answers = find_answers(stretch, salience)
    outcome = find_outcome(stretch, salience)
    subject = request or first_text(statements) or _first_words(stretch)
    type_, title = _own_rule(stretch, request)
    if not title:
        type_ = _type_of_work(stretch, outcome)
        finding = find_finding(subject, filter(None, (outcome, *answers)))
        title = _work_title(work, finding or subject, outcome or first_text(answers))
    if not title:
        return None
    draft = Draft(type_, format_title(title))
    _add_said_facts(draft, stretch, answers, salience)
    _add_done_facts(draft, work)
    new_statements = [text for text in statements if overlap(text, [draft.title]) < 0.8]
    add_facts(draft, new_statements[:2], MAX_FACTS)
    add_facts(draft, (best_clause(answer, salience) for answer in answers), MAX_FACTS)
    add_facts(draft, (f"Searched the web for: {q}" for q in work.web_queries[:1]), MAX_FACTS)
    draft.subtitle = choose_subtitle([_capitalize(subject), outcome, *answers], draft)
    add_narrative(draft, stretch, salience)
    return draft


def _first_words(stretch: Stretch) -> str:
    for sentence in stretch.person_sentences:
        if not is_empty(sentence.text) and len(terms(sentence.text)) > 1:
            return sentence.text
    return ""


def _own_rule(stretch: Stretch, request: str) -> tuple[str, str]:
    """The type and the title of a message that only states a decision or a preference."""
    if request or stretch.reply or stretch.work.commits or not stretch.person_sentences:
        return "", ""
    first = stretch.person_sentences[0]
    for type_, cue in _PERSONAL:
        if cue.search(first.text) and not first.question:
            return type_, first.text
    return "", ""


def _type_of_work(stretch: Stretch, outcome: str) -> str:
    text = f"{stretch.request[:2_000]}\n{stretch.reply}"
    type_ = cues.type_of_work(stretch.work, text, outcome)
    is_certain = type_ not in ("change", "feature", "config", "discovery")
    if is_certain and (type_ == "security" or not cues.DECISION.search(stretch.reply)):
        return type_
    if stretch.is_choice:
        return "decision"
    return type_


def _work_title(work: Work, subject: str, outcome: str) -> str:
    """What came out of the work: the commit, or how the model describes it."""
    if work.commits:
        return work.commits[-1]
    if work.changes:
        if len(terms(outcome)) >= MIN_OUTCOME_TERMS:
            return outcome
        title = _change_title(work)
        if subject:
            title += f": {without_politeness(subject)}"
        return title
    if _RUN_ORDER.match(subject) and any(run.outcomes for run in work.runs.values()):
        return list(work.runs.values())[-1].description
    if subject or outcome:
        return subject or outcome
    if work.commands:
        return f"Ran {work.commands[0]}"
    return ""


def _change_title(work: Work) -> str:
    """The changed files, as the beginning of a title."""
    changes = work.largest_changes
    verb = "Edit"
    if all(change.is_new for change in changes):
        verb = "Create"
    elif all(change.is_deleted for change in changes):
        verb = "Delete"
    names = list(dict.fromkeys(basename(change.path) for change in changes))
    title = f"{verb} {', '.join(names[:2])}"
    if len(names) > 2:
        title += f" and {len(names) - 2} more"
    return title


def _add_said_facts(
    draft: Draft, stretch: Stretch, answers: Sequence[str], salience: Salience
) -> None:
    """What was said, by use: causes, decisions with what was offered, numbers, errors."""
    causes = [text for text in answers if cues.LEARNING.search(text)]
    add_facts(draft, (_cause(text, salience) for text in causes[:2]), 2)
    add_facts(draft, _decisions(stretch)[:1], 3)
    offers = {sentence.text for sentence in stretch.model_sentences[: stretch.offer]}
    add_facts(draft, (text for text in answers if text in offers), 3)
    numbers = [text for text in answers if _DIGIT.search(text)]
    closing = {sentence.text for sentence in stretch.model_sentences[stretch.closing :]}
    outcomes = [text for text in answers if text in closing and text not in numbers]
    add_facts(draft, (best_clause(text, salience) for text in (*numbers[:2], *outcomes[:1])), 4)
    if draft.type in ("bugfix", "debug") or not stretch.work.changes:
        errors = stretch.work.errors or [error_line(stretch.pasted)]
        add_facts(draft, errors[:1], 4)


def _decisions(stretch: Stretch) -> list[str]:
    """The clauses of sentences in which the person states a decision or a preference."""
    clauses: list[str] = []
    for sentence in stretch.person_sentences:
        if not sentence.question and cues.has_decision(sentence.text):
            clauses += split_clauses(sentence.text, MAX_FACT_LENGTH)
    return clauses


def _cause(sentence: str, salience: Salience) -> str:
    """The sentence that names a cause; if it is long, the clause of it that does."""
    if len(sentence) <= MAX_FACT_LENGTH:
        return sentence
    clauses = [text for text in split_clauses(sentence, 70) if cues.LEARNING.search(text)]
    if clauses:
        return clauses[0]
    return best_clause(sentence, salience)


def _add_done_facts(draft: Draft, work: Work) -> None:
    """What was done: test runs, changed files, commits."""
    runs = [run for run in work.runs.values() if run.is_test or "failed" in run.outcomes]
    add_facts(draft, (run.description for run in runs), 5)
    add_facts(draft, _change_facts(work), MAX_FACTS)
    add_facts(draft, (f"Committed: {commit}" for commit in work.commits[:-1][-1:]), MAX_FACTS)


def _change_facts(work: Work) -> list[str]:
    changes = work.largest_changes
    if len(changes) > _MAX_FILE_FACTS:
        names = ", ".join(basename(change.path) for change in changes[:_MAX_FILE_FACTS])
        return [f"Modified {len(changes)} files: {names}, …"]
    facts = [change.description for change in changes]
    return facts + [f"Renamed {old} to {new}" for old, new in work.renames[:2]]


def draft_decision(stretch: Stretch, work_draft: Draft) -> Iterator[Draft]:
    """A decision or lasting preference that the person mentioned during other work."""
    if work_draft.type in ("decision", "preference") or stretch.reply:
        return
    for type_, cue in _PERSONAL:
        texts = [
            sentence.text
            for sentence in stretch.person_sentences
            if cue.search(sentence.text) and not sentence.question and len(sentence.text) < 400
        ]
        if texts:
            facts = [clause for text in texts[:2] for clause in split_clauses(text, FACT_LENGTH)]
            draft = Draft(type_, format_title(texts[0]), has_files=False)
            add_facts(draft, facts, 3)
            yield draft
            return


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
