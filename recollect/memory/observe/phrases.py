"""The concepts of a text: the phrases that name what it is about.

YAKE 0.7 was measured: 44 ms of CPU for an exchange, eight times what all the
rest here may take together. Runs of words that carry a subject, weighed by how
rare they are in the conversation, name the same things in a fraction of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from recollect.language.text import fold
from recollect.memory.observe.salience import Salience
from recollect.memory.observe.words import COMMON, terms, word_set

MOST = 6
_LONGEST = 3
_WORD = re.compile(r"`([^`\n]{2,40})`|([^\W_][\w'’.+#/@-]*)|([^\w\s]+)")
_LONGEST_WORD = 32
_FOREIGN = 14  # letters: a longer word of a script without spaces is a sentence
_VERBS = word_set(
    "add added adding ask asked based began bring brought build buy bought check checking choose create created"
    " creating enjoy ensure explore feel felt focus happen hear improve learn leave love meet move moved offer order"
    " ordered plan planned planning prefer read realize recently remember run said send spend spent stay stick support"
    " talk thought told http https www understand update visit visited watch watched write wrote currently generally"
    " mentioned allow allows helps helped worth fun today yesterday total various additional common popular overall"
    " potential"
)


def concepts(
    texts: Iterable[tuple[str, float]], salience: Salience, most: int = MOST
) -> tuple[str, ...]:
    """The phrases of these texts, the most telling first; each text counts for its weight."""
    scores: dict[str, float] = {}
    shown: dict[str, str] = {}
    for text, weight in texts:
        for phrase, marked in _phrases(text):
            key = " ".join(terms(phrase)) or fold(phrase)
            if key not in shown or (phrase[0].islower() and not shown[key][0].islower()):
                shown[key] = phrase
            words = key.split()
            value = sum(map(salience.weight, words)) / len(words) ** 0.5
            name = any(c.isupper() for c in phrase[1:]) or marked
            scores[key] = scores.get(key, 0.0) + weight * value * (1.4 if name else 1.0)
    found: list[str] = []
    for key in sorted(scores, key=lambda k: (-scores[k], k)):
        mine = set(key.split())
        if not any(mine <= set(other.split()) or set(other.split()) <= mine for other in found):
            found.append(key)
            if len(found) == most:
                break
    return tuple(shown[key] for key in found)


def _phrases(text: str) -> Iterable[tuple[str, bool]]:
    """Runs of words with a subject, and what is written as code; said with whether it is code."""
    run: list[str] = []
    for code, word, _ in _WORD.findall(text):
        if code:
            if " " not in code.strip():
                yield code.strip(), True
            continue
        bare = fold(word).removesuffix("'s").removesuffix("’s").rstrip(".-/'’")
        said = word.rstrip(".-/'’").removesuffix("'s").removesuffix("’s")
        useful = (
            len(bare) > 2
            and bare not in COMMON
            and bare not in _VERBS
            and "'" not in bare
            and "’" not in bare
        )
        useful = (
            useful
            and not bare.isnumeric()
            and len(bare) <= (_LONGEST_WORD if bare.isascii() else _FOREIGN)
        )
        if useful:
            run.append(said)
        if not useful or word != said or len(run) == _LONGEST:
            if run:
                yield " ".join(run), False
            run = []
    if run:
        yield " ".join(run), False
