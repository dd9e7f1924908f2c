"""Which words of a query are about its topic: the others are stop words."""

from __future__ import annotations

from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.query_tree import Node, Word, words
from recollect.language.text import bare_word, has_token

_OPERATOR_WORDS = ("AND", "OR", "NOT", "NEAR")
_CONTRACTIONS = frozenset(["s", "re", "ve", "ll", "d", "m", "t"])


def content_words(node: Node, language: Language = ENGLISH) -> tuple[Word, ...]:
    """The words of a plain query without stop words; all words if only stop words are left.

    Function words that are joined to another word are cut off: `l'avion` is `avion`.
    """
    all_words = words(node)
    is_upper_case = all(word.text.upper() == word.text for word in all_words)
    content = [
        _without_joined_words(word, language)
        for word in all_words
        if not _is_stop_word(word.text, is_upper_case, language)
    ]
    return tuple(content or all_words)


def _is_stop_word(text: str, query_is_upper_case: bool, language: Language) -> bool:
    if text in _OPERATOR_WORDS:  # of a query that was not valid
        return True
    if len(text) > 1 and text.isupper() and not query_is_upper_case:  # IT, US, WHO
        return False
    bare = bare_word(text)
    if bare in language.stop_words:
        return True
    parts = language.joined_parts(bare)
    if len(parts) > 1:
        return all(part in language.stop_words for part in parts)
    head, _, tail = bare.partition("'")
    if tail not in _CONTRACTIONS:
        return False
    if tail == "t" and head.removesuffix("n") in language.stop_words:  # "isn't"
        return True
    return head in language.stop_words


def _without_joined_words(word: Word, language: Language) -> Word:
    """The word without the function words at its beginning and end."""
    parts = language.joined_parts(bare_word(word.text))
    if len(parts) == 1:
        return word
    while parts and parts[0] in language.stop_words:
        parts.pop(0)
    while parts and parts[-1] in language.stop_words:
        parts.pop()
    text = "-".join(parts)
    if not has_token(text):
        return word
    return Word(text, word.prefix)
