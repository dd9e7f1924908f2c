"""`recollect redact`: remove secrets from the library, or report them."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.cli.common import console, define, existing, print_json, safe, safe_line
from recollect.cli.progress import ProgressBar
from recollect.transfer.redaction import Redaction

_EXAMPLES = """\
  recollect redact --report             list the messages that contain secrets, without the secrets
  recollect redact                      remove them permanently
"""
_ROWS = 50


def define_redact(command: argparse.ArgumentParser) -> None:
    define(command, redact, _EXAMPLES)
    command.add_argument("--report", action="store_true", help="change nothing; only report")


def redact(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        description = "Searching" if arguments.report else "Redacting"
        with ProgressBar(description) as bar:
            redaction = library.redact(report=arguments.report, progress=bar.report)
    if arguments.json:
        print_json(
            {
                "done": redaction.done,
                "kinds": dict(redaction.kinds),
                "documents": [asdict(d) for d in redaction.documents],
                "earlier_states": redaction.states,
            }
        )
    else:
        _show(redaction)
    return 0


def _show(redaction: Redaction) -> None:
    out = console()
    if not redaction.documents and not redaction.states:
        out.print("No secrets found.")
        return
    table = Table("document", "title", "secrets", "messages", box=SIMPLE_HEAD, pad_edge=False)
    for document in redaction.documents[:_ROWS]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in document.kinds.items())
        messages = ", ".join(safe(message) for message in document.messages[:3])
        if len(document.messages) > 3:
            messages += " …"
        table.add_row(safe(document.id), safe_line(document.title), kinds, messages)
    out.print(table)
    if len(redaction.documents) > _ROWS:
        out.print(f"and {len(redaction.documents) - _ROWS:,} more; --json lists them all")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in redaction.kinds.most_common())
    if redaction.done:
        out.print(
            f"Redacted: {kinds or 'earlier versions'}. "
            "Set RECOLLECT_REDACT=on to keep new ones out."
        )
    else:
        out.print(
            f"Found: {kinds}. Nothing was changed; `recollect redact` removes them permanently."
        )
