"""Progress bars for people, on standard error."""

from __future__ import annotations

from types import TracebackType

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

from recollect.cli.common import console, safe

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
