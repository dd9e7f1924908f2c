"""Changes that can be undone for a while.

Each returns the change, for `undo`, or None if nothing changed. RECOLLECT_UNDO_MINUTES is how long
a change can be undone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from recollect.library.core import LibraryCore
from recollect.model import undo
from recollect.model.arguments import parse_tags, require_text
from recollect.model.undo import Change, Edit
from recollect.settings import UNDO_MINUTES


class Editing(LibraryCore):
    def rename(self, id: str, title: str) -> Change | None:
        """Change the title of a conversation or item. Raises NotFound."""
        require_text(title, "title")
        return self._edit(id, Edit(undo.RENAME, title=title.strip()))

    def tag(self, id: str, *tags: str) -> Change | None:
        """Add tags. Raises NotFound."""
        return self._edit(id, Edit(undo.TAG, add_tags=parse_tags(tags)))

    def untag(self, id: str, *tags: str) -> Change | None:
        """Remove tags, ignoring case. Raises NotFound."""
        return self._edit(id, Edit(undo.UNTAG, remove_tags=parse_tags(tags)))

    def pin(self, id: str) -> Change | None:
        """Pin a conversation or item: lists can show it first. Raises NotFound."""
        return self._edit(id, Edit(undo.PIN, pinned=True))

    def unpin(self, id: str) -> Change | None:
        """Remove the pin. Raises NotFound."""
        return self._edit(id, Edit(undo.UNPIN, pinned=False))

    def _edit(self, id: str, edit: Edit) -> Change | None:
        change = self._store.edit(id, edit, _undo_until())
        self.wake_indexer()
        return change

    def trash(self, id: str) -> Change:
        """Delete a conversation or item, but keep a copy for undo. Raises NotFound.

        It is gone from every list and search at once. The copy is deleted for good after
        RECOLLECT_UNDO_MINUTES, or earlier by `empty_trash`, `forget` or `redact`.
        """
        document = self._store.header(id)
        change = self._store.trash(id, _undo_until())
        self.wake_indexer()
        self.archive.forget((document.source, document.source_id))
        return change

    def empty_trash(self) -> int:
        """Delete everything that is kept for undo. Returns the number of changes concerned."""
        return self._store.clear_undo_log()

    def changes(self) -> list[Change]:
        """The changes that can be undone now, newest first."""
        return self._store.undo_log()

    def undo(self, number: int | None = None) -> Change:
        """Undo a change, by default the last one, and return it.

        Raises NotFound if it can no longer be undone, and Conflict if a later change contradicts.
        """
        from recollect.transfer.restoring import undo_change

        change = undo_change(self._store, self.archive, number)
        self.wake_indexer()
        return change


def _undo_until() -> datetime:
    return datetime.now(UTC) + timedelta(minutes=UNDO_MINUTES.get())
