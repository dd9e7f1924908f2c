"""JSON one record at a time, from files that may be larger than memory or broken.

`records` reads a list of records (or one wrapped in `{"conversations": […]}`, or
a bare object), `lines` reads JSON Lines, and `peek` looks at the first record
without reading past the head of the file. A window slides over the text and one
value at a time is taken from it: by orjson where the end of the record can be
seen, else by the standard library's decoder, which keeps what a strict parser
rejects or changes: lone surrogates, huge numbers, NaN, control characters.
Numbers that JSON cannot hold stay text. A broken record becomes a Problem, and
the next object that looks like a record is read.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator
from itertools import chain
from json import JSONDecodeError
from typing import Any

import orjson

from recollect.errors import UnsafeFile
from recollect.importers.entries import Entry
from recollect.model.receipts import Problem
from recollect.settings import LIMITS

UNREADABLE = (OSError, UnsafeFile, zlib.error, NotImplementedError)
_CHUNK = 1 << 20
_LONGEST_NUMBER = 300  # digits; a longer one overflows a float
_UNDECODABLE = "\udcff"
# A value cut off by the end of the window fails at most this far before it, unless it is a string.
_CUT_MARGIN = 32
_UNREADABLE = "file cannot be read to its end"
_INVALID = "not valid JSON"
_REPLACED = "bytes that are no text were replaced"
_TOO_DEEP = f"nested more than {LIMITS.nesting} levels deep"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DIGITS = bytes(0x30 if chr(n).isdigit() and n < 128 else 0x20 for n in range(256))
_LONG_NUMBER = b"0" * 19
_SALVAGE_EFFORT = 4  # how much broken text may be read in search of whole records, in record sizes

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_LIST_START = re.compile(
    rf'\s*+(?:\[|\{{(?:\s*+{_STRING}\s*+:\s*+(?:{_STRING}|[-+.\w]++)\s*+,)*+\s*+"conversations"\s*+:\s*+\[)',
    re.DOTALL,
)
_BETWEEN = re.compile(rf"\s*+,\s*+\{{\s*+{_STRING}\s*+:")
_CLOSING = re.compile(r'["\]}]')
_GAP = re.compile(r"[\s,]*+")
# An object in a list but not the first. A quote inside a string is escaped, so `{"` is never inside one.
_NEXT_OBJECT = re.compile(r'[,}\]]\s{0,999}+(\{)(?=\s{0,999}+")')
_NEXT_OBJECT_CUT = re.compile(r"[,}\]]\s{0,999}+(?:\{\s{0,999}+)?+\Z")
_KEY_OR_BRACKET = re.compile(rf'({_STRING})(\s*+:)?|[\[\]{{}}"]', re.DOTALL)


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _UNDECODABLE, error.end


codecs.register_error("recollect.mark", _mark_undecodable)


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else digits


def _real(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_real, parse_constant=str, strict=False)


class _BrokenError(ValueError):
    """Text that is no value; `cost` is how much of it was read to find out."""

    def __init__(
        self, reason: str, detail: str = "", *, cost: int = 1, ended: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail
        self.cost = cost
        self.ended = ended


# -- records ---------------------------------------------------------------


def records(entry: Entry, marks: Collection[str] = ()) -> Iterator[tuple[int, Any] | Problem]:
    """The records of a JSON file with their index, and a Problem for each that is broken.

    `marks` are keys by which a record is known again behind a broken one; one of them is enough.
    """
    try:
        with _opened(entry) as file:
            yield from _records(_Window(file), frozenset(marks))
    except UNREADABLE as error:
        yield _broken(_UNREADABLE, str(error))


def _records(window: _Window, marks: frozenset[str]) -> Iterator[tuple[int, Any] | Problem]:
    listed = window.enter_list()
    index = 0
    while (character := window.next_character()) or listed or not index:
        where = f"record {index}, character {window.offset}"
        try:
            if character == "]" and listed:
                if window.ends_behind_list():
                    break
                continue
            value, fault = window.take()
        except _BrokenError as error:
            yield _broken(error.reason, f"{where}: {error.detail}" if error.detail else where)
            if error.ended or not window.find_record(marks):
                break
        else:
            if fault:
                yield _broken(fault, where)
            if fault != _TOO_DEEP:
                yield index, value
        index += 1
    if window.given_up:
        yield window.given_up


def _broken(reason: str, where: str) -> Problem:
    return Problem(reason, where=where, failed=True, unit="conversations")


class _Window:
    """The stretch of a file's text that is being read: it grows at its end and is cut at its start."""

    def __init__(self, file: io.TextIOWrapper) -> None:
        self._file = file
        self._dropped = 0
        self._ended = False
        self._wrapped = False
        self._separator = ""
        self._effort = _SALVAGE_EFFORT * LIMITS.record_characters
        self.text = ""
        self.at = 0
        self.given_up: Problem | None = None
        self.more()

    @property
    def offset(self) -> int:
        return self._dropped + self.at

    def more(self) -> bool:
        """Cut what has been read and at least double the rest; False where the file ends."""
        if self._ended:
            return False
        try:
            added = self._file.read(max(_CHUNK, len(self.text) - self.at))
        except UNREADABLE as error:
            added = ""
            self.given_up = _broken(_UNREADABLE, str(error))
        if not added:
            self._ended = True
            return False
        self._cut()
        self.text += added
        return True

    def _cut(self) -> None:
        self.text = self.text[self.at :]
        self._dropped += self.at
        self.at = 0

    def enter_list(self) -> bool:
        """Step inside the list of records; False when the file holds bare records."""
        match = _LIST_START.match(self.text)
        self.at = match.end() if match else 0
        self._wrapped = match is not None and "{" in match[0]
        return match is not None

    def ends_behind_list(self) -> bool:
        """Step out of the list and, where files were put end to end, into the next one."""
        self.at += 1
        character = self.next_character()
        if character == "[":
            self.at += 1
        elif character and not self._wrapped:
            raise _BrokenError("unexpected text after the list")
        return character != "["

    def next_character(self) -> str:
        """The character with which the next value starts, or "" where the file ends."""
        while True:
            match = _GAP.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def take(self) -> tuple[Any, str]:
        """Read one value and step behind it; the text says what is wrong with it, if anything."""
        if len(self.text) - self.at < _CHUNK:
            self.more()  # so that only a record larger than a chunk is ever tried twice
        value, end = self._quick() or self._scan()
        start, self.at = self.at, end
        if _looks_deep(self.text[start:end]) and nested_too_deeply(value):
            return None, _TOO_DEEP
        if self.text.find(_UNDECODABLE, start, end) < 0:
            return value, ""
        return _DECODER.decode(self.text[start:end].replace(_UNDECODABLE, "\ufffd")), _REPLACED

    def _quick(self) -> tuple[Any, int] | None:
        """The next value by the fast decoder, where its end can be seen; None where only a scan can tell.

        A record ends before what stood between the first two. A place inside a record that looks
        the same is no harm: the text up to it is no value.
        """
        end = self.text.find(self._separator, self.at) + 1 if self._separator else 0
        value = quick(self.text[self.at : end]) if end else None
        return None if value is None else (value, end)

    def find_record(self, marks: frozenset[str]) -> bool:
        """Step to the next object that has one of `marks`, broken or not; False when there is none."""
        while self._effort > 0:
            if not (match := _NEXT_OBJECT.search(self.text, self.at)):
                cut = _NEXT_OBJECT_CUT.search(self.text, self.at)
                self.at = cut.start() if cut else len(self.text)
                if not self.more():
                    return False
                continue
            self.at = match.start(1)
            if self.at > _CHUNK >> 5:
                self._cut()  # an error counts the lines before it, so let there be few
            try:
                value, end = self._scan()
            except _BrokenError as error:
                self._effort -= error.cost
                if error.reason != _TOO_DEEP and self._names_any(marks, error.cost):
                    return True
                self.at += 1
                continue
            if not marks or not marks.isdisjoint(value):
                return True
            self.at = end
        self.given_up = _broken("file too damaged to read on", f"character {self.offset}")
        return False

    def _names_any(self, marks: frozenset[str], length: int) -> bool:
        return any(self.text.find(f'"{mark}"', self.at, self.at + length) >= 0 for mark in marks)

    def _scan(self) -> tuple[Any, int]:
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
            except RecursionError:
                raise _BrokenError(_TOO_DEEP, cost=_CHUNK) from None  # by the time it takes
            except JSONDecodeError as error:
                self._grow_or_raise(error)
                continue
            if between := _BETWEEN.match(self.text, end):
                self._separator = "}" + between[0]
            # A number at the very end of the window may go on behind it.
            if (
                isinstance(value, (dict, list))
                or len(self.text) - end > _CUT_MARGIN
                or not self.more()
            ):
                return value, end

    def _grow_or_raise(self, error: JSONDecodeError) -> None:
        seen = len(self.text) - self.at
        unclosed = error.msg.startswith("Unterminated string")
        broken = _BrokenError(
            _INVALID, error.msg, cost=seen if unclosed else error.pos - self.at + 1
        )
        if error.pos < len(self.text) - _CUT_MARGIN and not unclosed:
            raise broken
        if seen > LIMITS.record_characters:
            raise _BrokenError(
                f"record of more than {LIMITS.record_characters:,} characters", cost=seen
            )
        if not self.more():
            if unclosed or not _CLOSING.search(self.text, error.pos):
                reason = (
                    "file ends too early" if self._dropped or self.text.strip() else "empty file"
                )
                raise _BrokenError(reason, cost=seen, ended=True)
            raise broken


def _looks_deep(text: str) -> bool:
    """Whether a value may be nested too deeply, judged by its brackets alone: the quick look that spares the long one.

    Innermost pairs are taken away a few times. What is left of a shallow value is nothing, or the
    odd brackets of its strings; each level that is left has two.
    """
    brackets = text.encode(errors="surrogatepass").translate(None, _NO_BRACKETS)
    for _ in range(8):
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return len(brackets) > LIMITS.nesting


def nested_too_deeply(value: Any) -> bool:
    """Whether a value has more levels than the programs behind an importer may be asked to walk."""
    level = [value]
    for _ in range(LIMITS.nesting + 1):
        level = [v for v in level if type(v) is dict or type(v) is list]
        if not level:
            return False
        level = list(chain.from_iterable([v.values() if type(v) is dict else v for v in level]))
    return True


# -- lines -----------------------------------------------------------------


def lines(entry: Entry) -> Iterator[tuple[int, Any] | Problem]:
    """The values of a JSON Lines file with their line number, and a Problem for each bad line."""
    try:
        with _opened(entry) as file:
            yield from _lines(file)
    except UNREADABLE as error:
        yield Problem(_UNREADABLE, str(error), failed=True)


def _lines(file: io.TextIOWrapper) -> Iterator[tuple[int, Any] | Problem]:
    number = 0
    while line := file.readline(LIMITS.record_characters + 1):
        number += 1
        where = f"line {number}"
        if len(line) > LIMITS.record_characters:
            while not line.endswith("\n") and (line := file.readline(_CHUNK)):
                pass
            yield Problem(
                f"line of more than {LIMITS.record_characters:,} characters",
                where=where,
                failed=True,
            )
        elif not line.isspace():
            yield from _line(line, number, where)


def _line(line: str, number: int, where: str) -> Iterator[tuple[int, Any] | Problem]:
    try:
        value = decode(line)
    except _BrokenError as error:
        if error.reason == _INVALID and not line.endswith("\n"):
            yield Problem("unfinished last line", where)
        else:
            yield Problem(
                error.reason, f"{where}: {error.detail}" if error.detail else where, failed=True
            )
        return
    if _UNDECODABLE in line:
        yield Problem(_REPLACED, where, failed=True)
        value = decode(line.replace(_UNDECODABLE, "\ufffd"))
    yield number, value


def quick(text: str) -> Any:
    """One JSON value by the fast decoder, or None where it refuses the text or would lose something."""
    data = text.encode(errors="surrogatepass")
    if _LONG_NUMBER in data.translate(_DIGITS):  # beyond 64 bits it rounds
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def decode(text: str) -> Any:
    """One JSON value; raises ValueError where it is none, or is nested too deeply."""
    if (value := quick(text)) is not None and not _looks_deep(text):
        return value
    try:
        value = _DECODER.decode(text)
    except JSONDecodeError as error:
        raise _BrokenError(_INVALID, error.msg) from None
    except RecursionError:
        raise _BrokenError(_TOO_DEEP) from None
    if _looks_deep(text) and nested_too_deeply(value):
        raise _BrokenError(_TOO_DEEP)
    return value


# -- looking ---------------------------------------------------------------


def peek(entry: Entry) -> frozenset[str]:
    """The keys of the first record, or of the first line's object, as far as the head shows them."""
    try:
        head = entry.head()
    except UNREADABLE:
        return frozenset()
    text = head.decode(json.detect_encoding(head), "replace").removeprefix("\ufeff")
    start = _LIST_START.match(text)
    keys = set()
    depth = 0
    for token in _KEY_OR_BRACKET.finditer(text, start.end() if start else 0):
        string, colon = token.groups()
        if string:
            if colon and depth == 1:
                keys.add(string[1:-1])
        elif token[0] in "[{":
            depth += 1
        else:  # a closing bracket, or a string that the head cuts off
            depth -= 1
            if depth <= 0 or token[0] == '"':
                break
    return frozenset(keys)


def _opened(entry: Entry) -> io.TextIOWrapper:
    """The file as text: UTF-8 or UTF-16, a byte-order mark removed, undecodable bytes marked."""
    encoding = json.detect_encoding(entry.head(4))
    file = entry.open()
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    return io.TextIOWrapper(file, encoding, "recollect.mark", newline="\n")
