"""`recollect hook`: called by an agent when a session starts, a turn ends, or the session ends.

The agent waits for the hook. So the hook does little, leaves the rest to a background process,
and never fails: errors go to `hook.log` in the home folder, and the session continues.

`session-start` prints recent work in the project for the model to read. `stop` and `session-end`
queue the transcript for import and start the importing process, unless it is already running.
Heavy modules are imported only when they are needed.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager

from recollect.capture.inbox import Inbox
from recollect.home_folder import HOOK_LOG, SPOOL

TYPE_CHECKING = False  # typing takes longer to load than a hook to run
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

EVENTS = ("session-start", "stop", "session-end", "import")
OPTIONS = {"--home": "RECOLLECT_HOME", "--user": "RECOLLECT_USER"}
DIGEST_SECONDS = 5.0  # how long a session may wait for its digest
INPUT_BYTES = 1 << 20
LOG_BYTES = 1 << 20
LINE_LENGTH = 2_000
_TRANSCRIPTS = (".jsonl", ".json")


def main(arguments: list[str]) -> int | None:
    """Run a hook. Returns None if the user asked for help."""
    if "-h" in arguments or "--help" in arguments:
        return None
    event = parse_arguments(arguments)
    if event is None:
        # Exit status 2 would tell the agent that it must not stop.
        sys.stderr.write(
            f"recollect hook: expected one of {', '.join(EVENTS)}; see `recollect hook --help`.\n"
        )
        return 1
    try:
        if event == "import":
            from recollect.capture.drain import import_queue

            if hasattr(os, "nice"):
                os.nice(10)
            import_queue(inbox(), log)
        else:
            handle(event)
    except Exception as error:  # a hook must never disturb the agent that runs it
        log(f"{event}: {error!r}")
    return 0


def parse_arguments(arguments: list[str]) -> str | None:
    """The event, or None if the arguments are wrong.

    --home and --user go into the environment, for this process and the one that it starts.
    """
    events = []
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag in OPTIONS:
            if not equals:
                value = next(words, "")
            if not value:
                return None
            os.environ[OPTIONS[flag]] = value
        else:
            events.append(word)
    home = os.environ.get("RECOLLECT_HOME")
    if home and "://" not in home:  # the child process works in another folder
        folder = os.path.expanduser(home)  # noqa: PTH111 - pathlib would slow every hook down
        os.environ["RECOLLECT_HOME"] = os.path.abspath(folder)  # noqa: PTH100
    if len(events) == 1 and events[0] in EVENTS:
        return events[0]
    return None


def handle(event: str) -> None:
    if sys.stdin is None or sys.stdin.isatty():
        sys.stderr.write(
            f"recollect hook {event} expects JSON from an agent on its standard input.\n"
        )
        return
    details = json.loads(sys.stdin.buffer.read(INPUT_BYTES))
    if not isinstance(details, dict):
        raise ValueError("the agent's input is not a JSON object")
    if event == "session-start":
        start_session(details)
    else:
        queue_transcript(details, event)


# -- session start ----------------------------------------------------------


def start_session(details: dict[str, Any]) -> None:
    from recollect.errors import InvalidInput
    from recollect.settings import DIGEST_TOKENS

    try:
        tokens = DIGEST_TOKENS.get()
    except InvalidInput as error:
        log(str(error))
        tokens = DIGEST_TOKENS.default
    if tokens > 0:
        with time_limit(DIGEST_SECONDS):
            text = digest(details, tokens)
        if text:
            output = {"hookEventName": "SessionStart", "additionalContext": text}
            sys.stdout.write(json.dumps({"hookSpecificOutput": output}))
            sys.stdout.flush()
    if inbox().items():
        start_import()


def digest(details: dict[str, Any], tokens: int) -> str:
    from recollect.model.documents import Document
    from recollect.places import open_existing
    from recollect.transfer.exclusion import configured_exclusion

    # A session belongs to the folder it started in; the agent may have moved since.
    folders = dict.fromkeys((details.get("cwd"), os.environ.get("CLAUDE_PROJECT_DIR")))
    exclusion = configured_exclusion()
    projects = [
        folder
        for folder in folders
        if isinstance(folder, str)
        and folder
        and not exclusion.reason(Document("", folder, project=folder))
    ]
    library = open_existing(background=False) if projects else None
    if library is None:
        return ""
    # A session that is being resumed is in the model's context already.
    session = details.get("session_id") if details.get("source") == "resume" else None
    with library:
        return library.memory.digest(
            projects, tokens, without=session if isinstance(session, str) else None
        )


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Exit if a busy library or an unreachable server would delay the session."""
    import threading

    def give_up() -> None:
        log(f"session-start: no digest after {seconds:g} s")
        os._exit(0)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


# -- end of a turn -----------------------------------------------------------------


def queue_transcript(details: dict[str, Any], event: str) -> None:
    transcript = details.get("transcript_path")
    if not isinstance(transcript, str) or not transcript.endswith(_TRANSCRIPTS):
        raise ValueError("the agent's input has no transcript_path")
    transcript = os.path.abspath(os.path.expanduser(transcript))  # noqa: PTH100, PTH111
    from recollect.settings import USER

    inbox().put(transcript, user=USER.get(), event=event)
    start_import()


def inbox() -> Inbox:
    from recollect.settings import home

    return Inbox(str(home() / SPOOL))


def start_import() -> None:
    """Start a process that imports what is queued, unless one is running."""
    queue = inbox()
    with queue.lock() as is_free:
        pass  # the new process takes the lock itself
    if not is_free:
        return
    import subprocess

    # It outlives the agent, which ends its child processes and waits until its pipes are closed.
    null = subprocess.DEVNULL
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        options = {"creationflags": flags}
    subprocess.Popen(
        # -P: never load modules from the folder that the session works in.
        [sys.executable, "-P", "-m", "recollect", "hook", "import"],
        stdin=null,
        stdout=null,
        stderr=null,
        cwd=queue.folder,
        **options,
    )


# -- log ----------------------------------------------------------------


def log(line: str) -> None:
    """Write a line to hook.log in the home folder. The previous log is kept as hook.log.1."""
    from contextlib import suppress
    from time import gmtime, strftime

    from recollect.settings import home

    with suppress(Exception):  # there is nowhere else to report it
        path = str(home() / HOOK_LOG)
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            text = " ".join(line.encode("utf-8", "replace").decode().split())[:LINE_LENGTH]
            os.write(file, f"{strftime('%Y-%m-%dT%H:%M:%SZ', gmtime())} {text}\n".encode())
            full = os.fstat(file).st_size > LOG_BYTES
        finally:
            os.close(file)
        if full:
            os.replace(path, f"{path}.1")  # noqa: PTH105
