"""Forms in which notes, media, characters and prompts are written.

A form remembers what it was filled with, so that only what the person changed is
saved, and what somebody else changed meanwhile is neither lost nor overwritten
without a word.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from recollect.errors import InvalidInput
from recollect.importers.items import cues_of, fields_of, text_of
from recollect.knowledge.editing import MEDIA_TYPES
from recollect.knowledge.results import NAMES, tags_of
from recollect.language import transcript
from recollect.language.text import storable
from recollect.model.documents import Document

LINE, TEXT, LIST = "line", "text", "list"
WAS = "was:"
"""Before the name of a field: a digest of what it was filled with."""
_FIELDS_AT_MOST = 400
_COMPARED = 4_000  # lines of a text that are compared


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    kind: str = LINE
    hint: str = ""
    rows: int = 4
    required: bool = False
    choices: Sequence[str] = ()
    type: str = "text"


_TAGS = "With commas between them."
FORMS: Mapping[str, tuple[Field, ...]] = {
    "notes": (
        Field("title", "Title", hint="Without one, the first line is it."),
        Field("content", "Text", TEXT, "Markdown. [[Another note]] links to it.", 18),
        Field("keywords", "Tags", hint=_TAGS),
    ),
    "media": (
        Field("title", "Title"),
        Field("media_type", "Type", choices=MEDIA_TYPES),
        Field("url", "Address", type="url"),
        Field("author", "Author or channel"),
        Field("language", "Language", hint="Such as en."),
        Field("keywords", "Tags", hint=_TAGS),
        Field(
            "content",
            "Text or transcript",
            TEXT,
            "A transcript with times may be SRT, VTT, SBV or JSON.",
            18,
        ),
    ),
    "characters": (
        Field("name", "Name", required=True),
        Field("description", "Description", TEXT, rows=8),
        Field("personality", "Personality", TEXT),
        Field("scenario", "Scenario", TEXT),
        Field("first_message", "First message", TEXT),
        Field("alternate_greetings", "Other greetings", LIST),
        Field("message_example", "Examples of messages", TEXT),
        Field("system_prompt", "System prompt", TEXT),
        Field("post_history_instructions", "Instructions after the history", TEXT),
        Field("creator_notes", "Creator's notes", TEXT),
        Field("creator", "Creator"),
        Field("tags", "Tags", hint=_TAGS),
    ),
    "prompts": (
        Field("name", "Name", required=True),
        Field("author", "Author"),
        Field("details", "Details", TEXT, "What it is for."),
        Field("system_prompt", "System prompt", TEXT, rows=8),
        Field("user_prompt", "User prompt", TEXT, rows=8),
        Field("keywords", "Tags", hint=_TAGS),
    ),
}
Value = str | list[str]


@dataclass(frozen=True, slots=True)
class Filled:
    """A field with what stands in it."""

    field: Field
    value: Value
    digest: str
    change: Sequence[tuple[str, str]] = ()
    """How it differs from what is stored, where somebody else changed it too: lines with + or - before them."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a person sent."""

    values: Mapping[str, Value]
    digests: Mapping[str, str]
    version: int | None

    def changes(self, source: str) -> dict[str, Any]:
        """The fields that are not as they were, as `Knowledge.edit` takes them."""
        changed: dict[str, Any] = {
            name: value
            for name, value in self.values.items()
            if digest(value) != self.digests.get(name)
        }
        if source == "media" and transcript.parse(str(changed.get("content", ""))).cues:
            changed["transcript"] = changed.pop("content")
        return changed


def sent(source: str, body: bytes) -> Sent:
    """What a form sent. Raises InvalidInput."""
    try:
        given = parse_qs(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_FIELDS_AT_MOST,
            errors="replace",
        )
    except ValueError as error:
        raise InvalidInput("The form cannot be read.") from error
    values: dict[str, Value] = {}
    for field in FORMS[source]:
        if field.name in given:
            texts = [_lines(storable(text)) for text in given[field.name]]
            values[field.name] = (
                [text for text in texts if text.strip()] if field.kind == LIST else texts[0]
            )
    digests = {
        name.removeprefix(WAS): texts[0] for name, texts in given.items() if name.startswith(WAS)
    }
    version = given.get("version", [""])[0]
    return Sent(values, digests, int(version) if re.fullmatch(r"[0-9]{1,9}", version) else None)


def empty(source: str, given: Mapping[str, str]) -> list[Filled]:
    """A form to make a new one, with what is known already."""
    return [
        Filled(f, [] if f.kind == LIST else given.get(f.name, ""), digest(""))
        for f in FORMS[source]
    ]


def filled(document: Document) -> list[Filled]:
    source = NAMES[document.kind]
    said = stored(document)
    return [Filled(field, said[field.name], digest(said[field.name])) for field in FORMS[source]]


def refilled(source: str, given: Sent) -> list[Filled]:
    """A form as it was sent, because something is wrong with it."""
    return [
        Filled(
            f,
            given.values.get(f.name, [] if f.kind == LIST else ""),
            given.digests.get(f.name, digest("")),
        )
        for f in FORMS[source]
    ]


def compared(document: Document, given: Sent) -> list[Filled]:
    """What the person wrote over what is stored by now; what they left alone is as it is stored."""
    said = stored(document)
    fields = []
    for field in FORMS[NAMES[document.kind]]:
        theirs = said[field.name]
        mine = given.values.get(field.name, theirs)
        was = given.digests.get(field.name)
        if digest(mine) == was:
            mine = theirs
        both = digest(theirs) not in (was, digest(mine)) and mine is not theirs
        fields.append(Filled(field, mine, digest(theirs), difference(theirs, mine) if both else ()))
    return fields


def stored(document: Document) -> dict[str, Value]:
    """What each field of the form holds."""
    about = document.metadata
    tags = ", ".join(tags_of(about))
    source = NAMES[document.kind]
    if source in ("characters", "prompts"):
        fields: dict[str, Value] = dict(fields_of(document.passages))
        said = {field.name: fields.get(field.name, "") for field in FORMS[source]}
        if source == "prompts":
            return said | {"keywords": tags}
        return said | {"tags": tags, "alternate_greetings": _greetings(about.get("card"))}
    cues = list(cues_of(document.passages))
    text = str(transcript.write(cues, "vtt")) if cues else text_of(document.passages)
    said = {
        name: str(about.get(name) or "") for name in ("media_type", "url", "author", "language")
    }
    return said | {"title": document.title, "content": text, "keywords": tags}


def _greetings(card: Any) -> list[str]:
    given = card.get("alternate_greetings") if isinstance(card, Mapping) else None
    return (
        [text for text in given if isinstance(text, str) and text.strip()]
        if isinstance(given, list)
        else []
    )


def digest(value: Value) -> str:
    """The same for texts that a form cannot tell apart."""
    texts = [value] if isinstance(value, str) else [text for text in value if text.strip()]
    said = "\0".join(_lines(storable(text)) for text in texts)
    return hashlib.blake2b(said.encode(), digest_size=12).hexdigest()


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def difference(theirs: Value, mine: Value) -> list[tuple[str, str]]:
    """What saving mine would take away and add, line by line."""
    before, after = (
        _lines(v if isinstance(v, str) else "\n\n".join(v)).split("\n") for v in (theirs, mine)
    )
    if max(len(before), len(after)) > _COMPARED:
        return [("-", line) for line in before[:50]] + [(" ", "…")]
    shown = list(difflib.unified_diff(before, after, lineterm="", n=1))[
        2:
    ]  # without the names of files
    return [(" ", "…") if line.startswith("@@") else (line[:1], line[1:]) for line in shown[1:]]
