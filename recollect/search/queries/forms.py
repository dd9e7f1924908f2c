"""Other forms in which a library has the words of a query.

A message may write what a query says in another way: `EventLoop` as event_loop, a phone number with
spaces, keywords as one word. Such forms are proposed, mostly for the terms that the library lacks
as they were typed; those that some message has are searched for as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby, pairwise

from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.queries.intent import KEYWORDS, classify, identifiers
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Or, Word
from recollect.language.text import is_unspaced, tokens, transcriptions, with_umlauts
from recollect.language.words import Form, other_formats
from recollect.model.search import Filter
from recollect.search.queries.terms import Term, form_name, weighted
from recollect.store.base import Store

Forms = Iterator[tuple[Form, Iterable[Form]]]
"""The first forms of terms, and further forms of each."""


class _Library:
    """What is asked about a library and a query."""

    def __init__(self, store: Store, query: Query, is_english: Callable[[str], bool]) -> None:
        self.store = store
        self.query = query
        self.is_english = is_english
        self.has_keywords = classify(query.rest) == KEYWORDS

    @cached_property
    def languages(self) -> list[Language]:
        """The languages of a query. Keywords do not tell theirs, so all of the library's."""
        if self.query.language is not ENGLISH or not self.has_keywords:
            return [self.query.language]
        frequent = {language: language.fields.words("frequent_words") for language in LATIN[1:]}
        words = [Word(word) for names in frequent.values() for word in names]
        frequencies, passages = self.store.frequencies(words)
        by_word = dict(zip((word.text for word in words), frequencies, strict=True))
        return [
            language
            for language, names in frequent.items()
            if max(by_word[word] for word in names) > _MIN_SHARE * passages
        ]

    @cached_property
    def joining_languages(self) -> list[Language]:
        """Those that join words freely, as German does."""
        return [language for language in self.languages if language.linking_elements]

    def known(self, words: Iterable[str]) -> set[str]:
        words = sorted(set(words))
        return self.store.known_words(words) if words else set()

    def has_forms(self, forms: Iterable[Form]) -> list[Form]:
        """Those of some forms that a passage has."""
        forms = list(dict.fromkeys(forms))
        words = self.known(chain.from_iterable(forms))
        forms = [form for form in forms if words.issuperset(form)]
        if not forms:
            return []
        frequencies, _ = self.store.frequencies([Word(" ".join(form)) for form in forms])
        return [form for form, frequency in zip(forms, frequencies, strict=True) if frequency]

    def inflected(self, words: Iterable[str], language: Language) -> dict[str, list[Form]]:
        """The inflected forms of words that the library has."""
        words = sorted(set(words))
        variants = self.store.variants(words, language) if words else []
        known = self.known(chain.from_iterable(variants)) - language.stop_words
        return {
            word: [(form,) for form in forms if form in known and len(form) >= _MIN_PART]
            for word, forms in zip(words, variants, strict=True)
        }


def with_other_forms(
    terms: list[Term], store: Store, query: Query, is_english: Callable[[str], bool]
) -> list[Term]:
    """The terms of a plain query with their other forms."""
    library = _Library(store, query, is_english)
    makers = (umlauts, joined_words) if library.has_keywords else (umlauts,)
    terms = with_more_forms(terms, makers, library)
    if not any(map(is_absent, terms)):
        return terms
    terms = with_more_forms(terms, (*_FORMATS, inside_longer_words, inflected_in_library), library)
    return with_more_forms(terms, (parts_of_compounds,), library)


def with_more_forms(
    terms: list[Term], makers: Sequence[Callable[..., Forms]], library: _Library
) -> list[Term]:
    """The terms with the forms that these functions make, and new weights."""
    more: dict[Form, list[Form]] = {}
    for make in makers:
        for form, others in make(terms, library):
            more.setdefault(form, []).extend(others)
    extended = [
        term._replace(forms=tuple(dict.fromkeys([*term.forms, *more[term.forms[0]]])))
        for term in terms
        if more.get(term.forms[0])
    ]
    if not extended:
        return terms
    by_form = {term.forms[0]: term for term in weighted(extended, library.store)}
    return [by_form.get(term.forms[0], term) for term in terms]


def is_absent(term: Term) -> bool:
    return not term.frequency and not term.prefix


def absent_words(terms: Sequence[Term]) -> list[str]:
    """The single words that the library lacks, without identifiers and numbers."""
    absent = [term.forms[0] for term in terms if is_absent(term) and not term.exact]
    return [form[0] for form in absent if len(form) == 1 and form[0].isalpha()]


# -- words that the library may have ---

_MESSAGES = 20
"""So many of the best matches are read to see how they write a word."""


def umlauts(terms: Sequence[Term], library: _Library) -> Forms:
    """Words that messages write with umlauts, and the reverse: `Mueller` is also Müller.

    The index has no umlauts: Müller is `muller` there, and `blue` could be the Blu of Blu-ray. So
    some messages are read to see how they write the word.
    """
    store = library.store
    typed = transcriptions(library.query.rest)
    for term in terms:
        form = term.forms[0]
        other = typed.get(form[0]) or with_umlauts(form[0])
        if term.exact or len(form) > 1 or other == form[0]:
            continue
        words: Sequence[str] = [other]
        if not term.prefix:
            (words,) = store.variants([other], library.query.language)
            words = sorted(library.known(words))
        if words and form[0] not in typed:
            node = Or(tuple(Word(word, term.prefix) for word in words))
            messages = store.candidates(store.match(node, Filter(), _MESSAGES), Filter())
            written = transcriptions("\n".join(f"{m.title}\n{m.content}" for m in messages))
            ends = len(other) if term.prefix else None
            words = [word for word in words if word in {each[:ends] for each in written}]
        yield form, [(word,) for word in words]


_MOST_WORDS = 4  # that one word joins
_MIN_LETTERS = 5  # shorter words are often others: "so on" is not "soon"
_MIN_PART = 4  # letters of a part of a compound


def joined_words(terms: Sequence[Term], library: _Library) -> Forms:
    """Words of the library that join several keywords. Each is a form of all of them.

    `AbortController`, `#buildinpublic` and "workout" are one word; whoever looks for them often
    types several. Some languages join them in any order: the "Kosten" for a "Handwerker" are
    "Handwerkerkosten".
    """
    words = tokens(library.query.rest)
    own_words = {term.name for term in terms}
    joined: dict[str, set[str]] = {}
    for start, first in enumerate(words):
        for end in range(start + 2, min(start + _MOST_WORDS, len(words)) + 1):
            own = own_words.intersection(words[start:end])
            if (first in own_words or len(own) > 1) and can_be_one_word(words[start:end]):
                joined["".join(words[start:end])] = own
    for word in library.known(joined):
        yield from (((part,), [(word,)]) for part in joined[word])
    for one, other in pairwise(terms):
        pair = (one.name, other.name)
        if not (is_absent(one) or is_absent(other)) or not all(map(may_be_part, pair)):
            continue
        for language in library.joining_languages:
            links = ["", *language.linking_elements]
            ordered = (pair, pair[::-1])
            compounds = [first + link + last for first, last in ordered for link in links]
            inflected = library.inflected(compounds, language)
            found = list(chain.from_iterable(inflected.values()))
            yield from ((term.forms[0], found) for term in (one, other))


def can_be_one_word(parts: Sequence[str]) -> bool:
    if sum(map(len, parts)) < _MIN_LETTERS or any(map(is_unspaced, parts)):
        return False
    return not any(one.isdigit() and other.isdigit() for one, other in pairwise(parts))


def may_be_part(word: str) -> bool:
    """Whether a word may be a part of a compound."""
    return len(word) >= _MIN_PART and word.isalpha() and not is_unspaced(word)


# -- numbers, codes and identifiers ---


def formats(terms: Sequence[Term], library: _Library) -> Forms:
    """Other formats of dates, numbers and names in code."""
    typed = {tuple(tokens(word)): word for word in library.query.rest.split()}
    for term in filter(is_absent, terms):
        form = term.forms[0]
        yield form, other_formats(typed.get(form) or form_name(form))


_HEXADECIMAL = frozenset("0123456789abcdef")
_MIN_WHOLE_HASH = 12
_MIN_HASH = 7
_MIN_SEGMENTS = 2  # many files have the same name
_MAX_SEGMENTS = 12


def shorter_identifiers(terms: Sequence[Term], library: _Library) -> Forms:
    """The longest part of each identifier that the library has.

    A path from this computer is longer than the path in a message, a link has a scheme, and a
    commit has 40 digits of which people write seven.
    """
    typed = {tuple(tokens(word)): word for word in identifiers(library.query.rest)}
    for term in terms:
        identifier = typed.get(term.forms[0], "")
        if not identifier or not term.exact or not is_absent(term):
            continue
        is_long = len(identifier) >= _MIN_WHOLE_HASH
        if is_long and _HEXADECIMAL.issuperset(identifier.lower()) and is_mixed(identifier):
            sizes = range(len(identifier) - 1, _MIN_HASH - 1, -1)
            parts = [identifier[:size] for size in sizes]
        else:
            path = identifier.split("://")[-1]
            segments = [segment for segment in path.replace("\\", "/").split("/") if segment]
            first = max(1, len(segments) - _MAX_SEGMENTS)
            starts = range(first, len(segments) - _MIN_SEGMENTS + 1)
            parts = [path, *("/".join(segments[start:]) for start in starts)]
        shorter = [tuple(tokens(part)) for part in parts]
        yield term.forms[0], library.has_forms(form for form in shorter if form)[:1]


def is_mixed(word: str) -> bool:
    """Whether a word has letters and digits."""
    return any(map(str.isalpha, word)) and any(map(str.isdigit, word))


_MIN_DIGITS = 7  # with fewer, other numbers have the same ones by chance
_LONGEST_NUMBER = 36  # an IBAN has 34 characters, of which two are letters
_LONGEST_CODE = 24
_MIN_CODE = 3
_MAX_DIGITS = 8  # of a group
_ISBN_PREFIXES = ("978", "979")
_MOST_SPLITS = 20


def separated_codes(terms: Sequence[Term], library: _Library) -> Forms:
    """Long numbers and codes in other groups.

    01614960723 is also 0161 496 0723, `wh1000xm4` is also WH-1000XM4, and 1xyz789 is 1-XYZ-789.
    """
    codes = {tuple(tokens(word)) for word in library.query.rest.split()}
    words = groupby(tokens(library.query.rest), lambda word: any(map(str.isdigit, word)))
    codes |= {tuple(run) for has_digits, run in words if has_digits}
    frequencies = {term.forms[0]: term.frequency for term in terms}
    for form in codes:
        code = "".join(form)
        size = len(code) if code.isascii() and code.isalnum() else 0
        digits = sum(map(str.isdigit, code))
        is_number = size <= _LONGEST_NUMBER and digits >= _MIN_DIGITS and not code[:3].isalpha()
        is_code = _MIN_CODE <= size <= _LONGEST_CODE and is_mixed(code)
        if size and not frequencies.get(form) and (is_number or is_code):
            own = [form, *((word,) for word in form)] if is_number else [form]
            splits = library.has_forms(_splits(code, library))
            yield from ((each, splits) for each in own)


def _splits(code: str, library: _Library) -> list[Form]:
    """The ways to split a code into words of the library, those with few words first.

    A long number can be split in very many ways, so only some are kept for each of its ends.
    """
    ends = range(len(code) + 1)
    words = library.known(
        code[i:j] for i in ends for j in ends[i + 1 :] if may_be_group(code, i, j)
    )
    splits: dict[int, list[Form]] = {len(code): [()]}  # of what begins at each place
    for start in reversed(ends[:-1]):
        longer = [
            (code[start:end], *others)
            for end, rest in splits.items()
            if code[start:end] in words and may_be_group(code, start, end)
            for others in rest
        ]
        splits[start] = sorted(longer, key=len)[:_MOST_SPLITS]
    return splits[0]


def may_be_group(code: str, start: int, end: int) -> bool:
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
    return at_end or all(
        code[place - 1].isdigit() != code[place].isdigit() for place in (start, end)
    )


_FORMATS = (formats, shorter_identifiers, separated_codes)

# -- compounds and other languages ---

_MIN_IN_LONGER = 5  # letters; shorter words are in too many others
_MIN_ENGLISH_WORD = 3
_MIN_LIBRARY_WORD = 5  # shorter words of a library are often abbreviations or names
_MIN_HEAD = 6  # letters of a last part; shorter ones are often the end of another word
_MIN_MODIFIER = 4  # letters before it; shorter ones are often prefixes, as in "Ein-richtung"
_MOST_LONGER = 50
_MIN_SHARE = 0.01  # of the passages, which have a frequent word of a language


def inside_longer_words(terms: Sequence[Term], library: _Library) -> Forms:
    """For each word that the library lacks, the longer words that contain it.

    A search for "service" should find `PaymentService`, and a search for "autovac" autovacuum. But
    "companion" has nothing to do with "anion". So a longer word counts only if it begins with the
    word, or if the rest of it consists of words, too, or if the word is a part of a name in code
    (`eScrip`). In a language that joins words, it may also end with the word: a library seldom has
    both parts of "Krankenversicherung". Of several words, only those count: in other languages, the
    other words find the messages.
    """
    words = [term.forms[0][0] for term in terms if is_absent(term) and len(term.forms[0]) == 1]
    if len(terms) > 1:
        words = absent_words(terms) if library.joining_languages else []
        if library.query.language is ENGLISH:
            words = [word for word in words if not library.is_english(word)]
    words = [word for word in words if len(word) >= _MIN_IN_LONGER]
    if not words:
        return
    longer_words = library.store.words_containing(words)
    typed = library.query.rest
    is_name = any(before.islower() and after.isupper() for before, after in pairwise(typed))
    is_name = len(terms) == 1 and (is_name or terms[0].exact)
    rests = {rest for word in words for longer in longer_words[word] for rest in longer.split(word)}
    rests = {rest for rest in rests if rest and not rest.isdigit()}
    rests -= {rest for rest in rests if len(rest) >= _MIN_ENGLISH_WORD and library.is_english(rest)}
    links = {link for language in LATIN for link in language.linking_elements}
    stems = {rest: {rest, *map(rest.removesuffix, links)} for rest in rests}
    known = library.known(stem for each in stems.values() for stem in each)
    known = {stem for stem in known if len(stem) >= _MIN_LIBRARY_WORD}
    unknown = {rest for rest in rests if known.isdisjoint(stems[rest])}

    def stands_for(word: str, longer: str) -> bool:
        if is_name or longer.startswith(word) or unknown.isdisjoint(longer.split(word)):
            return True
        is_head = len(word) >= _MIN_HEAD and len(longer) >= len(word) + _MIN_MODIFIER
        is_head = is_head and longer.isalpha() and longer.endswith(word)
        return is_head and bool(library.joining_languages)

    for word in words:
        found = [(longer,) for longer in longer_words[word] if stands_for(word, longer)]
        yield (word,), found[:_MOST_LONGER]


def inflected_in_library(terms: Sequence[Term], library: _Library) -> Forms:
    """Keywords that the library lacks, in its languages. A few words do not tell their language."""
    words = [word for word in absent_words(terms) if not library.is_english(word)]
    if library.has_keywords and library.query.language is ENGLISH and words:
        for language in library.languages:
            yield from (
                ((word,), forms) for word, forms in library.inflected(words, language).items()
            )


def parts_of_compounds(terms: Sequence[Term], library: _Library) -> Forms:
    """The parts of compounds that the library has only in parts.

    German and Dutch join words freely: a question about "Hintergrundkarten" is answered by a
    message that has "Hintergrund" and "Karte", and one about "Geldbeträge" by "Betrag". The first
    part loses an element that joins it.
    """
    language = library.query.language
    for word in absent_words(terms) if language.linking_elements else ():
        pairs = []
        for place in range(_MIN_PART, len(word) - _MIN_PART + 1):
            modifier, head = word[:place], word[place:]
            stems = [modifier, *map(modifier.removesuffix, language.linking_elements)]
            pairs += [(stem, head) for stem in dict.fromkeys(stems) if len(stem) >= _MIN_PART]
        forms = library.inflected(chain.from_iterable(pairs), language)
        complete = [pair for pair in pairs if forms[pair[0]] and forms[pair[1]]]
        if complete:
            modifier, head = max(complete, key=lambda pair: (min(map(len, pair)), pair))
            yield (word,), [*forms[modifier], *forms[head]]
        elif heads := [head for _, head in pairs if forms[head] and len(head) >= _MIN_HEAD]:
            yield (word,), forms[max(heads, key=len)]
