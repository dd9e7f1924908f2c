"""Text functions: cleaning, case folding and dates."""

from __future__ import annotations

import re
import sys
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.text import (
    LETTERS,
    bound,
    for_model,
    has_token,
    index_text,
    indexable,
    iso,
    moment,
    printable,
    storable,
    tokens,
    truncate,
)


@given(st.text())
def test_storable_text_has_the_same_length_and_can_be_encoded(text: str) -> None:
    clean = storable(text)
    assert len(clean) == len(text)
    clean.encode()
    assert "\0" not in clean


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (1714585031.148505, datetime(2024, 5, 1, 17, 37, 11, 148505, UTC)),
        ("1714585031.148505", datetime(2024, 5, 1, 17, 37, 11, 148505, UTC)),
        (1714585031148, datetime(2024, 5, 1, 17, 37, 11, 148000, UTC)),
        ("2026-03-01T10:00:00.000000Z", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01T10:00:00-05:00", datetime(2026, 3, 1, 15, tzinfo=UTC)),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (None, None),
        ("", None),
        ("yesterday", None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, None),
        ("9" * 400, None),
        ([], None),
    ],
)
def test_times_are_parsed_in_every_format_that_sources_use(
    raw: object, expected: datetime | None
) -> None:
    assert moment(raw) == expected


@pytest.mark.parametrize(
    ("text", "end", "expected"),
    [
        ("2024-01-15", False, "2024-01-15T00:00:00+00:00"),
        ("2024-01-15", True, "2024-01-15T23:59:59.999999+00:00"),
        ("20240115", True, "2024-01-15T23:59:59.999999+00:00"),
        ("9999-12-31", True, "9999-12-31T23:59:59.999999+00:00"),
        ("2024-01-15T14:30:00", True, "2024-01-15T14:30:00+00:00"),
        ("2024-01-15T14:30", False, "2024-01-15T14:30:00+00:00"),
        ("2024-01-15T14:30:00-05:00", False, "2024-01-15T19:30:00+00:00"),
        ("2024-01-15T14:30:00Z", False, "2024-01-15T14:30:00+00:00"),
    ],
)
def test_the_bounds_of_a_date_range_are_inclusive_and_in_utc(
    text: str, end: bool, expected: str
) -> None:
    assert iso(bound(text, end=end)) == expected


@pytest.mark.parametrize(
    "text", ["2024-13-45", "yesterday", "", "1" * 100, "-0001-01-01", "9999-12-31T23:59:59-10:00"]
)
def test_an_invalid_date_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        bound(text, end=False)


def test_characters_of_scripts_without_spaces_are_separated() -> None:
    assert indexable("日本語abcไทย").split() == ["日", "本", "語", "abc", "ไ", "ท", "ย"]
    assert indexable("Plain ASCII") == "plain ascii"


_SYMBOLS = dict.fromkeys(
    [0xA0, 0xB0, 0xB7, *range(0x2000, 0x2070), *range(0x2190, 0x2BFF), *range(0x1F000, 0x1FB00)],
    " ",
)
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u1a20-\u1aaf"
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u318f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00016fe0-\U00018cff\U0001b000-\U0001b16f\U00020000-\U0003ffff])"
)


def plain_indexable(text: str) -> str:
    """What `indexable` must return, written without regard to speed."""
    bare = unicodedata.normalize("NFKD", text.translate(_SYMBOLS))
    bare = re.sub("[\u0300-\u036f]", "", bare).casefold()
    bare = re.sub("[œæøłđ]", lambda letter: LETTERS[letter[0]], bare)
    return _UNSPACED.sub(r" \1 ", unicodedata.normalize("NFC", bare))


def check_indexing(text: str) -> None:
    prepared = plain_indexable(text)
    assert indexable(text) == prepared
    words = re.findall("(?:[^\\W_]|[\ue000-\uf8ff\U000f0000-\U0010fffd])+", prepared)
    assert tokens(text) == words


@pytest.mark.parametrize(
    "codes",
    [
        range(0, 0x20000, 0x1000),
        pytest.param(range(0x20000, sys.maxunicode + 1, 0x1000), marks=pytest.mark.full),
    ],
    ids=["most alphabets", "others"],
)
def test_every_character_is_indexed_as_a_plain_implementation_does(codes: range) -> None:
    for start in codes:
        characters = map(chr, range(start, start + 0x1000))
        check_indexing("\n".join(f"a{character}B" for character in characters))


_MIXED = st.text(
    st.one_of(st.characters(), st.sampled_from("aB1 _\n\u2019\u2014\xe9\u0301日本ไ가🎉\ue000"))
)


@given(_MIXED)
def test_any_text_is_indexed_as_a_plain_implementation_does(text: str) -> None:
    check_indexing(text)


@given(st.text(st.sampled_from("aB é—’→\xa0👍中ß_-\n\ud800\x1b[3m")))
def test_the_index_gets_the_same_words_with_other_spaces(text: str) -> None:
    assert re.sub(" +", " ", index_text(text)) == re.sub(" +", " ", indexable(text))


def test_control_and_invisible_characters_never_reach_a_terminal_or_a_model() -> None:
    assert printable("a\x1b]0;b\u202ec\td\n\U000e0041") == "a�]0;b�c\td\n"
    assert for_model("a\U000e0041\U000e0042b") == "ab"


def test_truncated_text_ends_with_dots() -> None:
    assert truncate("abcdef", 6) == "abcdef"
    assert truncate("abcdefg", 6) == "abcdef..."


def test_symbols_contain_no_token() -> None:
    assert not has_token("-> ++ %_ 🎉")
    assert has_token("c++") and has_token("日")
