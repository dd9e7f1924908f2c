"""`recollect knowledge add`, `edit`, `delete` and `export`: what a person writes, and files of it."""

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
    add_kind,
    console,
    existing,
    print_json,
    safe,
    writable,
)
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
"""What has fields, and the one that says most."""
_ADD_EXAMPLES = """\
  recollect knowledge add notes 'Roses' --text 'Prune them in late winter.' --tag garden
  recollect knowledge add notes --file ideas.md
  recollect knowledge add media 'A talk' --transcript talk.srt --set media_type=video --set url=https://example.com/v
  recollect knowledge add prompts 'Summarise' --set user_prompt='Summarise this: {text}' --tag work
  recollect knowledge add characters 'Rosa' --set description=@rosa.txt
  recollect knowledge add notes 'Journal'                 opens $EDITOR

To bring in whole files and folders, use `recollect import`.
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
  recollect import note.json                              puts it back
"""
_EXPORT_EXAMPLES = """\
  recollect knowledge export notes NOTE                   Markdown, to standard output
  recollect knowledge export media MEDIA --format srt --output film.srt
  recollect knowledge export characters Rosa --format png --output rosa.png
"""


def register(actions: Commands) -> None:
    add_ = add_command(
        actions, "add", "write a new note, media item, character or prompt", add, _ADD_EXAMPLES
    )
    add_kind(add_, FORMATS)
    add_.add_argument("title", nargs="?", help="its title or name")
    _add_fields(add_)
    edit_ = add_command(
        actions, "edit", "change what is arguments, and nothing else", edit, _EDIT_EXAMPLES
    )
    add_kind(edit_, FORMATS)
    _add_id(edit_)
    edit_.add_argument("--title", help="a new title or name")
    _add_fields(edit_)
    edit_.add_argument("--version", type=int, metavar="N", help="only if it is this version still")
    delete_ = add_command(actions, "delete", "delete for good", delete, _DELETE_EXAMPLES)
    add_kind(delete_, FORMATS)
    _add_id(delete_)
    delete_.add_argument(
        "--keep",
        metavar="FILE",
        help="write what is deleted to this file; `recollect import` reads it",
    )
    delete_.add_argument("--yes", action="store_true", help="do not ask")
    export_ = add_command(actions, "export", "write a file of it", export, _EXPORT_EXAMPLES)
    add_kind(export_, FORMATS)
    _add_id(export_)
    formats = "; ".join(f"{name}: {', '.join(known)}" for name, known in FORMATS.items())
    export_.add_argument("--format", help=f"{formats} (default: the first)")
    export_.add_argument(
        "--output", metavar="FILE", help="a file to write (default: standard output)"
    )


def _add_id(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "id", help="its id, as `list` and `search` show it; of characters and prompts also the name"
    )


def _add_fields(command: argparse.ArgumentParser) -> None:
    text = command.add_mutually_exclusive_group()
    text.add_argument("--text", help="of notes and media: what it says")
    text.add_argument(
        "--file",
        metavar="FILE",
        help="of notes and media: a file with what it says; - is standard input",
    )
    text.add_argument(
        "--transcript", metavar="FILE", help="of media: SRT, VTT, SBV or JSON with times"
    )
    command.add_argument(
        "--tag", action="append", metavar="NAME", help="a tag or keyword; may be repeated"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        dest="fields",
        metavar="FIELD=VALUE",
        help="any other field; a value that begins with @ is the name of a file; may be repeated",
    )


# -- writing -----------------------------------------------------------------


def add(arguments: argparse.Namespace) -> int:
    fields = _fields(arguments)
    if _has_text(arguments.kind) and not fields.keys() & {"content", "transcript"}:
        fields["content"] = _typed("", ".md") if sys.stdin.isatty() else _read("-")
    with writable(arguments) as library:
        _say(arguments, library.knowledge.create(arguments.kind, fields), "Added")
    return 0


def edit(arguments: argparse.Namespace) -> int:
    fields, version = _fields(arguments), arguments.version
    with existing(arguments) as library:
        if not fields:
            about = library.knowledge.find(arguments.kind, arguments.id)
            if not _has_text(arguments.kind) or not sys.stdin.isatty():
                raise InvalidInput(
                    "There is nothing to change. Give --title, --text, --file, --tag or --set."
                )
            name, before = _text(library, about)
            fields = {name: _typed(before, ".md" if name == "content" else ".srt")}
            version = version or about.version
            if fields[name] == before:
                console(stderr=True).print("Nothing was changed.")
                return 0
        try:
            _say(
                arguments,
                library.knowledge.edit(arguments.kind, arguments.id, fields, version),
                "Changed",
            )
        except Conflict as error:
            raise Conflict(f"{error}{_saved(fields)}") from None
    return 0


def _text(library: Library, about: Summary) -> tuple[str, str]:
    """What a person edits, and the field that it is: a transcript with its times, or the text."""
    passages = library.store.document(about.id).passages
    if any(passage.metadata.get("cues") for passage in passages):
        return "transcript", library.knowledge.transcript(about.id, "srt")
    return "content", "".join(passage.content for passage in passages)


def _say(arguments: argparse.Namespace, about: Summary, done: str) -> None:
    if arguments.json:
        from recollect.knowledge.results import list_entry

        print_json(list_entry(about))
        return
    title = safe(about.title) or "Untitled"
    console().print(
        f"{done} [bold]{title}[/], version {about.version}. [dim]{arguments.kind} {safe(about.id)}[/]"
    )


def _fields(arguments: argparse.Namespace) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for said in arguments.fields:
        name, equals, value = said.partition("=")
        if not equals:
            raise InvalidInput(f"--set {said}: write it as FIELD=VALUE.")
        fields[name] = _read(value[1:]) if value.startswith("@") else value
    for name in ("card", "character_book", "alternate_greetings"):
        if name in fields:
            fields[name] = _json(name, fields[name])
    if arguments.title is not None:
        fields["title" if _has_text(arguments.kind) else "name"] = arguments.title
    if arguments.tag is not None:
        fields["tags" if arguments.kind == "characters" else "keywords"] = [
            tag for tag in arguments.tag if tag
        ]
    if arguments.text is not None or arguments.file is not None:
        if not _has_text(arguments.kind):
            raise InvalidInput(
                f"{arguments.kind} have fields, not a text: use --set {_FIELDS[arguments.kind]}=@FILE."
            )
        fields["content"] = arguments.text if arguments.text is not None else _read(arguments.file)
    if arguments.transcript is not None:
        fields["transcript"] = _read(arguments.transcript)
    return fields


def _has_text(kind: str) -> bool:
    return kind not in _FIELDS


def _read(path: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).expanduser().read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path} is no text in UTF-8. `recollect import` reads other files."
        ) from None


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidInput(f"--set {name}: this must be JSON.") from None


def _typed(text: str, suffix: str) -> str:
    """What a person makes of a text in their editor."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise InvalidInput("Give --text or --file, or say in EDITOR which editor to open.")
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"draft{suffix}"
        draft.write_text(text, encoding="utf-8", errors="replace", newline="")
        if subprocess.run([*shlex.split(editor), str(draft)]).returncode:  # noqa: S603 - the person's own editor
            raise InvalidInput("The editor ended with an error; nothing was changed.")
        return draft.read_text(encoding="utf-8", errors="replace")


def _saved(fields: dict[str, Any]) -> str:
    """What was written is not lost when somebody else was faster."""
    text = fields.get("content") or fields.get("transcript")
    if not text:
        return ""
    with tempfile.NamedTemporaryFile(
        "w", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
    ) as file:
        file.write(text)
    return f" Your text is in {file.name}."


# -- deleting and exporting ----------------------------------------------------


def delete(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        about = library.knowledge.find(arguments.kind, arguments.id)
        if not arguments.yes and not _agreed(about):
            console(stderr=True).print("Nothing was deleted.")
            return 1
        if arguments.keep:
            kept = io.StringIO()
            write_json([library.store.document(about.id)], kept)
            write_file(arguments.keep, kept.getvalue().encode())
        library.knowledge.delete(arguments.kind, about.id)
    if arguments.json:
        print_json({"deleted": about.id, "source": arguments.kind})
    else:
        back = (
            f" Put it back with: recollect import {safe(arguments.keep)}" if arguments.keep else ""
        )
        console().print(
            f"Deleted [bold]{safe(about.title) or 'Untitled'}[/].{back}", soft_wrap=True
        )
    return 0


def _agreed(about: Summary) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("Deleting is for good. Add --yes, and --keep FILE to have it back.")
    answer = input(f"Delete {about.title or about.id!r} for good? [y/N] ")
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
        raise InvalidInput("A picture is not for the terminal: add --output FILE.")
    elif not arguments.json:
        sys.stdout.buffer.write(file.data)
        sys.stdout.buffer.flush()
    return 0


def encoded(value: Any) -> bytes:
    text = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    )
    return text.encode("utf-8", "replace")


def write_file(path: str, data: bytes) -> None:
    """Beside the target and then in its place, so that it is whole or not there."""
    target = Path(path).expanduser()
    draft = target.with_name(target.name + ".part")
    try:
        draft.write_bytes(data)
        draft.replace(target)
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written: {error.strerror}.") from None
    console(stderr=True).print(f"Wrote {target}", soft_wrap=True)
