"""`recollect knowledge add`, `edit`, `delete` and `export`: change items, write them to files."""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from recollect.cli.common import (
    Commands,
    add_command,
    add_flag,
    add_kind,
    add_list,
    console,
    existing,
    print_json,
    print_purge,
    safe,
    safe_line,
    writable,
)
from recollect.configuration import expand_path
from recollect.errors import Conflict, InvalidInput
from recollect.library import Library
from recollect.model.documents import Summary
from recollect.transfer.export import write_json

FORMATS = {
    "notes": ("md", "txt", "json"),
    "media": ("txt", "md", "json", "srt", "vtt"),
    "characters": ("json", "png"),
    "prompts": ("json", "md", "txt"),
}
_FIELDS = {"characters": "description", "prompts": "user_prompt"}
"""The kinds that consist of fields, and the main field of each."""
_ADD_EXAMPLES = """\
  recollect knowledge add notes 'Roses' --text 'Prune them in late winter.' --tag garden
  recollect knowledge add notes --file ideas.md
  recollect knowledge add media 'A talk' --transcript talk.srt --set media_type=video
  recollect knowledge add prompts 'Summarise' --set user_prompt='Summarise this: {text}' --tag work
  recollect knowledge add characters 'Rosa' --set description=@rosa.txt
  recollect knowledge add notes 'Journal'                 opens $EDITOR

To import files and folders, use `recollect import`.
"""
_EDIT_EXAMPLES = """\
  recollect knowledge edit notes NOTE                     opens $EDITOR
  recollect knowledge edit notes NOTE --title 'Roses' --tag garden --tag winter
  recollect knowledge edit prompts Summarise --set system_prompt=@system.txt
  recollect knowledge edit notes NOTE --text 'New.' --version 3
"""
_DELETE_EXAMPLES = """\
  recollect knowledge delete notes NOTE
  recollect knowledge delete notes NOTE --keep note.json --yes
  recollect import note.json                              restores it
"""
_EXPORT_EXAMPLES = """\
  recollect knowledge export notes NOTE                   Markdown, to standard output
  recollect knowledge export media MEDIA --format srt --output film.srt
  recollect knowledge export characters Rosa --format png --output rosa.png
"""


def register(actions: Commands) -> None:
    add_ = add_command(
        actions, "add", "add a note, media item, character or prompt", add, _ADD_EXAMPLES
    )
    add_kind(add_, FORMATS)
    add_.add_argument("title", nargs="?", help="its title or name")
    add_fields(add_)
    edit_ = add_command(actions, "edit", "change some fields of an item", edit, _EDIT_EXAMPLES)
    add_kind(edit_, FORMATS)
    add_id(edit_)
    edit_.add_argument("--title", help="a new title or name")
    add_fields(edit_)
    edit_.add_argument(
        "--version", type=int, metavar="N", help="fail if the item has another version"
    )
    delete_ = add_command(actions, "delete", "delete an item permanently", delete, _DELETE_EXAMPLES)
    add_kind(delete_, FORMATS)
    add_id(delete_)
    delete_.add_argument(
        "--keep",
        metavar="FILE",
        help="save the item to this file first; `recollect import` restores it",
    )
    add_flag(delete_, "--yes", "do not ask for confirmation")
    export_ = add_command(actions, "export", "write an item to a file", export, _EXPORT_EXAMPLES)
    add_kind(export_, FORMATS)
    add_id(export_)
    formats = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in FORMATS.items())
    export_.add_argument("--format", help=f"{formats} (default: the first)")
    export_.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="a file to write (default: standard output)",
    )


def add_id(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "id", help="its id, as `list` and `search` show it; or the name of a character or prompt"
    )


def add_fields(command: argparse.ArgumentParser) -> None:
    text = command.add_mutually_exclusive_group()
    text.add_argument("--text", help="notes and media: the text")
    text.add_argument(
        "--file",
        metavar="FILE",
        help="notes and media: a file with the text; - is standard input",
    )
    text.add_argument(
        "--transcript",
        metavar="FILE",
        help="media: a transcript with times (SRT, VTT, SBV or JSON)",
    )
    command.add_argument(
        "--tag", action="append", metavar="NAME", help="a tag or keyword; may be repeated"
    )
    add_list(
        command,
        "--set",
        "another field; @FILE reads the value from a file; may be repeated",
        dest="fields",
        metavar="FIELD=VALUE",
    )


# -- adding and editing --------------------------------------------------------


def add(arguments: argparse.Namespace) -> int:
    fields = _fields(arguments)
    if has_text(arguments.kind) and not fields.keys() & {"content", "transcript"}:
        fields["content"] = ask_for_text()
    with writable(arguments) as library:
        summary = library.knowledge.create(arguments.kind, fields)
    print_summary(arguments, summary, "Added")
    return 0


def ask_for_text() -> str:
    if sys.stdin.isatty():
        return edit_in_editor("", ".md")
    return read("-")


def edit(arguments: argparse.Namespace) -> int:
    fields, version = _fields(arguments), arguments.version
    with existing(arguments) as library:
        if not fields:
            item = library.knowledge.find(arguments.kind, arguments.id)
            if not has_text(arguments.kind) or not sys.stdin.isatty():
                raise InvalidInput(
                    "There is nothing to change. Use --title, --text, --file, --tag or --set."
                )
            name, before = editable_text(library, arguments.kind, item)
            suffix = ".md" if name == "content" else ".srt"
            fields = {name: edit_in_editor(before, suffix)}
            version = version or item.version
            if fields[name] == before:
                console(stderr=True).print("Nothing was changed.")
                return 0
        try:
            summary = library.knowledge.edit(arguments.kind, arguments.id, fields, version)
        except Conflict as error:
            raise Conflict(f"{error}{save_draft(fields)}") from None
    print_summary(arguments, summary, "Changed")
    return 0


def editable_text(library: Library, kind: str, item: Summary) -> tuple[str, str]:
    """The field that a person edits, and its text: the transcript with times, or the content."""
    passages = library.knowledge.document(kind, item.id).passages
    if any(passage.metadata.get("cues") for passage in passages):
        return "transcript", library.knowledge.transcript(item.id, "srt")
    return "content", "".join(passage.content for passage in passages)


def print_summary(arguments: argparse.Namespace, item: Summary, action: str) -> None:
    if arguments.json:
        from recollect.knowledge.results import list_entry

        print_json(list_entry(item))
        return
    title = safe_line(item.title) or "Untitled"
    name = f"{arguments.kind} {safe(item.id)}"
    console().print(f"{action} [bold]{title}[/], version {item.version}. [dim]{name}[/]")


def _fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields that the arguments set."""
    fields = set_fields(arguments.fields)
    if arguments.title is not None:
        name = "title" if has_text(arguments.kind) else "name"
        fields[name] = arguments.title
    if arguments.tag is not None:
        name = "tags" if arguments.kind == "characters" else "keywords"
        fields[name] = [tag for tag in arguments.tag if tag]
    if arguments.text is not None or arguments.file is not None:
        fields["content"] = content(arguments)
    if arguments.transcript is not None:
        fields["transcript"] = read(arguments.transcript)
    return fields


def set_fields(assignments: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise InvalidInput(f"--set {assignment}: write it as FIELD=VALUE.")
        if value.startswith("@"):
            value = read(value[1:])
        fields[name] = value
    for name in ("card", "character_book", "alternate_greetings"):
        if name in fields:
            fields[name] = parse_json(name, fields[name])
    return fields


def content(arguments: argparse.Namespace) -> str:
    if not has_text(arguments.kind):
        raise InvalidInput(
            f"{arguments.kind} have fields instead of a text: "
            f"use --set {_FIELDS[arguments.kind]}=@FILE."
        )
    if arguments.text is not None:
        return str(arguments.text)
    return read(arguments.file)


def has_text(kind: str) -> bool:
    return kind not in _FIELDS


def read(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            data = expand_path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path} is not UTF-8 text. `recollect import` reads other encodings."
        ) from None


def parse_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidInput(f"--set {name}: the value must be JSON.") from None


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


def delete(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        item = library.knowledge.find(arguments.kind, arguments.id)
        if not arguments.yes and not confirm(item):
            console(stderr=True).print("Nothing was deleted.")
            return 1
        if arguments.keep:
            backup = io.StringIO()
            write_json([library.knowledge.document(arguments.kind, item.id)], backup)
            write_file(arguments.keep, backup.getvalue().encode())
        library.knowledge.delete(arguments.kind, item.id)
        purge = library.purge_status()
    if arguments.json:
        print_json({"deleted": item.id, "source": arguments.kind, "purge": purge.state})
        return 0
    message = f"Deleted [bold]{safe_line(item.title) or 'Untitled'}[/]."
    if arguments.keep:
        message += f" Restore it with: recollect import {safe(arguments.keep)}"
    console().print(message, soft_wrap=True)
    print_purge(purge)
    return 0


def confirm(item: Summary) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("Deleting is permanent. Add --yes, and --keep FILE to save a copy.")
    answer = input(f"Delete {item.title or item.id!r} permanently? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def export(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        file = library.knowledge.export(
            arguments.kind, arguments.id, arguments.format or FORMATS[arguments.kind][0]
        )
    if arguments.json:
        print_json({"name": file.name, "media_type": file.media_type, "bytes": len(file.data)})
    if arguments.output:
        write_file(arguments.output, file.data)
    elif arguments.format == "png" and sys.stdout.isatty():
        raise InvalidInput("A PNG cannot be printed to the terminal. Add --output FILE.")
    elif not arguments.json:
        sys.stdout.buffer.write(file.data)
        sys.stdout.buffer.flush()
    return 0


def encode(value: Any) -> bytes:
    """A transcript as the bytes of a file: text, or JSON."""
    text = value
    if not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    return str(text).encode("utf-8", "replace")


def write_file(path: str, data: bytes) -> None:
    """Write a file under another name first, so that it is complete or does not exist."""
    target = expand_path(path)
    draft = target.with_name(target.name + ".part")
    try:
        draft.write_bytes(data)
        draft.replace(target)
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written: {error.strerror}.") from None
    console(stderr=True).print(f"Wrote {target}", soft_wrap=True)
