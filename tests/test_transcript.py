"""Transcripts: parsing real-world files of every format, and writing files that parse again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recollect.language.transcript import Cue, Transcript, parse, write

SAMPLES = Path(__file__).parent / "samples"


def texts(text: str) -> list[str]:
    return [cue.text for cue in parse(text).cues]


def speakers_and_texts(text: str) -> list[tuple[str | None, str]]:
    return [(cue.speaker, cue.text) for cue in parse(text).cues]


# -- SRT ----------------------------------------------------------------------


def test_srt_is_parsed_into_times_and_lines() -> None:
    text = "1\n00:00:01,500 --> 00:00:02,000\nOne\ntwo\n\n2\n01:00:03,000 --> 01:00:04,250\nthree\n"
    cues = (Cue(1.5, 2.0, "One\ntwo"), Cue(3603.0, 3604.25, "three"))
    assert parse(text) == Transcript("srt", cues)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_ending_is_accepted(end: str) -> None:
    lines = ["1", "00:00:01,0 --> 00:00:02,0", "One", "", "2", "0:03 --> 0:04", "two"]
    assert texts(end.join(lines)) == ["One", "two"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # without numbers, with repeated numbers, with numbers as text
        ("00:00:01.000 --> 00:00:02.000\nOne\n\n0:03 --> 0:04\n1984\n", ["One", "1984"]),
        ("1\n0:01 --> 0:02\nA\n\n1\n0:03 --> 0:04\nb\n\n7\n0:05 --> 0:06\nc", ["A", "b", "c"]),
        (
            "1\n0:01 --> 0:02\n1984\n\n2\n0:03 --> 0:04\n3\n\n3\n0:05 --> 0:06\nd",
            ["1984", "3", "d"],
        ),
        # an empty line inside a cue, none between cues
        ("1\n0:01 --> 0:02\nOne\n\nmore\n\n2\n0:03 --> 0:04\ntwo", ["One\nmore", "two"]),
        ("1\n0:01 --> 0:02\nOne\n2\n0:03 --> 0:04\ntwo", ["One", "two"]),
        # cues without times, or with invalid ones
        ("1\n0:01 --> 0:02\nOne\n\n2\nlost\n\n3\n0:03 --> 0:04\nc", ["One\nlost", "c"]),
        ("1\n0:01 --> 0:02\nOne\n\n2\n00:00:0x,000 --> 00:00:11,890\ntwo", ["One\ntwo"]),
        # positions and styles
        (
            "1\n0:01 --> 0:02 X1:40 X2:600\n"
            '{\\an8}<font color="red">Hi</font> <I>you</I>, a < b, <div> and {x}',
            ["Hi you, a < b, <div> and {x}"],
        ),
        # sorted by time, each once
        ("0:03 --> 0:04\nb\n\n0:01 --> 0:02\na\n\n0:03 --> 0:04\nb\n", ["a", "b"]),
    ],
)
def test_srt_is_read_tolerantly(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_a_cue_never_ends_before_it_starts() -> None:
    assert parse("0:09 --> 0:04\na").cues == (Cue(9, 9, "a"),)


# -- VTT and SBV --------------------------------------------------------------


def test_vtt_headers_comments_styles_and_cue_ids_are_not_text() -> None:
    text = """WEBVTT - talk
Kind: captions
Language: de-CH
X-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0

STYLE
::cue(b) { color: red }

## still a style

REGION
id:fred

NOTE not this
nor this

first
00:01.000 --> 00:02.000 align:start position:0%
<c.big>One &amp; only</c>

NOTE between

second
1:2.5 --> 01:03.500
tw<00:00:01.000>o &lt;b&gt;
"""
    cues = (Cue(1.0, 2.0, "One & only"), Cue(62.5, 63.5, "two <b>"))
    assert parse(text) == Transcript("vtt", cues, language="de-CH")


def test_vtt_voices_become_speakers_and_split_a_cue() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v.loud Fred>Hi there\n<v Ann B>Hello</v>\n"
    assert speakers_and_texts(text) == [("Fred", "Hi there"), ("Ann B", "Hello")]


def test_sbv_is_parsed() -> None:
    text = "0:00:00.378,0:00:11.378\nHi, [br]all\n\n0:00:11.378,0:00:12.305\nbye\n"
    cues = (Cue(0.378, 11.378, "Hi,  all"), Cue(11.378, 12.305, "bye"))
    assert parse(text) == Transcript("sbv", cues)


def test_the_output_of_whisper_is_parsed() -> None:
    text = (
        "Detected language: en\n"
        "[00:00.000 --> 00:02.000]  Owls fly.\n"
        "[00:01:02.000 --> 00:01:03.500]   At night.\n"
    )
    assert parse(text).cues == (Cue(0, 2, "Owls fly."), Cue(62, 63.5, "At night."))


# -- speakers -----------------------------------------------------------------


def test_a_name_in_capitals_before_a_colon_is_the_speaker() -> None:
    assert speakers_and_texts(
        "0:01 --> 0:02\n>> DR. ANN: Hello\n\n0:03 --> 0:04\n- BOB: Yes\n- ANN: No: never"
    ) == [
        ("DR. ANN", "Hello"),
        ("BOB", "Yes"),
        ("ANN", "No: never"),
    ]


def test_a_name_in_lower_case_is_a_speaker_if_it_occurs_again() -> None:
    text = "0:01 --> 0:02\nSpeaker 1: a\n\n0:03 --> 0:04\nWell: b\n\n0:05 --> 0:06\nSpeaker 1: c\n"
    assert speakers_and_texts(text) == [("Speaker 1", "a"), (None, "Well: b"), ("Speaker 1", "c")]


@pytest.mark.parametrize(
    "line",
    ["at 10:30 we left", "https://a.example", "NOTE: mind", "so he said: go", "他说: 好", "a: b"],
)
def test_text_that_only_looks_like_a_speaker_stays_text(line: str) -> None:
    assert speakers_and_texts(f"0:01 --> 0:02\n{line}") == [(None, line)]


# -- rolling captions ---------------------------------------------------------


def test_rolling_captions_keep_each_line_once_with_its_time() -> None:
    text = """WEBVTT

00:00:00.000 --> 00:00:02.000 align:start
\x20
hello<00:00:00.500><c> world</c>

00:00:02.000 --> 00:00:02.010 align:start
hello world
\x20

00:00:02.010 --> 00:00:04.000 align:start
hello world
how<00:00:03.000><c> are you</c>

00:00:04.000 --> 00:00:04.010 align:start
how are you
\x20

00:00:04.010 --> 00:00:06.000 align:start
how are you
fine
"""
    cues = (Cue(0, 2.01, "hello world"), Cue(2.01, 4.01, "how are you"), Cue(4.01, 6, "fine"))
    assert parse(text).cues == cues


def test_captions_that_grow_word_by_word_keep_each_word_once() -> None:
    text = (
        "0:01 --> 0:02\nso\n\n0:02 --> 0:03\nso we\n\n"
        "0:03 --> 0:04\nso we went\n\n0:04 --> 0:05\nhome"
    )
    assert texts(text) == ["so", "we", "went", "home"]


def test_repeated_speech_is_kept() -> None:
    text = (
        "0:01 --> 0:02\nNo!\n\n0:02 --> 0:03\nNo!\n\n0:03 --> 0:04\nOh yes.\n\n0:04 --> 0:05\nNo!"
    )
    assert texts(text) == ["No!", "No!", "Oh yes.", "No!"]


@given(
    st.lists(
        st.text("abc ", min_size=1, max_size=12).map(str.strip).filter(bool),
        min_size=3,
        max_size=20,
        unique=True,
    )
)
def test_any_lines_that_roll_through_two_rows_are_kept_once_in_order(lines: list[str]) -> None:
    assume(not any(b.startswith(a + " ") for a in lines for b in lines))
    cues = [Cue(n, n + 1, "\n".join(lines[max(0, n - 1) : n + 1])) for n in range(len(lines))]
    assert texts(str(write(cues, "srt"))) == lines


# -- JSON ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "cues", "language"),
    [
        (
            {
                "language": "en",
                "segments": [{"id": 0, "start": 0.0, "end": 2.5, "text": " Hi.", "speaker": "A"}],
            },
            [Cue(0, 2.5, "Hi.", "A")],
            "en",
        ),
        (
            {
                "result": {"language": "de"},
                "transcription": [
                    {
                        "timestamps": {"from": "00:00:01,000"},
                        "offsets": {"from": 1000, "to": 2000},
                        "text": " Ja",
                    },
                    {"timestamps": {"from": "00:00:02,000", "to": "00:00:03,500"}, "text": "Nein"},
                ],
            },
            [Cue(1, 2, "Ja"), Cue(2, 3.5, "Nein")],
            "de",
        ),
        (
            [{"text": "Hi", "start": 1.0, "duration": 2.0}, {"text": "x"}, 7],
            [Cue(1, 3, "Hi")],
            None,
        ),
        (
            {
                "events": [
                    {"tStartMs": 0, "dDurationMs": 9000, "id": 1},
                    {
                        "tStartMs": 80,
                        "dDurationMs": 2000,
                        "segs": [{"utf8": "so"}, {"utf8": " we"}],
                    },
                    {"tStartMs": 1000, "segs": [{"utf8": "\n"}]},
                    {"tStartMs": 1010, "dDurationMs": 500, "segs": [{"utf8": "go"}]},
                ],
            },
            [Cue(0.08, 2.08, "so we"), Cue(1.01, 1.51, "go")],
            None,
        ),
        (
            {"segments": [{"startTime": 1, "endTime": 2, "body": "Hi", "speaker": "A"}]},
            [Cue(1, 2, "Hi", "A")],
            None,
        ),
    ],
)
def test_json_of_several_programs_is_parsed(
    record: Any, cues: list[Cue], language: str | None
) -> None:
    assert parse(json.dumps(record)) == Transcript("json", tuple(cues), language=language)


@pytest.mark.parametrize("value", ["NaN", "1e999", "-1", '"x"', "true", "[]", "1" * 400])
def test_json_segments_without_a_valid_start_are_dropped(value: str) -> None:
    first = f'{{"start": {value}, "end": 2, "text": "a"}}'
    second = f'{{"start": 1, "end": {value}, "text": "b"}}'
    assert parse(f'{{"segments": [{first}, {second}]}}').cues == (Cue(1, 1, "b"),)


# -- writing ------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=9)
LINES = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
NAMES = st.none() | st.text("abÄß&<>'", min_size=1, max_size=8)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Cue]:
    cues = []
    for number in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, 9_000_000)) / 1000
        end = round(start + draw(st.integers(0, 9000)) / 1000, 3)
        lines = draw(st.lists(LINES, min_size=1, max_size=3))
        text = "\n".join(f"{number}.{n} {line}" for n, line in enumerate(lines))
        cues.append(Cue(start, end, text, draw(NAMES)))
    return sorted(cues, key=lambda cue: cue.start)


@given(transcripts())
def test_written_vtt_and_json_parse_into_the_same_cues(cues: list[Cue]) -> None:
    assert list(parse(str(write(cues, "vtt"))).cues) == cues
    assert list(parse(json.dumps(write(cues, "json"))).cues) == cues


@given(transcripts())
def test_written_srt_parses_into_the_same_cues_without_styles(cues: list[Cue]) -> None:
    plain = [
        cue._replace(speaker=None, text=cue.text.translate(dict.fromkeys(map(ord, "<>{}"), ".")))
        for cue in cues
    ]
    assert list(parse(str(write(plain, "srt"))).cues) == plain


def test_every_format_is_written() -> None:
    cues = [Cue(3661.5, 3662, "One <two> --> three", "ANN"), Cue(3663, 3664, "four\nfive")]
    assert write(cues, "srt") == (
        "1\n01:01:01,500 --> 01:01:02,000\nANN: One <two> → three\n\n"
        "2\n01:01:03,000 --> 01:01:04,000\nfour\nfive\n\n"
    )
    assert write(cues, "vtt") == (
        "WEBVTT\n\n01:01:01.500 --> 01:01:02.000\n<v ANN>One &lt;two&gt; --&gt; three\n\n"
        "01:01:03.000 --> 01:01:04.000\nfour\nfive\n\n"
    )
    assert write(cues, "json", timestamps=False) == {
        "segments": [{"text": "One <two> --> three", "speaker": "ANN"}, {"text": "four\nfive"}]
    }
    assert write(cues) == "[01:01:01] ANN: One <two> --> three\n[01:01:03] four five"
    assert write(cues, timestamps=False) == "ANN: One <two> --> three\nfour five"
    with pytest.raises(ValueError, match="is not one of text, srt, vtt, json"):
        write(cues, "sbv")


# -- any input ----------------------------------------------------------------

PIECES = ["\n", "\n\n", " ", "0:01 --> 0:02", "BOB: ", "<v ", '{"events": [', "\r", "\ufeff"]
PIECES += (
    'WEBVTT 1 0:00:01.0,0:00:02.0 NOTE STYLE a > &amp { } [ ] "segments" : {\\an8} -->'.split()
)


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    for cue in parse(text).cues:
        assert 0 <= cue.start <= cue.end
        assert cue.text.strip()


@pytest.mark.parametrize(
    ("name", "cues"),
    [
        ("subtitles/ferry.srt", 3),
        ("subtitles/ferry.vtt", 3),
        ("subtitles/ferry.sbv", 2),
        ("subtitles/byte-order-mark.srt", 2),
        ("subtitles/gb2312.srt", 2),
        ("subtitles/broken-times.srt", 2),
        ("broken/empty.vtt", 0),
        ("broken/no-cues.vtt", 0),
    ],
)
def test_samples_are_parsed(name: str, cues: int) -> None:
    assert len(parse((SAMPLES / name).read_bytes().decode("utf-8", "replace")).cues) == cues
