"""A conversation in exchanges: what a person said, and everything until they speak again.

Only the canonical path counts, and of it what is not hidden (system prompts,
reminders). Of what is for people alone only the place is kept, so that lines
and numbers are the same for whoever reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.model.audience import MASK, is_human_only
from recollect.model.documents import Document, Passage

_COMMAND = re.compile(r"\s*<command-(?:name|message)>")
_NAME = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_LONGEST_AMONG_PEOPLE = 8


@dataclass(frozen=True, slots=True)
class Exchange:
    """A stretch of a conversation: a person's words, and all that came of them."""

    number: int
    passages: tuple[Passage, ...]
    """What is for people alone is masked."""

    @property
    def told(self) -> tuple[Passage, ...]:
        """What may be quoted."""
        return tuple(p for p in self.passages if not is_human_only(p))


def opens(passage: Passage) -> bool:
    """Whether a person speaks here, by a message or a slash command."""
    if passage.role != "user" or not passage.content.strip():
        return False
    return passage.type == "message" or (
        passage.type == "context" and _COMMAND.match(passage.content) is not None
    )


def asked(passage: Passage) -> str:
    if passage.type == "message":
        return passage.content
    found = [
        match[1] for pattern in (_NAME, _ARGUMENTS) if (match := pattern.search(passage.content))
    ]
    return " ".join(filter(None, found))


def exchanges(document: Document) -> list[Exchange]:
    """The exchanges of a conversation, in its order. Among people, one goes on until whoever began it speaks again."""
    parts: list[list[Passage]] = []
    for passage in document.canonical:
        if passage.visibility == "hidden" or not (passage.content.strip() or passage.attachments):
            continue
        if not parts or (opens(passage) and _is_next(parts[-1], passage)):
            parts.append([])
        masked = is_human_only(passage)
        parts[-1].append(passage._replace(content=MASK, attachments=()) if masked else passage)
    return [Exchange(number, tuple(part)) for number, part in enumerate(parts, 1)]


def _is_next(part: Sequence[Passage], passage: Passage) -> bool:
    people = passage.author is not None and all(
        p.role == "user" and p.type == "message" for p in part
    )
    return (
        not people
        or any(p.author == passage.author for p in part[:1])
        or len(part) >= _LONGEST_AMONG_PEOPLE
    )
