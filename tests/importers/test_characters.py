"""Character cards of every version, in JSON, images and archives; and malicious images."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from builders import (
    LIMITS,
    PNG,
    SAMPLES,
    Entry,
    claimed_by,
    entries,
    entry,
    fields_of,
    only,
    problems,
    read_as,
)
from hypothesis import given
from hypothesis import strategies as st

from recollect import Document

V1 = {
    "name": "Zoë",
    "description": "Owns a café",
    "personality": "warm",
    "scenario": "A rainy day",
    "first_mes": "Salut {{user}}",
    "mes_example": "<START>\n{{user}}: hi",
}
DATA = {
    **V1,
    "creator_notes": "Use with rain.",
    "system_prompt": "Stay in the café.",
    "post_history_instructions": "Be brief.",
    "alternate_greetings": ["Bonjour", "Coucou"],
    "tags": ["demo", "#café"],
    "creator": "me",
    "character_version": 1.5,
    "extensions": {"depth_prompt": {"prompt": "", "depth": 4}, "mine/own": [1, None]},
    "character_book": {
        "entries": [
            {
                "keys": ["café", "shop"],
                "content": "It closes at six.",
                "enabled": True,
                "comment": "Hours",
            },
            {"keys": [], "content": ""},
        ]
    },
}
V2 = {"spec": "chara_card_v2", "spec_version": "2.0", "data": DATA}
V3 = {
    "spec": "chara_card_v3",
    "spec_version": "3.0",
    "data": {
        **DATA,
        "description": "Owns a café (V3)",
        "nickname": "Zo",
        "creation_date": 1717596300,
    },
}
FIELDS = {
    "name": "Zoë",
    "description": "Owns a café",
    "personality": "warm",
    "scenario": "A rainy day",
    "system_prompt": "Stay in the café.",
    "first_message": "Salut {{user}}",
    "message_example": "<START>\n{{user}}: hi",
    "post_history_instructions": "Be brief.",
    "creator_notes": "Use with rain.",
    "alternate_greetings": "Bonjour\n\nCoucou",
    "character_book": "Hours · café, shop\nIt closes at six.",
    "creator": "me",
    "tags": "demo, café",
}


def encode_card(card: Any) -> bytes:
    return base64.b64encode(json.dumps(card).encode())


def chunk(kind: bytes, data: bytes, crc: int | None = None) -> bytes:
    check = zlib.crc32(kind + data) if crc is None else crc
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def png(*texts: bytes) -> bytes:
    pixel = chunk(b"IDAT", zlib.compress(b"\0\0"))
    return (
        PNG
        + chunk(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\0\0\0\0")
        + pixel
        + b"".join(texts)
        + chunk(b"IEND", b"")
    )


def text(card: Any, keyword: bytes = b"chara") -> bytes:
    return chunk(b"tEXt", keyword + b"\0" + encode_card(card))


def read(content: Any, name: str = "a.json") -> Document:
    return only(read_as("characters", entry(content, name)))


def reasons(content: Any, name: str) -> list[str]:
    return [p.reason for p in problems(read_as("characters", entry(content, name)))]


def charx(card: Any, **files: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("card.json", json.dumps(card))
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


# -- JSON ------------------------------------------------------------------


@pytest.mark.parametrize(
    "card", [V1, V2, V3, [V2], {**V1, **V2}, {"char_name": "A", "char_persona": "B"}]
)
def test_cards_are_recognized(card: Any) -> None:
    assert claimed_by("characters", entry(card, "a.json"))


def test_a_card_has_its_fields_and_is_stored_whole() -> None:
    document = read(V2)
    assert fields_of(document.passages) == FIELDS
    assert (document.source, document.source_id, document.id, document.kind) == (
        "characters",
        "me/Zoë",
        "Zoë",
        "character",
    )
    assert document.metadata["card"] == DATA
    about = {key: value for key, value in document.metadata.items() if key != "card"}
    assert about == {
        "tags": ["demo", "café"],
        "creator": "me",
        "character_version": "1.5",
        "spec": "chara_card_v2",
        "file": "a.json",
    }


def test_a_file_without_a_character_is_a_problem() -> None:
    assert reasons([{"name": "x"}], "a.json") == ["contains no character"]


# -- pictures --------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        text(V2),
        text(V2, b"Chara"),
        chunk(b"tEXt", b"chara\0" + encode_card(V2), crc=7),
        chunk(b"tEXt", b"chara\0" + json.dumps(V2).encode()),
        chunk(b"tEXt", b"chara\0" + encode_card(V2).rstrip(b"=")),
        chunk(b"zTXt", b"chara\0\0" + zlib.compress(encode_card(V2))),
        chunk(b"iTXt", b"chara\0\0\0\0\0" + encode_card(V2)),
        chunk(b"iTXt", b"chara\0\1\0en\0x\0" + zlib.compress(json.dumps(V2).encode())),
        text({"no": "card"}, b"Software") + text(V2),
        text(V2) + text(V3, b"other"),
    ],
    ids=[
        "plain",
        "case",
        "checksum",
        "raw",
        "unpadded",
        "zTXt",
        "iTXt",
        "packed iTXt",
        "second",
        "first",
    ],
)
def test_a_card_in_any_png_text_chunk_is_read(written: bytes) -> None:
    assert claimed_by("characters", entry(png(written), "a.png"))
    assert fields_of(read(png(written), "a.png").passages) == FIELDS


def test_the_image_is_stored_without_its_cards() -> None:
    other = chunk(b"tEXt", b"Title\0A picture")
    data = png(text(V2), other, text(V3, b"ccv3"), chunk(b"tEXt", b"chara-ext-asset_:0\0AAAA"))
    name, *rest = read(data, "a.png").passages
    (avatar,) = name.attachments
    assert name.role == "name"
    assert base64.b64decode(avatar["data"]) == png(other)
    assert (avatar["type"], avatar["media_type"], avatar["size"]) == (
        "avatar",
        "image/png",
        len(png(other)),
    )
    assert not any(p.attachments for p in rest)


def test_a_decompression_bomb_is_rejected() -> None:
    bomb = zlib.compress(b" " * (LIMITS.card_bytes + 1))
    assert reasons(png(chunk(b"zTXt", b"chara\0\0" + bomb)), "a.png") == [
        "contains no character; many web sites remove it from images"
    ]


# -- archives --------------------------------------------------------------


def test_a_charx_is_one_character_with_its_main_icon(tmp_path: Path) -> None:
    assets = [
        {"type": "icon", "uri": "embeded://assets/other.png", "name": "other", "ext": "png"},
        {"type": "icon", "uri": "embeded://assets/main.png", "name": "main", "ext": "png"},
    ]
    card = {**V3, "data": {**V3["data"], "assets": assets}}  # type: ignore[dict-item]
    data = charx(card, **{"assets/main.png": png(), "assets/other.png": b"x"})
    (tmp_path / "zo.charx").write_bytes(data)
    (on_disk,) = entries(tmp_path / "zo.charx")
    assert isinstance(on_disk, Entry)
    for file in (on_disk, entry(data, "zo.charx")):
        assert claimed_by("characters", file)
        document = only(read_as("characters", file))
        assert document.metadata["card"]["description"] == "Owns a café (V3)"
        assert base64.b64decode(document.passages[0].attachments[0]["data"]) == png()


# -- properties -----------------------------------------------------------


@given(st.binary(), st.sampled_from(["a.png", "a.charx", "a.json"]))
def test_no_file_raises(data: bytes, name: str) -> None:
    for content in (
        data,
        PNG + data,
        b"RIFF\0\0\0\0WEBP" + data,
        b"PK\3\4" + data,
        png(chunk(b"zTXt", data)),
    ):
        claimed_by("characters", entry(content, name))
        list(read_as("characters", entry(content, name)))


def test_an_exported_character_is_the_same_when_imported() -> None:
    first = read(png(text(V2)), "a.png")
    again = {"spec": first.metadata["spec"], "spec_version": "2.0", "data": first.metadata["card"]}
    picture = base64.b64decode(first.passages[0].attachments[0]["data"])
    end = picture.rindex(b"IEND") - 4
    assert read(picture[:end] + text(again) + picture[end:], "a.png") == first


@pytest.mark.parametrize(
    ("name", "title"), [("v1.json", "Jette"), ("v2.json", "Hinnerk"), ("v3.json", "Wiebke")]
)
def test_sample_cards_of_every_version_are_read(name: str, title: str) -> None:
    (file,) = entries(SAMPLES / "characters" / name)
    assert isinstance(file, Entry)
    assert claimed_by("characters", file)
    assert only(read_as("characters", file)).title == title
