"""Pure functions on text and time: cleaning, folding, dates, truncation."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import UTC, date, datetime, time, timedelta
from hashlib import blake2b

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = -62135596800.0  # year 1
_LATEST = 253402300799.0  # year 9999
_LONGEST_NAME = 500
_NAME_BYTES = (
    1_200  # two names must fit into an entry of an index, which in PostgreSQL has 2,704 bytes
)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Scripts written without spaces between words: each character is its own token,
# so that any run of them can be found as a phrase.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u1a20-\u1aaf"
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u318f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00016fe0-\U00018cff\U0001b000-\U0001b16f\U00020000-\U0003ffff])"
)
# Signs that part words. An engine knows those of its own day only, and would take newer emoji for
# letters; and most texts are plain but for these, and plain ones are handled much faster.
_SIGNS = dict.fromkeys(
    [0xA0, 0xB0, 0xB7, *range(0x2000, 0x2070), *range(0x2190, 0x2BFF), *range(0x1F000, 0x1FB00)],
    " ",
)
_WORD = re.compile(
    "(?:[^\\W_]|[\ue000-\uf8ff\U000f0000-\U0010fffd])+"
)  # what is for private use can be a letter
_TO_SPACE = bytes(n if _WORD.match(chr(n)) else 0x20 for n in range(256))
_ACCENTS = re.compile("[\u0300-\u036f]")
_INVISIBLE = re.compile("[\U000e0000-\U000e007f]")
_CONTROL = re.compile(
    "[\ud800-\udfff\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]"
)


# -- storing ---------------------------------------------------------------


def storable(value: str) -> str:
    """Replace what UTF-8 or a database cannot hold (lone surrogates, NUL) by U+FFFD.

    One character stays one character, so offsets do not move.
    """
    if value.isascii():
        return value.replace("\0", "\ufffd")
    return _UNSTORABLE.sub("\ufffd", value) if _UNSTORABLE.search(value) else value


def identifier(value: str) -> str:
    """A name as it is stored and looked up: one too long for an index is cut, and a hash stands
    for the rest. Two different names stay different."""
    clean = storable(value)
    if len(clean) <= _LONGEST_NAME and (clean.isascii() or len(clean.encode()) <= _NAME_BYTES):
        return clean
    rest = blake2b(clean.encode(), digest_size=16).hexdigest()
    return f"{clean.encode()[: _NAME_BYTES - 200].decode(errors='ignore')[: _LONGEST_NAME - 40]}\u2026{rest}"


# -- matching --------------------------------------------------------------


def fold(value: str) -> str:
    """The form in which two texts are compared without regard to case."""
    return unicodedata.normalize("NFC", value).casefold() if not value.isascii() else value.lower()


def indexable(value: str) -> str:
    """The form in which text is indexed and looked up: lower case, without accents,
    compatibility forms unified, and the characters of scripts without spaces set apart."""
    if not value.isascii():
        value = value.translate(_SIGNS)
    if value.isascii():
        return value.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", value)).casefold()
    return _UNSPACED.sub(r" \1 ", unicodedata.normalize("NFC", bare))


def tokens(text: str) -> list[str]:
    """The words of a text, as the index has them."""
    prepared = indexable(text)
    if prepared.isascii():
        return prepared.encode().translate(_TO_SPACE).decode().split()
    return _WORD.findall(prepared)


def is_unspaced(value: str) -> bool:
    """Whether a text begins with a character of a script without spaces."""
    return _UNSPACED.match(value) is not None


def has_token(value: str) -> bool:
    """Whether the full-text tokeniser would find anything in `value`."""
    return any(c.isalnum() or unicodedata.category(c) == "Co" for c in value)


# -- showing ---------------------------------------------------------------


def truncate(value: str, length: int) -> str:
    """At most `length` characters, followed by `...` where something was cut."""
    return value if len(value) <= length else value[:length] + "..."


def printable(value: str) -> str:
    """Text that is safe on a terminal: no control sequences, no hidden characters."""
    return _CONTROL.sub("\ufffd", _INVISIBLE.sub("", value))


def for_model(value: str) -> str:
    """Text for a language model: without the invisible tag characters that smuggle instructions."""
    return _INVISIBLE.sub("", value)


# -- time ------------------------------------------------------------------


def moment(value: object) -> datetime | None:
    """A time as an origin wrote it: epoch seconds or milliseconds, or ISO 8601; None if it is none."""
    if type(value) is float:  # first, as the most frequent
        return _from_epoch(value)
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _from_epoch(float(value)) if abs(value) < 1 << 62 else None
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, str):
        return None
    text = value.strip()
    if not text or len(text) > 64:
        return None
    try:
        return _from_epoch(float(text))
    except ValueError:
        pass
    try:
        return moment(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def _from_epoch(seconds: float) -> datetime | None:
    if not math.isfinite(seconds):
        return None
    if abs(seconds) > 1e11:  # milliseconds; as seconds this would lie past the year 5138
        seconds /= 1000
    if not _EARLIEST <= seconds <= _LATEST:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def bound(value: str, *, end: bool) -> datetime:
    """An edge of a date range. A bare date is the start of that day UTC, or its end.

    Raises ValueError when the text is no ISO 8601 date or time.
    """
    text = value.strip()
    if len(text) > 64:
        raise ValueError("too long")
    try:
        day = date.fromisoformat(text)
    except ValueError:
        pass  # then it has a time, or is no date at all
    else:
        return datetime.combine(day, time(23, 59, 59, 999999) if end else time(0), tzinfo=UTC)
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError("outside the years 1 to 9999") from error


def iso(value: datetime | None) -> str | None:
    """ISO 8601 in UTC, with microseconds only where there are any."""
    return value.astimezone(UTC).isoformat() if value else None


def micros(value: datetime | None) -> int | None:
    """Microseconds since 1970, exactly; the form in which stores keep times."""
    return None if value is None else (value - EPOCH) // timedelta(microseconds=1)


def from_micros(value: int | None) -> datetime | None:
    return None if value is None else EPOCH + timedelta(microseconds=value)
