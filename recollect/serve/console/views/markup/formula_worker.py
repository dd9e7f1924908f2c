"""A process that converts LaTeX to MathML: JSON strings on lines, in and out.

It is run as a script and imports nothing else of Recollect, so it starts fast.
"""

from __future__ import annotations

import json
import sys

import math_core


def convert(source: str, display: bool) -> str:
    """A formula as MathML; empty if math-core does not know a command in it."""
    converter = math_core.LatexToMathML(fancy_error=False)
    try:
        return converter.convert_with_local_state(source, displaystyle=display)
    except math_core.LatexError:
        return ""


def main() -> None:
    for line in sys.stdin.buffer:
        source, display = json.loads(line)
        reply = json.dumps(convert(source, display)).encode("ascii")
        sys.stdout.buffer.write(reply + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
