"""Label the hits of a page that are human-only, so that an interface can mask them.

The index knows the visibility of a message, but not its metadata, which can mark it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recollect.errors import NotFound
from recollect.model.audience import HUMAN_ONLY, is_human_only
from recollect.model.search import Hit, Page
from recollect.store.base import Store


def label_human_only(store: Store, page: Page) -> Page:
    """The page with the visibility of each hit as its metadata has it."""
    return replace(page, hits=_label_all(store, page.hits), nearest=_label_all(store, page.nearest))


def _label_all(store: Store, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    keys = {
        (hit.conversation_id, hit.message_id): _key(store, hit)
        for first in hits
        for hit in (first, *first.also)
    }
    stored = store.passages_by_key([key for key in keys.values() if key is not None])

    def label(hit: Hit) -> Hit:
        also = tuple(map(label, hit.also))
        key = keys[hit.conversation_id, hit.message_id]
        # A message that was deleted in the meantime cannot be checked.
        if key is None or key not in stored or is_human_only(stored[key][1]):
            return replace(hit, also=also, visibility=HUMAN_ONLY)
        return replace(hit, also=also)

    return tuple(map(label, hits))


def _key(store: Store, hit: Hit) -> int | None:
    try:
        return store.passage_key(hit.conversation_id, hit.message_id)
    except NotFound:
        return None
