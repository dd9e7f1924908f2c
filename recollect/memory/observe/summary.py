"""A digest of a whole conversation, in its own words and from what its tools did."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from recollect.memory.observe import cues
from recollect.memory.observe.exchanges import is_from_person, person_text, split_exchanges
from recollect.memory.observe.salience import Salience, is_empty
from recollect.memory.observe.sentences import (
    Sentence,
    prose_sentences,
    shorten,
    split_pasted,
)
from recollect.memory.observe.words import overlap
from recollect.memory.observe.work import Work, collect_work
from recollect.model.documents import Document, Passage

_REQUEST_LENGTH = 400
_PERSON_TEXT_LENGTH = 4_000
_MAX_SENTENCES = 2_000
_TASK = re.compile(
    r"^(?:content|step): (.+)$(?:\n(?!content:|step:).*)*?\nstatus: (\w+)", re.MULTILINE
)


class Digest(NamedTuple):
    """A conversation in short. A field is empty if nothing was found for it."""

    request: str = ""
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    notes: str = ""


def summary(document: Document) -> Digest:
    """What the person wanted, what was looked into, learned and completed, and what remains."""
    passages = [p for exchange in split_exchanges(document) for p in exchange.quotable]
    person_sentences: list[Sentence] = []
    model_sentences: list[Sentence] = []
    for passage in passages:
        if is_from_person(passage):
            own, _ = split_pasted(person_text(passage)[:_PERSON_TEXT_LENGTH])
            person_sentences += prose_sentences(own)
        if passage.type == "message" and passage.role == "assistant":
            model_sentences += prose_sentences(passage.content)
    work = collect_work(passages, document.project)
    sentences = (*person_sentences, *model_sentences)[:_MAX_SENTENCES]
    salience = Salience([sentence.text] for sentence in sentences)
    return Digest(
        request=first_request(person_sentences),
        investigated=_investigated(work),
        learned=join_distinct(_learned(model_sentences, salience)),
        completed=_completed(work, model_sentences, salience),
        next_steps=_next_steps(passages, model_sentences),
        notes=join_distinct(_notes(person_sentences)),
    )


def first_request(sentences: Sequence[Sentence]) -> str:
    for sentence in sentences:
        if not is_empty(sentence.text):
            return shorten(sentence.text, _REQUEST_LENGTH)
    return ""


def _learned(sentences: Sequence[Sentence], salience: Salience) -> list[str]:
    texts = [
        sentence.text
        for sentence in sentences
        if cues.LEARNING.is_in(sentence.text)
        and 20 <= len(sentence.text) <= 300
        and not sentence.question
    ]
    return sorted(texts, key=lambda text: -salience.of_answer(text, question=False))


def _notes(sentences: Sequence[Sentence]) -> list[str]:
    return [
        sentence.text
        for sentence in sentences
        if not sentence.question and cues.has_decision(sentence.text)
    ]


def join_distinct(texts: Sequence[str]) -> str:
    """The first three texts of which none says much the same as another."""
    lines: list[str] = []
    for text in texts:
        if len(lines) < 3 and overlap(text, lines) < 0.7:
            lines.append(text)
    return "\n".join(lines)


def _investigated(work: Work) -> str:
    lines = []
    if work.files_read:
        lines.append(f"Read {', '.join(work.files_read[:8])}")
    lines += [f"Searched the web for: {query}" for query in work.web_queries[:3]]
    return "\n".join(lines)


def _completed(work: Work, sentences: Sequence[Sentence], salience: Salience) -> str:
    if work.commits:
        commits = list(dict.fromkeys(work.commits))
        return "\n".join(f"Committed: {commit}" for commit in commits[-5:])
    if work.changes:
        return "\n".join(change.description for change in work.largest_changes[:5])
    closing = [
        sentence.text
        for sentence in sentences[-20:]
        if not sentence.question and not is_empty(sentence.text) and not sentence.text.endswith(":")
    ]
    return max(closing, key=lambda text: salience.of_answer(text, question=False), default="")


def _next_steps(passages: Sequence[Passage], sentences: Sequence[Sentence]) -> str:
    """The open tasks of the last task list; without one, what the last messages call next steps."""
    task_lists = [
        passage
        for passage in passages
        if passage.type == "tool_call"
        and (passage.tool or "").casefold() in ("todowrite", "update_plan")
    ]
    if task_lists:
        tasks = _TASK.findall(task_lists[-1].content)
        return "\n".join(task for task, status in tasks if status != "completed")
    for number in range(len(sentences) - 1, max(-1, len(sentences) - 30), -1):
        sentence = sentences[number]
        is_title = sentence.heading or sentence.text.endswith(":")
        if is_title and cues.NEXT_STEPS.is_in(sentence.text):
            items = [each for each in sentences[number + 1 : number + 6] if each.item]
            return "\n".join(item.text for item in items)
    return ""
