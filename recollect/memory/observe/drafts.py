"""Drafts of observations: which sentences of a stretch are quoted, and for what.

A stretch gives one draft, of what was said or of what was done, and a second one if the person
mentioned a decision or a lasting preference during other work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from recollect.memory.observe import cues
from recollect.memory.observe.salience import Salience, is_empty, score_details
from recollect.memory.observe.sentences import Sentence, shorten, split_clauses, without_lead
from recollect.memory.observe.stretches import Stretch
from recollect.memory.observe.words import overlap, terms, words
from recollect.memory.observe.work import Work, basename, error_line

TITLE_LENGTH = 120
SUBTITLE_LENGTH = 120
MAX_FACTS = 6
MAX_FACT_LENGTH = 120
_TOTAL_LENGTH = 1_000  # characters of title, subtitle, facts and narrative together
_MAX_NARRATIVE = 6  # sentences
_MIN_OUTCOME_TERMS = 3
_FACT_LENGTH = 60  # approximate characters: a fact is a thought, not a paragraph
_MAX_SMALL_TALK = 40
_MIN_ANSWER = 160
"""The characters of an answer that is worth remembering although hardly anything was asked."""
_MAX_FILE_FACTS = 4
_PERSONAL = (("decision", cues.DECISION), ("preference", cues.PREFERENCE))


@dataclass(slots=True)
class Draft:
    type: str
    title: str
    subtitle: str = ""
    facts: list[str] = field(default_factory=list)
    narrative: list[str] = field(default_factory=list)
    has_files: bool = True


def drafts(stretch: Stretch, salience: Salience) -> Iterator[Draft]:
    """The drafts of a stretch: none, one or two."""
    if is_small_talk(stretch):
        return
    work = stretch.work
    has_work = bool(work.calls and (work.is_notable or stretch.model_sentences))
    statements = find_statements(stretch, salience)
    request = "" if cues.is_trivial(stretch.request) else find_request(stretch, salience)
    answers = find_answers(stretch, salience)
    if has_work:
        draft = draft_work(stretch, request, statements, answers, salience)
    else:
        draft = draft_talk(stretch, request, statements, answers)
    if draft is None:
        return
    add_narrative(draft, stretch, salience)
    yield draft
    if has_work and draft.type not in ("decision", "preference") and not stretch.reply:
        yield from draft_decision(stretch)


def is_small_talk(stretch: Stretch) -> bool:
    """Whether hardly anything was asked ("Any restarts?", "ls") and nothing came of it."""
    work, request = stretch.work, stretch.request.strip()
    if work.changes or work.commits or work.renames or work.errors or work.web_queries:
        return False
    if not cues.is_trivial(request):
        is_short = len(request) <= _MAX_SMALL_TALK and request.isascii()
        if not is_short or len(terms(request)) > 1 or cues.has_decision(request):
            return False
    answer = " ".join(sentence.text for sentence in stretch.model_sentences)
    return len(answer) < _MIN_ANSWER and not cues.LEARNING.is_in(answer) and not error_line(answer)


def draft_talk(
    stretch: Stretch, request: str, statements: Sequence[str], answers: Sequence[str]
) -> Draft | None:
    if stretch.is_everyday and not statements:
        return None
    if stretch.is_among_people and statements:
        request = ""
    answer = answers[0] if answers else ""
    title = request or (statements[0] if statements else answer)
    if not title.strip():
        return None
    own = [sentence.text for sentence in stretch.person_sentences if not sentence.question]
    type_ = cues.type_of_talk(own, request, answer, question=bool(request))
    if type_ in ("learning", "discovery") and stretch.is_choice:
        type_ = "decision"
    draft = Draft(type_, format_title(title))
    add_facts(draft, (text for text in statements if overlap(text, [draft.title]) < 0.9), 4)
    add_facts(draft, [error_line(stretch.pasted)], 5)
    add_facts(draft, map(main_clause, answers[:2]), 2)
    draft.subtitle = choose_subtitle(answers, draft)
    return draft


def draft_work(
    stretch: Stretch,
    request: str,
    statements: Sequence[str],
    answers: Sequence[str],
    salience: Salience,
) -> Draft | None:
    work, outcome = stretch.work, find_outcome(stretch, salience)
    subject = request or (statements[0] if statements else first_words(stretch))
    title = work_title(work, subject, outcome or (answers[0] if answers else ""))
    if not title:
        return None
    said = f"{stretch.request[:2_000]}\n{stretch.reply}"
    type_ = cues.type_of_work(work, said, outcome)
    is_vague = type_ in ("change", "feature", "config", "discovery")
    is_decided = is_vague or (type_ != "security" and cues.DECISION.is_in(stretch.reply))
    if stretch.is_choice and is_decided:
        type_ = "decision"
    draft = Draft(type_, format_title(title))
    # Facts by their use, each kind up to so many facts in the draft. What was said comes first:
    # causes, decisions with what was offered, numbers, errors. Then what was done.
    causes = [text for text in answers if cues.LEARNING.is_in(text)][:2]
    decisions = [
        clause
        for sentence in stretch.person_sentences
        if not sentence.question and cues.has_decision(sentence.text)
        for clause in split_clauses(sentence.text, MAX_FACT_LENGTH)
    ]
    offers = {sentence.text for sentence in stretch.model_sentences[: stretch.offer]}
    numbers = [text for text in answers if any(map(str.isdigit, text))]
    closing = {sentence.text for sentence in stretch.model_sentences[stretch.closing :]}
    outcomes = [text for text in answers if text in closing and text not in numbers]
    errors = work.errors or [error_line(stretch.pasted)]
    if work.changes and draft.type not in ("bugfix", "debug"):
        errors = []
    runs = [run for run in work.runs.values() if run.is_test or "failed" in run.outcomes]
    for limit, facts in (
        (2, map(main_clause, causes)),
        (3, decisions[:1]),
        (3, (text for text in answers if text in offers)),
        (4, map(main_clause, (*numbers[:2], *outcomes[:1]))),
        (4, errors[:1]),
        (5, (run.description for run in runs)),
        (MAX_FACTS, change_facts(work)),
        (MAX_FACTS, (f"Committed: {commit}" for commit in work.commits[:-1][-1:])),
        (MAX_FACTS, (s for s in statements[:2] if overlap(s, [draft.title]) < 0.8)),
        (MAX_FACTS, map(main_clause, answers)),
        (MAX_FACTS, (f"Searched the web for: {query}" for query in work.web_queries[:1])),
    ):
        add_facts(draft, facts, limit)
    subtitles = (subject[:1].upper() + subject[1:], outcome, *answers)
    draft.subtitle = choose_subtitle(subtitles, draft)
    return draft


def draft_decision(stretch: Stretch) -> Iterator[Draft]:
    """A decision or lasting preference that the person mentioned during other work."""
    for type_, cue in _PERSONAL:
        texts = [
            sentence.text
            for sentence in stretch.person_sentences
            if cue.is_in(sentence.text) and not sentence.question and len(sentence.text) < 400
        ]
        if texts:
            facts = [clause for text in texts[:2] for clause in split_clauses(text, _FACT_LENGTH)]
            draft = Draft(type_, format_title(texts[0]), has_files=False)
            add_facts(draft, facts, 3)
            yield draft
            return


# -- parts of a draft ---


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
    """Fill the narrative in the order of the source: what else the person said, then one answer."""
    said = sorted(
        (-salience.of_person(sentence.text, question=False), number, sentence.text)
        for number, sentence in enumerate(stretch.person_sentences)
    )
    answered = [(score, len(said) + number, text) for score, number, text in stretch.ranking]
    texts = [draft.title, *draft.facts]
    room = _TOTAL_LENGTH - len(draft.subtitle) - sum(map(len, texts))
    narrative: list[tuple[int, str]] = []
    for ranking, limit, min_score in ((said, _MAX_NARRATIVE, 0.3), (answered, 1, 1.6)):
        for negated_score, number, text in ranking:
            if len(narrative) >= limit or -negated_score < min_score:
                break
            if len(text) <= min(room, 400) and terms(text) and overlap(text, texts) < 1:
                narrative.append((number, text))
                texts.append(text)
                room -= len(text) + 1
    draft.narrative = [text for _, text in sorted(narrative)]


def format_title(text: str) -> str:
    """The text, or its first clauses if it is long: a title is no cut copy of a fact."""
    request = cues.without_politeness(without_lead(text)).strip()
    title = split_clauses(request, TITLE_LENGTH)[0].rstrip(".!:,; ")
    return shorten(title[:1].upper() + title[1:], TITLE_LENGTH)


def main_clause(sentence: str) -> str:
    """A sentence; if it is too long for a fact, its first clause, or that with a cause."""
    clauses = split_clauses(without_lead(sentence), MAX_FACT_LENGTH)
    return next(filter(cues.LEARNING.is_in, clauses), clauses[0])


def work_title(work: Work, subject: str, outcome: str) -> str:
    """What came out of the work: the commit, or how the model describes it."""
    if work.commits:
        return work.commits[-1]
    if work.changes:
        if len(terms(outcome)) >= _MIN_OUTCOME_TERMS:
            return outcome
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
        return f"{title}: {cues.without_politeness(without_lead(subject))}" if subject else title
    if cues.RUN_TESTS.at_start(subject) and any(run.outcomes for run in work.runs.values()):
        return list(work.runs.values())[-1].description
    return subject or outcome or (f"Ran {work.commands[0]}" if work.commands else "")


def change_facts(work: Work) -> list[str]:
    changes = work.largest_changes
    if len(changes) > _MAX_FILE_FACTS:
        names = ", ".join(basename(change.path) for change in changes[:_MAX_FILE_FACTS])
        return [f"Modified {len(changes)} files: {names}, …"]
    facts = [change.description for change in changes]
    return facts + [f"Renamed {old} to {new}" for old, new in work.renames[:2]]


# -- what is worth quoting ---


def is_request(sentence: Sentence, text: str) -> bool:
    """Whether a part of a sentence, without introductory words, asks for something."""
    if sentence.question and text.endswith(("?", "？")):
        return True
    asks = cues.REQUEST.at_start(text) is not None or cues.asks(text)
    return asks and (sentence.question or not cues.has_decision(sentence.text))


def find_statements(stretch: Stretch, salience: Salience) -> list[str]:
    """What the person stated, not asked, in short clauses; the most significant first."""
    ranking: list[tuple[float, int, str]] = []
    for number, sentence in enumerate(stretch.person_sentences):
        for clause in split_clauses(sentence.text, _FACT_LENGTH):
            text = without_lead(clause)
            fewest = 1 if cues.DECISION.is_in(clause) else 2
            if sentence.heading or len(terms(text)) < fewest or is_request(sentence, text):
                continue
            score = salience.of_person(clause, question=False)
            if score > 1.0:
                ranking.append((-score, number, stretch.attribute(text, number)))
    return distinct(text for _, _, text in sorted(ranking)[:12])


def find_request(stretch: Stretch, salience: Salience) -> str:
    """The sentence that asks for something, the most significant one."""
    best, best_score = "", 0.0
    for number, sentence in enumerate(stretch.person_sentences):
        text = without_lead(sentence.text)
        asks = is_request(sentence, text) or is_request(sentence, sentence.text)
        if not asks or is_empty(text):
            continue
        score = salience.of_words(text) + 0.5 * score_details(text)
        if number in (0, len(stretch.person_sentences) - 1):
            score += 0.6
        if score > best_score:
            best, best_score = stretch.attribute(text, number), score
    return best if len(terms(best)) > 1 else ""


def first_words(stretch: Stretch) -> str:
    for sentence in stretch.person_sentences:
        if not is_empty(sentence.text) and len(terms(sentence.text)) > 1:
            return sentence.text
    return ""


def find_answers(stretch: Stretch, salience: Salience) -> list[str]:
    """The sentences of the model that carry its findings, the most significant first."""
    request_words = words(stretch.request[:2_000]).distinct
    for number, sentence in enumerate(stretch.model_sentences):
        text = sentence.text
        if sentence.heading or text.endswith(":") or len(text) < 20:
            continue
        is_closing = number >= stretch.closing
        score = salience.of_answer(text, question=sentence.question, last=is_closing)
        if score > 0.8:
            shared_words = len(request_words & words(text).distinct)
            score += 0.25 * min(4, shared_words) - 0.4 * sentence.item
            stretch.ranking.append((-score, number, text))
    stretch.ranking.sort()
    return distinct(text for _, _, text in stretch.ranking[:14])


def find_outcome(stretch: Stretch, salience: Salience) -> str:
    """How it ended: the most significant sentence of the last message."""
    closing = [
        sentence.text
        for sentence in stretch.model_sentences[stretch.closing :]
        if not sentence.question and not sentence.heading and not is_empty(sentence.text)
    ]
    closing = [text for text in closing if 15 <= len(text) <= 300 and not text.endswith(":")]
    closing = [text for text in closing if not cues.ADVICE.at_start(text)] or closing
    ranking = [
        (-salience.of_answer(text, question=False, last=True) + 0.02 * number, number, text)
        for number, text in enumerate(closing)
    ]
    return min(ranking)[2] if ranking else ""


def distinct(texts: Iterable[str]) -> list[str]:
    """The texts that are not contained in an earlier one."""
    result: list[str] = []
    for text in texts:
        if overlap(text, result) < 0.8:
            result.append(text)
    return result
