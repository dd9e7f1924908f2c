"""`recollect knowledge add`, `edit`, `delete` and `export`: change items, write them to files."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from recollect.cli.commands import command, together
from recollect.cli.common import (
    OUTPUT,
    console,
    existing,
    is_confirmed,
    print_json,
    print_purge,
    safe,
    safe_line,
    show,
    writable,
    write_file,
)
from recollect.configuration import expand_path
from recollect.errors import Conflict, InvalidInput
from recollect.library import Library
from recollect.model.documents import Summary
from recollect.transfer.export import write_json

FORMATS = {
    "notes": ("md", "txt", "json"),
    "media": ("txt", "md", "json", "srt", "vtt"),
    "characters": ("json",),
    "prompts": ("json", "md", "txt"),
}
_MAIN_FIELDS = {"characters": "description", "prompts": "user_prompt"}
"""The kinds that consist of fields instead of a text, and the main field of each."""
_KIND = f"kind {'|'.join(FORMATS)}  the kind"
_ITEM = f"""
    {_KIND}
    id  its id, as `list` and `search` show it; or the name of a character or prompt
"""
_FIELDS = """
    --text TEXT        notes and media: the text
    --file FILE        notes and media: a file with the text; - is standard input
    --transcript FILE  media: a transcript with times (SRT, VTT, SBV or JSON)
    --tag NAME...      a tag or keyword; may be repeated
    --set FIELD=VALUE...  another field; @FILE reads the value from a file; may be repeated
"""


# -- adding and editing --------------------------------------------------------


@command(
    "knowledge add",
    together(_KIND, "title?  its title or name", _FIELDS),
    """
    recollect knowledge add notes 'Roses' --text 'Prune them in late winter.' --tag garden
    recollect knowledge add notes --file ideas.md
    recollect knowledge add media 'A talk' --transcript talk.srt --set media_type=video
    recollect knowledge add prompts 'Summarise' --set user_prompt='Summarise: {text}' --tag work
    recollect knowledge add characters 'Rosa' --set description=@rosa.txt
    recollect knowledge add notes 'Journal'                 opens $EDITOR

    To import files and folders, use `recollect import`.
    """,
)
def add(arguments: argparse.Namespace) -> int:
    """Add a note, media item, character or prompt."""
    fields = read_fields(arguments)
    if arguments.kind not in _MAIN_FIELDS and not fields.keys() & {"content", "transcript"}:
        fields["content"] = edit_in_editor("", ".md") if sys.stdin.isatty() else read("-")
    with writable(arguments) as library:
        summary = library.knowledge.create(arguments.kind, fields)
    return print_summary(arguments, summary, "Added")


@command(
    "knowledge edit",
    together(
        _ITEM,
        "--title TITLE  a new title or name",
        _FIELDS,
        "--version 0..  fail if the item has another version",
    ),
    """
    recollect knowledge edit notes NOTE                     opens $EDITOR
    recollect knowledge edit notes NOTE --title 'Roses' --tag garden --tag winter
    recollect knowledge edit prompts Summarise --set system_prompt=@system.txt
    recollect knowledge edit notes NOTE --text 'New.' --version 3
    """,
)
def edit(arguments: argparse.Namespace) -> int:
    """Change some fields of an item."""
    fields, version = read_fields(arguments), arguments.version
    with existing(arguments) as library:
        if not fields:
            item = library.knowledge.find(arguments.kind, arguments.id)
            if arguments.kind in _MAIN_FIELDS or not sys.stdin.isatty():
                raise InvalidInput(
                    "There is nothing to change. Use --title, --text, --file, --tag or --set."
                )
            name, before = editable_text(library, arguments.kind, item)
            fields = {name: edit_in_editor(before, ".md" if name == "content" else ".srt")}
            version = version or item.version
            if fields[name] == before:
                console(stderr=True).print("Nothing was changed.")
                return 0
        try:
            summary = library.knowledge.edit(arguments.kind, arguments.id, fields, version)
        except Conflict as error:
            raise Conflict(f"{error}{save_draft(fields)}") from None
    return print_summary(arguments, summary, "Changed")


def editable_text(library: Library, kind: str, item: Summary) -> tuple[str, str]:
    """The field that a person edits, and its text: the transcript with times, or the content."""
    passages = library.knowledge.document(kind, item.id).passages
    if any(passage.metadata.get("cues") for passage in passages):
        return "transcript", library.knowledge.transcript(item.id, "srt")
    return "content", "".join(passage.content for passage in passages)


def print_summary(arguments: argparse.Namespace, item: Summary, action: str) -> int:
    if arguments.json:
        from recollect.knowledge.results import list_entry

        return print_json(list_entry(item))
    title = safe_line(item.title) or "Untitled"
    name = f"{arguments.kind} {safe(item.id)}"
    console().print(f"{action} [bold]{title}[/], version {item.version}. [dim]{name}[/]")
    return 0


def read_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields that the arguments set."""
    fields: dict[str, Any] = {}
    for assignment in arguments.set:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise InvalidInput(f"--set {assignment}: write it as FIELD=VALUE.")
        fields[name] = read(value[1:]) if value.startswith("@") else value
    for name in fields.keys() & {"card", "character_book", "alternate_greetings"}:
        try:
            fields[name] = json.loads(fields[name])
        except ValueError:
            raise InvalidInput(f"--set {name}: the value must be JSON.") from None
    main_field = _MAIN_FIELDS.get(arguments.kind)
    if arguments.title is not None:
        fields["name" if main_field else "title"] = arguments.title
    if arguments.tag:
        name = "tags" if arguments.kind == "characters" else "keywords"
        fields[name] = [tag for tag in arguments.tag if tag]
    texts = (arguments.text, arguments.file, arguments.transcript)
    if sum(text is not None for text in texts) > 1:
        raise InvalidInput("Give one of --text, --file and --transcript.")
    if main_field and (arguments.text is not None or arguments.file is not None):
        raise InvalidInput(
            f"{arguments.kind} have fields instead of a text: use --set {main_field}=@FILE."
        )
    if arguments.text is not None:
        fields["content"] = arguments.text
    if arguments.file is not None:
        fields["content"] = read(arguments.file)
    if arguments.transcript is not None:
        fields["transcript"] = read(arguments.transcript)
    return fields


def read(path: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == "-" else expand_path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path} is not UTF-8 text. `recollect import` reads other encodings."
        ) from None


def edit_in_editor(text: str, suffix: str) -> str:
    """Let the user edit a text in their editor, and return the result."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise InvalidInput("Use --text or --file, or set EDITOR to the editor to open.")
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"draft{suffix}"
        draft.write_text(text, encoding="utf-8", errors="replace", newline="")
        command = [*shlex.split(editor), str(draft)]
        if subprocess.run(command).returncode:  # noqa: S603 - the person's own editor
            raise InvalidInput("The editor exited with an error. Nothing was changed.")
        return draft.read_text(encoding="utf-8", errors="replace")


def save_draft(fields: dict[str, Any]) -> str:
    """Save the user's text when the item was changed by someone else meanwhile."""
    text = fields.get("content") or fields.get("transcript")
    if not text:
        return ""
    with tempfile.NamedTemporaryFile(
        "w", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
    ) as file:
        file.write(text)
    return f" Your text was saved to {file.name}."


# -- deleting and exporting ----------------------------------------------------


@command(
    "knowledge delete",
    together(
        _ITEM,
        """
        --keep FILE  save the item to this file first; `recollect import` restores it
        --yes        do not ask for confirmation
        """,
    ),
    """
    recollect knowledge delete notes NOTE
    recollect knowledge delete notes NOTE --keep note.json --yes
    recollect import note.json                              restores it
    """,
)
def delete(arguments: argparse.Namespace) -> int:
    """Delete an item permanently."""
    with existing(arguments) as library:
        item = library.knowledge.find(arguments.kind, arguments.id)
        if not arguments.yes:
            if not sys.stdin.isatty():
                raise InvalidInput(
                    "Deleting is permanent. Add --yes, and --keep FILE to save a copy."
                )
            if not is_confirmed(f"Delete {item.title or item.id!r} permanently? [y/N] "):
                console(stderr=True).print("Nothing was deleted.")
                return 1
        if arguments.keep:
            document = library.knowledge.document(arguments.kind, item.id)
            write_item(arguments.keep, lambda file: write_json([document], file))
        library.knowledge.delete(arguments.kind, item.id)
        purge = library.purge_status()
    if arguments.json:
        return print_json({"deleted": item.id, "source": arguments.kind, "purge": purge.state})
    message = f"Deleted [bold]{safe_line(item.title) or 'Untitled'}[/]."
    if arguments.keep:
        message += f" Restore it with: recollect import {safe(arguments.keep)}"
    show(message)
    print_purge(purge)
    return 0


@command(
    "knowledge export",
    together(
        _ITEM,
        "--format FORMAT  "
        + "; ".join(f"{kind}: {', '.join(names)}" for kind, names in FORMATS.items())
        + " (default: the first)",
        OUTPUT,
    ),
    """
    recollect knowledge export notes NOTE                   Markdown, to standard output
    recollect knowledge export media MEDIA --format srt --output film.srt
    recollect knowledge export characters Rosa --output rosa.json
    """,
)
def export(arguments: argparse.Namespace) -> None:
    """Write an item to a file."""
    format = arguments.format or FORMATS[arguments.kind][0]
    with existing(arguments) as library:
        file = library.knowledge.export(arguments.kind, arguments.id, format)
    if arguments.json:
        print_json({"name": file.name, "media_type": file.media_type, "bytes": len(file.data)})
    if arguments.output:
        write_item(arguments.output, lambda target: target.buffer.write(file.data))
    elif not arguments.json:
        sys.stdout.buffer.write(file.data)
        sys.stdout.buffer.flush()


def write_item(path: str, write: Any) -> None:
    try:
        write_file(expand_path(path), write)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from None
