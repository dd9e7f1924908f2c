"""Web pages: what is written on them, without what stands around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from recollect.importers.documents.extract import Extract, contents, day, listed
from recollect.importers.documents.markup import Element, parsed_html, text_of_html
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.settings import LIMITS

_LITTLE = 0.1  # of a page: then most of it was taken for what stands around
_SAVED_FROM = re.compile(rb"<!--\s*saved from url=\(\d+\)(\S+)")
_TITLES = ("og:title", "twitter:title", "dc.title", "citation_title")
_AUTHORS = ("author", "article:author", "dc.creator", "citation_author", "parsely-author")
_DATES = (
    "article:published_time",
    "date",
    "dc.date",
    "dcterms.created",
    "citation_publication_date",
    "pubdate",
)
_ARTICLES = ("Article", "BlogPosting", "Report")
_SCRIPTS = 20
_MOST = 30_000  # elements of a page in which the article is looked for; a larger one is taken whole


def extract(entry: Entry) -> Extract:
    from trafilatura import extract as main_text

    data = contents(entry, LIMITS.document_part_bytes)
    root = parsed_html(data)
    if root is None:
        raise Unreadable("no text in it")
    whole = text_of_html(root)
    found = ""
    if sum(1 for _ in root.iter()) <= _MOST:
        found = (
            main_text(data, output_format="markdown", include_comments=False, favor_recall=True)
            or ""
        )
    text = found if len(found) >= _LITTLE * len(whole) else whole
    if not text.strip():
        raise Unreadable("no text in it")
    said = _said(root)
    linked = list(_linked_data(root))
    kinds = {kind for record in linked for kind in _words(record.get("@type"))}
    article = said.get("og:type") == "article" or any(kind.endswith(_ARTICLES) for kind in kinds)
    return Extract(
        text=text,
        title=_first(said, _TITLES)
        or next(_of(linked, "headline"), "")
        or _text(root, "title")
        or _text(root, "h1"),
        author=_author(said, linked),
        language=root.get("lang") or _first(said, ("og:locale", "dc.language")),
        url=_url(root, said, data),
        created_at=_published(root, said, linked),
        tags=tuple(dict.fromkeys(listed(said.get("keywords") or said.get("news_keywords")))),
        media_type="article" if article else "",
    )


def _said(root: Element) -> dict[str, str]:
    """What the page says of itself in its head, by name in lower case; the first of a name."""
    found: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = meta.get("property") or meta.get("name") or meta.get("itemprop") or ""
        content = (meta.get("content") or "").strip()
        if name and content:
            found.setdefault(name.lower(), content)
    return found


def _linked_data(root: Element) -> Iterator[Mapping[str, Any]]:
    """The records of JSON-LD, which search engines read."""
    scripts = (
        s for s in root.iter("script") if (s.get("type") or "").lower() == "application/ld+json"
    )
    for _, script in zip(range(_SCRIPTS), scripts, strict=False):
        try:
            record = json.loads(script.text or "")
        except (ValueError, RecursionError):
            continue
        graph = record.get("@graph") if isinstance(record, dict) else None
        records = (
            graph if isinstance(graph, list) else record if isinstance(record, list) else [record]
        )
        yield from (item for item in records if isinstance(item, dict))


def _words(value: Any) -> list[str]:
    return [
        item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)
    ]


def _of(linked: list[Mapping[str, Any]], key: str) -> Iterator[str]:
    return (
        value.strip() for record in linked for value in _words(record.get(key)) if value.strip()
    )


def _author(said: Mapping[str, str], linked: list[Mapping[str, Any]]) -> str:
    found = _first(said, _AUTHORS)
    if found and not found.startswith(("http://", "https://")):
        return found
    for record in linked:
        authors = record.get("author")
        people = authors if isinstance(authors, list) else [authors]
        named = [person.get("name") if isinstance(person, dict) else person for person in people]
        if names := [name.strip() for name in named if isinstance(name, str) and name.strip()]:
            return ", ".join(names)
    return ""


def _published(
    root: Element, said: Mapping[str, str], linked: list[Mapping[str, Any]]
) -> datetime | None:
    times = (time.get("datetime") for time in root.iter("time") if time.get("pubdate") is not None)
    texts = [
        *(said[name] for name in _DATES if name in said),
        *_of(linked, "datePublished"),
        *times,
    ]
    return next((found for text in texts if (found := day(text))), None)


def _url(root: Element, said: Mapping[str, str], data: bytes) -> str:
    links = (
        str(link.get("href") or "")
        for link in root.iter("link")
        if (link.get("rel") or "").lower() == "canonical"
    )
    saved = _SAVED_FROM.search(data[:4096])
    found = [
        next(links, ""),
        said.get("og:url", ""),
        saved[1].decode("utf-8", "replace") if saved else "",
    ]
    return next((url for url in found if url.startswith(("http://", "https://"))), "")


def _text(root: Element, tag: str) -> str:
    element = next(root.iter(tag), None)
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _first(said: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((said[name] for name in names if name in said), "")
