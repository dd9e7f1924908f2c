"""Searching a store: read the query, gather from each arm, rank, show. It never opens a database itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any

from recollect.errors import InvalidInput, RecollectError
from recollect.index.meaning import Meaning
from recollect.language.query import (
    And,
    MalformedQuery,
    Node,
    Query,
    Word,
    all_words,
    parse_fts5,
    parse_query,
    words,
)
from recollect.language.text import fold, has_token, tokens
from recollect.language.when import windows
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search import rank
from recollect.search.rank import WEIGHTS, Found, Question, Ranked
from recollect.search.snippet import excerpt, snippet
from recollect.search.terms import Term, any_term, terms_of
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.sql.matching import matches
from recollect.store.values import Candidate, Space

POOL = 150  # candidates that words give the ranker
NEAREST = 150  # and meaning
_COMMON = math.log(1 + 0.9 / 0.1)  # the weight of a word in a tenth of all messages
_OPERATORS = re.compile(r"(?<![^\s(])(?:AND|OR|NOT|NEAR)\b|\*")
_NEAR = 0.3  # what is less than so much as near as the nearest is not near
_READ = 100  # passages at once, of those beyond
_AROUND = 64  # candidates for which it is looked at what they reply to
_TELLING = 12  # words of a message by which others like it are found
_ALSO = 2  # further messages of a conversation that are shown
_TOP = sum(
    w for name, w in WEIGHTS.items() if w > 0 and name not in ("time", "speaker")
)  # a perfect hit


def search(store: Store, meaning: Meaning, text: str, filter: Filter, wish: SearchOptions) -> Page:
    """The page of hits for what was typed.

    Operators, quotes and fields are promises: every hit keeps them. Plain words
    are a question: what has any of them, or is near in meaning, is ranked; so
    are words and "phrases" that no message has all of, and the page says so. A
    query whose operators do not fit together is taken literally, and the page says so.
    """
    query = parse_query(text)
    filter = narrowed(filter, query)
    if query.node is None or not any(has_token(w.text) for w in words(query.node)):
        return _without_words(store, query, filter, wish)
    if only_signs(query) and not store.match(query.node, filter, 1):
        query = replace(query, plain=True)  # no message has it all
    return Search(store, meaning, query, filter, wish).page()


def search_all(
    store: Store, meaning: Meaning, concepts: Sequence[str], filter: Filter, wish: SearchOptions
) -> Page:
    """Conversations that have every one of several concepts, those that have them best first."""
    if not 2 <= len(concepts) <= LIMITS.concepts:
        raise InvalidInput(
            f"Give 2 to {LIMITS.concepts} concepts, or one text; not {len(concepts)}."
        )
    searches = []
    for concept in concepts:
        query = parse_query(concept)
        if query.node is None or not any(has_token(w.text) for w in words(query.node)):
            raise InvalidInput(f"The concept {concept!r} has no word to look for.")
        searches.append(Search(store, meaning, query, narrowed(filter, query), wish, every=True))
    searches.sort(key=Search.size)  # what is found for the rarest leaves the least to look through
    found: list[dict[str, Ranked]] = []
    for one in searches:
        if found:
            one.within(found[-1])
        best: dict[str, Ranked] = {}
        for ranked in one.ranked():
            best.setdefault(ranked.found.candidate.document, ranked)
        found = [{d: r for d, r in each.items() if d in best} for each in found]
        found.append(best)
    scores = {d: sum(each[d].score for each in found) / len(found) for d in found[-1]}
    order = sorted(scores, key=lambda d: (-scores[d], d))
    hits = []
    for document in order[wish.offset : wish.offset + wish.limit]:
        each = [one.hit(best[document]) for one, best in zip(searches, found, strict=True)]
        first = max(each, key=lambda h: h.score)
        rest = tuple(h for h in each if h.message_id != first.message_id)
        hits.append(replace(first, score=scaled(scores[document]), also=rest))
    exact = all(one.exhausted for one in searches)
    return replace(
        searches[-1].described(),
        hits=tuple(hits),
        total=len(order),
        offset=wish.offset,
        limit=wish.limit,
        exact=exact,
        matched="all",
    )


def exact(store: Store, text: str, filter: Filter, limit: int) -> Page:
    """Messages whose contents match an expression of FTS5's language, in the order of the text engine.

    Titles are indexed with the message that opens their conversation, so what a title alone decides
    is put right. Raises MalformedQuery.
    """
    node = parse_fts5(text)
    asked = words(node)
    if not asked or not all(has_token(w.text) for w in asked):
        raise MalformedQuery("The query has no word to look for.")
    limit = max(1, min(limit, LIMITS.page_size))
    gained, lost = _by_title(store, node, filter)
    keys = [k for k in store.match(node, filter, limit + len(gained)) if k not in gained]
    if lost:
        scores = store.text_scores(node, [*keys, *lost])
        keys = sorted([*keys, *lost], key=lambda k: -scores.get(k, 0.0))
    keys = keys[:limit]
    found = {c.key: c for c in store.candidates(keys, filter)}
    read = store.passages_by_key(list(found))
    total, is_exact = store.count(node, filter)
    total += len(lost) - len(gained)
    hits = []
    for place, key in enumerate(keys):
        if key in read:
            shown, marks = excerpt(found[key].content, asked, LIMITS.excerpt_words)
            hit = _shown(found[key], [], 1 / (1 + place))
            hits.append(replace(hit, snippet=shown, marks=marks, metadata=read[key][1].metadata))
    return Page(tuple(hits), max(total, len(hits)), 0, limit, exact=is_exact)


def _by_title(store: Store, node: Node, filter: Filter) -> tuple[set[int], set[int]]:
    """The messages that match only because of the title they carry, and those that fail to only because of it."""
    gained: set[int] = set()
    lost: set[int] = set()
    for opening in store.candidates(store.title_matches(list(all_words(node))), filter):
        with_title, without = (
            matches(node, title, opening.content) for title in (opening.title, "")
        )
        if with_title != without:
            (gained if with_title else lost).add(opening.key)
    return gained, lost


def related(
    store: Store,
    meaning: Meaning,
    conversation: str,
    message: str,
    filter: Filter,
    wish: SearchOptions,
) -> Page:
    """Messages like a given one, in words and in meaning; not the message itself."""
    key = store.passage_key(conversation, message)
    (given,) = store.candidates([key], Filter(hidden=True))
    return _Related(store, meaning, given, filter, wish).page()


def only_signs(query: Query) -> bool:
    """Whether the query would be plain but for quotes and parentheses: a question may hold both."""
    if query.plain or not isinstance(query.node, And):
        return False
    return _words_only(query.node) and not _OPERATORS.search(query.rest)


def _words_only(node: Node) -> bool:
    return isinstance(node, Word) or (type(node) is And and all(map(_words_only, node.parts)))


def narrowed(filter: Filter, query: Query) -> Filter:
    """The filter with the fields of the query: both must hold."""
    f = query.fields
    after = max((t for t in (filter.after, f.after) if t is not None), default=None)
    before = min((t for t in (filter.before, f.before) if t is not None), default=None)
    return replace(
        filter,
        after=after,
        before=before,
        roles=_both(filter.roles, f.roles),
        authors=_both(filter.authors, f.authors),
        projects=_both(filter.projects, f.projects),
        tags=_both(filter.tags, f.tags),
        titles=filter.titles + _starred(f.titles),
        not_roles=filter.not_roles + f.not_roles,
        not_authors=filter.not_authors + f.not_authors,
        not_projects=filter.not_projects + f.not_projects,
        not_tags=filter.not_tags + f.not_tags,
        not_titles=filter.not_titles + _starred(f.not_titles),
    )


def _starred(words: Sequence[Word]) -> tuple[str, ...]:
    return tuple(w.text + "*" * w.prefix for w in words)


def _both(given: tuple[str, ...], typed: tuple[str, ...]) -> tuple[str, ...]:
    if not given or not typed:
        return given or typed
    return tuple(name for name in given if name in typed) or ("\0",)  # nothing is called that


def _without_words(store: Store, query: Query, filter: Filter, wish: SearchOptions) -> Page:
    """A query of signs is looked for as it is, a query of fields alone gives the newest."""
    page = Page((), 0, wish.offset, wish.limit)
    text = query.rest.strip()
    if not text and query.text.strip():
        found, total = store.newest(filter, wish.limit, wish.offset, wish.group == "conversation")
        return replace(page, hits=tuple(_shown(c, [], 0.0) for c in found), total=total)
    if not text:
        return page
    found, total = store.find_substring(text, filter, wish.limit, wish.offset)
    hits = tuple(_shown(c, [Word(text)], 1.0) for c in found)
    return replace(page, hits=hits, total=total, matched="literal")


class Search:
    """One search on its way through the arms and the ranker."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        query: Query,
        filter: Filter,
        wish: SearchOptions,
        every: bool = False,
    ) -> None:
        self._store = store
        self._meaning = meaning
        self._filter = filter
        self._wish = wish
        self._query = query
        self._plain = query.plain
        self._every = every
        self._space: Space | None = None
        self._vector: Any = None
        self._note = ""
        self._all = True
        self._seen: set[int] = set()
        self.exhausted = True
        """Whether the arms had no more than they gave."""
        self._terms = terms_of(query, store)
        self._node = self._asked()
        self._question = Question(
            query.rest, self._judged(), wish.now, windows(query.rest, wish.now)
        )
        if wish.mode != "text":
            self._find_space(query.rest)

    @property
    def question(self) -> Question:
        return self._question

    @property
    def words(self) -> list[Word]:
        """The words that are looked for, in all their forms."""
        return _as_words(self._terms)

    @property
    def node(self) -> Node | None:
        return self._node

    def through(self, filter: Filter, store: Store | None = None) -> Search:
        """The same search for what another filter lets through."""
        other = copy(self)
        other._filter, other._store, other._seen = filter, store or self._store, set()
        return other

    def _judged(self) -> tuple[Term, ...]:
        """The words that the ranker looks for."""
        return () if self._wish.mode == "vector" and self._plain else self._terms

    def _asked(self) -> Node | None:
        """The tree that the text arm looks for; None where meaning alone is asked."""
        if not self._plain:
            return self._query.node
        if self._wish.mode == "vector":
            return None
        if self._every and len(self._terms) > 1:
            return And(tuple(t.node for t in self._terms))
        return any_term(self._terms) if self._terms else None

    def matching(self, limit: int) -> list[int]:
        """What the text arm finds, best first: of a question first what has one of its rarer words,
        for very common ones say little and take long."""
        assert self._node is not None
        rare = [t for t in self._terms if t.frequency and t.weight > _COMMON]
        if not self._plain or isinstance(self._node, And) or not 0 < len(rare) < len(self._terms):
            return self._store.match(self._node, self._filter, limit)
        found = self._store.match(any_term(rare), self._filter, limit)
        if len(found) < limit:
            found += self._store.match(self._node, self._filter, limit)
        return list(dict.fromkeys(found))[:limit]

    def having_all(self, limit: int) -> list[int]:
        """What has every word that is looked for."""
        node = self._node
        if self._plain and len(self._terms) > 1:
            node = And(tuple(t.node for t in self._terms))
        return [] if node is None else self._store.match(node, self._filter, limit)

    def read(self, keys: Sequence[int]) -> list[Candidate]:
        return self._store.candidates(keys, self._filter)

    def gave(self, key: int) -> bool:
        """Whether an arm found this passage."""
        return key in self._seen

    @property
    def given(self) -> int:
        """How many passages the arms gave."""
        return len(self._seen)

    def count(self) -> tuple[int, bool]:
        """How many passages the text arm can find, and whether that is all of them or only at least so many."""
        return (0, True) if self._node is None else self._store.count(self._node, self._filter)

    def size(self) -> int:
        return self.count()[0]

    def within(self, conversations: Iterable[str]) -> None:
        """Look in these conversations only."""
        self._filter = replace(self._filter, conversations=tuple(conversations) or ("",))

    # -- gathering ---

    def _find_space(self, text: str) -> None:
        try:
            self._space = self._meaning.space()
            if self._space is not None:
                self._vector = self._meaning.vector(self._space, text)
        except RecollectError as error:
            self._note = f"Vectors were not used: {error}"
        if self._vector is None and self._wish.mode == "vector":
            raise InvalidInput(
                self._note or "There are no vectors to search in yet. `recollect index` makes them."
            )

    def pool(self) -> list[Found]:
        """What the arms found, with what stands around the best of it."""
        text = [] if self._node is None else self.matching(POOL)
        near = self._nearest()
        self.exhausted = len(text) < POOL and not near
        by_text, by_vector = set(text) - self._seen, {key for key, _ in near} - self._seen
        self._seen |= by_text | by_vector
        candidates = self._store.candidates(list(by_text | by_vector), self._filter)
        pool = {c.key: Found(c, c.key in by_text, c.key in by_vector) for c in candidates}
        self._measure(pool, dict(near))
        best = sorted(pool.values(), key=lambda f: -(f.words + 3 * (f.cosine or 0.0)))[:_AROUND]
        before = self._store.previous_passages([f.candidate.key for f in best])
        around = [Found(c) for c in before if c.key not in pool]
        rank.read(self._question, around)
        return [*pool.values(), *around]

    def _nearest(self) -> list[tuple[int, float]]:
        """Near in meaning. Where the query promises something, meaning only orders what keeps the promise."""
        if self._vector is None or self._space is None or not self._plain:
            return []
        if self._every and self._wish.mode == "both":
            return []  # a concept is there where its words are
        found = self._store.nearest(self._space, self._vector, self._filter, NEAREST)
        return [(key, cosine) for key, cosine in found if cosine >= _NEAR * found[0][1]]

    def _measure(self, pool: Mapping[int, Found], cosines: dict[int, float]) -> None:
        rank.read(self._question, pool.values())
        if self._vector is None or self._space is None:
            return
        cosines |= self._store.cosines(
            self._space, self._vector, [key for key in pool if key not in cosines]
        )
        for key, found in pool.items():
            found.cosine = cosines.get(key)

    # -- ranking ---

    def ranked(self) -> list[Ranked]:
        ranked = rank.rank(self._question, self.pool())
        self._all = not self._plain or all(len(r.found.matched) == len(self._terms) for r in ranked)
        return _folded(self._by_text(ranked) if self._wish.score == "fts" else ranked)

    def _by_text(self, ranked: Sequence[Ranked]) -> list[Ranked]:
        """The same hits in the order of the text engine's scores, each as a share of the best."""
        if self._node is None:
            raise InvalidInput(
                "score: 'fts' is the score of words; it cannot be had of a search by meaning alone."
            )
        scores = self._store.text_scores(self._node, [r.found.candidate.key for r in ranked])
        most = max(scores.values(), default=0.0) or 1.0
        shares = [(scores.get(r.found.candidate.key, 0.0) / most, r) for r in ranked]
        return [
            replace(r, score=share * _TOP, features={})
            for share, r in sorted(shares, key=lambda each: -each[0])
        ]

    # -- showing ---

    def page(self) -> Page:
        ranked = self.ranked()
        if self._wish.group == "conversation":
            return self._by_conversation(ranked)
        start, end = self._wish.offset, self._wish.offset + self._wish.limit
        hits = [self.hit(r) for r in ranked[start:end]]
        if end > len(ranked) and not self.exhausted and self._node is not None:
            hits += self._beyond(ranked, max(start - len(ranked), 0), end - max(start, len(ranked)))
        total, exact = self._total(len(ranked))
        return replace(self.described(), hits=tuple(hits), total=total, exact=exact)

    def _beyond(self, ranked: Sequence[Ranked], start: int, count: int) -> list[Hit]:
        """What the ranker did not look at follows in the order of the index."""
        known = self._seen
        keys = [key for key in self.matching(POOL + len(known) + start + count) if key not in known]
        wanted = keys[start : start + count]
        found = {c.key: c for c in self._store.candidates(wanted, self._filter)}
        lowest = scaled(ranked[-1].score) if ranked else 0.0
        return [self._show(found[key], lowest / 2) for key in wanted if key in found]

    def rest(self) -> Iterator[Candidate]:
        """What the ranker did not look at, in the order of the index."""
        known, asked = set(self._seen), POOL + len(self._seen)
        while self._node is not None:
            keys = self.matching(asked)
            new = [key for key in keys if key not in known]
            known.update(new)
            for at in range(0, len(new), _READ):
                some = new[at : at + _READ]
                found = {c.key: c for c in self._store.candidates(some, self._filter)}
                yield from (found[key] for key in some if key in found)
            if len(keys) < asked or asked > LIMITS.page_offset:
                return
            asked *= 4

    def _by_conversation(self, ranked: Sequence[Ranked]) -> Page:
        groups: dict[str, list[Ranked]] = {}
        for one in ranked:
            groups.setdefault(one.found.candidate.document, []).append(one)
        start, end = self._wish.offset, self._wish.offset + self._wish.limit
        shown = list(groups.values())[start:end]
        hits = [
            replace(self.hit(first), also=tuple(map(self.hit, more[:_ALSO])))
            for first, *more in shown
        ]
        total = len(groups)
        if end > total and not self.exhausted:
            lowest = scaled(ranked[-1].score) if ranked else 0.0
            more_of_them = islice(self._further(groups), end - total)
            beyond = [self._show(candidate, lowest / 2) for candidate in more_of_them]
            total += len(beyond)
            hits += beyond[max(start - len(groups), 0) :]
        return replace(self.described(), hits=tuple(hits), total=total, exact=self.exhausted)

    def _further(self, groups: Iterable[str]) -> Iterator[Candidate]:
        """The first message of each conversation that the ranker did not look at."""
        known = set(groups)
        for candidate in self.rest():
            if candidate.document not in known:
                known.add(candidate.document)
                yield candidate

    def _total(self, ranked: int) -> tuple[int, bool]:
        if self._node is None:
            return ranked, False
        total, exact = self._store.count(self._node, self._filter)
        meant = self._vector is not None and self._plain
        return max(total, ranked) if meant else total, exact and not meant

    def described(self) -> Page:
        """The page without its hits."""
        arms = [
            name
            for name, there in (
                ("text", self._wish.mode != "vector"),
                ("vector", self._vector is not None),
            )
            if there
        ]
        matched = "literal" if self._query.literal else "all" if self._all else "any"
        embedded = 0.0
        if self._space is not None:
            embedded = min(self._space.last_key / max(self._store.size(), 1), 1.0)
        mode = "both" if len(arms) == 2 else arms[0]
        return Page(
            (),
            0,
            self._wish.offset,
            self._wish.limit,
            matched,
            True,
            self._wish.score,
            mode,
            round(embedded, 4),
            self._note,
        )

    def hit(self, ranked: Ranked) -> Hit:
        found = ranked.found
        by_text = found.text or (bool(found.matched) and self._wish.mode != "vector")
        arms = tuple(name for name, there in (("text", by_text), ("vector", found.vector)) if there)
        share = scaled(ranked.score) / ranked.score if ranked.score > 0 else 0.0
        return replace(
            self._show(found.candidate, scaled(ranked.score)),
            arms=arms,
            terms=tuple(self._terms[n].name for n in found.matched),
            parts={name: round(value * share, 4) for name, value in ranked.parts.items()},
            copies=found.copies,
        )

    def _show(self, candidate: Candidate, score: float) -> Hit:
        return _shown(candidate, _as_words(self._terms), score)


class _Related(Search):
    """Messages like a given one."""

    def __init__(
        self, store: Store, meaning: Meaning, given: Candidate, filter: Filter, wish: SearchOptions
    ) -> None:
        self._given = given
        text = " ".join(dict.fromkeys(tokens(given.content)))
        super().__init__(store, meaning, parse_query(_head(text)), filter, wish)
        self._seen.add(given.key)
        shared = [t for t in self._terms if t.frequency > 1]
        self._terms = tuple(sorted(shared, key=lambda t: -t.weight)[:_TELLING])
        self._node = self._asked()
        self._question = Question("", self._judged(), given.created_at or wish.now, asked=False)

    def _find_space(self, text: str) -> None:
        """The message has its vectors already."""
        self._space = self._meaning.space()
        if self._space is not None and (own := self._store.vectors(self._space, self._given.key)):
            total = sum(own[1:], own[0])
            self._vector = total / (total @ total) ** 0.5
            return
        super()._find_space(text)

    def _total(self, ranked: int) -> tuple[int, bool]:
        total, exact = super()._total(ranked)
        itself = self._node is not None and bool(
            self._store.candidates([self._given.key], self._filter)
        )
        return max(total - itself, ranked) if exact else total, exact


def _head(text: str) -> str:
    """As much of a text as a query may have."""
    cut = text.encode()[: LIMITS.query_bytes].decode(errors="ignore")
    return " ".join(cut.split()[: LIMITS.query_terms])


def _folded(ranked: list[Ranked]) -> list[Ranked]:
    """Each text once: the best placed stands for the others."""
    seen: dict[str, Ranked] = {}
    for one in ranked:
        first = seen.setdefault(fold(one.found.candidate.content), one)
        first.found.copies += first is not one
    return list(seen.values())


def scaled(score: float) -> float:
    return min(max(round(score / _TOP, 6), 1e-6), 1.0)


def _as_words(terms: Sequence[Term]) -> list[Word]:
    return [Word(" ".join(form), t.prefix) for t in terms for form in t.forms]


def _shown(found: Candidate, wanted: list[Word], score: float) -> Hit:
    shown, marks = snippet(found.content, wanted)
    return Hit(
        message_id=found.id,
        conversation_id=found.document,
        title=found.title,
        role=found.role,
        author=found.author,
        type=found.type,
        created_at=found.created_at,
        source=found.source,
        kind=found.kind,
        project=found.project,
        position=found.position,
        canonical=found.canonical,
        score=score,
        snippet=shown,
        marks=marks,
        visibility=found.visibility,
    )
