"""What the transaction of a search knows: facts, terms, and what was read for its next steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH
from recollect.language.queries.query_tree import Node
from recollect.store.postgres.connections.sessions import TIMELINE
from recollect.store.values import Candidate, CandidateRead, SearchPlan, Space


@dataclass(frozen=True, slots=True)
class Facts:
    """What most searches need to know about the library, as of the transaction."""

    size: int
    """The number of passages."""
    removed: int
    """The number of deletions."""
    version: int | None
    """The token of the last commit."""
    is_partly_positioned: bool
    """Whether the index lacks positions of some passages."""
    spaces: list[list[Any]]
    """Vector spaces, without the states of their models."""
    kinds: Sequence[str] | None
    """The kinds of its documents, if they were looked up."""
    may_have_human_only: bool
    """False if it is known that no passage is human-only."""
    timeline: int | None
    """Only in a cluster. See `Connection.timeline`."""

    @staticmethod
    def sql(owner: int, is_cluster: bool, lookups: Lookups) -> str:
        """If terms are looked up, each row has more columns, and the rows after the first are about
        terms.
        """
        kinds = may_have_human_only = "null"
        # Only in the first row. With subqueries instead, the coordinator of a cluster crashes.
        if lookups.with_kinds:
            kinds = f"case when k.passage is not null then stored_kinds({owner:d}) end"
        if lookups.with_human_only:
            may_have_human_only = (
                f"case when k.passage is not null then may_have_human_only({owner:d}) end"
            )
        columns = f"""k.passage, k.removed, k.marks[1], k.is_partly_positioned, k.spaces,
          {kinds}, coalesce({may_have_human_only}, true), {TIMELINE if is_cluster else "null"}"""
        if lookups.arguments:
            return f"""select {columns}, k.word, k.forms, k.next_key, k.matches,
              k.relatives, k.family, k.query, k.passages, k.visible
              from search_start({owner:d}, {lookups.arguments}) k"""
        return f"select {columns} from facts({owner:d}) k"


FACTS = len(fields(Facts))
"""The number of columns that are facts."""


class Lookups(NamedTuple):
    """What the statement that begins a search looks up; see `text.term_lookups`."""

    arguments: str = ""
    """The arguments of `search_start`, as SQL; empty if there are no terms to look up."""
    relatives: Mapping[str, frozenset[str]] = MappingProxyType({})
    """For each word, related words that the library may have."""
    language: Language = ENGLISH
    with_kinds: bool = False
    with_human_only: bool = False


NO_LOOKUPS = Lookups()


@dataclass(slots=True)
class TermResults:
    """What is known about terms in a transaction."""

    relatives: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """See Lookups."""
    rows: Sequence[Sequence[Any]] = ()
    """What the statement that began the transaction has returned."""
    forms: dict[str, Sequence[str]] = field(default_factory=dict)
    """For each word, the words of the library that have its stem."""
    is_in_library: dict[str, bool] = field(default_factory=dict)
    similar: dict[str, frozenset[str]] = field(default_factory=dict)
    """For each word, the words of the library that are similar to it."""
    language: Language = ENGLISH
    """The language of the words that were looked up."""


@dataclass(slots=True)
class PlannedResults:
    """What was read for one plan."""

    matches: dict[Node, list[int]] = field(default_factory=dict)
    totals: dict[Node, int] = field(default_factory=dict)
    """The numbers of all matches, of nodes for which they are known."""
    neighbours: list[tuple[int, float]] | None = None


@dataclass(slots=True)
class PlannedReads:
    """The next steps of searches, and what was read for them before each step asks for it."""

    plans: Sequence[SearchPlan] = ()
    candidate_reads: Sequence[CandidateRead] = ()
    results: list[PlannedResults] | None = None
    """One for each plan. None: they have not been read yet."""
    candidates: dict[CandidateRead, list[Candidate]] = field(default_factory=dict)
    metadata: dict[int, str] = field(default_factory=dict)
    """The metadata of observations that were read as candidates."""
    vectors: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    """Rows of the table `vector` by passage, of passages that were read with their vectors."""

    @property
    def space(self) -> Space | None:
        """The space of the vectors that the searches compare."""
        return next((plan.space for plan in self.plans if plan.space is not None), None)
