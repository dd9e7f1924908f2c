"""Exporting notes, media, characters and prompts as files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.importers.items import FIELDS, cues_of, fields_of, text_of
from recollect.importers.knowledge import frontmatter
from recollect.knowledge.editing import CARD_NAMES
from recollect.knowledge.results import SOURCE_NAMES, tags_of
from recollect.language import transcript
from recollect.language.text import iso, truncate
from recollect.model.documents import Document, Json
from recollect.model.fields import EXPORT_HEADER
from recollect.model.kinds import CHARACTER, MEDIA, NOTE, PROMPT
from recollect.transfer.export import as_json

FORMATS: Mapping[str, tuple[str, ...]] = {
    NOTE: ("md", "txt", "json"),
    MEDIA: ("txt", "md", "json", "srt", "vtt"),
    CHARACTER: ("json",),
    PROMPT: ("json", "md", "txt"),
}
"""The formats of each kind; the first is the default."""
_MEDIA_TYPES = {
    "md": "text/markdown",
    "json": "application/json",
    "vtt": "text/vtt",
    "srt": "application/x-subrip",
}
_CARD_TEXTS = (
    "description personality scenario first_mes mes_example creator_notes system_prompt "
    "post_history_instructions creator character_version"
).split()
"""Fields that a card must have."""
_CARD_LISTS = ("alternate_greetings", "tags", "character_book")
"""Fields that are not texts on a card."""
_UNSAFE_IN_FILE_NAMES = re.compile(r"[^\w.() -]+")


class Export(NamedTuple):
    """A file."""

    name: str
    media_type: str
    data: bytes


def export(document: Document, format: str) -> Export:
    """An item as a file. Raises InvalidInput if its kind has no such format."""
    formats = FORMATS.get(document.kind, ())
    if format not in formats:
        raise InvalidInput(
            f"format: {truncate(format, 80)!r} is not one of {', '.join(formats)}, the formats of "
            f"{SOURCE_NAMES[document.kind]}."
        )
    content = _WRITERS[document.kind, format](document).encode("utf-8", "replace")
    name = document.title or document.id or document.kind
    name = _UNSAFE_IN_FILE_NAMES.sub("_", name)[:100].strip(" ._") or document.kind
    return Export(f"{name}.{format}", _MEDIA_TYPES.get(format, "text/plain"), content)


# -- texts ---------------------------------------------------------------------


def note_as_markdown(document: Document) -> str:
    front_matter = document.metadata.get("front_matter")
    values = dict(front_matter) if isinstance(front_matter, Mapping) else {}
    values |= non_empty(aliases=document.metadata.get("aliases"))
    return with_front_matter(document, values, text_of(document.passages))


def media_as_markdown(document: Document) -> str:
    names = ("media_type", "url", "author")
    values = non_empty(**{name: document.metadata.get(name) for name in names})
    cues = list(cues_of(document.passages))
    body = text_of(document.passages)
    if cues:
        body = str(transcript.write(cues, "text", timestamps=True))
    return with_front_matter(document, values, body)


def with_front_matter(document: Document, values: Mapping[str, Json], body: str) -> str:
    values = {"title": document.title, **values, **non_empty(tags=tags_of(document.metadata))}
    return frontmatter.join(values | times(document), body)


def _transcript(document: Document, format: str) -> str:
    cues = list(cues_of(document.passages))
    if not cues:
        raise InvalidInput(
            f"format: {format} needs times, and {truncate(document.title, 80)!r} has none."
        )
    return str(transcript.write(cues, format))


def prompt_as_json(document: Document) -> str:
    fields = fields_of(document.passages)
    record: dict[str, Json] = {name: fields.get(name, "") for name in FIELDS[PROMPT]}
    record["keywords"] = tags_of(document.metadata)
    record["version"] = document.version
    return to_json(record | times(document))


def prompt_as_markdown(document: Document) -> str:
    fields = fields_of(document.passages)
    body = fields.pop("user_prompt", "")
    values: dict[str, Json] = {name: fields.get(name) for name in FIELDS[PROMPT]}
    values["keywords"] = tags_of(document.metadata)
    return frontmatter.join({"type": "prompt"} | non_empty(**values) | times(document), body)


def as_text(document: Document) -> str:
    return text_of(document.passages)


def fields_as_text(document: Document) -> str:
    fields = fields_of(document.passages)
    return "\n\n".join(f"{name}:\n{text}" for name, text in fields.items()) + "\n"


def as_archive(document: Document) -> str:
    """Recollect's own format, which can be imported again."""
    return json.dumps({**EXPORT_HEADER, "conversations": [as_json(document)]}, ensure_ascii=True)


def times(document: Document) -> dict[str, Json]:
    return non_empty(created=iso(document.created_at), updated=iso(document.updated_at))


def non_empty(**values: Json) -> dict[str, Json]:
    return {name: value for name, value in values.items() if value}


def to_json(record: Mapping[str, Json]) -> str:
    return json.dumps(record, ensure_ascii=False, indent=2) + "\n"


# -- character cards -----------------------------------------------------------


def card_as_json(document: Document) -> str:
    """The character's original card, updated with its present fields."""
    is_v3 = document.metadata.get("spec") == "chara_card_v3"
    data = dict(document.metadata.get("card") or {})
    for name, text in fields_of(document.passages).items():
        if name not in _CARD_LISTS:
            data[CARD_NAMES.get(name, name)] = text
    for name in _CARD_TEXTS:
        data.setdefault(name, "")
    data.setdefault("alternate_greetings", [])
    data.setdefault("extensions", {})
    data["tags"] = tags_of(document.metadata)
    if is_v3:
        data.setdefault("group_only_greetings", [])
    spec, version = ("chara_card_v3", "3.0") if is_v3 else ("chara_card_v2", "2.0")
    return to_json({"spec": spec, "spec_version": version, "data": data})


_WRITERS: Mapping[tuple[str, str], Callable[[Document], str]] = {
    (NOTE, "md"): note_as_markdown,
    (NOTE, "txt"): as_text,
    (NOTE, "json"): as_archive,
    (MEDIA, "txt"): as_text,
    (MEDIA, "md"): media_as_markdown,
    (MEDIA, "json"): as_archive,
    (MEDIA, "srt"): lambda document: _transcript(document, "srt"),
    (MEDIA, "vtt"): lambda document: _transcript(document, "vtt"),
    (CHARACTER, "json"): card_as_json,
    (PROMPT, "json"): prompt_as_json,
    (PROMPT, "md"): prompt_as_markdown,
    (PROMPT, "txt"): fields_as_text,
}
