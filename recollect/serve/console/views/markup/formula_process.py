"""Convert formulas in another process.

Formulas are written by others, and the converter is native code: nesting can exhaust its stack, and
its time doubles with each bracket that is not closed. In the server, either would stop every
request. Here, it costs the formula.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_WORKER = Path(__file__).with_name("formula_worker.py")
_MAX_SECONDS = 3.0
_PAUSE_SECONDS = 10.0
"""After a formula that was too much. A text may contain a thousand of them."""
_INHERITED = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONPATH",
    "SYSTEMROOT",
)
"""The variables that the process gets. Others may contain secrets."""


class FormulaProcess:
    """Starts with the first formula, and again if it was killed."""

    def __init__(
        self, max_seconds: float = _MAX_SECONDS, pause_seconds: float = _PAUSE_SECONDS
    ) -> None:
        self._max_seconds = max_seconds
        self._pause_seconds = pause_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._paused_until = 0.0
        atexit.register(self.close)

    def convert(self, source: str, display: bool) -> str:
        """A formula as MathML; empty if that is not possible."""
        request = json.dumps([source, display]).encode("ascii") + b"\n"
        with self._lock:
            if time.monotonic() < self._paused_until:
                return ""
            reply = self._exchange(request)
            if not reply:
                self._paused_until = time.monotonic() + self._pause_seconds
                self._stop()
                return ""
        return str(json.loads(reply))

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _exchange(self, request: bytes) -> bytes:
        """The reply to a request; empty if the process dies or takes too long."""
        if self._process is None:
            self._process = _start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(self._max_seconds, process.kill)
        watch.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            return process.stdout.readline()
        except OSError:
            return b""
        finally:
            watch.cancel()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        process.wait()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-P", str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _INHERITED if name in os.environ},
        start_new_session=True,
    )
