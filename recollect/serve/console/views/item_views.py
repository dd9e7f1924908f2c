"""Notes, media, characters and prompts, as the templates show them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from recollect.errors import NotFound
from recollect.importers.items import FIELDS, fields_of, text_of
from recollect.knowledge.exporting import FORMATS
from recollect.knowledge.results import tags_of
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.documents import Json, Summary
from recollect.model.kinds import CHARACTER, NOTE
from recollect.serve import links
from recollect.serve.console.tabs import CHARACTERS, PROMPTS, Tab, get_tab
from recollect.serve.console.views.forms import FIELD_LABELS
from recollect.serve.console.views.markup import rendering
from recollect.serve.console.views.text_windows import (
    TextWindow,
    format_clock,
    read_passages,
    text_window,
)
from recollect.serve.identity.principal import Principal

_MARKDOWN_PASSAGES = 100  # longer texts are shown in windows, as plain text
_MARKDOWN_MEDIA = ("markdown", "article", "html")
_MAX_ENTRIES = 500  # of a lorebook, or greetings
_HEADING = re.compile(r"\s*+#[ \t]++([^\n]*+)\n?")
_PLAIN_TEXT_FIELDS = frozenset(
    ("system_prompt", "user_prompt", "message_example", "post_history_instructions")
)
_TIMED_FORMATS = ("srt", "vtt")
_FORMAT_LABELS = {
    "md": "Markdown",
    "txt": "Plain text",
    "json": "JSON (complete)",
    "srt": "Subtitles (SRT)",
    "vtt": "Subtitles (VTT)",
    "png": "Card (PNG)",
}


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
    facts: Sequence[str]
    properties: Sequence[tuple[str, str]]
    """Further metadata, by name."""
    formats: Sequence[tuple[str, str]]
    body: Markup | None = None
    window: TextWindow | None = None
    sections: Sequence[Section] = ()


def open_item(
    library: Library, principal: Principal, kind: str, id: str, position: int = 0
) -> ItemView:
    """An item to read; for a long text, the part around a position. Raises NotFound."""
    summary = library.knowledge.find(kind, id)
    common: dict[str, Any] = {
        "summary": summary,
        "tab": get_tab(kind),
        "tags": tags_of(summary.metadata),
        "url": links.item_url(kind, summary.id),
        "web_url": links.web(summary.metadata.get("url")),
        "properties": _properties(summary.metadata),
    }
    if kind in (CHARACTERS, PROMPTS):
        fields = _read_fields(library, principal, summary)
        return ItemView(
            **common,
            facts=_facts(summary, fields),
            formats=_formats(summary, has_times=False),
            sections=tuple(_sections(summary, fields)),
        )
    window = text_window(library, principal, summary, position)
    has_times = bool(window.paragraphs)
    body = None
    if not has_times:
        body = _markdown_body(library, principal, summary)
    return ItemView(
        **common,
        facts=_facts(summary, {}),
        formats=_formats(summary, has_times),
        body=body,
        window=window if body is None else None,
    )


def item_text(library: Library, principal: Principal, kind: str, id: str, field: str) -> str:
    """The source text of an item or of one of its fields, to copy. Raises NotFound."""
    summary = library.knowledge.find(kind, id)
    if not field:
        passages, _ = read_passages(library, principal, summary, 0, summary.message_count)
        return text_of(passages)
    fields = _read_fields(library, principal, summary)
    if field not in fields:
        raise NotFound(f"This {get_tab(kind).singular} has no field {truncate(field, 80)!r}.")
    return fields[field]


def _read_fields(library: Library, principal: Principal, summary: Summary) -> dict[str, str]:
    passages, _ = read_passages(library, principal, summary, 0, summary.message_count)
    return fields_of(passages)


def _markdown_body(library: Library, principal: Principal, summary: Summary) -> Markup | None:
    """The whole text as HTML, if it is Markdown and short enough."""
    is_note = summary.kind == NOTE
    if not is_note and summary.metadata.get("media_type") not in _MARKDOWN_MEDIA:
        return None
    if summary.message_count > _MARKDOWN_PASSAGES:
        return None
    passages, _ = read_passages(library, principal, summary, 0, summary.message_count)
    text = text_of(passages)
    if len(text) > rendering.MARKDOWN_CHARS:
        return None
    if not is_note:
        return rendering.markdown(text)
    return rendering.note(_without_title(text, summary.title), summary.id)


def _without_title(text: str, title: str) -> str:
    """The page has the title as its heading, so a first heading that repeats it is left out."""
    heading = _HEADING.match(text)
    if heading is None:
        return text
    words = heading[1].rstrip().rstrip("#").rstrip()
    if words.casefold() == title.casefold():
        return text[heading.end() :]
    return text


def _formats(summary: Summary, has_times: bool) -> list[tuple[str, str]]:
    """The export formats, with their labels."""
    formats = []
    for name in FORMATS[summary.kind]:
        if name in _TIMED_FORMATS and not has_times:
            continue
        label = _FORMAT_LABELS[name]
        if summary.kind == CHARACTER and name == "json":
            label = "Card (JSON)"
        formats.append((name, label))
    return formats


# -- metadata ---


def _facts(summary: Summary, fields: Mapping[str, str]) -> list[str]:
    """Author, length and the like, for the line below the title."""
    metadata = summary.metadata
    facts = []
    authors = [fields.get("author"), fields.get("creator")]
    authors += [_text(metadata, "author"), _text(metadata, "creator")]
    author = next((name for name in authors if name), "")
    if author:
        facts.append(f"by {author}")
    version = _text(metadata, "character_version")
    if version:
        facts.append(f"version {version}")
    nickname = _text(metadata, "nickname")
    if nickname:
        facts.append(f"called {nickname}")
    facts += _measures(metadata)
    language = _text(metadata, "language")
    if len(language) > 3:
        facts.append(f"in {language}")
    elif language:
        facts.append(language)
    return [truncate(fact, 200) for fact in facts]


def _measures(metadata: Mapping[str, Json]) -> Iterator[str]:
    duration = metadata.get("duration")
    if isinstance(duration, (int, float)) and duration > 0:
        yield format_clock(duration)
    pages = metadata.get("pages")
    if isinstance(pages, int) and pages > 0:
        yield "1 page" if pages == 1 else f"{pages:,} pages"


def _properties(metadata: Mapping[str, Json]) -> list[tuple[str, str]]:
    """The file, the aliases and the front matter."""
    properties: list[tuple[str, Json]] = [
        ("File", metadata.get("file")),
        ("Aliases", metadata.get("aliases")),
    ]
    front_matter = metadata.get("front_matter")
    if isinstance(front_matter, Mapping):
        properties += [(str(name), value) for name, value in front_matter.items()]
    texts = [
        (truncate(name, 100), truncate(_format_value(value), 1_000))
        for name, value in properties
        if value
    ]
    return texts[:50]


def _format_value(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, (str, int, float)) for part in value):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _text(metadata: Mapping[str, Json], name: str) -> str:
    value = metadata.get(name)
    if isinstance(value, str):
        return value.strip()
    return ""


# -- the fields of characters and prompts ---


def _sections(summary: Summary, fields: Mapping[str, str]) -> Iterator[Section]:
    card = summary.metadata.get("card")
    if not isinstance(card, Mapping):
        card = {}
    page = rendering.Page()
    for name in FIELDS[summary.kind]:
        text = fields.get(name, "")
        if name not in FIELD_LABELS or not text.strip():
            continue
        entries: Sequence[tuple[str, Markup]] = ()
        if name == "alternate_greetings":
            entries = _greetings(card, page)
        elif name == "character_book":
            entries = _lorebook(card, page)
        body = Markup("")
        if not entries:
            body = _render_field(name, text, page)
        yield Section(name, FIELD_LABELS[name], body, entries)


def _render_field(name: str, text: str, page: rendering.Page) -> Markup:
    text = rendering.beginning(text, rendering.MAX_CHARS)
    if name in _PLAIN_TEXT_FIELDS:
        return rendering.plain(text)
    return page.markdown(text)


def _greetings(card: Mapping[str, Json], page: rendering.Page) -> list[tuple[str, Markup]]:
    greetings = card.get("alternate_greetings")
    if not isinstance(greetings, list):
        return []
    texts = [text for text in greetings if isinstance(text, str) and text.strip()]
    return [(_preview(text), page.markdown(text)) for text in texts[:_MAX_ENTRIES]]


def _lorebook(card: Mapping[str, Json], page: rendering.Page) -> list[tuple[str, Markup]]:
    book = card.get("character_book")
    if not isinstance(book, Mapping):
        return []
    entries = book.get("entries")
    if isinstance(entries, Mapping):
        entries = list(entries.values())
    if not isinstance(entries, list):
        return []
    sections = []
    for entry in entries[:_MAX_ENTRIES]:
        if not isinstance(entry, Mapping):
            continue
        content = entry.get("content")
        if isinstance(content, str) and content.strip():
            sections.append((_lore_label(entry, content), page.markdown(content)))
    return sections


def _lore_label(entry: Mapping[str, Json], content: str) -> str:
    label = _text(entry, "name") or _text(entry, "comment")
    keys = entry.get("keys")
    if not label and isinstance(keys, list):
        label = ", ".join(map(str, keys))
    return truncate(label or _preview(content), 120)


def _preview(text: str) -> str:
    return truncate(" ".join(text[:400].split()), 120)
