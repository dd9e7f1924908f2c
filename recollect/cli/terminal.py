"""What people see at a terminal: progress bars, a pager, and messages of a conversation."""

from __future__ import annotations

import argparse
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


@contextmanager
def paged(*, enabled: bool = True) -> Iterator[Console]:
    """A console that writes to the user's pager, or `less`, or to the output if there is none.

    The block ends early if the user quits the pager.
    """
    out = console()
    command = shlex.split(os.environ.get("PAGER", "less"))
    if not command or command[0] == "cat" or not shutil.which(command[0]):
        enabled = False
    if not enabled or not at_terminal():
        yield out
        return
    # Quit if it fits on one screen, show colours, and leave the text on the screen.
    environment = {"LESS": "FRX", **os.environ}
    sys.stdout.flush()
    process = subprocess.Popen(  # noqa: S603  the user's own pager
        command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8"
    )
    # Most other pagers would print the codes of colours.
    has_colours = PurePath(command[0]).stem in ("bat", "less", "moar", "most", "ov")
    try:
        with suppress(BrokenPipeError):
            yield Terminal(
                file=process.stdin,
                force_terminal=has_colours,
                no_color=not has_colours or out.no_color,
                width=out.width,
                highlight=False,
            )
    finally:
        with suppress(BrokenPipeError):
            process.communicate()
        while process.poll() is None:
            with suppress(KeyboardInterrupt):  # the pager handles Ctrl-C itself
                process.wait()


FOLDED_TYPES = ("thinking", "tool_call", "tool_result", "context")
_COLOURS = {"user": "green", "assistant": "cyan", "system": "yellow", "tool": "magenta"}


class MessagePrinter:
    """Prints messages, and counts those that it folds into one line."""

    def __init__(self, out: Console, arguments: argparse.Namespace, marked_id: str | None) -> None:
        self._out = out
        self._arguments = arguments
        self._marked_id = marked_id
        self._after_fold = False
        self.folded = 0

    def print(self, passages: Iterable[Passage]) -> None:
        """Render messages for a terminal; print them as they are in a pipe."""
        for passage in visible(passages, hidden=self._arguments.hidden, marked_id=self._marked_id):
            is_marked = passage.id == self._marked_id
            if not at_terminal():
                self._out.print(heading(passage, is_marked=is_marked))
                self._out.print(safe(passage.content), soft_wrap=True)
                self._out.print()
                continue
            if is_folded(passage) and not self._arguments.tools and not is_marked:
                self.folded += 1
                self._after_fold = True
                self._out.print(fold(passage), no_wrap=True, overflow="ellipsis")
                continue
            if self._after_fold:
                self._out.print()
            self._after_fold = False
            self._out.print(heading(passage, is_marked=is_marked))
            self._out.print(body(passage, self._out))
            self._out.print()


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
