"""`recollect delete`, `tag`, `untag`, `rename`, `pin`, `unpin` and `undo`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from recollect.cli.common import (
    add_flag,
    console,
    define,
    existing,
    plural,
    print_json,
    print_purge,
    safe,
    safe_line,
    short_id,
    when,
    whole_number,
)
from recollect.cli.references import REFERENCE, forget_results, resolve
from recollect.errors import InvalidInput
from recollect.library import Library
from recollect.model.undo import DELETE, PIN, RENAME, TAG, UNTAG, Change
from recollect.settings import UNDO_MINUTES

_DELETE_EXAMPLES = """\
  recollect delete 1                                   a number of the last search or list
  recollect delete 7cdb59db 49acf998                   ids, or the beginnings of ids
  recollect undo                                       restore it, within an hour
  recollect delete 1 --permanently                     now, without undo

To delete single messages or everything about a person: recollect forget --help
"""
_TAG_EXAMPLES = """\
  recollect tag 1 garden                               a number of the last search or list
  recollect tag 7cdb59db garden summer
  recollect list --tag garden
"""
_UNTAG_EXAMPLES = """\
  recollect untag 1 garden
"""
_RENAME_EXAMPLES = """\
  recollect rename 1 Watering in July
"""
_PIN_EXAMPLES = """\
  recollect pin 1                                      a number of the last search or list
  recollect list --pinned
  recollect unpin 1
"""
_UNPIN_EXAMPLES = """\
  recollect unpin 1
"""
_UNDO_EXAMPLES = """\
  recollect undo                                       the last delete, tag, untag, rename or pin
  recollect undo --list                                what can be undone
  recollect undo 12                                    one of the list

To undo an import: recollect import --undo RECEIPT
"""


def define_delete(command: argparse.ArgumentParser) -> None:
    define(command, delete, _DELETE_EXAMPLES)
    command.add_argument("conversations", nargs="+", metavar="CONVERSATION", help=REFERENCE)
    add_flag(command, "--permanently", "keep no copy for undo; asks before it deletes")
    add_flag(command, "--yes", "do not ask")


def define_tag(command: argparse.ArgumentParser) -> None:
    define(command, tag, _TAG_EXAMPLES)
    add_tags(command)


def define_untag(command: argparse.ArgumentParser) -> None:
    define(command, untag, _UNTAG_EXAMPLES)
    add_tags(command)


def add_tags(command: argparse.ArgumentParser) -> None:
    command.add_argument("conversation", help=REFERENCE)
    command.add_argument("tags", nargs="+", metavar="TAG", help="one or more tags")


def define_rename(command: argparse.ArgumentParser) -> None:
    define(command, rename, _RENAME_EXAMPLES)
    command.add_argument("conversation", help=REFERENCE)
    command.add_argument("title", nargs="+", metavar="TITLE", help="the new title")


def define_pin(command: argparse.ArgumentParser) -> None:
    define(command, pin, _PIN_EXAMPLES)
    command.add_argument("conversations", nargs="+", metavar="CONVERSATION", help=REFERENCE)


def define_unpin(command: argparse.ArgumentParser) -> None:
    define(command, unpin, _UNPIN_EXAMPLES)
    command.add_argument("conversations", nargs="+", metavar="CONVERSATION", help=REFERENCE)


def define_undo(command: argparse.ArgumentParser) -> None:
    define(command, undo, _UNDO_EXAMPLES)
    command.add_argument(
        "numbers",
        nargs="*",
        type=whole_number(1),
        metavar="NUMBER",
        help="changes, as --list shows them (default: the last one)",
    )
    add_flag(command, "--list", "list what can be undone")


# -- changing ------------------------------------------------------------------


def delete(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        ids = resolve_all(library, arguments, arguments.conversations)
        labels = [_label(library, id_) for id_ in ids]
        if arguments.permanently:
            if not arguments.yes:
                confirm(labels)
            for id_ in ids:
                library.delete_conversation(id_)
            forget_results(arguments)
            purge = library.purge_status()
            if arguments.json:
                print_json({"deleted": ids, "purge": purge.state})
                return 0
            for label in labels:
                console().print(f"Deleted {label} permanently.", soft_wrap=True)
            print_purge(purge)
            return 0
        changes = [library.trash(id_) for id_ in ids]
    lines = [f"Deleted {label}." for label in labels]
    report(arguments, lines, changes)
    return 0


def tag(arguments: argparse.Namespace) -> int:
    names = ", ".join(arguments.tags)
    return edit(
        arguments,
        [arguments.conversation],
        lambda library, id_: library.tag(id_, *arguments.tags),
        f"Tagged {{}} with {safe(names)}.",
        f"{{}} has {pronoun(arguments.tags)} already.",
    )


def untag(arguments: argparse.Namespace) -> int:
    names = ", ".join(arguments.tags)
    return edit(
        arguments,
        [arguments.conversation],
        lambda library, id_: library.untag(id_, *arguments.tags),
        f"Removed {safe(names)} from {{}}.",
        f"{{}} does not have {pronoun(arguments.tags)}.",
    )


def rename(arguments: argparse.Namespace) -> int:
    title = " ".join(arguments.title)
    return edit(
        arguments,
        [arguments.conversation],
        lambda library, id_: library.rename(id_, title),
        f"Renamed {{}} to “{safe_line(title)}”.",
        "{} has this title already.",
    )


def pin(arguments: argparse.Namespace) -> int:
    return edit(
        arguments,
        arguments.conversations,
        lambda library, id_: library.pin(id_),
        "Pinned {}.",
        "{} is pinned already.",
    )


def unpin(arguments: argparse.Namespace) -> int:
    return edit(
        arguments,
        arguments.conversations,
        lambda library, id_: library.pin(id_, pinned=False),
        "Unpinned {}.",
        "{} is not pinned.",
    )


def edit(
    arguments: argparse.Namespace,
    texts: Sequence[str],
    change: Callable[[Library, str], Change | None],
    sentence: str,
    unchanged: str,
) -> int:
    """Change conversations, and print a sentence about each with its title."""
    lines, changes = [], []
    with existing(arguments) as library:
        for id_ in resolve_all(library, arguments, texts):
            label = _label(library, id_)
            result = change(library, id_)
            if result is None:
                lines.append(unchanged.replace("{}", label))
            else:
                lines.append(sentence.replace("{}", label))
                changes.append(result)
    report(arguments, lines, changes)
    return 0


def resolve_all(library: Library, arguments: argparse.Namespace, texts: Sequence[str]) -> list[str]:
    """All ids, before anything changes. A message has no effect here, only its conversation."""
    return list(dict.fromkeys(resolve(library, arguments, text).id for text in texts))


def _label(library: Library, id_: str) -> str:
    summary = library.summary(id_)
    return f"“{safe_line(library.label(id_, summary.title))}”"


def pronoun(tags: Sequence[str]) -> str:
    if len(tags) == 1:
        return "this tag"
    return "these tags"


def confirm(labels: Sequence[str]) -> None:
    """Ask before something is deleted for good. Raises InvalidInput if the answer is not yes."""
    if not sys.stdin.isatty():
        raise InvalidInput("This cannot be undone. Add --yes to delete permanently.")
    for label in labels:
        console().print(label, soft_wrap=True)
    noun = plural(len(labels), "conversation")
    if input(f"Delete {noun} permanently? [y/N] ").strip().lower() not in ("y", "yes"):
        raise InvalidInput("Nothing was deleted.")


def report(arguments: argparse.Namespace, lines: Sequence[str], changes: Sequence[Change]) -> None:
    if arguments.json:
        print_json({"changes": [asdict(change) for change in changes]})
        return
    out = console()
    for line in lines:
        out.print(line, soft_wrap=True)
    if not changes:
        return
    command = "recollect undo"
    if len(changes) > 1:
        command += "".join(f" {change.number}" for change in changes)
    minutes = plural(UNDO_MINUTES.get(), "minute")
    out.print(f"[dim]Undo with: {command} (within {minutes})[/]", soft_wrap=True)


# -- undoing -------------------------------------------------------------------


def undo(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        if arguments.list:
            return list_changes(library, arguments)
        changes = [library.undo(number) for number in arguments.numbers or [None]]
        lines = [describe_undo(library, change) for change in changes]
    if arguments.json:
        print_json({"undone": [asdict(change) for change in changes]})
        return 0
    for line in lines:
        console().print(line, soft_wrap=True)
    return 0


def describe_undo(library: Library, change: Change) -> str:
    """What the library looks like again."""
    label = _label(library, change.id)
    if change.action == DELETE:
        return f"Restored {label}."
    if change.action == RENAME:
        return f"Renamed “{safe_line(change.title)}” back to {label}."
    if change.action == TAG:
        return f"Removed the tags that were added to {label}."
    if change.action == UNTAG:
        return f"Put the tags of {label} back."
    if change.action == PIN:
        return f"Unpinned {label}."
    return f"Pinned {label} again."


_NOUNS = {
    "delete": "deleted",
    "rename": "renamed",
    "tag": "tagged",
    "untag": "untagged",
    "pin": "pinned",
    "unpin": "unpinned",
}


def list_changes(library: Library, arguments: argparse.Namespace) -> int:
    changes = library.changes()
    if arguments.json:
        print_json({"changes": [asdict(change) for change in changes]})
        return 0
    out = console()
    if not changes:
        out.print("There is nothing to undo.")
    for change in changes:
        id_ = change.id
        if change.action != DELETE:
            id_ = short_id(library, id_)
        out.print(
            f"[bold cyan]{change.number:>4}[/]  {when(change.changed_at)}  "
            f"{_NOUNS[change.action]:<8}  {safe_line(change.title)} [dim]{safe(id_)}[/]",
            soft_wrap=True,
        )
    return 0
