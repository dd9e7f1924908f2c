"""The pages of notes, media, characters and prompts: lists, items, and links between notes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Annotated, NamedTuple

from fastapi import Depends, Query
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from recollect.errors import NotFound
from recollect.importers.items import FIELDS, fields_of, text_of
from recollect.knowledge.exporting import FORMATS
from recollect.knowledge.results import tags_of
from recollect.language.text import storable, truncate
from recollect.library import Library
from recollect.model.documents import Json, Summary
from recollect.model.kinds import CHARACTER, NOTE
from recollect.serve import links
from recollect.serve.console.attachments import portrait
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.forms import FIELD_LABELS, card_greetings, edit_page, new_page
from recollect.serve.console.lists import Filters, frame
from recollect.serve.console.markup import rendering
from recollect.serve.console.tabs import CHARACTERS, CONVERSATIONS, NOTES, PROMPTS, Tab, get_tab
from recollect.serve.console.templating import fragment, page
from recollect.serve.console.text_windows import (
    TextWindow,
    format_clock,
    read_passages,
    text_window,
)
from recollect.serve.http.access import AccessTo
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import KNOWLEDGE, READ, WRITE, Principal

routes = Routes("", KNOWLEDGE, route_class=PageRoute)

_MARKDOWN_PASSAGES = 100  # longer texts are shown in windows, as plain text
_MARKDOWN_MEDIA = ("markdown", "article", "html")
_MAX_ENTRIES = 500  # of a lorebook, or greetings
_HEADING = re.compile(r"\s*+#[ \t]++([^\n]*+)\n?")
_PLAIN_TEXT_FIELDS = frozenset(
    ("system_prompt", "user_prompt", "message_example", "post_history_instructions")
)
_FORMAT_LABELS = {
    "md": "Markdown",
    "txt": "Plain text",
    "json": "JSON (complete)",
    "srt": "Subtitles (SRT)",
    "vtt": "Subtitles (VTT)",
}
_NOTES_PAGE = 200  # notes per request
_MAX_ALIAS_SCAN = 2_000  # notes whose aliases are checked

Position = Annotated[int, Query(ge=0, le=2**31)]


@dataclass(frozen=True, slots=True)
class ItemRequest:
    """How to show an item."""

    edit: bool = False
    q: str = ""
    """Highlight the words of this query."""
    p: Position = 0
    """Start a long text at the window with this passage."""


@routes.add("GET /knowledge/{kind}", READ)
def item_list(
    access: AccessTo,
    filters: Filters,
    kind: str,
    new: bool = False,
    name: str = "",
    link: str = "",
    of: str = "",
) -> Response:
    """The list of a kind, a form for a new item, or the target of a link in the note `of`."""
    if is_conversations(kind):
        return RedirectResponse("/", 307)
    if link and kind == NOTES:
        with access.read() as library:
            note = resolve_link(library, storable(link), storable(of))
            if note is None:
                title = truncate(link.partition("#")[0].strip() or link, 200)
                values = frame(library, NOTES, filters) | {"title": title, "from_id": of}
                return page(access.request, "missing_note.html", **values)
        return item(access, filters, NOTES, note.id, ItemRequest())
    if new:
        return new_page(access, filters, kind, name)
    with access.read() as library:
        values = frame(library, kind, filters)
    return page(access.request, "item_list.html", tab=get_tab(kind), **values)


@routes.add("GET /knowledge/{kind}/", READ)
def item_by_query(
    access: AccessTo,
    filters: Filters,
    kind: str,
    request: Annotated[ItemRequest, Depends()],
    id: str = "",
) -> Response:
    """An item whose id cannot be part of a path."""
    return item(access, filters, kind, id, request)


@routes.add("GET /knowledge/{kind}/{item_id:id}", READ)
def item(
    access: AccessTo,
    filters: Filters,
    kind: str,
    item_id: str,
    request: Annotated[ItemRequest, Depends()],
) -> Response:
    if is_conversations(kind):
        return RedirectResponse(links.conversation_url(item_id), 307)
    if request.edit:
        access.require(WRITE, KNOWLEDGE)
        return edit_page(access, filters, kind, item_id)
    with access.read() as library:
        view = open_item(library, access.principal, kind, item_id, request.p)
        values = frame(library, kind, filters, view.summary.id) | {"q": request.q}
    terms = rendering.query_terms(request.q)
    return page(access.request, "item.html", item=view, terms=terms, **values)


def is_conversations(kind: str) -> bool:
    """Conversations have their own pages. Raises NotFound for an unknown kind."""
    return kind == "chats" or get_tab(kind).name == CONVERSATIONS


@routes.add("GET /console/item-part", READ)
def item_part(access: AccessTo, kind: str, id: str, p: Position = 0) -> Response:
    """More of a long text."""
    with access.read() as library:
        summary = library.knowledge.find(kind, id)
        window = text_window(library, access.principal, summary, p)
    return fragment("_text_window.html", window=window)


@routes.add("GET /console/item-text", READ)
def copy_text(access: AccessTo, kind: str, id: str, field: str = "") -> Response:
    """The source text of an item or of one of its fields, to copy."""
    with access.read() as library:
        summary = library.knowledge.find(kind, id)
        passages = read_passages(library, access.principal, summary)
    text = text_of(passages)
    if field:
        fields = fields_of(passages)
        if field not in fields:
            raise NotFound(f"This {get_tab(kind).singular} has no field {truncate(field, 80)!r}.")
        text = fields[field]
    return Response(storable(text), media_type="text/plain")


@routes.add("GET /console/portrait", READ)
def character_portrait(access: AccessTo, id: str) -> Response:
    with access.read() as library:
        media_type, data = portrait(library, access.principal, id)
    return Response(data, media_type=media_type)


# -- an item as the templates show it ---


class Section(NamedTuple):
    """A field of a character or prompt."""

    name: str
    label: str
    body: Markup
    entries: Sequence[tuple[str, Markup]] = ()
    """Its parts, if they can be expanded one by one."""


class ItemView(NamedTuple):
    summary: Summary
    tab: Tab
    tags: Sequence[str]
    url: str
    web_url: str
    properties: Sequence[tuple[str, str]]
    """Further metadata, by name."""
    facts: Sequence[str]
    formats: Sequence[tuple[str, str]]
    body: Markup | None = None
    window: TextWindow | None = None
    sections: Sequence[Section] = ()


def open_item(
    library: Library, principal: Principal, kind: str, id: str, position: int = 0
) -> ItemView:
    """An item to read; for a long text, the part around a position. Raises NotFound."""
    summary = library.knowledge.find(kind, id)
    fields: Mapping[str, str] = {}
    sections: Sequence[Section] = ()
    body, window, has_times = None, None, False
    if kind in (CHARACTERS, PROMPTS):
        fields = fields_of(read_passages(library, principal, summary))
        sections = tuple(_sections(summary, fields))
    else:
        window = text_window(library, principal, summary, position)
        has_times = bool(window.paragraphs)
        if not has_times:
            body = markdown_body(library, principal, summary)
    return ItemView(
        summary,
        get_tab(kind),
        tags_of(summary.metadata),
        links.item_url(kind, summary.id),
        links.web(summary.metadata.get("url")),
        _properties(summary.metadata),
        [truncate(fact, 200) for fact in _facts(summary.metadata, fields)],
        [
            (name, "Card (JSON)" if (summary.kind, name) == (CHARACTER, "json") else label)
            for name, label in ((name, _FORMAT_LABELS[name]) for name in FORMATS[summary.kind])
            if has_times or name not in ("srt", "vtt")
        ],
        body,
        window if body is None else None,
        sections,
    )


def markdown_body(library: Library, principal: Principal, summary: Summary) -> Markup | None:
    """The whole text as HTML, if it is Markdown and short enough."""
    is_note = summary.kind == NOTE
    if not is_note and summary.metadata.get("media_type") not in _MARKDOWN_MEDIA:
        return None
    if summary.message_count > _MARKDOWN_PASSAGES:
        return None
    text = text_of(read_passages(library, principal, summary))
    if len(text) > rendering.MARKDOWN_CHARS:
        return None
    if not is_note:
        return rendering.Page().markdown(text)
    # The page has the title as its heading, so a first heading that repeats it is left out.
    heading = _HEADING.match(text)
    if heading and heading[1].rstrip().rstrip("#").rstrip().casefold() == summary.title.casefold():
        text = text[heading.end() :]
    return rendering.Page().note(text, summary.id)


def _facts(metadata: Mapping[str, Json], fields: Mapping[str, str]) -> Iterator[str]:
    """Author, length and the like, for the line below the title."""
    author = _text({**metadata, **fields}, "author", "creator")
    version, nickname = _text(metadata, "character_version"), _text(metadata, "nickname")
    for word, text in (("by", author), ("version", version), ("called", nickname)):
        if text:
            yield f"{word} {text}"
    duration = metadata.get("duration")
    if isinstance(duration, (int, float)) and duration > 0:
        yield format_clock(duration)
    pages = metadata.get("pages")
    if isinstance(pages, int) and pages > 0:
        yield "1 page" if pages == 1 else f"{pages:,} pages"
    if language := _text(metadata, "language"):
        yield f"in {language}" if len(language) > 3 else language


def _properties(metadata: Mapping[str, Json]) -> list[tuple[str, str]]:
    """The file, the aliases and the front matter."""
    properties = {"File": metadata.get("file"), "Aliases": metadata.get("aliases")}.items()
    front_matter = metadata.get("front_matter")
    more = front_matter.items() if isinstance(front_matter, Mapping) else ()
    texts = []
    for name, value in (*properties, *more):
        if isinstance(value, list) and all(isinstance(part, (str, int, float)) for part in value):
            value = ", ".join(map(str, value))
        if value and not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False, default=str)
        if value:
            texts.append((truncate(str(name), 100), truncate(value, 1_000)))
    return texts[:50]


def _text(metadata: Mapping[str, Json], *names: str) -> str:
    """The first of these fields that has a text."""
    values = (metadata.get(name) for name in names)
    return next((v.strip() for v in values if isinstance(v, str) and v.strip()), "")


def _sections(summary: Summary, fields: Mapping[str, str]) -> Iterator[Section]:
    """The fields of a character or prompt."""
    card = summary.metadata.get("card")
    page = rendering.Page()
    for name in FIELDS[summary.kind]:
        text = fields.get(name, "")
        if name not in FIELD_LABELS or not text.strip():
            continue
        texts: list[tuple[str, str]] = []
        if name == "alternate_greetings":
            texts = [(preview(text), text) for text in card_greetings(card)]
        elif name == "character_book":
            texts = list(lore(card))
        if texts:
            entries = [(label, page.markdown(text)) for label, text in texts[:_MAX_ENTRIES]]
            yield Section(name, FIELD_LABELS[name], Markup(""), entries)
            continue
        text = rendering.beginning(text, rendering.MAX_CHARS)
        body = rendering.plain(text) if name in _PLAIN_TEXT_FIELDS else page.markdown(text)
        yield Section(name, FIELD_LABELS[name], body)


def lore(card: Json) -> Iterator[tuple[str, str]]:
    """The entries of a card's lorebook, each with a label."""
    book = card.get("character_book") if isinstance(card, Mapping) else None
    entries = book.get("entries") if isinstance(book, Mapping) else None
    if isinstance(entries, Mapping):
        entries = list(entries.values())
    for entry in entries if isinstance(entries, list) else ():
        content = entry.get("content") if isinstance(entry, Mapping) else None
        if not isinstance(content, str) or not content.strip():
            continue
        label = _text(entry, "name", "comment")
        if not label and isinstance(entry.get("keys"), list):
            label = ", ".join(map(str, entry["keys"]))
        yield truncate(label or preview(content), 120), content


def preview(text: str) -> str:
    return truncate(" ".join(text[:400].split()), 120)


# -- links between notes ---


def resolve_link(library: Library, target: str, from_id: str) -> Summary | None:
    """The note that a link such as `[[Plans]]` in the note `from_id` means.

    A path wins, the nearest folder first; then a title; then an alias.
    """
    name = target.partition("#")[0].strip().replace("\\", "/").strip("/")
    for suffix in (".md", ".markdown"):
        name = name.removesuffix(suffix)
    folders = from_id.split("/")[:-1]
    ids = [normpath("/".join([*folders[:n], name])) for n in range(len(folders), -1, -1)]
    for id in ids if name else [from_id]:
        try:
            return library.knowledge.find(NOTES, id)
        except NotFound:
            continue
    if not name:
        return None
    name = name.casefold()
    notes, _ = library.knowledge.list(NOTES, search=name.rpartition("/")[2], limit=_NOTES_PAGE)
    paths = [note for note in notes if f"/{note.id}".casefold().endswith(f"/{name}")]
    titles = [note for note in notes if note.title.casefold() == name]
    if paths or titles:
        return (paths + titles)[0]
    for offset in range(0, _MAX_ALIAS_SCAN, _NOTES_PAGE):
        notes, total = library.knowledge.list(NOTES, limit=_NOTES_PAGE, offset=offset)
        for note in notes:
            aliases = note.metadata.get("aliases")
            if isinstance(aliases, list) and name in [str(alias).casefold() for alias in aliases]:
                return note
        if offset + _NOTES_PAGE >= total:
            break
    return None
