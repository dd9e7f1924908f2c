"""Split text into words exactly as FTS5 does."""

from __future__ import annotations

from functools import cache
from typing import cast

import apsw

# FTS5 truncates longer words.
_MAX_WORD_BYTES = 32_768
_MAX_BYTES_PER_CHARACTER = 4
_ASCII_SEPARATORS_TO_SPACE = bytes(n if n < 128 and chr(n).isalnum() else 0x20 for n in range(256))


def split_words(text: str) -> str:
    """The words of a text that is `indexable`, separated by spaces."""
    if text.isascii():
        words = text.encode().translate(_ASCII_SEPARATORS_TO_SPACE).decode()
    else:
        words = " ".join(_tokenize(text))
    if _may_be_too_long(words):
        return " ".join(truncate_word(word) for word in words.split())
    return words


def truncate_word(word: str) -> str:
    """A word as FTS5 indexes it: at most 32,768 bytes."""
    if _may_be_too_long(word):
        return word.encode()[:_MAX_WORD_BYTES].decode(errors="ignore")
    return word


def _may_be_too_long(text: str) -> bool:
    return len(text) > _MAX_WORD_BYTES // _MAX_BYTES_PER_CHARACTER


def _tokenize(text: str) -> list[str]:
    tokens = _tokenizer()(
        text.encode(),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return cast("list[str]", tokens)


@cache
def _tokenizer() -> apsw.FTS5Tokenizer:
    """The tokenizer of the table passage_text."""
    return apsw.Connection(":memory:").fts5_tokenizer("unicode61", ["remove_diacritics", "0"])
