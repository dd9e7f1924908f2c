"""The languages in which people can ask questions."""

from __future__ import annotations

from recollect.language.languages.base import Language
from recollect.language.languages.chinese import CHINESE
from recollect.language.languages.dutch import DUTCH
from recollect.language.languages.english import ENGLISH
from recollect.language.languages.french import FRENCH
from recollect.language.languages.german import GERMAN
from recollect.language.languages.italian import ITALIAN
from recollect.language.languages.japanese import JAPANESE
from recollect.language.languages.korean import KOREAN
from recollect.language.languages.portuguese import PORTUGUESE
from recollect.language.languages.spanish import SPANISH

LATIN: tuple[Language, ...] = (ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH)
"""The languages with Latin letters, which only their words tell apart."""
UNSPACED: tuple[Language, ...] = (CHINESE, JAPANESE, KOREAN)
ALL: tuple[Language, ...] = (*LATIN, *UNSPACED)
