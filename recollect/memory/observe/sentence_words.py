"""The words of a sentence, cached because every rule needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from recollect.language.stem import stem
from recollect.language.text import tokens


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

_MAX_CACHED_LENGTH = 1_000


class Words(NamedTuple):
    """The words of a text, and the stems of those that carry meaning."""

    all: frozenset[str]
    terms: tuple[str, ...]
    distinct: frozenset[str]


class Cue:
    """Phrases that reveal what a sentence is about.

    The pattern is applied only if the sentence has one of the words, which is much faster. Text
    that is not ASCII is always searched, because its words may be split differently.
    """

    def __init__(self, words: str, *patterns: str) -> None:
        self._words = frozenset(words.split())
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)

    def search(self, text: str) -> re.Match[str] | None:
        if text.isascii() and not self._words & words(text).all:
            return None
        return self._pattern.search(text)


def words(text: str) -> Words:
    """The words of a text. Those of sentences are cached; long texts would only fill the cache."""
    if len(text) > _MAX_CACHED_LENGTH:
        return _split_words.__wrapped__(text)
    return _split_words(text)


@lru_cache(maxsize=8_192)
def _split_words(text: str) -> Words:
    all_words = tokens(text)
    stems = tuple(_stem(word) for word in all_words if word not in COMMON)
    return Words(frozenset(all_words), stems, frozenset(stems))


def terms(text: str) -> tuple[str, ...]:
    """The stems of the words that carry meaning."""
    return words(text).terms


def overlap(text: str, others: Iterable[str]) -> float:
    """The largest share of the words of a text that one of the others contains."""
    distinct = words(text).distinct
    if not distinct:
        return 1.0
    shares = [len(distinct & words(other).distinct) / len(distinct) for other in others]
    return max(shares, default=0.0)


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    return stem(word)
