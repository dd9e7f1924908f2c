"""The two arms of a search, which find the keys of messages.

The text arm finds messages by their words, the vector arm by their meaning. What they find becomes
the pool of candidates (`search.candidates.pool`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from recollect.language.languages import ENGLISH
from recollect.language.queries.addressee import is_to_assistant
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, QUESTION
from recollect.language.queries.query_tree import And, Node, Or, Word, excludes_words
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter
from recollect.models.embeddings import STATIC
from recollect.search.candidates.scope import Scope
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.query_filter import MOST_AUTHORS
from recollect.search.queries.terms import any_term
from recollect.store.values import SearchPlan, Space, TimedMatches

# The weight of a term in a tenth of all messages. Terms with less say little and match many
# messages, so candidates with a rarer term come first.
_COMMON_WEIGHT = math.log(1 + 0.9 / 0.1)
_FEW_MATCHES = 40  # all of so few are ranked, so it does not matter which come first
_PERIODS = 3  # the most periods of a question that are searched
_STATEMENTS = 50  # preferences and instructions, if a question is for the assistant
_DISTANT = 12  # more than are shown, because some have the same text

Neighbour = tuple[int, float]
"""The key of a message and its cosine."""


def named_periods(interpretation: Interpretation, filter: Filter) -> list[Filter]:
    """The periods that a question names.

    The answer is probably in one of them, but it may share too few words with the question to be a
    candidate among the messages of all times.
    """
    query = interpretation.ranking_query
    if interpretation.options.typing or query.intent != QUESTION or not interpretation.is_plain:
        return []
    periods = []
    for window in query.windows[:_PERIODS]:
        start = max(moment for moment in (filter.after, window.start) if moment)
        end = min(moment for moment in (filter.before, window.end) if moment)
        if start < end:
            periods.append(replace(filter, after=start, before=end))
    return periods


def named_authors(interpretation: Interpretation, scope: Scope) -> Filter | None:
    """A filter for the messages of the authors that a query names; None if it names none.

    People seldom write their own names. So in a large library, what they said about a subject may
    share too few words with the query to be a candidate.
    """
    filter = scope.filter
    if interpretation.options.typing or not interpretation.is_plain:
        return None
    if filter.authors or filter.senders:
        return None
    if not has_messages(filter):  # which have authors
        return None
    from recollect.search.ranking import authors_in_query  # imports numpy

    authors = authors_in_query(interpretation.query.rest, scope.store.authors(MOST_AUTHORS))
    if not authors:
        return None
    return replace(filter, authors=tuple(authors))


def has_messages(filter: Filter) -> bool:
    """Whether a filter includes conversations."""
    return not filter.kinds or CONVERSATION in filter.kinds


class TextArm:
    """Finds messages by their words."""

    def __init__(self, interpretation: Interpretation, scope: Scope) -> None:
        self._interpretation = interpretation
        self._store, self._filter = scope
        self._count: tuple[int, bool] | None = None

    def nodes(self) -> list[Node]:
        """What to search for: the most specific first, any term of the query last.

        Identifiers and quotes come first. Then, for a statement, its words as typed, and for any
        question, its rarer terms; for keywords, the words next to each other, all of them as typed,
        and all in any form.
        """
        interpretation = self._interpretation
        if interpretation.node is None:
            return []
        if not interpretation.is_plain or isinstance(interpretation.node, And):
            return [interpretation.node]
        if interpretation.intent == QUESTION:
            return [*self._nodes_of_question(), interpretation.node]
        if len(interpretation.terms) == 1:
            (term,) = interpretation.terms
            if term.frequency <= _FEW_MATCHES:
                return [interpretation.node]
            return [*self._phrase(), *self._as_typed(), interpretation.node]
        nodes = [*self._exact_nodes(), *self._phrase(), *self._as_typed()]
        if len(interpretation.own_terms) > 1:
            nodes.append(interpretation.all_terms)
        return [*nodes, interpretation.node]

    def _as_typed(self) -> list[Node]:
        """All keywords in the form in which they were typed, if they have others.

        A library may have so many messages with the others that those are not candidates.
        """
        terms = self._interpretation.own_terms
        if self._interpretation.options.typing or all(len(term.forms) == 1 for term in terms):
            return []
        if min(term.frequency for term in terms) <= _FEW_MATCHES:
            return []
        nodes = tuple(term._replace(forms=term.forms[:1]).node for term in terms)
        if len(nodes) == 1:
            return list(nodes)
        return [And(nodes)]

    def _nodes_of_question(self) -> list[Node]:
        terms = self._interpretation.terms
        nodes: list[Node] = []
        if not self._interpretation.options.typing:
            nodes += self._phrase()
        if len(terms) == 1:
            return nodes
        nodes = [*self._exact_nodes(), *nodes]
        rare = [t for t in terms if t.frequency and t.weight > _COMMON_WEIGHT]
        if 0 < len(rare) < len(terms):
            nodes.append(any_term(rare))
        return nodes

    def _exact_nodes(self) -> list[Node]:
        return [term.node for term in self._interpretation.terms if term.exact]

    def _phrase(self) -> list[Node]:
        phrase = self._interpretation.ranking_query.phrase
        if phrase is None:
            return []
        return [phrase.node]

    def matches(self, limit: int) -> list[int]:
        """The keys of messages with a word of the query, best first."""
        keys: list[int] = []
        for node in self.nodes():
            if len(keys) < limit:
                keys = list(dict.fromkeys([*keys, *self._store.match(node, self._filter, limit)]))
        return keys[:limit]

    def timed_matches(self, node: Node) -> TimedMatches:
        """All messages that match, with their times."""
        return self._store.match_times(node, self._filter)

    def matches_in(self, filter: Filter, limit: int) -> list[int]:
        """The keys of matches that pass another filter, such as a period."""
        if self._interpretation.node is None:
            return []
        return self._store.match(self._interpretation.node, filter, limit)

    def count(self) -> tuple[int, bool]:
        """How many matches there are, and whether that is exact or a minimum."""
        if self._interpretation.node is None:
            return 0, True
        if self._count is None:
            self._count = self._store.count(self._interpretation.node, self._filter)
        return self._count

    def statement_plan(self) -> SearchPlan | None:
        """The search for preferences and instructions, if a question is for the assistant.

        They share few words with the question, so in a large library no other search finds them.
        """
        query_node = self._interpretation.node
        words = sorted(self._interpretation.query.language.statement_words)
        if query_node is None or not words or not self._asks_assistant():
            return None
        roles = self._filter.roles or ("user",)
        if "user" not in roles or not has_messages(self._filter):
            return None
        node = And((query_node, Or(tuple(map(Word, words)))))
        filter = replace(self._filter, roles=("user",))
        return SearchPlan((node,), filter, _STATEMENTS)

    def _asks_assistant(self) -> bool:
        """Whether the query is a question for the assistant."""
        interpretation = self._interpretation
        if interpretation.options.typing or not interpretation.is_plain:
            return False
        text = interpretation.ranking_query.text
        return interpretation.intent == QUESTION and is_to_assistant(text)

    def statements(self) -> list[int]:
        """The keys of preferences and instructions."""
        plan = self.statement_plan()
        if plan is None:
            return []
        (node,) = plan.nodes
        return self._store.match(node, plan.filter, plan.limit)


class Neighbours(NamedTuple):
    """What the vector arm finds, nearest first."""

    hits: list[Neighbour]
    distant: Sequence[Neighbour] = ()
    """The nearest messages, if none of them is a hit."""


class VectorArm:
    """Finds messages by their meaning."""

    def __init__(self, interpretation: Interpretation, scope: Scope) -> None:
        self._interpretation = interpretation
        self._store, self._filter = scope
        self._space = interpretation.meaning.space
        self._vector = interpretation.meaning.vector

    @property
    def is_for_concept(self) -> bool:
        """Whether every hit must contain the words of a concept, whatever its meaning."""
        return self._interpretation.every_term and self._interpretation.options.mode == "both"

    def nearest(self, limit: int, *, has_word: bool, has_hits: bool) -> Neighbours:
        """The messages that are nearest in meaning.

        `has_word`: the text arm found messages with a word of the query. `has_hits`: the text arm
        of this pool, or of another one in the same ranking, found messages.

        For a query with operators, none of them is a hit, since every hit must satisfy the
        operators. If nothing does, the nearest messages are `distant`, unless the query excludes
        words. For a concept there are no neighbours, since a conversation must contain its words.
        """
        interpretation = self._interpretation
        if self._vector is None or self._space is None:
            return Neighbours([])
        if not interpretation.is_plain and (has_word or has_hits or self._excludes_words()):
            return Neighbours([])
        if self.is_for_concept:
            return Neighbours([])
        neighbours = self._store.nearest(self._space, self._vector, self._filter, limit)
        hits = []
        if interpretation.is_plain and self._is_evidence():
            hits = drop_distant(neighbours)
        if hits and self._needs_similarity(has_word):
            hits = _above_noise(hits, self._space)
        if not hits:
            return Neighbours([], neighbours[:_DISTANT])
        return Neighbours(hits)

    def nearest_in(
        self, period: Filter, limit: int, neighbours: Sequence[Neighbour], *, has_word: bool
    ) -> list[Neighbour]:
        """The nearest messages of a period, unless they are far behind the nearest of all."""
        if not neighbours or self._space is None:
            return []
        others = self._store.nearest(self._space, self._vector, period, limit)
        others = drop_distant([*neighbours[:1], *others])[1:]
        if self._needs_similarity(has_word):
            return _above_noise(others, self._space)
        return others

    def cosines(self, keys: Sequence[int]) -> dict[int, float]:
        """The cosines of messages, by their keys."""
        if self._vector is None or self._space is None:
            return {}
        return self._store.cosines(self._space, self._vector, keys)

    def _excludes_words(self) -> bool:
        node = self._interpretation.node
        return node is None or excludes_words(node)

    def _is_evidence(self) -> bool:
        """Whether neighbours of the query's vector can be hits. Identifiers have no meaning."""
        interpretation = self._interpretation
        if interpretation.options.mode != "vector" and interpretation.intent == IDENTIFIER:
            return False
        return interpretation.meaning.is_known

    def _needs_similarity(self, has_word: bool) -> bool:
        """Whether a neighbour must be more similar than unrelated messages are.

        It must if nothing contains a word of the query. Keywords name words, so messages with other
        words must be very similar. The answer to a question often has other words, but the built-in
        model knows only English.
        """
        interpretation = self._interpretation
        is_by_both = interpretation.options.mode == "both"
        is_by_keywords = interpretation.intent == KEYWORDS
        if is_by_both and (is_by_keywords or self._is_in_unknown_language()):
            return True
        return not has_word and not self._has_word_in_filter()

    def _is_in_unknown_language(self) -> bool:
        """Whether the model does not know the language of the query."""
        is_built_in = self._space is not None and self._space.name == STATIC
        return is_built_in and self._interpretation.query.language is not ENGLISH

    def _has_word_in_filter(self) -> bool:
        """Whether a message that passes the filter contains a word of the query.

        Only for a search by meaning alone: in any other search, the text arm has found out.
        """
        terms = [term for term in self._interpretation.terms if term.frequency]
        if self._interpretation.node is not None or not terms:
            return False
        return bool(self._store.match(any_term(terms), self._filter, 1))


def _above_noise(neighbours: Iterable[Neighbour], space: Space) -> list[Neighbour]:
    floor = space.noise_floor
    return [(key, cosine) for key, cosine in neighbours if floor and cosine > floor]


_NEAR_SHARE = 0.3  # candidates below this share of the best cosine are noise


def drop_distant(neighbours: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Drop keys whose cosine is far below the best one. The best one comes first."""
    return [(key, cosine) for key, cosine in neighbours if cosine >= _NEAR_SHARE * neighbours[0][1]]
