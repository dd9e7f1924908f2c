"""Page breaks of chunks that version 0.1 stored without them."""

from __future__ import annotations

from recollect.model.documents import Passage, Summary
from recollect.store.base import Store


def with_page_breaks(store: Store, about: Summary, passage: Passage) -> Passage:
    """The chunk with its page breaks, if it has none from version 0.1 and is on one page."""
    metadata = passage.metadata
    if "page" not in metadata or "page_breaks" in metadata:
        return passage
    next_page = about.metadata.get("pages")
    following, _ = store.passage_page(about.id, passage.position + 1, 1)
    if following:
        next_page = following[0].metadata.get("page")
    if next_page != metadata["page"]:
        return passage
    return passage._replace(metadata={**metadata, "page_breaks": []})
