"""Web pages: their main text, without navigation and advertising."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from recollect.importers.documents.extract import (
    Extract,
    parse_date,
    read_bytes,
    require,
    split_keywords,
)
from recollect.importers.documents.html_text import HtmlText, read_html
from recollect.importers.entries import Entry, Unreadable
from recollect.settings import LIMITS

_SHORT = 0.1  # of the page; if the main text is shorter, the whole page is imported
_SAVED_FROM = re.compile(rb"<!--\s*saved from url=\(\d+\)(\S+)")
_TITLES = ("og:title", "twitter:title", "dc.title", "citation_title")
_AUTHORS = ("author", "article:author", "dc.creator", "citation_author", "parsely-author")
_DATES = tuple(
    "article:published_time date dc.date dcterms.created citation_publication_date pubdate".split()
)
_ARTICLES = ("Article", "BlogPosting", "Report")
_MAX_SCRIPTS = 20
_MAX_ELEMENTS = 30_000  # the main text of a larger page is not looked for
_MAX_ATTRIBUTES = 500  # likewise
_MAX_MAIN_BYTES = 16_777_216  # likewise
_MAX_VALUES = 1_000

Records = list[Mapping[str, Any]]


def extract(entry: Entry) -> Extract:
    data = read_bytes(entry, LIMITS.document_part_bytes)
    page = _Page()
    read_html(data, page)
    text = main_text(data, page)
    if not text.strip():
        raise Unreadable("contains no text")
    meta = page.meta
    records = list(json_ld(page.scripts))
    kinds = list(values(records, "@type"))
    is_article = meta.get("og:type") == "article" or any(k.endswith(_ARTICLES) for k in kinds)
    return Extract(
        text=text,
        omission=page.omission,
        title=first_of(meta, _TITLES)
        or next(values(records, "headline"), "")
        or page.titles.get("title", "")
        or page.titles.get("h1", ""),
        author=_author(meta, records),
        language=page.language or first_of(meta, ("og:locale", "dc.language")),
        url=url(page, data),
        created_at=published_at(page, records),
        tags=tuple(
            dict.fromkeys(split_keywords(meta.get("keywords") or meta.get("news_keywords")))
        ),
        media_type="article" if is_article else "",
    )


def main_text(data: bytes, page: _Page) -> str:
    whole_text = page.text
    if (
        page.is_full
        or page.elements > _MAX_ELEMENTS
        or page.attributes > _MAX_ATTRIBUTES
        or len(data) > _MAX_MAIN_BYTES
    ):
        return whole_text
    require("trafilatura")
    from trafilatura import extract as extract_main_text

    text = extract_main_text(
        data, output_format="markdown", include_comments=False, favor_recall=True
    )
    if text is None or len(text) < _SHORT * len(whole_text):
        return whole_text
    return text


# -- metadata ----------------------------------------------------------------


class _Page(HtmlText):
    """The text of a page and its metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.meta: dict[str, str] = {}
        """The contents of the meta tags, by lower-case name; the first of each name."""
        self.scripts: list[str] = []
        """The JSON-LD that the page has for search engines."""
        self.titles: dict[str, str] = {}
        """The text of the first `title` and of the first `h1`."""
        self.language = ""
        self.canonical_url: str | None = None
        self.publication_dates: list[str] = []
        self._captured_tag = ""
        self._captured_text: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        super().start(tag, attributes)
        if tag == "meta":
            self._read_meta(attributes)
        elif tag == "html":
            self.language = self.language or attributes.get("lang") or ""
        elif tag == "link" and (attributes.get("rel") or "").lower() == "canonical":
            if self.canonical_url is None:
                self.canonical_url = attributes.get("href") or ""
        elif tag == "time" and "pubdate" in attributes:
            if len(self.publication_dates) < _MAX_VALUES:
                self.publication_dates.append(attributes.get("datetime") or "")
        elif not self._captured_tag and self._is_captured(tag, attributes):
            self._captured_tag = tag

    def data(self, text: str) -> None:
        super().data(text)
        if self._captured_tag:
            self._captured_text.append(text)

    def end(self, tag: str) -> None:
        super().end(tag)
        if tag != self._captured_tag:
            return
        text = "".join(self._captured_text)
        if tag == "script":
            self.scripts.append(text)
        else:
            self.titles[tag] = " ".join(text.split())
        self._captured_tag = ""
        self._captured_text = []

    def _is_captured(self, tag: str, attributes: Mapping[str, str]) -> bool:
        if tag == "script":
            type_ = attributes.get("type") or ""
            return type_.lower() == "application/ld+json" and len(self.scripts) < _MAX_SCRIPTS
        return tag in ("title", "h1") and tag not in self.titles

    def _read_meta(self, attributes: Mapping[str, str]) -> None:
        names = (attributes.get(key) for key in ("property", "name", "itemprop"))
        name = next(filter(None, names), "")
        content = (attributes.get("content") or "").strip()
        if name and content and len(self.meta) < _MAX_VALUES:
            self.meta.setdefault(name.lower(), content)


def json_ld(scripts: list[str]) -> Iterator[Mapping[str, Any]]:
    """The JSON-LD records that a page has for search engines."""
    for script in scripts:
        try:
            value = json.loads(script)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("@graph"), list):
            value = value["@graph"]
        yield from (record for record in as_list(value) if isinstance(record, dict))


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def values(records: Records, key: str) -> Iterator[str]:
    """The non-empty strings that the records have under a key."""
    for record in records:
        for value in as_list(record.get(key)):
            if isinstance(value, str) and value.strip():
                yield value.strip()


def _author(meta: Mapping[str, str], records: Records) -> str:
    author = first_of(meta, _AUTHORS)
    if author and not is_url(author):
        return author
    for record in records:
        people = as_list(record.get("author"))
        names = [person.get("name") if isinstance(person, dict) else person for person in people]
        authors = [name.strip() for name in names if isinstance(name, str) and name.strip()]
        if authors:
            return ", ".join(authors)
    return ""


def published_at(page: _Page, records: Records) -> datetime | None:
    texts = [page.meta[name] for name in _DATES if name in page.meta]
    texts += values(records, "datePublished")
    texts += page.publication_dates
    return next((date for date in map(parse_date, texts) if date is not None), None)


def url(page: _Page, data: bytes) -> str:
    candidates = [page.canonical_url or "", page.meta.get("og:url", "")]
    saved_from = _SAVED_FROM.search(data[:4096])
    if saved_from:
        candidates.append(saved_from[1].decode("utf-8", "replace"))
    return next(filter(is_url, candidates), "")


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def first_of(meta: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((meta[name] for name in names if name in meta), "")
