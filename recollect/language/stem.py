"""Stemming: reduce a word to the stem that its inflected forms share.

A single word does not reveal its language, so the script decides. Latin letters are treated as
English. Irregular English forms ("went", "bought", "children") are listed here.
"""

from __future__ import annotations

import re
import threading
from functools import cache
from typing import Any

# The first and last letter of a script, and the language whose stemmer is used for it.
_LANGUAGES = (
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
# Base forms and their irregular forms. Forms that are as often another word (found, left, saw, lay,
# felt) are omitted.
_FORMS = """
arise arose arisen|awake awoke awoken|beat beaten|become became|begin began begun|bend bent
bite bit bitten|bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built
burn burnt|buy bought|catch caught|choose chose chosen|cling clung|come came|creep crept
deal dealt|dig dug|do does did done|draw drew drawn|dream dreamt|drink drank drunk
drive drove driven|eat ate eaten|fall fell fallen|feed fed|fight fought|flee fled|fly flew flown
forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen
get got gotten|give gave given|go goes went gone|grow grew grown|hang hung|have had|hear heard
hide hid hidden|hold held|keep kept|kneel knelt|know knew known|lead led|lean leant|leap leapt
learn learnt|lend lent|lose lost|make made|mean meant|meet met|overcome overcame|pay paid
ride rode ridden|ring rang rung|rise rose risen|run ran|say said|seek sought|sell sold|send sent
sew sewn|shake shook shaken|shoot shot|show shown|shrink shrank shrunk|sing sang sung
sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken|speed sped|spend spent|spin spun
stand stood|steal stole stolen|stick stuck|sting stung|strike struck|swear swore sworn|sweep swept
swell swollen|swim swam swum|swing swung|take took taken|teach taught|tear tore torn|tell told
think thought|throw threw thrown|understand understood|undertake undertook|undo undone
wake woke woken|wear wore worn|weave wove woven|weep wept|win won|withdraw withdrew withdrawn
write wrote written|analysis analyses|child children|crisis crises|criterion criteria|foot feet
goose geese|half halves|index indices|knife knives|leaf leaves|life lives|loaf loaves|man men
mouse mice|person people|shelf shelves|thief thieves|tooth teeth|wife wives|wolf wolves
woman women
"""


def _base_forms() -> dict[str, str]:
    bases = {}
    for entry in re.split(r"[|\n]", _FORMS):
        base, *forms = entry.split() or [""]
        for form in forms:
            bases[form] = base
    return bases


_BASE_FORMS = _base_forms()
_LONGEST_WORD = 64
_local = threading.local()


def stem(word: str) -> str:
    """The stem of a lower-case word. Words with digits or of other scripts stay as they are."""
    word = _BASE_FORMS.get(word, word)
    language = _language(word[:1])
    if language is None or len(word) > _LONGEST_WORD or not word.isalpha():
        return word
    result: str = _stemmer(language).stemWord(word)
    return result or word


@cache
def _language(letter: str) -> str | None:
    for first, last, name in _LANGUAGES:
        if first <= letter <= last:
            return name
    return None


def _stemmer(language: str) -> Any:
    """One stemmer per thread, since stemmers are not thread-safe."""
    stemmers: dict[str, Any] = _local.__dict__
    if language not in stemmers:
        import Stemmer  # type: ignore[import-not-found]

        stemmers[language] = Stemmer.Stemmer(language)
    return stemmers[language]
