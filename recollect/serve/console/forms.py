"""Forms to write notes, media, characters and prompts.

A form carries a digest of each field's original value. On submit, only the fields that the person
changed are saved. If someone else changed the same field in the meantime, the person decides.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qs

from fastapi import Depends, Request
from starlette.responses import RedirectResponse, Response

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.importers.items import cues_of, fields_of, text_of
from recollect.knowledge.editing import MEDIA_TYPES
from recollect.knowledge.results import tags_of
from recollect.language import transcript
from recollect.language.text import storable, truncate
from recollect.library import Library
from recollect.model.documents import Document, Json
from recollect.serve import links
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.lists import Filters, ListFilters, frame
from recollect.serve.console.markup import rendering
from recollect.serve.console.tabs import (
    CHARACTERS,
    CONVERSATIONS,
    MEDIA,
    NOTES,
    PROMPTS,
    get_tab,
)
from recollect.serve.console.templating import page
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.responses import Problem
from recollect.serve.http.routes import Routes, content_type
from recollect.serve.identity.principal import KNOWLEDGE, WRITE
from recollect.serve.masking import mask_document
from recollect.settings import LIMITS

routes = Routes("", KNOWLEDGE, route_class=PageRoute)

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
_FORM_TYPE = "application/x-www-form-urlencoded"
_MAX_FIELDS = 400

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
        *(
            Field(name, FIELD_LABELS[name], TEXT, rows=8 if name == "description" else 4)
            for name in ("description", "personality", "scenario", "first_message")
        ),
        Field("alternate_greetings", FIELD_LABELS["alternate_greetings"], LIST),
        *(
            Field(name, FIELD_LABELS[name], TEXT)
            for name in (
                "message_example",
                "system_prompt",
                "post_history_instructions",
                "creator_notes",
            )
        ),
        Field("creator", "Creator"),
        Field("tags", "Tags", hint=_TAGS_HINT),
    ),
    PROMPTS: (
        Field("name", "Name", required=True),
        Field("author", "Author"),
        Field("details", "Details", TEXT, "What the prompt is for."),
        Field("system_prompt", "System prompt", TEXT, rows=8),
        Field("user_prompt", "User prompt", TEXT, rows=8),
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


# -- pages ---


def new_page(access: Access, filters: ListFilters, kind: str, name: str) -> Response:
    """A form for a new item, with a title."""
    access.require(WRITE, KNOWLEDGE)
    fields = form_fields(kind, {"name": name, "title": name}, {})
    return form_page(access, filters, kind, fields)


def edit_page(access: Access, filters: ListFilters, kind: str, id: str) -> Response:
    """A form with the stored values."""
    with access.read() as library:
        document = visible_document(access, library, kind, id)
    values = stored_values(kind, document)
    digests = {name: digest(value) for name, value in values.items()}
    return form_page(access, filters, kind, form_fields(kind, values, digests), document)


def visible_document(access: Access, library: Library, kind: str, id: str) -> Document:
    return mask_document(library.knowledge.document(kind, id), access.principal.audience)


def form_page(
    access: Access,
    filters: ListFilters,
    kind: str,
    fields: Sequence[FormField],
    document: Document | None = None,
    status: int = 200,
    **values: Any,
) -> Response:
    """A form to show, and why it is shown again: a `problem`, or a conflict."""
    form = {
        "kind": kind,
        "fields": fields,
        "id": document.id if document else "",
        "title": document.title if document else "",
        "version": document.version if document else None,
        "problem": "",
        "conflict_at": None,
        **values,
    }
    with access.read() as library:
        frame_values = frame(library, kind, filters, str(form["id"]))
    return page(
        access.request, "item_form.html", status, tab=get_tab(kind), form=form, **frame_values
    )


async def form_body(request: Request) -> bytes:
    if content_type(request) != _FORM_TYPE:
        raise Problem(415, f"Send the form as {_FORM_TYPE}.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LIMITS.request_bytes:
            raise Problem(413, "The form is too large. Import the text as a file instead.")
    return bytes(body)


FormBody = Annotated[bytes, Depends(form_body)]


@routes.add("POST /knowledge/{kind}", WRITE)
def create(access: AccessTo, filters: Filters, kind: str, body: FormBody) -> Response:
    submission = parse_submission(item_kind(kind), body)
    values = {name: value for name, value in submission.changes(kind).items() if value}
    try:
        with access.write() as library:
            summary = library.knowledge.create(kind, values)
    except InvalidInput as error:
        fields = form_fields(kind, submission.values, submission.digests)
        return form_page(access, filters, kind, fields, status=400, problem=str(error))
    return RedirectResponse(links.item_url(kind, summary.id), 303)


@routes.add("POST /knowledge/{kind}/", WRITE)
def save_by_query(
    access: AccessTo, filters: Filters, kind: str, body: FormBody, id: str = ""
) -> Response:
    return save(access, filters, kind, id, body)


@routes.add("POST /knowledge/{kind}/{item_id:id}", WRITE)
def save(access: AccessTo, filters: Filters, kind: str, item_id: str, body: FormBody) -> Response:
    """Save the changed fields. On a conflict, show the differences and let the person decide."""
    submission = parse_submission(item_kind(kind), body)
    document: Document | None = None
    try:
        with access.write() as library:
            document = visible_document(access, library, kind, item_id)
            changes = submission.changes(kind)
            if changes:
                library.knowledge.edit(kind, document.id, changes, submission.version)
    except NotFound:
        # Without digests every field counts as changed, so saving creates the item again.
        fields = form_fields(kind, submission.values, {})
        noun = get_tab(kind).singular
        problem = f"This {noun} was deleted in the meantime. Save to create it again."
        return form_page(access, filters, kind, fields, status=409, problem=problem)
    except Conflict:
        with access.read() as library:
            document = visible_document(access, library, kind, item_id)
        fields = merged_fields(kind, document, submission)
        changed_at = document.updated_at
        return form_page(
            access, filters, kind, fields, document, status=409, conflict_at=changed_at
        )
    except InvalidInput as error:
        fields = form_fields(kind, submission.values, submission.digests)
        return form_page(
            access,
            filters,
            kind,
            fields,
            document,
            status=400,
            problem=str(error),
            version=submission.version,
        )
    return RedirectResponse(links.item_url(kind, document.id), 303)


def item_kind(kind: str) -> str:
    if get_tab(kind).name == CONVERSATIONS:
        raise NotFound(f"There is no page for {truncate(kind, 80)!r}.")
    return kind


# -- fields and values ---


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
        texts = [normalize_newlines(storable(text)) for text in pairs.get(field.name, ())]
        if field.widget == LIST and texts:
            values[field.name] = [text for text in texts if text.strip()]
        elif texts:
            values[field.name] = texts[0]
    digests = {
        name.removeprefix(ORIGINAL): texts[0]
        for name, texts in pairs.items()
        if name.startswith(ORIGINAL)
    }
    version = pairs.get("version", [""])[0]
    number = int(version) if re.fullmatch(r"[0-9]{1,9}", version) else None
    return Submission(values, digests, number)


def form_fields(
    kind: str, values: Mapping[str, Value], digests: Mapping[str, str]
) -> list[FormField]:
    return [
        FormField(
            field,
            values.get(field.name, [] if field.widget == LIST else ""),
            digests.get(field.name, digest("")),
        )
        for field in FORMS[kind]
    ]


def merged_fields(kind: str, document: Document, submission: Submission) -> list[FormField]:
    """The person's changes on top of what is stored now."""
    merged = []
    for field in FORMS[kind]:
        stored = stored_values(kind, document)[field.name]
        original = submission.digests.get(field.name)
        value = submission.values.get(field.name, stored)
        diff: Sequence[tuple[str, str]] = ()
        if digest(value) == original:
            value = stored
        elif digest(stored) not in (original, digest(value)):
            diff = diff_lines(stored, value)
        merged.append(FormField(field, value, digest(stored), diff))
    return merged


def stored_values(kind: str, document: Document) -> dict[str, Value]:
    """The value of each field of the form."""
    metadata, tags = document.metadata, ", ".join(tags_of(document.metadata))
    values: dict[str, Value]
    if kind in (CHARACTERS, PROMPTS):
        texts = fields_of(document.passages)
        values = {field.name: texts.get(field.name, "") for field in FORMS[kind]}
        if kind == PROMPTS:
            return values | {"keywords": tags}
        greetings = card_greetings(metadata.get("card"))
        return values | {"tags": tags, "alternate_greetings": greetings}
    names = ("media_type", "url", "author", "language")
    values = {name: str(metadata.get(name) or "") for name in names}
    cues = list(cues_of(document.passages))
    content = str(transcript.write(cues, "vtt")) if cues else text_of(document.passages)
    return values | {"title": document.title, "content": content, "keywords": tags}


def card_greetings(card: Json) -> list[str]:
    """The alternate greetings of a character card."""
    greetings = card.get("alternate_greetings") if isinstance(card, Mapping) else None
    texts = greetings if isinstance(greetings, list) else ()
    return [text for text in texts if isinstance(text, str) and text.strip()]


def digest(value: Value) -> str:
    """Equal for values that a form cannot tell apart."""
    texts = [value] if isinstance(value, str) else [text for text in value if text.strip()]
    text = "\0".join(normalize_newlines(storable(text)) for text in texts)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def diff_lines(stored: Value, submitted: Value) -> list[tuple[str, str]]:
    """The lines that saving would remove ("-") and add ("+")."""
    before, after = (
        normalize_newlines(value if isinstance(value, str) else "\n\n".join(value))
        for value in (stored, submitted)
    )
    lines = rendering.changed_lines(before, after)
    if lines is None:
        return [("-", line) for line in before.split("\n")[:50]] + [(" ", "…")]
    return lines
