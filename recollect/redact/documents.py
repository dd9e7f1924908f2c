"""Redact documents: their passages, titles and metadata.

Identifiers are not redacted: ids, the project, and the names of authors, models and tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise
from typing import Any

from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION
from recollect.redact.redactor import SecretCounts, redact_parts, redact_text, redact_value

_TITLE_PASSAGES = 20  # a title may be the beginning of one of the first passages


def redact_document(document: Document) -> tuple[Document, SecretCounts]:
    """The document without secrets, and their counts; the same object if it has none."""
    counts: SecretCounts = Counter()
    if document.kind == CONVERSATION:
        passages = [redact_passage(passage, counts) for passage in document.passages]
    else:  # chunks of a text, or chunks of fields
        passages = []
        for _, chunks in groupby(document.passages, key=lambda passage: passage.role):
            passages += redact_chunks(list(chunks), counts)
    title = redact_title(document, passages, counts)
    metadata = redact_value(document.metadata, counts)
    if not counts:
        return document, counts
    clean = replace(document, title=title, passages=tuple(passages), metadata=metadata)
    return clean, counts


def redact_passage(passage: Passage, counts: SecretCounts) -> Passage:
    content, secrets = redact_text(passage.content)
    counts.update(secrets)
    return with_content(passage, content, counts)


def with_content(passage: Passage, content: str, counts: SecretCounts) -> Passage:
    """The passage with a clean content, its other fields redacted."""
    clean = passage._replace(
        content=content,
        metadata=redact_value(passage.metadata, counts),
        attachments=redact_value(passage.attachments, counts),
        citations=redact_value(passage.citations, counts),
    )
    is_unchanged = (
        content == passage.content
        and clean.metadata is passage.metadata
        and clean.attachments is passage.attachments
        and clean.citations is passage.citations
    )
    if is_unchanged:
        return passage
    return clean


# -- chunks ------------------------------------------------------------------


def redact_chunks(chunks: Sequence[Passage], counts: SecretCounts) -> list[Passage]:
    """Redact the chunks of one text together, because a secret may be in several."""
    cuts = [_cuts(chunk) for chunk in chunks]
    pieces = [
        chunk.content[start:end]
        for chunk, positions in zip(chunks, cuts, strict=True)
        for start, end in pairwise(positions)
    ]
    clean_pieces, secrets = redact_parts(pieces)
    counts.update(secrets)
    if not secrets:
        return [with_content(chunk, chunk.content, counts) for chunk in chunks]
    remaining = iter(clean_pieces)
    passages: list[Passage] = []
    start = 0
    for chunk, positions in zip(chunks, cuts, strict=True):
        chunk_pieces = [next(remaining) for _ in pairwise(positions)]
        passages.append(redacted_chunk(chunk, chunk_pieces, start, counts))
        start += sum(map(len, chunk_pieces))
    return passages


def _cuts(chunk: Passage) -> list[int]:
    """Where to cut a chunk so that its cues and pages begin at cuts."""
    cues = chunk.metadata.get("cues") or ()
    positions = [cue[0] for cue in cues] or chunk.metadata.get("page_breaks") or ()
    length = len(chunk.content)
    return [0, *(min(position, length) for position in positions), length]


def redacted_chunk(chunk: Passage, pieces: list[str], start: int, counts: SecretCounts) -> Passage:
    content = "".join(pieces)
    metadata: dict[str, Any] = dict(chunk.metadata)
    if "start" in metadata and "end" in metadata:
        metadata |= {"start": start, "end": start + len(content)}
    positions = accumulate(map(len, pieces[:-1]))
    if metadata.get("cues"):
        metadata["cues"] = [
            [position, *cue[1:]] for position, cue in zip(positions, metadata["cues"], strict=True)
        ]
    elif metadata.get("page_breaks"):
        metadata["page_breaks"] = list(positions)
    return with_content(chunk._replace(metadata=metadata), content, counts)


# -- titles ------------------------------------------------------------------


def redact_title(document: Document, passages: Sequence[Passage], counts: SecretCounts) -> str:
    """The clean title. It may be the beginning of a message, cut off inside a secret."""
    title, secrets = redact_text(document.title)
    counts.update(secrets)
    beginning = title.rstrip("….")
    if not beginning:
        return title
    for original, clean in changed_passages(document.passages, passages):
        if first_words(original.content, title).startswith(beginning):
            words = first_words(clean.content, title)
            if not words.startswith(beginning):
                return words[: len(title)]
    return title


def changed_passages(
    originals: Sequence[Passage], passages: Sequence[Passage]
) -> Iterator[tuple[Passage, Passage]]:
    for original, clean in zip(originals[:_TITLE_PASSAGES], passages, strict=False):
        if original.content != clean.content:
            yield original, clean


def first_words(content: str, title: str) -> str:
    """The beginning of a message on one line, as titles are made from it."""
    return " ".join(content[: 4 * len(title) + 1_000].split())
