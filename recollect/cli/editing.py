"""`recollect delete`, `tag`, `untag`, `rename`, `pin`, `unpin` and `undo`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from recollect.cli.commands import command
from recollect.cli.common import (
    console,
    existing,
    is_confirmed,
    plural,
    print_json,
    print_purge,
    safe,
    safe_line,
    short_id,
    show,
    when,
)
from recollect.cli.references import REFERENCE, forget_results, resolve_all
from recollect.errors import InvalidInput
from recollect.library import Library
from recollect.model.undo import DELETE, PIN, RENAME, TAG, UNPIN, UNTAG, Change
from recollect.settings import UNDO_MINUTES

_CONVERSATIONS = f"conversations+ CONVERSATION  {REFERENCE}"
_TAGS = f"""
    conversation  {REFERENCE}
    tags+ TAG     one or more tags
"""


@command(
    "delete",
    f"""
    {_CONVERSATIONS}
    --permanently  keep no copy for undo; asks before it deletes
    --yes          do not ask
    """,
    """
    recollect delete 1                                   a number of the last search or list
    recollect delete 7cdb59db 49acf998                   ids, or the beginnings of ids
    recollect undo                                       restore it, within an hour
    recollect delete 1 --permanently                     now, without undo

    To delete single messages or everything about a person: recollect forget --help
    """,
)
def delete(arguments: argparse.Namespace) -> int | None:
    with existing(arguments) as library:
        ids = resolve_all(library, arguments, arguments.conversations)
        labels = [label_of(library, id_) for id_ in ids]
        if not arguments.permanently:
            changes = [library.trash(id_) for id_ in ids]
            return report(arguments, [f"Deleted {label}." for label in labels], changes)
        if not arguments.yes:
            if not sys.stdin.isatty():
                raise InvalidInput("This cannot be undone. Add --yes to delete permanently.")
            for label in labels:
                show(label)
            if not is_confirmed(f"Delete {plural(len(ids), 'conversation')} permanently? [y/N] "):
                raise InvalidInput("Nothing was deleted.")
        for id_ in ids:
            library.delete_conversation(id_)
        forget_results(arguments)
        purge = library.purge_status()
    if arguments.json:
        return print_json({"deleted": ids, "purge": purge.state})
    for label in labels:
        show(f"Deleted {label} permanently.")
    print_purge(purge)
    return None


@command(
    "tag",
    _TAGS,
    """
    recollect tag 1 garden                               a number of the last search or list
    recollect tag 7cdb59db garden summer
    recollect list --tag garden
    """,
)
@command("untag", _TAGS, "recollect untag 1 garden")
@command(
    "rename",
    f"""
    conversation  {REFERENCE}
    title+ TITLE  the new title
    """,
    "recollect rename 1 Watering in July",
)
@command(
    "pin",
    _CONVERSATIONS,
    """
    recollect pin 1                                      a number of the last search or list
    recollect list --pinned
    recollect unpin 1
    """,
)
@command("unpin", _CONVERSATIONS, "recollect unpin 1")
def edit(arguments: argparse.Namespace) -> int:
    """Change conversations, and print a sentence about each with its title."""
    tags, title = getattr(arguments, "tags", ()), " ".join(getattr(arguments, "title", ()))
    texts = getattr(arguments, "conversations", None) or [arguments.conversation]
    names, these = safe(", ".join(tags)), "this tag" if len(tags) == 1 else "these tags"
    lines, changes = [], []
    with existing(arguments) as library:
        edits: dict[str, tuple[Callable[[str], Change | None], str, str]] = {
            TAG: (
                lambda id_: library.tag(id_, *tags),
                "Tagged {label} with {names}.",
                "{label} has {these} already.",
            ),
            UNTAG: (
                lambda id_: library.untag(id_, *tags),
                "Removed {names} from {label}.",
                "{label} does not have {these}.",
            ),
            RENAME: (
                lambda id_: library.rename(id_, title),
                "Renamed {label} to “{title}”.",
                "{label} has this title already.",
            ),
            PIN: (library.pin, "Pinned {label}.", "{label} is pinned already."),
            UNPIN: (
                lambda id_: library.pin(id_, pinned=False),
                "Unpinned {label}.",
                "{label} is not pinned.",
            ),
        }
        change, sentence, unchanged = edits[arguments.command]
        for id_ in resolve_all(library, arguments, texts):
            label = label_of(library, id_)
            result = change(id_)
            text = sentence if result else unchanged
            line = text.format(label=label, names=names, these=these, title=safe_line(title))
            lines.append(line)
            changes += [result] if result else []
    return report(arguments, lines, changes)


def label_of(library: Library, id_: str) -> str:
    return f"“{safe_line(library.label(id_, library.summary(id_).title))}”"


def report(arguments: argparse.Namespace, lines: Sequence[str], changes: Sequence[Change]) -> int:
    if arguments.json:
        return print_json({"changes": [asdict(change) for change in changes]})
    for line in lines:
        show(line)
    if changes:
        numbers = "".join(f" {change.number}" for change in changes) if len(changes) > 1 else ""
        minutes = plural(UNDO_MINUTES.get(), "minute")
        show(f"[dim]Undo with: recollect undo{numbers} (within {minutes})[/]")
    return 0


_ACTIONS = {
    DELETE: ("deleted", "Restored {label}."),
    RENAME: ("renamed", "Renamed “{title}” back to {label}."),
    TAG: ("tagged", "Removed the tags that were added to {label}."),
    UNTAG: ("untagged", "Put the tags of {label} back."),
    PIN: ("pinned", "Unpinned {label}."),
    UNPIN: ("unpinned", "Pinned {label} again."),
}
"""What each change is called, and what the library looks like after undoing it."""


@command(
    "undo",
    """
    numbers* 1..  changes, as --list shows them (default: the last one)
    --list        list what can be undone
    """,
    """
    recollect undo                                       the last delete, tag, untag, rename or pin
    recollect undo --list                                what can be undone
    recollect undo 12                                    one of the list

    To undo an import: recollect import --undo RECEIPT
    """,
)
def undo(arguments: argparse.Namespace) -> int | None:
    with existing(arguments) as library:
        if not arguments.list:
            changes = [library.undo(number) for number in arguments.numbers or [None]]
            if arguments.json:
                return print_json({"undone": [asdict(change) for change in changes]})
            for change in changes:
                title, label = safe_line(change.title), label_of(library, change.id)
                show(_ACTIONS[change.action][1].format(title=title, label=label))
            return None
        changes = library.changes()
        if arguments.json:
            return print_json({"changes": [asdict(change) for change in changes]})
        if not changes:
            console().print("There is nothing to undo.")
        for change in changes:
            id_ = change.id if change.action == DELETE else short_id(library, change.id)
            show(
                f"[bold cyan]{change.number:>4}[/]  {when(change.changed_at)}  "
                f"{_ACTIONS[change.action][0]:<8}  {safe_line(change.title)} [dim]{safe(id_)}[/]"
            )
    return None
