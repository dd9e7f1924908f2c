"""The intent of a query: a question, keywords, or an identifier.

The three are ranked differently. A question is answered by a message that says the same in other
words, so meaning, speaker and time count. Keywords name a passage that the user remembers, so its
words count. An identifier (a path, an error code, a version, a date) stands for exactly one thing,
so whatever contains it comes first.
"""

from __future__ import annotations

import re
from functools import lru_cache

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH
from recollect.language.text import PUNCTUATION_AROUND_WORDS, bare_word, is_unspaced, tokens

QUESTION = "question"
KEYWORDS = "keywords"
IDENTIFIER = "identifier"

MOST_KEYWORDS = 6
"""A longer query without operators is a sentence, and sentences are ranked like questions."""
_MOST_WORDS_OF_QUESTION = 60

_QUESTION_MARKS = ("?", "？", "؟")
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=\S)")
# A whole number with a unit or an ordinal, such as 9am, 2nd, 10k or 50%.
_AMOUNT = re.compile(r"[$€£]?\d{1,4}(?:st|nd|rd|th|am|pm|k|m|s|x|h|min|kg|km|gb|mb|%)?")
_IDENTIFIER = re.compile(
    r"""(?=.*\d)(?=.*[^\W\d_]|.*\d[-._/:#]\d).{3,}    # digits and more
    |[a-z]+(?:[A-Z][a-z0-9]+){2,}                      # camel case, not iPhone or YouTube
    |--[A-Za-z][\w-]*(?:=.*)?                          # an option of a command
    |[$€£]?(?:\d{5,}|\d{1,3}(?:,\d{3})+(?:\.\d+)?)     # 12345 or 1,249.50
    """,
    re.VERBOSE,
)
_JOINED = re.compile(r"[^\W_](?:_|/|\\|::|\.|@|#|&)[^\W_]")
# In capitals only at the beginning of a sentence, or in times; or short for words.
_ABBREVIATIONS = frozenset("A.M P.M E.G I.E P.S A.K.A Z.B D.H W/O B/C C/O".split())


@lru_cache(maxsize=1024)
def classify(text: str) -> str:
    """QUESTION, KEYWORDS or IDENTIFIER."""
    words = text.split()
    if not words:
        return QUESTION
    if all(is_identifier(word) for word in words):  # also "3.12.7?"
        return IDENTIFIER
    if is_asking(text, words) or is_sentence(text, words):
        return QUESTION
    return KEYWORDS


def is_statement(text: str) -> bool:
    """Whether a query is a sentence, or a part of one, that does not ask for anything.

    It is ranked like a question, but whoever types it probably remembers it. A long text was
    pasted, even if it ends with a question, and so was an error message such as "Cannot connect. Is
    the server running?".
    """
    if len(text.split()) > _MOST_WORDS_OF_QUESTION:
        return True
    first_sentence = _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
    return classify(text) == QUESTION and not is_asking(first_sentence, first_sentence.split())


def identifiers(text: str) -> list[str]:
    """The words of a query that are identifiers, without the punctuation around them."""
    return [word.strip(PUNCTUATION_AROUND_WORDS) for word in text.split() if is_identifier(word)]


def is_identifier(word: str) -> bool:
    """Whether a word, as typed, is a path, code, version, date, id, address or name in code."""
    bare = word.strip(PUNCTUATION_AROUND_WORDS)
    parts = tokens(bare)
    if not parts or any(map(is_unspaced, parts)):
        return False
    head, _, tail = bare.replace("’", "'").partition("'")
    if _AMOUNT.fullmatch(bare.lower()) or (head.isalpha() and tail.isalpha()):
        return False
    if _IDENTIFIER.fullmatch(bare):
        return True
    if not _JOINED.search(bare):
        return False
    # Not and/or, his/her or e.g., but names such as AT&T, U.S., A/B or i/o.
    letters = bare.split("." if bare.isupper() and "." in bare else "/")
    is_initials = len(letters) > 1 and all(len(each) == 1 and each.isalpha() for each in letters)
    if "&" in bare or (is_initials and bare.upper() not in _ABBREVIATIONS):
        return True
    return not all(part in ENGLISH.stop_words or len(part) == 1 for part in parts)


def is_asking(text: str, words: list[str]) -> bool:
    """Whether several words are worded as a question or a request."""
    if text.rstrip().endswith(_QUESTION_MARKS):
        return True
    language = language_of(text)
    if language.unspaced:
        return language.has("questions", text)
    if len(words) < 2 or language.has("no_questions", text):
        return False
    parts = [part for word in words[:2] for part in language.joined_parts(bare_word(word))]
    openings = [bare_word(words[0]), parts[0]]
    if language is not ENGLISH and parts[0] in language.stop_words:
        openings += parts[1:2]  # "o que", "mit wem", "à quoi"
    return not language.opening_words.isdisjoint(openings)


def is_sentence(text: str, words: list[str]) -> bool:
    """Whether several words are a sentence or a part of one, not just keywords."""
    language = language_of(text)
    if language.unspaced or len(words) == 1:
        return False
    bare = list(map(bare_word, words))
    parts = [part for word in bare for part in language.joined_parts(word)]
    if not language.persons.isdisjoint([*bare, *parts]):
        return True
    if any(is_unspaced(word) for word in words):
        return False
    function_words = sum(word in language.stop_words for word in bare)
    return len(words) > MOST_KEYWORDS or 2 * function_words > len(words)


# -- addressee ---
# Whose words answer a question: only those of the user, or those of the assistant as well.
#
# Most questions to a library of conversations are about the user's own life and work ("Which hotel
# did I book?"), and the user's own messages answer them. Three kinds of questions are different:
#
# - about what the assistant said: "Which hotel did you recommend?"
# - for advice or instructions: "How do I reset the router?", "Any tips for Rome?"
# - about the world in general, in the present tense: "How does yeast work?" A question that says
#   "I" or "my", or names somebody's things ("What is Anna's address?"), is not general.
#
# The first two are recognized in every language, the third in English.
#
# "Can you …" is a polite way to ask. "Can you tell me where I parked?" is about the user, and "What
# do you recommend?" is a request, not a question about what the assistant has recommended before.

_POLITE = re.compile(
    r"\b(?:can|could|would|will|do)\ you\ (?:please\ )?(?!remind\b)", re.IGNORECASE | re.VERBOSE
)
_POLITE_QUESTION = re.compile(
    r"""\s*(?:please\ )?(?:can|could|would|will)\ you\ (?:please\ )?
    (?:tell|remind|list|recall|walk|show|find)\b(?:\ (?:me|us)\b)?
    (?P<question>.*)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_ABOUT_WORLD = re.compile(
    r"""\s*(?:(?:what|which|how|why)(?:\ \w+)?(?:['’]s|\ (?:is|are|do|does|can))
    |is|are|do|does)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_FIRST_PERSON = frozenset("i me my mine myself we us our ours ourselves".split())


@lru_cache(maxsize=8)  # a search asks several times
def is_about_assistant(question: str) -> bool:
    """Whether it asks what the assistant said."""
    return language_of(question).has("asks_assistant", _POLITE.sub("", question))


@lru_cache(maxsize=8)
def is_about_user(question: str) -> bool:
    """Whether the user's own messages probably contain the answer."""
    if is_about_assistant(question) or language_of(question).has("requests", question):
        return False
    polite = _POLITE_QUESTION.match(question)
    if polite is not None and not ENGLISH.has("to_assistant", polite["question"]):
        return not _FIRST_PERSON.isdisjoint(tokens(polite["question"]))
    if ENGLISH.has("to_assistant", question):
        return False
    if not _ABOUT_WORLD.match(question):
        return True
    owners = [word for word in question.replace("’", "'").split()[1:] if "'s" in word]
    has_owner = any(word[0].isupper() for word in owners)
    return has_owner or not _FIRST_PERSON.isdisjoint(tokens(question))


def is_to_assistant(question: str) -> bool:
    """Whether the assistant should answer it: a request for advice, or a general question."""
    return not is_about_assistant(question) and not is_about_user(question)
