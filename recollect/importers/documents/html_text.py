"""The text of HTML as plain Markdown: headings, paragraphs, lists and tables.

It is collected while the page is parsed. There is no tree in memory, which would take several
times the size of the page, and time that is quadratic in the number of a tag's attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.importers.documents.extract import collapse_spaces, join_paragraphs, require
from recollect.importers.documents.package import feed_parser
from recollect.settings import LIMITS

_SKIPPED = frozenset(
    "script style template noscript head svg math iframe object form select".split()
)
_BLOCKS = frozenset(
    (
        "address article aside blockquote body caption center dd details dialog div dl dt"
        " fieldset figcaption figure footer h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol"
        " p pre section summary table tbody td tfoot th thead tr ul"
    ).split()
)
_PREFIXES = {"li": "- ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}
_SPACES = re.compile(r"\s+")
_CELLS = frozenset({"td", "th"})
_MAX_DEPTH = 512
"""As in browsers. The parser needs time in proportion to the depth for each stray end tag."""
_MAX_TABLE_DEPTH = 20
_CHUNK_BYTES = 4_096


@dataclass(slots=True)
class _Row:
    """An open row of a table, and what is around it."""

    outer_blocks: list[str]
    outer_prefixes: list[str]
    cells: list[str] = field(default_factory=list)


class HtmlText:
    """Collects the text of a page."""

    def __init__(self) -> None:
        self.omission = ""
        """What is missing from the text, for the receipt."""
        self.elements = 0
        self.attributes = 0
        """The largest number of attributes of an element."""
        self.is_full = False
        self.language = ""
        self._blocks: list[str] = []
        self._inline: list[str] = []
        """The text since the last block."""
        self._preformatted: list[str] = []
        self._depth = 0
        self._skipped_depth = 0
        self._preformatted_depth = 0
        self._prefixes: list[str] = []
        """The prefixes of open elements that no block has yet."""
        self._prefix_counts: list[int] = []
        """For every open element with a prefix, how many there were with its own."""
        self._rows: list[_Row] = []
        self._deep_rows = 0
        self._characters = 0

    @property
    def blocks(self) -> list[str]:
        return self._blocks

    @property
    def text(self) -> str:
        return join_paragraphs(self._blocks)

    @property
    def is_skipping(self) -> bool:
        return self._skipped_depth > 0

    @property
    def has_prefix(self) -> bool:
        return bool(self._prefixes)

    def set_prefix(self, prefix: str) -> None:
        """What to put before the next block; nothing in a table."""
        self._prefixes[:] = [prefix] if prefix and not self._rows else []

    # -- the parser's events ---

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        self.elements += 1
        self.attributes = max(self.attributes, len(attributes))
        if self._depth > _MAX_DEPTH:
            self.is_full = True
            self.omission = "nested too deeply: only the beginning was imported"
        if tag == "html":
            self.language = self.language or attributes.get("lang") or ""
        if self._skipped_depth or tag in _SKIPPED:
            self._skipped_depth += 1
        elif self._preformatted_depth:
            self._preformatted_depth += 1
            self._preformatted.append("\n" if tag == "br" else "")
        elif tag == "br":
            self._inline.append("\n")
        elif tag == "img":
            self._inline.append(str(attributes.get("alt") or ""))
        elif tag in _BLOCKS:
            self._flush()
            self._start_block(tag)

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._skipped_depth:
            self._skipped_depth -= 1
        elif self._preformatted_depth:
            self._preformatted_depth -= 1
            if not self._preformatted_depth:
                self._emit("".join(self._preformatted).strip("\n"))
                self._preformatted = []
        elif tag in _BLOCKS:
            self._flush()
            self._end_block(tag)

    def data(self, text: str) -> None:
        if self._skipped_depth:
            return
        self._characters += len(text)
        if self._characters > LIMITS.document_characters:
            self.is_full = True  # the caller says what is missing
        if self._preformatted_depth:
            self._preformatted.append(text)
        else:
            self._inline.append(_SPACES.sub(" ", text))

    def close(self) -> None:
        self._flush()
        while self._rows:
            self._close_row()

    # -- blocks ---

    def _start_block(self, tag: str) -> None:
        if tag == "pre":
            self._preformatted_depth = 1
        elif tag in _PREFIXES:
            self._prefixes.append(_PREFIXES[tag])
            self._prefix_counts.append(len(self._prefixes))
        elif tag == "tr":
            if len(self._rows) < _MAX_TABLE_DEPTH:
                self._rows.append(_Row(self._blocks, self._prefixes))
                self._blocks, self._prefixes = [], []
            else:
                self._deep_rows += 1

    def _end_block(self, tag: str) -> None:
        if tag in _PREFIXES and self._prefix_counts:
            del self._prefixes[self._prefix_counts.pop() - 1 :]
        elif tag == "tr" and self._deep_rows:
            self._deep_rows -= 1
        elif tag == "tr" and self._rows:
            self._close_row()
        elif tag in _CELLS and self._rows and not self._deep_rows:
            self._close_cell()

    def _close_row(self) -> None:
        """Each row of a table is one line."""
        self._close_cell()
        row = self._rows.pop()
        self._blocks, self._prefixes = row.outer_blocks, row.outer_prefixes
        self._emit(" | ".join(row.cells))

    def _close_cell(self) -> None:
        cell = " ".join(self._blocks).replace("\n", " ")
        if cell:
            self._rows[-1].cells.append(cell)
        self._blocks = []

    def _flush(self) -> None:
        self._emit(collapse_spaces("".join(self._inline)))
        self._inline = []

    def _emit(self, text: str) -> None:
        if text:
            self._blocks.append("".join(self._prefixes) + text)
            self._prefixes.clear()


def read_html(data: bytes, text: HtmlText) -> None:
    """Parse a page and collect its text."""
    require("lxml")
    from lxml import etree

    head = data[:1024].lower()
    encoding: str | None = "utf-8"  # lxml would assume Latin-1
    if b"charset=" in head or b"encoding=" in head or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = None  # the document names it
    # Small pieces, so that parsing can be stopped early.
    chunks = (data[n : n + _CHUNK_BYTES] for n in range(0, len(data), _CHUNK_BYTES))
    feed_parser(etree.HTMLParser(target=text, encoding=encoding), chunks, text)
