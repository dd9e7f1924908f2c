"""The results of a search of the memory: each observation and each exchange once.

A message leads to the observation that it belongs to, or else to its exchange.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.language.queries.query_tree import Word
from recollect.memory.formats import conversation_path
from recollect.memory.lookup import Coverage, observations_by_key
from recollect.memory.observe import ConversationText
from recollect.memory.reading import ConversationTexts, exchange_lines
from recollect.memory.results import ConversationHit, MemoryHit, ObservationHit
from recollect.model.kinds import OBSERVATION, OBSERVATIONS
from recollect.model.projects import project_name
from recollect.model.search import Hit
from recollect.search.results import make_hit
from recollect.store.base import Store
from recollect.store.values import Candidate

_COVERED_AT_ONCE = 16
"""The number of conversations whose observations are read at once."""
_FEW_CONVERSATIONS = 16
"""With at most this many, the observations of all conversations are read and results counted."""

_OBSERVATION = "observation"
_EXCHANGE = "exchange"
_MESSAGE = "message"
_CONVERSATION = "conversation"
_Identity = tuple[str, ...]
"""The identity of a result: its kind and ids."""


@dataclass(frozen=True, slots=True)
class Match:
    """An observation or a message that matches."""

    candidate: Candidate
    score: float
    words: Sequence[Word]
    """The words to highlight."""
    terms: tuple[str, ...] = ()
    """The words of the query that it contains."""

    @property
    def is_observation(self) -> bool:
        return self.candidate.kind == OBSERVATION

    @property
    def hit(self) -> Hit:
        return replace(make_hit(self.candidate, self.words, self.score), terms=self.terms)


class DistinctResults:
    """The distinct results of a search, in the order of their best matches.

    Reading the observations of a conversation and its text, which tells the exchanges apart, takes
    time. So they are read only for the results that are returned. Beyond the limit, the messages of
    a conversation are counted as one result if its observations have not been read: the count is a
    lower bound then.
    """

    def __init__(
        self, store: Store, coverage: Coverage, texts: ConversationTexts, limit: int
    ) -> None:
        self._store = store
        self._coverage = coverage
        self._texts = texts
        self._limit = limit
        self._matches: dict[_Identity, Match] = {}
        """The best match of each result."""
        self._own_matches: dict[str, Match] = {}
        """The matches of observations with their own text, by their ids."""
        self._observed_conversations: set[str] = set()
        """The conversations of observations that match or are results."""
        self.is_exact = True
        """Whether the exchanges were counted exactly."""

    def add(self, matches: Sequence[Match]) -> None:
        """Add matches, which are worse than those added before."""
        for match in matches:
            if match.is_observation:
                self._own_matches.setdefault(match.candidate.id, match)
                conversation = match.candidate.document.removeprefix(f"{OBSERVATIONS}:")
                self._observed_conversations.add(conversation)
        conversations = [m.candidate.document for m in matches if not m.is_observation]
        unread = deque(dict.fromkeys(conversations))
        is_few = len(unread) <= _FEW_CONVERSATIONS
        for number, match in enumerate(matches):
            needs_coverage = not match.is_observation and (is_few or not self.is_full)
            if needs_coverage and self._load_coverage(match.candidate.document, unread):
                self._texts.read(self._next_exchanges(matches[number:]))
            identity = self._identity(match)
            if identity is not None:
                self._matches.setdefault(identity, match)

    def _load_coverage(self, conversation: str, unread: deque[str]) -> bool:
        """Read the observations of a conversation, and those of the ones that follow.

        Returns False if they were read before.
        """
        is_new = False
        while unread and not self._coverage.is_loaded(conversation):
            batch = [unread.popleft() for _ in range(min(_COVERED_AT_ONCE, len(unread)))]
            self._coverage.load(batch)
            is_new = True
        return is_new

    def _next_exchanges(self, matches: Sequence[Match]) -> list[str]:
        """The conversations of the next results that are exchanges, as far as that is known."""
        results = set(self._matches)
        conversations: dict[str, None] = {}
        for match in matches:
            candidate = match.candidate
            if len(results) >= self._limit:
                break
            if match.is_observation:
                results.add((_OBSERVATION, candidate.id))
                continue
            if not self._coverage.is_loaded(candidate.document):
                break
            ids = self._coverage.ids(candidate.document, candidate.id)
            if ids:
                results.add((_OBSERVATION, ids[0]))
            else:
                results.add((_CONVERSATION, candidate.document))
                conversations[candidate.document] = None
        return list(conversations)

    def _identity(self, match: Match) -> _Identity | None:
        """The result that a match belongs to; None if it is unknown or was deleted meanwhile."""
        candidate = match.candidate
        if match.is_observation:
            return _OBSERVATION, candidate.id
        if not self._coverage.is_loaded(candidate.document):
            return self._unknown_identity(candidate)
        ids = self._coverage.ids(candidate.document, candidate.id)
        if not ids:
            return self._exchange_identity(candidate)
        id_ = self._best_observation(ids)
        self._observed_conversations.add(candidate.document)
        return _OBSERVATION, id_

    def _unknown_identity(self, candidate: Candidate) -> _Identity | None:
        """A message beyond the limit, which may belong to a result that is counted already."""
        self.is_exact = False
        if candidate.document in self._observed_conversations:
            return None
        return _CONVERSATION, candidate.document

    def _best_observation(self, ids: Sequence[str]) -> str:
        """The observation of a message that is a result already, or else ranks best."""
        for id_ in ids:
            if (_OBSERVATION, id_) in self._matches:
                return id_
        for id_ in self._own_matches:
            if id_ in ids:
                return id_
        return ids[0]

    def _exchange_identity(self, candidate: Candidate) -> _Identity | None:
        conversation = candidate.document
        if self.is_full and not self._texts.is_loaded(conversation):
            identity = (_CONVERSATION, conversation)
            if identity in self._matches:  # perhaps another exchange, perhaps the same
                self.is_exact = False
            return identity
        text = self._texts.text(conversation)
        if text is None:
            return None
        lines = exchange_lines(text, candidate.id)
        if lines is None:
            return _MESSAGE, conversation, candidate.id
        return _EXCHANGE, conversation, str(lines[0])

    @property
    def is_full(self) -> bool:
        return len(self._matches) >= self._limit

    @property
    def observations(self) -> int:
        return sum(1 for identity in self._matches if identity[0] == _OBSERVATION)

    @property
    def exchanges(self) -> int:
        return len(self._matches) - self.observations

    def hits(self) -> tuple[MemoryHit, ...]:
        """The results, up to the limit, without what was deleted in the meantime."""
        page = list(self._matches.items())[: self._limit]
        keys = [match.candidate.key for _, match in page if match.is_observation]
        by_key = observations_by_key(self._store, keys)
        hits: list[MemoryHit | None] = []
        for identity, match in page:
            if identity[0] != _OBSERVATION:
                hits.append(self._exchange_hit(match))
            elif not match.is_observation:
                hits.append(self._covering_hit(identity[1], match))
            elif match.candidate.key in by_key:
                hits.append(observation_hit(by_key[match.candidate.key], match))
        return tuple(hit for hit in hits if hit is not None)

    def _covering_hit(self, id_: str, match: Match) -> ObservationHit:
        """The observation of a message, with what the message says."""
        hit = observation_hit(self._coverage.observation(id_), match)
        if self._says_as_much(id_, match):
            return hit
        return hit._replace(quote=hit.snippet)

    def _says_as_much(self, id_: str, match: Match) -> bool:
        """Whether the own text of an observation contains the words of its message."""
        own_match = self._own_matches.get(id_)
        return own_match is not None and set(match.terms) <= set(own_match.terms)

    def _exchange_hit(self, match: Match) -> ConversationHit | None:
        text = self._texts.text(match.candidate.document)
        if text is None:
            return None
        return conversation_hit(match.hit, text)


def observation_hit(hit: ObservationHit, match: Match) -> ObservationHit:
    snippet = " ".join(match.hit.snippet.split())
    return hit._replace(score=match.score, snippet=snippet, terms=match.terms)


def conversation_hit(hit: Hit, text: ConversationText) -> ConversationHit:
    """The exchange of a message, with the snippets of the hit."""
    snippets = dict.fromkeys(" ".join(each.snippet.split()) for each in (hit, *hit.also))
    return ConversationHit(
        path=conversation_path(hit.project, hit.conversation_id),
        project=project_name(hit.project),
        title=hit.title,
        created_at=hit.created_at,
        score=hit.score,
        snippets=tuple(snippets),
        lines=exchange_lines(text, hit.message_id),
        terms=hit.terms,
    )
