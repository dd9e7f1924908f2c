"""What people see at a terminal: progress bars, a pager, and messages of a conversation."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segments
from rich.text import Text

from recollect.cli.common import Terminal, at_terminal, console, plural, safe, when
from recollect.language.text import printable
from recollect.model.documents import Passage

if TYPE_CHECKING:
    from rich.markdown import Markdown

_AMOUNTS: dict[str, type[ProgressColumn]] = {
    "messages": MofNCompleteColumn,
    "bytes": DownloadColumn,
    "percent": TaskProgressColumn,
}


_WORDS = {
    "Observing": "Reading conversations for decisions and facts",
    "Sealing": "Indexing words",
    "Embedding": "Indexing meanings",
}
"""What people read instead of the names of internal steps."""
_DETAIL_LENGTH = 40


class ProgressBar:
    """A bar that disappears when the work is done.

    with ProgressBar("Copying") as bar:
        move(..., progress=bar.report)

    Every step has a bar of its own with a fixed total, so the estimate is not distorted by the
    speed of another step. If the names reported are files and not steps, `files=True` shows them
    beside one bar.
    """

    def __init__(self, description: str, amount: str = "messages", *, files: bool = False) -> None:
        out = console(stderr=True)
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            _AMOUNTS[amount](),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[detail]}"),
            console=out,
            transient=True,
            disable=not out.is_terminal,  # otherwise, it prints an empty line
        )
        self._has_files = files
        self._step = ""
        self._task = self._bar.add_task(description, total=None, detail="")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def report(self, step: str, done: int, total: int) -> None:
        detail = ""
        if self._has_files:
            detail = safe(step[-_DETAIL_LENGTH:])
            if done >= total:
                detail = "saving the last messages"
        elif step != self._step:
            self._begin(step)
        self._bar.update(self._task, completed=min(done, total), total=total, detail=detail)

    def _begin(self, step: str) -> None:
        self._bar.remove_task(self._task)
        description = safe(_WORDS.get(step, step))
        self._task = self._bar.add_task(description, total=None, detail="")
        self._step = step

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(line, soft_wrap=True)


_COLOUR_PAGERS = ("bat", "less", "moar", "most", "ov")
"""Pagers that show colours; others would print the codes."""
_LESS_OPTIONS = "FRX"
"""Quit if it fits on one screen, show colours, and leave the text on the screen."""


def pager_command() -> list[str]:
    """The pager of the user, or `less` if it is installed; empty for none."""
    configured = os.environ.get("PAGER")
    if configured is not None:
        words = shlex.split(configured)
        if words and words[0] != "cat" and shutil.which(words[0]):
            return words
        return []
    if shutil.which("less"):
        return ["less"]
    return []


@contextmanager
def paged(*, enabled: bool = True) -> Iterator[Console]:
    """A console that writes to a pager, or to the output if there is no terminal or no pager.

    The block ends early if the user quits the pager.
    """
    out = console()
    command = pager_command()
    if not enabled or not command or not at_terminal():
        yield out
        return
    environment = os.environ | {"LESS": os.environ.get("LESS", _LESS_OPTIONS)}
    sys.stdout.flush()
    process = subprocess.Popen(  # noqa: S603  the user's own pager
        command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8"
    )
    try:
        with suppress(BrokenPipeError):
            yield pager_console(process, out)
    finally:
        with suppress(BrokenPipeError):
            process.communicate()
        wait(process)


def pager_console(process: subprocess.Popen[str], out: Console) -> Console:
    has_colours = PurePath(str(process.args[0])).stem in _COLOUR_PAGERS  # type: ignore[index]
    return Terminal(
        file=process.stdin,
        force_terminal=has_colours,
        color_system=out.color_system if has_colours else None,  # type: ignore[arg-type]
        width=out.width,
        highlight=False,
    )


def wait(process: subprocess.Popen[str]) -> None:
    """Wait for the pager, which handles Ctrl-C itself."""
    while True:
        with suppress(KeyboardInterrupt):
            process.wait()
            return


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
