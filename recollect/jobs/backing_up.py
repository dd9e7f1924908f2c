"""The job that makes a backup, in the backup folder of the machine that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recollect.jobs.runner import Handler, Run

BACKUP = "backup"
SERVER = ""
"""The user of jobs that belong to the whole server."""


class BackupHandler(Handler):
    kind = BACKUP

    def __init__(self, place: Path | str) -> None:
        self._place = place

    def run(self, run: Run) -> Any:
        from recollect.backup.schedule import back_up_now

        return back_up_now(self._place, run.report).id
