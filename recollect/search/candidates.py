"""The candidates of a search: what its two arms find, and which of that is read and ranked.

The text arm finds messages by their words, the vector arm by their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from recollect.errors import SearchTimeout
from recollect.language.languages import ENGLISH
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, QUESTION, is_to_assistant
from recollect.language.queries.query_tree import And, Node, Or, Word, excludes_words
from recollect.language.text import comparable
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter
from recollect.models.embeddings import STATIC
from recollect.search.deadline import NOTHING_IN_TIME, Deadline, PartialStore
from recollect.search.passages import ScoredCandidate, find_terms
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.terms import any_term
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, TimedMatches

CANDIDATES = 150
"""Candidates of each arm."""
MATCHES_OF_QUESTION = 300
"""If a question has both arms, they find more, of which a shortlist is ranked."""
NEAREST = 3
"""The most messages that are shown if there are no hits."""
_CANDIDATES_WHILE_TYPING = 60  # fewer, because the next key replaces the result
_CANDIDATES_OF_PERIOD = 50  # of each arm, for each period that a question names
_STATEMENTS = 50  # preferences and instructions, if a question is for the assistant
_ALWAYS_RANKED = 30  # the first of each arm are always in the shortlist
_LARGE_LIBRARY = 20_000  # messages
# (distance, share): a match also gets this share of the scores of others that are at most so far
# away. In a large library, where more matches are there by chance, the others say more.
_NEARBY = ((10, 0.1),)
_NEARBY_IN_LARGE_LIBRARY = ((5, 0.3), (20, 0.15))
# The sizes of the shortlist. A search for conversations judges each by its messages.
_SHORTLIST, _SHORTLIST_IN_LARGE_LIBRARY, _SHORTLIST_BY_CONVERSATION = 120, 160, 250
_RANKED_MESSAGES = 100  # of each arm, if there is no shortlist
_RANKED_KEYWORDS = 60  # the text arm finds them in almost the same order
_PERIODS = 3  # the most periods of a question that are searched
_DISTANT = 12  # more than are shown, because some have the same text
_NEAR_SHARE = 0.3  # neighbours below this share of the best cosine are noise
# The weight of a term in a tenth of all messages. Terms with less say little and match many
# messages, which may take too long, so the rarer terms are searched for first.
_COMMON_WEIGHT = math.log(1 + 0.9 / 0.1)
_FEW_MATCHES = 40  # all of so few are ranked, so it does not matter which come first
_CANDIDATES_AT_ONCE = 100
_CHARACTERS_AT_ONCE = 300_000  # the deadline is checked after each batch
# The most matches that are read to count conversations. If there are more, the count is a minimum.
_COUNTED_MATCHES = 1_000
# For the best candidates, the message before is read as well.
_MESSAGES_WITH_CONTEXT = 16
_CONVERSATIONS_WITH_CONTEXT = 64

Neighbour = tuple[int, float]
"""The key of a message and its cosine."""


class Scope(NamedTuple):
    """Where a search looks: a store, or a part of it, and which of its messages may be found."""

    store: PartialStore
    filter: Filter

    @staticmethod
    def begin(store: Store, filter: Filter) -> Scope:
        """The scope of a search that begins now, with a new deadline."""
        return Scope(PartialStore(store, Deadline()), filter)

    def with_part(self, store: Store, filter: Filter) -> Scope:
        """Another part of the store, within the same deadline."""
        return Scope(PartialStore(store, self.store.deadline), filter)

    def restricted_to(self, conversations: Iterable[str]) -> Scope:
        """The same scope in these conversations only."""
        filter = replace(self.filter, conversations=tuple(conversations) or ("",))
        return self._replace(filter=filter)

    @property
    def is_partial(self) -> bool:
        """Whether something was left out because there was no time for it."""
        return self.store.deadline.was_missed

    @property
    def has_messages(self) -> bool:
        return not self.filter.kinds or CONVERSATION in self.filter.kinds


class CandidatePool:
    """The candidates for one query in one scope. `read_pools` fills it."""

    def __init__(
        self,
        interpretation: Interpretation,
        scope: Scope,
        max_arm: int | None = None,
        excluded_keys: AbstractSet[int] = frozenset(),
    ) -> None:
        """`max_arm`: the most candidates of each arm, if fewer than usual.

        Messages with `excluded_keys` are not found.
        """
        self.interpretation = interpretation
        self.scope = scope
        self.excluded_keys = excluded_keys
        self.keys: set[int] = set()
        """The keys of the candidates."""
        self.is_exhausted = True
        """Whether the arms have no candidates beyond the pool."""
        self.has_more_matches = True
        """Whether the text arm may have candidates beyond the pool."""
        self.is_by_conversation = interpretation.options.group == "conversation"
        has_both_arms = interpretation.node is not None and interpretation.is_by_meaning
        arm = CANDIDATES
        if interpretation.options.typing:
            arm = _CANDIDATES_WHILE_TYPING
        elif has_both_arms and interpretation.intent == QUESTION:
            is_small = self.is_by_conversation and not self.is_large_library
            arm = CANDIDATES if is_small else MATCHES_OF_QUESTION
        self.arm = min(arm, max_arm or MATCHES_OF_QUESTION)
        """Candidates of each arm."""
        self._all_matches: list[int] | None = None
        self.found_matches: list[int] = []
        """What the text arm found, best first."""
        self._cosines: dict[int, float] = {}
        self._distant: Sequence[Neighbour] = ()

    @cached_property
    def is_large_library(self) -> bool:
        """Whether an answer is often not among the first candidates."""
        return self.scope.store.size() >= _LARGE_LIBRARY

    # -- both arms ---

    def find(self, has_hits: bool) -> None:
        """Find the candidates of both arms, by their keys; those by words are in `found_matches`.

        `has_hits`: some were found by words, in this pool or in another of the same ranking.
        """
        matches, neighbours = list(self.found_matches), self._nearest(has_hits)
        found = len(matches), len(neighbours)
        if len(matches) < self.arm and not self.scope.store.deadline.stopped_steps:
            self._all_matches = matches
        if self.arm > CANDIDATES:
            arms = [matches, [key for key, _ in neighbours]]
            size = _SHORTLIST_IN_LARGE_LIBRARY if self.is_large_library else _SHORTLIST
            if self.is_by_conversation:
                size = _SHORTLIST_BY_CONVERSATION
            keys = shortlist(arms, size, is_large_library=self.is_large_library)
            matches = [key for key in matches if key in keys]
            neighbours = [neighbour for neighbour in neighbours if neighbour[0] in keys]
        elif not self.is_by_conversation:
            is_keywords = self.interpretation.intent == KEYWORDS
            size = _RANKED_KEYWORDS if is_keywords else _RANKED_MESSAGES
            matches, neighbours = matches[:size], neighbours[:size]
        self.has_more_matches = found[0] == self.arm or len(matches) < found[0]
        has_more_neighbours = found[1] == self.arm or len(neighbours) < found[1]
        self.is_exhausted = not self.has_more_matches and not has_more_neighbours
        size = min(_CANDIDATES_OF_PERIOD, self.arm)
        for period in self._periods():
            if self.has_more_matches and self.interpretation.node is not None:
                matches += self._match(self.interpretation.node, size, period)
            if neighbours:
                others = self._neighbours(period, size)
                neighbours += self._near(others, bool(matches), neighbours[0][1])
        if self.has_more_matches:
            matches += self._statements()
        self.found_matches = matches
        self._cosines = dict(neighbours)
        self.keys = {*matches, *self._cosines}

    def read(self) -> list[ScoredCandidate]:
        """The candidates that both arms have found, without their terms and cosines."""
        matches = set(self.found_matches)
        return [
            ScoredCandidate(candidate, candidate.key in matches, candidate.key in self._cosines)
            for candidate in self.candidates(list(self.keys))
        ]

    def candidates(self, keys: Sequence[int]) -> list[Candidate]:
        """The messages with these keys, in any order."""
        return self.scope.store.candidates(keys, self.scope.filter)

    def set_cosines(self, candidates: Sequence[ScoredCandidate]) -> None:
        meaning = self.interpretation.meaning
        if meaning.vector is None or meaning.space is None:
            return
        keys = [scored.candidate.key for scored in candidates]
        missing = [key for key in keys if key not in self._cosines]
        others = self.scope.store.cosines(meaning.space, meaning.vector, missing)
        for key, scored in zip(keys, candidates, strict=True):
            scored.cosine = self._cosines.get(key, others.get(key))

    def context(self, candidates: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The messages before the best candidates, if they are not candidates themselves.

        The ranking of questions depends on them.
        """
        store = self.scope.store
        is_question = self.interpretation.intent == QUESTION
        if not (candidates and is_question and self.scope.has_messages) or store.deadline.is_over():
            return []
        size = _CONVERSATIONS_WITH_CONTEXT if self.is_by_conversation else _MESSAGES_WITH_CONTEXT
        best = sorted(candidates, key=lambda s: s.text_score + 3 * (s.cosine or 0.0), reverse=True)
        keys_of_best = [scored.candidate.key for scored in best[:size]]
        previous = store.candidates(keys_of_best, Filter(hidden=True), True)
        keys = {scored.candidate.key for scored in candidates}
        context = self.with_terms([ScoredCandidate(p) for p in previous if p.key not in keys])
        self.set_cosines(context)
        return context

    def with_terms(self, candidates: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The candidates with their terms, as many as there is time for."""
        done = characters = 0
        for end, scored in enumerate(candidates, 1):
            characters += min(len(scored.candidate.content), LIMITS.ranked_characters)
            if characters > _CHARACTERS_AT_ONCE or end == len(candidates):
                if done and self.scope.store.deadline.is_over():
                    break
                find_terms(self.interpretation.ranking_query, candidates[done:end])
                done, characters = end, 0
        return list(candidates[:done])

    # -- the text arm ---

    def nodes(self) -> list[Node]:
        """What to search for: the most specific first, any term of the query last.

        Identifiers and quotes come first. Then, for a statement, its words as typed, and for any
        question, its rarer terms; for keywords, the words next to each other, all of them as typed,
        and all in any form.
        """
        interpretation, is_typing = self.interpretation, self.interpretation.options.typing
        node, terms, own = interpretation.node, interpretation.terms, interpretation.own_terms
        if node is None:
            return []
        if not interpretation.is_plain or isinstance(node, And):
            return [node]
        phrase = interpretation.ranking_query.phrase
        nodes = [term.node for term in terms if term.exact and len(terms) > 1]
        if interpretation.intent == QUESTION:
            if phrase is not None and not is_typing:
                nodes.append(phrase.node)
            rare = [t for t in terms if t.frequency and t.weight > _COMMON_WEIGHT]
            if 0 < len(rare) < len(terms):
                nodes.append(any_term(rare))
            return [*nodes, node]
        if len(terms) == 1 and terms[0].frequency <= _FEW_MATCHES:
            return [node]
        if phrase is not None:
            nodes.append(phrase.node)
        # A library may have so many messages with other forms of the words that those with the
        # words as typed are not candidates.
        has_forms = any(len(term.forms) > 1 for term in own)
        if has_forms and not is_typing and min(t.frequency for t in own) > _FEW_MATCHES:
            typed = tuple(term._replace(forms=term.forms[:1]).node for term in own)
            nodes.append(typed[0] if len(typed) == 1 else And(typed))
        if len(own) > 1:
            nodes.append(interpretation.all_terms)
        return [*nodes, node]

    def matches(self, limit: int) -> list[int]:
        """The keys of messages with a word of the query, best first."""
        keys: dict[int, None] = {}
        for node in self.nodes():
            if len(keys) < limit:
                keys |= dict.fromkeys(self._match(node, limit, self.scope.filter))
        return list(keys)[:limit]

    def _match(self, node: Node, limit: int, filter: Filter) -> list[int]:
        keys = self.scope.store.match(node, filter, limit + len(self.excluded_keys))
        return [key for key in keys if key not in self.excluded_keys][:limit]

    def timed_matches(self, node: Node) -> TimedMatches:
        """All messages that match, with their times."""
        matches = self.scope.store.match_times(node, self.scope.filter)
        return matches.without(self.excluded_keys)

    def _periods(self) -> list[Filter]:
        """The periods that a question names.

        The answer is probably in one of them, but it may share too few words with the question to
        be a candidate among the messages of all times.
        """
        interpretation, filter = self.interpretation, self.scope.filter
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

    def _statements(self) -> list[int]:
        """Preferences and instructions of the user, if a question is for the assistant.

        They share few words with the question, so in a large library no other search finds them.
        """
        interpretation, filter = self.interpretation, self.scope.filter
        words = sorted(interpretation.query.language.statement_words)
        is_question = interpretation.is_plain and interpretation.intent == QUESTION
        if not words or not is_question or interpretation.options.typing:
            return []
        if interpretation.node is None or not is_to_assistant(interpretation.ranking_query.text):
            return []
        if "user" not in (filter.roles or ("user",)) or not self.scope.has_messages:
            return []
        node = And((interpretation.node, Or(tuple(map(Word, words)))))
        return self._match(node, _STATEMENTS, replace(filter, roles=("user",)))

    # -- the vector arm ---

    def _neighbours(self, filter: Filter, limit: int) -> list[Neighbour]:
        meaning = self.interpretation.meaning
        if meaning.space is None or meaning.vector is None:
            return []
        limit += len(self.excluded_keys)
        found = self.scope.store.nearest(meaning.space, meaning.vector, filter, limit)
        return [pair for pair in found if pair[0] not in self.excluded_keys]

    def _nearest(self, has_hits: bool) -> list[Neighbour]:
        """The messages that are hits by their meaning, nearest first.

        For a query with operators, none of them is a hit, since every hit must satisfy the
        operators. If nothing does, the nearest messages are shown as such, unless the query
        excludes words. For a concept there are no neighbours, since a conversation must contain its
        words. Identifiers have no meaning.
        """
        interpretation, node = self.interpretation, self.interpretation.node
        mode, is_plain = interpretation.options.mode, interpretation.is_plain
        if interpretation.meaning.vector is None or (interpretation.every_term and mode == "both"):
            return []
        if not is_plain and (has_hits or node is None or excludes_words(node)):
            return []
        neighbours = self._neighbours(self.scope.filter, self.arm)[: self.arm]
        hits: list[Neighbour] = []
        has_meaning = mode == "vector" or interpretation.intent != IDENTIFIER
        if neighbours and is_plain and has_meaning and interpretation.meaning.is_known:
            hits = self._near(neighbours, bool(self.found_matches), neighbours[0][1])
        if not hits:
            self._distant = neighbours[:_DISTANT]
        return hits

    def _near(
        self, neighbours: Sequence[Neighbour], has_word: bool, best: float
    ) -> list[Neighbour]:
        """The neighbours that are not far behind the best one, nor as near as unrelated ones."""
        near = [(key, cosine) for key, cosine in neighbours if cosine >= _NEAR_SHARE * best]
        space = self.interpretation.meaning.space
        if near and space is not None and self._needs_similarity(has_word):
            floor = space.noise_floor
            near = [(key, cosine) for key, cosine in near if floor and cosine > floor]
        return near

    def _needs_similarity(self, has_word: bool) -> bool:
        """Whether a neighbour must be more similar than unrelated messages are.

        It must if nothing contains a word of the query. Keywords name words, so messages with other
        words must be very similar. The answer to a question often has other words, but the built-in
        model knows only English.
        """
        interpretation, space = self.interpretation, self.interpretation.meaning.space
        is_in_known_language = (
            space is None or space.name != STATIC or interpretation.query.language is ENGLISH
        )
        must_be_similar = interpretation.intent == KEYWORDS or not is_in_known_language
        if interpretation.options.mode == "both" and must_be_similar:
            return True
        terms = [term for term in interpretation.terms if term.frequency]
        if has_word or interpretation.node is not None or not terms:
            return not has_word
        # A search by meaning alone: the text arm has not found out.
        return not self._match(any_term(terms), 1, self.scope.filter)

    def nearest(self) -> list[tuple[Candidate, float]]:
        """Up to three candidates that are nearest in meaning but are not hits, and their cosines.

        They are from different conversations if the search is for conversations, and otherwise
        have different texts. Only if no neighbour is a hit.
        """
        cosines = dict(self._distant)
        candidates = sorted(self.candidates(list(cosines)), key=lambda c: -cosines[c.key])
        distinct: dict[str, Candidate] = {}
        for candidate in candidates:
            text = comparable(candidate.content)
            distinct.setdefault(candidate.document if self.is_by_conversation else text, candidate)
        first = islice(distinct.values(), NEAREST)
        return [(candidate, round(cosines[candidate.key], 6)) for candidate in first]

    # -- beyond what is ranked ---

    def count(self) -> tuple[int, bool]:
        """How many messages the text arm finds, and whether that is exact or a minimum."""
        if self._all_matches is not None:
            return len(self._all_matches), True
        return self._count

    @cached_property
    def _count(self) -> tuple[int, bool]:
        if self.interpretation.node is None:
            return 0, True
        count, is_exact = self.scope.store.count(self.interpretation.node, self.scope.filter)
        if self.excluded_keys:  # the text index counts them
            count -= len(self.candidates(list(self.excluded_keys)))
        return max(0, count), is_exact

    def count_conversations(self, ranked: Iterable[str]) -> tuple[int, bool]:
        """How many conversations have hits, and whether that is exact or a minimum.

        `ranked` are those in the ranking. Counting takes up to half as long as the search. Agents
        and people who are typing rarely go past the ranked conversations, so a minimum is enough.
        It is also enough for a question, because answers in other words cannot be counted anyway.
        """
        documents, interpretation = set(ranked), self.interpretation
        options, is_exact = interpretation.options, self.is_exhausted
        is_question = interpretation.is_by_meaning and interpretation.intent == QUESTION
        is_quick = options.typing or options.observations or is_question or self.scope.is_partial
        if self.has_more_matches and interpretation.node is not None and not is_quick:
            keys = self.matches(_COUNTED_MATCHES)
            unranked = [key for key in keys if key not in self.keys]
            documents.update([name for _, name, _ in self.scope.store.change_times(unranked)])
            is_exact = len(keys) < _COUNTED_MATCHES and not interpretation.is_by_meaning
        return len(documents), is_exact and not self.scope.is_partial

    def matches_beyond(self, start: int = 0) -> Iterator[Candidate]:
        """The matches that were not ranked, from a place on, in the order of the text engine.

        They are read as the caller iterates.
        """
        keys = islice(self._keys_beyond(start + _CANDIDATES_AT_ONCE), start, None)
        while some := list(islice(keys, _CANDIDATES_AT_ONCE)):
            candidates = {candidate.key: candidate for candidate in self.candidates(some)}
            yield from (candidates[key] for key in some if key in candidates)

    def _keys_beyond(self, count: int) -> Iterator[int]:
        """The keys of all matches that were not ranked. Probably, so many will be read."""
        before = set(self.keys)
        limit = self.arm + len(before) + count
        while self.interpretation.node is not None and self.has_more_matches:
            matches = self.matches(limit)
            keys = [key for key in matches if key not in before]
            before.update(keys)
            yield from keys
            if len(matches) < limit or limit > LIMITS.page_offset:
                return
            limit *= 4


def shortlist(
    arms: Sequence[Sequence[int]], size: int, *, is_large_library: bool
) -> AbstractSet[int]:
    """Which of the keys that the arms found, best first, are ranked. Their first keys always are.

    In a large library, many messages have words of a question by chance, so the answer may be far
    behind in both arms. But what was said before and after the answer is mostly about the same
    subject and matches as well. So matches that are stored near other matches come first. The keys
    of a conversation mostly follow one another, so no document has to be looked up.
    """
    import numpy as np

    matches = np.array([key for arm in arms for key in arm], np.int64)
    places = np.array([place for arm in arms for place in range(len(arm))])
    keys, rows = np.unique(matches, return_inverse=True)
    if len(keys) <= size:
        return set(keys.tolist())
    scores = np.bincount(rows, 1 / (60 + places))  # reciprocal rank fusion
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    totals = scores.copy()
    for distance, share in _NEARBY_IN_LARGE_LIBRARY if is_large_library else _NEARBY:
        starts = np.searchsorted(keys, keys - distance)
        ends = np.searchsorted(keys, keys + distance, "right")
        totals += share * (sums[ends] - sums[starts] - scores)
    order = keys[np.argsort(-totals, kind="stable")].tolist()
    first = chain.from_iterable(arm[:_ALWAYS_RANKED] for arm in arms)
    return set(islice(dict.fromkeys([*first, *order]), size))


def read_pools(pools: Sequence[CandidatePool]) -> list[list[ScoredCandidate]]:
    """The candidates of pools that are ranked together, and the messages before the best of them.

    The matches of each count as hits for all.
    """
    for pool in pools:
        pool.found_matches = pool.matches(pool.arm)
    has_hits = any(pool.found_matches for pool in pools)
    for pool in pools:
        pool.find(has_hits)
    # The pools take turns, so that none is left out if time runs out.
    in_turn = zip_longest(*(pool.read() for pool in pools))
    with_terms = pools[0].with_terms([c for row in in_turn for c in row if c is not None])
    candidates = []
    for pool in pools:
        own = [scored for scored in with_terms if scored.candidate.key in pool.keys]
        pool.set_cosines(own)
        candidates.append(own + pool.context(own))
    if not with_terms and pools[0].scope.store.deadline.stopped_steps:
        # It must not look as if there were nothing.
        raise SearchTimeout(NOTHING_IN_TIME)
    return candidates
