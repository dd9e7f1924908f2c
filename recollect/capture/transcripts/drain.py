"""Taking in the transcripts that hooks handed over: one process at a time, beside the sessions that wrote them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.capture.transcripts.inbox import Spool
from recollect.capture.transcripts.watch import take
from recollect.errors import RecollectError
from recollect.library import Library
from recollect.places import open
from recollect.settings import INDEXING, default_user
from recollect.transfer.archive import Stamp

INDEXED_EVERY = 300.0  # seconds, while sessions go on; when one ends, everything is indexed
_INDEXED = "indexed"  # a file whose time says when that was

Log = Callable[[str], None]


def take_all(spool: Spool, log: Log) -> None:
    """Take in what waits, unless another does.

    Nothing is forgotten: what is handed over before the last look is seen by it; whoever hands something over after
    that finds nobody at work, and starts one. What could not be taken in waits for the next.
    """
    tried: set[str] = set()
    while True:
        with spool.alone() as alone:
            if not alone:
                return
            found = [each for each in spool.take() if each[0] not in tried]
            for name, given in found:
                if _take(spool, given, log):
                    spool.done(name)
                else:
                    tried.add(name)
                    spool.back(name)
        if not found:
            return


def _take(spool: Spool, given: dict[str, Any], log: Log) -> bool:
    """Take one in; whether it need not be tried again."""
    transcript = Path(given["transcript"])
    try:
        if not transcript.is_file():
            log(f"import: there is no {transcript}")
            return True
        with open(user=str(given.get("user") or default_user()), background=False) as library:
            done = _taken(library, transcript, log)
            for agent in _agents_of(library, transcript):
                _taken(library, agent, log)
            _index(library, spool, now=given.get("event") == "session-end")
    except (RecollectError, OSError) as error:
        log(f"import: {transcript}: {error}; it is tried again after the next turn")
        return False
    except Exception as error:
        log(f"import: {transcript}: {error!r}")
        return True
    return done


def _taken(library: Library, transcript: Path, log: Log) -> bool:
    events = take(library, transcript)
    for event in events:
        if event.kind == "failed":
            log(f"import: {event.path}: {event.reason}")
    kinds = {event.kind for event in events}
    return kinds != {"failed"} or str(transcript.resolve()) in library.archive.seen()


def _agents_of(library: Library, transcript: Path) -> list[Path]:
    """What the session's sub-agents wrote since it was last taken in."""
    seen = library.archive.seen()
    found = sorted(transcript.resolve().with_suffix("").glob("subagents/agent-*.jsonl"))
    return [file for file in found if str(file) not in seen or seen[str(file)][0] != Stamp.of(file)]


def _index(library: Library, spool: Spool, *, now: bool) -> None:
    """Observe and embed what is new: at the end of a session, and now and then while it goes on."""
    if INDEXING.get() == "manual":
        return
    stamp = Path(spool.folder, _INDEXED)
    if now or not stamp.exists() or time.time() - stamp.stat().st_mtime > INDEXED_EVERY:
        stamp.touch()
        # Waiting for another process that indexes would keep the next turns out of the library.
        if not library.index(wait=False):
            stamp.unlink(missing_ok=True)  # so that the next turn tries again
