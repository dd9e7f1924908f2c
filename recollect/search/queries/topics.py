"""What a query is about: its topic words, and the forms that are searched for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from recollect.language.detection import unspaced_language
from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.intent import KEYWORDS, classify, is_identifier
from recollect.language.queries.query import Query
from recollect.language.queries.query_tree import Word
from recollect.language.spellings import joined_word, parts_that_stand_alone
from recollect.language.text import is_unspaced, tokens
from recollect.language.when import period_words
from recollect.language.words import content_words
from recollect.search.queries.terms import Form

_POSSESSIVE = re.compile(r"(?<=\w)['’]s\W*$", re.IGNORECASE)
_KATAKANA_WORD = re.compile(r"[\u30a1-\u30fa\u30fc]{3,}")
_MIN_PART_LETTERS = 3  # of an identifier
_MIN_PREFIX_CHARACTERS = 2  # a single letter is the prefix of too many words


class Topic(NamedTuple):
    """What a query is about."""

    forms: list[Form]
    """Words, and parts of words."""
    identifiers: list[Form]
    """Paths, codes, versions and quotes."""
    prefix: str
    """The word that the user is still typing."""


def query_topic(query: Query, typing: bool) -> Topic:
    """What a query is about. With `typing`, its last word is unfinished."""
    words = _topic_words(query)
    if not typing:
        return Topic(_topic_forms(query, words), _identifiers(words), "")
    unfinished = unfinished_word(query.rest)
    if not is_too_short(unfinished):
        words = [word for word in words if word.text != unfinished]
        return Topic(_topic_forms(query, words), _identifiers(words), unfinished)
    forms, identifiers = _topic_forms(query, words), _identifiers(words)
    beginning = tuple(tokens(unfinished)[:-1])
    if beginning and is_identifier(unfinished):  # "JIRA-" of "JIRA-7"
        identifiers.append(beginning)
        if len(beginning) == 1:
            forms.append(beginning)
    return Topic(forms, identifiers, "")


def unfinished_word(text: str) -> str:
    """The word that the user is still typing."""
    if not text or text[-1].isspace():
        return ""
    return text.split()[-1]


def is_too_short(unfinished: str) -> bool:
    """Whether a word that the user is still typing is too short to be a prefix."""
    parts = tokens(unfinished)
    return not parts or len(parts[-1]) < _MIN_PREFIX_CHARACTERS or is_unspaced(parts[-1])


def _identifiers(words: Sequence[Word]) -> list[Form]:
    texts = [word.text for word in words if _is_exact(word)]
    # Whoever looks for a line of a file is glad to find the file, and a version may stand alone.
    texts += [part for text in texts for part in parts_that_stand_alone(text)]
    return [tuple(tokens(text)) for text in texts if text]


def _topic_words(query: Query) -> Sequence[Word]:
    """The words that say what a question is about; all content words if there are none."""
    assert query.node is not None
    language = query.language
    candidates = content_words(query.node, language)
    if len(candidates) == 1:
        return candidates
    framing = {word for frame in language.frames_in(query.rest) for word in tokens(frame)}
    if language is not ENGLISH:  # in English, they also match the dates of messages
        framing |= period_words(query.rest)
    topic = [word for word in candidates if not framing.issuperset(tokens(word.text))]
    return topic or candidates


def _is_exact(word: Word) -> bool:
    """Whether a word stands for exactly one thing: an identifier, or several words in quotes."""
    return is_identifier(word.text) or len(word.text.split()) > 1


def _topic_forms(query: Query, topic: Sequence[Word]) -> list[Form]:
    """The forms of the words, without particles of scripts without spaces if others remain.

    Keywords lose the "s" of "Ann's". Questions keep it, because their weights were fitted with it.
    """
    if classify(query.rest) == KEYWORDS:
        topic = [Word(_POSSESSIVE.sub("", word.text), word.prefix) for word in topic]
    language = unspaced_language(query.rest)
    forms = [f for word in topic for f in _forms(word.text, language) if _is_telling(word, f)]
    if forms:
        return forms
    other_words = [word for word in topic if not is_identifier(word.text)]
    return [form for word in other_words for form in _forms(word.text, None)]


def _is_telling(word: Word, form: Form) -> bool:
    """Whether a part of a word says something by itself. The numbers of a version do not."""
    if form == tuple(tokens(word.text)) or not is_identifier(word.text):
        return True
    return len(form[0]) >= _MIN_PART_LETTERS and form[0].isalpha()


def _forms(text: str, language: Language | None) -> Iterator[Form]:
    """The forms in one typed word, which may hold several (`asyncio.gather`, `well-known`).

    Text in a script without spaces is of this language, if it is known.
    """
    if language is not None:
        text = language.without_dates(text)
    joined = joined_word(text)
    if joined:
        yield (joined,)
        return
    run = ""  # consecutive characters of a script without spaces
    for token in tokens(text):
        if is_unspaced(token):
            run += token
            continue
        yield from _unspaced_forms(run, language)
        run = ""
        yield (token,)
    yield from _unspaced_forms(run, language)


def _unspaced_forms(run: str, language: Language | None) -> Iterator[Form]:
    """The pairs of characters and words of each part of a text between its particles.

    Also its nouns.
    """
    topics = [run]
    if language is not None:
        topics = language.topics_in(run)
        yield from map(tuple, language.nouns_in(run))
    for topic in topics:
        yield from _parts_and_words(topic)


def _parts_and_words(topic: str) -> Iterator[Form]:
    """The pairs of characters of a text, and its words in katakana.

    These are words of other languages, and say nothing in part: コンピュータ (computer) is not in
    キャンピングカー (camper), although both have a pair of the other.
    """
    place = 0
    for match in _KATAKANA_WORD.finditer(topic):
        yield from _pairs(topic, place, match.start())
        yield tuple(match[0])
        place = match.end()
    yield from _pairs(topic, place, len(topic))


def _pairs(text: str, start: int, end: int) -> Iterator[Form]:
    """The pairs of characters in a part of a text. A single character is paired with the next."""
    if start == end:
        return
    if end - start == 1:
        start, end = max(start - 1, 0), min(end + (start == 0), len(text))
    if end - start == 1:
        yield (text[start],)
    else:
        yield from pairwise(text[start:end])
