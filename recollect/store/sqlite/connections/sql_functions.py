"""The SQL functions that statements and generated columns use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import apsw

from recollect.language.text import comparable, fold, has_all_words, storable, tokens
from recollect.store.sql.encoding import load
from recollect.store.sql.reading import human_only
from recollect.store.sql.tags import tag_columns
from recollect.store.sqlite.passages.compression import Codec, pack_id


def add_sql_functions(db: apsw.Connection, codec: Codec) -> None:
    """Add all functions to a connection."""
    # Generated columns may only use functions that are declared innocuous.
    for name, function, arguments in (
        ("content_of", codec.content, 1),
        ("metadata_of", codec.metadata, -1),  # two in an older schema, now three
    ):
        db.create_scalar_function(
            name, function, arguments, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
        )
    db.create_scalar_function("packed_id", _packed_id, 1, deterministic=True)
    db.create_scalar_function("contains", _contains, 2, deterministic=True)
    db.create_scalar_function("has_all_words", _has_all_words, 2, deterministic=True)
    db.create_scalar_function("folded", _fold_bytes, 1, deterministic=True)
    db.create_scalar_function("titled", _is_titled, 2, deterministic=True)
    db.create_scalar_function("folded_tags", _folded_tags, 1, deterministic=True)
    db.create_scalar_function("is_human_only", _is_human_only, 3, deterministic=True)
    db.create_scalar_function("tag_names", _tag_names, 1, deterministic=True)


def title_words(title: str) -> str:
    """The words of a title, with spaces around them."""
    return f" {' '.join(tokens(title))} "


@lru_cache(maxsize=16)  # a search compares it with every title
def title_pattern(phrase: str) -> str:
    """What the words of a title must contain."""
    if phrase.endswith("*"):
        return title_words(phrase)[:-1]
    return title_words(phrase)


def _packed_id(*values: Any) -> str | bytes | None:
    return pack_id(values[0])


def _contains(*values: Any) -> bool:
    text, folded_query = values
    return text is not None and folded_query in comparable(text)


def _has_all_words(*values: Any) -> bool:
    """Whether a text has all of some words, which are given with spaces between them."""
    text, words = values
    return text is not None and has_all_words(text, set(words.split()))


def _fold_bytes(*values: Any) -> str:
    """Takes bytes, because text in JSON may contain what Python cannot decode."""
    return fold(storable(bytes(values[0]).decode("utf-8", "replace")))


def _folded_tags(*values: Any) -> str | None:
    return tag_columns(load(values[0]))["tags"]


def _tag_names(*values: Any) -> str | None:
    return tag_columns(load(values[0]))["tag_names"]


def _is_titled(*values: Any) -> bool:
    """Whether a title contains a word or phrase. With a final `*`, the last word is a prefix."""
    title, phrase = values
    return title_pattern(phrase) in title_words(title)


def _is_human_only(*values: Any) -> bool:
    return human_only.is_human_only_row(*values)
