"""`recollect hook`: what an agent's session calls when it starts, when a turn ends, and when it ends.

The agent waits for it, so it says little, hands the rest to a process of its
own, and never fails: whatever goes wrong is written to `hook.log` in the home,
and the session goes on as if there were no hook.

`session-start` prints what was done in this project lately, for the model to
read. `stop` and `session-end` put the transcript where `import` takes it from,
and start that unless it runs already. Nothing heavy is imported before it is
known to be needed.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager

from recollect.capture.transcripts.inbox import Spool

TYPE_CHECKING = False  # typing takes longer to load than a hook to run
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

EVENTS = ("session-start", "stop", "session-end", "import")
OPTIONS = {"--home": "RECOLLECT_HOME", "--user": "RECOLLECT_USER"}
SECONDS = 5.0  # that a session may wait for its digest
INPUT_BYTES = 1 << 20
LOG_BYTES = 1 << 20
LINE_LENGTH = 2_000
_TRANSCRIPTS = (".jsonl", ".json")


def main(arguments: list[str]) -> int | None:
    """Run a hook; None where help is asked for."""
    if "-h" in arguments or "--help" in arguments:
        return None
    event = _understood(arguments)
    if event is None:
        # Not 2, as for other commands: from a hook that means that the agent must not stop.
        sys.stderr.write(
            f"recollect hook: one of {', '.join(EVENTS)} is expected; see `recollect hook --help`.\n"
        )
        return 1
    try:
        if event == "import":
            from recollect.capture.transcripts.drain import take_all

            take_all(spool(), log)
        else:
            _called(event)
    except Exception as error:
        log(f"{event}: {error!r}")
    return 0


def _understood(arguments: list[str]) -> str | None:
    """The event. Where the library is goes into the environment, for this process and the one that it starts."""
    events = []
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag in OPTIONS:
            value = value if equals else next(words, "")
            if not value:
                return None
            os.environ[OPTIONS[flag]] = value
        else:
            events.append(word)
    home = os.environ.get("RECOLLECT_HOME")
    if home and "://" not in home:  # the process that is started works in another folder
        os.environ["RECOLLECT_HOME"] = os.path.abspath(os.path.expanduser(home))  # noqa: PTH100, PTH111
    return events[0] if len(events) == 1 and events[0] in EVENTS else None


def _called(event: str) -> None:
    if sys.stdin is None or sys.stdin.isatty():
        sys.stderr.write(
            f"recollect hook {event} is called by an agent, which writes JSON to its standard input.\n"
        )
        return
    given = json.loads(sys.stdin.buffer.read(INPUT_BYTES))
    if not isinstance(given, dict):
        raise ValueError("what the agent said is no object")
    if event == "session-start":
        _begin(given)
    else:
        _hand_over(given, event)


# -- a session starts ----------------------------------------------------------


def _begin(given: dict[str, Any]) -> None:
    tokens = _tokens()
    if tokens > 0:
        with _at_most(SECONDS):
            text = _digest(given, tokens)
        if text:
            said = {"hookEventName": "SessionStart", "additionalContext": text}
            sys.stdout.write(json.dumps({"hookSpecificOutput": said}))
            sys.stdout.flush()
    if spool().waiting():
        _start_import()


def _tokens() -> int:
    from recollect.errors import InvalidInput
    from recollect.settings import DIGEST_TOKENS

    try:
        return DIGEST_TOKENS.get()
    except InvalidInput as error:
        log(str(error))
        return DIGEST_TOKENS.default


def _digest(given: dict[str, Any], tokens: int) -> str:
    from recollect.memory.digest import digest
    from recollect.model.documents import Document
    from recollect.places import open_existing
    from recollect.transfer.exclusion import configured

    # Sessions are known by the folder that they began in; an agent may have gone elsewhere since.
    folders = [given.get("cwd"), os.environ.get("CLAUDE_PROJECT_DIR")]
    projects = list(
        dict.fromkeys(folder for folder in folders if isinstance(folder, str) and folder)
    )
    exclusion = configured()
    projects = [p for p in projects if not exclusion.reason(Document("", p, project=p))]
    library = open_existing(background=False) if projects else None
    if library is None:
        return ""
    with library:
        # What is being resumed is before the model's eyes already.
        session = given.get("session_id") if given.get("source") == "resume" else None
        return digest(
            library.store, projects, tokens, without=session if isinstance(session, str) else None
        )


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """A library that another holds, or a server that does not answer, must not hold up the session."""
    import threading

    def give_up() -> None:
        log(f"session-start: there was no digest after {seconds:g} s")
        os._exit(0)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


# -- a turn ends -----------------------------------------------------------------


def _hand_over(given: dict[str, Any], event: str) -> None:
    transcript = given.get("transcript_path")
    if not isinstance(transcript, str) or not transcript.endswith(_TRANSCRIPTS):
        raise ValueError("the agent named no transcript")
    transcript = os.path.abspath(os.path.expanduser(transcript))  # noqa: PTH100, PTH111
    spool().put(transcript, user=_user(), event=event)
    _start_import()


def spool() -> Spool:
    from recollect.settings import home

    return Spool(str(home() / "spool"))


def _user() -> str:
    from recollect.settings import USER

    return USER.get()


def _start_import() -> None:
    """Let a process of its own take what waits, unless one does."""
    waits = spool()
    with waits.alone() as alone:
        pass  # only to know; the one that is started asks again
    if not alone:
        return
    # -P: the folder that the session works in is no place to load programs from.
    command = [sys.executable, "-P", "-m", "recollect", "hook", "import"]
    if sys.platform == "win32":
        import subprocess

        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        null = subprocess.DEVNULL
        subprocess.Popen(  # noqa: S603
            command,
            stdin=null,
            stdout=null,
            stderr=null,
            cwd=waits.folder,
            creationflags=flags,
            close_fds=True,
        )
        return
    if os.fork():
        return
    try:
        os.setsid()  # the agent ends what it started; this is to go on
        os.nice(10)
        os.chdir(waits.folder)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)  # the agent waits until its pipes are closed
        os.execv(command[0], command)  # noqa: S606
    finally:
        os._exit(1)


# -- what went wrong ----------------------------------------------------------------


def log(line: str) -> None:
    """A line for the log in the home, of which the last two are kept."""
    from contextlib import suppress
    from time import gmtime, strftime

    from recollect.settings import home

    with suppress(Exception):  # there is nowhere left to say it
        path = str(home() / "hook.log")
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            said = " ".join(line.encode("utf-8", "replace").decode().split())[:LINE_LENGTH]
            os.write(file, f"{strftime('%Y-%m-%dT%H:%M:%SZ', gmtime())} {said}\n".encode())
            full = os.fstat(file).st_size > LOG_BYTES
        finally:
            os.close(file)
        if full:
            os.replace(path, f"{path}.1")  # noqa: PTH105
