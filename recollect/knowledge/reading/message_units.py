"""Conversations as units: the messages on one path."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress

from recollect.errors import NotFound
from recollect.knowledge.branches import missing_message, path_through
from recollect.knowledge.reading.units import PASSAGES_AT_ONCE, Place, Units, whole_number
from recollect.knowledge.results import sender_of
from recollect.language.text import identifier, iso
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Json, Passage, Position, Summary
from recollect.store.base import Store


def message_units(
    store: Store, about: Summary, message: str | None, audience: Audience
) -> MessageUnits:
    """The messages of a conversation: on the canonical path, or on one through `message`."""
    if audience is not Audience.AGENT_HIDDEN and store.is_linear(about.id):
        return LinearMessages(store, about, message, audience)
    return PathMessages(store, about.id, message, audience)


class MessageUnits(Units):
    """The messages on one path through a conversation."""

    def __init__(self, store: Store, document: str, audience: Audience) -> None:
        self._store = store
        self._document = document
        self._masks = audience is Audience.AGENT_MASKED

    def text(self, number: int) -> str:
        passage = self.passage(number)
        content = passage.content
        if self._masks and is_human_only(passage):
            content = MASK
        return f"{self.heading(number)}{content}\n"

    def heading(self, number: int) -> str:
        return f"{sender_of(self.passage(number))}: "

    def find(self, loc: Mapping[str, Json]) -> Place | None:
        message = loc.get("message_id")
        if isinstance(message, str) and message:
            number = self._number_of(message)
        else:
            number = self._number_at(whole_number(loc.get("message_index")))
        if number is None:
            return None
        offset = whole_number(loc.get("approx_offset"))
        if offset is None:
            return Place(number)
        end = max(0, len(self.text(number)) - 1)
        return Place(number, min(offset + len(self.heading(number)), end))

    @abstractmethod
    def _number_of(self, message: str) -> int | None:
        """The number of a message, by its id."""

    @abstractmethod
    def _number_at(self, position: int | None) -> int | None:
        """The number of the first message at or after a position in the conversation."""

    def identity(self, number: int) -> dict[str, Json]:
        passage = self.passage(number)
        return {
            "message_id": passage.id,
            "message_index": passage.position,
            "sender": sender_of(passage),
            "role": passage.role,
            "created_at": iso(passage.created_at),
        }


class LinearMessages(MessageUnits):
    """The messages of a conversation without branches, read when they are needed."""

    def __init__(
        self, store: Store, about: Summary, message: str | None, audience: Audience
    ) -> None:
        """Raises NotFound if there is no such message."""
        super().__init__(store, about.id, audience)
        self._size = about.message_count
        self._cache: dict[int, Passage] = {}
        if message is not None and self._number_of(message) is None:
            raise missing_message(message)

    def __len__(self) -> int:
        return self._size

    def passage(self, number: int) -> Passage:
        if number not in self._cache:
            start = max(0, number - PASSAGES_AT_ONCE // 2)
            passages, _ = self._store.passage_page(self._document, start, PASSAGES_AT_ONCE)
            self._cache |= {passage.position: passage for passage in passages}
        if number not in self._cache:  # it has just been deleted
            return Passage("", None, "")
        return self._cache[number]

    def _number_of(self, message: str) -> int | None:
        with suppress(NotFound):
            key = self._store.passage_key(self._document, message)
            for _, passage in self._store.passages_by_key([key]).values():
                return passage.position
        return None

    def _number_at(self, position: int | None) -> int | None:
        if position is None or position >= self._size:
            return None
        return position


class PathMessages(MessageUnits):
    """The messages on one of several paths."""

    def __init__(
        self, store: Store, document: str, message: str | None, audience: Audience
    ) -> None:
        """The path is the canonical one, or one through `message`. Raises NotFound."""
        super().__init__(store, document, audience)
        path = path_through(store.positions(document), message)
        self._positions = [step.position for step in path]
        self._cache: dict[int, Passage] = {}
        if audience is Audience.AGENT_HIDDEN:
            hidden = store.human_only([position.key for position in self._positions])
            self._positions = [step for step in self._positions if step.key not in hidden]

    def _read(self, positions: Sequence[Position]) -> dict[int, Passage]:
        passages = self._store.passages_by_key([position.key for position in positions])
        return {key: passage for key, (_, passage) in passages.items()}

    def __len__(self) -> int:
        return len(self._positions)

    def passage(self, number: int) -> Passage:
        position = self._positions[number]
        if position.key not in self._cache:
            start = max(0, number - PASSAGES_AT_ONCE // 2)
            self._cache |= self._read(self._positions[start : start + PASSAGES_AT_ONCE])
        if position.key not in self._cache:  # it has just been deleted
            return Passage(position.id, None, "")
        return self._cache[position.key]

    def _number_of(self, message: str) -> int | None:
        id_ = identifier(message)
        for number, position in enumerate(self._positions):
            if position.id == id_:
                return number
        return None

    def _number_at(self, position: int | None) -> int | None:
        if position is None:
            return None
        for number, place in enumerate(self._positions):
            if place.position >= position:
                return number
        return None
