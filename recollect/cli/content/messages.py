"""Messages of a conversation on a terminal: rendered Markdown, folded tool output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.segment import Segments
from rich.text import Text

from recollect.cli.common import plural, safe, when
from recollect.language.text import printable
from recollect.model.documents import Passage

if TYPE_CHECKING:
    from rich.markdown import Markdown

FOLDED_TYPES = ("thinking", "tool_call", "tool_result", "context")
_COLOURS = {"user": "green", "assistant": "cyan", "system": "yellow", "tool": "magenta"}


class MessagePrinter:
    """Prints messages, and counts those that it folds into one line."""

    def __init__(self, out: Console, *, shows_tools: bool, marked_id: str | None) -> None:
        self._out = out
        self._shows_tools = shows_tools
        self._marked_id = marked_id
        self._after_fold = False
        self.folded = 0

    def print(self, passage: Passage) -> None:
        if self._folds(passage):
            self.folded += 1
            self._after_fold = True
            self._out.print(fold(passage), no_wrap=True, overflow="ellipsis")
            return
        if self._after_fold:
            self._out.print()
        self._after_fold = False
        self._out.print(heading(passage, is_marked=passage.id == self._marked_id))
        self._out.print(body(passage, self._out))
        self._out.print()

    def _folds(self, passage: Passage) -> bool:
        if self._shows_tools or passage.id == self._marked_id:
            return False
        return is_folded(passage)


def is_folded(passage: Passage) -> bool:
    """Whether a message is shown as one line, unless the user wants to see it whole."""
    return passage.type in FOLDED_TYPES or passage.role == "tool"


def heading(passage: Passage, *, is_marked: bool = False) -> str:
    details = [when(passage.created_at), passage.model, passage.tool]
    if passage.type not in ("message", "chunk", "field"):
        details.append(passage.type.replace("_", " "))
    if not passage.canonical:
        details.append("on another branch")
    colour = _COLOURS.get(passage.role or "", "cyan")
    name = safe(passage.author or passage.role or "text")
    line = f"[bold {colour}]{name}[/]  [dim]{safe(' · '.join(filter(None, details)))}[/]"
    if is_marked:
        return f"[bold yellow]▶[/] {line}"
    return line


def fold(passage: Passage) -> str:
    """One line for a call of a tool, its result, or thinking."""
    content = printable(passage.content).strip()
    lines = plural(len(content.splitlines()) or 1, "line")
    first_line = " ".join(content.removeprefix(f"{passage.tool}\n")[:400].split())
    if passage.type == "thinking":
        return f"[dim]▸ thinking ({lines})[/]"
    if passage.type == "tool_call":
        return f"[dim]▸ [magenta]{safe(passage.tool or 'tool')}[/] {escape(first_line)}[/]"
    if passage.type == "context":
        return f"[dim]▸ context ({lines})[/]"
    return f"[dim]  ↳ {lines}: {escape(first_line)}[/]"


def body(passage: Passage, out: Console) -> RenderableType:
    """What people wrote keeps its lines; what a model wrote is Markdown, and so is fenced code."""
    content = printable(passage.content)
    is_markdown = passage.role == "assistant" or "```" in content
    if passage.type != "message" or not is_markdown:
        return Text(content)
    try:
        return Segments(list(out.render(markdown(content))))
    except Exception:  # text that confuses the renderer is shown as it is
        return Text(content)


def markdown(text: str) -> Markdown:
    """Markdown without HTML, which would vanish, and with the line breaks of the text."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    rendered = Markdown("", hyperlinks=False, code_theme="ansi_dark")
    rendered.parsed = parser.parse(text)
    for token in rendered.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return rendered


def visible(passages: Iterable[Passage], *, hidden: bool, marked_id: str | None) -> list[Passage]:
    """The passages to print: hidden ones only on request."""
    return [p for p in passages if p.visibility != "hidden" or hidden or p.id == marked_id]
