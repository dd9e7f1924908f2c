"""Web pages: their main text, without navigation and advertising."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from recollect.importers.documents.extract import (
    Extract,
    parse_date,
    read_bytes,
    split_keywords,
)
from recollect.importers.documents.html_text import Element, html_to_text, parse_html
from recollect.importers.entries import Entry
from recollect.importers.texts import Unreadable
from recollect.settings import LIMITS

_SHORT = 0.1  # of the page; if the main text is shorter, the whole page is imported
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
_MAX_SCRIPTS = 20
_MAX_ELEMENTS = 30_000  # the main text of a larger page is not looked for

Records = list[Mapping[str, Any]]


def extract(entry: Entry) -> Extract:
    data = read_bytes(entry, LIMITS.document_part_bytes)
    root = parse_html(data)
    if root is None:
        raise Unreadable("contains no text")
    text = _main_text(data, root)
    if not text.strip():
        raise Unreadable("contains no text")
    meta = _meta_tags(root)
    records = list(_json_ld(root))
    media_type = ""
    if _is_article(meta, records):
        media_type = "article"
    return Extract(
        text=text,
        title=_title(root, meta, records),
        author=_author(meta, records),
        language=root.get("lang") or _first_of(meta, ("og:locale", "dc.language")),
        url=_url(root, meta, data),
        created_at=_published_at(root, meta, records),
        tags=tuple(
            dict.fromkeys(split_keywords(meta.get("keywords") or meta.get("news_keywords")))
        ),
        media_type=media_type,
    )


def _main_text(data: bytes, root: Element) -> str:
    from trafilatura import extract as extract_main_text

    page = html_to_text(root)
    if sum(1 for _ in root.iter()) > _MAX_ELEMENTS:
        return page
    text = extract_main_text(
        data, output_format="markdown", include_comments=False, favor_recall=True
    )
    if text is None or len(text) < _SHORT * len(page):
        return page
    return text


# -- metadata ----------------------------------------------------------------


def _meta_tags(root: Element) -> dict[str, str]:
    """The contents of the page's meta tags, by lower-case name; the first of each name."""
    meta: dict[str, str] = {}
    for tag in root.iter("meta"):
        name = tag.get("property") or tag.get("name") or tag.get("itemprop") or ""
        content = (tag.get("content") or "").strip()
        if name and content:
            meta.setdefault(name.lower(), content)
    return meta


def _json_ld(root: Element) -> Iterator[Mapping[str, Any]]:
    """The JSON-LD records that a page has for search engines."""
    scripts = (
        script
        for script in root.iter("script")
        if (script.get("type") or "").lower() == "application/ld+json"
    )
    for script in islice(scripts, _MAX_SCRIPTS):
        try:
            value = json.loads(script.text or "")
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("@graph"), list):
            value = value["@graph"]
        yield from (record for record in _as_list(value) if isinstance(record, dict))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _values(records: Records, key: str) -> Iterator[str]:
    """The non-empty strings that the records have under a key."""
    for record in records:
        for value in _as_list(record.get(key)):
            if isinstance(value, str) and value.strip():
                yield value.strip()


def _is_article(meta: Mapping[str, str], records: Records) -> bool:
    if meta.get("og:type") == "article":
        return True
    return any(type_.endswith(_ARTICLES) for type_ in _values(records, "@type"))


def _title(root: Element, meta: Mapping[str, str], records: Records) -> str:
    return (
        _first_of(meta, _TITLES)
        or next(_values(records, "headline"), "")
        or _element_text(root, "title")
        or _element_text(root, "h1")
    )


def _author(meta: Mapping[str, str], records: Records) -> str:
    author = _first_of(meta, _AUTHORS)
    if author and not _is_url(author):
        return author
    for record in records:
        names = []
        for person in _as_list(record.get("author")):
            name = person.get("name") if isinstance(person, dict) else person
            if isinstance(name, str) and name.strip():
                names.append(name.strip())
        if names:
            return ", ".join(names)
    return ""


def _published_at(root: Element, meta: Mapping[str, str], records: Records) -> datetime | None:
    texts = [meta[name] for name in _DATES if name in meta]
    texts += _values(records, "datePublished")
    texts += [time.get("datetime") for time in root.iter("time") if time.get("pubdate") is not None]
    for text in texts:
        date = parse_date(text)
        if date is not None:
            return date
    return None


def _url(root: Element, meta: Mapping[str, str], data: bytes) -> str:
    candidates = []
    for link in root.iter("link"):
        if (link.get("rel") or "").lower() == "canonical":
            candidates.append(str(link.get("href") or ""))
            break
    candidates.append(meta.get("og:url", ""))
    saved_from = _SAVED_FROM.search(data[:4096])
    if saved_from:
        candidates.append(saved_from[1].decode("utf-8", "replace"))
    for url in candidates:
        if _is_url(url):
            return url
    return ""


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _element_text(root: Element, tag: str) -> str:
    element = next(root.iter(tag), None)
    if element is None:
        return ""
    return " ".join("".join(element.itertext()).split())


def _first_of(meta: Mapping[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        if name in meta:
            return meta[name]
    return ""
