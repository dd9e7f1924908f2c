"""Other forms in which a library has the words of a query.

A message may write what a query says in another way. Each maker in `_MAKERS` proposes forms, mostly
for the terms that the library lacks as they were typed; those that some message has are searched
for as well. The forms that depend on the word alone are in `language.spellings`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise

from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.queries.intent import KEYWORDS, classify, identifiers
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Node, Or, Word
from recollect.language.spellings import Form, has_inner_capital, is_katakana, other_formats
from recollect.language.text import is_unspaced, tokens, transcriptions, with_umlauts
from recollect.model.search import Filter
from recollect.search.queries.terms import WEAK, Term, form_name, weighted, with_more_forms
from recollect.store.base import Store

Forms = dict[Form, list[Form]]
"""More forms for the terms whose first form is a key."""


class _Library:
    """What the makers ask about a library and a query."""

    def __init__(self, store: Store, query: Query, is_english: Callable[[str], bool]) -> None:
        self.store = store
        self.query = query
        self.is_english = is_english

    @cached_property
    def joining_languages(self) -> list[Language]:
        """The languages of a query that join words. Keywords may be in any of the library's."""
        languages = [self.query.language]
        if self.query.language is ENGLISH and classify(self.query.rest) == KEYWORDS:
            languages = languages_of(self.store)
        return [language for language in languages if language.joins_words]

    def has_forms(self, forms: Iterable[Form]) -> list[Form]:
        """Those of some forms that a passage has."""
        forms = list(dict.fromkeys(forms))
        words = self.store.known_words(sorted({word for form in forms for word in form}))
        forms = [form for form in forms if words.issuperset(form)]
        if not forms:
            return []
        frequencies, _ = self.store.frequencies([Word(" ".join(form)) for form in forms])
        return [form for form, frequency in zip(forms, frequencies, strict=True) if frequency]

    def inflected(self, words: Sequence[str], language: Language) -> dict[str, list[str]]:
        """The inflected forms of words that the library has."""
        if not words:
            return {}
        variants = self.store.variants(words, language)
        known = self.store.known_words(sorted({form for forms in variants for form in forms}))
        known = {word for word in known - language.stop_words if len(word) >= _MIN_PART}
        pairs = zip(words, variants, strict=True)
        return {word: [form for form in forms if form in known] for word, forms in pairs}


def with_other_forms(
    terms: list[Term], store: Store, query: Query, is_english: Callable[[str], bool]
) -> tuple[list[Term], list[Term]]:
    """The terms of a plain query with their other forms, and weak terms for parts of them."""
    library = _Library(store, query, is_english)
    forms: Forms = {}
    for make in _MAKERS:
        for form, others in make(terms, library).items():
            forms[form] = [*forms.get(form, ()), *others]
    terms = with_more_forms(terms, forms, store)
    compounds, weak_terms = _compounds(terms, library)
    return with_more_forms(terms, compounds, store), weak_terms


def is_absent(term: Term) -> bool:
    return not term.frequency and not term.prefix


# -- makers of forms ---

_MESSAGES = 20
"""So many of the best matches are read to see how they write a word."""


def umlauts(terms: Sequence[Term], library: _Library) -> Forms:
    """Words that messages write with umlauts, and the reverse: `Mueller` is also Müller.

    The index has no umlauts: Müller is `muller` there, and `blue` could be the Blu of Blu-ray. So
    some messages are read to see how they write the word.
    """
    store = library.store
    typed = transcriptions(library.query.rest)
    forms: Forms = {}
    for term in terms:
        form = term.forms[0]
        if term.exact or len(form) > 1:
            continue
        is_typed = form[0] in typed
        spellings = [typed[form[0]]] if is_typed else with_umlauts(form[0])
        if spellings and not term.prefix:
            variants = store.variants(spellings, library.query.language)
            spellings = sorted(store.known_words(sorted(set().union(*variants))))
        candidates: list[Form] = [(w,) for w in spellings if (w,) not in term.forms]
        if candidates and not is_typed:
            node: Node = Or(tuple(Word(word, term.prefix) for (word,) in candidates))
            written: set[str] = set()
            for message in store.candidates(store.match(node, Filter(), _MESSAGES), Filter()):
                written.update(transcriptions(f"{message.title}\n{message.content}"))
            if term.prefix:
                written = {word[: len(form)] for word in written for (form,) in candidates}
            candidates = [form for form in candidates if form[0] in written]
        forms[form] = candidates
    return forms


def formats(terms: Sequence[Term], library: _Library) -> Forms:
    """Other formats of dates, numbers and names in code."""
    typed = {tuple(tokens(word)): word for word in library.query.rest.split()}
    absent = [term.forms[0] for term in terms if is_absent(term)]
    return {form: other_formats(typed.get(form) or form_name(form)) for form in absent}


_HASH = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{12,64}")
_MIN_HASH = 7
_SCHEME = re.compile(r"\A[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SEPARATOR = re.compile(r"[/\\]+")
_MIN_SEGMENTS = 2  # many files have the same name
_MAX_SEGMENTS = 12


def shorter_identifiers(terms: Sequence[Term], library: _Library) -> Forms:
    """The longest part of each identifier that the library has.

    A path from this computer is longer than the path in a message, a link has a scheme, and a
    commit has 40 digits of which people write seven.
    """
    typed = {tuple(tokens(word)): word for word in identifiers(library.query.rest)}
    forms: Forms = {}
    for term in terms:
        identifier = typed.get(term.forms[0], "")
        if not identifier or not term.exact or not is_absent(term):
            continue
        if _HASH.fullmatch(identifier.lower()):
            sizes = range(len(identifier) - 1, _MIN_HASH - 1, -1)
            parts = [identifier[:size] for size in sizes]
        else:
            path = _SCHEME.sub("", identifier)
            segments = [segment for segment in _SEPARATOR.split(path) if segment]
            first = max(1, len(segments) - _MAX_SEGMENTS)
            starts = range(first, len(segments) - _MIN_SEGMENTS + 1)
            parts = [path, *("/".join(segments[start:]) for start in starts)]
        shorter = [tuple(tokens(part)) for part in parts]
        forms[term.forms[0]] = library.has_forms(form for form in shorter if form)[:1]
    return forms


# With fewer digits, other numbers have the same ones by chance.
_LONG_NUMBER = re.compile(r"(?=(?:[a-z]*[0-9]){7})[a-z]{0,2}[0-9][a-z0-9]{6,33}")
_CODE = re.compile(r"(?=.*[0-9])(?=.*[a-z])[a-z0-9]{3,24}")
_MAX_DIGITS = 8  # of a group
_ISBN_PREFIXES = ("978", "979")
_MOST_SPLITS = 20


def separated_codes(terms: Sequence[Term], library: _Library) -> Forms:
    """Long numbers and codes in other groups.

    01614960723 is also 0161 496 0723, `wh1000xm4` is also WH-1000XM4, and `1xyz789` is 1-XYZ-789.
    """
    all_words = tokens(library.query.rest)
    codes = {tuple(tokens(word)) for word in library.query.rest.split()}
    start = 0
    while start < len(all_words):  # runs of words with digits
        end = start
        while end < len(all_words) and any(map(str.isdigit, all_words[end])):
            end += 1
        codes.add(tuple(all_words[start:end]))
        start = max(end, start + 1)
    frequencies = {term.forms[0]: term.frequency for term in terms}
    forms: Forms = {}
    for words in codes:
        code = "".join(words)
        is_number = _LONG_NUMBER.fullmatch(code) is not None
        if frequencies.get(words) or not (is_number or _CODE.fullmatch(code)):
            continue
        own = [words, *((word,) for word in words)] if is_number else [words]
        own = [form for form in own if form in frequencies]
        if own:
            splits = library.has_forms(_splits(code, library.store))
            forms |= dict.fromkeys(own, splits)
    return forms


def _splits(code: str, store: Store) -> list[Form]:
    """The ways to split a code into words of the library, those with few words first.

    A long number can be split in very many ways, so only some are kept for each of its ends.
    """
    places = range(len(code) + 1)
    parts = {code[i:j]: (i, j) for i in places for j in places[i + 1 :] if may_be_part(code, i, j)}
    words = store.known_words(sorted(parts))
    splits_from: dict[int, list[Form]] = {len(code): [()]}
    for start in range(len(code) - 1, -1, -1):
        splits = [
            (code[start:end], *others)
            for end, rest in splits_from.items()
            if code[start:end] in words and may_be_part(code, start, end)
            for others in rest
        ]
        splits_from[start] = sorted(splits, key=len)[:_MOST_SPLITS]
    return splits_from[0]


def may_be_part(code: str, start: int, end: int) -> bool:
    """Whether a part of a code may stand alone.

    A single digit may be a country code (1 415 555 0132), a check digit, or the second group of an
    ISBN (978-3-16-148410-0). A part with letters touches one end of the code, or begins and ends
    between a letter and a digit. Elsewhere, there are too many ways to split a code.
    """
    at_end = start == 0 or end == len(code)
    if code[2:].isdigit():  # also an IBAN
        size = end - start
        if size == 1:
            return at_end or code[:start] in _ISBN_PREFIXES
        return size <= _MAX_DIGITS or size == len(code)
    return at_end or (is_boundary(code, start) and is_boundary(code, end))


def is_boundary(code: str, place: int) -> bool:
    return code[place - 1].isdigit() != code[place].isdigit()


_MOST_WORDS = 4  # that one word joins
_MIN_LETTERS = 5  # shorter words are often others: "so on" is not "soon"
_MIN_PART = 4  # letters of a part of a compound


def joined_words(terms: Sequence[Term], library: _Library) -> Forms:
    """Words of the library that join several keywords. Each is a form of all of them.

    `AbortController`, `#buildinpublic` and "workout" are one word; whoever looks for them often
    types several.
    """
    if classify(library.query.rest) != KEYWORDS:
        return {}
    all_words = tokens(library.query.rest)
    own_words = {term.name for term in terms}
    joined: dict[str, set[str]] = {}
    for start, first in enumerate(all_words):
        for end in range(start + 2, min(start + _MOST_WORDS, len(all_words)) + 1):
            parts = all_words[start:end]
            own = own_words.intersection(parts)
            if (first in own_words or len(own) > 1) and can_be_one_word(parts):
                for part in own:
                    joined.setdefault(part, set()).add("".join(parts))
    known = library.store.known_words(sorted(set().union(*joined.values()))) if joined else set()
    return {(word,): [(each,) for each in sorted(all_ & known)] for word, all_ in joined.items()}


def can_be_one_word(parts: Sequence[str]) -> bool:
    if sum(map(len, parts)) < _MIN_LETTERS or any(map(is_unspaced, parts)):
        return False
    return not any(one.isdigit() and other.isdigit() for one, other in pairwise(parts))


def compounds_of_neighbours(terms: Sequence[Term], library: _Library) -> Forms:
    """The compounds of the library that two neighbours form, of which it lacks one.

    In any order: the "Kosten" for a "Handwerker" are "Handwerkerkosten".
    """
    compounds: dict[tuple[Form, Form], list[str]] = {}
    for one, other in pairwise(terms):
        pair = (one.name, other.name)
        are_words = all(len(n) >= _MIN_PART and n.isalpha() and not is_unspaced(n) for n in pair)
        if are_words and (is_absent(one) or is_absent(other)):
            compounds[one.forms[0], other.forms[0]] = [
                f"{modifier}{link}{head}"
                for modifier, head in (pair, pair[::-1])
                for link in ("", *linking_elements())
            ]
    spellings = sorted({word for words in compounds.values() for word in words})
    forms: Forms = {}
    for language in library.joining_languages if spellings else ():
        inflected = library.inflected(spellings, language)
        for neighbours, words in compounds.items():
            joined: list[Form] = [(form,) for word in words for form in inflected[word]]
            for form in neighbours:
                forms.setdefault(form, []).extend(joined)
    return forms


def linking_elements() -> list[str]:
    """What may stand between the parts of compounds in any language."""
    return sorted({element for language in LATIN for element in language.linking_elements})


_MIN_IN_LONGER = 5  # letters; shorter words are in too many others
_MIN_ENGLISH_WORD = 3
# Shorter words of a library are often abbreviations or names.
_MIN_LIBRARY_WORD = 5
_MIN_HEAD = 6  # letters of a last part; shorter ones are often the end of another word
_MIN_MODIFIER = 4  # letters before it; shorter ones are often prefixes, as in "Ein-richtung"
_MOST_LONGER = 50


def _longer_words(terms: Sequence[Term], library: _Library) -> Forms:
    """For each word that the library lacks, the longer words that contain it.

    A search for "service" should find `PaymentService`, and a search for "autovac" autovacuum. But
    "companion" has nothing to do with "anion". So a longer word counts only if it begins with the
    word, or if the rest of it consists of words, too. In a language that joins words, it may also
    end with the word: a library seldom has both parts of "Krankenversicherung". Of several words,
    only those count: in other languages, the other words find the messages.
    """
    absent = [term for term in terms if is_absent(term) and len(term.forms[0]) == 1]
    if len(terms) > 1:
        absent = [term for term in absent if not term.exact and term.name.isalpha()]
        if library.query.language is ENGLISH:  # in a library with several languages, it may be
            absent = [term for term in absent if not library.is_english(term.name)]
    words = [term.forms[0][0] for term in absent]
    words = [word for word in words if len(word) >= _MIN_IN_LONGER]
    if not words or (len(terms) > 1 and not library.joining_languages):
        return {}
    longer_words = library.store.words_containing(words)
    is_name = len(terms) == 1 and (absent[0].exact or has_inner_capital(library.query.rest))
    rests = {
        (longer, word): [] if is_name or longer.startswith(word) else longer.split(word)
        for word in words
        for longer in longer_words[word]
    }
    unknown = {
        rest
        for parts in rests.values()
        for rest in parts
        if rest and not rest.isdigit() and not is_long_word(rest, library)
    }
    stems = {rest: without_links(rest) for rest in unknown}
    known = library.store.known_words(sorted(set().union(*stems.values()))) if stems else set()
    unknown = {rest for rest, own in stems.items() if known.isdisjoint(own)}

    def stands_for(word: str, longer: str) -> bool:
        if unknown.isdisjoint(rests[longer, word]):
            return True
        is_head = len(word) >= _MIN_HEAD and longer.isalpha() and longer.endswith(word)
        is_head = is_head and len(longer) >= len(word) + _MIN_MODIFIER
        return is_head and bool(library.joining_languages)

    forms: Forms = {}
    for word in words:
        found = [longer for longer in longer_words[word] if stands_for(word, longer)]
        forms[word,] = [(longer,) for longer in found[:_MOST_LONGER]]
    return forms


def is_long_word(text: str, library: _Library) -> bool:
    return len(text) >= _MIN_ENGLISH_WORD and library.is_english(text)


def without_links(text: str) -> set[str]:
    """A text, also without a linking element at its end."""
    forms = {text, *(text.removesuffix(element) for element in linking_elements())}
    return {form for form in forms if len(form) >= _MIN_LIBRARY_WORD}


_MAKERS = (
    umlauts,
    formats,
    shorter_identifiers,
    separated_codes,
    joined_words,
    compounds_of_neighbours,
    _longer_words,
)

# -- parts of words ---

_MIN_LONE_HEAD = 6  # letters of the last part if the first one is unknown
_MIN_KATAKANA = 3  # characters; shorter parts are in too many other words


def _compounds(terms: Sequence[Term], library: _Library) -> tuple[Forms, list[Term]]:
    """The parts of compounds that the library has only in parts.

    German and Dutch join words freely: a question about "Hintergrundkarten" is answered by a
    message that has "Hintergrund" and "Karte". If the library lacks the first part, the last one is
    a weak term: a "Geldbetrag" is a "Betrag". So is a part of a word in katakana.
    """
    absent = [term for term in terms if is_absent(term) and not term.weak]
    weak_terms = [
        Term(tuple(parts), weak=True, stands_for=term.name)
        for term in absent
        if is_katakana(term.forms[0]) and (parts := katakana_parts(term.forms[0], library))
    ]
    language = library.query.language
    forms: Forms = {}
    words = [term.forms[0][0] for term in absent if len(term.forms[0]) == 1 and not term.exact]
    words = [word for word in words if word.isalpha() and language.joins_words]
    splits = {word: ways_to_split(word, language) for word in words}
    all_parts = {part for pairs in splits.values() for pair in pairs for part in pair}
    inflected = library.inflected(sorted(all_parts), language)
    for word, pairs in splits.items():
        complete = [pair for pair in pairs if inflected[pair[0]] and inflected[pair[1]]]
        heads = [head for _, head in pairs if inflected[head] and len(head) >= _MIN_LONE_HEAD]
        if complete:
            modifier, head = max(complete, key=lambda pair: (min(map(len, pair)), pair))
            forms[word,] = [(form,) for form in (*inflected[modifier], *inflected[head])]
        elif heads:
            head_forms = tuple((form,) for form in inflected[max(heads, key=len)])
            weak_terms.append(Term(head_forms, weak=True, stands_for=word, is_head=True))
    weak_terms = weighted(weak_terms, library.store) if weak_terms else []
    return forms, [term._replace(weight=WEAK * term.weight) for term in weak_terms]


def ways_to_split(word: str, language: Language) -> list[tuple[str, str]]:
    """All ways to split a word in two. The first part loses an element that joins it."""
    pairs = []
    for place in range(_MIN_PART, len(word) - _MIN_PART + 1):
        modifier, head = word[:place], word[place:]
        stems = [modifier, *map(modifier.removesuffix, language.linking_elements)]
        pairs += [(stem, head) for stem in dict.fromkeys(stems) if len(stem) >= _MIN_PART]
    return pairs


def katakana_parts(form: Form, library: _Library) -> list[Form]:
    """The longest beginning and the longest end of a word in katakana that the library has.

    コーヒーメーカー (coffee maker) is about コーヒー.
    """
    lengths = range(len(form) - 1, _MIN_KATAKANA - 1, -1)
    beginnings = library.has_forms(form[:length] for length in lengths)
    ends = library.has_forms(form[-length:] for length in lengths if form[-length] != "ー")
    return [*beginnings[:1], *ends[:1]]


# -- languages of a library ---

_MIN_SHARE = 0.01  # of the passages


def with_forms_of_library_languages(
    terms: Sequence[Term], store: Store, query: Query, is_english: Callable[[str], bool]
) -> tuple[Term, ...]:
    """The terms of a query. Keywords that the library lacks get their forms in its languages.

    A few words do not tell their language.
    """
    if query.language is not ENGLISH or classify(query.rest) != KEYWORDS:
        return tuple(terms)
    absent = [term.forms[0] for term in terms if is_absent(term) and not term.exact]
    words = [form[0] for form in absent if len(form) == 1 and form[0].isalpha()]
    words = [word for word in words if not is_english(word)]
    if not words:
        return tuple(terms)
    forms: Forms = {}
    for language in languages_of(store):
        for word, variants in zip(words, store.variants(words, language), strict=True):
            forms.setdefault((word,), []).extend((variant,) for variant in variants)
    return tuple(with_more_forms(terms, forms, store))


def languages_of(store: Store) -> list[Language]:
    """The languages of a library, other than English and those written without spaces."""
    frequent = {language: language.fields.words("frequent_words") for language in LATIN[1:]}
    words = [Word(word) for names in frequent.values() for word in names]
    frequencies, passages = store.frequencies(words)
    by_word = dict(zip((word.text for word in words), frequencies, strict=True))
    return [
        language
        for language, names in frequent.items()
        if max(by_word[word] for word in names) > _MIN_SHARE * passages
    ]
