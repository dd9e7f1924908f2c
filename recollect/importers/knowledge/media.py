"""Media: documents, web pages, pictures, audio and video, each with the text that is in it.

A file is an item, known by where it lies. A recording and its transcript are one
item, and so are a picture and the text beside it (see `beside`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from recollect.importers import beside
from recollect.importers.beside import split
from recollect.importers.documents import images, recordings
from recollect.importers.documents.extract import Extract, contents
from recollect.importers.entries import Entry
from recollect.importers.items import with_cues, with_text
from recollect.importers.knowledge.notes import distinct, readable_name
from recollect.importers.texts import Unreadable
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
    ending = split(entry.basename)[1]
    return (
        ending in _KINDS
        or ending == beside.DESCRIPTION
        or (ending in _SIDECARS and beside.owner(entry) is not None)
    )


def accepts(entry: Entry) -> bool:
    """Also a text that would be a note, if nobody said otherwise."""
    return claims(entry) or split(entry.basename)[1] in _PLAIN


def read(entry: Entry) -> Iterator[Document | Problem]:
    ending = split(entry.basename)[1]
    owner = beside.owner(entry) if ending in _SIDECARS or ending == beside.DESCRIPTION else None
    if ending == beside.DESCRIPTION:
        yield Problem(
            "it describes a recording, and is read with that", entry.name, unit="conversations"
        )
    elif owner is not None:
        yield from _of_owner(entry, owner)
    else:
        yield from items(entry, *(_KINDS.get(ending) or _PLAIN[ending]))


def items(entry: Entry, media_type: str, extract: Extractor) -> Iterator[Document | Problem]:
    """The one item that a file is, or why it is none. Nothing that is wrong with a file ends an import."""
    try:
        found = _bounded(extract(entry))
        item = document(entry, media_type, found)
    except (Unreadable, OSError) as error:
        yield Problem(str(error), entry.name, failed=True, unit="conversations")
        return
    except Exception as error:  # whatever a library makes of a file that was made to break it
        reason = f"cannot be read as {media_type} ({type(error).__name__})"
        yield Problem(reason, entry.name, failed=True, unit="conversations")
        return
    yield item
    if found.lacks:
        yield Problem(found.lacks, entry.name, failed=True)


def document(entry: Entry, media_type: str, found: Extract) -> Document:
    metadata: dict[str, Json] = {
        "media_type": found.media_type or media_type,
        "tags": distinct(found.tags),
        "url": found.url,
        "author": found.author,
        "language": found.language,
        "duration": found.duration or (found.cues[-1].end if found.cues else None),
        "pages": len(found.pages),
        "file": entry.basename,
        "encoding": found.encoding,
    }
    written = entry.written
    item = Document(
        source=SOURCE.name,
        source_id=entry.place,
        title=" ".join(found.title.split()) or _stem(entry),
        kind=MEDIA,
        created_at=found.created_at or written,
        updated_at=written or found.created_at,
        metadata={key: value for key, value in metadata.items() if value},
        id=readable_name(entry),
    )
    return with_cues(item, found.cues) if found.cues else with_text(item, found.text, found.pages)


def _bounded(found: Extract) -> Extract:
    if len(found.text) <= LIMITS.document_characters:
        return found
    lacks = f"too much of it: only the first {LIMITS.document_characters:,} characters were taken"
    return found._replace(text=found.text[: LIMITS.document_characters], lacks=found.lacks or lacks)


def _stem(entry: Entry) -> str:
    stem, ending = split(entry.basename)
    return beside.without_language(stem)[0] if ending in beside.TRANSCRIPTS else stem


def _of_owner(entry: Entry, owner: Entry) -> Iterator[Document | Problem]:
    """What belongs to another file brings that one, so that it does not matter which of them is given."""
    picture = split(owner.basename)[1] in images.ENDINGS
    chosen = beside.text_of(owner) if picture else beside.transcript_of(owner)
    if chosen is not None and chosen.place == entry.place:
        yield from read(owner)
    else:
        yield Problem(
            "it belongs to another file, and is read with that", entry.name, unit="conversations"
        )


# -- kinds -------------------------------------------------------------------


def _text(entry: Entry) -> Extract:
    text, encoding = recordings.decoded_text(contents(entry))
    first = text.lstrip().split("\n", 1)[0]
    title = first.lstrip("#").strip() if first.startswith("# ") else ""
    return Extract(text, title=title, encoding=encoding)


def _picture(entry: Entry) -> Extract:
    found = images.extract(entry)
    sidecar = beside.text_of(entry)
    if sidecar is None:
        return found
    text, encoding = recordings.decoded_text(contents(sidecar))
    return found._replace(text=text.strip() or found.text, encoding=encoding)


def _late(module: str, name: str = "extract") -> Extractor:
    """What reads one kind. Libraries are loaded when the first such file comes."""

    def extract(entry: Entry) -> Extract:
        from importlib import import_module

        found: Extract = getattr(import_module(f"recollect.importers.documents.{module}"), name)(
            entry
        )
        return found

    return extract


_PLAIN: Mapping[str, tuple[str, Extractor]] = {
    **dict.fromkeys((".md", ".markdown", ".mdx"), ("markdown", _text)),
    **dict.fromkeys((".txt", ".text", ".org", ".rst"), ("txt", _text)),
}
_SIDECARS = frozenset({".txt", ".md", ".json"})
_KINDS: Mapping[str, tuple[str, Extractor]] = {
    ".pdf": ("pdf", _late("pdf")),
    ".epub": ("epub", _late("epub")),
    **dict.fromkeys((".docx", ".docm", ".dotx"), ("docx", _late("office", "docx"))),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx"), ("pptx", _late("office", "pptx"))),
    ".odt": ("odt", _late("office", "odt")),
    ".rtf": ("rtf", _late("office", "rtf")),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("html", _late("webpage"))),
    **dict.fromkeys(images.ENDINGS, ("image", _picture)),
    **dict.fromkeys(beside.VIDEO, ("video", recordings.extract)),
    **dict.fromkeys(beside.AUDIO, ("audio", recordings.extract)),
}
