"""Documents, web pages and pictures become items with their text."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from builders import Entry, Limits, Problem, accepted_by, claimed_by, read_as
from hypothesis import given
from hypothesis import strategies as st
from lazy_import import LazyModule
from mediafiles import BOOK, one, pdf, problem, read, text, write_zip
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from recollect import Document

docx: Any = LazyModule("docx")
pptx: Any = LazyModule("pptx")

# -- PDF ---------------------------------------------------------------------


def test_a_pdf_has_text_by_page_and_metadata(tmp_path: Path) -> None:
    about = (
        "/Title (On Birds) /Author (Ann) /Keywords (owl, tit) "
        "/CreationDate (D:20240131120000+01'00')"
    )
    item = one(pdf(tmp_path / "birds.pdf", [["Owls fly at night."], [], ["Tits do not."]], about))
    assert (item.title, item.id, item.kind, item.source) == (
        "On Birds",
        "birds",
        "media",
        "media",
    )
    assert item.source_id == str(tmp_path / "birds.pdf")
    assert text(item) == "Owls fly at night.\n\nTits do not."
    assert item.passages[0].metadata["page"] == 1
    assert item.created_at == datetime(2024, 1, 31, 11, tzinfo=UTC)
    assert item.metadata == {
        "media_type": "pdf",
        "author": "Ann",
        "tags": ["owl", "tit"],
        "pages": 3,
        "file": "birds.pdf",
    }


def test_a_scanned_pdf_is_a_problem_with_advice(tmp_path: Path) -> None:
    assert "OCR" in problem(pdf(tmp_path / "scan.pdf", [[], []]))


def test_only_the_first_pages_of_a_long_pdf_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.importers.documents.pdf.LIMITS", Limits(document_pages=2))
    item, lack = read(pdf(tmp_path / "a.pdf", [["One."], ["Two."], ["Three."]]))
    assert isinstance(item, Document)
    assert text(item) == "One.\n\nTwo."
    assert isinstance(lack, Problem)
    assert (lack.reason, lack.failed) == ("too long: only the first 2 pages were imported", True)


# -- Office ------------------------------------------------------------------


def test_a_word_document_has_headings_lists_and_tables(tmp_path: Path) -> None:
    report = docx.Document()
    report.core_properties.title, report.core_properties.author = "Report", "Ann"
    report.core_properties.keywords, report.core_properties.created = "a; b", datetime(2020, 2, 3)
    report.add_heading("Summary", 2)
    report.add_paragraph("Owls\tfly.").add_run("\nAt night.")
    report.add_paragraph("first", style="List Bullet")
    table = report.add_table(2, 2)
    for n, cell in enumerate(c for row in table.rows for c in row.cells):
        cell.text = f"c{n}"
    report.save(str(tmp_path / "report.docx"))
    item = one(tmp_path / "report.docx")
    assert text(item) == "## Summary\n\nOwls fly.\nAt night.\n\nfirst\n\nc0 | c1\n\nc2 | c3"
    assert (item.title, item.metadata["author"], item.metadata["tags"]) == (
        "Report",
        "Ann",
        ["a", "b"],
    )
    assert item.created_at == datetime(2020, 2, 3, tzinfo=UTC)
    assert item.metadata["media_type"] == "docx"


W = (
    'xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
RELATIONS = (
    '<Relationships><Relationship Id="r1" Type="x/officeDocument" Target="/word/document.xml"/>'
    "</Relationships>"
)


def word(path: Path, body: str, **parts: str) -> Path:
    head = f'<?xml version="1.0"?>{parts.pop("doctype", "")}'
    document = f"{head}<w:document {W}><w:body>{body}</w:body></w:document>"
    return write_zip(path, {"_rels/.rels": RELATIONS, "word/document.xml": document, **parts})


def test_text_that_other_libraries_miss_is_read_from_word(tmp_path: Path) -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    path = word(
        tmp_path / "macros.docm",
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        "<w:p><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        "<w:p><w:r><w:t>beside </w:t><mc:AlternateContent>"
        f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>",
    )
    assert text(one(path)) == "controlled\n\ninserted\n\nbeside\n\nboxed"


def test_xml_entities_read_no_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("password")
    doctype = f'<!DOCTYPE x [<!ENTITY f SYSTEM "file://{tmp_path}/secret">]>'
    path = word(tmp_path / "a.docx", "<w:p><w:r><w:t>x&f;y</w:t></w:r></w:p>", doctype=doctype)
    assert text(one(path)) == "xy"


def test_xml_entities_do_not_multiply(tmp_path: Path) -> None:
    names = "abcdefghijklmnop"
    doctype = "<!DOCTYPE x [" + '<!ENTITY a "ha">'
    for inner, outer in pairwise(names):
        doctype += f'<!ENTITY {outer} "{f"&{inner};" * 10}">'
    body = "<w:p><w:r><w:t>before</w:t></w:r></w:p><w:p><w:r><w:t>&p;</w:t></w:r></w:p>"
    path = word(tmp_path / "a.docx", body, doctype=f"{doctype}]>")
    content = text(one(path))
    assert content.startswith("before")
    assert len(content) < 10_000_000


def test_slides_are_pages_with_their_notes(tmp_path: Path) -> None:
    presentation = pptx.Presentation()
    for n in (1, 2):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = f"Title {n}"
        slide.placeholders[1].text = f"point {n}\nmore"
        slide.notes_slide.notes_text_frame.text = f"say {n}"
    presentation.core_properties.title = ""
    presentation.save(str(tmp_path / "talk.pptx"))
    item = one(tmp_path / "talk.pptx")
    assert text(item) == "\n\n".join(f"Title {n}\n\npoint {n}\n\nmore\n\nsay {n}" for n in (1, 2))
    assert (item.title, item.metadata["pages"], item.metadata["media_type"]) == (
        "Title 1",
        2,
        "pptx",
    )


def test_open_documents_are_read(tmp_path: Path) -> None:
    names = 'xmlns:o="urn:o" xmlns:t="urn:t" xmlns:d="http://purl.org/dc/elements/1.1/"'
    body = (
        '<t:h t:outline-level="2">Head</t:h>'
        "<t:p>One<t:s/><t:span>two</t:span><t:line-break/>three</t:p>"
        "<t:list><t:list-item><t:p>x</t:p></t:list-item></t:list>"
    )
    path = write_zip(
        tmp_path / "a.odt",
        {
            "content.xml": f"<o:doc {names}><o:body><o:text>{body}</o:text></o:body></o:doc>",
            "meta.xml": f"<o:meta {names}><d:title>T</d:title>"
            "<o:initial-creator>Ann</o:initial-creator></o:meta>",
        },
    )
    item = one(path)
    assert text(item) == "## Head\n\nOne two\nthree\n\n- x"
    assert (item.title, item.metadata["author"]) == ("T", "Ann")


def test_rtf_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_bytes(
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\f0 Caf\'e9 \b noir\b0.\par Two}"
    )
    assert text(one(tmp_path / "a.rtf")).split() == ["Café", "noir.", "Two"]


# -- EPUB --------------------------------------------------------------------


def test_a_book_has_its_chapters_in_order(tmp_path: Path) -> None:
    item = one(write_zip(tmp_path / "book.epub", BOOK))
    assert text(item) == "## Für immer\n\nOne two.\nThree\n\n- x\n\n- y\n\n1 | 2"
    assert (item.title, item.metadata["author"], item.metadata["language"]) == (
        "A & B",
        "Ann, Bob",
        "de",
    )
    assert (item.metadata["tags"], item.created_at) == (["Birds"], datetime(2021, 5, 1, tzinfo=UTC))


@pytest.mark.parametrize("name", ["a.epub", "a.docx", "a.pptx", "a.odt"])
def test_zip_bombs_are_rejected(tmp_path: Path, name: str) -> None:
    bomb = {
        **BOOK,
        "word/document.xml": " " * 20_000_000,
        "content.xml": "x",
        "_rels/.rels": RELATIONS,
    }
    assert "zip bomb" in problem(write_zip(tmp_path / name, bomb))


# -- web pages ---------------------------------------------------------------

PAGE = """<!DOCTYPE html>
<!-- saved from url=(0022)https://saved.example/ -->
<html lang="en-GB"><head><meta charset="utf-8"><title>Owls | Birds</title>
<meta property="og:type" content="article"><meta property="og:title" content="Owls at Night">
<meta name="author" content="Ann B"><meta name="keywords" content="owls, night">
<link rel="canonical" href="https://birds.example/owls">
<meta property="article:published_time" content="2024-03-02T10:00:00+01:00"></head>
<body><nav><a href="/">Home</a> <a href="/about">About us</a></nav><article><h1>Owls at Night</h1>
<p>Owls see well in the dark, because their eyes are large and do not move.</p>
<p>They hear even better, for the feathers of their face lead the sound – as a dish would.</p>
<ul><li>barn owl</li><li>tawny owl</li></ul></article>
<footer>All rights reserved. Cookies.</footer></body></html>"""


def test_an_article_is_imported_without_navigation(tmp_path: Path) -> None:
    (tmp_path / "owls.html").write_text(PAGE, encoding="utf-8")
    item = one(tmp_path / "owls.html")
    assert "eyes are large" in text(item)
    assert "sound – as" in text(item)
    assert "tawny owl" in text(item)
    assert "About us" not in text(item)
    assert "Cookies" not in text(item)
    assert item.title == "Owls at Night"
    assert item.created_at == datetime(2024, 3, 2, tzinfo=UTC)
    assert item.metadata == {
        "media_type": "article",
        "author": "Ann B",
        "language": "en-GB",
        "tags": ["owls", "night"],
        "url": "https://birds.example/owls",
        "file": "owls.html",
    }


def test_json_ld_gives_the_author_and_date_of_a_page(tmp_path: Path) -> None:
    article = (
        '"@type": ["NewsArticle"], "headline": "H", "datePublished": "2020-05-06", '
        '"author": [{"name": "Zed"}]'
    )
    record = f'{{"@context": "https://schema.org", "@graph": [{{{article}}}]}}'
    (tmp_path / "a.html").write_text(
        f'<script type="application/ld+json">{record}</script><p>Some words.</p>'
    )
    item = one(tmp_path / "a.html")
    assert (item.title, item.metadata["author"]) == ("H", "Zed")
    assert item.created_at == datetime(2020, 5, 6, tzinfo=UTC)


# -- pictures ----------------------------------------------------------------


def test_the_text_of_a_picture_is_its_metadata(tmp_path: Path) -> None:
    image = Image.new("RGB", (2, 2))
    exif = image.getexif()
    exif[0x010E], exif[0x013B] = "An owl at dusk", "Ann"
    exif[0x9C9E] = "owl;dusk".encode("utf-16-le")
    exif.get_ifd(0x8769)[0x9003] = "2023:04:05 06:07:08"
    xmp = (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        b"<dc:title><a><li>Owl</li></a></dc:title>"
        b"<dc:subject><b><li>bird</li></b></dc:subject></x:xmpmeta>"
    )
    image.save(tmp_path / "IMG_1.jpg", exif=exif, xmp=xmp)
    item = one(tmp_path / "IMG_1.jpg")
    assert (item.title, text(item), item.metadata["author"]) == ("Owl", "An owl at dusk", "Ann")
    assert item.metadata["tags"] == ["bird", "owl", "dusk"]
    assert item.created_at == datetime(2023, 4, 5, 6, 7, 8, tzinfo=UTC)
    assert item.metadata["media_type"] == "image"


@pytest.mark.parametrize("name", ["owl.txt", "owl.png.txt", "owl.png.md"])
def test_a_picture_and_its_text_file_are_one_item(tmp_path: Path, name: str) -> None:
    Image.new("L", (1, 1)).save(tmp_path / "owl.png")
    (tmp_path / name).write_text("An owl looks at me.\n")
    for path in ("owl.png", name):
        item = one(tmp_path / path)
        assert (item.title, text(item), item.source_id) == (
            "owl",
            "An owl looks at me.",
            str(tmp_path / "owl.png"),
        )


# -- plain text as media -----------------------------------------------------


def test_text_files_are_notes_unless_the_user_says_media(tmp_path: Path) -> None:
    for name, kind in (("a.md", "markdown"), ("b.txt", "txt")):
        (tmp_path / name).write_text("# Head\n\nWords.")
        entry = Entry(name, 14, partial((tmp_path / name).open, "rb"))
        assert not claimed_by("media", entry)
        assert accepted_by("media", entry)
        [item] = read_as("media", entry)
        assert isinstance(item, Document)
        assert (item.title, text(item), item.metadata["media_type"]) == (
            "Head",
            "# Head\n\nWords.",
            kind,
        )


# -- times -------------------------------------------------------------------


# -- properties --------------------------------------------------------------

ENDINGS = [
    ".pdf",
    ".epub",
    ".docx",
    ".pptx",
    ".odt",
    ".rtf",
    ".html",
    ".png",
    ".jpg",
    ".webp",
    ".gif",
    ".srt",
    ".vtt",
    ".mp3",
    ".mp4",
]
HEADS = [
    b"",
    b"%PDF-1.7\n",
    b"PK\x03\x04",
    b"{\\rtf1 ",
    b"<html>",
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff\xe1",
    b"RIFF\0\0\0\0WEBP",
    b"GIF89a",
    b"WEBVTT\n\n",
]


def entry_of(name: str, data: bytes) -> Entry:
    import io

    return Entry(name, len(data), lambda: io.BytesIO(data))


@given(st.sampled_from(ENDINGS), st.sampled_from(HEADS), st.binary(max_size=300))
def test_no_bytes_raise(ending: str, head: bytes, data: bytes) -> None:
    entry = entry_of("a" + ending, head + data)
    name = "subtitles" if claimed_by("subtitles", entry) else "media"
    assert all(isinstance(item, Document | Problem) for item in read_as(name, entry))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    about = PngInfo()
    about.add_itxt("Title", "Owl", zip=True)
    Image.new("L", (3, 3)).save(folder / "a.png", pnginfo=about)
    exif = Image.Exif()
    exif[0x010E] = "An owl"
    Image.new("L", (3, 3)).save(folder / "a.jpg", exif=exif)
    return {
        ".pdf": pdf(folder / "a.pdf", [["One."], ["Two."]], "/Title (T)").read_bytes(),
        ".epub": write_zip(folder / "a.epub", BOOK).read_bytes(),
        ".docx": word(folder / "a.docx", "<w:p><w:r><w:t>One</w:t></w:r></w:p>").read_bytes(),
        ".html": PAGE.encode(),
        ".png": (folder / "a.png").read_bytes(),
        ".jpg": (folder / "a.jpg").read_bytes(),
    }


@given(st.data())
def test_a_damaged_file_is_a_problem_or_has_less_text(
    whole: dict[str, bytes], data: st.DataObject
) -> None:
    ending = data.draw(st.sampled_from(sorted(whole)))
    broken = bytearray(whole[ending])
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(broken) - 1), st.integers(0, 255)), max_size=8)
    ):
        broken[at] = byte
    end = data.draw(st.integers(0, len(broken)))
    items = list(read_as("media", entry_of("a" + ending, bytes(broken[:end]))))
    assert items
    assert all(isinstance(item, Document | Problem) for item in items)
