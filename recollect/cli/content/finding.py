"""Find conversations on this computer, and ask which of them to import."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from recollect.capture.discovery import Discovery, discover
from recollect.cli.common import console, existing_folders, safe
from recollect.errors import InvalidInput

NOTHING = """\
Found no conversations on this computer. Import an export of your conversations:
  ChatGPT  Settings > Data controls > Export data
  Claude   Settings > Privacy > Export data
Then: recollect import PATH"""


def find(download_folders: Sequence[str] = ()) -> list[Discovery]:
    """What could be imported, judging by the names of files."""
    if not download_folders:
        return discover()
    return discover(existing_folders(download_folders))


def ask(discoveries: Sequence[Discovery]) -> list[Discovery]:
    """Ask what to import. Without a terminal, say how to do it."""
    out = console()
    if not discoveries:
        out.print(NOTHING, markup=False)
        return []
    if len(discoveries) == 1:
        out.print(f"Found {safe(discoveries[0].label)}.", soft_wrap=True)
    else:
        out.print("Found:")
        for number, discovery in enumerate(discoveries, 1):
            out.print(f"[bold cyan]{number:>3}[/]  {safe(discovery.label)}", soft_wrap=True)
    if not sys.stdin.isatty():
        out.print("Import all of it with: recollect setup --yes")
        return []
    question = "Import it? [Y/n] "
    if len(discoveries) > 1:
        question = "Import all? [Y/n, or numbers such as 1 3] "
    return choose(discoveries, input(question))


def choose(discoveries: Sequence[Discovery], answer: str) -> list[Discovery]:
    """The discoveries that an answer selects. Raises InvalidInput if it is no answer."""
    words = answer.replace(",", " ").split()
    if not words or answer.strip().lower() in ("y", "yes", "a", "all"):
        return list(discoveries)
    if answer.strip().lower() in ("n", "no", "q", "quit"):
        console().print("Nothing was imported.")
        return []
    numbers = [int(word) for word in words if word.isdigit() and word.isascii()]
    if len(numbers) < len(words) or not all(1 <= n <= len(discoveries) for n in numbers):
        raise InvalidInput(
            f"Answer yes, no, or numbers from 1 to {len(discoveries)}. Nothing was imported."
        )
    return [discoveries[number - 1] for number in dict.fromkeys(numbers)]


def paths_of(discoveries: Sequence[Discovery]) -> list[str]:
    return [str(path) for discovery in discoveries for path in discovery.paths]
