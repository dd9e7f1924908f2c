"""The text of Office and OpenDocument XML, collected while it is parsed.

Every element is visited once, and there is no tree in memory. The paragraphs of a text box follow
the paragraph that it is anchored in. Each row of a table is one line. Of alternatives for different
versions of Word, the first is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.importers.documents.extract import collapse_spaces
from recollect.settings import LIMITS

_SKIPPED = frozenset({"del", "moveFrom", "tracked-changes", "annotation", "notes-configuration"})
_ROWS = frozenset({"tr", "table-row"})
_PARAGRAPHS = frozenset({"p", "h"})
_BREAKS = frozenset({"br", "cr", "line-break"})
_TEXT_BOX = "txbxContent"
_ALTERNATIVES = "AlternateContent"
_CHARACTERS = {"tab": "\t", "noBreakHyphen": "-", **dict.fromkeys(_BREAKS, "\n")}

Attributes = Mapping[str, str]


@dataclass(slots=True)
class _Context:
    """An open element that collects text: the document, a paragraph, a text box or a row."""

    name: str
    depth: int
    blocks: list[str] = field(default_factory=list)
    """The paragraphs in it. Those in a paragraph are from its text boxes."""
    parts: list[str] = field(default_factory=list)
    """The text of a paragraph."""
    cells: list[str] = field(default_factory=list)
    prefix: str = ""
    """What to put before a paragraph: `# ` for a heading, `- ` for a list item."""


@dataclass(slots=True)
class _Shape:
    """A shape on a slide, its placeholder type, and which of the blocks are in it."""

    depth: int
    start: int
    end: int = 0
    placeholder: str = ""


class _XmlText:
    """A collector for `package.collect`. Subclasses know what an element means."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.is_full = False
        self._path: list[str] = []
        """The names of the open elements."""
        self._contexts = [_Context("", 0, self.blocks)]
        self._skipped_depth = 0
        """How many open elements are inside one that is skipped, including it."""
        self._finished_alternatives: set[int] = set()
        """The depths of alternatives of which one was used."""
        self._rows = 0
        self._characters = 0

    def start(self, tag: str, attributes: Attributes) -> None:
        name = tag.rpartition("}")[2]
        if self._skipped_depth or self._is_skipped(name, attributes):
            self._skipped_depth += 1
            return
        self._path.append(name)
        if self._paragraph is not None:
            self._start_in_paragraph(name, attributes)
        elif name in _PARAGRAPHS:
            self._open_context(name)
            self._contexts[-1].prefix = self._prefix(name, attributes)
        elif name in _ROWS:
            self._open_context(name)
            self._rows += 1
        self._start_other(name, attributes)

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            return
        depth = len(self._path)
        self._path.pop()
        self._end_other(depth)
        if self._contexts[-1].depth == depth:
            self._close_context()
        row = self._contexts[-1]
        if row.name in _ROWS and row.depth == depth - 1:
            _close_cell(row)
        self._finished_alternatives.discard(depth)
        if self._path and self._path[-1] == _ALTERNATIVES:
            self._finished_alternatives.add(depth - 1)

    def close(self) -> None:
        while len(self._contexts) > 1:  # the document is cut off
            self._close_context()

    # -- what subclasses know ---

    def data(self, text: str) -> None:
        raise NotImplementedError

    def _start_in_paragraph(self, name: str, attributes: Attributes) -> None:
        raise NotImplementedError

    def _prefix(self, name: str, attributes: Attributes) -> str:
        return ""

    def _start_other(self, name: str, attributes: Attributes) -> None:
        pass

    def _end_other(self, depth: int) -> None:
        pass

    def _is_skipped(self, name: str, attributes: Attributes) -> bool:
        return name in _SKIPPED or len(self._path) in self._finished_alternatives

    # -- contexts ---

    @property
    def _paragraph(self) -> _Context | None:
        context = self._contexts[-1]
        if context.name in _PARAGRAPHS:
            return context
        return None

    def _open_context(self, name: str) -> None:
        self._contexts.append(_Context(name, len(self._path)))

    def _close_context(self) -> None:
        context = self._contexts.pop()
        outer = self._contexts[-1].blocks
        if context.name in _PARAGRAPHS:
            text = collapse_spaces("".join(context.parts))
            if text:
                prefix = context.prefix if not self._rows else ""
                outer.append(prefix + text)
        elif context.name in _ROWS:
            _close_cell(context)
            self._rows -= 1
            if context.cells:
                outer.append(" | ".join(context.cells))
            return
        outer += context.blocks

    def _add_text(self, text: str) -> None:
        paragraph = self._paragraph
        if paragraph is not None and not self._skipped_depth:
            paragraph.parts.append(text)
            self._characters += len(text)
            self.is_full = self._characters > LIMITS.document_characters


def _close_cell(row: _Context) -> None:
    cell = " ".join(row.blocks).replace("\n", " ")
    if cell:
        row.cells.append(cell)
    row.blocks = []


class OfficeText(_XmlText):
    """The text of a part of Word or PowerPoint, and of the shapes on a slide."""

    def __init__(self, headings: Mapping[str, int]) -> None:
        """`headings` are the levels of the styles that are headings."""
        super().__init__()
        self._headings = headings
        self._shapes: list[_Shape] = []
        self._open_shapes: list[_Shape] = []

    def data(self, text: str) -> None:
        if self._path and self._path[-1] == "t":
            self._add_text(text)

    def shape_blocks(self, *placeholders: str) -> list[str]:
        """The paragraphs of the first shape that is one of these placeholders."""
        for shape in self._shapes:
            if shape.placeholder in placeholders:
                return self.blocks[shape.start : shape.end]
        return []

    def _start_in_paragraph(self, name: str, attributes: Attributes) -> None:
        paragraph = self._contexts[-1]
        if name == _TEXT_BOX:
            self._open_context(name)
        elif name in _CHARACTERS:
            paragraph.parts.append(_CHARACTERS[name])
        elif len(self._path) == paragraph.depth + 2 and self._path[-2] == "pPr":
            self._read_property(paragraph, name, attributes)

    def _read_property(self, paragraph: _Context, name: str, attributes: Attributes) -> None:
        if name == "pStyle":
            level = self._headings.get(attribute(attributes, "val"))
            if level:
                paragraph.prefix = "#" * min(level, 6) + " "
        elif name == "numPr" and not paragraph.prefix:
            paragraph.prefix = "- "

    def _is_skipped(self, name: str, attributes: Attributes) -> bool:
        if super()._is_skipped(name, attributes):
            return True
        return self._paragraph is not None and (name == "tabs" or _is_page_field(name, attributes))

    def _start_other(self, name: str, attributes: Attributes) -> None:
        if name == "sp":
            self._open_shapes.append(_Shape(len(self._path), len(self.blocks)))
        elif name == "ph" and self._open_shapes:
            self._open_shapes[-1].placeholder = attributes.get("type", "")

    def _end_other(self, depth: int) -> None:
        if self._open_shapes and self._open_shapes[-1].depth == depth:
            shape = self._open_shapes.pop()
            shape.end = len(self.blocks)
            self._shapes.append(shape)


def _is_page_field(name: str, attributes: Attributes) -> bool:
    """Whether an element is a field for the slide number or the date."""
    return name == "fld" and attributes.get("type", "").startswith(("slidenum", "datetime"))


class OpenDocumentText(_XmlText):
    """The text of OpenDocument, where text stands between elements."""

    def __init__(self) -> None:
        super().__init__()
        self._list_items: list[int] = []
        """The depths of the open list items."""

    def data(self, text: str) -> None:
        self._add_text(text)

    def _start_in_paragraph(self, name: str, attributes: Attributes) -> None:
        character = " " if name == "s" else _CHARACTERS.get(name)
        if character is not None:
            self._contexts[-1].parts.append(character)

    def _prefix(self, name: str, attributes: Attributes) -> str:
        if name == "h":
            level = attribute(attributes, "outline-level")
            depth = int(level) if level.isdecimal() and len(level) < 3 else 1
            return "#" * min(max(depth, 1), 6) + " "
        return "- " if self._list_items else ""

    def _start_other(self, name: str, attributes: Attributes) -> None:
        if name == "list-item":
            self._list_items.append(len(self._path))

    def _end_other(self, depth: int) -> None:
        if self._list_items and self._list_items[-1] == depth:
            self._list_items.pop()


def attribute(attributes: Attributes, name: str) -> str:
    """The value of an attribute, in whatever namespace."""
    for key, value in attributes.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return ""
