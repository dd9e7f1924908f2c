"""Pure functions on text and time: cleaning, folding, tokenizing, truncating, parsing dates."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from hashlib import blake2b

from recollect.language.symbols import (
    spell_out_symbols,
    without_symbol_names,
    without_terminal_codes,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_SECOND = -62135596800.0  # year 1
_LAST_SECOND = 253402300799.0  # year 9999
_MILLISECONDS_FROM = 1e11  # as seconds, this would be after the year 5138
_LONGEST_DATE = 64

_IDENTIFIER_LENGTH = 500
# Two identifiers must fit into one index entry, which has at most 2,704 bytes in PostgreSQL.
_IDENTIFIER_BYTES = 1_200

PUNCTUATION_AROUND_WORDS = "\"'“”‘’„«».,;:!?…¿¡()[]{}<>"

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Scripts written without spaces between words. Each character becomes a token of its own, so that
# any run of characters can be found as a phrase.
_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u19e0-\u19ff\u1a20-\u1aaf"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u318f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00016fe0-\U00018cff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# The first character of each range, and the character after its last one, in order.
_UNSPACED_BOUNDS = [
    bound
    for start in range(0, len(_UNSPACED), 3)
    for bound in (_UNSPACED[start], chr(ord(_UNSPACED[start + 2]) + 1))
]
# Symbols that separate words. They are replaced here for two reasons: a text engine only knows the
# symbols of its own Unicode version and would treat newer emoji as letters; and most texts are
# ASCII except for these, which makes them much faster to process.
_SYMBOLS = re.compile("[\xa0\xb0\xb7\u2000-\u206f\u2190-\u2bfe\U0001f000-\U0001faff]")
_ONLY_SYMBOLS = re.compile(f"{_SYMBOLS.pattern}*")
# Replacing a few distinct symbols one by one is several times faster than the pattern.
_MAX_REPLACED_SINGLY = 8
_ASCII = bytes(range(128))
_LOWER_CASE_OR_SPACE = _ASCII.lower() + b" " * 128
# Private-use characters count as letters. Underscores do not, so they are replaced before.
_WORD = re.compile("[\\w\ue000-\uf8ff\U000f0000-\U0010fffd]+")


_WORDS_IN_LOWER_CASE = (
    bytes(code if chr(code).isalnum() else 0x20 for code in range(128)).lower() + b" " * 128
)
_ACCENTS = re.compile("[\u0300-\u036f]")
LETTERS = {"œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d"}
"""What people type for letters that Unicode does not decompose."""
_TAG_CHARACTERS = dict.fromkeys(range(0xE0000, 0xE0080))
_MODEL_CONTROL = dict.fromkeys(
    [
        *(set(range(0x20)) - set(b"\t\n\r")),
        *(*range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
    ],
    "\ufffd",
)
_CONTROL = _MODEL_CONTROL | dict.fromkeys([0xD, 0x200E, 0x200F, *range(0xD800, 0xE000)], "\ufffd")


# -- storing ---------------------------------------------------------------


def storable(value: str) -> str:
    """Replace what UTF-8 or a database cannot store (lone surrogates, NUL) with U+FFFD.

    The length stays the same, so offsets remain valid.
    """
    if value.isascii():
        return value.replace("\0", "\ufffd")
    return _UNSTORABLE.sub("\ufffd", value)


def identifier(value: str) -> str:
    """An identifier as it is stored and looked up.

    Identifiers too long for an index are cut, and a hash of the whole is appended, so different
    identifiers stay different.
    """
    clean = storable(value)
    fits = clean.isascii() or len(clean.encode()) <= _IDENTIFIER_BYTES
    if fits and len(clean) <= _IDENTIFIER_LENGTH:
        return clean
    digest = blake2b(clean.encode(), digest_size=16).hexdigest()
    head = clean.encode()[: _IDENTIFIER_BYTES - 200].decode(errors="ignore")
    return f"{head[: _IDENTIFIER_LENGTH - 40]}\u2026{digest}"


# -- matching --------------------------------------------------------------


def fold(value: str) -> str:
    """The form in which texts are compared case-insensitively."""
    if value.isascii():
        return value.lower()
    return unicodedata.normalize("NFC", value).casefold()


def bare_word(word: str) -> str:
    """A word in lower case, without the punctuation around it."""
    return fold(word).replace("’", "'").strip(PUNCTUATION_AROUND_WORDS)


def comparable(value: str) -> str:
    """The form in which a text is searched literally."""
    return fold(without_terminal_codes(value))


def indexable(value: str) -> str:
    """The form in which text is indexed and searched.

    Lower case, without accents, with compatibility forms unified, and with spaces around each
    character of a script that is written without spaces. Codes of terminals are left out, and the
    symbols of names such as C++ are spelled out.
    """
    return indexable_as_written(readable(value))


def indexable_fragment(value: str) -> str:
    """Like `indexable`, for a part of a text.

    It may begin or end inside a word or a name such as C++.
    """
    return indexable_as_written(without_symbol_names(without_terminal_codes(value)))


def readable(value: str) -> str:
    """A text without codes of terminals, with the symbols of names spelled out."""
    return spell_out_symbols(without_terminal_codes(value))


def indexable_as_written(value: str) -> str:
    """The form in which older versions indexed text: with codes of terminals, and C++ as a C."""
    if not value.isascii():
        value = replace_symbols(value)
    if value.isascii():
        return value.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", value)).casefold()
    for letter, plain in LETTERS.items():
        bare = bare.replace(letter, plain)
    if bare.isascii():
        return bare
    # Faster than `sub`: the parts and the characters between them alternate in the list.
    return " ".join(unspaced_pattern().split(unicodedata.normalize("NFC", bare)))


def index_text(value: str) -> str:
    """The same words as `indexable`, but there may be several spaces instead of one.

    Texts whose only other characters are symbols need half the time.
    """
    value = readable(value)
    if value.isascii():
        return value.lower()
    encoded = value.encode("utf-8", "surrogatepass")
    if _ONLY_SYMBOLS.fullmatch(decode_others(encoded)):
        return encoded.translate(_LOWER_CASE_OR_SPACE).decode("ascii")
    return indexable_as_written(value)


@cache
def unspaced_pattern() -> re.Pattern[str]:
    """A character of these scripts. Compiled on first use: it takes 1 % of a cold search."""
    return re.compile(f"([{_UNSPACED}])")


def non_ascii_characters(value: str) -> set[str]:
    """The characters of a text that are not ASCII. Most texts have none or a few."""
    return set(decode_others(value.encode("utf-8", "surrogatepass")))


def decode_others(encoded: bytes) -> str:
    """The characters of a text in UTF-8 that are not ASCII."""
    return encoded.translate(None, _ASCII).decode("utf-8", "surrogatepass")


def replace_symbols(value: str) -> str:
    others = non_ascii_characters(value)
    if len(others) > _MAX_REPLACED_SINGLY:
        return _SYMBOLS.sub(" ", value)
    for character in others:
        if _SYMBOLS.match(character):
            value = value.replace(character, " ")
    return value


def tokens(text: str) -> list[str]:
    """The words of a text, as the index has them."""
    text = readable(text)
    encoded = text.encode("utf-8", "surrogatepass")
    if not text.isascii():
        others = decode_others(encoded)
        if not _ONLY_SYMBOLS.fullmatch(others):
            for character in set(others):
                form = form_in_ascii(character)
                if form is None:
                    return _WORD.findall(indexable_as_written(text).replace("_", " "))
                text = text.replace(character, form)
            encoded = text.encode()
    # The bytes of symbols are separators.
    return encoded.translate(_WORDS_IN_LOWER_CASE).decode().split()


def has_all_words(text: str, words: set[str]) -> bool:
    """Whether a text has all of some words; False if there are none."""
    if not words:
        return False
    indexable_text = indexable(text)
    # Most texts fail this cheap test, so few of them are split into words.
    return all(word in indexable_text for word in words) and words.issubset(tokens(text))


@cache
def form_in_ascii(character: str) -> str | None:
    """What the index has for a character in every text, if that is ASCII; else None."""
    form = indexable(character)
    if form.isascii():
        return form
    # A mark may belong to the letter before it.
    if unicodedata.combining(character) or _WORD.search(form):
        return None
    return " "


def is_unspaced(value: str) -> bool:
    """Whether a text begins with a character of a script written without spaces."""
    return not value[:1].isascii() and bisect(_UNSPACED_BOUNDS, value[0]) % 2 == 1


def has_token(value: str) -> bool:
    """Whether the text engine would find at least one token in `value`."""
    return any(c.isalnum() or unicodedata.category(c) == "Co" for c in value)


# -- umlauts ---
# The index has letters without their marks: Müller is `muller` there, and Søren is `soren`.

_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"}
_TRANSCRIBED = str.maketrans(_UMLAUTS | {k.upper(): v for k, v in _UMLAUTS.items()})
# Not the letters of "neue", "Bauer" and "queue".
_UMLAUT = re.compile("ae|oe|aa|(?<![aeq])ue")


def transcribed(text: str) -> str:
    """A text with two letters instead of each umlaut."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).translate(_TRANSCRIBED)


def transcriptions(text: str) -> dict[str, str]:
    """The words with umlauts in a text and their transcriptions, both as they are indexed."""
    other = transcribed(text)
    if other == text:
        return {}
    pairs = zip(tokens(text), tokens(other), strict=False)
    return {word: transcription for word, transcription in pairs if word != transcription}


def with_umlauts(word: str) -> str:
    """What a word is in the index if it was written with umlauts."""
    return _UMLAUT.sub(lambda match: match[0][0], word)


# -- displaying ------------------------------------------------------------


def truncate(value: str, length: int) -> str:
    """At most `length` characters, followed by `...` if something was cut off."""
    if len(value) <= length:
        return value
    return value[:length] + "..."


def printable(value: str) -> str:
    """Text that is safe on a terminal: no control sequences, no hidden characters."""
    if value.isascii() and value.isprintable():
        return value
    return without_invisible(value).translate(_CONTROL)


def printable_line(value: str) -> str:
    """A text in one line that is safe on a terminal."""
    return printable(" ".join(value.split()))


def for_model(value: str) -> str:
    """Text that is safe to give to a language model.

    Removes the invisible tag characters, which can carry hidden instructions, and replaces control
    sequences of terminals and of bidirectional text, which hide or reorder what a person sees.
    """
    if value.isascii() and value.isprintable():
        return value
    return without_invisible(value).translate(_MODEL_CONTROL)


def without_invisible(value: str) -> str:
    return without_terminal_codes(value.translate(_TAG_CHARACTERS))


# -- time ------------------------------------------------------------------


def moment(value: object) -> datetime | None:
    """Parse a time from a source: epoch seconds or milliseconds, or ISO 8601; else None."""
    if type(value) is float:  # the most frequent case
        return from_epoch(value)
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        if abs(value) >= 1 << 62:
            return None
        return from_epoch(float(value))
    if isinstance(value, datetime):
        return in_utc(value)
    if isinstance(value, str):
        return parse_moment(value.strip())
    return None


def parse_moment(text: str) -> datetime | None:
    if not text or len(text) > _LONGEST_DATE:
        return None
    try:
        return from_epoch(float(text))
    except ValueError:
        pass  # it is no number
    try:
        return in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def from_epoch(seconds: float) -> datetime | None:
    if not math.isfinite(seconds):
        return None
    if abs(seconds) > _MILLISECONDS_FROM:
        seconds /= 1000
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def in_utc(value: datetime, zone: tzinfo | None = UTC) -> datetime:
    """Times without a time zone are in `zone`, or in that of this computer if it is None."""
    if value.tzinfo is None and zone is not UTC:
        with suppress(OverflowError, ValueError):  # the first and the last day of all
            return value.replace(tzinfo=zone).astimezone(UTC)
    if value.tzinfo:
        return value.astimezone(UTC)
    return value.replace(tzinfo=UTC)


def bound(value: str, *, end: bool, zone: tzinfo | None = UTC) -> datetime:
    """Parse the start or the end of a date range. A day, a month or a year means all of it.

    `zone` is that of days and of times without one; None is that of this computer. Raises
    ValueError if the text is not an ISO 8601 date or time.
    """
    text = value.strip()
    if len(text) > _LONGEST_DATE:
        raise ValueError("too long")
    try:
        day = parse_day(text, end=end)
    except ValueError:
        pass  # it has a time, or it is not a date
    else:
        if end:
            return in_utc(datetime.combine(day, time(23, 59, 59, 999999)), zone)
        return in_utc(datetime.combine(day, time(0)), zone)
    try:
        return in_utc(datetime.fromisoformat(text), zone)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error


def parse_day(text: str, *, end: bool) -> date:
    """A day, or the first or last day of a month or year. Raises ValueError."""
    year, _, month = text.partition("-")
    if len(year) != 4 or not (text.isascii() and year.isdecimal()) or (month and len(month) != 2):
        return date.fromisoformat(text)
    if not end:
        return date(int(year), int(month or 1), 1)
    # Seldom needed, and most programs start without it.
    from calendar import monthrange

    last_month = int(month or 12)
    return date(int(year), last_month, monthrange(int(year), last_month)[1])


def iso(value: datetime | None) -> str | None:
    """ISO 8601 in UTC, with microseconds only if there are any."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat()


def micros(value: datetime | None) -> int | None:
    """Microseconds since 1970, the exact form in which stores keep times."""
    if value is None:
        return None
    return (value - EPOCH) // _MICROSECOND


def from_micros(value: int | None) -> datetime | None:
    """The time of `micros`."""
    if value is None:
        return None
    return EPOCH + timedelta(0, 0, value)
