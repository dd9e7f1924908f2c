"""What a salvage rescued, and what it could not."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Loss:
    """A conversation or item that is not complete."""

    id: str
    title: str
    rescued: int
    """Messages that were rescued."""
    missing: int
    """Messages that were not."""
    missing_ids: list[str] = field(default_factory=list)
    """The ids of missing messages, as far as an index still lists them."""
    is_header_lost: bool = False
    """Whether the title and the other fields of the document are lost."""


@dataclass(slots=True)
class SalvageReport:
    source: str
    documents: int = 0
    """Conversations and items that were rescued."""
    messages: int = 0
    missing_messages: int = 0
    altered: list[tuple[str, str]] = field(default_factory=list)
    """Messages that were rescued, but differ from their checksum: (document, message)."""
    altered_documents: list[str] = field(default_factory=list)
    """Documents of which some fields could not be read."""
    losses: list[Loss] = field(default_factory=list)
    lost_documents: list[str] = field(default_factory=list)
    """Ids of documents of which nothing was rescued."""
    missing_rows: list[tuple[int, int]] = field(default_factory=list)
    """The keys of missing messages, as ranges of the first and the last."""
    damaged_pages: list[int] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not (
            self.missing_messages
            or self.altered
            or self.altered_documents
            or self.losses
            or self.lost_documents
        )
