"""Reading conversations and messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recollect.errors import AmbiguousId, NotFound
from recollect.language.text import identifier
from recollect.library.core import LibraryCore
from recollect.model.arguments import page_size
from recollect.model.documents import Document, Passage, Summary, View
from recollect.model.fields import session_of
from recollect.model.kinds import CONVERSATION
from recollect.model.sources import PROXY, RECOLLECT
from recollect.store.abbreviations import require_id

_LAST_POSITION = 2_000_000_000


class Reading(LibraryCore):
    # -- ids ---

    def find_id(self, source: str, source_id: str) -> str | None:
        """The id of the document that a source knows by `source_id`, if the library has it."""
        return self._store.find_id(source, source_id)

    def find_session(self, session: str) -> Summary | None:
        """The conversation of a session, whatever saved or recorded it, or was imported from."""
        for source in (RECOLLECT, PROXY):
            id = self.find_id(source.name, session)
            if id is not None:
                return self.summary(id)
        try:
            summary = self.summary(session)
        except (NotFound, AmbiguousId):
            return None
        is_session = (
            identifier(summary.id) == identifier(session_of(summary)) == identifier(session)
        )
        return summary if is_session and summary.kind == CONVERSATION else None

    def short_id(self, id: str) -> str:
        """The first characters of the id of a conversation or item that no other id begins with."""
        from recollect.knowledge.listing import short_id

        return short_id(self._store, id)

    def resolve_id(self, text: str) -> str:
        """The id of a conversation or item that begins with a text of at least 4 characters.

        An id that is equal to the text always wins. Raises NotFound, or AmbiguousId with the
        candidates if several ids begin with it.
        """
        return require_id(text, self._store.ids_with_prefix)

    # -- conversations ---

    def conversation(self, id: str) -> Document:
        """A conversation with the messages of every branch. Raises NotFound."""
        return self._store.document(id)

    def summary(self, id: str) -> Summary:
        """A conversation or item without its content. Raises NotFound."""
        return self._store.summary(id)

    def label(self, id: str, title: str) -> str:
        """The title to show for a conversation: its own, or else its first words."""
        from recollect.knowledge.paths import read_label

        return read_label(self._store, id, title)

    def view(
        self,
        conversation_id: str,
        *,
        through: str | None = None,
        around: str | None = None,
        start: int | None = None,
        limit: int = 50,
    ) -> View:
        """One page of a path through a conversation that has branches.

        The path is the canonical one, or one `through` a message. The page begins at `start`, or
        has the message `around` in its middle. Raises NotFound.
        """
        from recollect.knowledge.paths import view_page

        return view_page(self._store, conversation_id, through, around, start, page_size(limit))

    def read_path(
        self, conversation_id: str, through: str | None = None, start: int = 0
    ) -> Iterator[tuple[int, Passage]]:
        """The messages of a path from the index `start` on, with their indexes. Raises NotFound.

        They are read as needed, so a caller may stop anywhere.
        """
        from recollect.knowledge.paths import read_path

        return read_path(self._store, conversation_id, through, start)

    def digest(self, projects: Sequence[str], tokens: int, *, without: str | None = None) -> str:
        """A digest of recent work in these projects, of at most `tokens` tokens.

        `without` is the id of a conversation to leave out.
        """
        from recollect.memory.digest import digest

        return digest(self._store, projects, tokens, without=without)

    # -- messages ---

    def message(self, conversation_id: str, message_id: str) -> Passage:
        """One message. Raises NotFound."""
        from recollect.knowledge.paths import read_message

        return read_message(self._store, conversation_id, message_id)

    def messages(
        self, conversation_id: str, after: int = 0, limit: int = 100
    ) -> tuple[list[Passage], int]:
        """The messages after number `after`, in order, and the number of the last one.

        Messages are numbered from 1. Raises NotFound.
        """
        start = max(0, min(after, _LAST_POSITION))
        return self._store.passage_page(conversation_id, start, page_size(limit))

    def messages_with_ids(self, conversation_id: str, message_ids: Sequence[str]) -> list[Passage]:
        """The messages of a conversation that have these ids. Raises NotFound."""
        return self._store.passages_by_id(conversation_id, message_ids)

    def message_ids(self, conversation_id: str) -> list[str]:
        """The ids of all messages of a conversation. Raises NotFound."""
        return [position.id for position in self._store.positions(conversation_id)]

    def conversations_with(self, source: str, message_ids: Sequence[str]) -> list[tuple[str, str]]:
        """The recorded conversations of a source that have some of these messages.

        Returns pairs of conversation id and message id. The conversation changed last is first.
        """
        return self._store.documents_containing(source, message_ids)
