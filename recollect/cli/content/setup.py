"""`recollect setup`: find conversations on this computer, and import them if the user agrees."""

from __future__ import annotations

import argparse

from recollect.capture.discovery import Discovery
from recollect.cli.common import add_folders, add_no_index, console, define, print_json
from recollect.cli.content.finding import ask, find, paths_of
from recollect.cli.content.importing import import_paths

_EXAMPLES = """\
  recollect setup                                      look, ask, and import
  recollect setup --yes                                import everything without asking
  recollect setup --json                               only print what could be imported
  recollect setup --downloads ~/Desktop

Setup looks at the names of files: where Claude Code, Codex and Gemini CLI write
their sessions, and exports in your downloads. It opens no file before you
agree.
"""


def define_setup(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    add_folders(command, "--downloads", "where exports are (default: your downloads)")
    command.add_argument("--yes", action="store_true", help="import everything without asking")
    add_no_index(command)


def run(arguments: argparse.Namespace) -> int:
    discoveries = find(arguments.downloads)
    if arguments.json and not arguments.yes:
        print_json({"found": [_record(discovery) for discovery in discoveries]})
        return 0
    selection = discoveries
    if not arguments.yes or not discoveries:
        selection = ask(discoveries)
    if not selection:
        return 0
    status = import_paths(arguments, paths_of(selection), kind=None)
    if not arguments.json:
        out = console()
        out.print("\nTry: [bold]recollect search[/] WORDS, or [bold]recollect serve --open[/]")
        if any(discovery.sessions for discovery in selection):
            out.print("To import new sessions as they grow: recollect service install watch")
    return status


def _record(discovery: Discovery) -> dict[str, object]:
    return {
        "source": discovery.source,
        "label": discovery.label,
        "sessions": discovery.sessions,
        "paths": [str(path) for path in discovery.paths],
    }
