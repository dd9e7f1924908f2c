"""Stored text as safe HTML, made in a bounded process.

Texts are written by others. Some need minutes in a lexer, a converter of formulas or a comparison
of lines, and while `re` matches, no other request gets on. So a text gets some CPU time in another
process, first with colours and formulas, then without; after that it is shown as plain text.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from recollect.errors import InvalidInput, RecollectError
from recollect.importers.sandbox.process import POOL, ProcessDied
from recollect.importers.sandbox.protocol import Bounds
from recollect.language.queries.query import parse_query
from recollect.language.symbols import symbol_name, without_terminal_codes
from recollect.language.text import storable, tokens
from recollect.language.words import content_words, stem
from recollect.serve.console.markup.diffs import FileDiff

MESSAGE_CHARS = 20_000
"""Longer messages get a "Show all" button."""
MARKDOWN_CHARS = 50_000
"""Longer texts are shown as plain text."""
MAX_CHARS = 2_000_000
"""The most that "Show all" shows. The export has everything."""
_WORKER = "recollect.serve.console.markup.worker"
_BOUNDS = Bounds(cpu_seconds=1.5, cpu_seconds_per_megabyte=0.0, idle_seconds=2.0)
_ALLOWANCE = 0.5  # seconds for colours and formulas
_PAGE_SECONDS = 1.0  # for all texts of a page; after that, long ones are plain text
_CHEAP_CHARS = 1_000
_PROCESSES = threading.BoundedSemaphore(os.cpu_count() or 2)


class Page:
    """Renders the texts of one page, within a limit of CPU time for all of them."""

    def __init__(self) -> None:
        self._seconds_left = _PAGE_SECONDS

    def markdown(self, text: str) -> Markup:
        """Markdown as safe HTML. Text that is too long or too complex is shown as plain text."""
        return self._html("markdown", text)

    def note(self, text: str, id: str) -> Markup:
        """A note as safe HTML, with links to other notes."""
        return self._html("note", text, id)

    def edit_diffs(self, tool: str, content: str) -> list[FileDiff]:
        """The diffs that a tool call makes; none if it is not an edit, or costs too much."""
        return [
            FileDiff(*diff) for diff in self._render("diffs", content[:MARKDOWN_CHARS], tool) or ()
        ]

    def _html(self, kind: str, text: str, detail: str = "") -> Markup:
        html = None
        if len(text) <= MARKDOWN_CHARS:
            html = self._render(kind, text, detail)
        if html is None:
            return plain(text)
        return Markup(html)  # noqa: S704  the output of the sanitizer

    def _render(self, kind: str, text: str, detail: str) -> Any:
        least = 0.0 if len(text) > _CHEAP_CHARS else -_PAGE_SECONDS
        if self._seconds_left <= least:
            return None
        try:
            result, seconds = _render(kind, text, detail)
        except RecollectError:  # no process can be started
            return None
        self._seconds_left -= seconds
        return result


def plain(text: str) -> Markup:
    """Text as it was written, without the colours of terminals."""
    text = without_terminal_codes(storable(text))
    return Markup('<pre class="plain">{}</pre>').format(text)


def changed_lines(before: str, after: str) -> list[tuple[str, str]] | None:
    """The lines that differ, with "-" or "+"; None if it takes too long to compare them."""
    try:
        lines, _ = render_once("lines", after, before)
    except RecollectError:
        return None
    return lines and [(sign, line) for sign, line in lines]


def render_once(kind: str, text: str, detail: str) -> tuple[Any, float]:
    """What the process makes of a text, or None, and the CPU time that it cost."""
    spent = 0.0
    for allowance in (_ALLOWANCE, 0.0):
        request = {"do": kind, "text": text, "detail": detail, "allowance": allowance}
        try:
            result, seconds = exchange(request)
            return result, spent + seconds
        except (ProcessDied, ValueError):
            spent += _BOUNDS.cpu_seconds
    return None, spent


_render = lru_cache(maxsize=512)(render_once)


def exchange(request: dict[str, Any]) -> Any:
    with _PROCESSES:
        process = POOL.take((), _BOUNDS, _WORKER)
        try:
            process.wait_until_ready()
            process.expect(len(request["text"]))
            with process.watch(threading.Event()):
                process.send(request)
                reply = json.loads(process.receive()[1])
        except BaseException:
            process.close()
            raise
        POOL.give_back(process)
    return reply


# -- excerpts and highlights ---


def beginning(text: str, max_chars: int = MESSAGE_CHARS) -> str:
    """The start of a long text, cut at the end of a line if there is one nearby."""
    if len(text) <= max_chars:
        return text
    end = text.rfind("\n", max_chars * 3 // 4, max_chars)
    if end <= 0:
        end = max_chars
    return text[:end]


def highlight(text: str, marks: Sequence[tuple[int, int]]) -> Markup:
    """A snippet with its matches in <mark>. Every piece is escaped."""
    parts: list[Markup] = []
    last = 0
    for start, end in marks:
        if last <= start < end <= len(text):
            parts.append(Markup.escape(storable(text[last:start])))
            parts.append(Markup("<mark>{}</mark>").format(storable(text[start:end])))
            last = end
    parts.append(Markup.escape(storable(text[last:])))
    return Markup("").join(parts)


def query_terms(query: str) -> list[str]:
    """The words of a query and their stems. The page highlights them."""
    try:
        parsed = parse_query(storable(query))
    except InvalidInput:
        return []
    if parsed.node is None:
        return []
    content = content_words(parsed.node, parsed.language)
    words = {token for word in content for token in tokens(word.text)}
    names = set(filter(None, map(symbol_name, words)))
    return sorted(words | names | {stem(word, parsed.language) for word in words})
