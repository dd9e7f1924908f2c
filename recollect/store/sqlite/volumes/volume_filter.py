"""A filter in the form that volumes need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from recollect.store.sqlite.passages.key_ranges import KeyRange, keys_in


@dataclass(frozen=True)
class VolumeFilter:
    """Which passages a search in a volume may return. Empty fields accept everything.

    Dates are in microseconds and inclusive. Passages without a date match no range of dates.
    """

    roles: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    """Roles or authors."""
    not_roles: tuple[str, ...] = ()
    not_authors: tuple[str, ...] = ()
    after: int | None = None
    before: int | None = None
    kinds: tuple[str, ...] = ()
    documents: Collection[int] | None = None
    """Keys of documents."""
    not_documents: Collection[int] = ()
    hidden: bool = False
    """Whether hidden passages are included."""
    not_keys: Collection[int] = ()
    """Keys of passages, such as those that changed since the volume was written."""

    @property
    def has_no_dates(self) -> bool:
        """Whether the range of dates is empty."""
        if self.after is None or self.before is None:
            return False
        return self.after > self.before

    def documents_in(self, key_range: KeyRange) -> Sequence[int]:
        return keys_in(key_range, self._sorted_documents)

    def not_documents_in(self, key_range: KeyRange) -> Sequence[int]:
        return keys_in(key_range, self._sorted_not_documents)

    def not_keys_in(self, key_range: KeyRange) -> Sequence[int]:
        return keys_in(key_range, self._sorted_not_keys)

    # Every volume takes its part of these lists, so they are sorted once.

    @cached_property
    def _sorted_documents(self) -> list[int]:
        return sorted(set(self.documents or ()))

    @cached_property
    def _sorted_not_documents(self) -> list[int]:
        return sorted(set(self.not_documents))

    @cached_property
    def _sorted_not_keys(self) -> list[int]:
        return sorted(set(self.not_keys))
