"""Programs that are killed at a random point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

KILLS = int(os.environ.get("KILLS", "6"))
"""How often: `make test-all` sets 100, `make soak` 1,000."""


def run_and_kill(code: str, *arguments: str, lines: int) -> list[str]:
    """Run a program, kill it after it has printed this many lines, and return all lines printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    output = []
    for _ in range(lines):
        line = process.stdout.readline()
        if not line:
            break
        output.append(line)
    process.send_signal(signal.SIGKILL)
    output += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    return [line.strip() for line in output if line.endswith("\n")]
