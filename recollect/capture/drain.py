"""Import the transcripts that hooks have queued, one process at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.capture.inbox import Inbox
from recollect.capture.watch import import_transcript
from recollect.errors import RecollectError
from recollect.library import Library
from recollect.places import open
from recollect.settings import INDEXING, default_user
from recollect.transfer.archive import Stamp

INDEX_INTERVAL = 300.0  # seconds, during sessions; the end of a session always indexes
_INDEX_STAMP = "indexed"  # a file whose time says when that was

Log = Callable[[str], None]


def import_queue(inbox: Inbox, log: Log) -> None:
    """Import what is queued, unless another process does.

    Nothing is missed. We look once more after the lock is released: an item that was queued before
    is noticed, and a process that queues one later finds the lock free and starts another import.
    What fails stays queued for the next.
    """
    failures: set[str] = set()
    while True:
        with inbox.lock() as has_lock:
            if not has_lock:
                return
            items = [item for item in inbox.claim() if item[0] not in failures]
            for name, record in items:
                if import_item(inbox, record, log):
                    inbox.remove(name)
                else:
                    failures.add(name)
                    inbox.release(name)
        if not items and inbox.items() <= failures:
            return


def import_item(inbox: Inbox, record: dict[str, Any], log: Log) -> bool:
    """Import one transcript. Returns False if it should be tried again."""
    transcript = Path(record["transcript"])
    try:
        if not transcript.is_file():
            log(f"import: there is no {transcript}")
            return True
        user = str(record.get("user") or default_user())
        with open(user=user, background=False) as library:
            is_complete = import_file(library, transcript, log)
            seen = library.archive.seen()
            folder = transcript.resolve().with_suffix("")
            for agent in sorted(folder.glob("subagents/agent-*.jsonl")):
                if str(agent) not in seen or seen[str(agent)][0] != Stamp.of(agent):
                    import_file(library, agent, log)
            index(library, inbox, now=record.get("event") == "session-end")
    except (RecollectError, OSError) as error:
        log(f"import: {transcript}: {error}; will retry after the next turn")
        return False
    except Exception as error:  # a defect: trying again would not help
        log(f"import: {transcript}: {error!r}")
        return True
    return is_complete


def import_file(library: Library, transcript: Path, log: Log) -> bool:
    events = import_transcript(library, transcript)
    for event in events:
        if event.kind == "failed":
            log(f"import: {event.path}: {event.reason}")
    kinds = {event.kind for event in events}
    return kinds != {"failed"} or str(transcript.resolve()) in library.archive.seen()


def index(library: Library, inbox: Inbox, *, now: bool) -> None:
    """Observe and embed what is new: at the end of a session, and every few minutes during it."""
    if INDEXING.get() == "manual":
        return
    stamp = Path(inbox.folder, _INDEX_STAMP)
    if now or not stamp.exists() or time.time() - stamp.stat().st_mtime > INDEX_INTERVAL:
        stamp.touch()
        # Waiting for another process that indexes would keep the next turns out of the library.
        if not library.index(wait=False):
            stamp.unlink(missing_ok=True)  # so that the next turn tries again
