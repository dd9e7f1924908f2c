"""Builders of small media files for the tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from recollect import Document
from recollect.importers.entries import Entry, entries
from recollect.importers.items import text_of
from recollect.importers.knowledge import media, subtitles
from recollect.model.receipts import Problem


def read(path: Path) -> list[Document | Problem]:
    """The documents and problems of the files at `path`."""
    items: list[Document | Problem] = []
    for entry in entries(path):
        if isinstance(entry, Entry):
            format_ = next((f for f in (subtitles, media) if f.claims(entry)), None)
            items += format_.read(entry) if format_ else [Problem("not claimed", entry.name)]
        else:
            items.append(entry)
    return items


def one(path: Path) -> Document:
    documents = read(path)
    assert len(documents) == 1, documents
    assert isinstance(documents[0], Document), documents[0]
    return documents[0]


def problem(path: Path) -> str:
    documents = read(path)
    assert len(documents) == 1, documents
    assert isinstance(documents[0], Problem), documents[0]
    return documents[0].reason


def text(document: Document) -> str:
    return text_of(document.passages)


def write_zip(path: Path, parts: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def pdf(path: Path, pages: Iterable[Iterable[str]], about: str = "", trailer: str = "") -> Path:
    """A PDF with lines of text on each page."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for lines in pages:
        operators = " ".join(f"({line}) Tj 0 -14 Td" for line in lines)
        stream = f"BT /F1 12 Tf 72 720 Td {operators} ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    objects.append(f"<< {about} >>")
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1"))
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.writelines(f"{place:010} 00000 n \n".encode() for place in places)
    info = f"/Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R {trailer}"
    out.write(f"trailer << {info} >>\nstartxref\n{start}\n%%EOF\n".encode())
    path.write_bytes(out.getvalue())
    return path


CONTAINER = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
OPF = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata>
<dc:title>A &amp; B</dc:title><dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator>
<dc:language>de</dc:language>
<dc:date>2021-05</dc:date><dc:subject>Birds</dc:subject></metadata><manifest>
<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="b" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="one.xhtml" media-type="application/xhtml+xml"/>
<item id="p" href="p.png" media-type="image/png"/></manifest>
<spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/><itemref idref="p"/></spine>
</package>"""
BOOK: Mapping[str, str] = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OPS/book.opf": OPF,
    "OPS/nav.xhtml": "<html><body><p>contents</p></body></html>",
    "OPS/one.xhtml": "<html><head><title>t</title></head><body><h2>Für  immer</h2>"
    "<p>One\n<i>two</i>.<br/>Three</p></body></html>",
    "OPS/text/two b.xhtml": "<html><body><ul><li>x</li><li>y</li></ul>"
    "<table><tr><td>1</td><td>2</td></tr></table><script>no</script></body></html>",
}
