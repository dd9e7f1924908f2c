"""The sentences of a stretch that are worth quoting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from recollect.memory.observe import cues, replies
from recollect.memory.observe.drafts.stretches import Stretch
from recollect.memory.observe.prose import Sentence, split_clauses, without_lead
from recollect.memory.observe.salience import Salience, is_about_self, is_empty, score_details
from recollect.memory.observe.sentence_words import overlap, terms, words
from recollect.memory.observe.work import error_line

MIN_OUTCOME_TERMS = 3
FACT_LENGTH = 60  # approximate characters: a fact is a thought, not a paragraph
_MAX_SMALL_TALK = 40
_MIN_ANSWER = 160
"""The characters of an answer that is worth remembering although hardly anything was asked."""
_LIST_LENGTHS = (72, 220)  # characters of the first and the second fact made of a list
# What the reader can do or see is not what was done.
_ADVICE = re.compile(r"(?:when|if|once) you\b|(?:now )?you can\b", re.IGNORECASE)
_HEAD = re.compile(r"^(.{2,60}?)(?::\s|\s[-–—]\s|\s\(|:$)")


def is_small_talk(stretch: Stretch) -> bool:
    """Whether hardly anything was asked ("Any restarts?", "ls") and nothing came of it."""
    work, request = stretch.work, stretch.request.strip()
    if work.changes or work.commits or work.renames or work.errors or work.web_queries:
        return False
    if not replies.TRIVIAL.match(request):
        is_short = len(request) <= _MAX_SMALL_TALK and request.isascii()
        if not is_short or len(terms(request)) > 1 or cues.has_decision(request):
            return False
    answer = " ".join(sentence.text for sentence in stretch.model_sentences)
    if len(answer) >= _MIN_ANSWER or cues.LEARNING.search(answer) or error_line(answer):
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
            if replies.REQUEST.match(text) and not cues.DECISION.search(sentence.text):
                is_request = True
            fewest = 1 if cues.DECISION.search(clause) else 2
            if len(terms(text)) < fewest or (is_request and not _has_own_details(stretch, text)):
                continue
            score = salience.of_person(clause, question=is_question)
            if score > 1.0:
                ranking.append((-score, number, stretch.attribute(text, number)))
    return _distinct(text for _, _, text in sorted(ranking)[:12])


def _is_question(sentence: Sentence, clause: str, text: str) -> bool:
    """Whether a clause asks for something. `text` is the clause without introductory words."""
    if sentence.question and clause.endswith(("?", "？")):
        return True
    if sentence.question:
        return replies.REQUEST.match(text) is not None or replies.asks(text)
    return replies.asks(text) and not cues.has_decision(sentence.text)


def _has_own_details(stretch: Stretch, text: str) -> bool:
    """Whether people say something about themselves although they ask for something.

    People ask questions all the time in everyday life. They state what matters without asking.
    """
    return not stretch.is_everyday and is_about_self(text) and score_details(text) >= 0.5


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
    if replies.REQUEST.match(sentence.text):
        return cues.DECISION.search(sentence.text) is None
    is_request = replies.REQUEST.match(text) is not None or replies.asks(text)
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
    return _distinct(text for _, _, text in stretch.ranking[:14])


def find_outcome(stretch: Stretch, salience: Salience) -> str:
    """How it ended: the most significant sentence of the last message."""
    closing = [
        sentence.text
        for sentence in stretch.model_sentences[stretch.closing :]
        if not sentence.question and not sentence.heading and not is_empty(sentence.text)
    ]
    closing = [text for text in closing if 15 <= len(text) <= 300 and not text.endswith(":")]
    closing = [text for text in closing if not _ADVICE.match(text)] or closing
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
    if not subject or replies.is_order(subject):
        return ""
    # A single character of a text without spaces is not a topic.
    topic = {term for term in words(subject).distinct if len(term) > 1}
    for text in sentences:
        if len(terms(text)) < MIN_OUTCOME_TERMS or replies.needs_context(without_lead(text)):
            continue
        if cues.LEARNING.search(text):
            return text
        if replies.is_question(subject) and topic & words(text).distinct:
            return text
    return ""


def list_facts(sentences: Sequence[Sentence]) -> list[str]:
    """The list items of an answer as one or two facts."""
    heads: list[str] = []
    for sentence in sentences:
        if not sentence.item:
            continue
        head = _item_head(sentence.text)
        if head and not head.endswith("?") and head not in heads and len(head.split()) <= 9:
            heads.append(head)
    if len(heads) < 2:
        return []
    return _join_heads(heads)


def _item_head(text: str) -> str:
    """The name at the beginning of a list item; the item itself if it is short."""
    match = _HEAD.match(text)
    head = ""
    if match is not None:
        head = match[1]
    elif len(text) <= 45:
        head = text
    return head.strip(" .,:;\"'“”")


def _join_heads(heads: Sequence[str]) -> list[str]:
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


def _distinct(texts: Iterable[str]) -> list[str]:
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
