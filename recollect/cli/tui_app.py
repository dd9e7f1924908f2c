"""The terminal application: a search field, the conversations that match, and a preview.

Searches run in threads. While the user types on, the result of an older search is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from textual import events, on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from recollect.cli.common import plural, safe, short_id, when
from recollect.cli.terminal import body, fold, heading, is_folded, visible
from recollect.errors import RecollectError
from recollect.language.text import printable, printable_line
from recollect.library import Library
from recollect.model.documents import Passage
from recollect.model.search import Hit
from recollect.model.sources import source_label

_LIMIT = 30
_PREVIEW = 7
"""Messages in the preview."""
_PAGE = 50
"""Messages that a conversation loads at a time."""
_SNIPPET = 120
"""Characters of a snippet in the list."""
_DELAY = 0.12
"""Seconds without a key before a search starts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the list."""

    id: str
    short_id: str
    title: str
    details: str
    snippet: Text
    message_id: str | None


class SearchApp(App[None]):
    TITLE = "Recollect"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #results { width: 45%; height: 1fr; border: round $primary-darken-1; }
    #preview { width: 1fr; height: 1fr; border: round $primary-darken-1; padding: 0 1; }
    #results:focus, #preview:focus { border: round $accent; }
    #state { height: 1; padding: 0 2; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Keys", priority=True),
        Binding("enter", "read", "Read", show=True),
        Binding("ctrl+y", "copy", "Copy id", priority=True),
        Binding("escape", "clear", "Clear", show=False),
        Binding("ctrl+q", "quit", "End", priority=True),
    ]

    def __init__(self, library: Library, query: str = "") -> None:
        super().__init__()
        self._library = library
        self._first_query = query
        self._entries: list[Entry] = []
        self._delay: Timer | None = None

    # -- layout ---

    def compose(self) -> ComposeResult:
        yield Input(self._first_query, placeholder="Search your conversations", id="query")
        yield Static(id="state")
        with Horizontal():
            yield OptionList(id="results")
            with VerticalScroll(id="preview"):
                yield Static(id="preview-text")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#query", Input).focus()
        self._search()

    # -- searching ---

    @on(Input.Changed, "#query")
    def _typed(self) -> None:
        if self._delay is not None:
            self._delay.stop()
        self._delay = self.set_timer(_DELAY, self._search)

    def _search(self) -> None:
        self._delay = None
        self._run_search(self.query_one("#query", Input).value.strip())

    @work(thread=True, exclusive=True, group="search")
    def _run_search(self, query: str) -> None:
        worker = get_current_worker()
        try:
            entries, state = find_entries(self._library, query)
        except RecollectError as error:
            entries, state = [], str(error)
        if not worker.is_cancelled:
            self.call_from_thread(self._show_entries, entries, state)

    def _show_entries(self, entries: list[Entry], state: str) -> None:
        self._entries = entries
        results = self.query_one("#results", OptionList)
        results.clear_options()
        results.add_options([Option(row(entry)) for entry in entries])
        self.query_one("#state", Static).update(Text(printable(state)))
        if entries:
            results.highlighted = 0
        else:
            self.query_one("#preview-text", Static).update("")

    # -- preview ---

    @on(OptionList.OptionHighlighted, "#results")
    def _highlighted(self) -> None:
        entry = self._entry()
        if entry is not None:
            self._run_preview(entry)

    @work(thread=True, exclusive=True, group="preview")
    def _run_preview(self, entry: Entry) -> None:
        worker = get_current_worker()
        try:
            view = self._library.view(entry.id, around=entry.message_id, limit=_PREVIEW)
            passages = [message.passage for message in view.messages]
        except RecollectError as error:
            self.call_from_thread(self._show_preview, entry, Text(str(error)))
            return
        if not worker.is_cancelled:
            width = max(20, self.query_one("#preview").size.width - 4)
            content = Group(*render(passages, entry.message_id, width, shows_tools=False))
            self.call_from_thread(self._show_preview, entry, content)

    def _show_preview(self, entry: Entry, content: RenderableType) -> None:
        if self._entry() == entry:
            self.query_one("#preview-text", Static).update(content)
            self.query_one("#preview").scroll_home(animate=False)

    def _entry(self) -> Entry | None:
        number: int | None = self.query_one("#results", OptionList).highlighted
        if number is None or number >= len(self._entries):
            return None
        return self._entries[number]

    # -- keys ---

    def on_key(self, event: events.Key) -> None:
        """Arrows move through the list while the search field has the focus."""
        if self.focused is not self.query_one("#query"):
            return
        results = self.query_one("#results", OptionList)
        moves = {
            "down": results.action_cursor_down,
            "up": results.action_cursor_up,
            "pagedown": results.action_page_down,
            "pageup": results.action_page_up,
        }
        move = moves.get(event.key)
        if move is not None:
            move()
            event.prevent_default()

    @on(Input.Submitted, "#query")
    @on(OptionList.OptionSelected, "#results")
    def action_read(self) -> None:
        entry = self._entry()
        if entry is not None:
            self.push_screen(ConversationScreen(self._library, entry))

    def action_copy(self) -> None:
        entry = self._entry()
        if entry is not None:
            copy_id(self, entry)

    def action_clear(self) -> None:
        query = self.query_one("#query", Input)
        if query.value:
            query.value = ""
            query.focus()
        else:
            self.exit()

    def action_help(self) -> None:
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()


class ConversationScreen(Screen[None]):
    """A whole conversation. It opens shortly before the message that was found."""

    CSS = """
    #messages { padding: 0 2; }
    #title { dock: top; height: 2; padding: 0 2; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Back"),
        Binding("t", "tools", "Tools"),
        Binding("b", "beginning", "Beginning"),
        Binding("ctrl+y", "copy", "Copy id", priority=True),
    ]

    def __init__(self, library: Library, entry: Entry) -> None:
        super().__init__()
        self._library = library
        self._entry = entry
        self._shows_tools = False
        self._start: int | None = None
        self._next = 0
        self._total: int | None = None
        self._is_loading = False

    def compose(self) -> ComposeResult:
        details = f"{self._entry.short_id} · {self._entry.details}"
        title = Text(f"{self._entry.title}\n", style="bold", no_wrap=True, overflow="ellipsis")
        yield Static(title.append(details, style="dim"), id="title")
        yield MessageScroll(id="messages")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(MessageScroll).focus()
        self.load_more()

    def load_more(self) -> None:
        """Load the next messages, unless they are being loaded or there are none."""
        if self._is_loading or (self._total is not None and self._next >= self._total):
            return
        self._is_loading = True
        self._load(self._start, self._next)

    @work(thread=True, exclusive=True)
    def _load(self, start: int | None, next_: int) -> None:
        worker = get_current_worker()
        try:
            around = None
            if start is None:
                around = self._entry.message_id
            if around is None:
                view = self._library.view(self._entry.id, start=next_, limit=_PAGE)
            else:
                middle = self._library.view(self._entry.id, around=around, limit=5)
                view = self._library.view(self._entry.id, start=middle.start, limit=_PAGE)
        except RecollectError as error:
            self.app.call_from_thread(self.notify, str(error), severity="error")
            return
        if worker.is_cancelled:
            return
        passages = [message.passage for message in view.messages]
        self.app.call_from_thread(self._show, passages, view.start, view.total)

    def _show(self, passages: Sequence[Passage], start: int, total: int) -> None:
        scroll = self.query_one(MessageScroll)
        if self._start is None and start:
            scroll.mount(Static(f"[dim]From message {start + 1:,} of {total:,}; b: beginning[/]"))
        self._start = start if self._start is None else self._start
        self._next = start + len(passages)
        self._total = total
        width = max(20, self.size.width - 6)
        content = render(passages, self._entry.message_id, width, shows_tools=self._shows_tools)
        scroll.mount(Static(Group(*content)))
        self._is_loading = False

    def action_tools(self) -> None:
        self._shows_tools = not self._shows_tools
        self._reload(self._start)

    def action_beginning(self) -> None:
        self._reload(0)

    def _reload(self, start: int | None) -> None:
        self.query_one(MessageScroll).remove_children()
        self.query_one(MessageScroll).scroll_home(animate=False)
        self._start = start
        self._next = start or 0
        self._total = None
        self._is_loading = False
        self.load_more()

    def action_copy(self) -> None:
        copy_id(self.app, self._entry)


class MessageScroll(VerticalScroll):
    """Messages that are loaded when their end comes near."""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value > 0 and new_value >= self.max_scroll_y - self.size.height:
            screen = self.screen
            if isinstance(screen, ConversationScreen):
                screen.load_more()


# -- what is shown ---------------------------------------------------------------


def find_entries(library: Library, query: str) -> tuple[list[Entry], str]:
    """The conversations that match a query, or the recent ones, and a line about them."""

    def entry(id_: str, title: str, details: list[str], hit: Hit | None = None) -> Entry:
        snippet = Text(printable(hit.snippet).replace("\n", " ") if hit else "")
        for start, end in hit.marks if hit else ():
            snippet.stylize("bold green", start, end)
        label = printable_line(library.label(id_, title).strip().partition("\n")[0])
        line = printable(" · ".join(details))
        return Entry(
            id_, short_id(library, id_), label, line, snippet, hit.message_id if hit else None
        )

    if not query:
        summaries, total = library.conversation_page(limit=_LIMIT)
        entries = []
        for summary in summaries:
            changed = when(summary.updated_at or summary.created_at)
            count = plural(summary.message_count, "message")
            details = [changed, source_label(summary.source), count]
            entries.append(entry(summary.id, summary.title, details))
        return entries, f"{plural(total, 'conversation')}, the last changed first"
    page = library.search(query, group="conversation", limit=_LIMIT, typing=True)
    nearest = {hit.conversation_id: hit for hit in reversed(page.nearest)}  # one each
    state = plural(page.total, "conversation")
    if not page.exact:
        state = f"at least {state}"
    if not page.hits:
        state = "Nothing matches. Closest in meaning:" if nearest else "Nothing matches."
    if page.note:
        state += f" · {page.note}"
    entries = []
    for hit in page.hits or list(nearest.values())[::-1]:
        project = [] if hit.project == "default" else [hit.project]
        details = [when(hit.created_at), source_label(hit.source), *project]
        entries.append(entry(hit.conversation_id, hit.title, details, hit))
    return entries, state


def row(entry: Entry) -> RenderableType:
    lines: list[RenderableType] = [
        Text(entry.title, style="bold", no_wrap=True, overflow="ellipsis"),
        Text(entry.details, style="dim", no_wrap=True, overflow="ellipsis"),
    ]
    if entry.snippet:
        snippet = entry.snippet.copy()
        snippet.truncate(_SNIPPET, overflow="ellipsis")
        lines.append(snippet)
    return Padding(Group(*lines), (0, 0, 1, 0))


def render(
    passages: Sequence[Passage], marked_id: str | None, width: int, *, shows_tools: bool
) -> Iterator[RenderableType]:
    """Messages as the command `read` shows them."""
    out = Console(
        width=width,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        emoji=False,
    )
    for passage in visible(passages, hidden=False, marked_id=marked_id):
        if is_folded(passage) and not shows_tools and passage.id != marked_id:
            yield Text.from_markup(fold(passage), emoji=False, overflow="ellipsis")
            continue
        yield Text.from_markup(heading(passage, is_marked=passage.id == marked_id), emoji=False)
        yield body(passage, out)
        yield Text()


def copy_id(app: App[None], entry: Entry) -> None:
    app.copy_to_clipboard(entry.id)
    app.notify(f"Copied {safe(entry.id)}", timeout=2)
