"""What the user should know about a search: corrections, words and names that nothing has."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from recollect.errors import SearchTimeout
from recollect.language.queries.query_tokens import ROLES
from recollect.language.symbols import symbol_name
from recollect.language.text import is_unspaced, printable_line, tokens, truncate
from recollect.language.when import period_words
from recollect.language.words import as_written, closest, join_pairs
from recollect.model.audience import HUMAN_ONLY
from recollect.model.kinds import CONVERSATION, KINDS, MEDIA, OBSERVATION
from recollect.model.projects import project_name
from recollect.model.search import Filter
from recollect.search.deadline import NOTE, PartialStore
from recollect.search.evidence import UNRELATED
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.query_filter import MOST_AUTHORS, NO_NAME
from recollect.search.queries.query_terms import is_too_short, unfinished_word
from recollect.search.queries.terms import Term, form_name
from recollect.store.base import Store

_BEST = 5  # hits that are read for the spelling of a word
_EDGES = string.punctuation + "“”‘’„«»…¿¡"
_SUBJECTS = {CONVERSATION: "No message", MEDIA: "No media item"}
"""What a remark calls the results of a kind; otherwise, by the name of the kind."""


def subject_of(kinds: Sequence[str], all_kinds: str = "No message") -> str:
    """The subject of a remark on a search in these kinds; no kinds mean all of them.

    `all_kinds` is the subject if all kinds are searched.
    """
    if not kinds or set(kinds).issuperset(KINDS):
        return all_kinds
    if len(set(kinds)) == 1:
        return _SUBJECTS.get(kinds[0], f"No {kinds[0]}")
    return "Nothing"


class Remarks:
    """The remarks on one search."""

    def __init__(
        self,
        interpretation: Interpretation,
        store: PartialStore,
        ranking: Sequence[ScoredCandidate] = (),
        kinds: Sequence[str] = (),
        subject: str = "No message",
    ) -> None:
        """`kinds`: words that only other kinds contain are missing; no kinds mean all of them.

        If all kinds are searched, `subject` is that of the remark on missing words.
        """
        self._interpretation = interpretation
        self._store = store
        self._ranking = ranking
        self._kinds = () if set(kinds).issuperset(KINDS) else tuple(dict.fromkeys(kinds))
        self._subject = subject_of(kinds, subject)

    def remarks(self, *, is_weak: bool = False) -> list[str]:
        """The remarks as a list. `is_weak`: the hits are probably unrelated."""
        interpretation = self._interpretation
        remarks = [interpretation.query.note]
        for typo, word in interpretation.corrections.items():
            (typed,) = as_typed([typo], interpretation.query.rest)
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
        text, plain = interpretation.query.rest, interpretation.is_plain
        absent = [
            form_name(term.forms[0]) + ("*" if term.prefix and not plain else "")
            for number, term in enumerate(interpretation.terms)
            if not term.weak and self._is_missing(number, term)
        ]
        if not plain:
            return as_typed(absent, text)
        ignored = set(period_words(text))
        if all(term.name in ignored for term in interpretation.own_terms):
            ignored = set()
        ignored |= self._unfinished_names()
        # The parts of identifiers that messages have, perhaps without underscores.
        exact = [term for term in interpretation.terms if term.exact and term.frequency]
        ignored |= {word for term in exact for word in term.forms[0]}
        return as_typed(join_pairs([name for name in absent if name not in ignored], text), text)

    def _best_texts(self) -> list[str]:
        """The titles and texts of the best hits, unless they are masked."""
        best = [scored.candidate for scored in self._ranking[:_BEST]]
        return [
            text
            for candidate in best
            for text in (candidate.title, candidate.content)
            if text is candidate.title or candidate.visibility != HUMAN_ONLY
        ]

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


def as_typed(names: Sequence[str], text: str) -> tuple[str, ...]:
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


# -- names in a filter that nothing has, such as the project of `in:nope` ---

_MOST_SHOWN = 3
_MOST_CHECKED = 10
"""The most names that are looked up in order to show some of them."""
_LONGEST_NAME = 80


class _NameField(NamedTuple):
    """A field of a filter that has names."""

    field: str
    relation: str
    """What is between a message and the name in a sentence."""
    heading: str
    names: Callable[[Store, Sequence[str]], Sequence[str]]
    """The names in the library, the most frequent first."""


def facet_names(facet: str) -> Callable[[Store, Sequence[str]], Sequence[str]]:
    return lambda store, kinds: [name for name, _ in store.facet_names(facet, kinds=kinds)]


def authors(store: Store, kinds: Sequence[str]) -> Sequence[str]:
    return store.authors(MOST_AUTHORS)


_FIELDS = (
    _NameField("projects", "is in a project named", "Projects", facet_names("projects")),
    _NameField("sources", "is from a source named", "Sources", facet_names("sources")),
    _NameField("tags", "has the tag", "Tags", facet_names("tags")),
    _NameField("authors", "is by an author named", "Authors", authors),
    _NameField("senders", "is by an author named", "Authors", authors),
    _NameField("roles", "has the role", "Roles", lambda store, kinds: list(ROLES)),
    # There are too many conversations to list some.
    _NameField("conversations", "is in a conversation with the id", "", lambda store, kinds: ()),
    _NameField(
        "models",
        "is in a conversation with a model named",
        "Models",
        lambda store, kinds: [name for name, _ in store.activity().models],
    ),
)


def note_unknown_names(
    note: str, store: Store, *filters: Filter, subject: str = "No message"
) -> str:
    """The note of a search without hits, with the names that nothing has and some that exist.

    A name exists if the reader can find a message with it. So agents learn neither the names in
    messages that only people may see, nor those of kinds that are not searched. If there are
    several filters, a field must be the same in all of them. Otherwise, it is not why there are no
    hits. `subject` is that of a search in all kinds.
    """
    kinds = tuple(dict.fromkeys(kind for filter in filters for kind in filter.kinds or KINDS))
    subject = subject_of(kinds, subject)
    remarks = [note]
    try:
        for field in _FIELDS:
            all_names = {getattr(filter, field.field) for filter in filters}
            if len(all_names) == 1:
                names = [name for name in all_names.pop() if name != NO_NAME]
                remarks.append(remark_on_names(store, kinds, subject, field, names))
    except SearchTimeout:  # the search itself is complete
        return note
    for each in filters:
        after, before = each.after, each.before
        if after is not None and before is not None and after > before:
            remarks.append(f"Nothing is both after {after.date()} and before {before.date()}.")
    return " ".join(dict.fromkeys(filter(None, remarks)))


def remark_on_names(
    store: Store, kinds: tuple[str, ...], subject: str, field: _NameField, names: Sequence[str]
) -> str:
    """The remark on the names of a field; empty if anything has one of them."""

    def exists(*names: str) -> bool:
        restriction: dict[str, Any] = {field.field: names}
        return bool(store.recent(None, Filter(kinds=kinds, hidden=True, **restriction), 1))

    if not names or exists(*names):
        return ""
    quoted_names = [f"“{_label(name)}”" for name in names[:_MOST_SHOWN]]
    remark = f"{subject} {field.relation} {' or '.join(quoted_names)}."
    by_label: dict[str, list[str]] = {}
    for each in field.names(store, kinds):
        by_label.setdefault(project_name(each), []).append(each)
    similar_first = [each for label in closest(names[0], by_label) for each in by_label[label]]
    existing = (_label(each) for each in similar_first[:_MOST_CHECKED] if exists(each))
    shown = list(islice(existing, _MOST_SHOWN))
    if shown:
        remark += f" {field.heading}: {', '.join(shown)}."
    return remark


def _label(name: str) -> str:
    return truncate(printable_line(name), _LONGEST_NAME)
