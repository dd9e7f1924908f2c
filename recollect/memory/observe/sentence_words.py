"""The words of a sentence, cached because every rule needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from recollect.language.languages import ENGLISH, FRENCH, GERMAN, SPANISH
from recollect.language.text import non_ascii_characters, tokens
from recollect.language.words import stem


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words without a meaning of their own. Several languages are mixed, because the language of a
# sentence is unknown.
COMMON = word_set(
    """
a able about above absolutely actually after again all almost along already also although always am
an and another any anything are aren around as ask at away back be because been before being below
best better between both but by call came can cannot come consider could couldn course d day days
definitely did didn different do does doesn doing don done down during each either else enough
especially etc even ever every everything example excited few find first following for from further
get gets getting give given go goes going good got great had happy hard has hasn have haven having
he hello help her here hi him his how however i idea ideas if important in include includes
including information interested into is isn it its itself just keep kind know last least less let
like likely list little ll long look looking lot lots m made main make makes making many may maybe
me mean might mind more most much must my myself need needs never new next nice no non not nothing
now of off often oh ok okay on once one ones only or other others our out over own part people
perfect perhaps please possible pretty probably provide put quite rather re ready really recommend
right s said same say see seem seems set several share she should show similar since so some someone
something soon sort sounds specific start still such suggest suggestions sure t take tell than thank
thanks that the their them then there these they thing things think this those though through time
tips to together too took tried try trying two under until up us use used useful using usually ve
very via want wanted was wasn way ways we well went were weren what when where whether which while
who whole why will with within without won wonder wondering work working works would wouldn yeah yes
yet you your yours yourself aber als auch auf aus bei bin bis das dass dem den der des die doch du
ein eine einen einer es für hat ich im ist ja kann kein mein mir mit nach nicht noch nur oder schon
sein sich sie sind und uns von vor war wenn wie wir wird zu zum zur au aux avec ce ces cette dans de
elle en est et il ils je la le les leur lui mais mon ne nous ou par pas pour qu que qui sa se ses
son sur une vous al como con del el ella esta este está ha hay las lo los más mi muy nos para pero
por si sin su te un una y yo che di e gli ho io per sono com da em eu não o os um uma het een van ik
niet dat
"""
)

_CACHED_WORDS = 60_000


@cache
def _foreign_words() -> frozenset[str]:
    """Function words that English does not have."""
    words = GERMAN.stop_words | FRENCH.stop_words | SPANISH.stop_words
    return frozenset(word for word in words - ENGLISH.stop_words if len(word) > 1)


class Words(NamedTuple):
    """The words of a text, and the stems of those that carry meaning."""

    all: frozenset[str]
    terms: tuple[str, ...]
    distinct: frozenset[str]
    is_plain: bool
    """Whether the text is ASCII except for quotes, dashes, emoji and other symbols."""
    is_foreign: bool
    """Whether the text has letters or function words that English does not have."""


class Cue:
    """Phrases that reveal what a sentence is about.

    A pattern is applied only if the sentence has one of its words, which is much faster. Text with
    other letters than those of ASCII is always searched, because its words may be split
    differently. In text with symbols, the patterns also find words that begin with `stems`.
    """

    def __init__(
        self, *patterns: tuple[str, str], stems: str = "", foreign: Sequence[str] = ()
    ) -> None:
        """`patterns` are pairs: words of which every match has one, and the pattern itself.

        Patterns are in lower case.
        `foreign` are patterns in other languages, for sentences that are not English.
        """
        self._patterns = [
            (frozenset(words.split()), re.compile(pattern)) for words, pattern in patterns
        ]
        self._words = frozenset().union(*[words for words, _ in self._patterns])
        self._stems = stems.split()
        self._pattern = re.compile("|".join(pattern for _, pattern in patterns), re.IGNORECASE)
        self._foreign = None
        if foreign:
            self._foreign = re.compile("|".join(foreign), re.IGNORECASE)
        # Several rules look for the same cue in the same sentence.
        self.search = lru_cache(maxsize=1_024)(self._search)

    def _search(self, text: str) -> re.Match[str] | None:
        return self.search_words(text, words(text))

    def search_words(self, text: str, text_words: Words) -> re.Match[str] | None:
        """Search a text with these words."""
        match = None
        if not text_words.is_plain or (self._stems and self._has_stem(text)):
            match = self._pattern.search(text)
        elif not self._words.isdisjoint(text_words.all):
            # With lower case on both sides, the patterns are matched faster.
            match = self._search_patterns(text.lower(), text_words.all)
        if match is None and self._foreign is not None and text_words.is_foreign:
            match = self._foreign.search(text)
        return match

    def _has_stem(self, text: str) -> bool:
        if text.isascii():
            return False
        lower = text.lower()
        return any(stem in lower for stem in self._stems)

    def _search_patterns(self, text: str, text_words: frozenset[str]) -> re.Match[str] | None:
        for pattern_words, pattern in self._patterns:
            if not pattern_words.isdisjoint(text_words):
                match = pattern.search(text)
                if match is not None:
                    return match
        return None


def split_words(text: str) -> Words:
    all_words = tokens(text)
    text_terms = _stems(all_words)
    is_plain = text.isascii() or all(map(_is_symbol, non_ascii_characters(text)))
    distinct_words = frozenset(all_words)
    is_foreign = not is_plain or not _foreign_words().isdisjoint(distinct_words)
    return Words(distinct_words, text_terms, frozenset(text_terms), is_plain, is_foreign)


def words_of_all(sentences: Iterable[str]) -> Words:
    """The words of all these sentences, which need not be split again."""
    parts = [words(sentence) for sentence in sentences]
    return Words(
        frozenset().union(*[part.all for part in parts]),
        tuple(chain.from_iterable([part.terms for part in parts])),
        frozenset().union(*[part.distinct for part in parts]),
        all(part.is_plain for part in parts),
        any(part.is_foreign for part in parts),
    )


@lru_cache(maxsize=1_024)
def _is_symbol(character: str) -> bool:
    """Whether a character separates words, both for the index and for a pattern."""
    return not character.isalnum() and tokens(f"a{character}b") == ["a", "b"]


words = lru_cache(maxsize=8_192)(split_words)
"""The words of a sentence. Those of a long text should not be cached: see `split_words`."""


def _stems(all_words: Iterable[str]) -> tuple[str, ...]:
    """The stems of the words that carry meaning."""
    return tuple(filter(None, map(_TERMS.__getitem__, all_words)))


class _Terms(dict[str, str]):
    """A cache: the stem of each word, or nothing if the word has no meaning of its own."""

    def __missing__(self, word: str) -> str:
        term = ""
        if word not in COMMON:
            term = stem(word)
        if len(self) >= _CACHED_WORDS:
            self.clear()
        self[word] = term
        return term


_TERMS = _Terms()


def terms(text: str) -> tuple[str, ...]:
    """The stems of the words that carry meaning."""
    return words(text).terms


def terms_of_word(word: str) -> tuple[str, ...]:
    """The same for a word of a phrase, which is not worth a place in the cache of sentences."""
    if not word.isascii() or not word.isalnum():
        return _stems(tokens(word))
    term = _TERMS[word.lower()]
    if not term:
        return ()
    return (term,)


def overlap(text: str, others: Iterable[str]) -> float:
    """The largest share of the words of a text that one of the others contains."""
    distinct = words(text).distinct
    if not distinct:
        return 1.0
    shared = [len(distinct & words(other).distinct) for other in others]
    return max(shared, default=0) / len(distinct)
