"""Media: documents, web pages, pictures, audio and video, each with its text.

Each file is an item, identified by its location. A recording and its transcript are one item, and
so are a picture and its text; see `sidecars`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from recollect.importers import sidecars
from recollect.importers.documents import images, recordings
from recollect.importers.documents.extract import Extract, read_bytes
from recollect.importers.entries import Entry
from recollect.importers.items import item_id, with_cues, with_text
from recollect.importers.records import contain_errors, failure, reason_of, unique
from recollect.importers.sidecars import split
from recollect.model import sources
from recollect.model.documents import Document, Json
from recollect.model.kinds import MEDIA
from recollect.model.receipts import Problem
from recollect.settings import LIMITS

SOURCE = sources.MEDIA
DESCRIPTION = (
    "Media (PDF, EPUB, Word, PowerPoint, web pages, pictures; audio and video with a transcript)"
)

Extractor = Callable[[Entry], Extract]


def claims(entry: Entry) -> bool:
    suffix = split(entry.basename)[1]
    if suffix in _EXTRACTORS or suffix == sidecars.DESCRIPTION:
        return True
    return suffix in _SIDECARS and sidecars.owner(entry) is not None


def accepts(entry: Entry) -> bool:
    """Also text files, which are notes unless the user says otherwise."""
    return claims(entry) or split(entry.basename)[1] in _TEXT_EXTRACTORS


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    suffix = split(entry.basename)[1]
    if suffix == sidecars.DESCRIPTION:
        yield Problem("imported with the recording it describes", entry.name, unit="conversations")
        return
    owner = sidecars.owner(entry) if suffix in _SIDECARS else None
    if owner is not None:  # either of the two can be imported
        is_picture = split(owner.basename)[1] in images.SUFFIXES
        sidecar = (sidecars.text_of if is_picture else sidecars.transcript_of)(owner)
        if sidecar is not None and sidecar.place == entry.place:
            yield from read(owner)
        else:
            yield Problem("imported with the file it belongs to", entry.name, unit="conversations")
        return
    media_type, extract = _EXTRACTORS.get(suffix) or _TEXT_EXTRACTORS[suffix]
    yield from read_item(entry, media_type, extract)


def read_item(entry: Entry, media_type: str, extract: Extractor) -> Iterator[Document | Problem]:
    """The item that a file is, or why it cannot be read. No file can stop an import."""
    try:
        content, limit = extract(entry), LIMITS.document_characters
        if len(content.text) > limit:
            omission = f"too long: only the first {limit:,} characters were imported"
            omission = content.omission or omission
            content = content._replace(text=content.text[:limit], omission=omission)
        item = document(entry, media_type, content)
    except Exception as error:  # a malicious file can make a library raise anything
        yield failure(reason_of(error), entry.name)
        return
    yield item
    if content.omission:
        yield Problem(content.omission, entry.name, failed=True)


def document(entry: Entry, media_type: str, content: Extract) -> Document:
    last_cue = content.cues[-1].end if content.cues else None
    metadata: dict[str, Json] = {
        "media_type": content.media_type or media_type,
        "tags": unique(content.tags),
        "url": content.url,
        "author": content.author,
        "language": content.language,
        "duration": content.duration or last_cue,
        "pages": len(content.pages),
        "file": entry.basename,
        "encoding": content.encoding,
    }
    stem, suffix = split(entry.basename)
    if suffix in sidecars.TRANSCRIPTS:
        stem = sidecars.split_language(stem)[0]
    modified_at = entry.modified_at
    item = Document(
        source=SOURCE.name,
        source_id=entry.place,
        title=" ".join(content.title.split()) or stem,
        kind=MEDIA,
        created_at=content.created_at or modified_at,
        updated_at=modified_at or content.created_at,
        metadata={key: value for key, value in metadata.items() if value},
        id=item_id(entry),
    )
    if content.cues:
        return with_cues(item, content.cues)
    return with_text(item, content.text, content.pages)


# -- extractors --------------------------------------------------------------


def extract_text(entry: Entry) -> Extract:
    text, encoding = recordings.guess_text(read_bytes(entry))
    first_line = text.lstrip().split("\n", 1)[0]
    title = ""
    if first_line.startswith("# "):
        title = first_line.lstrip("#").strip()
    return Extract(text, title=title, encoding=encoding)


def extract_picture(entry: Entry) -> Extract:
    content = images.extract(entry)
    sidecar = sidecars.text_of(entry)
    if sidecar is None:
        return content
    text, encoding = recordings.guess_text(read_bytes(sidecar))
    return content._replace(text=text.strip() or content.text, encoding=encoding)


def lazy(module: str, function: str = "extract") -> Extractor:
    """An extractor whose module and libraries are loaded when the first file needs them."""

    def extract(entry: Entry) -> Extract:
        from importlib import import_module

        loaded = import_module(f"recollect.importers.documents.{module}")
        content: Extract = getattr(loaded, function)(entry)
        return content

    return extract


_TEXT_EXTRACTORS: Mapping[str, tuple[str, Extractor]] = {
    **dict.fromkeys((".md", ".markdown", ".mdx"), ("markdown", extract_text)),
    **dict.fromkeys((".txt", ".text", ".org", ".rst"), ("txt", extract_text)),
}
_SIDECARS = frozenset({".txt", ".md", ".json"})
_EXTRACTORS: Mapping[str, tuple[str, Extractor]] = {
    ".pdf": ("pdf", lazy("pdf")),
    ".epub": ("epub", lazy("office", "epub")),
    **dict.fromkeys((".docx", ".docm", ".dotx"), ("docx", lazy("office", "docx"))),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx"), ("pptx", lazy("office", "pptx"))),
    ".odt": ("odt", lazy("office", "odt")),
    ".rtf": ("rtf", lazy("office", "rtf")),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("html", lazy("webpage"))),
    **dict.fromkeys(images.SUFFIXES, ("image", extract_picture)),
    **dict.fromkeys(sidecars.VIDEO, ("video", recordings.extract)),
    **dict.fromkeys(sidecars.AUDIO, ("audio", recordings.extract)),
}
