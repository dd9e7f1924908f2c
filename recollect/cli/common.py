"""What many commands need: arguments, the library, checks of names, text, tables and JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from getpass import getpass
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape

from recollect.configuration import expand_path
from recollect.errors import InvalidInput, NotFound
from recollect.language.queries.query_tokens import ROLES
from recollect.language.text import iso, printable, printable_line
from recollect.library import Library
from recollect.model.kinds import KIND_TABLE, KINDS, OBSERVATIONS
from recollect.model.names import projects_named
from recollect.model.search import Filter
from recollect.model.sources import SOURCES
from recollect.places import open, open_existing
from recollect.settings import READ_ONLY, default_user, place
from recollect.store.values import Purge

KNOWLEDGE_KINDS = tuple(kind.knowledge for kind in KIND_TABLE)
"""The kinds, as the Knowledge API calls them."""
AS_TYPED = "Use --no-correct or quotes to search for it as typed."
"""The hint below a search with a corrected word."""
_SHORT_ID = 8
"""The fewest characters of an id that are shown."""
_WHOLE_ID = 16
"""Ids that are not longer are names, which are shown as they are."""

FILTERS = f"""
    --role ROLE...        user, assistant, tool or system; may be repeated
    --author NAME...      who wrote it; may be repeated
    --after DATE          only on or after this ISO 8601 date or time
    --before DATE         only on or before it; a bare date includes the whole day (UTC)
    --project NAME...     only this project
    --source NAME...      one of {", ".join(SOURCES)}; may be repeated
    --tag NAME...         only conversations with this tag
    --conversation ID...  only inside this conversation
"""
SEARCH = """
    --mode both|text|vector =both  by words (text), by meaning (vector) or both
    --no-correct                   do not correct words that occur nowhere
    --[no-]rerank                  let a small model judge the first hits (slower);
                                   default: the setting rerank
"""
NO_INDEX = """
    --no-index  index later; text search works at once
"""
OUTPUT = """
    -o --output FILE  a file to write (default: standard output)
"""


def existing_folders(names: Sequence[str]) -> list[Path]:
    """The folders with these names. Raises InvalidInput if there is no such folder."""
    folders = [expand_path(name) for name in names]
    for folder in folders:
        if not folder.is_dir():
            raise InvalidInput(f"There is no folder {folder}.")
    return folders


def writable(arguments: argparse.Namespace) -> Library:
    return open(arguments.home, arguments.user, background=False)


def existing(arguments: argparse.Namespace) -> Library:
    """The library to read from. Reading never creates one, and a command does not last long
    enough to index in the background."""
    library = open_existing(arguments.home, arguments.user, background=False)
    if library is None:
        raise no_library(arguments)
    reason = library.read_only
    if reason and not READ_ONLY.get():
        show(f"[dim]Read-only: {safe(reason)}.[/]", stderr=True)
    return library


def no_library(arguments: argparse.Namespace) -> NotFound:
    location: Path | str = place(arguments.home)
    if isinstance(location, str):
        location = "that address"  # it may contain a password
    return NotFound(
        f"There is no library of {arguments.user or default_user()!r} at {location} yet. "
        "Import something first: recollect import PATH"
    )


class Terminal(Console):
    """A console that leaves it to the caller what happens when its reader is gone."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    # Text is shown as it is: without this, `:bug:` would become an emoji.
    return Terminal(stderr=stderr, highlight=False, emoji=False)


def at_terminal() -> bool:
    """Whether a person reads the output. Pipes and files get formats that do not change."""
    return sys.stdout.isatty()


def safe(value: str | None) -> str:
    """Stored text for the terminal: no control sequences, no markup."""
    return escape(printable(value or ""))


def safe_line(value: str | None) -> str:
    """The same in one line, such as a title."""
    return escape(printable_line(value or ""))


def when(value: datetime | None) -> str:
    if value is None:
        return "no date"
    return value.strftime("%Y-%m-%d %H:%M")


def short_id(library: Library, id_: str) -> str:
    """The beginning of an id that no other id has: what people read and type."""
    if len(id_) <= _WHOLE_ID:
        return id_
    return id_[: max(_SHORT_ID, len(library.short_id(id_)))]


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"


def copies_label(count: int) -> str:
    """How many other messages have the same text; empty if none has."""
    if not count:
        return ""
    return f"{count:,} {'copy' if count == 1 else 'copies'}"


def print_purge(purge: Purge) -> None:
    """Say that files still contain deleted text, if they do."""
    if purge.reason:
        show(
            f"Purge pending: {purge.reason}. It is removed as soon as possible; "
            "`recollect stats` shows whether it is gone.",
            stderr=True,
        )


def print_table(headings: str, rows: Iterable[Sequence[str]], **options: Any) -> None:
    """Print rows below headings, which commas separate. Stored text in cells must be `safe`."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(*headings.split(", "), box=SIMPLE_HEAD, pad_edge=False, **options)
    for row in rows:
        table.add_row(*row)
    console().print(table)


def show(line: str, *, stderr: bool = False) -> None:
    """Print a line that the terminal may wrap, but a pipe or file gets as one."""
    console(stderr=stderr).print(line, soft_wrap=True)


def is_confirmed(question: str) -> bool:
    return input(question).strip().lower() in ("y", "yes")


def ask_for_passphrase(loss: str, options: str) -> str:
    """Ask for a new passphrase twice. `loss` is what happens without it."""
    if not sys.stdin.isatty():
        raise InvalidInput(f"There is no terminal to ask for a passphrase. Use {options}.")
    passphrase = getpass(f"New passphrase (without it, {loss}): ")
    if getpass("The same again: ") != passphrase:
        raise InvalidInput("The two passphrases differ.")
    return passphrase


def write_file(path: str | Path, write: Callable[[TextIO], object]) -> None:
    """Write a text file under another name first, so that it is complete or does not exist."""
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    try:
        with draft.open("w", encoding="utf-8", errors="replace", newline="") as file:
            write(file)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    show(f"Wrote {safe(str(target))}", stderr=True)


def print_json(value: Any) -> int:
    """ASCII with escapes: lone surrogates in stored text cannot be written as UTF-8."""
    json.dump(value, sys.stdout, indent=2, default=plain, allow_nan=False)
    sys.stdout.write("\n")
    return 0


def plain(value: object) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot print {type(value).__name__}")


def check_filters(library: Library, arguments: argparse.Namespace) -> None:
    """Raise InvalidInput if a role, source, project or tag does not exist.

    A search with an unknown name would find nothing, as if there were no such messages. Projects
    may be named by the last part of their folder; `arguments.project` gets the names that are
    stored.
    """
    for role in getattr(arguments, "role", ()):
        check(role, "role", ROLES, lambda: counted_names(library, "roles"))
    for source in getattr(arguments, "source", ()):
        check(source, "source", SOURCES, lambda: counted_names(library, "sources"))
    for tag in getattr(arguments, "tag", ()):
        if not exists(library, Filter.of(kinds=KINDS, tags=tag)):
            raise unknown_name("tag", tag, facet_names(library, "tags"))
    projects = [stored_projects(library, name) for name in getattr(arguments, "project", ())]
    arguments.project = [project for names in projects for project in names]


def stored_projects(library: Library, name: str) -> Sequence[str]:
    if exists(library, Filter.of(kinds=KINDS, projects=name)):
        return [name]
    projects = facet_names(library, "projects")
    matches = projects_named(name, projects)
    if not matches:
        raise unknown_name("project", name, projects)
    return matches


def check(
    name: str, noun: str, standard: Iterable[str], in_use: Callable[[], Iterable[str]]
) -> None:
    """A standard name is valid even if nothing in the library has it."""
    if name in standard:
        return
    names = list(in_use())
    if name not in names:
        raise unknown_name(noun, name, [*names, *standard])


def unknown_name(noun: str, name: str, names: list[str]) -> InvalidInput:
    from recollect.cli.suggestions import describe_unknown_name

    return InvalidInput(describe_unknown_name(noun, name, names))


def counted_names(library: Library, field: str) -> list[str]:
    counts = library.stats()[field]
    assert isinstance(counts, dict)
    return [name for name in counts if name != OBSERVATIONS]


def exists(library: Library, filter: Filter) -> bool:
    _, total = library.conversation_page(filter, limit=1)
    return total > 0


def facet_names(library: Library, field: str) -> list[str]:
    """All projects, sources or tags of every kind, the most frequent first."""
    return [name for name, _ in library.facet_names(field, kinds=KINDS)]
