"""What the user should know about a search: corrections, words and names that nothing has."""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import islice
from typing import Any

from recollect.errors import SearchTimeout
from recollect.language.queries.query_tokens import ROLES
from recollect.language.symbols import symbol_name
from recollect.language.text import is_unspaced, printable_line, tokens, truncate
from recollect.language.when import period_words
from recollect.language.words import as_written, closest, join_pairs
from recollect.model.audience import HUMAN_ONLY
from recollect.model.kinds import CONVERSATION, KINDS, MEDIA, OBSERVATION
from recollect.model.names import project_name
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


def remarks(
    interpretation: Interpretation,
    store: PartialStore,
    ranking: Sequence[ScoredCandidate],
    missing: Sequence[str],
    subject: str,
    *,
    is_weak: bool,
) -> list[str]:
    """The remarks on a search. `missing` and `subject`: what `subject` mentions none of."""
    remarks = [interpretation.query.note]
    for typo, word in interpretation.corrections.items():
        (typed,) = as_typed([typo], interpretation.query.rest)
        word = as_written(word, best_texts(ranking))
        remarks.append(f"Searched for “{word}” instead of “{typed}”.")
    if missing:
        words = " or ".join(f"“{word}”" for word in missing)
        remarks.append(f"{subject} mentions {words}.")
    remarks.append(interpretation.meaning.problem)
    if is_weak:
        remarks.append(UNRELATED)
    if store.deadline.was_missed:
        remarks.append(NOTE)
    return [remark for remark in remarks if remark]


def best_texts(ranking: Sequence[ScoredCandidate]) -> list[str]:
    """The titles and texts of the best hits, unless they are masked."""
    texts = []
    for scored in ranking[:_BEST]:
        candidate = scored.candidate
        texts += [candidate.title] + [candidate.content] * (candidate.visibility != HUMAN_ONLY)
    return texts


def missing_words(
    interpretation: Interpretation,
    store: PartialStore,
    ranking: Sequence[ScoredCandidate],
    kinds: Sequence[str],
) -> tuple[str, ...]:
    """The words of a query that nothing of these kinds contains, with their accents.

    An identifier such as `ERR_AUTH` is named as it was typed, without its parts. The words for a
    time are not named, unless there are no others. No kinds mean all of them.
    """
    text, plain = interpretation.query.rest, interpretation.is_plain
    kinds = () if set(kinds).issuperset(KINDS) else tuple(dict.fromkeys(kinds))
    absent = [
        form_name(term.forms[0]) + ("*" if term.prefix and not plain else "")
        for number, term in enumerate(interpretation.terms)
        if not term.weak and is_missing(number, term, store, ranking, kinds)
    ]
    if not plain or not absent:
        return as_typed(absent, text)
    ignored = set(period_words(text))
    if all(term.name in ignored for term in interpretation.own_terms):
        ignored = set()
    # The word that the user is still typing, and its last part, if it is too short to be known.
    unfinished = unfinished_word(text) if interpretation.options.typing else ""
    parts = tokens(unfinished)
    if parts and is_too_short(unfinished) and not any(map(is_unspaced, parts)):
        ignored |= {form_name(parts), parts[-1]}
    # The parts of identifiers that messages have, perhaps without underscores.
    exact = [term for term in interpretation.terms if term.exact and term.frequency]
    ignored |= {word for term in exact for word in term.forms[0]}
    return as_typed(join_pairs([name for name in absent if name not in ignored], text), text)


def is_missing(
    number: int,
    term: Term,
    store: PartialStore,
    ranking: Sequence[ScoredCandidate],
    kinds: tuple[str, ...],
) -> bool:
    """Whether nothing that is searched contains a term, nor is by an author with that name."""
    if any(number in scored.metadata_terms for scored in ranking):
        return False
    if not term.frequency or not kinds:
        return not term.frequency
    if any(number in scored.terms or number in scored.title_terms for scored in ranking):
        return False
    # Ordinary searches do not see observations.
    filter = Filter(kinds=kinds, hidden=OBSERVATION in kinds)
    if store.has_match(term.node, filter) or store.match(term.node, filter, 1):
        return False  # perhaps a message with a mask
    return not store.deadline.was_missed


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
_FIELDS = {
    "projects": ("is in a project named", "Projects"),
    "sources": ("is from a source named", "Sources"),
    "tags": ("has the tag", "Tags"),
    "authors": ("is by an author named", "Authors"),
    "senders": ("is by an author named", "Authors"),
    "roles": ("has the role", "Roles"),
    "conversations": ("is in a conversation with the id", ""),
    "models": ("is in a conversation with a model named", "Models"),
}
"""The fields of a filter that have names: what is between a message and the name in a sentence, and
the heading of the names that exist."""


def names_in_library(store: Store, heading: str, kinds: Sequence[str]) -> Sequence[str]:
    """The names of a field in the library, the most frequent first."""
    if heading == "Authors":
        return store.authors(MOST_AUTHORS)
    if heading == "Roles":
        return list(ROLES)
    if heading == "Models":
        return [name for name, _ in store.activity().models]
    if not heading:  # there are too many conversations to list some
        return ()
    return [name for name, _ in store.facet_names(heading.lower(), kinds=kinds)]


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
    remarks = [note]
    try:
        for field, (relation, heading) in _FIELDS.items():
            values = {getattr(filter, field) for filter in filters}
            names = [name for name in values.pop() if name != NO_NAME] if len(values) == 1 else []
            if not names or _exists(store, kinds, field, *names):
                continue
            quoted_names = " or ".join(f"“{_label(name)}”" for name in names[:_MOST_SHOWN])
            remarks.append(f"{subject_of(kinds, subject)} {relation} {quoted_names}.")
            by_label: dict[str, list[str]] = {}
            for name in names_in_library(store, heading, kinds):
                by_label.setdefault(project_name(name), []).append(name)
            similar = [n for label in closest(names[0], by_label) for n in by_label[label]]
            checked = similar[:_MOST_CHECKED]
            existing = (_label(name) for name in checked if _exists(store, kinds, field, name))
            shown = ", ".join(islice(existing, _MOST_SHOWN))
            if shown:
                remarks[-1] += f" {heading}: {shown}."
    except SearchTimeout:  # the search itself is complete
        return note
    for each in filters:
        after, before = each.after, each.before
        if after is not None and before is not None and after > before:
            remarks.append(f"Nothing is both after {after.date()} and before {before.date()}.")
    return " ".join(dict.fromkeys(filter(None, remarks)))


def _exists(store: Store, kinds: tuple[str, ...], field: str, *names: str) -> bool:
    restriction: dict[str, Any] = {field: names}
    named = Filter(kinds=kinds, hidden=True, **restriction)
    return bool(store.newest(named, 1, counted=False).candidates)


def _label(name: str) -> str:
    return truncate(printable_line(name), _LONGEST_NAME)
