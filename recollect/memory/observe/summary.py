"""What a session was about as a whole, in its own words and by what was done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from recollect.memory.observe import kinds
from recollect.memory.observe.exchanges import is_from_person, person_text, split_exchanges
from recollect.memory.observe.prose import Sentence, cut, is_prose, prose
from recollect.memory.observe.salience import Salience, is_empty
from recollect.memory.observe.words import overlap
from recollect.memory.observe.work import Work, work
from recollect.model.documents import Document, Passage

_LONGEST = 400
_NEXT = re.compile(
    r"\b(?:next steps?|todos?|to do|remaining|still (?:to do|open|missing)|left to do|follow-?ups?)\b",
    re.IGNORECASE,
)


class Digest(NamedTuple):
    """A session in short. Empty is what nothing was found for."""

    request: str = ""
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    notes: str = ""


def summary(document: Document) -> Digest:
    """What was asked for, looked into, learned and done, and what is left."""
    passages = [p for exchange in split_exchanges(document) for p in exchange.quotable]
    said = [s for p in passages if is_from_person(p) for s in _sentences(person_text(p)[:4_000])]
    told = [
        s
        for p in passages
        if p.type == "message" and p.role == "assistant"
        for s in _sentences(p.content)
    ]
    done = work(passages, document.project)
    salience = Salience([s.text] for s in (*said, *told)[:2_000])
    learned = [
        s.text
        for s in told
        if kinds.LEARNING.search(s.text) and 20 <= len(s.text) <= 300 and not s.question
    ]
    learned.sort(key=lambda text: -salience.of_answer(text, question=False))
    notes = [
        s.text
        for s in said
        if not s.question and (kinds.DECISION.search(s.text) or kinds.PREFERENCE.search(s.text))
    ]
    return Digest(
        request=next((cut(s.text, _LONGEST) for s in said if not is_empty(s.text)), ""),
        investigated=_investigated(done),
        learned=_few(learned, 3),
        completed=_completed(done, told, salience),
        next_steps=_left(passages, told),
        notes=_few(notes, 3),
    )


def _sentences(text: str) -> list[Sentence]:
    return [s for s in prose(text) if is_prose(s.text)]


def _few(texts: Sequence[str], most: int) -> str:
    found: list[str] = []
    for text in texts:
        if len(found) < most and overlap(text, found) < 0.7:
            found.append(text)
    return "\n".join(found)


def _investigated(done: Work) -> str:
    parts = [f"Read {', '.join(done.read[:8])}"] if done.read else []
    parts += [f"Searched the web for: {query}" for query in done.searched[:3]]
    return "\n".join(parts)


def _completed(done: Work, told: Sequence[Sentence], salience: Salience) -> str:
    if done.commits:
        return "\n".join(
            f"Committed: {commit}" for commit in list(dict.fromkeys(done.commits))[-5:]
        )
    if done.changes:
        changes = sorted(done.changes.values(), key=lambda c: -(c.added + c.removed))
        return "\n".join(change.told for change in changes[:5])
    closing = [
        s.text
        for s in told[-20:]
        if not s.question and not is_empty(s.text) and not s.text.endswith(":")
    ]
    return max(closing, key=lambda text: salience.of_answer(text, question=False), default="")


def _left(passages: Sequence[Passage], told: Sequence[Sentence]) -> str:
    """What the last list of tasks has open; else what the last words call the next steps."""
    lists = [
        p
        for p in passages
        if p.type == "tool_call" and (p.tool or "").casefold() in ("todowrite", "update_plan")
    ]
    if lists:
        tasks = re.findall(
            r"^(?:content|step): (.+)$(?:\n(?!content:|step:).*)*?\nstatus: (\w+)",
            lists[-1].content,
            re.MULTILINE,
        )
        return "\n".join(task for task, status in tasks if status != "completed")
    for number in range(len(told) - 1, max(-1, len(told) - 30), -1):
        if _NEXT.search(told[number].text) and (
            told[number].heading or told[number].text.endswith(":")
        ):
            return "\n".join(s.text for s in told[number + 1 : number + 6] if s.item)
    return ""
