"""Forms to write notes, media, characters and prompts.

A form carries a digest of each field's original value. On submit, only the fields that the person
changed are saved. If someone else changed the same field in the meantime, the person decides.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from recollect.errors import InvalidInput
from recollect.importers.items import cues_of, fields_of, text_of
from recollect.knowledge.editing import MEDIA_TYPES
from recollect.knowledge.results import tags_of
from recollect.language import transcript
from recollect.language.text import storable
from recollect.model.documents import Document, Json
from recollect.model.kinds import KIND_TABLE
from recollect.serve.console.tabs import CHARACTERS, MEDIA, NOTES, PROMPTS
from recollect.serve.console.views.markup import rendering

FIELD_LABELS = {
    "description": "Description",
    "personality": "Personality",
    "scenario": "Scenario",
    "first_message": "First message",
    "message_example": "Example messages",
    "system_prompt": "System prompt",
    "user_prompt": "User prompt",
    "post_history_instructions": "Post-history instructions",
    "creator_notes": "Creator's notes",
    "alternate_greetings": "Alternate greetings",
    "character_book": "Lorebook",
    "details": "Details",
}
"""The text fields of characters and prompts."""

LINE, TEXT, LIST = "line", "text", "list"
ORIGINAL = "original:"
"""Prefix of the hidden fields that carry the digests."""
_MAX_FIELDS = 400
_PLURALS = {kind.name: kind.plural for kind in KIND_TABLE}

Value = str | list[str]


class Field(NamedTuple):
    name: str
    label: str
    widget: str = LINE
    hint: str = ""
    rows: int = 4
    required: bool = False
    choices: Sequence[str] = ()
    is_url: bool = False

    @property
    def empty_value(self) -> Value:
        if self.widget == LIST:
            return []
        return ""


def _text_field(name: str, hint: str = "", rows: int = 4) -> Field:
    return Field(name, FIELD_LABELS[name], TEXT, hint, rows)


_TAGS_HINT = "Separate tags with commas."
FORMS: Mapping[str, tuple[Field, ...]] = {
    NOTES: (
        Field("title", "Title", hint="If empty, the first line becomes the title."),
        Field("content", "Text", TEXT, "Markdown. Link to other notes with [[Title]].", 18),
        Field("keywords", "Tags", hint=_TAGS_HINT),
    ),
    MEDIA: (
        Field("title", "Title"),
        Field("media_type", "Type", choices=MEDIA_TYPES),
        Field("url", "URL", is_url=True),
        Field("author", "Author or channel"),
        Field("language", "Language", hint="For example, en."),
        Field("keywords", "Tags", hint=_TAGS_HINT),
        Field(
            "content",
            "Text or transcript",
            TEXT,
            "Transcripts with times can be SRT, VTT, SBV or JSON.",
            18,
        ),
    ),
    CHARACTERS: (
        Field("name", "Name", required=True),
        _text_field("description", rows=8),
        _text_field("personality"),
        _text_field("scenario"),
        _text_field("first_message"),
        Field("alternate_greetings", FIELD_LABELS["alternate_greetings"], LIST),
        _text_field("message_example"),
        _text_field("system_prompt"),
        _text_field("post_history_instructions"),
        _text_field("creator_notes"),
        Field("creator", "Creator"),
        Field("tags", "Tags", hint=_TAGS_HINT),
    ),
    PROMPTS: (
        Field("name", "Name", required=True),
        Field("author", "Author"),
        _text_field("details", "What the prompt is for."),
        _text_field("system_prompt", rows=8),
        _text_field("user_prompt", rows=8),
        Field("keywords", "Tags", hint=_TAGS_HINT),
    ),
}


class FormField(NamedTuple):
    """A field with its value."""

    field: Field
    value: Value
    digest: str
    """The digest of the stored value."""
    diff: Sequence[tuple[str, str]] = ()
    """If someone else changed the field too: lines, each with "+", "-" or " "."""


class Submission(NamedTuple):
    """A submitted form."""

    values: Mapping[str, Value]
    digests: Mapping[str, str]
    version: int | None

    def changes(self, kind: str) -> dict[str, Any]:
        """The fields that the person changed, as `Knowledge.edit` takes them."""
        changes: dict[str, Any] = {
            name: value
            for name, value in self.values.items()
            if digest(value) != self.digests.get(name)
        }
        if kind == MEDIA and transcript.parse(str(changes.get("content", ""))).cues:
            changes["transcript"] = changes.pop("content")
        return changes


def parse_submission(kind: str, body: bytes) -> Submission:
    """Raises InvalidInput."""
    try:
        pairs = parse_qs(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_MAX_FIELDS,
            errors="replace",
        )
    except ValueError as error:
        raise InvalidInput("The form could not be read.") from error
    values: dict[str, Value] = {}
    for field in FORMS[kind]:
        if field.name not in pairs:
            continue
        texts = [_normalize_newlines(storable(text)) for text in pairs[field.name]]
        if field.widget == LIST:
            values[field.name] = [text for text in texts if text.strip()]
        else:
            values[field.name] = texts[0]
    digests = {
        name.removeprefix(ORIGINAL): texts[0]
        for name, texts in pairs.items()
        if name.startswith(ORIGINAL)
    }
    version = None
    version_text = pairs.get("version", [""])[0]
    if re.fullmatch(r"[0-9]{1,9}", version_text):
        version = int(version_text)
    return Submission(values, digests, version)


def blank_form(kind: str, values: Mapping[str, str]) -> list[FormField]:
    """A form for a new item, with some values filled in."""
    return [
        FormField(field, values.get(field.name, field.empty_value), digest(""))
        for field in FORMS[kind]
    ]


def edit_form(document: Document) -> list[FormField]:
    """A form with the stored values."""
    values = stored_values(document)
    return [
        FormField(field, values[field.name], digest(values[field.name]))
        for field in FORMS[_PLURALS[document.kind]]
    ]


def resubmit_form(kind: str, submission: Submission) -> list[FormField]:
    """The form as it was submitted, to correct it."""
    return [
        FormField(
            field,
            submission.values.get(field.name, field.empty_value),
            submission.digests.get(field.name, digest("")),
        )
        for field in FORMS[kind]
    ]


def conflict_form(document: Document, submission: Submission) -> list[FormField]:
    """The person's changes on top of what is stored now."""
    values = stored_values(document)
    return [
        _merge_field(field, values[field.name], submission)
        for field in FORMS[_PLURALS[document.kind]]
    ]


def _merge_field(field: Field, stored: Value, submission: Submission) -> FormField:
    original = submission.digests.get(field.name)
    value = submission.values.get(field.name, stored)
    if digest(value) == original or field.name not in submission.values:
        return FormField(field, stored, digest(stored))
    diff: Sequence[tuple[str, str]] = ()
    if digest(stored) not in (original, digest(value)):
        diff = diff_lines(stored, value)
    return FormField(field, value, digest(stored), diff)


def stored_values(document: Document) -> dict[str, Value]:
    """The value of each field of the form."""
    metadata = document.metadata
    tags = ", ".join(tags_of(metadata))
    kind = _PLURALS[document.kind]
    values: dict[str, Value]
    if kind in (CHARACTERS, PROMPTS):
        texts = fields_of(document.passages)
        values = {field.name: texts.get(field.name, "") for field in FORMS[kind]}
        if kind == PROMPTS:
            return values | {"keywords": tags}
        return values | {"tags": tags, "alternate_greetings": _greetings(metadata.get("card"))}
    names = ("media_type", "url", "author", "language")
    values = {name: str(metadata.get(name) or "") for name in names}
    return values | {"title": document.title, "content": _content(document), "keywords": tags}


def _content(document: Document) -> str:
    cues = list(cues_of(document.passages))
    if cues:
        return str(transcript.write(cues, "vtt"))
    return text_of(document.passages)


def _greetings(card: Json) -> list[str]:
    if not isinstance(card, Mapping):
        return []
    greetings = card.get("alternate_greetings")
    if not isinstance(greetings, list):
        return []
    return [text for text in greetings if isinstance(text, str) and text.strip()]


def digest(value: Value) -> str:
    """Equal for values that a form cannot tell apart."""
    if isinstance(value, str):
        texts = [value]
    else:
        texts = [text for text in value if text.strip()]
    text = "\0".join(_normalize_newlines(storable(text)) for text in texts)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def diff_lines(stored: Value, submitted: Value) -> list[tuple[str, str]]:
    """The lines that saving would remove ("-") and add ("+")."""
    before, after = _text(stored), _text(submitted)
    lines = rendering.changed_lines(before, after)
    if lines is None:
        return [("-", line) for line in before.split("\n")[:50]] + [(" ", "…")]
    return lines


def _text(value: Value) -> str:
    if not isinstance(value, str):
        value = "\n\n".join(value)
    return _normalize_newlines(value)
