"""The search pipeline: parse the query, get candidates from each arm, rank them, make a page.

The text arm finds candidates by their words, the vector arm by their meaning.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

from recollect.errors import InvalidInput, RecollectError, SearchTimeout
from recollect.index.meaning import Meaning
from recollect.language.intent import IDENTIFIER, KEYWORDS, QUESTION, classify
from recollect.language.query import Query
from recollect.language.query_tree import And, Node, Word, excludes_words
from recollect.language.text import fold, tokens
from recollect.language.when import windows
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.models.embeddings import is_remote
from recollect.search import rank
from recollect.search.correction import correct_terms
from recollect.search.deadline import NOTE, NOTHING_IN_TIME, Deadline
from recollect.search.evidence import CERTAIN, UNRELATED, Assessment, assess
from recollect.search.hits import make_hit
from recollect.search.long_queries import parse_any_length
from recollect.search.partial_store import PartialStore
from recollect.search.query_filter import has_words, may_relax, narrow_filter
from recollect.search.ranking.scored import Question, Scale, ScoredCandidate
from recollect.search.ranking.weights import PERFECT_SCORES
from recollect.search.rerank import may_rerank, rerank
from recollect.search.terms import Term, any_term, form_name, own_terms, query_terms
from recollect.search.variety import merge_copies, spread
from recollect.search.without_words import search_without_words
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate, SearchPlan, Space

CANDIDATES = 150
"""Candidates of each arm."""
_CANDIDATES_WHILE_TYPING = 60
"""Fewer, because each key is a search, and the next key replaces its result."""
# The weight of a term in a tenth of all messages. Terms with less say little and match many
# messages, so candidates with a rarer term come first.
_COMMON_WEIGHT = math.log(1 + 0.9 / 0.1)
_CANDIDATES_AT_ONCE = 100
_CHARACTERS_AT_ONCE = 300_000  # the deadline is checked after each batch
_CANDIDATES_WITH_CONTEXT = 64  # for the best of them, the previous message is read as well
_MORE_MESSAGES = 2  # of a conversation, besides its best
NEAREST = 3
"""The most messages that are shown if there are no hits."""
_DISTANT = 12  # more than are shown, because some have the same text


def search(
    store: Store, meaning: Meaning, text: str, filter: Filter, options: SearchOptions
) -> Page:
    """A page of hits for a query. See `language.query` for its syntax.

    Every hit satisfies operators, quotes and fields. Plain words are a question: messages that
    contain any of them or are similar in meaning are ranked. If no message contains all the words
    and phrases of a query without operators, they are ranked like a question. `Page.matched`
    says how the query was handled.
    """
    with store.snapshot():
        prepared = prepare_search(store, meaning, text, filter, options)
        if prepared is None:
            return search_without_words(store, text, filter, options)
        return prepared.page()


def prepare_search(
    store: Store,
    meaning: Meaning,
    text: str,
    filter: Filter,
    options: SearchOptions,
    search_type: type[Search] | None = None,
) -> Search | None:
    """The search for a query; None if the query has no words."""
    query = parse_any_length(text, store)
    filter = narrow_filter(filter, query)
    if not has_words(query):
        return None
    assert query.node is not None
    if may_relax(query) and not store.match(query.node, filter, 1):
        query = replace(query, plain=True)
    if search_type is None:
        search_type = Search
    return search_type(store, meaning, query, filter, options)


class Search:
    """One search: its candidates, their ranking and the page."""

    absence = "No message"
    """The subject of the remark on words that occur nowhere."""
    has_observations = False
    """Whether observations are among the candidates."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        query: Query,
        filter: Filter,
        options: SearchOptions,
        every_term: bool = False,
    ) -> None:
        """With `every_term` a message must contain all words of a plain query."""
        self._deadline = Deadline()
        store = PartialStore(store, self._deadline)
        self._store: Store = store
        self._meaning = meaning
        self._filter = filter
        self._options = options
        self._query = query
        self._plain = query.plain
        self._every_term = every_term
        self._space: Space | None = None
        self._vector: Any = None
        self._note = ""
        self._all_terms_match = True
        self._ranking: list[ScoredCandidate] | None = None
        self._assessment: Assessment | None = None
        self._scale: Scale | None = None
        self._count: tuple[int, bool] | None = None
        self._arm_size = CANDIDATES
        if options.typing:
            self._arm_size = _CANDIDATES_WHILE_TYPING
        self._pool_keys: set[int] = set()
        self.is_exhausted = True
        """Whether the arms have no candidates beyond the pool."""
        self._has_more_matches = True
        """Whether the text arm may have candidates beyond the pool."""
        self._terms = query_terms(query, store, options.typing)
        self.corrections: dict[str, str] = {}
        if query.plain and options.correct and '"' not in query.rest:
            self._terms, self.corrections = correct_terms(
                self._terms, store, filter, query.language, meaning.knows
            )
        self.node = self._text_node()
        """What the text arm searches for; None if only the vector arm is used."""
        self.question = Question(
            query.rest,
            self._scoring_terms(),
            options.now,
            windows(query.rest, options.now),
            intent=self._intent(),
            phrase=self._typed_phrase(),
        )
        self._distant: list[tuple[int, float]] = []
        """The nearest neighbours, if they are no evidence."""
        if options.mode != "text":
            self._embed_query(self._text_to_embed())

    @cached_property
    def words(self) -> list[Word]:
        """The words to highlight, in all their forms."""
        return [word for term in self._terms for word in term.words]

    def with_filter(self, filter: Filter, store: Store, candidates: int = CANDIDATES) -> Search:
        """The same search with another filter and store, and so many candidates of each arm."""
        other = copy(self)
        other._arm_size = min(candidates, self._arm_size)
        other._filter = filter
        other._store = PartialStore(store, self._deadline)
        other._pool_keys = set()
        other._ranking = None
        other._assessment = None
        other._scale = None
        other._count = None
        return other

    def with_options(self, options: SearchOptions) -> Search:
        """The same search, whose ranking is known, for another page."""
        other = copy(self)
        other._options = options
        return other

    def restrict_to(self, conversations: Iterable[str]) -> None:
        """Search in these conversations only."""
        self._filter = replace(self._filter, conversations=tuple(conversations) or ("",))

    def _intent(self) -> str:
        """Operators are not questions."""
        if not self._plain:
            return KEYWORDS
        return classify(self._query.rest)

    def _typed_phrase(self) -> Term | None:
        """The words of a query of keywords, next to each other."""
        typed = tuple(self.corrections.get(word, word) for word in tokens(self._query.rest))
        if len(typed) < 2 or self._intent() != KEYWORDS:
            return None
        return Term((typed,), prefix=self._options.typing)

    def _scoring_terms(self) -> tuple[Term, ...]:
        """The terms that affect the score. A question by meaning alone has none."""
        if self._options.mode == "vector" and self._plain:
            return ()
        return self._terms

    def _text_node(self) -> Node | None:
        if not self._plain:
            return self._query.node
        if self._options.mode == "vector" or not self._terms:
            return None
        if self._every_term:
            return self._all_terms()
        return any_term(self._terms)

    def _all_terms(self) -> Node:
        nodes = tuple(term.node for term in self._own_terms)
        if len(nodes) == 1:
            return nodes[0]
        return And(nodes)

    @property
    def _own_terms(self) -> tuple[Term, ...]:
        """The terms of the query, without synonyms."""
        return own_terms(self._terms)

    @property
    def is_without_model(self) -> bool:
        """Whether the embedding model failed. The next search may be able to use it."""
        return bool(self._note)

    @property
    def is_partial(self) -> bool:
        """Whether candidates were left out because there was no time for them."""
        return self._deadline.was_missed

    # -- evidence ---

    @property
    def missing_words(self) -> tuple[str, ...]:
        """The words of a plain query that no message contains.

        An identifier such as `ERR_AUTH` is named as it was typed, without its parts.
        """
        if not self._plain:
            return ()
        names = [term.name for term in self._own_terms if not term.frequency]
        identifiers = {}
        for word in self._query.rest.split():
            parts = tokens(word)
            if len(parts) > 1 and form_name(parts) in names:
                identifiers[form_name(parts)] = word.strip(string.punctuation)
        parts_of_identifiers = {part for name in identifiers for part in name.split()}
        return tuple(
            identifiers.get(name, name) for name in names if name not in parts_of_identifiers
        )

    def _remarks(self) -> list[str]:
        """What the user should know about the words of the query."""
        remarks = [self._query.note]
        remarks += [
            f"Searched for “{word}” instead of “{typo}”." for typo, word in self.corrections.items()
        ]
        missing = [f"“{word}”" for word in self.missing_words]
        if missing:
            remarks.append(f"{self.absence} mentions {' or '.join(missing)}.")
        return remarks

    def _has_meaning(self, term: Term) -> bool:
        """Whether the vector of a word means something.

        A word that the library does not contain and the model knows only as fragments has no
        meaning: the vectors of its fragments are those of other words.
        """
        if term.frequency:
            return True
        return all(self._meaning.knows(word) for form in term.forms for word in form)

    def _text_to_embed(self) -> str:
        """The query with its corrections and without words that have no meaning.

        If none has, the whole query; its neighbours are no evidence then.
        """
        text = self._query.rest
        if not self._plain:
            return " ".join(term.name for term in self._own_terms) or text
        meaningless = {term.name for term in self._own_terms if not self._has_meaning(term)}
        if not meaningless and not self.corrections:
            return text
        words = []
        for word in text.split():
            name = form_name(tokens(word))
            if name not in meaningless:
                words.append(self.corrections.get(name, word))
        return " ".join(words) or text

    def _meaning_is_evidence(self) -> bool:
        """Whether neighbours of the query's vector can be hits. Identifiers have no meaning."""
        if self._options.mode != "vector" and self.question.intent == IDENTIFIER:
            return False
        return not self._terms or any(map(self._has_meaning, self._own_terms))

    def _needs_similarity(self, has_word: bool) -> bool:
        """Whether only a similarity above that of unrelated words is evidence.

        It is if the library has none of the words. Keywords name words, so messages with other
        words must be very similar. The answer to a question often has other words.
        """
        if self._options.mode == "both" and self.question.intent == KEYWORDS:
            return True
        return not has_word and not self._has_word_in_filter()

    def _has_word_in_filter(self) -> bool:
        """Whether a message that passes the filter contains a word of the query.

        The text arm knows it, except if only meaning is searched.
        """
        terms = [term for term in self._terms if term.frequency]
        if self.node is not None or not terms:
            return False
        return bool(self._store.match(any_term(terms), self._filter, 1))

    def assess(self, ranking: Sequence[ScoredCandidate]) -> Assessment:
        """What a ranking of hits of this search is worth; see `search.evidence`."""
        if not self._plain:
            return CERTAIN
        floor = None
        if self._space is not None and self._means_most_of_the_query():
            floor = self._space.noise_floor
        return assess(self.question, ranking, floor, self.has_observations)

    def scale_of(self, ranking: Sequence[ScoredCandidate], assessment: Assessment) -> Scale:
        """How the scores of a ranking become scores as users see them."""
        if self._every_term:  # several rankings share a scale
            return Scale(PERFECT_SCORES[self.question.intent], 1.0)
        best = max((scored.score for scored in ranking), default=0.0)
        if self._options.score == "fts":
            return Scale(best, 1.0)
        return Scale(best, assessment.confidence)

    @property
    def assessment(self) -> Assessment:
        """What the hits of this search are worth."""
        if self._assessment is None:
            self._assessment = self.assess(self.ranking())
        return self._assessment

    @property
    def scale(self) -> Scale:
        if self._scale is None:
            self._scale = self.scale_of(self.ranking(), self.assessment)
        return self._scale

    def _means_most_of_the_query(self) -> bool:
        """Whether the words with a meaning are at least half of the query, by weight.

        Otherwise its vector is that of words such as "which" and "use".
        """
        own = self._own_terms
        with_meaning = sum(term.weight for term in own if self._has_meaning(term))
        return 2 * with_meaning >= sum(term.weight for term in own)

    # -- the text arm ---

    def text_matches(self, limit: int) -> list[int]:
        """The keys that the text arm finds, best first."""
        keys: list[int] = []
        for node in self._text_nodes():
            if len(keys) < limit:
                keys = list(dict.fromkeys([*keys, *self._store.match(node, self._filter, limit)]))
        return keys[:limit]

    def _text_nodes(self) -> list[Node]:
        """What the text arm searches for, the most telling first, and at last all of it.

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

    # -- the vector arm ---

    def _embed_query(self, text: str) -> None:
        """Set the vector of the query, or a note that says why there is none."""
        try:
            self._space = self._meaning.space()
            if self._space is not None:
                if is_remote(self._space.name):
                    self._store.release_snapshot()
                self._vector = self._meaning.vector(self._space, text)
        except RecollectError as error:
            self._note = f"Vectors were not used: {error}"
        if self._vector is None and self._options.mode == "vector":
            raise InvalidInput(
                self._note or "There are no vectors to search yet. Run `recollect index`."
            )

    def _nearest(self, has_word: bool) -> list[tuple[int, float]]:
        """The keys that the vector arm finds, with their cosines.

        `has_word`: the text arm found messages with a word of the query.

        Nothing for a query with operators, since every hit must satisfy them, nor for a concept,
        since a conversation must contain its words. If nothing satisfies the operators, the
        neighbours are the closest in meaning, unless the query excludes words.
        """
        if self._vector is None or self._space is None:
            return []
        if not self._plain and (has_word or self.node is None or excludes_words(self.node)):
            return []
        if self._every_term and self._options.mode == "both":
            return []
        neighbours = self._store.nearest(self._space, self._vector, self._filter, self._arm_size)
        evidence = []
        if self._plain and self._meaning_is_evidence():
            evidence = rank.drop_distant(neighbours)
        if evidence and self._needs_similarity(has_word):
            floor = self._space.noise_floor
            evidence = [(k, cosine) for k, cosine in evidence if floor and cosine > floor]
        if not evidence:
            self._distant = neighbours[:_DISTANT]
        return evidence

    # -- the pool ---

    def pool(self) -> list[ScoredCandidate]:
        """The candidates of both arms, and the messages before the best of them."""
        text_keys: list[int] = []
        self._store.expect(self._plan())
        if self.node is not None:
            text_keys = self.text_matches(self._arm_size)
        neighbours = self._nearest(bool(text_keys))
        self._has_more_matches = len(text_keys) >= self._arm_size
        self.is_exhausted = not self._has_more_matches and not neighbours
        by_text = set(text_keys) - self._pool_keys
        by_vector = {key for key, _ in neighbours} - self._pool_keys
        self._pool_keys |= by_text | by_vector
        pool = self._with_terms(
            [
                ScoredCandidate(candidate, candidate.key in by_text, candidate.key in by_vector)
                for candidate in self.candidates(list(by_text | by_vector))
            ]
        )
        self._set_cosines(pool, dict(neighbours))
        return pool + self._context(pool)

    def _plan(self) -> SearchPlan:
        """The calls of `match` and `nearest` that are likely to follow."""
        nodes: tuple[Node, ...] = ()
        if self.node is not None:
            nodes = tuple(self._text_nodes())
        plan = SearchPlan(nodes, self._filter, self._arm_size)
        if self._vector is None or not self._plain:
            return plan
        if self._every_term and self._options.mode == "both":
            return plan
        return plan._replace(space=self._space, vector=self._vector)

    def require_candidates(self, pool: Sequence[ScoredCandidate]) -> None:
        """Raise SearchTimeout if there was no time to find anything.

        It must not look as if there were nothing.
        """
        if not pool and self._deadline.stopped_steps:
            raise SearchTimeout(NOTHING_IN_TIME)

    def _with_terms(self, candidates: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The candidates with the terms in them, as many as there is time for."""
        # A server must start without numpy, which takes long to import.
        from recollect.search.ranking.passages import find_terms

        pool: list[ScoredCandidate] = []
        for batch in _batches(candidates):
            if pool and self._deadline.is_over():
                break
            find_terms(self.question, batch)
            pool += batch
        return pool

    def _set_cosines(self, pool: Sequence[ScoredCandidate], cosines: dict[int, float]) -> None:
        if self._vector is None or self._space is None:
            return
        missing = [s.candidate.key for s in pool if s.candidate.key not in cosines]
        cosines |= self._store.cosines(self._space, self._vector, missing)
        for scored in pool:
            scored.cosine = cosines.get(scored.candidate.key)

    def _context(self, pool: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The messages before the best candidates that are not candidates themselves.

        Only the ranking of questions depends on them.
        """
        if not pool or self.question.intent != QUESTION or self._deadline.is_over():
            return []
        best = sorted(pool, key=rank.preliminary_score, reverse=True)[:_CANDIDATES_WITH_CONTEXT]
        keys = {scored.candidate.key for scored in pool}
        previous = self._store.previous_passages([scored.candidate.key for scored in best])
        context = self._with_terms(
            [ScoredCandidate(candidate) for candidate in previous if candidate.key not in keys]
        )
        self._set_cosines(context, {})
        return context

    def candidates(self, keys: Sequence[int]) -> list[Candidate]:
        return self._store.candidates(keys, self._filter)

    def is_in_pool(self, key: int) -> bool:
        return key in self._pool_keys

    @property
    def pool_size(self) -> int:
        return len(self._pool_keys)

    def beyond_pool(self) -> Iterator[Candidate]:
        """Matches that were not ranked, in the order of the text engine."""
        keys_before = set(self._pool_keys)
        limit = self._arm_size + len(keys_before)
        while self.node is not None:
            matches = self.text_matches(limit)
            keys = [key for key in matches if key not in keys_before]
            keys_before.update(keys)
            for start in range(0, len(keys), _CANDIDATES_AT_ONCE):
                yield from self._in_order(keys[start : start + _CANDIDATES_AT_ONCE])
            if len(matches) < limit or limit > LIMITS.page_offset:
                return
            limit *= 4

    def _in_order(self, keys: Sequence[int]) -> list[Candidate]:
        candidates = {candidate.key: candidate for candidate in self.candidates(keys)}
        return [candidates[key] for key in keys if key in candidates]

    # -- ranking ---

    def ranking(self) -> list[ScoredCandidate]:
        """The candidates, best first, each text once."""
        if self._ranking is None:
            self._ranking = self._rank()
        return self._ranking

    @property
    def pool_characters(self) -> int:
        return sum(len(scored.candidate.content) for scored in self.ranking())

    def _rank(self) -> list[ScoredCandidate]:
        pool = self._ranked_pool()
        self.require_candidates(pool)
        ranking = self._messages_only(rank.rank(self.question, pool))
        if self._plain:
            own = {number for number, term in enumerate(self._terms) if not term.weak}
            self._all_terms_match = all(own.issubset(s.terms) for s in ranking)
        if self._options.score == "fts":
            ranking = self._order_by_text_score(ranking)
        ranking = merge_copies(ranking)
        if may_rerank(self._options, self.question, ranking):
            self._store.release_snapshot()
            ranking = rerank(self.question, ranking)
        return ranking

    def _ranked_pool(self) -> list[ScoredCandidate]:
        return self.pool()

    def _messages_only(self, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The ranking without what is ranked only for the sake of messages."""
        return list(ranking)

    def _order_by_text_score(self, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The same candidates with the text engine's scores."""
        if self.node is None:
            raise InvalidInput(
                "score: 'fts' needs a search for words. Use it with mode 'text' or 'both'."
            )
        scores = self._store.text_scores(self.node, [s.candidate.key for s in ranking])
        rescored = [
            replace(
                s,
                score=scores.get(s.candidate.key, 0.0),
                part_names=(),
                part_values=(),
            )
            for s in ranking
        ]
        return sorted(rescored, key=lambda scored: -scored.score)

    # -- pages ---

    def page(self) -> Page:
        ranking = self.ranking()
        if self._options.group == "conversation":
            return self._page_of_conversations(ranking)
        if self._options.score == "rank":
            ranking = spread(self.question, ranking)
        start, end = self._options.offset, self._options.offset + self._options.limit
        hits = [self.hit(scored) for scored in ranking[start:end]]
        if end > len(ranking) and self._has_more_matches and self.node is not None:
            first = max(start - len(ranking), 0)
            hits += self._hits_beyond_pool(ranking, first, end - max(start, len(ranking)))
        total, is_exact = self._total(len(ranking))
        if self.is_partial:
            total, is_exact = max(total, len(ranking)), False
        page = replace(self.empty_page(), hits=tuple(hits), total=total, exact=is_exact)
        return self._with_nearest(page, ranking)

    def nearest(self) -> list[tuple[Candidate, float]]:
        """Up to three candidates that are the closest in meaning but no hits, and their cosines.

        Only after `pool`, and only if no neighbour is a hit.
        """
        cosines = dict(self._distant)
        candidates = sorted(self.candidates(list(cosines)), key=lambda c: -cosines[c.key])
        distinct: dict[str, Candidate] = {}
        for candidate in candidates:
            distinct.setdefault(fold(candidate.content), candidate)
        first = islice(distinct.values(), NEAREST)
        return [(candidate, round(cosines[candidate.key], 6)) for candidate in first]

    def _with_nearest(self, page: Page, ranking: Sequence[ScoredCandidate]) -> Page:
        """If nothing is a hit, add what is the closest in meaning."""
        if ranking:
            return page
        nearest = [
            self._hit(candidate, cosine, arms=("vector",)) for candidate, cosine in self.nearest()
        ]
        return replace(page, nearest=tuple(nearest))

    def _hits_beyond_pool(
        self, ranking: Sequence[ScoredCandidate], start: int, count: int
    ) -> list[Hit]:
        """Matches that were not ranked follow in the order of the text engine."""
        limit = self._arm_size + self.pool_size + start + count
        keys = [key for key in self.text_matches(limit) if not self.is_in_pool(key)]
        score = self._score_beyond_pool(ranking)
        candidates = self._in_order(keys[start : start + count])
        return [self._hit(candidate, score) for candidate in candidates]

    def _score_beyond_pool(self, ranking: Sequence[ScoredCandidate]) -> float:
        """The score of matches that were not ranked: half of the lowest score."""
        if not ranking:
            return 0.0
        return self.scale.score(ranking[-1].score) / 2

    def _page_of_conversations(self, ranking: Sequence[ScoredCandidate]) -> Page:
        groups: dict[str, list[ScoredCandidate]] = {}
        for scored in ranking:
            groups.setdefault(scored.candidate.document, []).append(scored)
        start, end = self._options.offset, self._options.offset + self._options.limit
        hits = []
        for first, *others in list(groups.values())[start:end]:
            also = tuple(map(self.hit, others[:_MORE_MESSAGES]))
            hits.append(replace(self.hit(first), also=also))
        total = len(groups)
        if end > total and not self.is_exhausted:
            score = self._score_beyond_pool(ranking)
            further = list(islice(self._conversations_beyond_pool(groups), end - total))
            visible = further[max(start - total, 0) :]
            hits += [self._hit(candidate, score) for candidate in visible]
            total += len(further)
        is_exact = self.is_exhausted and not self.is_partial
        page = replace(self.empty_page(), hits=tuple(hits), total=total, exact=is_exact)
        return self._with_nearest(page, ranking)

    def _conversations_beyond_pool(self, groups: Iterable[str]) -> Iterator[Candidate]:
        """The first match of each conversation that has no ranked message."""
        documents = set(groups)
        for candidate in self.beyond_pool():
            if candidate.document not in documents:
                documents.add(candidate.document)
                yield candidate

    def _total(self, ranking_size: int) -> tuple[int, bool]:
        """How many messages match, and whether that is exact or a minimum."""
        if self.node is None:
            return ranking_size, False
        total, is_exact = self.count()
        if self._vector is not None and self._plain:
            return max(total, ranking_size), False
        return total, is_exact

    def empty_page(self) -> Page:
        """The page without its hits."""
        mode = self._options.mode
        if mode == "both" and self._vector is None:
            mode = "text"
        matched = "any"
        if self._query.literal:
            matched = "literal"
        elif self._all_terms_match:
            matched = "all"
        embedded = 0.0
        if self._space is not None:
            embedded = min(self._space.last_key / max(self._store.size(), 1), 1.0)
        notes = [*self._remarks(), self._note]
        is_weak = self._ranking is not None and self.assessment.is_weak
        if is_weak:
            notes.append(UNRELATED)
        if self.is_partial:
            notes.append(NOTE)
        return Page(
            hits=(),
            total=0,
            offset=self._options.offset,
            limit=self._options.limit,
            matched=matched,
            partial=self.is_partial,
            weak=is_weak,
            score_type=self._options.score,
            mode=mode,
            embedded=round(embedded, 4),
            note=" ".join(filter(None, notes)),
            missing=self.missing_words,
            corrections=self.corrections,
        )

    def _hit(self, candidate: Candidate, score: float, **reasons: Any) -> Hit:
        length = self._options.snippet_length
        return make_hit(candidate, self.words, score, length, **reasons)

    def hit(self, scored: ScoredCandidate) -> Hit:
        score = self.scale.score(scored.score)
        share = 0.0
        if scored.score > 0:
            share = score / scored.score
        return self._hit(
            scored.candidate,
            score,
            arms=scored.arms,
            terms=tuple(self._terms[number].name for number in scored.terms),
            parts={name: round(value * share, 4) for name, value in scored.parts.items()},
            copies=scored.copies,
        )


def _batches(candidates: Iterable[ScoredCandidate]) -> Iterator[list[ScoredCandidate]]:
    """Candidates in batches of limited length."""
    batch: list[ScoredCandidate] = []
    characters = 0
    longest = LIMITS.ranked_characters
    for scored in candidates:
        batch.append(scored)
        characters += min(len(scored.candidate.content), longest)
        if characters > _CHARACTERS_AT_ONCE:
            yield batch
            batch = []
            characters = 0
    if batch:
        yield batch
