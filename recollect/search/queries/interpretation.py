"""What a search looks for: the terms of a query, their corrections and its vector.

Also what it says about words that occur nowhere.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from recollect.errors import InvalidInput, RecollectError
from recollect.index.meaning import Meaning
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, classify
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import And, Node, Word
from recollect.language.text import tokens
from recollect.language.when import period_words, windows
from recollect.model.kinds import CONVERSATION, KINDS, MEDIA
from recollect.model.search import Filter, SearchOptions
from recollect.models.embeddings import is_remote
from recollect.search.deadline import Deadline
from recollect.search.partial_store import PartialStore
from recollect.search.queries.correction import correct_terms
from recollect.search.queries.terms import (
    Term,
    any_term,
    form_name,
    identifier_node,
    may_correct,
    own_terms,
    query_terms,
    term_plan,
)
from recollect.search.ranking.scored import Question, ScoredCandidate
from recollect.store.base import Store
from recollect.store.values import Space, TermPlan

_EDGES = string.punctuation + "“”‘’„«»…¿¡"
_PASSAGES = {CONVERSATION: "message", MEDIA: "media item"}
"""What a remark calls the results of a kind; otherwise, by the name of the kind."""


class Interpretation:
    """What one search looks for, and in which store."""

    _ranking: list[ScoredCandidate] | None = None

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
        self._whole_store: Store = store
        """The same in copies of this search whose `_store` finds only titles, or only texts."""
        self._meaning = meaning
        self._filter = filter
        self.absence = "No message"
        """The subject of the remark on words that occur nowhere."""
        self._kinds: tuple[str, ...] = ()
        self.search_only(filter.kinds)
        self._options = options
        self._query = query
        self._plain = query.plain
        self._every_term = every_term
        self._space: Space | None = None
        self._vector: Any = None
        self._note = ""
        self._terms = query_terms(query, store, options.typing)
        self.corrections: dict[str, str] = {}
        if may_correct(query, options):
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
            intent=self._intent,
            phrase=self._typed_phrase(),
        )
        if options.mode != "text":
            self._embed_query(self._text_to_embed())

    def search_only(self, kinds: Sequence[str]) -> None:
        """Words that only other kinds contain are missing; no kinds mean all of them."""
        if not kinds or not set(kinds) < set(KINDS):
            return
        self._kinds = tuple(kinds)
        self.absence = "Nothing"
        if len(kinds) == 1:
            self.absence = f"No {_PASSAGES.get(kinds[0], kinds[0])}"

    @cached_property
    def term_plan(self) -> TermPlan:
        with_kinds = self._options.observations or bool(self._filter.kinds)
        return term_plan(self._query, self._options, self._meaning, with_kinds)

    @cached_property
    def words(self) -> list[Word]:
        """The words to highlight, in all their forms."""
        return [word for term in self._terms for word in term.words]

    @cached_property
    def _term_names(self) -> list[str]:
        return [term.name for term in self._terms]

    @cached_property
    def _intent(self) -> str:
        """Operators are not questions."""
        if not self._plain:
            return KEYWORDS
        return classify(self._query.rest)

    def _typed_phrase(self) -> Term | None:
        """The words of a query of keywords, next to each other."""
        if self._intent != KEYWORDS:
            return None
        typed = tuple(self.corrections.get(word, word) for word in tokens(self._query.rest))
        if len(typed) < 2:
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
        if self._intent == IDENTIFIER:
            return identifier_node(self._terms)
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

    @cached_property
    def missing_words(self) -> tuple[str, ...]:
        """The words of a plain query that no message contains, with their accents.

        An identifier such as `ERR_AUTH` is named as it was typed, without its parts. The words for
        a time are not named, unless there are no others.
        """
        if not self._plain:
            return ()
        times = period_words(self._query.rest)
        if all(term.name in times for term in self._own_terms):
            times = frozenset()
        absent = [
            term.name
            for number, term in enumerate(self._terms)
            if not term.weak and self._is_missing(number, term)
        ]
        names = [name for name in absent if name not in times]
        if not names:
            return ()
        typed_words = {}
        parts_of_identifiers: set[str] = set()
        for word in self._query.rest.split():
            parts = tokens(word)
            name = form_name(parts)
            if name not in names:
                continue
            typed_words[name] = word.strip(_EDGES)
            if len(parts) > 1:
                parts_of_identifiers.update(parts)
            else:
                typed_words[name] = typed_words[name].lower()
        return tuple(
            typed_words.get(name, name) for name in names if name not in parts_of_identifiers
        )

    def _is_missing(self, number: int, term: Term) -> bool:
        """Whether nothing that is searched contains a term."""
        if not term.frequency or not self._kinds:
            return not term.frequency
        ranking = self._ranking or ()
        if any(number in scored.terms or number in scored.title_terms for scored in ranking):
            return False
        has_match = self._whole_store.has_match(term.node, Filter(kinds=self._kinds))
        return not has_match and not self.is_partial

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

    def _means_most_of_the_query(self) -> bool:
        """Whether the words with a meaning are at least half of the query, by weight.

        Otherwise its vector is that of words such as "which" and "use".
        """
        own = self._own_terms
        with_meaning = sum(term.weight for term in own if self._has_meaning(term))
        return 2 * with_meaning >= sum(term.weight for term in own)

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
