"""Small files that would take exponential time or space are imported or refused in linear time."""

from __future__ import annotations

import sqlite3
import struct
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from recollect import Document
from recollect.errors import RecollectError
from recollect.importers import registry
from recollect.importers.knowledge import frontmatter
from recollect.model.receipts import Problem
from recollect.search import foreign
from recollect.search.foreign import ForeignDatabase


def read(path: Path) -> list[Document | Problem]:
    items: list[Document | Problem] = []
    for file in registry.find(path):
        if isinstance(file, Problem):
            items.append(file)
        else:
            entry, format_ = file
            items += format_.read(entry)
    return items


def text(item: Document | Problem) -> str:
    assert isinstance(item, Document)
    return "".join(passage.content for passage in item.passages)


# -- nested text boxes -------------------------------------------------------

WORD = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
RELATIONS = (
    '<Relationships><Relationship Id="r1" Type="x/officeDocument" Target="word/document.xml"/>'
    "</Relationships>"
)


def word(path: Path, body: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_rels/.rels", RELATIONS)
        document = f"<w:document {WORD}><w:body>{body}</w:body></w:document>"
        archive.writestr("word/document.xml", document)
    return path


def test_nested_text_boxes_are_read_once(tmp_path: Path) -> None:
    body = "<w:p><w:r><w:t>inner</w:t></w:r></w:p>"
    for level in range(60):
        box = f"<w:txbxContent>{body}</w:txbxContent>"
        body = f"<w:p><w:r><w:t>{level}</w:t>{box}</w:r></w:p>"
    (item,) = read(word(tmp_path / "a.docx", body))
    assert text(item).split() == [str(level) for level in reversed(range(60))] + ["inner"]


def test_a_slide_that_is_listed_often_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.pptx"
    relations = "".join(
        f'<Relationship Id="r{n}" Type="x/slide" Target="{name}"/>'
        for n, name in enumerate(("s.xml", "S.xml", "./s.xml", "x/../s.xml") * 50)
    )
    slides = "".join(f'<p:sldId r:id="r{n}"/>' for n in range(200))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_rels/.rels", RELATIONS.replace("word/document", "ppt/main"))
        archive.writestr("ppt/main.xml", f'<p:p xmlns:p="p" xmlns:r="r"><p:l>{slides}</p:l></p:p>')
        archive.writestr("ppt/_rels/main.xml.rels", f"<R>{relations}</R>")
        archive.writestr(
            "ppt/s.xml", '<p:s xmlns:a="a" xmlns:p="p"><a:p><a:t>once</a:t></a:p></p:s>'
        )
    (item,) = read(path)
    assert text(item) == "once"


# -- front matter ------------------------------------------------------------


def test_merge_keys_do_not_multiply() -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{!!merge k: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    result = frontmatter.split("---\n" + "\n".join(lines) + "\n---\nbody")
    assert result.problem == "front matter is not valid YAML"


def test_aliases_of_aliases_do_not_multiply() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    result = frontmatter.split("---\n" + "\n".join(lines) + "\n---\nbody")
    assert result.problem == "front matter has too many values"


def test_the_key_of_a_table_cannot_have_thousands_of_parts() -> None:
    key = ".".join(["a"] * 30_000)
    for block in (f"{key} = 1", f"[{key}]", f"x = {{{key} = 1}}"):
        result = frontmatter.split(f"+++\n{block}\n+++\nbody")
        assert result.problem == "front matter has a key of more than 30 parts"


# -- databases ---------------------------------------------------------------

PAGE = 512


def bomb_database(path: Path) -> Path:
    """A database of 14 kB whose table `messages` has 40 ** 18 rows."""
    db = sqlite3.connect(path)
    db.execute(f"pragma page_size = {PAGE}")
    db.execute("create table messages (id, conversation_id, role, content, create_time, position)")
    db.execute("create table conversations (id, title)")
    db.commit()
    ((root,),) = db.execute("select rootpage from sqlite_schema where name = 'messages'")
    db.close()
    data = bytearray(path.read_bytes())
    numbers = [root, *range(10, 28)]
    data += bytes(numbers[-1] * PAGE - len(data))
    for number, child in pairwise(numbers):
        cell = struct.pack(">IB", child, 5)
        data[(number - 1) * PAGE : number * PAGE] = page(5, [cell] * 40, child)
    row = bytes([10, 5, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    data[-PAGE:] = page(13, [row] * 10)
    data[28:32] = struct.pack(">I", len(data) // PAGE)
    path.write_bytes(data)
    return path


def page(type_: int, cells: list[bytes], right_child: int | None = None) -> bytes:
    header = struct.pack(">BHHHB", type_, 0, len(cells), PAGE - sum(map(len, cells)), 0)
    if right_child is not None:
        header += struct.pack(">I", right_child)
    end = PAGE
    for cell in cells:
        end -= len(cell)
        header += struct.pack(">H", end)
    content = b"".join(reversed(cells))
    return header + bytes(PAGE - len(header) - len(content)) + content


def test_a_database_whose_pages_are_shared_is_refused(tmp_path: Path) -> None:
    (problem,) = read(bomb_database(tmp_path / "bomb.db"))
    assert isinstance(problem, Problem)
    assert problem.reason == "database is damaged: its pages are used twice"


def test_a_search_in_such_a_database_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "LIMITS", replace(foreign.LIMITS, foreign_search_seconds=0.1))
    database = ForeignDatabase(bomb_database(tmp_path / "bomb.db"))
    with pytest.raises(RecollectError):
        database.recent("beans")


def test_metadata_that_is_repeated_does_not_multiply_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = apsw.Connection(str(path))
    db.execute(
        """create table conversations (id, title);
        create table messages (id, conversation_id, role, content, create_time, parent_id);
        create table message_metadata (id integer primary key, message_id, model_slug);
        insert into conversations values ('c', 'Beans')"""
    )
    with db:
        for n in range(300):
            db.execute("insert into messages values ('m', 'c', 'user', 'hello', ?, null)", (n,))
            db.execute("insert into message_metadata (message_id, model_slug) values ('m', 'x')")
    db.close()
    items = read(path)
    assert [item.count for item in items if isinstance(item, Problem)] == [299]


# -- archives ----------------------------------------------------------------


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_file_that_cannot_be_unpacked_a_little_at_a_time_is_refused(
    tmp_path: Path, method: int
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.md", "good")
        archive.writestr("b.md", "bad", compress_type=method)
    items = read(path)
    assert [text(item) for item in items if isinstance(item, Document)] == ["good"]
    assert [item.failed for item in items if isinstance(item, Problem)] == [True]


# -- web pages ---------------------------------------------------------------


def test_a_tag_with_many_attributes_takes_linear_time(tmp_path: Path) -> None:
    attributes = " ".join(f"a{n}=1" for n in range(100_000))
    path = tmp_path / "a.html"
    path.write_text(f"<p {attributes}>text</p>")
    (item,) = read(path)
    assert text(item) == "text"


def test_a_page_that_is_nested_too_deeply_is_imported_in_part(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p>before</p>" + "<b>" * 100_000 + "</i>" * 100_000)
    item, problem = read(path)
    assert text(item) == "before"
    assert isinstance(problem, Problem)
    assert problem.reason == "nested too deeply: only the beginning was imported"
