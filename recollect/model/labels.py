"""Labels: what is shown for a conversation without a title."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.language.text import storable
from recollect.model.audience import ALL, is_human_only
from recollect.model.documents import Passage

UNTITLED = "Untitled"
LABEL_LENGTH = 60
MESSAGES_FOR_LABEL = 20
"""The first messages of a conversation, among which its label is looked for."""


def label_of(passages: Iterable[Passage]) -> str:
    """The first words of the user, or else of anybody; `Untitled` if there are none.

    Everybody may see a label, so human-only messages are left out.
    """
    visible = [p for p in passages if p.visibility == ALL and not is_human_only(p)]
    messages = [p for p in visible if p.type == "message" and p.content.strip()]
    prompts = [p for p in messages if p.role == "user"]
    for passage in prompts or messages:
        return first_words(passage.content)
    return UNTITLED


def first_words(text: str) -> str:
    """The first words of a text on one line, as many as fit."""
    line = " ".join(storable(text[: 20 * LABEL_LENGTH]).split())
    if len(line) <= LABEL_LENGTH:
        return line
    end = line.rfind(" ", LABEL_LENGTH // 2, LABEL_LENGTH)
    if end < 0:
        end = LABEL_LENGTH - 1
    return line[:end] + "…"
