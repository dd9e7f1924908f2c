"""The stem of a word: what its inflected forms share.

The script decides the language, since a single word does not tell it. Latin
letters are taken as English, which by far the most of them are; English forms
that no rule gives ("went", "bought", "children") are in a list.
"""

from __future__ import annotations

import re
import threading
from functools import cache
from typing import Any

_LANGUAGES = (  # the first and the last letter of a script, and its language
    ("a", "z", "english"),
    ("\u00df", "\u024f", "english"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0590", "\u05ff", "yiddish"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
# A base form and what it becomes. Left out is what is as often another word (found, left, saw, lay, felt).
_FORMS = """
arise arose arisen|awake awoke awoken|beat beaten|become became|begin began begun|bend bent|bite bit bitten
bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built|burn burnt|buy bought
catch caught|choose chose chosen|cling clung|come came|creep crept|deal dealt|dig dug|do does did done|draw drew drawn
dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|fight fought|flee fled
fly flew flown|forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen
get got gotten|give gave given|go goes went gone|grow grew grown|hang hung|have had|hear heard|hide hid hidden|hold held
keep kept|kneel knelt|know knew known|lead led|lean leant|leap leapt|learn learnt|lend lent|lose lost|make made
mean meant|meet met|overcome overcame|pay paid|ride rode ridden|ring rang rung|rise rose risen|run ran|say said
seek sought|sell sold|send sent|sew sewn|shake shook shaken|shoot shot|show shown|shrink shrank shrunk|sing sang sung
sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken|speed sped|spend spent|spin spun|stand stood
steal stole stolen|stick stuck|sting stung|strike struck|swear swore sworn|sweep swept|swell swollen|swim swam swum
swing swung|take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown
understand understood|undertake undertook|undo undone|wake woke woken|wear wore worn|weave wove woven|weep wept
win won|withdraw withdrew withdrawn|write wrote written
analysis analyses|child children|crisis crises|criterion criteria|foot feet|goose geese|half halves|index indices
knife knives|leaf leaves|life lives|loaf loaves|man men|mouse mice|person people|shelf shelves|thief thieves
tooth teeth|wife wives|wolf wolves|woman women
"""
_IRREGULAR = {
    form: words[0] for words in map(str.split, re.split(r"[|\n]", _FORMS)) for form in words[1:]
}
_local = threading.local()


def stem(word: str) -> str:
    """The stem of a lower-case word; what holds a digit, or is of another script, is its own."""
    word = _IRREGULAR.get(word, word)
    language = _language(word[:1])
    if language is None or len(word) > 64 or not word.isalpha():
        return word
    stemmed: str = _stemmer(language).stemWord(word)
    return stemmed or word


@cache
def _language(letter: str) -> str | None:
    return next((name for first, last, name in _LANGUAGES if first <= letter <= last), None)


def _stemmer(language: str) -> Any:
    """One a thread: a stemmer may not be shared."""
    stemmers: dict[str, Any] = _local.__dict__
    if language not in stemmers:
        import Stemmer  # type: ignore[import-not-found]

        stemmers[language] = Stemmer.Stemmer(language)
    return stemmers[language]
