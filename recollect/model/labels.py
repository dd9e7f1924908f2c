"""Labels: what is shown as the title of a conversation, also if it has none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from recollect.language.symbols import without_terminal_codes
from recollect.language.text import storable
from recollect.model.audience import ALL, is_human_only
from recollect.model.documents import Passage

UNTITLED = "Untitled"
LABEL_LENGTH = 60
MESSAGES_FOR_LABEL = 20
"""How many messages at the beginning of a conversation can become its label."""


_GREETINGS = frozenset(
    (
        "hi hey hello hallo moin hola salut bonjour ciao ok okay test thanks danke yes"
        " there claude chatgpt gemini you thank"
    ).split()
)
# Marks of headings, quotes, lists and tasks at the start of a line; emphasis and code; links.
_LINE_MARK = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]|>[ \t]?|[-*+][ \t]|\d{1,3}[.)][ \t]|\[[ xX]\][ \t])+", re.MULTILINE
)
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|~~|``?)(?=\S)([^*`~\n]+?)(?<=\S)\1(?!\w)")
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\)")
_NO_MARKS = str.maketrans("", "", ",.!?")
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})  # categories of characters


def readable_title(title: str) -> str:
    """A title without the colours of a terminal; empty if nothing of it can be seen."""
    readable = without_terminal_codes(title)
    return readable if is_visible(readable) else ""


def is_visible(text: str) -> bool:
    return any(unicodedata.category(character) not in _INVISIBLE for character in text)


def is_greeting(text: str) -> bool:
    words = text[:40].lower().translate(_NO_MARKS).split()
    return len(text) < 40 and _GREETINGS.issuperset(words)


def label_of(passages: Iterable[Passage]) -> str:
    """The first words of the user that say something, or else of anybody; `Untitled` if none do.

    Everybody may see a label, so human-only messages are left out.
    """
    visible = [p for p in passages if p.visibility == ALL and not is_human_only(p)]
    messages = [p for p in visible if p.type == "message" and is_visible(p.content)]
    prompts = [p for p in messages if p.role == "user"]
    questions = [p for p in prompts if not is_greeting(p.content)]
    for passage in questions or prompts or messages:
        return first_words(passage.content)
    return UNTITLED


def first_words(text: str) -> str:
    """The first words of a text on one line, as many as fit, without Markdown.

    Code in a block counts only if there is nothing else.
    """
    start = without_terminal_codes(storable(text[: 20 * LABEL_LENGTH]))
    prose: list[str] = []
    code: list[str] = []
    fence = ""
    for line in start.split("\n"):
        mark = line.strip()[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        else:
            (code if fence else prose).append(line)
    words, all_words = (without_markdown("\n".join(lines)) for lines in (prose, prose + code))
    label = next(filter(None, (" ".join(t.split()) for t in (words, all_words, start))), "")
    if len(label) <= LABEL_LENGTH:
        return label
    end = label.rfind(" ", LABEL_LENGTH // 2, LABEL_LENGTH)
    return label[: LABEL_LENGTH - 1 if end < 0 else end] + "…"


def without_markdown(text: str) -> str:
    text = _LINK.sub(r"\1", _LINE_MARK.sub("", text))
    return _EMPHASIS.sub(r"\2", text)
