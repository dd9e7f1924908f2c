"""Notes, media, characters and prompts as templates show them, and what a search over everything finds."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from posixpath import normpath
from typing import Any

from markupsafe import Markup

from recollect.errors import InvalidInput, NotFound
from recollect.importers.items import FIELDS, cues_of, fields_of, text_of
from recollect.knowledge.editing import FORMATS
from recollect.knowledge.results import KINDS as SOURCES
from recollect.knowledge.results import tags_of
from recollect.language.query import parse_query, words
from recollect.language.text import moment, storable, truncate
from recollect.language.transcript import Cue
from recollect.library import Library
from recollect.model.documents import Json, Passage, Summary
from recollect.model.kinds import CHARACTER
from recollect.search.snippet import snippet
from recollect.serve import links
from recollect.serve.console import rendering
from recollect.serve.console.kinds import CONVERSATIONS, KINDS, Kind, kind_of
from recollect.serve.http.principal import Principal
from recollect.serve.masking import mask_passage

PARTS = 150
"""Passages of a long text on the page at first, and with each "show more"."""
_WHOLE = 100  # passages; a note of more is too long for Markdown
_PARAGRAPH = 420  # characters of speech after which a new paragraph begins
_SILENCE = 3.0  # seconds after which one does
_LISTED = 200  # notes that are looked at for a link
_ALIASED = 2_000  # and for the other names that notes have
_LORE = 500
_HEADING = re.compile(r"\s*#[ \t]+([^\n]*?)[ \t]*#*[ \t]*(?:\n|\Z)")
PICTURES = frozenset(
    ("image/png", "image/apng", "image/jpeg", "image/webp", "image/gif", "image/avif")
)
_LABELS = {
    "description": "Description",
    "personality": "Personality",
    "scenario": "Scenario",
    "first_message": "First message",
    "message_example": "Examples of messages",
    "system_prompt": "System prompt",
    "user_prompt": "User prompt",
    "post_history_instructions": "Instructions after the history",
    "creator_notes": "Creator's notes",
    "alternate_greetings": "Other greetings",
    "character_book": "Lorebook",
    "details": "Details",
}
_AS_WRITTEN = frozenset(
    ("system_prompt", "user_prompt", "message_example", "post_history_instructions")
)
_FORMATS = {
    "md": "Markdown",
    "txt": "Plain text",
    "json": "JSON, everything",
    "srt": "Subtitles, SRT",
    "vtt": "Subtitles, VTT",
    "png": "Picture with the card in it",
}


# -- a document ---


@dataclass(frozen=True, slots=True)
class Said:
    """One cue of a transcript."""

    text: str
    seconds: float
    anchor: str
    """Empty where another one of the same second has it."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """What somebody says for a while."""

    seconds: int
    clock: str
    speaker: str
    watch: str
    """Where it is played from there; empty where nobody knows."""
    said: Sequence[Said]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text without times."""

    text: str
    position: int
    page: int | None
    """Where a page begins: which one."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a long text."""

    start: int
    end: int
    total: int
    paragraphs: Sequence[Paragraph] = ()
    pieces: Sequence[Piece] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A field of a character or prompt."""

    name: str
    label: str
    body: Markup
    folded: Sequence[tuple[str, Markup]] = ()
    """Entries of it that are opened one by one."""


@dataclass(frozen=True, slots=True)
class Item:
    about: Summary
    kind: Kind
    tags: Sequence[str]
    url: str
    web: str
    facts: Sequence[str]
    others: Sequence[tuple[str, str]]
    """What else is known of it, by name."""
    formats: Sequence[tuple[str, str]]
    body: Markup | None = None
    window: Window | None = None
    sections: Sequence[Section] = field(default_factory=tuple)


def opened(library: Library, principal: Principal, source: str, id: str, position: int = 0) -> Item:
    """A document to read; of a long one the part that the position is in. Raises NotFound."""
    about = library.knowledge.find(source, id)
    made: dict[str, Any] = {
        "about": about,
        "kind": kind_of(source),
        "tags": tags_of(about.metadata),
        "url": links.item_url(source, about.id),
        "web": links.web(about.metadata.get("url")),
        "others": _others(about.metadata),
    }
    if source in ("characters", "prompts"):
        passages, _ = _read(library, principal, about, 0, about.message_count)
        fields = fields_of(passages)
        sections = tuple(_sections(about, fields))
        return Item(**made, facts=_facts(about, fields), formats=_formats(about), sections=sections)
    shown = window(library, principal, about, position)
    timed = bool(shown.paragraphs)
    body = _body(library, principal, about) if not timed and about.message_count <= _WHOLE else None
    return Item(
        **made,
        facts=_facts(about, {}),
        formats=_formats(about, timed),
        body=body,
        window=None if body is not None else shown,
    )


def window(library: Library, principal: Principal, about: Summary, position: int) -> Window:
    """The part of a text that a passage of this position is in."""
    start = max(0, min(position, about.message_count - 1)) // PARTS * PARTS
    passages, total = _read(library, principal, about, start, PARTS)
    end = start + len(passages)
    if any(passage.metadata.get("cues") for passage in passages):
        return Window(start, end, total, paragraphs=tuple(_paragraphs(cues_of(passages), about)))
    return Window(start, end, total, pieces=tuple(_pieces(passages)))


def _read(
    library: Library, principal: Principal, about: Summary, start: int, limit: int
) -> tuple[list[Passage], int]:
    passages: list[Passage] = []
    total = about.message_count
    while len(passages) < limit:
        found, total = library.store.passage_page(
            about.id, start + len(passages), min(PARTS, limit - len(passages))
        )
        if not found:
            break
        passages += found
    return [mask_passage(passage, principal.audience) for passage in passages], total


def _body(library: Library, principal: Principal, about: Summary) -> Markup | None:
    """A text that is short enough as Markdown, if it is that."""
    if about.kind != "note" and about.metadata.get("media_type") not in (
        "markdown",
        "article",
        "html",
    ):
        return None
    text = text_of(_read(library, principal, about, 0, about.message_count)[0])
    if len(text) > rendering.MARKDOWN:
        return None
    if about.kind != "note":
        return rendering.markdown(text)
    heading = _HEADING.match(text)
    repeats = heading is not None and heading[1].casefold() == about.title.casefold()
    return rendering.note(
        text[heading.end() :] if heading is not None and repeats else text, about.id
    )


def _pieces(passages: Sequence[Passage]) -> Iterator[Piece]:
    last = None
    for passage in passages:
        page = passage.metadata.get("page")
        page = page if isinstance(page, int) else None
        yield Piece(passage.content, passage.position, page if page != last else None)
        last = page


def _paragraphs(cues: Iterator[Cue], about: Summary) -> Iterator[Paragraph]:
    address, anchors = links.web(about.metadata.get("url")), set[int]()
    said: list[Said] = []
    begun: Cue | None = None
    before: Cue | None = None
    for cue in cues:
        if (
            begun is not None
            and before is not None
            and _breaks(before, cue, sum(len(part.text) for part in said))
        ):
            yield _paragraph(begun, said, address)
            said, begun = [], None
        second = int(cue.start)
        said.append(Said(cue.text, cue.start, "" if second in anchors else f"t={second}"))
        anchors.add(second)
        begun, before = begun or cue, cue
    if begun is not None:
        yield _paragraph(begun, said, address)


def _breaks(before: Cue, cue: Cue, length: int) -> bool:
    if cue.speaker != before.speaker:
        return True
    ended = before.text.rstrip().endswith((".", "?", "!", "…", "。", "？", "！"))
    return (
        (ended and length > _PARAGRAPH)
        or length > 3 * _PARAGRAPH
        or cue.start - before.end > _SILENCE
    )


def _paragraph(cue: Cue, said: Sequence[Said], address: str) -> Paragraph:
    watch = links.at_second(address, cue.start) if address else ""
    return Paragraph(int(cue.start), clock(cue.start), cue.speaker or "", watch, tuple(said))


def clock(seconds: float) -> str:
    """A time as people write it: 2:03, 1:02:03."""
    whole = int(seconds)
    minutes = f"{whole // 60 % 60:02}" if whole >= 3600 else str(whole // 60)
    return (f"{whole // 3600}:" if whole >= 3600 else "") + f"{minutes}:{whole % 60:02}"


def _formats(about: Summary, timed: bool = False) -> list[tuple[str, str]]:
    known = [name for name in FORMATS[about.kind] if timed or name not in ("srt", "vtt")]
    return [
        (name, _FORMATS[name] if about.kind != CHARACTER or name != "json" else "Card, JSON")
        for name in known
    ]


# -- what is known of it ---


def _facts(about: Summary, fields: Mapping[str, str]) -> list[str]:
    said = about.metadata
    facts = [
        fields.get("author")
        or fields.get("creator")
        or _text(said, "author")
        or _text(said, "creator")
    ]
    facts = [f"by {name}" for name in facts if name]
    if version := _text(said, "character_version"):
        facts.append(f"version {version}")
    if nickname := _text(said, "nickname"):
        facts.append(f"called {nickname}")
    duration, pages = said.get("duration"), said.get("pages")
    if isinstance(duration, (int, float)) and duration > 0:
        facts.append(clock(duration))
    if isinstance(pages, int) and pages > 0:
        facts.append(f"{pages:,} {'page' if pages == 1 else 'pages'}")
    if language := _text(said, "language"):
        facts.append(f"in {language}" if len(language) > 3 else language)
    return [truncate(fact, 200) for fact in facts]


def _others(said: Mapping[str, Json]) -> list[tuple[str, str]]:
    kept = said.get("front_matter")
    others: list[tuple[str, Any]] = [
        ("File", said.get("file")),
        ("Also called", said.get("aliases")),
    ]
    others += (
        [(str(name), value) for name, value in kept.items()] if isinstance(kept, Mapping) else []
    )
    return [
        (truncate(name, 100), truncate(_in_words(value), 1_000)) for name, value in others if value
    ][:50]


def _in_words(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, (str, int, float)) for one in value):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _text(said: Mapping[str, Json], name: str) -> str:
    value = said.get(name)
    return value.strip() if isinstance(value, str) else ""


# -- fields ---


def _sections(about: Summary, fields: Mapping[str, str]) -> Iterator[Section]:
    given = about.metadata.get("card")
    card = given if isinstance(given, Mapping) else {}
    for name in FIELDS[about.kind]:
        text = fields.get(name, "")
        if name not in _LABELS or not text.strip():
            continue
        folded: Sequence[tuple[str, Markup]] = ()
        if name == "alternate_greetings":
            folded = _greetings(card)
        elif name == "character_book":
            folded = _lore(card)
        body = Markup("")
        if not folded:
            shown = rendering.beginning(text, rendering.WHOLE)
            body = rendering.plain(shown) if name in _AS_WRITTEN else rendering.markdown(shown)
        yield Section(name, _LABELS[name], body, folded)


def _greetings(card: Mapping[str, Json]) -> list[tuple[str, Markup]]:
    given = card.get("alternate_greetings")
    greetings = (
        [one for one in given if isinstance(one, str) and one.strip()]
        if isinstance(given, list)
        else []
    )
    return [(_peek(text), rendering.markdown(text)) for text in greetings[:_LORE]]


def _lore(card: Mapping[str, Json]) -> list[tuple[str, Markup]]:
    book = card.get("character_book")
    entries = book.get("entries") if isinstance(book, Mapping) else None
    entries = list(entries.values()) if isinstance(entries, Mapping) else entries
    folded = []
    for entry in entries[:_LORE] if isinstance(entries, list) else []:
        content = entry.get("content") if isinstance(entry, Mapping) else None
        if isinstance(content, str) and content.strip():
            keys = entry.get("keys")
            name = _text(entry, "name") or _text(entry, "comment")
            label = (
                name
                or ", ".join(map(str, keys if isinstance(keys, list) else []))
                or _peek(content)
            )
            folded.append((truncate(label, 120), rendering.markdown(content)))
    return folded


def _peek(text: str) -> str:
    return truncate(" ".join(text[:400].split()), 120)


def as_written(library: Library, principal: Principal, source: str, id: str, name: str) -> str:
    """A text, or one field, to copy. Raises NotFound."""
    about = library.knowledge.find(source, id)
    passages, _ = _read(library, principal, about, 0, about.message_count)
    if not name:
        return text_of(passages)
    fields = fields_of(passages)
    if name not in fields:
        raise NotFound(f"It has no {truncate(name, 80)!r}.")
    return fields[name]


# -- pictures ---


def picture(library: Library, principal: Principal, id: str) -> tuple[str, bytes]:
    """The picture of a character, or a drawing of its first letter: its type and its bytes. Raises NotFound."""
    about = library.knowledge.find("characters", id)
    passages, _ = library.store.passage_page(about.id, 0, 1)
    for passage in passages:
        for attachment in mask_passage(passage, principal.audience).attachments:
            if isinstance(attachment, Mapping) and attachment.get("media_type") in PICTURES:
                try:
                    return str(attachment["media_type"]), base64.b64decode(
                        str(attachment.get("data")), validate=True
                    )
                except (binascii.Error, ValueError):
                    continue
    return "image/svg+xml", _letter(about.title)


def _letter(name: str) -> bytes:
    hue = hashlib.blake2b(storable(name).encode(), digest_size=2).digest()
    letter = next((c.upper() for c in storable(name) if c.isalnum()), "?")
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">'
        f'<rect width="100" height="100" fill="hsl({int.from_bytes(hue) % 360} 32% 46%)"/>'
        '<text x="50" y="50" dy=".35em" text-anchor="middle" font-family="system-ui, sans-serif" font-size="46" '
        f'font-weight="600" fill="#fff">{escape(letter[:1])}</text></svg>'
    ).encode()


# -- links between notes ---


def linked(library: Library, target: str, of: str) -> Summary | None:
    """The note that a link means: by where it lies, nearest first, by its title, or by another name that it has."""
    name = target.partition("#")[0].strip().replace("\\", "/").strip("/")
    for ending in (".md", ".markdown"):
        name = name.removesuffix(ending)
    if not name:
        return _note(library, of)
    folders = of.split("/")[:-1]
    for depth in range(len(folders), -1, -1):
        if (found := _note(library, normpath("/".join([*folders[:depth], name])))) is not None:
            return found
    return _called(library, name.casefold()) or _also_called(library, name.casefold())


def _called(library: Library, wanted: str) -> Summary | None:
    listed, _ = library.knowledge.list("notes", search=wanted.rpartition("/")[2], limit=_LISTED)
    titled = (note for note in listed if note.title.casefold() == wanted)
    placed = (note for note in listed if f"/{note.id}".casefold().endswith(f"/{wanted}"))
    return next(placed, None) or next(titled, None)


def _also_called(library: Library, wanted: str) -> Summary | None:
    for start in range(0, _ALIASED, _LISTED):
        listed, total = library.knowledge.list("notes", limit=_LISTED, offset=start)
        for note in listed:
            aliases = note.metadata.get("aliases")
            if isinstance(aliases, list) and any(
                str(alias).casefold() == wanted for alias in aliases
            ):
                return note
        if start + _LISTED >= total:
            break
    return None


def _note(library: Library, id: str) -> Summary | None:
    try:
        return library.knowledge.find("notes", id)
    except NotFound:
        return None


# -- a search over everything ---


@dataclass(frozen=True, slots=True)
class Found:
    url: str
    kind: Kind
    title: str
    snippet: str
    marks: Sequence[tuple[int, int]]
    score: float
    when: datetime | None
    sender: str
    place: str
    """Where in it: a time, a page, a field."""
    media_type: str
    tags: Sequence[str]


def found(result: Mapping[str, Json], query: str) -> Found:
    """A result of contract 3, as a template shows it."""
    source = CONVERSATIONS if result["source"] == "chats" else result["source"]
    where = result["loc"] or {}
    text, marks = _marked(result["snippet"] or "", query)
    return Found(
        url=_place(source, result, where, query),
        kind=KINDS[source],
        title=result["title"] or "",
        snippet=text,
        marks=marks,
        score=result["score"],
        when=moment(result["last_modified"]),
        sender=result["sender"] or "",
        place=_said_place(where),
        media_type=result["media_type"] or "",
        tags=(result["tags"] or [])[:3],
    )


def _marked(text: str, query: str) -> tuple[str, Sequence[tuple[int, int]]]:
    try:
        node = parse_query(storable(query)).node
    except InvalidInput:
        return text, ()
    room = 4 * len(text) + 8  # so much that nothing is cut before the first word
    return snippet(text, words(node) if node is not None else [], room)


def _place(source: str, result: Mapping[str, Json], where: Mapping[str, Json], query: str) -> str:
    if source == CONVERSATIONS:
        return links.conversation_url(result["id"], m=result["message_id"], q=query)
    index = where.get("chunk_index")
    part = (
        str(index) if isinstance(index, int) and index >= PARTS and "field" not in where else None
    )
    address = links.item_url(source, result["id"], q=query, p=part)
    if (seconds := where.get("seconds")) is not None:
        return f"{address}#t={int(seconds)}"
    return f"{address}#f-{where['field']}" if where.get("field") in _LABELS else address


def _said_place(where: Mapping[str, Json]) -> str:
    if (seconds := where.get("seconds")) is not None:
        return f"at {clock(seconds)}"
    if (page := where.get("page")) is not None:
        return f"page {page}"
    return _LABELS.get(str(where.get("field")), "").lower()


def sources_of(within: str) -> tuple[str, ...]:
    """What contract 3 calls a kind; nothing where everything is searched."""
    named = "chats" if within == CONVERSATIONS else within
    return (named,) if named in SOURCES else ()
