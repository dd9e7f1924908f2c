"""Stream JSON one record at a time, from files that may be damaged or larger than memory.

`records` reads a list of records (also `{"conversations": […]}`, or bare objects), `lines` reads
JSON Lines, and `peek` returns the keys of the first record without reading past the head.

A window slides over the text, and one value at a time is decoded from it: by orjson if the end of
the record is visible, otherwise by the standard library. The latter accepts what orjson rejects or
changes: lone surrogates, huge numbers, NaN, control characters. Numbers that JSON cannot represent
become strings. A damaged record becomes a Problem; reading continues at the next object that looks
like a record.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Collection, Iterator
from json import JSONDecodeError
from typing import Any

import orjson

from recollect.importers.entries import UNREADABLE, Entry
from recollect.model.chat_messages import nested_too_deeply, parse_float
from recollect.model.receipts import Problem
from recollect.settings import LIMITS

_CHUNK = 1 << 20
_MAX_DIGITS = 300  # a longer number overflows a float
_UNDECODABLE = "\udcff"
# A value that the window cuts off fails at most this far before the end, unless it is a string.
_CUT_MARGIN = 32
_TRUNCATED_FILE = "file cannot be read to its end"
_INVALID = "not valid JSON"
_REPLACED = "bytes that are not text were replaced"
_TOO_DEEP = f"nested more than {LIMITS.nesting} levels deep"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DIGITS = bytes(0x30 if chr(n).isdigit() and n < 128 else 0x20 for n in range(256))
_LONG_NUMBER = b"0" * 19
_SALVAGE_EFFORT = 8  # how much damaged text is searched for records, in sizes of the file
_MIN_EFFORT = 4 * _CHUNK

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_LIST_START = re.compile(
    rf"\s*+(?:\[|\{{(?:\s*+{_STRING}\s*+:\s*+(?:{_STRING}|[-+.\w]++)\s*+,)*+"
    r'\s*+"conversations"\s*+:\s*+\[)',
    re.DOTALL,
)
_SEPARATOR = re.compile(rf"\s*+,\s*+\{{\s*+{_STRING}\s*+:")
_GAP = re.compile(r"[\s,]*+")
# An object in a list, except the first. Quotes in strings are escaped, so `{"` is never in one.
_NEXT_OBJECT = re.compile(r'[,}\]]\s{0,999}+(\{)(?=\s{0,999}+")')
_NEXT_OBJECT_CUT = re.compile(r"[,}\]]\s{0,999}+(?:\{\s{0,999}+)?+\Z")
_KEY_OR_BRACKET = re.compile(rf'({_STRING})(\s*+:)?|[\[\]{{}}"]', re.DOTALL)


def mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _UNDECODABLE, error.end


codecs.register_error("recollect.mark", mark_undecodable)


def parse_int(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MAX_DIGITS else digits


_DECODER = json.JSONDecoder(
    parse_int=parse_int, parse_float=parse_float, parse_constant=str, strict=False
)


class _InvalidError(ValueError):
    """Text that is not a value. `cost` is how many characters were read to find out."""

    def __init__(
        self, reason: str, detail: str = "", *, cost: int = 1, at_end: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.cost, self.at_end = reason, detail, cost, at_end

    def problem(self, where: str, unit: str) -> Problem:
        if self.detail:
            where = f"{where}: {self.detail}"
        return Problem(self.reason, where, failed=True, unit=unit)


# -- records -----------------------------------------------------------------


def records(entry: Entry, marks: Collection[str] = ()) -> Iterator[tuple[int, Any] | Problem]:
    """The records of a JSON file with their index, and a Problem for each damaged one.

    `marks` are keys that identify a record after a damaged one; one of them is enough.
    """
    try:
        with open_text(entry) as file:
            window = _Window(file, _MIN_EFFORT + _SALVAGE_EFFORT * entry.size)
            yield from _records(window, frozenset(marks))
    except UNREADABLE as error:
        yield failure(_TRUNCATED_FILE, str(error))


def _records(window: _Window, marks: frozenset[str]) -> Iterator[tuple[int, Any] | Problem]:
    start = _LIST_START.match(window.text)
    if start:
        window.position = start.end()
    index = 0
    while (character := window.next_character()) or start or not index:
        where = f"record {index}, character {window.offset}"
        if character == "]" and start:  # the end, unless the list was closed by damaged text
            window.position += 1
            following = window.next_character()
            if not following or "{" in start[0]:
                break
            window.position += following == "["  # two lists in one file
            continue
        try:
            value, fault = window.read_value()
        except _InvalidError as error:
            yield error.problem(where, "conversations")
            if error.at_end or not window.find_record(marks):
                break
        else:
            if fault:
                yield failure(fault, where)
            if fault != _TOO_DEEP:
                yield index, value
        index += 1
    if window.failure:
        yield window.failure


def failure(reason: str, where: str) -> Problem:
    return Problem(reason, where=where, failed=True, unit="conversations")


class _Window:
    """The part of a file's text that is being read. It moves through the file."""

    def __init__(self, file: io.TextIOWrapper, effort: int) -> None:
        """`effort` is how many characters may be read in search of records after damaged ones."""
        self._file = file
        self._effort = effort
        self._dropped = 0
        self._at_end = False
        self._separator = ""
        self.text = ""
        self.position = 0
        self.failure: Problem | None = None
        self.grow()

    @property
    def offset(self) -> int:
        return self._dropped + self.position

    def grow(self) -> bool:
        """Drop the text before the position and at least double the rest; False at the end."""
        if self._at_end:
            return False
        try:
            text = self._file.read(max(_CHUNK, len(self.text) - self.position))
        except UNREADABLE as error:
            self.failure = failure(_TRUNCATED_FILE, str(error))
            text = ""
        if not text:
            self._at_end = True
            return False
        self.text = self.text[self.position :] + text
        self._dropped += self.position
        self.position = 0
        return True

    def next_character(self) -> str:
        """The first character of the next value, or "" at the end of the file."""
        while True:
            gap = _GAP.match(self.text, self.position)
            if gap is not None:
                self.position = gap.end()
            if self.position < len(self.text):
                return self.text[self.position]
            if not self.grow():
                return ""

    def read_value(self) -> tuple[Any, str]:
        """Read one value and move past it. Also returns what is wrong with the value, or "".

        A record ends where the text that separates the first two records occurs again: then orjson
        decodes it. If that text is inside a record, decoding fails, and nothing is lost.
        """
        if len(self.text) - self.position < _CHUNK:
            self.grow()  # so that only a record larger than a chunk is decoded twice
        start = self.position
        end = self.text.find(self._separator, start) + 1 if self._separator else 0
        value = decode_fast(self.text[start:end]) if end else None
        if value is None:
            value, end = self._decode()
            start = self.position
        self.position = end
        if may_be_too_deep(self.text[start:end]) and nested_too_deeply(value):
            return None, _TOO_DEEP
        if self.text.find(_UNDECODABLE, start, end) < 0:
            return value, ""
        return _DECODER.decode(self.text[start:end].replace(_UNDECODABLE, "\ufffd")), _REPLACED

    def find_record(self, marks: frozenset[str]) -> bool:
        """Move to the next object with one of `marks`, damaged or not; False if there is none."""
        while self._effort > 0:
            match = _NEXT_OBJECT.search(self.text, self.position)
            if match is None:
                cut = _NEXT_OBJECT_CUT.search(self.text, self.position)
                self.position = cut.start() if cut else len(self.text)
                if not self.grow():
                    return False
                continue
            self.position = match.start(1)
            try:
                value, end = self._decode()
            except _InvalidError as error:
                # To make an error, Python counts the lines before it.
                self._effort -= error.cost + (self.position >> 6)
                found = self.text[self.position : self.position + error.cost]
                if error.reason != _TOO_DEEP and any(f'"{mark}"' in found for mark in marks):
                    return True
                self.position += 1
                continue
            if not marks or not marks.isdisjoint(value):
                return True
            self.position = end
        self.failure = failure("file is too damaged to continue", f"character {self.offset}")
        return False

    def _decode(self) -> tuple[Any, int]:
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.position)
            except RecursionError:
                raise _InvalidError(_TOO_DEEP, cost=_CHUNK) from None  # the cost in time
            except JSONDecodeError as error:
                self._grow_or_raise(error)
                continue
            separator = _SEPARATOR.match(self.text, end)
            if separator:
                self._separator = "}" + separator[0]
            # A number at the end of the window may continue after it.
            is_complete = isinstance(value, (dict, list)) or len(self.text) - end > _CUT_MARGIN
            if is_complete or not self.grow():
                return value, end

    def _grow_or_raise(self, error: JSONDecodeError) -> None:
        length = len(self.text) - self.position
        is_unclosed = error.msg.startswith("Unterminated string")
        cost = length if is_unclosed else error.pos - self.position + 1
        invalid = _InvalidError(_INVALID, error.msg, cost=cost)
        if error.pos < len(self.text) - _CUT_MARGIN and not is_unclosed:
            raise invalid
        if length > LIMITS.record_characters:
            reason = f"record of more than {LIMITS.record_characters:,} characters"
            raise _InvalidError(reason, cost=length)
        if self.grow():
            return
        if not is_unclosed and any(c in self.text[error.pos :] for c in '"]}'):
            raise invalid
        is_empty = not self._dropped and not self.text.strip()
        reason = "empty file" if is_empty else "file ends too early"
        raise _InvalidError(reason, cost=length, at_end=True)


def may_be_too_deep(text: str) -> bool:
    """Whether a value may be nested too deeply, judged by its brackets: a cheap first test.

    Innermost pairs are removed a few times. Of a shallow value nothing remains, except for odd
    brackets in its strings. Each level that remains has two brackets.
    """
    brackets = text.encode(errors="surrogatepass").translate(None, _NO_BRACKETS)
    for _ in range(8):
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return len(brackets) > LIMITS.nesting


# -- lines -------------------------------------------------------------------


def lines(entry: Entry) -> Iterator[tuple[int, Any] | Problem]:
    """The values of a JSON Lines file with their line number, and a Problem for each bad line."""
    try:
        with open_text(entry) as file:
            yield from _lines(file)
    except UNREADABLE as error:
        yield Problem(_TRUNCATED_FILE, str(error), failed=True)


def _lines(file: io.TextIOWrapper) -> Iterator[tuple[int, Any] | Problem]:
    limit = LIMITS.record_characters
    number = 0
    while True:
        line = file.readline(limit + 1)
        if not line:
            return
        number += 1
        where = f"line {number}"
        if len(line) > limit:
            while line and not line.endswith("\n"):
                line = file.readline(_CHUNK)
            yield Problem(f"line of more than {limit:,} characters", where=where, failed=True)
        elif not line.isspace():
            try:
                value = decode(line)
            except _InvalidError as error:
                is_cut = error.reason == _INVALID and not line.endswith("\n")
                unfinished = Problem("unfinished last line", where)
                yield unfinished if is_cut else error.problem(where, "messages")
                continue
            if _UNDECODABLE in line:
                yield Problem(_REPLACED, where, failed=True)
                value = decode(line.replace(_UNDECODABLE, "\ufffd"))
            yield number, value


# -- values ------------------------------------------------------------------


def decode_fast(text: str) -> Any:
    """Decode one JSON value with orjson; None if orjson rejects it or would lose precision."""
    data = text.encode(errors="surrogatepass")
    if _LONG_NUMBER in data.translate(_DIGITS):  # orjson rounds numbers beyond 64 bits
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def decode(text: str) -> Any:
    """Decode one JSON value. Raises ValueError if it is invalid or nested too deeply."""
    value = decode_fast(text)
    if value is not None and not may_be_too_deep(text):
        return value
    try:
        value = _DECODER.decode(text)
    except JSONDecodeError as error:
        raise _InvalidError(_INVALID, error.msg) from None
    except RecursionError:
        raise _InvalidError(_TOO_DEEP) from None
    if may_be_too_deep(text) and nested_too_deeply(value):
        raise _InvalidError(_TOO_DEEP)
    return value


# -- detection ---------------------------------------------------------------


def peek(entry: Entry) -> frozenset[str]:
    """The keys of the first record, or of the first line, as far as they are in the file's head."""
    try:
        head = entry.head()
    except UNREADABLE:
        return frozenset()
    text = head.decode(json.detect_encoding(head), "replace").removeprefix("\ufeff")
    list_start = _LIST_START.match(text)
    start = list_start.end() if list_start else 0
    keys = set()
    depth = 0
    for token in _KEY_OR_BRACKET.finditer(text, start):
        string, colon = token.groups()
        if string:
            if colon and depth == 1:
                keys.add(string[1:-1])
        elif token[0] in "[{":
            depth += 1
        else:  # a closing bracket, or a string that is cut off
            depth -= 1
            if depth <= 0 or token[0] == '"':
                break
    return frozenset(keys)


def open_text(entry: Entry) -> io.TextIOWrapper:
    """The file as text: UTF-8 or UTF-16, without a byte-order mark, undecodable bytes marked."""
    encoding = json.detect_encoding(entry.head(4))
    if encoding == "utf-8":
        encoding = "utf-8-sig"
    return io.TextIOWrapper(entry.open(), encoding, "recollect.mark", newline="\n")
