"""Long texts and transcripts, one window at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from recollect.importers.items import cues_of
from recollect.language.transcript import Cue
from recollect.library import Library
from recollect.model.documents import Passage, Summary
from recollect.serve import links
from recollect.serve.identity.principal import Principal
from recollect.serve.masking import mask_passage

WINDOW_PASSAGES = 150
"""Passages on the page at first, and with each "Show more"."""
_PARAGRAPH_CHARS = 420  # of speech, after which a paragraph ends with the sentence
_LONG_PAUSE = 3.0  # seconds of silence that start a new paragraph
_SENTENCE_ENDS = (".", "?", "!", "…", "。", "？", "！")


class CueView(NamedTuple):
    """One cue of a transcript."""

    text: str
    seconds: float
    anchor: str
    """Its id on the page; empty if another cue of the same second has it."""


class Paragraph(NamedTuple):
    """Consecutive cues of one speaker."""

    seconds: int
    clock: str
    speaker: str
    play_url: str
    """Plays the recording from here; empty if the site has no such links."""
    cues: Sequence[CueView]


class TextPiece(NamedTuple):
    """A part of a text without times."""

    text: str
    position: int
    page: int | None
    """The page number, if a page starts here."""


class TextWindow(NamedTuple):
    """Consecutive passages of a text: paragraphs of a transcript, or pieces of a text."""

    start: int
    end: int
    total: int
    paragraphs: Sequence[Paragraph] = ()
    pieces: Sequence[TextPiece] = ()


def text_window(
    library: Library, principal: Principal, summary: Summary, position: int
) -> TextWindow:
    """The window of a text that contains the passage at this position."""
    position = max(0, min(position, summary.message_count - 1))
    start = position - position % WINDOW_PASSAGES
    passages = read_passages(library, principal, summary, start, WINDOW_PASSAGES)
    end, total = start + len(passages), summary.message_count
    if any(passage.metadata.get("cues") for passage in passages):
        paragraphs = tuple(_paragraphs(cues_of(passages), summary))
        return TextWindow(start, end, total, paragraphs=paragraphs)
    return TextWindow(start, end, total, pieces=tuple(_pieces(passages)))


def read_passages(
    library: Library,
    principal: Principal,
    summary: Summary,
    start: int = 0,
    limit: int | None = None,
) -> list[Passage]:
    """Passages of a document; without a limit, all from `start`."""
    passages: list[Passage] = []
    limit = summary.message_count if limit is None else limit
    while len(passages) < limit:
        page_size = min(WINDOW_PASSAGES, limit - len(passages))
        page, _ = library.messages(summary.id, start + len(passages), page_size)
        if not page:
            break
        passages += page
    return [mask_passage(passage, principal.audience) for passage in passages]


def format_clock(seconds: float) -> str:
    """A time as players show it: 2:03, 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minute:02}:{second:02}"
    return f"{minute}:{second:02}"


def _pieces(passages: Sequence[Passage]) -> Iterator[TextPiece]:
    last_page = None
    for passage in passages:
        page = passage.metadata.get("page")
        page = page if isinstance(page, int) else None
        yield TextPiece(passage.content, passage.position, page if page != last_page else None)
        last_page = page


def _paragraphs(cues: Iterable[Cue], summary: Summary) -> Iterator[Paragraph]:
    url = links.web(summary.metadata.get("url"))
    anchors: set[int] = set()
    paragraph: list[CueView] = []
    start, last, length = 0.0, None, 0
    for cue in cues:
        if last is not None and (
            cue.speaker != last.speaker
            or cue.start - last.end > _LONG_PAUSE
            or length > 3 * _PARAGRAPH_CHARS
            or (length > _PARAGRAPH_CHARS and last.text.rstrip().endswith(_SENTENCE_ENDS))
        ):
            yield _paragraph(paragraph, start, last.speaker, url)
            paragraph = []
        if not paragraph:
            start, length = cue.start, 0
        second = int(cue.start)
        paragraph.append(CueView(cue.text, cue.start, "" if second in anchors else f"t={second}"))
        anchors.add(second)
        last, length = cue, length + len(cue.text)
    if last is not None:
        yield _paragraph(paragraph, start, last.speaker, url)


def _paragraph(cues: Sequence[CueView], start: float, speaker: str | None, url: str) -> Paragraph:
    play_url = links.at_second(url, start) if url else ""
    return Paragraph(int(start), format_clock(start), speaker or "", play_url, cues)
