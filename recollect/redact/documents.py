"""Documents without secrets: in their passages, titles and metadata.

Left alone is what things are known by: ids, the namespace, the names of
authors, models and tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from typing import Any

from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION
from recollect.redact import Found, redacted, redacted_parts, redacted_value

_TITLES = 20  # passages that a title may be the beginning of


def redacted_document(document: Document) -> tuple[Document, Found]:
    """The document without secrets, and how many there were of each kind; itself where there are none."""
    found: Found = Counter()
    if document.kind == CONVERSATION:
        passages = tuple(redacted_passage(passage, found) for passage in document.passages)
    else:  # a text in chunks, or fields in chunks
        by_field = groupby(document.passages, key=lambda passage: passage.role)
        passages = tuple(
            chain.from_iterable(_of_one_text(list(parts), found) for _, parts in by_field)
        )
    title = _title(document, passages, found)
    metadata = redacted_value(document.metadata, found)
    if not found:
        return document, found
    return replace(document, title=title, passages=passages, metadata=metadata), found


def redacted_passage(passage: Passage, found: Found) -> Passage:
    content, here = redacted(passage.content)
    found.update(here)
    return _with(passage, content, found)


def _with(passage: Passage, content: str, found: Found) -> Passage:
    metadata = redacted_value(passage.metadata, found)
    attachments, citations = (
        redacted_value(passage.attachments, found),
        redacted_value(passage.citations, found),
    )
    if (
        content == passage.content
        and metadata is passage.metadata
        and attachments is passage.attachments
        and citations is passage.citations
    ):
        return passage
    return passage._replace(
        content=content, metadata=metadata, attachments=attachments, citations=citations
    )


def _of_one_text(chunks: Sequence[Passage], found: Found) -> list[Passage]:
    """Chunks that are one text together: a secret may go through several. The places that they name move with it."""
    cuts = [[0, *_cues(chunk), len(chunk.content)] for chunk in chunks]
    pieces = [
        chunk.content[a:b] for chunk, at in zip(chunks, cuts, strict=True) for a, b in pairwise(at)
    ]
    made, here = redacted_parts(pieces)
    found.update(here)
    if not here:
        return [_with(chunk, chunk.content, found) for chunk in chunks]
    left = iter(made)
    passages: list[Passage] = []
    start = 0
    for chunk, at in zip(chunks, cuts, strict=True):
        parts = [next(left) for _ in at[1:]]
        content = "".join(parts)
        about: dict[str, Any] = dict(chunk.metadata)
        if "start" in about and "end" in about:
            about |= {"start": start, "end": start + len(content)}
        if about.get("cues"):
            places = _sums(parts)[1 : len(at) - 1]
            about["cues"] = [
                [place, *time[1:]] for place, time in zip(places, about["cues"], strict=True)
            ]
        passages.append(_with(chunk._replace(metadata=about), content, found))
        start += len(content)
    return passages


def _cues(chunk: Passage) -> list[int]:
    return [min(time[0], len(chunk.content)) for time in chunk.metadata.get("cues") or ()]


def _sums(parts: Sequence[str]) -> list[int]:
    sums = [0]
    for part in parts:
        sums.append(sums[-1] + len(part))
    return sums


def _title(document: Document, passages: Sequence[Passage], found: Found) -> str:
    """A title may be the beginning of a message, cut off in the middle of a secret."""
    title, here = redacted(document.title)
    found.update(here)
    beginning = title.rstrip("….")
    for before, after in zip(document.passages[:_TITLES], passages, strict=False):
        if (
            beginning
            and before.content != after.content
            and _line(before.content, title).startswith(beginning)
        ):
            clean = _line(after.content, title)
            if not clean.startswith(beginning):
                return clean[: len(title)]
    return title


def _line(content: str, title: str) -> str:
    """The beginning of a message, as titles are made of it."""
    return " ".join(content[: 4 * len(title) + 1_000].split())
