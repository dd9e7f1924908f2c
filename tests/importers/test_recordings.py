"""Recordings and their transcripts."""

from __future__ import annotations

import json
import wave
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import Problem, cues_of, seconds_at, write
from mediafiles import one, read, text

from recollect import Document

SRT = "1\n00:00:01,000 --> 00:00:02,000\nOwls fly.\n\n2\n00:01:03,500 --> 00:01:05,000\nAt night.\n"
WHISPER = {
    "text": "Owls fly.",
    "segments": [{"start": 0.5, "end": 2, "text": " Owls fly."}],
    "language": "en",
}


def silence(path: Path, seconds: int = 2) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8000)
        file.writeframes(b"\x80" * 8000 * seconds)
    return path


# -- transcripts alone -------------------------------------------------------


def test_a_transcript_alone_is_a_video_with_times(tmp_path: Path) -> None:
    (tmp_path / "Owl talk.en.srt").write_text(SRT)
    item = one(tmp_path / "Owl talk.en.srt")
    assert (item.title, item.id, text(item)) == ("Owl talk", "Owl talk.en", "Owls fly. At night. ")
    assert item.metadata == {
        "media_type": "video",
        "language": "en",
        "duration": 65.0,
        "file": "Owl talk.en.srt",
    }
    assert seconds_at(item.passages[0], text(item).index("night")) == 63.5
    assert write(cues_of(item.passages), "srt") == SRT + "\n"


@pytest.mark.parametrize(
    "record",
    [
        WHISPER,
        {"segments": [{"start": 1, "end": 2, "text": "Owls fly."}]},
        {"result": {}, "transcription": [{"offsets": {"from": 0, "to": 9}, "text": "Owls fly."}]},
        [{"text": "Owls fly.", "start": 0.0, "duration": 1.0}],
        {"events": [{"tStartMs": 0, "dDurationMs": 5, "segs": [{"utf8": "Owls fly."}]}]},
    ],
)
def test_json_transcripts_are_recognized_by_their_keys(tmp_path: Path, record: object) -> None:
    (tmp_path / "a.json").write_text(json.dumps(record))
    assert text(one(tmp_path / "a.json")).strip() == "Owls fly."


# -- recordings --------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["talk.srt", "talk.en.vtt", "talk.wav.json", "talk.txt", "TALK.SRT"]
)
def test_a_recording_and_its_transcript_are_one_item(tmp_path: Path, name: str) -> None:
    silence(tmp_path / "talk.wav")
    content = {".json": json.dumps(WHISPER), ".vtt": "WEBVTT\n\n" + SRT, ".txt": "Owls fly."}
    (tmp_path / name).write_text(content.get(name[-5:], content.get(name[-4:], SRT)))
    items = [one(tmp_path / "talk.wav"), one(tmp_path / name)]
    assert items[0] == items[1]
    assert text(items[0]).startswith("Owls fly.")
    assert items[0].source_id == str(tmp_path / "talk.wav")
    assert (items[0].metadata["media_type"], items[0].metadata["duration"]) == ("audio", 2.0)


def test_a_folder_gives_each_recording_and_reports_the_other_files(tmp_path: Path) -> None:
    silence(tmp_path / "talk.wav")
    for name in ("talk.de.srt", "talk.en.srt", "other.srt"):
        (tmp_path / name).write_text(SRT)
    (tmp_path / "talk.info.json").write_text('{"title": "On Owls"}')
    items = read(tmp_path)
    assert {item.title for item in items if isinstance(item, Document)} == {"On Owls", "other"}
    assert {(item.where, item.failed) for item in items if isinstance(item, Problem)} == {
        ("talk.de.srt", False),
        ("talk.info.json", False),
    }


def test_the_description_of_a_downloader_is_read(tmp_path: Path) -> None:
    (tmp_path / "Owls [x1].webm").write_bytes(b"\x1a\x45\xdf\xa3")
    (tmp_path / "Owls [x1].en.vtt").write_text("WEBVTT\n\n" + SRT)
    about = {
        "title": "On Owls",
        "webpage_url": "https://video.example/x1",
        "uploader": "Ann",
        "upload_date": "20240131",
        "duration": 70,
        "tags": ["owl", 3, "night"],
        "language": None,
    }
    (tmp_path / "Owls [x1].info.json").write_text(json.dumps(about))
    item = one(tmp_path / "Owls [x1].webm")
    assert (item.title, item.created_at) == ("On Owls", datetime(2024, 1, 31, tzinfo=UTC))
    assert item.metadata == {
        "media_type": "video",
        "url": "https://video.example/x1",
        "author": "Ann",
        "duration": 70.0,
        "tags": ["owl", "night"],
        "language": "en",
        "file": "Owls [x1].webm",
    }
