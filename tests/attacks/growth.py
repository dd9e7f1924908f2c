"""Files of a given size for every importer, in the dimensions that could make one slow."""

from __future__ import annotations

import csv
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import apsw

Build = Callable[[Path, int], Path]
"""Writes a file of a size into a folder and returns its path."""

WORDS = "Plant the beans when the soil is warm. "
CASES: dict[str, Build] = {}


def case(name: str) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        CASES[name] = build
        return build

    return add


def write(path: Path, content: str | bytes | object) -> Path:
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8", errors="surrogatepass")
    else:
        path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_lines(path: Path, records: list[Any]) -> Path:
    return write(path, "".join(json.dumps(record) + "\n" for record in records))


def write_zip(path: Path, parts: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def text_case(name: str, file: str, build: Callable[[int], str | bytes | object]) -> None:
    """A case that is one file with a text."""
    CASES[name] = lambda folder, size: write(folder / file, build(size))


# -- ChatGPT -----------------------------------------------------------------


def chatgpt_message(text: str = WORDS, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {"author": {"role": "user"}, "create_time": 1.7e9, "content": content, **more}


def chatgpt(mapping: dict[str, Any], number: int = 0) -> dict[str, Any]:
    return {
        "id": f"c{number}",
        "title": "Beans",
        "create_time": 1.7e9,
        "mapping": mapping,
        "current_node": next(reversed(mapping), None),
    }


def chatgpt_chain(size: int) -> dict[str, Any]:
    return {
        f"n{n}": {"parent": f"n{n - 1}" if n else None, "message": chatgpt_message()}
        for n in range(size)
    }


def chatgpt_branches(size: int) -> dict[str, Any]:
    root = {"root": {"parent": None, "children": [f"n{n}" for n in range(size)]}}
    return root | {f"n{n}": {"parent": "root", "message": chatgpt_message()} for n in range(size)}


def chatgpt_empty_chain(size: int) -> dict[str, Any]:
    """A chain of nodes without messages, and as many messages at its end."""
    chain: dict[str, Any] = {
        f"e{n}": {"parent": f"e{n - 1}" if n else None, "message": None} for n in range(size)
    }
    for n in range(size):
        chain[f"n{n}"] = {"parent": f"e{size - 1}", "message": chatgpt_message()}
    return chain


def chatgpt_cycles(size: int) -> dict[str, Any]:
    return {f"n{n}": {"parent": f"n{n ^ 1}", "message": chatgpt_message()} for n in range(2 * size)}


text_case(
    "chatgpt conversations",
    "conversations.json",
    lambda n: [chatgpt(chatgpt_chain(3), number) for number in range(n)],
)
for _name, _mapping in {
    "chain": chatgpt_chain,
    "branches": chatgpt_branches,
    "empty chain": chatgpt_empty_chain,
    "cycles": chatgpt_cycles,
    "only children": lambda n: {
        f"n{k}": {"children": [f"n{k + 1}"], "message": chatgpt_message()} for k in range(n)
    },
    "reversed chain": lambda n: dict(reversed(chatgpt_chain(n).items())),
    "one cycle": lambda n: {
        f"n{k}": {"parent": f"n{(k + 1) % n}", "message": chatgpt_message()} for k in range(n)
    },
}.items():
    text_case(
        f"chatgpt {_name}",
        "conversations.json",
        lambda n, mapping=_mapping: [chatgpt(mapping(n))],  # type: ignore[misc]
    )


@case("chatgpt browser blank messages")
def _browser_blank(folder: Path, size: int) -> Path:
    return browser_database(folder / "a.db", size, blank=True)


def browser_database(path: Path, size: int, *, blank: bool) -> Path:
    db = apsw.Connection(str(path))
    db.execute(
        """create table conversations (id, title);
        create table messages (id, conversation_id, role, content, create_time, parent_id);
        create table message_metadata (id integer primary key, message_id, model_slug)"""
    )
    with db:
        for n in range(size):
            conversation = "c" if blank else f"c{n // 4}"
            db.execute("insert into conversations values (?, 'Beans')", (conversation,))
            texts = ("", WORDS) if blank else (WORDS,)
            for kind, text in enumerate(texts):
                parent = f"0-{n - 1 if not kind else size - 1}"
                row = (f"{kind}-{n}", conversation, text, n, parent)
                db.execute("insert into messages values (?, ?, 'user', ?, ?, ?)", row)
            db.execute("insert into message_metadata (message_id) values (?)", (f"0-{n}",))
    db.close()
    return path


# -- Claude ------------------------------------------------------------------


def claude_message(n: int, parent: str | None, **more: Any) -> dict[str, Any]:
    return {
        "uuid": f"m{n}",
        "sender": "human",
        "text": WORDS,
        "parent_message_uuid": parent,
        "content": [{"type": "text", "text": WORDS}],
        **more,
    }


def claude(messages: list[Any], number: int = 0) -> dict[str, Any]:
    return {"uuid": f"c{number}", "name": "Beans", "chat_messages": messages}


text_case(
    "claude conversations",
    "conversations.json",
    lambda n: [claude([claude_message(0, None)], number) for number in range(n)],
)
text_case(
    "claude empty messages",
    "conversations.json",
    lambda n: [
        claude(
            [claude_message(k, f"m{k - 1}", text="", content=[]) for k in range(n)]
            + [claude_message(n + k, f"m{n - 1}") for k in range(n)]
        )
    ],
)
text_case(
    "claude files",
    "conversations.json",
    lambda n: [
        claude(
            [
                claude_message(
                    0,
                    None,
                    text="",
                    files=[{"file_name": f"f{k}"} for k in range(n)],
                    content=[
                        {
                            "type": "tool_result",
                            "content": [{"type": "image", "n": k} for k in range(n)],
                        }
                    ],
                )
            ]
        )
    ],
)


# -- coding agents -----------------------------------------------------------


def code_record(n: int, parent: str | None, **more: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "uuid": f"u{n}",
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": "2026-01-01T00:00:00Z",
        "cwd": "/garden",
        "message": {"role": "user", "content": WORDS},
        **more,
    }


def code_case(name: str, build: Callable[[int], list[Any]]) -> None:
    CASES[f"claude code {name}"] = lambda folder, size: write_lines(
        folder / "5e550000-0000-4000-8000-000000000001.jsonl", build(size)
    )


code_case("branches", lambda n: [code_record(k, "u0" if k else None) for k in range(n)])
code_case("reversed", lambda n: [code_record(k, f"u{k - 1}") for k in reversed(range(n))])
code_case(
    "sidechains",
    lambda n: [code_record(k, None, isSidechain=True, agentId=f"a{k}") for k in range(n)],
)
code_case(
    "summaries and agents",
    lambda n: [
        *({"type": "summary", "leafUuid": f"x{k}", "summary": WORDS} for k in range(n)),
        *(code_record(k, None, isSidechain=True, agentId=f"a{k}") for k in range(n)),
    ],
)


def codex_case(name: str, build: Callable[[int], list[Any]]) -> None:
    def write_rollout(folder: Path, size: int) -> Path:
        records = [{"timestamp": "2026-01-01T00:00:00Z", **record} for record in build(size)]
        return write_lines(folder / "rollout-2026.jsonl", records)

    CASES[f"codex {name}"] = write_rollout


def codex_message(text: str = WORDS, role: str = "user") -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    payload = {"type": "message", "role": role, "content": content}
    return {"type": "response_item", "payload": payload}


def codex_event(**payload: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": payload}


codex_case(
    "forks",
    lambda n: [
        *({"type": "session_meta", "payload": {"id": f"s{k}"}} for k in range(n)),
        codex_message(),
    ],
)
codex_case(
    "rollbacks",
    lambda n: [
        record
        for _ in range(n)
        for record in (codex_message(), codex_event(type="thread_rolled_back", num_turns=1))
    ],
)


def gemini_case(name: str, build: Callable[[int], list[Any]]) -> None:
    head = {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-01T00:00:00Z"}
    CASES[f"gemini {name}"] = lambda folder, size: write_lines(
        folder / "session-2026.jsonl", [head, *build(size)]
    )


def gemini_message(n: int, text: str = WORDS, **more: Any) -> dict[str, Any]:
    return {"id": f"m{n}", "type": "user", "content": text, **more}


gemini_case(
    "rewinds",
    lambda n: [
        *(gemini_message(k) for k in range(n)),
        *(
            record
            for k in range(n)
            for record in ({"$rewindTo": f"m{n - 1 + k}"}, gemini_message(n + k))
        ),
    ],
)
gemini_case(
    "removed in reverse",
    lambda n: [
        *(gemini_message(k) for k in range(n)),
        {"$rewindTo": "m0"},
        *(gemini_message(k) for k in reversed(range(n))),
        {"$rewindTo": "m0"},
    ],
)


# -- JSON --------------------------------------------------------------------


def own(messages: list[Any], number: int = 0) -> dict[str, Any]:
    return {"id": f"c{number}", "source": "own", "messages": messages}


text_case(
    "own conversations",
    "conversations.json",
    lambda n: {
        "conversations": [own([{"id": "m", "role": "user", "content": WORDS}], k) for k in range(n)]
    },
)
text_case(
    "own unusable chain",
    "conversations.json",
    lambda n: {
        "conversations": [
            own(
                [
                    *(
                        {"id": f"u{k}", "parent": f"u{k - 1}", "role": "user", "content": None}
                        for k in range(n)
                    ),
                    *(
                        {"id": f"m{k}", "parent": f"u{n - 1}", "role": "user", "content": WORDS}
                        for k in range(n)
                    ),
                ]
            )
        ]
    },
)
for _name, _json in {
    "damaged records": lambda n: "[" + '{"mapping": {"a": [1, 2, }, ' * n,
    "unclosed records": lambda n: "[" + '{"mapping": {"a": ' * n,
    "unclosed lists": lambda n: '[{"mapping": [' + '[1, {"mapping": 1' * n,
    "unclosed string": lambda n: '[{"mapping": "' + "x" * 20 * n,
    "many quotes": lambda n: "[" + '{"' * 10 * n,
    "brackets": lambda n: "[" * 10 * n,
    "damage in a large record": lambda n: '[{"mapping": [' + '{"a": 1},' * 5 * n + "x, {}]}]",
    "white space": lambda n: "[" + " " * 30 * n + "]",
    "surrogates": lambda n: '[{"mapping": {}, "title": "' + "\\ud800" * 5 * n + '"}]',
}.items():
    text_case(f"json {_name}", "conversations.json", _json)


# -- characters and prompts --------------------------------------------------


text_case(
    "character lorebook",
    "card.json",
    lambda n: {
        "spec": "chara_card_v2",
        "data": {
            "name": "Ann",
            "first_mes": "Hello",
            "character_book": {
                "entries": [{"keys": ["a", f"k{k}"], "content": WORDS} for k in range(n)]
            },
        },
    },
)


def png(chunks: list[tuple[bytes, bytes]]) -> bytes:
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + type_ + data + struct.pack(">I", zlib.crc32(type_ + data))
        for type_, data in parts
    )


text_case(
    "character in png",
    "card.png",
    lambda n: png(
        [(b"tEXt", b"chara-ext-asset_%d\0x" % k) for k in range(n)]
        + [(b"tEXt", b'chara\0{"name": "Ann", "first_mes": "Hello"}')]
    ),
)


@case("character assets")
def _charx(folder: Path, size: int) -> Path:
    assets = [{"type": "icon", "uri": f"embeded://{k}.png"} for k in range(size)]
    card = {
        "spec": "chara_card_v3",
        "data": {"name": "Ann", "first_mes": "Hello", "assets": assets},
    }
    parts = {f"x{k}.png": "x" for k in range(size)}
    return write_zip(folder / "card.charx", {"card.json": json.dumps(card), **parts})


text_case(
    "prompts of one name",
    "prompts.json",
    lambda n: [{"name": "same", "user_prompt": f"{WORDS}{k}"} for k in range(n)],
)


def table(rows: int, columns: int) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["act", "prompt", *(f"c{k}" for k in range(columns))])
    for row in range(rows):
        writer.writerow([f"a{row}", WORDS, *("x" for _ in range(columns))])
    return out.getvalue()


text_case("prompt table", "prompts.csv", lambda n: table(n, 0))
text_case("prompt columns", "prompts.csv", lambda n: table(3, n))
text_case("prompt with many keys", "a.prompt.md", lambda n: "---\ntype: prompt\n---\n" + WORDS * n)


# -- notes -------------------------------------------------------------------


for _name, _text in {
    "text": lambda n: WORDS * n,
    "lines": lambda n: (WORDS + "\n") * n,
    "one word": lambda n: "x" * 40 * n,
    "empty lines": lambda n: "\n" * 40 * n,
    "tags": lambda n: " ".join(f"#tag{k}" for k in range(n)),
    "links": lambda n: " ".join(f"[[Note {k}]]" for k in range(n)),
    "open links": lambda n: "[[" * 10 * n,
    "back ticks": lambda n: "`" * 20 * n,
    "fences": lambda n: "```\nx\n~~~\n" * n,
    "heading with spaces": lambda n: "# a" + " " * 20 * n + "x",
    "underlined heading": lambda n: "=" * 20 * n + "\nx\n" + "=" * 20 * n,
    "spaces": lambda n: " " * 40 * n + "x",
    "chinese": lambda n: "种豆南山下" * 4 * n,
}.items():
    text_case(f"note {_name}", "a.md", _text)
    if _name in ("text", "lines", "heading with spaces"):
        text_case(f"note {_name} in plain text", "a.txt", _text)
        text_case(f"note {_name} in rst", "a.rst", _text)
text_case("note org settings", "a.org", lambda n: "#+title: a\n#+filetags: :b:\n" * n)

# Front matter is limited to 65,536 characters, so sizes are smaller. The comment is there because
# another parser reads short front matter.
COMMENT = "#" * 5_000
for _name, _block in {
    "keys": lambda n: "".join(f"k{k}: v\n" for k in range(n)),
    "tags": lambda n: "tags: [" + ", ".join(f"t{k}" for k in range(n)) + "]\n",
    "anchors": lambda n: "".join(f"k{k}: &a{k} v\n" for k in range(n)),
    "references": lambda n: "a: &a v\n" + "".join(f"k{k}: *a\n" for k in range(n)),
    "nested lists": lambda n: "a: " + "[" * 8 * n,
    "complex keys": lambda n: "? " * 8 * n,
    "folded text": lambda n: "a: >\n" + "  text\n" * n,
    "escapes": lambda n: 'a: "' + "\\x41" * 3 * n + '"',
    "colons": lambda n: "a:" * 5 * n,
    "integer": lambda n: "a: !!int " + "1:" * 5 * n + "1",
    "set": lambda n: "a: !!set {" + ", ".join(f"k{k}" for k in range(n)) + "}",
}.items():
    text_case(f"yaml {_name}", "a.md", lambda n, b=_block: f"---\n{COMMENT}\n{b(n // 4)}\n---\nx")  # type: ignore[misc]
for _name, _block in {
    "keys": lambda n: "".join(f"k{k} = 1\n" for k in range(n)),
    "dotted keys": lambda n: "a." * 8 * n + "b = 1",
    "tables": lambda n: "".join(f"[t{k}]\n" for k in range(n)),
    "arrays of tables": lambda n: "[[a]]\n" * n,
    "array": lambda n: "a = [" + "1, " * n + "]",
    "nested arrays": lambda n: "a = " + "[" * 8 * n,
    "string": lambda n: 'a = """' + "x\n" * n + '"""',
}.items():
    text_case(f"toml {_name}", "a.md", lambda n, b=_block: f"+++\n{b(n // 4)}\n+++\nx")  # type: ignore[misc]


@case("vault of notes")
def _vault(folder: Path, size: int) -> Path:
    vault = folder / "vault"
    vault.mkdir()
    for n in range(size // 4):
        write(vault / f"note {n}.md", f"# Note {n}\n\n{WORDS} [[note {n + 1}]]")
    return vault


@case("zip of notes")
def _zip(folder: Path, size: int) -> Path:
    notes = {f"{n}/note.md": f"# Note {n}\n\n{WORDS}" for n in range(size // 4)}
    return write_zip(folder / "vault.zip", notes)


@case("recordings of one name")
def _recordings_of_one_name(folder: Path, size: int) -> Path:
    vault = folder / "talks"
    vault.mkdir()
    write(vault / "talk.mp3", b"")
    for n in range(size // 8):
        code = "".join(chr(97 + n // 26**power % 26) for power in range(3))
        write(vault / f"talk.{code}.srt", f"1\n00:00:00,000 --> 00:00:02,000\n{WORDS}\n")
    return vault


# -- media -------------------------------------------------------------------


def office(main: str, parts: Mapping[str, str]) -> Callable[[Path], Path]:
    relations = f'<R><Relationship Id="r" Type="x/officeDocument" Target="{main}"/></R>'
    return lambda path: write_zip(path, {"_rels/.rels": relations, **parts})


def word_case(name: str, body: Callable[[int], str]) -> None:
    names = 'xmlns:w="w" xmlns:mc="mc"'

    def build(folder: Path, size: int) -> Path:
        document = f"<w:document {names}><w:body>{body(size)}</w:body></w:document>"
        return office("word/d.xml", {"word/d.xml": document})(folder / "a.docx")

    CASES[f"docx {name}"] = build


PARAGRAPH = f"<w:p><w:r><w:t>{WORDS}</w:t></w:r></w:p>"
word_case("paragraphs", lambda n: PARAGRAPH * n)
word_case("rows", lambda n: f"<w:tbl>{f'<w:tr><w:tc>{PARAGRAPH}</w:tc></w:tr>' * n}</w:tbl>")
word_case("boxes", lambda n: "<w:p>" + f"<w:txbxContent>{PARAGRAPH}</w:txbxContent>" * n + "</w:p>")
word_case("nested boxes", lambda n: "<w:p><w:txbxContent>" * n)
word_case(
    "alternatives",
    lambda n: (
        "<w:p>" + "<mc:AlternateContent><mc:Choice><w:t>x</w:t>"
        "</mc:Choice><mc:Fallback><w:t>y</w:t></mc:Fallback></mc:AlternateContent>" * n + "</w:p>"
    ),
)


@case("pptx slides")
def _slides(folder: Path, size: int) -> Path:
    count = size // 8
    slide = f'<p:s xmlns:p="p" xmlns:a="a"><p:sp><a:p><a:t>{WORDS}</a:t></a:p></p:sp></p:s>'
    ids = "".join(f'<p:sldId r:id="r{n}"/>' for n in range(count))
    relations = "".join(
        f'<Relationship Id="r{n}" Type="x/slide" Target="s{n}.xml"/>' for n in range(count)
    )
    return office(
        "ppt/p.xml",
        {
            "ppt/p.xml": f'<p:p xmlns:p="p" xmlns:r="r">{ids}</p:p>',
            "ppt/_rels/p.xml.rels": f"<R>{relations}</R>",
            **{f"ppt/s{n}.xml": slide for n in range(count)},
        },
    )(folder / "a.pptx")


@case("odt paragraphs")
def _odt(folder: Path, size: int) -> Path:
    body = f"<t:p>{WORDS}<t:span>x</t:span></t:p>" * size
    content = f'<o:d xmlns:o="o" xmlns:t="t"><o:body>{body}</o:body></o:d>'
    return write_zip(folder / "a.odt", {"content.xml": content})


@case("epub chapters")
def _epub(folder: Path, size: int) -> Path:
    count = size // 8
    items = "".join(
        f'<item id="i{n}" href="c{n}.html" media-type="text/html"/>' for n in range(count)
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(count))
    return write_zip(
        folder / "a.epub",
        {
            "META-INF/container.xml": '<c><rootfile full-path="p.opf"/></c>',
            "p.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{f"c{n}.html": f"<p>{WORDS}</p>" for n in range(count)},
        },
    )


for _name, _rtf in {
    "text": lambda n: WORDS * n,
    "paragraphs": lambda n: f"{WORDS}\\par " * n,
    "groups": lambda n: "{" * 10 * n,
    "escapes": lambda n: "\\'e9" * 5 * n,
    "control words": lambda n: "\\b" * 10 * n,
    "backslashes": lambda n: "\\" * 20 * n,
    "fonts": lambda n: "{\\fonttbl" + "{\\f1\\fcharset0 Arial;}" * n + "}",
}.items():
    text_case(f"rtf {_name}", "a.rtf", lambda n, r=_rtf: "{\\rtf1\\ansi " + r(n) + " x}")  # type: ignore[misc]

for _name, _html in {
    "paragraphs": lambda n: f"<p>{WORDS}</p>" * n,
    "attributes": lambda n: "<p " + " ".join(f"a{k}=1" for k in range(n)) + ">x</p>",
    "nested tables": lambda n: "<table><tr><td>" * n + "x",
    "nested lists": lambda n: "<ul><li>" * n + "x",
    "cells": lambda n: "<table><tr>" + f"<td>{WORDS}</td>" * n + "</tr></table>",
    "stray end tags": lambda n: "<b>" * 400 + "</i>" * n + "x",
    "meta tags": lambda n: "".join(f'<meta name="m{k}" content="x">' for k in range(n)) + "x",
    "comments": lambda n: "<!--" * n + "x",
    "entities": lambda n: "&amp;" * 5 * n,
    "links": lambda n: '<a href="x">y</a>' * n,
    "scripts": lambda n: '<script type="application/ld+json">{}</script>' * n + "x",
    "json": lambda n: '<script type="application/ld+json">' + "[" * 10 * n + "</script>x",
    "open tags": lambda n: "<a " * 10 * n,
    "text": lambda n: WORDS * n,
}.items():
    text_case(f"html {_name}", "a.html", _html)

for _name, _cue in {
    "srt": lambda n: "".join(
        f"{k}\n00:{k // 60 % 60:02}:{k % 60:02},000 --> 00:{k // 60 % 60:02}:{k % 60:02},900\n"
        f"{WORDS}\n\n"
        for k in range(n)
    ),
    "vtt": lambda n: "WEBVTT\n\n" + f"00:00.000 --> 00:01.000\n<v Ann>{WORDS}\n\n" * n,
    "sbv": lambda n: f"0:00:00.000,0:00:01.000\n{WORDS}\n\n" * n,
}.items():
    text_case(f"subtitles {_name}", f"a.{_name}", _cue)
text_case(
    "subtitles with tags",
    "a.vtt",
    lambda n: "WEBVTT\n\n00:00.000 --> 00:01.000\n" + "<c>" * 5 * n + "x",
)
text_case(
    "subtitles with open tags",
    "a.vtt",
    lambda n: "WEBVTT\n\n00:00.000 --> 00:01.000\n" + "<" * 20 * n + "x",
)
text_case(
    "subtitles of arrows",
    "a.srt",
    lambda n: "1\n00:00:00,000 --> 00:00:01,000\nx\n\n" + "-->" * 10 * n,
)
text_case(
    "transcript json",
    "a.json",
    lambda n: {"segments": [{"start": k, "end": k + 1, "text": WORDS} for k in range(n)]},
)
text_case(
    "png compressed texts",
    "a.png",
    lambda n: png([(b"zTXt", b"Comment\0\0" + zlib.compress(b"x" * 100)) for _ in range(n)]),
)
