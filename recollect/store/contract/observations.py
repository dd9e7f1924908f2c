"""What was observed in conversations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from recollect.model.documents import Document
from recollect.store.contract.marks import reader, writer


class Observations(ABC):
    """The observations made in conversations, and which conversations need new ones."""

    @reader
    @abstractmethod
    def unobserved(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        """Some conversations that changed since they were observed, and the number of all of them.

        Each is a pair of id and version.
        """

    @reader
    @abstractmethod
    def observed_messages(self, keys: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
        """The messages that the observations with these keys were made of, without deleted ones.

        Each is the id of the conversation and that of the message.
        """

    @writer
    @abstractmethod
    def save_observations(
        self,
        conversation: str,
        version: int,
        observations: Document | None,
        complete: bool = True,
    ) -> None:
        """Replace the observations made in a conversation, or remove them if there are none.

        They belong to this version of the conversation and are deleted with it. If they are not
        `complete`, `reset_observations` can ask for another attempt.
        """

    @writer
    @abstractmethod
    def reset_observations(self, incomplete_only: bool = False) -> None:
        """Mark all conversations as unobserved, or only those with incomplete observations."""
