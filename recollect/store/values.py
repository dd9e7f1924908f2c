"""The values that stores return: results of writes, search candidates, vector spaces, counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.language.text import micros

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Progress = Callable[[int, int], None]
"""Called with (done, total) during a long operation."""


OnDamage = Callable[[str, str], None]
"""Called with the id of a document that cannot be read, and the reason."""


# -- results of writes ---


@dataclass(slots=True)
class SaveResult:
    """What saving one document changed, counted in passages."""

    id: str
    """Empty if the document was not stored, because all its passages had been forgotten or are in
    other documents."""
    created: bool
    new: int = 0
    same: int = 0
    changed: int = 0
    outdated: int = 0
    """Passages that differ but were not replaced, because the stored ones are newer or fuller."""
    copies: int = 0
    """Passages that another document of the same source already has."""
    document_changed: bool = False
    """Whether the title, dates or metadata of the document changed."""
    removed: int = 0
    """Passages that a rewritten document no longer has."""
    redacted: Mapping[str, int] = field(default_factory=dict)
    """Secrets removed before the document was stored, by kind of secret."""
    forgotten: int = 0
    """Passages that were not stored because they had been forgotten."""
    repeated: int = 0
    """How many of the same passages this import had added before."""
    created_earlier: bool = False
    """Whether this import had created the document before."""


class Appended(NamedTuple):
    """The result of appending a passage. It is true if the passage was new."""

    position: int
    new: bool

    def __bool__(self) -> bool:
        return self.new


_END = (1 << 63) - 1


class ListPosition(NamedTuple):
    """The place of a document in a list: when it last changed, in microseconds, and its key."""

    time: int | None
    key: int


LIST_START = ListPosition(_END, _END)
"""The position before all documents."""


class Purge(NamedTuple):
    """Whether deleted text is gone from all files of a library."""

    reason: str = ""
    """Why it is not; empty if it is."""

    @property
    def state(self) -> str:
        """`pending` or `done`."""
        if self.reason:
            return "pending"
        return "done"


class Removal(NamedTuple):
    """What to forget of one document."""

    document: str
    passages: tuple[str, ...] | None = None
    """The ids of passages of a conversation; None for the whole document."""
    has_title: bool = False
    """Whether the title must go as well."""
    metadata: tuple[str, ...] = ()
    """The keys of metadata that must go as well."""


@dataclass(slots=True)
class Forgotten:
    """How much was forgotten."""

    documents: int = 0
    """Documents of which nothing is left."""
    changed_documents: int = 0
    passages: int = 0


# -- search ---


class Candidate(NamedTuple):
    """A passage that a search returned, with everything that ranking and display need."""

    key: int
    id: str
    document: str
    title: str
    role: str | None
    author: str | None
    type: str
    created_at: datetime | None
    source: str
    kind: str
    project: str
    position: int
    canonical: bool
    passages: int
    """The number of passages in its document."""
    content: str
    visibility: str = "all"
    heading: str | None = None
    """The title of a note or media item with its keywords. None for other kinds."""

    @property
    def conversation_id(self) -> str:
        return self.document

    @property
    def indexed_title(self) -> str:
        return self.heading or self.title


class CandidatePage(NamedTuple):
    """A page of a list of passages."""

    candidates: list[Candidate]
    total: int
    """The number of all passages in the list."""
    is_complete: bool = True
    """False if there was no time to look at every passage: newer ones were looked at first."""


class Profile(NamedTuple):
    """What all passages of a document have in common, as far as matches are counted by it."""

    kind: str
    source: str
    project: str
    models: tuple[str, ...]
    """The models that have written messages of the document, in the order of their names."""


class PassageGroup(NamedTuple):
    """The matching passages of documents with the same profile that have the same role."""

    profile: Profile
    role: str | None
    matches: int
    months: dict[str, int]
    """The number of matches by month, like "2025-03", in UTC. Some passages have no date."""


class DocumentGroup(NamedTuple):
    """The documents with the same profile whose matching passages have the same roles."""

    profile: Profile
    roles: frozenset[str | None]
    documents: int


class MatchGroups(NamedTuple):
    """All passages that match a query, and their documents, in groups that can be counted."""

    passages: list[PassageGroup]
    documents: list[DocumentGroup]
    is_complete: bool = True
    """False if there are too many matches to group them all."""


NO_TIME = -(1 << 62)
"""The time of a passage without one."""


class TimedMatches(NamedTuple):
    """All passages that match a query, with their times: a value of each passage in each array."""

    keys: NDArray[np.int64]
    documents: NDArray[np.int64]
    """A number for the document of each."""
    times: NDArray[np.int64]
    """Microseconds since 1970, or NO_TIME. See Store.change_times."""

    @classmethod
    def of(cls, change_times: Sequence[tuple[int, str, datetime | None]]) -> TimedMatches:
        """The same for the values that Store.change_times returns."""
        import numpy as np

        numbers: dict[str, int] = {}
        keys, documents, times = [], [], []
        for key, document, time in change_times:
            keys.append(key)
            documents.append(numbers.setdefault(document, len(numbers)))
            times.append(NO_TIME if time is None else micros(time))
        return cls(*(np.array(values, np.int64) for values in (keys, documents, times)))

    def without(self, keys: Collection[int]) -> TimedMatches:
        import numpy as np

        is_other = ~np.isin(self.keys, np.array(list(keys), np.int64))
        return TimedMatches(self.keys[is_other], self.documents[is_other], self.times[is_other])

    def one_of_each_document(self) -> TimedMatches:
        """The matches with one of each document."""
        import numpy as np

        _, places = np.unique(self.documents, return_index=True)
        return TimedMatches(self.keys[places], self.documents[places], self.times[places])


# -- vectors ---


class Space(NamedTuple):
    """The vectors of one embedding model. Only vectors of the same space can be compared."""

    id: int
    name: str
    version: str
    dimensions: int
    model_state: bytes | None
    """What the model learned from this library, if it learns."""
    last_key: int
    """The key of the last passage that was embedded."""
    ready: bool
    """Whether every passage has been embedded once. From then on only changes are embedded."""
    noise_floor: float | None = None
    """The cosine that unrelated words rarely reach; see `index.refresh`. None if unknown."""
    calibrated_size: int = 0
    """The number of passages when the noise floor was measured."""


@dataclass(slots=True, eq=False)
class Unembedded:
    """A passage that has no vectors yet. Not frozen, because that is slower to create."""

    key: int
    title: str
    author: str | None
    content: str
    revision: int
    """Changes when the passage changes, so that outdated vectors are not stored."""


# -- moving a library ---


class Batch(NamedTuple):
    """Some rows of one table of a library, copied to another library."""

    table: str
    after: tuple[int, ...]
    """The key of the row before the first row."""
    rows: Sequence[tuple[Any, ...]]
    is_last: bool
    """Whether this is the last batch of the table."""
    highest_key: int = 0
    """For passages: no new passage may get a key up to this one."""


class Contents(NamedTuple):
    """Counts of what a library contains, and a hash of everything except derived data."""

    conversations: int
    notes: int
    messages: int
    imports: int
    hash: str


class Closure(NamedTuple):
    """Why nobody may write to a library."""

    moved_to: str = ""
    """Its new place; empty if this is the new place, and the move is not complete."""
    token: int = 0
    """The number of the move, which both libraries store."""


# -- care ---


@dataclass(slots=True)
class Findings:
    """The problems that `verify` found. Empty lists and zeros mean that there are none.

    `damaged`, `missing` and `altered` are about the data itself, which cannot be rebuilt.
    Everything else is derived data, which can.
    """

    damaged: list[str] = field(default_factory=list)
    """What cannot be read."""
    missing: list[str] = field(default_factory=list)
    """Messages that the library once had, and that were not deleted."""
    altered: list[str] = field(default_factory=list)
    """Messages that are not what was stored: they differ from their digest."""
    damaged_index: list[str] = field(default_factory=list)
    damaged_files: list[str] = field(default_factory=list)
    """Files of vectors or volumes that differ from their checksum."""
    events: list[str] = field(default_factory=list)
    """Damaged files that were found and replaced before."""
    miscounted: int = 0
    """Counts that are too low."""
    unindexed: int = 0
    orphaned: int = 0
    outdated: bool = False
    orphaned_in_queue: int = 0
    """Entries of the embedding queue whose message does not exist."""
    never_embedded: int = 0
    """Messages that have no vector and are not queued for one. Only Library.verify counts them,
    because only the model knows which messages have no words to embed."""

    @property
    def is_complete(self) -> bool:
        """Whether all data is there as it was stored. If not, repairing cannot help."""
        return not (self.damaged or self.missing or self.altered)

    @property
    def healthy(self) -> bool:
        return self.is_complete and not (
            self.damaged_index
            or self.damaged_files
            or self.miscounted
            or self.unindexed
            or self.orphaned
            or self.outdated
            or self.orphaned_in_queue
            or self.never_embedded
        )


MAX_FACET_NAMES = 200
"""How many projects, sources and tags `Store.facets` lists, each."""


class Activity(NamedTuple):
    """Numbers of messages that people wrote, of replies and of tool calls.

    Every list of names starts with the largest number.
    """

    days: list[tuple[int, int]]
    """Days since 1970 on which people wrote, each with the number of their messages."""
    hours: list[tuple[int, int]]
    """The same for hours of the day (UTC)."""
    sources: list[tuple[str, int]]
    """The number of people's messages of each source."""
    projects: list[tuple[str, int]]
    models: list[tuple[str, int]]
    """The number of messages by each model."""
    tools: list[tuple[str, int]]
    """The number of calls of each tool."""
