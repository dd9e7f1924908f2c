"""Abbreviated ids: the first characters of an id, as long as no other id begins with them.

An id that exists always stands for itself. What else an abbreviation may stand for depends on what
it is for. A program may ask for `conv-1` after it was deleted, or try to delete it twice, and must
never get `conv-10` instead. Random ids cannot be confused like this, but names can:

- To change or delete something, only random ids can be abbreviated.
- To read it, a name can be abbreviated if the cut is within a word.
- `ANY` is for people, who see what was found before anything happens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from recollect.errors import AmbiguousId, NotFound
from recollect.language.text import identifier, storable, truncate
from recollect.model.documents import Document
from recollect.store.views import StoreView

if TYPE_CHECKING:
    from recollect.model.forgetting import Selection
    from recollect.model.search import Filter
    from recollect.store.base import Store

T = TypeVar("T")

MIN_LENGTH = 4
"""The fewest characters of an abbreviation."""
MAX_CANDIDATES = 20
_CANDIDATES_IN_MESSAGE = 5
_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,}", re.I
)


class Purpose(Enum):
    CHANGE = "change"
    READ = "read"
    ANY = "any"


def is_random(id_: str) -> bool:
    """Whether an id is a UUID or a hexadecimal number, not a name."""
    return _RANDOM.fullmatch(id_) is not None


def expand(
    prefix: str, find: Callable[[str, int], Sequence[str]], purpose: Purpose = Purpose.ANY
) -> str | None:
    """The one id that begins with a prefix; None if there is none. Raises AmbiguousId.

    `find(prefix, limit)` returns the first ids that begin with a prefix, in order.
    """
    prefix = identifier(prefix)
    if not prefix:
        return None
    ids = find(prefix, MAX_CANDIDATES + 1)
    if prefix in ids:
        return prefix
    if len(prefix) < MIN_LENGTH:
        return None
    ids = [id_ for id_ in ids if may_stand_for(prefix, id_, purpose)]
    if len(ids) > 1:
        raise ambiguous(prefix, ids)
    for id_ in ids:
        return id_
    return None


def may_stand_for(prefix: str, id_: str, purpose: Purpose) -> bool:
    if purpose is Purpose.ANY or is_random(id_):
        return True
    if purpose is Purpose.CHANGE:
        return False
    before, after = prefix[-1], id_[len(prefix)]
    if before.isdigit() and after.isdigit():
        return False
    return before.isalnum() and after.isalnum()


def ambiguous(prefix: str, ids: Sequence[str]) -> AmbiguousId:
    choices = ", ".join(truncate(id_, 80) for id_ in ids[:_CANDIDATES_IN_MESSAGE])
    if len(ids) > _CANDIDATES_IN_MESSAGE:
        choices += ", …"
    return AmbiguousId(
        f"Several ids begin with {truncate(prefix, 80)!r}: {choices}. Give more characters.",
        tuple(ids[:MAX_CANDIDATES]),
    )


def require_id(prefix: str, find: Callable[[str, int], Sequence[str]]) -> str:
    """The one id that begins with a prefix. Raises NotFound or AmbiguousId."""
    prefix = prefix.strip()
    id_ = expand(prefix, find)
    if id_ is None:
        raise NotFound(f"Nothing in the library has the id {truncate(storable(prefix), 80)!r}.")
    return id_


def expand_filter(store: Store, filter: Filter) -> Filter:
    """The filter with the whole ids of its conversations. Raises AmbiguousId."""
    if not filter.conversations:
        return filter
    ids = expand_all(store, filter.conversations, Purpose.READ)
    return replace(filter, conversations=ids)


def expand_selection(store: Store, selection: Selection) -> Selection:
    """The selection with whole ids. Only random ids can be abbreviated here."""
    ids = expand_all(store, selection.conversations, Purpose.CHANGE)
    return selection._replace(conversations=ids)


def expand_all(store: Store, ids: Sequence[str], purpose: Purpose) -> tuple[str, ...]:
    """Each id in full. One that stands for nothing stays as it is."""
    return tuple(expand(id_, store.ids_with_prefix, purpose) or id_ for id_ in ids)


READING = (
    "document", "summary", "is_linear", "positions", "passage_page",
)  # fmt: skip
CHANGING = (
    "rewrite", "append", "extend", "edit", "revise", "trash",
)  # fmt: skip


class AbbreviatedStore(StoreView):
    """A store whose methods accept abbreviated ids of documents and messages.

    Interfaces pass on the ids that they get, so all of them accept abbreviations under the same
    rules. An id is only expanded after nothing was found under it.
    """

    def passage_key(self, document: str, passage: str) -> int:
        return self._with_passage(self._store.passage_key, document, passage, Purpose.READ)

    def delete(self, document: str, passage: str | None = None) -> Document:
        if passage is None:
            find = self._store.ids_with_prefix
            return with_full_id(self._store.delete, document, find, Purpose.CHANGE)
        return self._with_passage(self._store.delete, document, passage, Purpose.CHANGE)

    def _with_passage(
        self, call: Callable[[str, str], T], document: str, passage: str, purpose: Purpose
    ) -> T:
        def call_document(document: str) -> T:
            find = partial(self._store.ids_with_prefix, document=document)
            return with_full_id(partial(call, document), passage, find, purpose)

        return with_full_id(call_document, document, self._store.ids_with_prefix, purpose)


def expanding(name: str, purpose: Purpose) -> Any:
    def call(view: AbbreviatedStore, id: str, *arguments: Any, **options: Any) -> Any:
        method = getattr(view._store, name)
        find = view._store.ids_with_prefix
        return with_full_id(lambda id: method(id, *arguments, **options), id, find, purpose)

    return call


for _name in READING:
    setattr(AbbreviatedStore, _name, expanding(_name, Purpose.READ))
for _name in CHANGING:
    setattr(AbbreviatedStore, _name, expanding(_name, Purpose.CHANGE))


def with_full_id(
    call: Callable[[str], T],
    id: str,
    find: Callable[[str, int], Sequence[str]],
    purpose: Purpose,
) -> T:
    """What `call` returns for an id, or if it finds nothing, for the id that it abbreviates."""
    try:
        return call(id)
    except NotFound:
        full_id = expand(id, find, purpose)
        if full_id is None or full_id == id:
            raise
    return call(full_id)
