"""JSON is streamed one record at a time, also from damaged, huge and malicious files."""

from __future__ import annotations

import io
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from builders import entry, problems, values
from hypothesis import given
from hypothesis import strategies as st

from recollect.importers import jsonstream
from recollect.importers.entries import Entry
from recollect.importers.jsonstream import lines, peek, records
from recollect.model.receipts import Problem
from recollect.settings import LIMITS


def read(content: Any, *marks: str) -> list[Any]:
    """The records without their index, and Problems as their reasons."""
    items = records(entry(content), marks)
    return [item.reason if isinstance(item, Problem) else item[1] for item in items]


# -- whole files -----------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1}, {"a": 2}]',
        ' \n[{"a":1}\n,{"a":2}]\n ',
        '{"conversations": [{"a": 1}, {"a": 2}]}',
        '{"version": 1, "by": "x \\" [", "conversations": [{"a": 1}, {"a": 2}], "more": {"b": 3}}',
        '{"a": 1}\n{"a": 2}\n',
        '[{"a": 1}][{"a": 2}]',
        '[{"a": 1}, {"a": 2},]',
    ],
)
def test_records_are_found_in_a_list_a_wrapper_or_bare(text: str) -> None:
    assert read(text) == [{"a": 1}, {"a": 2}]


@given(st.lists(values, max_size=5), st.integers(1, 60))
def test_every_record_is_read_whatever_the_chunk_size(given_records: list[Any], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonstream, "_CHUNK", chunk)
        assert read(json.dumps(given_records)) == given_records
        assert read(json.dumps(given_records, indent=1, ensure_ascii=False)) == given_records


class Endless(io.RawIOBase):
    """A list of records of 100 kB each, generated while it is read."""

    def __init__(self, count: int) -> None:
        record = json.dumps({"a": "x" * 100_000}).encode()
        self._pieces = iter([b"[" + record, *([b"," + record] * (count - 1)), b"]"])
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._pieces, b"")
        piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def test_memory_does_not_grow_with_the_file() -> None:
    file = Entry("conversations.json", 0, lambda: io.BufferedReader(Endless(600)))
    tracemalloc.start()
    count = sum(1 for _ in records(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 600
    assert peak < 12_000_000


# -- damaged files ----------------------------------------------------------

GOOD = '{"m": 1, "x": [{"y": 1}, {"y": 2}]}'


@pytest.mark.parametrize(
    "bad",
    [
        '{"m": tru}',
        '{"m": 1 "n": 2}',
        '{"m": [1, 2}',
        '{"m": {"n": 1}',
        '{"m": "no end}',
        '{"m": "bad escape \\x"}',
        '{"m": 1}}',
        "x",
        "'m'",
        '{"m": 1, "x": [{"y": 1}, {"y": }, {"y": 3}]}',
        "{m: 1}",
    ],
)
def test_a_damaged_record_does_not_stop_the_rest(bad: str) -> None:
    items = list(records(entry(f"[{GOOD}, {bad}, {GOOD}, {GOOD}]"), ("m",)))
    good = [item[1] for item in items if not isinstance(item, Problem)]
    assert good[0] == good[-1] == json.loads(GOOD)
    assert len(good) >= 3
    assert all(p.failed and p.unit == "conversations" for p in problems(items))
    assert "record" in problems(items)[0].where


def test_a_truncated_file_gives_its_complete_records_and_one_problem() -> None:
    assert read(f'[{GOOD}, {GOOD}, {{"m": "half a') == [
        json.loads(GOOD),
        json.loads(GOOD),
        "file ends too early",
    ]
    assert read(f"[{GOOD}") == [json.loads(GOOD), "file ends too early"]


def test_undecodable_bytes_are_reported_and_replaced() -> None:
    items = list(records(entry('[{"m": "café"}, {"m": "tea"}]'.encode("latin-1"))))
    assert [item for item in items if not isinstance(item, Problem)] == [
        (0, {"m": "caf\ufffd"}),
        (1, {"m": "tea"}),
    ]
    assert [(p.reason, p.failed) for p in problems(items)] == [
        ("bytes that are not text were replaced", True)
    ]


def test_a_record_over_the_size_limit_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "LIMITS", replace(LIMITS, record_characters=100))
    monkeypatch.setattr(jsonstream, "_CHUNK", 50)
    long = json.dumps({"m": "x" * 1000})
    assert read(f'[{{"m": 1}}, {long}, {{"m": 2}}]') == [
        {"m": 1},
        "record of more than 100 characters",
        {"m": 2},
    ]


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_no_bytes_raise(data: bytes, more: bytes) -> None:
    for content in (data, b"[" + data + b"]", b'[{"m":1},' + data + b',{"m":2}' + more):
        for items in (list(records(entry(content), ("m",))), list(lines(entry(content)))):
            numbers = [item[0] for item in items if not isinstance(item, Problem)]
            assert numbers == sorted(set(numbers))
        assert all(isinstance(key, str) for key in peek(entry(content)))


# -- malicious values --------------------------------------------------------


@pytest.mark.parametrize(
    "deep",
    [
        "[" * 201 + "]" * 201,
        "[" * 5000 + "]" * 5000,
        '{"a":' * 5000 + "1" + "}" * 5000,
        '[{"a":' * 100_000,
    ],
    ids=["just over", "lists", "objects", "unclosed"],
)
def test_a_record_nested_too_deeply_is_one_problem(deep: str) -> None:
    document = read(f'[{{"m": 1}}, {{"m": {deep}}}, {{"m": 2}}]', "m")
    assert document[:2] == [{"m": 1}, "nested more than 200 levels deep"]
    assert {"m": 2} in document


def test_numbers_that_json_cannot_represent_become_strings() -> None:
    huge = "9" * 5000
    assert read(
        f'[{{"a": {huge}, "b": 1e999, "c": NaN, "d": -Infinity, "e": {2**70}, "f": 0.5}}]'
    ) == [{"a": huge, "b": "1e999", "c": "NaN", "d": "-Infinity", "e": 2**70, "f": 0.5}]


def test_lone_surrogates_and_control_characters_are_preserved() -> None:
    assert read('[{"a": "\\ud83d \\u0000 \t \x1b"}]') == [{"a": "\ud83d \x00 \t \x1b"}]


# -- lines -----------------------------------------------------------------


def test_lines_are_numbered_and_blank_ones_skipped() -> None:
    assert list(lines(entry(b'\xef\xbb\xbf{"a": 1}\r\n\r\n \n{"a": 2}\r\n'))) == [
        (1, {"a": 1}),
        (4, {"a": 2}),
    ]


def test_a_bad_line_is_a_problem_and_the_next_is_read() -> None:
    first, bad, last = lines(entry('{"a": 1}\n{"a": \n{"a": 2}\n'))
    assert (first, last) == ((1, {"a": 1}), (3, {"a": 2}))
    assert bad == Problem("not valid JSON", where="line 2: Expecting value", failed=True)


# -- detection -------------------------------------------------------------
