"""The words of a sentence, counted once however often it is asked for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from recollect.language.stem import stem
from recollect.language.text import tokens


def word_set(text: str) -> frozenset[str]:
    """Words that are written one after the other."""
    return frozenset(text.split())


# The words that carry no subject; with those of some neighbours, since nothing says what language a sentence is in.
COMMON = word_set(
    """
a able about above absolutely actually after again all almost along already also although always am an and another
any anything are aren around as ask at away back be because been before being below best better between both but by
call came can cannot come consider could couldn course d day days definitely did didn different do does doesn doing
don done down during each either else enough especially etc even ever every everything example excited few find
first following for from further get gets getting give given go goes going good got great had happy hard has hasn
have haven having he hello help her here hi him his how however i idea ideas if important in include includes
including information interested into is isn it its itself just keep kind know last least less let like likely list
little ll long look looking lot lots m made main make makes making many may maybe me mean might mind more most much
must my myself need needs never new next nice no non not nothing now of off often oh ok okay on once one ones only
or other others our out over own part people perfect perhaps please possible pretty probably provide put quite
rather re ready really recommend right s said same say see seem seems set several share she should show similar
since so some someone something soon sort sounds specific start still such suggest suggestions sure t take tell than
thank thanks that the their them then there these they thing things think this those though through time tips to
together too took tried try trying two under until up us use used useful using usually ve very via want wanted was
wasn way ways we well went were weren what when where whether which while who whole why will with within without won
wonder wondering work working works would wouldn yeah yes yet you your yours yourself aber als auch auf aus bei bin
bis das dass dem den der des die doch du ein eine einen einer es für hat ich im ist ja kann kein mein mir mit nach
nicht noch nur oder schon sein sich sie sind und uns von vor war wenn wie wir wird zu zum zur au aux avec ce ces
cette dans de elle en est et il ils je la le les leur lui mais mon ne nous ou par pas pour qu que qui sa se ses son
sur une vous al como con del el ella esta este está ha hay las lo los más mi muy nos para pero por si sin su te un
una y yo che di e gli ho io per sono com da em eu não o os um uma het een van ik niet dat
"""
)

_SENTENCE = 1_000


class Words(NamedTuple):
    """The words of a text: all of them, and the stems of those that carry a subject."""

    all: frozenset[str]
    terms: tuple[str, ...]
    distinct: frozenset[str]


class Cue:
    """Phrases that give a sentence away. They are looked for only where one of their words is, which is much faster."""

    def __init__(self, words: str, *patterns: str) -> None:
        """A text that is not plain ASCII is always looked at: its words may be cut otherwise."""
        self._words = frozenset(words.split())
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)

    def search(self, text: str) -> re.Match[str] | None:
        if text.isascii() and not self._words & words(text).all:
            return None
        return self._pattern.search(text)

    def count(self, text: str, most: int) -> int:
        if text.isascii() and not self._words & words(text).all:
            return 0
        return min(most, len(self._pattern.findall(text)))


def words(text: str) -> Words:
    """The words of a text. Those of sentences are remembered for a while; a long text would only fill the memory."""
    return _counted(text) if len(text) <= _SENTENCE else _counted.__wrapped__(text)


@lru_cache(maxsize=8_192)
def _counted(text: str) -> Words:
    found = tokens(text)
    subject = tuple(_stem(word) for word in found if word not in COMMON)
    return Words(frozenset(found), subject, frozenset(subject))


def terms(text: str) -> tuple[str, ...]:
    """The words of a text that carry a subject, as stems."""
    return words(text).terms


def overlap(text: str, others: Iterable[str]) -> float:
    """The largest share of a text's words that one of the others has."""
    mine = words(text).distinct
    return (
        max((len(mine & words(other).distinct) / len(mine) for other in others), default=0.0)
        if mine
        else 1.0
    )


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    return stem(word)
