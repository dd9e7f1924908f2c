"""`Library`: one user's conversations, behind every interface.

Interfaces parse a request, call one method of the library, and format the result. The library
validates arguments, delegates to the module that does the work, and wakes the background indexer
after every write. The methods are grouped by what users do:

    importing     import files and documents, undo an import, read the receipts
    writing       add, change and delete conversations and messages; post to threads of the bus
    editing       rename, tag, pin and trash, with undo
    reading       read conversations and messages
    listing       list conversations, export them, count their projects, sources and tags
    searching     search by words and by meaning, find literal text, find related messages
    privacy       forget, redact, audit
    indexing      index new messages, pause and resume the background indexer
    maintenance   statistics, verification, repair

Modules that take time to load are imported inside the methods, so that a short command starts fast.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from recollect.library.editing import Editing
from recollect.library.importing import Importing
from recollect.library.indexing import Indexing
from recollect.library.listing import Listing
from recollect.library.maintenance import Maintenance
from recollect.library.privacy import Privacy
from recollect.library.reading import Reading
from recollect.library.searching import Searching
from recollect.library.writing import Writing

if TYPE_CHECKING:
    from recollect.knowledge.api import Knowledge
    from recollect.memory.api import Memory


class Library(
    Importing, Writing, Editing, Reading, Listing, Searching, Privacy, Indexing, Maintenance
):
    """One user's conversations: import, add, search, read, delete."""

    def __enter__(self) -> Library:
        return self

    @cached_property
    def knowledge(self) -> Knowledge:
        """Search and edit notes, media, characters and prompts, and search conversations."""
        from recollect.knowledge.api import Knowledge

        return Knowledge(self._store, self._meaning, self.wake_indexer)

    @cached_property
    def memory(self) -> Memory:
        """Search what was observed in past conversations, read it, and forget it."""
        from recollect.memory.api import Memory

        return Memory(self._store, self._meaning, self.wake_indexer, self.delete_conversation)
