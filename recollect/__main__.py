"""`recollect`: the command line. The stdio server and the hooks take the short way, since agents wait for them."""

from __future__ import annotations

import sys


def main() -> int:
    arguments = sys.argv[1:]
    at = 0
    while at < len(arguments) and arguments[at].partition("=")[0] in ("--home", "--user"):
        at += 1 if "=" in arguments[at] else 2
    if arguments[at : at + 1] == ["mcp"]:
        from recollect.serve.mcp.transports.stdio import main as serve

        return serve(arguments[:at] + arguments[at + 1 :])
    if arguments[at : at + 1] == ["hook"]:
        from recollect.capture.transcripts.hooks import main as hook

        if (ended := hook(arguments[:at] + arguments[at + 1 :])) is not None:
            return ended
    from recollect.cli import main as command

    return command(arguments)


if __name__ == "__main__":
    sys.exit(main())
