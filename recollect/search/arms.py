"""The two arms of a search, which find the keys of messages.

The text arm finds messages by their words, the vector arm by their meaning. What they find becomes
the pool of candidates (`search.pool`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from recollect.language.languages.english import ENGLISH
from recollect.language.queries.addressee import is_to_assistant
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, QUESTION
from recollect.language.queries.query_tree import And, Node, Or, Word, excludes_words
from recollect.model.search import Filter
from recollect.models.embeddings import STATIC
from recollect.search import rank
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.terms import any_term
from recollect.store.values import SearchPlan, Space

CANDIDATES = 150
"""Candidates of each arm."""
MATCHES_OF_QUESTION = 300
"""If a question has both arms, they find more, of which a shortlist is ranked."""
_LARGE_LIBRARY = 20_000  # messages
_CANDIDATES_WHILE_TYPING = 60
"""Fewer, because each key is a search, and the next key replaces its result."""
# The weight of a term in a tenth of all messages. Terms with less say little and match many
# messages, so candidates with a rarer term come first.
_COMMON_WEIGHT = math.log(1 + 0.9 / 0.1)
_CANDIDATES_OF_PERIOD = 50  # of each arm, for each period that a question names
_PERIODS = 3  # as many are searched
_STATEMENTS = 50  # preferences and instructions, if a question is for the assistant
_DISTANT = 12  # more than are shown, because some have the same text


class Arms(Interpretation):
    """The searches of both arms for one query."""

    _count: tuple[int, bool] | None = None
    _distant: Sequence[tuple[int, float]] = ()
    """The nearest neighbours, if they are no evidence."""

    @cached_property
    def _arm_size(self) -> int:
        """How many candidates each arm may have."""
        if self._options.typing:
            return _CANDIDATES_WHILE_TYPING
        has_both_arms = self.node is not None and self._vector is not None
        if self.question.intent != QUESTION or not self._plain or not has_both_arms:
            return CANDIDATES
        if self._options.group == "conversation" and not self._is_large_library():
            return CANDIDATES
        return MATCHES_OF_QUESTION

    def _is_large_library(self) -> bool:
        """Whether many answers are not among the first candidates of the arms."""
        return self._store.size() >= _LARGE_LIBRARY

    def restrict_to(self, conversations: Iterable[str]) -> None:
        """Search in these conversations only."""
        self._filter = replace(self._filter, conversations=tuple(conversations) or ("",))

    # -- the text arm ---

    def text_matches(self, limit: int) -> list[int]:
        """The keys that the text arm finds, best first."""
        keys: list[int] = []
        for node in self._text_nodes():
            if len(keys) < limit:
                keys = list(dict.fromkeys([*keys, *self._store.match(node, self._filter, limit)]))
        return keys[:limit]

    def _text_nodes(self) -> list[Node]:
        """What the text arm searches for, the most telling first, and finally all of it.

        Identifiers and quotes come first. Then, for a question, its rarer terms; for keywords, all
        of them.
        """
        assert self.node is not None
        if not self._plain or isinstance(self.node, And) or len(self._terms) == 1:
            return [self.node]
        nodes = [term.node for term in self._terms if term.exact]
        if self.question.intent == QUESTION:
            rare = [term for term in self._terms if term.frequency and term.weight > _COMMON_WEIGHT]
            if 0 < len(rare) < len(self._terms):
                nodes.append(any_term(rare))
        elif len(self._own_terms) > 1:
            if self.question.phrase is not None:
                nodes.append(self.question.phrase.node)
            nodes.append(self._all_terms())
        return [*nodes, self.node]

    def full_matches(self, limit: int) -> list[int]:
        """The keys of messages that contain every term."""
        node = self.node
        if self._plain and node is not None:
            node = self._all_terms()
        if node is None:
            return []
        return self._store.match(node, self._filter, limit)

    def count(self) -> tuple[int, bool]:
        """How many messages the text arm finds, and whether that is exact or a minimum."""
        if self.node is None:
            return 0, True
        if self._count is None:
            self._count = self._store.count(self.node, self._filter)
        return self._count

    # -- periods ---

    def _periods(self) -> list[Filter]:
        """The periods that a question names.

        The answer is probably in one of them, but among the messages of all times, it may have too
        few words of the question to be a candidate.
        """
        if self._options.typing or self.question.intent != QUESTION or not self._plain:
            return []
        after, before = self._filter.after, self._filter.before
        periods = []
        for window in self.question.windows[:_PERIODS]:
            start = max(filter(None, (after, window.start)))
            end = min(filter(None, (before, window.end)))
            if start < end:
                periods.append(replace(self._filter, after=start, before=end))
        return periods

    @property
    def _period_arm_size(self) -> int:
        return min(_CANDIDATES_OF_PERIOD, self._arm_size)

    def _matches_in(self, period: Filter) -> list[int]:
        """The keys that the text arm finds in a period."""
        if self.node is None:
            return []
        return self._store.match(self.node, period, self._period_arm_size)

    # -- what the user told the assistant ---

    def _statement_plan(self) -> SearchPlan | None:
        """The search for preferences and instructions, if a question is for the assistant.

        They have few words of the question, so in a large library they are no candidates otherwise.
        """
        words = sorted(self._query.language.statement_words)
        if self._options.typing or not self._plain or not words or self.node is None:
            return None
        if self.question.intent != QUESTION or not is_to_assistant(self.question.text):
            return None
        roles = self._filter.roles or ("user",)
        if "user" not in roles:
            return None
        node = And((self.node, Or(tuple(map(Word, words)))))
        filter = replace(self._filter, roles=("user",))
        return SearchPlan((node,), filter, _STATEMENTS)

    def _matching_statements(self) -> list[int]:
        """The keys of preferences and instructions."""
        plan = self._statement_plan()
        if plan is None:
            return []
        (node,) = plan.nodes
        return self._store.match(node, plan.filter, plan.limit)

    # -- the vector arm ---

    def _nearest(self, has_word: bool, has_hits: bool) -> list[tuple[int, float]]:
        """The keys that the vector arm finds, with their cosines.

        `has_word`: the text arm found messages with a word of the query. `has_hits`: so did another
        search whose hits are in the same ranking.

        Nothing for a query with operators, since every hit must satisfy them, nor for a concept,
        since a conversation must contain its words. If nothing satisfies the operators, the
        neighbours are the closest in meaning, unless the query excludes words.
        """
        if self._vector is None or self._space is None:
            return []
        if not self._plain and (has_word or has_hits or self._excludes_words()):
            return []
        if self._every_term and self._options.mode == "both":
            return []
        neighbours = self._store.nearest(self._space, self._vector, self._filter, self._arm_size)
        evidence = []
        if self._plain and self._meaning_is_evidence():
            evidence = rank.drop_distant(neighbours)
        if evidence and self._needs_similarity(has_word):
            evidence = self._above_noise(evidence, self._space)
        if not evidence:
            self._distant = neighbours[:_DISTANT]
        return evidence

    def _excludes_words(self) -> bool:
        return self.node is None or excludes_words(self.node)

    def _nearest_in(
        self, period: Filter, neighbours: Sequence[tuple[int, float]], has_word: bool
    ) -> list[tuple[int, float]]:
        """The nearest messages of a period, unless they are far behind the nearest of all."""
        if not neighbours or self._space is None:
            return []
        others = self._store.nearest(self._space, self._vector, period, self._period_arm_size)
        others = rank.drop_distant([*neighbours[:1], *others])[1:]
        if self._needs_similarity(has_word):
            return self._above_noise(others, self._space)
        return others

    def _above_noise(
        self, neighbours: Iterable[tuple[int, float]], space: Space
    ) -> list[tuple[int, float]]:
        floor = space.noise_floor
        return [(key, cosine) for key, cosine in neighbours if floor and cosine > floor]

    def _meaning_is_evidence(self) -> bool:
        """Whether neighbours of the query's vector can be hits. Identifiers have no meaning."""
        if self._options.mode != "vector" and self.question.intent == IDENTIFIER:
            return False
        return not self._terms or any(map(self._has_meaning, self._own_terms))

    def _needs_similarity(self, has_word: bool) -> bool:
        """Whether only a similarity above that of unrelated words is evidence.

        It is if the library has none of the words. Keywords name words, so messages with other
        words must be very similar. The answer to a question often has other words, but the built-in
        model knows only those of English.
        """
        if self._options.mode == "both" and self.question.intent == KEYWORDS:
            return True
        if self._options.mode == "both" and self._is_in_unknown_language():
            return True
        return not has_word and not self._has_word_in_filter()

    def _is_in_unknown_language(self) -> bool:
        """Whether the model does not know the language of the query."""
        is_built_in = self._space is not None and self._space.name == STATIC
        return is_built_in and self._query.language is not ENGLISH

    def _has_word_in_filter(self) -> bool:
        """Whether a message that passes the filter contains a word of the query.

        The text arm knows it, except if only meaning is searched.
        """
        terms = [term for term in self._terms if term.frequency]
        if self.node is not None or not terms:
            return False
        return bool(self._store.match(any_term(terms), self._filter, 1))
