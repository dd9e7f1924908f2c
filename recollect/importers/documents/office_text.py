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
_TEXT_BOX = "txbxContent"
_ALTERNATIVES = "AlternateContent"
_CHARACTERS = {
    "tab": "\t",
    "noBreakHyphen": "-",
    "s": " ",
    **dict.fromkeys(("br", "cr", "line-break"), "\n"),
}

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

    def close_cell(self) -> None:
        cell = " ".join(self.blocks).replace("\n", " ")
        if cell:
            self.cells.append(cell)
        self.blocks = []


@dataclass(slots=True)
class _Shape:
    """A shape on a slide, its placeholder type, and which of the blocks are in it."""

    depth: int
    start: int
    end: int = 0
    placeholder: str = ""


class OfficeText:
    """The text of a part of a document, and of the shapes on a slide; see `package.collect`."""

    def __init__(self, headings: Mapping[str, int], text_element: str = "t") -> None:
        """`headings` are the levels of the styles that are headings.

        `text_element` is the element with the text. It is empty for OpenDocument, where text
        stands between elements.
        """
        self.blocks: list[str] = []
        self.is_full = False
        self._headings = headings
        self._text_element = text_element
        self._path: list[str] = []
        """The names of the open elements."""
        self._contexts = [_Context("", 0, self.blocks)]
        self._skipped_depth = 0
        """How many open elements are inside one that is skipped, including it."""
        self._finished_alternatives: set[int] = set()
        """The depths of alternatives of which one was used."""
        self._rows = 0
        self._list_items: list[int] = []
        """The depths of the open list items of OpenDocument."""
        self._shapes: list[_Shape] = []
        self._open_shapes: list[_Shape] = []
        self._characters = 0

    def shape_blocks(self, *placeholders: str) -> list[str]:
        """The paragraphs of the first shape that is one of these placeholders."""
        for shape in self._shapes:
            if shape.placeholder in placeholders:
                return self.blocks[shape.start : shape.end]
        return []

    # -- the parser's events ---

    def start(self, tag: str, attributes: Attributes) -> None:
        name = tag.rpartition("}")[2]
        if self._skipped_depth or self._is_skipped(name, attributes):
            self._skipped_depth += 1
            return
        self._path.append(name)
        depth = len(self._path)
        if self._in_paragraph:
            self._start_in_paragraph(name, attributes)
        elif name in _PARAGRAPHS:
            prefix = "- " if self._list_items else ""
            if name == "h":
                level = attribute(attributes, "outline-level")
                number = int(level) if level.isdecimal() and len(level) < 3 else 1
                prefix = "#" * min(max(number, 1), 6) + " "
            self._contexts.append(_Context(name, depth, prefix=prefix))
        elif name in _ROWS:
            self._contexts.append(_Context(name, depth))
            self._rows += 1
        if name == "list-item":
            self._list_items.append(depth)
        elif name == "sp":
            self._open_shapes.append(_Shape(depth, len(self.blocks)))
        elif name == "ph" and self._open_shapes:
            self._open_shapes[-1].placeholder = attributes.get("type", "")

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            return
        depth = len(self._path)
        self._path.pop()
        if self._list_items and self._list_items[-1] == depth:
            self._list_items.pop()
        if self._open_shapes and self._open_shapes[-1].depth == depth:
            shape = self._open_shapes.pop()
            shape.end = len(self.blocks)
            self._shapes.append(shape)
        if self._contexts[-1].depth == depth:
            self._close_context()
        row = self._contexts[-1]
        if row.name in _ROWS and row.depth == depth - 1:
            row.close_cell()
        self._finished_alternatives.discard(depth)
        if self._path and self._path[-1] == _ALTERNATIVES:
            self._finished_alternatives.add(depth - 1)

    def data(self, text: str) -> None:
        is_text = not self._text_element or (self._path and self._path[-1] == self._text_element)
        if is_text and self._in_paragraph and not self._skipped_depth:
            self._contexts[-1].parts.append(text)
            self._characters += len(text)
            self.is_full = self._characters > LIMITS.document_characters

    def close(self) -> None:
        while len(self._contexts) > 1:  # the document is cut off
            self._close_context()

    # -- contexts ---

    @property
    def _in_paragraph(self) -> bool:
        return self._contexts[-1].name in _PARAGRAPHS

    def _is_skipped(self, name: str, attributes: Attributes) -> bool:
        if name in _SKIPPED or len(self._path) in self._finished_alternatives:
            return True
        # Fields for the slide number or the date, and the positions of tabs.
        is_page_field = name == "fld" and attributes.get("type", "").startswith(
            ("slidenum", "datetime")
        )
        return self._in_paragraph and (name == "tabs" or is_page_field)

    def _start_in_paragraph(self, name: str, attributes: Attributes) -> None:
        paragraph = self._contexts[-1]
        if name == _TEXT_BOX:
            self._contexts.append(_Context(name, len(self._path)))
        elif name in _CHARACTERS:
            paragraph.parts.append(_CHARACTERS[name])
        elif len(self._path) != paragraph.depth + 2 or self._path[-2] != "pPr":
            return
        elif name == "pStyle":
            level = self._headings.get(attribute(attributes, "val"))
            if level:
                paragraph.prefix = "#" * min(level, 6) + " "
        elif name == "numPr" and not paragraph.prefix:
            paragraph.prefix = "- "

    def _close_context(self) -> None:
        context = self._contexts.pop()
        outer = self._contexts[-1].blocks
        if context.name in _ROWS:
            context.close_cell()
            self._rows -= 1
            outer += [" | ".join(context.cells)] if context.cells else []
            return
        text = collapse_spaces("".join(context.parts))
        if text:
            outer.append(text if self._rows else context.prefix + text)
        outer += context.blocks


def attribute(attributes: Attributes, name: str) -> str:
    """The value of an attribute, in whatever namespace."""
    for key, value in attributes.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return ""
