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


class ProgressBar:
    """A bar that disappears when the work is done.

    with ProgressBar("Copying") as bar:
        move(..., progress=bar.report)
    """

    def __init__(self, description: str, amount: str = "messages") -> None:
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            _AMOUNTS[amount](),
            TimeRemainingColumn(),
            console=console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(description, total=None)

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

    def report(self, description: str, done: int, total: int) -> None:
        self._bar.update(
            self._task, description=safe(description[-40:]), completed=done, total=total
        )

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(line, soft_wrap=True)
