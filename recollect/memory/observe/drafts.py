"""Drafts of observations: which sentences of a stretch are quoted, and for what."""

from __future__ import annotations

import re
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
_MAX_ANSWERS_IN_NARRATIVE = 1  # answers are added only up to this many sentences
MIN_OUTCOME_TERMS = 3
FACT_LENGTH = 60  # approximate characters: a fact is a thought, not a paragraph
_MAX_SMALL_TALK = 40
_MIN_ANSWER = 160
"""The characters of an answer that is worth remembering although hardly anything was asked."""
_LIST_LENGTHS = (72, 220)  # characters of the first and the second fact made of a list
_HEAD = re.compile(r"^(.{2,60}?)(?::\s|\s[-–—]\s|\s\(|:$)")
_MAX_FILE_FACTS = 4
_DIGIT = re.compile(r"\d")
_PERSONAL = (("decision", cues.DECISION), ("preference", cues.PREFERENCE))


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
    return cues.without_politeness(without_lead(text))


# -- what is worth quoting ---


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
    if len(answer) >= _MIN_ANSWER or cues.LEARNING.is_in(answer) or error_line(answer):
        return False
    return bool(work.calls) or not list_facts(stretch.model_sentences)


def find_statements(stretch: Stretch, salience: Salience) -> list[str]:
    """What the person stated, not asked, in short clauses; the most significant first."""
    ranking: list[tuple[float, int, str]] = []
    for number, sentence in enumerate(stretch.person_sentences):
        if sentence.heading:
            continue
        for clause in split_clauses(sentence.text, FACT_LENGTH):
            text = without_lead(clause)
            is_question = _is_question(sentence, clause, text)
            is_request = is_question
            if cues.REQUEST.at_start(text) and not cues.DECISION.is_in(sentence.text):
                is_request = True
            fewest = 1 if cues.DECISION.is_in(clause) else 2
            if len(terms(text)) < fewest or (is_request and not has_own_details(stretch, text)):
                continue
            score = salience.of_person(clause, question=is_question)
            if score > 1.0:
                ranking.append((-score, number, stretch.attribute(text, number)))
    return distinct(text for _, _, text in sorted(ranking)[:12])


def _is_question(sentence: Sentence, clause: str, text: str) -> bool:
    """Whether a clause asks for something. `text` is the clause without introductory words."""
    if sentence.question and clause.endswith(("?", "？")):
        return True
    if sentence.question:
        return cues.REQUEST.at_start(text) is not None or cues.asks(text)
    return cues.asks(text) and not cues.has_decision(sentence.text)


def has_own_details(stretch: Stretch, text: str) -> bool:
    """Whether people say something about themselves although they ask for something.

    People ask questions all the time in everyday life. They state what matters without asking.
    """
    return not stretch.is_everyday and cues.OWN.is_in(text) and score_details(text) >= 0.5


def find_request(stretch: Stretch, salience: Salience) -> str:
    """The sentence that asks for something, the most significant one."""
    best = ""
    best_score = 0.0
    for number, sentence in enumerate(stretch.person_sentences):
        text = without_lead(sentence.text)
        if not _is_request(sentence, text) or is_empty(text):
            continue
        score = salience.of_words(text)
        if number == 0 or number == len(stretch.person_sentences) - 1:
            score += 0.6
        elif number >= 12:
            score -= 1.0
        score += 0.5 * score_details(text)
        if score > best_score:
            best = stretch.attribute(text, number)
            best_score = score
    if len(terms(best)) <= 1:
        return ""
    return best


def _is_request(sentence: Sentence, text: str) -> bool:
    """Whether a sentence asks for something. `text` is the sentence without introductory words."""
    if sentence.question:
        return True
    if cues.REQUEST.at_start(sentence.text):
        return not cues.DECISION.is_in(sentence.text)
    is_request = cues.REQUEST.at_start(text) is not None or cues.asks(text)
    return is_request and not cues.has_decision(sentence.text)


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
    if not closing:
        return ""
    ranking = [
        (-salience.of_answer(text, question=False, last=True) + 0.02 * number, number, text)
        for number, text in enumerate(closing)
    ]
    _, _, best = min(ranking)
    return best


def find_finding(subject: str, sentences: Iterable[str]) -> str:
    """The sentence that says what came out of a question or a complaint; empty if none does.

    It states a cause, or it names what the question is about. It can be understood on its own.
    """
    if not subject or cues.is_order(subject):
        return ""
    # A single character of a text without spaces is not a topic.
    topic = {term for term in words(subject).distinct if len(term) > 1}
    for text in sentences:
        if len(terms(text)) < MIN_OUTCOME_TERMS or cues.needs_context(without_lead(text)):
            continue
        if cues.LEARNING.is_in(text):
            return text
        if cues.is_question(subject) and topic & words(text).distinct:
            return text
    return ""


def list_facts(sentences: Sequence[Sentence]) -> list[str]:
    """The list items of an answer as one or two facts."""
    heads: list[str] = []
    for sentence in sentences:
        if not sentence.item:
            continue
        head = item_head(sentence.text)
        if head and not head.endswith("?") and head not in heads and len(head.split()) <= 9:
            heads.append(head)
    if len(heads) < 2:
        return []
    return join_heads(heads)


def item_head(text: str) -> str:
    """The name at the beginning of a list item; the item itself if it is short."""
    match = _HEAD.match(text)
    head = ""
    if match is not None:
        head = match[1]
    elif len(text) <= 45:
        head = text
    return head.strip(" .,:;\"'“”")


def join_heads(heads: Sequence[str]) -> list[str]:
    """The heads as facts: a short one with the first few, and a longer one with more."""
    facts: list[str] = []
    for head in heads:
        if facts and len(facts[-1]) + len(head) + 2 <= _LIST_LENGTHS[len(facts) - 1]:
            facts[-1] += f"; {head}"
        elif len(facts) < len(_LIST_LENGTHS):
            facts.append(f"Listed: {head}")
        else:
            break
    return facts


def best_clause(sentence: str, salience: Salience) -> str:
    """The most significant clause of a sentence."""
    clauses = [without_lead(clause) for clause in split_clauses(sentence, 70)]
    clauses = [clause for clause in clauses if len(terms(clause)) > 1]
    if not clauses:
        return sentence
    return max(clauses, key=lambda text: salience.of_words(text) + score_details(text))


def distinct(texts: Iterable[str]) -> list[str]:
    """The texts that are not contained in an earlier one."""
    result: list[str] = []
    for text in texts:
        if overlap(text, result) < 0.8:
            result.append(text)
    return result


def first_text(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    return texts[0]


# -- talk ---


def draft_talk(stretch: Stretch, salience: Salience) -> Draft | None:
    if is_small_talk(stretch):
        return None
    statements = find_statements(stretch, salience)
    if stretch.is_everyday and not statements:
        return None
    request = find_request(stretch, salience)
    answers = find_answers(stretch, salience)
    lists = list_facts(stretch.model_sentences)
    if is_trivial_talk(stretch) and not lists and not (answers and is_long_answer(stretch)):
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
        or first_heading(stretch)
        or best_answer
        or first_text(lists).removeprefix("Listed: ")
    )
    if not title.strip():
        return None
    draft = Draft(type_of_talk(stretch, request, best_answer), format_title(title))
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


def type_of_talk(stretch: Stretch, request: str, answer: str) -> str:
    own_words = [s.text for s in stretch.person_sentences if not s.question]
    type_ = cues.type_of_talk(own_words, request, answer, question=bool(request))
    if type_ in ("learning", "discovery") and stretch.is_choice:
        return "decision"
    return type_


def is_trivial_talk(stretch: Stretch) -> bool:
    if not stretch.person_sentences:
        return True
    return cues.is_trivial(stretch.request)


def is_long_answer(stretch: Stretch) -> bool:
    return len(" ".join(sentence.text for sentence in stretch.model_sentences)) >= 160


def first_heading(stretch: Stretch) -> str:
    for sentence in stretch.model_sentences:
        if sentence.heading and not sentence.text.endswith(":"):
            return sentence.text
    return ""


# -- work ---


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
    if not cues.is_trivial(stretch.request):
        request = find_request(stretch, salience)
    statements = find_statements(stretch, salience)
    answers = find_answers(stretch, salience)
    outcome = find_outcome(stretch, salience)
    subject = request or first_text(statements) or first_words(stretch)
    type_, title = own_rule(stretch, request)
    if not title:
        type_ = type_of_work(stretch, outcome)
        finding = find_finding(subject, filter(None, (outcome, *answers)))
        title = work_title(work, finding or subject, outcome or first_text(answers))
    if not title:
        return None
    draft = Draft(type_, format_title(title))
    add_said_facts(draft, stretch, answers, salience)
    add_done_facts(draft, work)
    new_statements = [text for text in statements if overlap(text, [draft.title]) < 0.8]
    add_facts(draft, new_statements[:2], MAX_FACTS)
    add_facts(draft, (best_clause(answer, salience) for answer in answers), MAX_FACTS)
    add_facts(draft, (f"Searched the web for: {q}" for q in work.web_queries[:1]), MAX_FACTS)
    draft.subtitle = choose_subtitle([capitalize(subject), outcome, *answers], draft)
    add_narrative(draft, stretch, salience)
    return draft


def first_words(stretch: Stretch) -> str:
    for sentence in stretch.person_sentences:
        if not is_empty(sentence.text) and len(terms(sentence.text)) > 1:
            return sentence.text
    return ""


def own_rule(stretch: Stretch, request: str) -> tuple[str, str]:
    """The type and the title of a message that only states a decision or a preference."""
    if request or stretch.reply or stretch.work.commits or not stretch.person_sentences:
        return "", ""
    first = stretch.person_sentences[0]
    for type_, cue in _PERSONAL:
        if cue.is_in(first.text) and not first.question:
            return type_, first.text
    return "", ""


def type_of_work(stretch: Stretch, outcome: str) -> str:
    text = f"{stretch.request[:2_000]}\n{stretch.reply}"
    type_ = cues.type_of_work(stretch.work, text, outcome)
    is_certain = type_ not in ("change", "feature", "config", "discovery")
    if is_certain and (type_ == "security" or not cues.DECISION.is_in(stretch.reply)):
        return type_
    if stretch.is_choice:
        return "decision"
    return type_


def work_title(work: Work, subject: str, outcome: str) -> str:
    """What came out of the work: the commit, or how the model describes it."""
    if work.commits:
        return work.commits[-1]
    if work.changes:
        if len(terms(outcome)) >= MIN_OUTCOME_TERMS:
            return outcome
        title = change_title(work)
        if subject:
            title += f": {without_politeness(subject)}"
        return title
    if cues.RUN_TESTS.at_start(subject) and any(run.outcomes for run in work.runs.values()):
        return list(work.runs.values())[-1].description
    if subject or outcome:
        return subject or outcome
    if work.commands:
        return f"Ran {work.commands[0]}"
    return ""


def change_title(work: Work) -> str:
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


def add_said_facts(
    draft: Draft, stretch: Stretch, answers: Sequence[str], salience: Salience
) -> None:
    """What was said, by use: causes, decisions with what was offered, numbers, errors."""
    causes = [text for text in answers if cues.LEARNING.is_in(text)]
    add_facts(draft, (cause(text, salience) for text in causes[:2]), 2)
    add_facts(draft, decisions(stretch)[:1], 3)
    offers = {sentence.text for sentence in stretch.model_sentences[: stretch.offer]}
    add_facts(draft, (text for text in answers if text in offers), 3)
    numbers = [text for text in answers if _DIGIT.search(text)]
    closing = {sentence.text for sentence in stretch.model_sentences[stretch.closing :]}
    outcomes = [text for text in answers if text in closing and text not in numbers]
    add_facts(draft, (best_clause(text, salience) for text in (*numbers[:2], *outcomes[:1])), 4)
    if draft.type in ("bugfix", "debug") or not stretch.work.changes:
        errors = stretch.work.errors or [error_line(stretch.pasted)]
        add_facts(draft, errors[:1], 4)


def decisions(stretch: Stretch) -> list[str]:
    """The clauses of sentences in which the person states a decision or a preference."""
    clauses: list[str] = []
    for sentence in stretch.person_sentences:
        if not sentence.question and cues.has_decision(sentence.text):
            clauses += split_clauses(sentence.text, MAX_FACT_LENGTH)
    return clauses


def cause(sentence: str, salience: Salience) -> str:
    """The sentence that names a cause; if it is long, the clause of it that does."""
    if len(sentence) <= MAX_FACT_LENGTH:
        return sentence
    clauses = [text for text in split_clauses(sentence, 70) if cues.LEARNING.is_in(text)]
    if clauses:
        return clauses[0]
    return best_clause(sentence, salience)


def add_done_facts(draft: Draft, work: Work) -> None:
    """What was done: test runs, changed files, commits."""
    runs = [run for run in work.runs.values() if run.is_test or "failed" in run.outcomes]
    add_facts(draft, (run.description for run in runs), 5)
    add_facts(draft, change_facts(work), MAX_FACTS)
    add_facts(draft, (f"Committed: {commit}" for commit in work.commits[:-1][-1:]), MAX_FACTS)


def change_facts(work: Work) -> list[str]:
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
            if cue.is_in(sentence.text) and not sentence.question and len(sentence.text) < 400
        ]
        if texts:
            facts = [clause for text in texts[:2] for clause in split_clauses(text, FACT_LENGTH)]
            draft = Draft(type_, format_title(texts[0]), has_files=False)
            add_facts(draft, facts, 3)
            yield draft
            return


def capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
