"""What is fuzzed: functions that take bytes from strangers, and fail on anything but a clear error.

`fuzz.py` feeds them with inputs that reach new code. `test_targets.py` tries a few inputs of each
in `make test`.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw
from query_text import unparse

from recollect import Document
from recollect.errors import RecollectError
from recollect.importers.chats import (
    chatgpt,
    claude,
    claude_code,
    codex,
    gemini_cli,
    letta,
    own,
)
from recollect.importers.chats.programs import DATABASES, LOGS
from recollect.importers.entries import Entry, entries
from recollect.importers.knowledge import characters, media, notes, prompts, subtitles
from recollect.importers.registry import Format
from recollect.importers.session_databases import column_names
from recollect.language import chunking, transcript, when
from recollect.language.detection import language_of
from recollect.language.queries.fts5 import parse_fts5
from recollect.language.queries.intent import classify
from recollect.language.queries.query import literal_words, parse_query
from recollect.language.queries.query_tree import words
from recollect.language.text import indexable, storable, tokens
from recollect.model.receipts import Problem
from recollect.search.snippets import snippet

SAMPLES = Path(__file__).parents[1] / "samples"
BROWSER_TABLES = """
create table conversations (id, title, create_time, update_time);
create table messages (id, conversation_id, role, content, create_time, position);
"""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORD = (
    b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    b'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:body><w:p><w:r>'
    b"<w:t>HERE</w:t></w:r></w:p></w:body></w:document>"
)
SLIDE = (
    b'<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    b'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><p:cSld><p:spTree><p:sp>'
    b"<p:txBody><a:p><a:r><a:t>HERE</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
)
OPEN_DOCUMENT = (
    b'<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    b'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text>'
    b"<text:p>HERE</text:p></office:text></office:body></office:document-content>"
)
CHAPTER = b"<html><body><p>HERE</p></body></html>"
RELATION = b"<Relationships><Relationship Id='r1' Type='x/%s' Target='%s'/></Relationships>"
PARTS: dict[str, bytes] = {  # of all formats together
    "_rels/.rels": RELATION % (b"officeDocument", b"/main.xml"),
    "_rels/main.xml.rels": RELATION % (b"slide", b"/slide.xml"),
    "main.xml": b"<x xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/relationships'>"
    b"<sldId r:id='r1'/></x>",
    "mimetype": b"application/epub+zip",
    "META-INF/container.xml": b"<container><rootfiles><rootfile full-path='a.opf'/></rootfiles>"
    b"</container>",
    "a.opf": b"<package xmlns='http://www.idpf.org/2007/opf'><manifest><item id='a' href='a.xhtml' "
    b"media-type='application/xhtml+xml'/></manifest><spine><itemref idref='a'/></spine></package>",
}


FUZZED_FORMATS: set[Format] = {*DATABASES}


@dataclass(frozen=True)
class Target:
    """A function under test, and where its first inputs are."""

    run: Callable[[bytes], None]
    seeds: tuple[str, ...] = ()
    """Patterns of files in tests/samples."""

    def seed_files(self) -> Iterator[Path]:
        for pattern in self.seeds:
            yield from sorted(path for path in SAMPLES.glob(pattern) if path.is_file())


def importer(format_: Format, name: str) -> Callable[[bytes], None]:
    """Reads the bytes as a file of this name. Bad input is a Problem, never another exception."""
    FUZZED_FORMATS.add(format_)

    def run(data: bytes) -> None:
        entry = Entry(name, len(data), lambda: io.BytesIO(data))
        format_.claims(entry)
        for item in format_.read(entry):
            assert isinstance(item, Document | Problem)
            if isinstance(item, Document):
                check_document(item)

    return run


def archive(format_: Format, name: str, member: str, text: bytes) -> Callable[[bytes], None]:
    """Puts the bytes between two halves of a member of an archive: mutated archives are mostly
    unreadable, and would never reach the parser of the member."""
    read = importer(format_, name)
    before, after = text.split(b"HERE")

    def run(data: bytes) -> None:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as parts:
            for other, content in {**PARTS, member: before + data + after}.items():
                parts.writestr(other, content)
        read(file.getvalue())

    return run


def run_browser_database(data: bytes) -> None:
    """A database of ChatGPT Browser whose message is the input."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        with closing(apsw.Connection(str(path))) as db:
            db.execute(BROWSER_TABLES)
            text = data.decode(errors="replace")
            db.execute("insert into conversations values ('c1', ?, 1, 1)", (text[:40],))
            db.execute("insert into messages values ('m1', 'c1', 'user', ?, 1, 0)", (text,))
        for entry in entries(path):
            assert isinstance(entry, Entry)
            for item in DATABASES[-1].read(entry):
                if isinstance(item, Document):
                    check_document(item)


def run_session_databases(data: bytes) -> None:
    """Databases of other programs with the input in every column, as text and as bytes."""
    text = data.decode(errors="replace")
    with tempfile.TemporaryDirectory() as folder:
        for number, database in enumerate(DATABASES):
            path = Path(folder) / f"{number}.db"
            with closing(apsw.Connection(str(path))) as db:
                for table in database.tables:
                    own = column_names(f"{table.columns} {table.extras}").values()
                    names = {*own, *table.required.split()} - {"rowid"}
                    db.execute(f"create table {table.name} ({', '.join(sorted(names))})")
                    for value in (text, data, 0):
                        places = ", ".join("?" * len(names))
                        db.execute(
                            f"insert into {table.name} values ({places})", [value] * len(names)
                        )
            for entry in entries(path):
                assert isinstance(entry, Entry) and database.claims(entry)
                for item in database.read(entry):
                    assert not isinstance(item, Problem) or "cannot be read (" not in item.reason
                    if isinstance(item, Document):
                        check_document(item)


def check_document(document: Document) -> None:
    """Everything a store does first with a document works."""
    storable(document.title).encode()
    ids = [passage.id for passage in document.passages if passage.id is not None]
    assert len(ids) == len(set(ids)), "two passages have the same id"
    for passage in document.passages:
        text = storable(passage.content)
        text.encode()
        tokens(text[:10_000])


def run_query(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    try:
        query = parse_query(text)
    except RecollectError:
        return
    classify(text)
    language_of(text)
    literal_words(text)
    if query.node is not None:
        assert parse_query(unparse(query.node)).node is not None
        snippet(text * 3, words(query.node))


def run_fts5(data: bytes) -> None:
    try:
        parse_fts5(data.decode(errors="surrogateescape"))
    except RecollectError:
        return


def run_text(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    indexable(text)
    when.windows(text, NOW)
    chunking.chunks(storable(text))


def run_transcript(data: bytes) -> None:
    transcript.write(transcript.parse(data.decode(errors="replace")).cues, "srt")


TARGETS = {
    "chatgpt": Target(importer(chatgpt, "conversations.json"), ("chatgpt/*.json",)),
    "chatgpt-browser": Target(run_browser_database),
    "claude": Target(importer(claude, "conversations.json"), ("claude/*.json",)),
    "claude-code": Target(importer(claude_code, "a.jsonl"), ("claude-code/**/*.json*",)),
    "codex": Target(importer(codex, "rollout-2026-04-05T10-00-00-0c0de0.jsonl"), ("codex/*",)),
    "codex-history": Target(importer(LOGS[0], "history.jsonl")),
    "gemini-cli": Target(importer(gemini_cli, "session-1.json"), ("gemini-cli/**/*.json*",)),
    "letta": Target(importer(letta, "agent.af"), ("letta/*",)),
    "session-databases": Target(run_session_databases),
    "recollect": Target(importer(own, "export.json"), ("own/*",)),
    "notes-md": Target(importer(notes, "a.md"), ("notes/*",)),
    "notes-html": Target(importer(notes, "a.html"), ("notes/*",)),
    "characters": Target(importer(characters, "a.json"), ("characters/*",)),
    "characters-png": Target(importer(characters, "a.png")),
    "characters-charx": Target(importer(characters, "a.charx")),
    "prompts-csv": Target(importer(prompts, "prompts.csv"), ("prompts/*",)),
    "prompts-json": Target(importer(prompts, "prompts.json"), ("prompts/*",)),
    "subtitles": Target(importer(subtitles, "a.vtt"), ("subtitles/*",)),
    "docx": Target(archive(media, "a.docx", "main.xml", WORD)),
    "pptx": Target(archive(media, "a.pptx", "slide.xml", SLIDE)),
    "odt": Target(archive(media, "a.odt", "content.xml", OPEN_DOCUMENT)),
    "epub": Target(archive(media, "a.epub", "a.xhtml", CHAPTER)),
    "rtf": Target(importer(media, "a.rtf")),
    "html": Target(importer(media, "a.html"), ("notes/*.html",)),
    "jpeg": Target(importer(media, "a.jpg")),
    "mp3": Target(importer(media, "a.mp3")),
    "query": Target(run_query),
    "fts5": Target(run_fts5),
    "text": Target(run_text, ("notes/*",)),
    "transcript": Target(run_transcript, ("subtitles/*",)),
}
