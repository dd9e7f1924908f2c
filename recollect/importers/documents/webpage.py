"""Web pages: their main text, without navigation and advertising, and their metadata."""

from __future__ import annotations

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
_SAVED_FROM = b"saved from url=("  # a comment that browsers write
# The main text and the metadata of a larger page are not looked for.
_MAX_ELEMENTS = 30_000
_MAX_ATTRIBUTES = 500
_MAX_BYTES = 16_777_216


def extract(entry: Entry) -> Extract:
    data = read_bytes(entry, LIMITS.document_part_bytes)
    page = HtmlText()
    read_html(data, page)
    is_large = page.elements > _MAX_ELEMENTS or page.attributes > _MAX_ATTRIBUTES
    if page.is_full or is_large or len(data) > _MAX_BYTES:
        content = Extract(page.text)
    else:
        content = read_article(data, page.text)
    if not content.text.strip():
        raise Unreadable("contains no text")
    saved_from = data[:4096].partition(_SAVED_FROM)[2].partition(b")")[2].split(maxsplit=1)[:1]
    url = content.url or b"".join(saved_from).decode("utf-8", "replace")
    return content._replace(
        omission=page.omission,
        language=page.language,
        url=url if url.startswith(("http://", "https://")) else "",
    )


def read_article(data: bytes, whole_text: str) -> Extract:
    require("trafilatura")
    from trafilatura import extract as extract_main_text
    from trafilatura import extract_metadata, load_html

    text = extract_main_text(
        data, output_format="markdown", include_comments=False, favor_recall=True
    )
    if text is None or len(text) < _SHORT * len(whole_text):
        text = whole_text
    tree = load_html(data)
    if tree is None:
        return Extract(text)
    about = extract_metadata(tree, extensive=False)
    tags = [tag for tags in about.tags or () for tag in split_keywords(tags)]
    return Extract(
        text,
        title=about.title or "",
        author=(about.author or "").replace("; ", ", "),
        url=about.url or "",
        created_at=parse_date(about.date),
        tags=tuple(dict.fromkeys(tags)),
        media_type="article" if about.pagetype == "article" else "",
    )
