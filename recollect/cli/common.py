"""What every command needs: options, the library, checks of names, and JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from recollect.cli import add_library, sentence
from recollect.configuration import expand_path
from recollect.errors import InvalidInput, NotFound
from recollect.language.queries.query_tokens import ROLES
from recollect.language.text import iso, printable, printable_line
from recollect.library import Library
from recollect.model.kinds import KIND_TABLE, KINDS, OBSERVATIONS
from recollect.model.projects import projects_named
from recollect.model.search import Filter
from recollect.model.sources import SOURCES
from recollect.places import open, open_existing
from recollect.settings import READ_ONLY, default_user, place
from recollect.store.values import Purge

Commands = Any  # argparse keeps the type of its subparsers private
KNOWLEDGE_KINDS = tuple(kind.knowledge for kind in KIND_TABLE)
"""The kinds, as the Knowledge API calls them."""
AS_TYPED = "Use --no-correct or quotes to search for it as typed."
"""The hint below a search with a corrected word."""
_SHORT_ID = 8
"""The fewest characters of an id that are shown."""
_WHOLE_ID = 16
"""Ids that are not longer are names, which are shown as they are."""


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    examples: str,
) -> argparse.ArgumentParser:
    """Add a command to a group, such as `recollect knowledge list`."""
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=sentence(summary)
    )
    define(command, run, examples)
    return command


def define(
    command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int], examples: str
) -> None:
    """Set what a command runs, and add the options that every command has."""
    add_examples(command, examples)
    command.set_defaults(run=run)
    add_library(command, after_command=True)
    add_flag(command, "--json", "print JSON for programs")


def define_group(group: argparse.ArgumentParser, examples: str) -> Commands:
    """Make a command a group of commands."""
    add_examples(group, examples)
    return group.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_examples(command: argparse.ArgumentParser, examples: str) -> None:
    command.epilog = "examples:\n" + examples
    command.formatter_class = argparse.RawDescriptionHelpFormatter


def add_flag(command: argparse._ActionsContainer, name: str, help: str) -> None:
    command.add_argument(name, action="store_true", help=help)


def add_list(command: argparse.ArgumentParser, name: str, help: str, **options: Any) -> None:
    """An option that may be repeated."""
    command.add_argument(name, action="append", default=[], help=help, **options)


def add_filters(command: argparse.ArgumentParser) -> None:
    add_list(command, "--role", "user, assistant, tool or system; may be repeated", metavar="ROLE")
    add_list(command, "--author", "who wrote it; may be repeated", metavar="NAME")
    command.add_argument(
        "--after", metavar="DATE", help="only on or after this ISO 8601 date or time"
    )
    command.add_argument(
        "--before",
        metavar="DATE",
        help="only on or before it; a bare date includes the whole day (UTC)",
    )
    add_origin_filters(command)
    add_list(command, "--tag", "only conversations with this tag", metavar="NAME")
    add_list(command, "--conversation", "only inside this conversation", metavar="ID")


def add_origin_filters(command: argparse.ArgumentParser) -> None:
    """Options for where conversations come from."""
    add_list(command, "--project", "only this project", metavar="NAME")
    add_list(command, "--source", f"one of {', '.join(SOURCES)}; may be repeated", metavar="NAME")


def add_folders(command: argparse.ArgumentParser, option: str, help: str) -> None:
    """An option for folders that must exist; `existing_folders` checks them."""
    add_list(command, option, f"{help}; may be repeated", metavar="FOLDER")


def existing_folders(names: Sequence[str]) -> list[Path]:
    """The folders with these names. Raises InvalidInput if there is no such folder."""
    folders = [expand_path(name) for name in names]
    for folder in folders:
        if not folder.is_dir():
            raise InvalidInput(f"There is no folder {folder}.")
    return folders


def add_no_index(command: argparse.ArgumentParser) -> None:
    """The option of commands that index what they have added."""
    add_flag(command, "--no-index", "index later; text search works at once")


def add_search_options(command: argparse.ArgumentParser) -> None:
    """Options of every search by words and meaning."""
    add_flag(command, "--no-correct", "do not correct words that occur nowhere")
    command.add_argument(
        "--rerank",
        action=argparse.BooleanOptionalAction,
        help="let a small model judge the first hits (slower); default: the setting rerank",
    )


def kind_argument(names: Collection[str]) -> Callable[[str], str]:
    """The type of an argument that names a kind: `notes`, and `note` too."""

    def parse(text: str) -> str:
        for name in names:
            if text in (name, name.removesuffix("s")):
                return name
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(names)}")

    return parse


def add_kind(command: argparse.ArgumentParser, names: Collection[str]) -> None:
    command.add_argument("kind", type=kind_argument(names), metavar="KIND", help=", ".join(names))


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
        console(stderr=True).print(f"[dim]Read-only: {safe(reason)}.[/]", soft_wrap=True)
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
        console(stderr=True).print(
            f"Purge pending: {purge.reason}. It is removed as soon as possible; "
            "`recollect stats` shows whether it is gone.",
            soft_wrap=True,
        )


def print_json(value: Any) -> None:
    """ASCII with escapes: lone surrogates in stored text cannot be written as UTF-8."""
    json.dump(value, sys.stdout, indent=2, default=plain, allow_nan=False)
    sys.stdout.write("\n")


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


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a number within bounds."""
    range_ = f"a whole number of at least {least}"
    if most is not None:
        range_ = f"a whole number from {least} to {most}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"must be {range_}, not '{text}'")
        return number

    return parse
