"""The concepts of a text: the phrases that name what it is about.

Sequences of meaningful words are weighted by how rare they are in the conversation. YAKE 0.7 was
measured and rejected: it takes 44 ms of CPU per exchange, eight times the budget of all the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from recollect.language.text import fold
from recollect.memory.observe.salience import Salience
from recollect.memory.observe.sentence_words import COMMON, terms, word_set

MAX_CONCEPTS = 6
_MAX_PHRASE_WORDS = 3
_WORD = re.compile(r"`([^`\n]{2,40})`|([^\W_][\w'’.+#/@-]*)|([^\w\s]+)")
_MAX_WORD_LENGTH = 32
_MAX_FOREIGN_WORD_LENGTH = 14  # in a script without spaces, a longer word is a sentence
_VERBS = word_set(
    "add added adding ask asked based began bring brought build buy bought check checking choose"
    " create created"
    " creating enjoy ensure explore feel felt focus happen hear improve learn leave love meet move"
    " moved offer order"
    " ordered plan planned planning prefer read realize recently remember run said send spend spent"
    " stay stick support"
    " talk thought told http https www understand update visit visited watch watched write wrote"
    " currently generally"
    " mentioned allow allows helps helped worth fun today yesterday total various additional common"
    " popular overall"
    " potential"
)


def concepts(
    texts: Iterable[tuple[str, float]], salience: Salience, limit: int = MAX_CONCEPTS
) -> tuple[str, ...]:
    """The most significant phrases of these texts, each of which has a weight."""
    scores: dict[str, float] = {}
    phrases: dict[str, str] = {}
    for text, weight in texts:
        for phrase, is_code in _phrases(text):
            key = " ".join(terms(phrase)) or fold(phrase)
            if key not in phrases or (phrase[0].islower() and not phrases[key][0].islower()):
                phrases[key] = phrase
            words = key.split()
            value = sum(map(salience.weight, words)) / len(words) ** 0.5
            if is_code or any(char.isupper() for char in phrase[1:]):
                value *= 1.4  # a name
            scores[key] = scores.get(key, 0.0) + weight * value
    best_keys: list[str] = []
    for key in sorted(scores, key=lambda k: (-scores[k], k)):
        if not any(_contain_each_other(key, other) for other in best_keys):
            best_keys.append(key)
            if len(best_keys) == limit:
                break
    return tuple(phrases[key] for key in best_keys)


def _contain_each_other(key: str, other: str) -> bool:
    """Whether all the words of one phrase occur in the other."""
    words = set(key.split())
    other_words = set(other.split())
    return words <= other_words or other_words <= words


def _phrases(text: str) -> Iterable[tuple[str, bool]]:
    """Sequences of words that carry meaning, and inline code; each with whether it is code."""
    run: list[str] = []
    for code, word, _ in _WORD.findall(text):
        if code:
            if " " not in code.strip():
                yield code.strip(), True
            continue
        stripped = word.rstrip(".-/'’").removesuffix("'s").removesuffix("’s")
        is_useful = _is_useful(word)
        if is_useful:
            run.append(stripped)
        if not is_useful or word != stripped or len(run) == _MAX_PHRASE_WORDS:
            if run:
                yield " ".join(run), False
            run = []
    if run:
        yield " ".join(run), False


def _is_useful(word: str) -> bool:
    bare = fold(word).removesuffix("'s").removesuffix("’s").rstrip(".-/'’")
    if len(bare) <= 2 or bare.isnumeric() or "'" in bare or "’" in bare:
        return False
    if bare in COMMON or bare in _VERBS:
        return False
    if bare.isascii():
        return len(bare) <= _MAX_WORD_LENGTH
    return len(bare) <= _MAX_FOREIGN_WORD_LENGTH
