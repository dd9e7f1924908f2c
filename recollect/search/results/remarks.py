"""What the user should know about a search: corrections, words that occur nowhere, and so on."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from functools import cached_property

from recollect.language.symbol_names import symbol_name
from recollect.language.text import is_unspaced, tokens
from recollect.language.when import period_words
from recollect.language.words import as_written, join_pairs
from recollect.model.audience import HUMAN_ONLY
from recollect.model.kinds import KINDS, OBSERVATION
from recollect.model.search import Filter
from recollect.search.candidates.deadline import NOTE
from recollect.search.candidates.partial_store import PartialStore
from recollect.search.evidence import UNRELATED
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.terms import Term, form_name
from recollect.search.queries.topics import is_too_short, unfinished_word
from recollect.search.results.subjects import subject_of

_BEST = 5  # hits that are read for the spelling of a word
_EDGES = string.punctuation + "“”‘’„«»…¿¡"


class Remarks:
    """The remarks on one search."""

    def __init__(
        self,
        interpretation: Interpretation,
        store: PartialStore,
        ranking: Sequence[ScoredCandidate] = (),
        *,
        kinds: Sequence[str] = (),
        subject: str = "No message",
    ) -> None:
        """`kinds`: words that only other kinds contain are missing; no kinds mean all of them.

        If all kinds are searched, `subject` is that of the remark on missing words.
        """
        self._interpretation = interpretation
        self._store = store
        self._ranking = ranking
        self._kinds: tuple[str, ...] = ()
        if not set(kinds).issuperset(KINDS):
            self._kinds = tuple(kinds)
        self._subject = subject_of(kinds, subject)

    def note(self, *, is_weak: bool = False) -> str:
        """The remarks as one text. `is_weak`: the hits are probably unrelated."""
        return " ".join(self.remarks(is_weak=is_weak))

    def remarks(self, *, is_weak: bool = False) -> list[str]:
        """The remarks as a list. `is_weak`: the hits are probably unrelated."""
        interpretation = self._interpretation
        remarks = [interpretation.query.note]
        for typo, word in interpretation.corrections.items():
            (typed,) = _as_typed([typo], interpretation.query.rest)
            word = as_written(word, self._best_texts())
            remarks.append(f"Searched for “{word}” instead of “{typed}”.")
        missing = [f"“{word}”" for word in self.missing_words]
        if missing:
            remarks.append(f"{self._subject} mentions {' or '.join(missing)}.")
        remarks.append(interpretation.meaning.problem)
        if is_weak:
            remarks.append(UNRELATED)
        if self._store.deadline.was_missed:
            remarks.append(NOTE)
        return [remark for remark in remarks if remark]

    @cached_property
    def missing_words(self) -> tuple[str, ...]:
        """The words of a query that no message contains, with their accents.

        An identifier such as `ERR_AUTH` is named as it was typed, without its parts. The words for
        a time are not named, unless there are no others.
        """
        interpretation = self._interpretation
        text = interpretation.query.rest
        if not interpretation.is_plain:
            return _as_typed(self._absent_names(), text)
        times = period_words(text)
        if all(term.name in times for term in interpretation.own_terms):
            times = frozenset()
        ignored_names = times | self._unfinished_names() | self._parts_of_identifiers()
        names = [name for name in self._absent_names() if name not in ignored_names]
        return _as_typed(join_pairs(names, text), text)

    def _best_texts(self) -> Iterator[str]:
        """The titles and texts of the best hits, unless they are masked."""
        for scored in self._ranking[:_BEST]:
            yield scored.candidate.title
            if scored.candidate.visibility != HUMAN_ONLY:
                yield scored.candidate.content

    def _absent_names(self) -> list[str]:
        names = []
        for number, term in enumerate(self._interpretation.terms):
            if not term.weak and self._is_missing(number, term):
                star = "*" if term.prefix and not self._interpretation.is_plain else ""
                names.append(form_name(term.forms[0]) + star)
        return names

    def _parts_of_identifiers(self) -> set[str]:
        """The parts of identifiers that messages have, perhaps without underscores."""
        terms = self._interpretation.terms
        return {word for term in terms if term.exact and term.frequency for word in term.forms[0]}

    def _unfinished_names(self) -> set[str]:
        """The names of the word that the user is still typing, if it is too short to be known.

        These are the name of the whole word, and that of its last part.
        """
        if not self._interpretation.options.typing:
            return set()
        unfinished = unfinished_word(self._interpretation.query.rest)
        parts = tokens(unfinished)
        if not is_too_short(unfinished) or any(map(is_unspaced, parts)):
            return set()
        return {form_name(parts), *parts[-1:]}

    def _is_missing(self, number: int, term: Term) -> bool:
        """Whether nothing that is searched contains a term, nor is by an author with that name."""
        if any(number in scored.metadata_terms for scored in self._ranking):
            return False
        if not term.frequency or not self._kinds:
            return not term.frequency
        if any(number in scored.terms or number in scored.title_terms for scored in self._ranking):
            return False
        is_hidden = OBSERVATION in self._kinds  # ordinary searches do not see observations
        kinds = Filter(kinds=self._kinds, hidden=is_hidden)
        has_match = self._store.has_match(term.node, kinds)
        if has_match or self._store.match(term.node, kinds, 1):  # perhaps a message with a mask
            return False
        return not self._store.deadline.was_missed


def _as_typed(names: Sequence[str], text: str) -> tuple[str, ...]:
    """The names of terms as the user typed them, without the parts of identifiers among them."""
    if not names:
        return ()
    typed_words = {}
    parts_of_identifiers: set[str] = set()
    for word in text.split():
        parts = tokens(word)
        name = form_name(parts)
        if name not in names:
            continue
        if len(parts) > 1:
            typed_words[name] = word.strip(_EDGES)
            parts_of_identifiers.update(parts)
        elif symbol_name(parts[0]):
            typed_words[name] = word.strip("\"'.,;:!?()")
        else:
            typed_words[name] = word.strip(_EDGES).lower()
    return tuple(typed_words.get(name, name) for name in names if name not in parts_of_identifiers)
