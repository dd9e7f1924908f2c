"""`recollect search`, `related` and `tui`: find messages, best first."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import asdict

from rich.padding import Padding

from recollect.cli.commands import command, together
from recollect.cli.common import (
    AS_TYPED,
    FILTERS,
    SEARCH,
    at_terminal,
    check_filters,
    console,
    copies_label,
    existing,
    plural,
    print_json,
    safe,
    safe_line,
    short_id,
    show,
    when,
)
from recollect.cli.references import Reference, remember, resolve, resolve_all
from recollect.errors import InvalidInput, RecollectError
from recollect.language.queries.query import parse_query
from recollect.library import Library
from recollect.model.names import project_name
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.model.sources import source_label
from recollect.models import embeddings as models
from recollect.settings import LIMITS

_VIEW = f"""
    -n --limit 1..{LIMITS.page_size} =10  hits to show, at most {LIMITS.page_size}
    --offset 0.. =0                       hits to skip
    --by message|conversation             one hit per message or per conversation
                                          (default: per conversation at a terminal)
    --explain                             explain why each hit matches
"""
_ARMS = {"text": "words", "vector": "meaning"}
_BAR = 12
_INDENT = (0, 0, 0, 4)
"""Below the title, which comes after its number."""


@command(
    "search",
    together(
        "query*  a question, words, or a query (see below)",
        SEARCH,
        "--and CONCEPT...  only conversations that also contain this; may be repeated",
        _VIEW,
        """
        --now DATE               the date that "last week" and the like refer to (default: now)
        --score rank|fts =rank   order by Recollect's ranking, or by the text engine's score
        --hidden                 include hidden messages, such as system prompts
        """,
        FILTERS,
    ),
    """
    recollect search how did I fix the leaking valve last summer
    recollect search '"connection refused" OR ECONNREFUSED' --after 2025-01-01
    recollect search 'deploy* -staging role:user' --limit 5
    recollect search watering --by message --explain
    recollect read 1                                     read the first hit; open 1: in the browser
    recollect search --and "React Router" --and authentication
    recollect search 非同期 --json

    query language (quote the query, so that the shell does not change it):
      two words                    a question: any of the words, or similar meaning
      "two words"  irrigat*        a phrase; words that begin with this
      a AND b  a OR b  (a OR b) c  operators are upper case
      a NOT b  a -b                without b
      NEAR(a b, 5)  a NEAR/5 b     at most 5 words apart
      role:user,assistant          the role: user, assistant, tool or system
      from:Ada                     the author's name, or a part of it
      in:work                      the project
      tag:idea                     a tag of the conversation
      title:roses                  words of the title
      after:2025-06 before:2026    inclusive; a month means the whole month
      -role:tool  -title:draft     a minus sign excludes (not for dates)
      last week, in May 2024, …    dates in a question: messages of then come first
    """,
)
def search(arguments: argparse.Namespace) -> None:
    text = " ".join(arguments.query)
    concepts = [*([text] if text.strip() else []), *arguments.and_]
    if not concepts:
        raise InvalidInput("Nothing to search for. Usage: recollect search WORDS")
    query: str | list[str] = concepts
    if len(concepts) == 1:
        query = text = concepts[0]
    with existing(arguments) as library:
        check_filters(library, arguments)
        filter = Filter.of(
            roles=arguments.role,
            authors=arguments.author,
            after=arguments.after,
            before=arguments.before,
            projects=arguments.project,
            sources=arguments.source,
            conversations=resolve_all(library, arguments, arguments.conversation),
            tags=arguments.tag,
            hidden=arguments.hidden,
        )
        options = SearchOptions(
            mode=arguments.mode,
            group=grouping(arguments),
            score=arguments.score,
            limit=arguments.limit,
            offset=arguments.offset,
            now=arguments.now,
            correct=not arguments.no_correct,
            rerank=arguments.rerank,
        )
        page = library.search(query, filter, options)
        remarks = search_remarks(library, page, arguments.mode)
        if page.matched == "any" and not is_plain(text):
            remarks.insert(
                0,
                "No message contains all of that; these contain some of it or have a similar "
                "meaning.",
            )
        results = Results(library, arguments, page, len(concepts) > 1)
    results.print(remarks)


def is_plain(text: str) -> bool:
    try:
        return parse_query(text).plain
    except InvalidInput:  # too long: it was searched by some of its words
        return True


def grouping(arguments: argparse.Namespace) -> str:
    """People at a terminal get each conversation once; programs get messages."""
    if arguments.by:
        return str(arguments.by)
    return "conversation" if at_terminal() and not arguments.json else "message"


@command(
    "related",
    together(
        """
        conversation  a number of the last search, or an id or its beginning
        message?      the id of the message in it (default: the one of the hit)
        --mode both|text|vector =both  by words (text), by meaning (vector) or both
        """,
        _VIEW,
    ),
    """
    recollect related 1                                  similar to the first hit of the last search
    recollect related CONVERSATION MESSAGE               ids, or the beginnings of ids
    recollect related CONVERSATION MESSAGE --by conversation
    recollect related CONVERSATION MESSAGE --limit 5 --json
    """,
)
def related(arguments: argparse.Namespace) -> None:
    with existing(arguments) as library:
        target = resolve(library, arguments, arguments.conversation)
        message_id = arguments.message or target.message_id
        if message_id is None:
            raise InvalidInput(
                "Which message? Give its id after the conversation, or the number of a hit of "
                "`recollect search`."
            )
        options = SearchOptions(
            mode=arguments.mode,
            group=grouping(arguments),
            limit=arguments.limit,
            offset=arguments.offset,
        )
        page = library.related(target.id, message_id, options)
        remarks = search_remarks(library, page, arguments.mode)
        results = Results(library, arguments, page)
    results.print(remarks)


@command(
    "tui",
    "query*  what to search for first",
    """
    recollect tui                                        start with the recent conversations
    recollect tui rain barrel                            start with a search

    F1 shows the keys. Type to search, Enter reads the conversation, Ctrl+Y copies
    the id, Ctrl+Q ends it.
    """,
)
def tui(arguments: argparse.Namespace) -> None:
    if arguments.json or not at_terminal():
        raise InvalidInput(
            "`recollect tui` needs a terminal. For programs: recollect search --json"
        )
    try:
        from recollect.cli.tui_app import SearchApp
    except ModuleNotFoundError as error:
        raise RecollectError(
            f"`recollect tui` needs more packages ({error.name} is missing): "
            "pip install 'recollect[tui]'"
        ) from error
    with existing(arguments) as library:
        SearchApp(library, " ".join(arguments.query)).run()


def search_remarks(library: Library, page: Page, mode: str) -> list[str]:
    """What the user should know about how the search was done."""
    if page.corrections:
        return [page.note, AS_TYPED]
    if page.note:
        return [page.note]
    if mode == "text":
        return []
    if page.mode == "text":
        if models.embedding_setting() == models.OFF:
            return ["Searched by words only: embeddings are off (RECOLLECT_EMBEDDINGS)."]
        if not any(status.searched for status in library.index_status().models):
            return ["Searched by words only: there are no vectors yet. Run `recollect index`."]
        if page.embedded:
            return ["Searched by words only: the model knows none of these words."]
    elif page.embedded < 1:
        share = int(100 * page.embedded)
        return [f"Only {share} % of the library has vectors yet. `recollect index` adds the rest."]
    return []


# -- showing -----------------------------------------------------------------


class Results:
    """A page of hits, with what people read and type: titles, numbers and short ids."""

    def __init__(
        self,
        library: Library,
        arguments: argparse.Namespace,
        page: Page,
        several_concepts: bool = False,
    ) -> None:
        self._page = page
        self._arguments = arguments
        self._by_conversation = several_concepts or grouping(arguments) == "conversation"
        self._out = console()
        self._short_ids: Mapping[str, str] = {}
        """Of the conversations; empty if the hits cannot be numbered."""
        if arguments.json:
            return
        hits = (*page.hits, *page.nearest)
        self._titles = {
            hit.conversation_id: library.label(hit.conversation_id, hit.title) for hit in hits
        }
        if remember(arguments, [Reference(hit.conversation_id, hit.message_id) for hit in hits]):
            self._short_ids = {
                id_: short_id(library, id_) if at_terminal() else id_ for id_ in self._titles
            }

    def print(self, remarks: list[str]) -> None:
        page, out = self._page, self._out
        if self._arguments.json:
            print_json(asdict(page))
            return
        for number, hit in enumerate(page.hits, 1):
            self._print_hit(number, hit, self._by_conversation)
        if page.hits or page.total or not any(remark.startswith("No ") for remark in remarks):
            self._print_total()
        for remark in remarks:
            out.print(f"[yellow]{safe(remark)}[/]")
        if page.nearest:
            out.print("\n[dim]Closest in meaning:[/]\n")
            for number, hit in enumerate(page.nearest, len(page.hits) + 1):
                self._print_hit(number, hit, False, explains=False)
        if at_terminal() and self._short_ids:
            out.print("[dim]Read one: recollect read 1 · in the browser: recollect open 1[/]")

    def _print_total(self) -> None:
        page, unit = self._page, "conversation" if self._by_conversation else "message"
        total = plural(page.total, unit)
        if not page.exact:
            total = f"at least {total}"
        last = page.offset + len(page.hits)
        line = f"[dim]{page.offset + 1:,} to {last:,} of {total}"
        if not page.hits:
            line = f"No more hits: {total} in all." if page.total else f"No {unit}s match."
        elif at_terminal() and last == page.total and page.exact and not page.offset:
            line = f"[dim]{total}"
        elif at_terminal() and (last < page.total or not page.exact):
            line += f" · more with --offset {last}"
        self._out.print(line)

    def _print_hit(
        self, number: int, hit: Hit, by_conversation: bool, *, explains: bool = True
    ) -> None:
        """A message; or a conversation with its best messages."""
        out, explains = self._out, explains and self._arguments.explain
        details = [when(hit.created_at), hit.source]
        if not by_conversation:
            details.insert(0, author(hit))
            details += [copies_label(hit.copies), "" if hit.canonical else "on another branch"]
        elif at_terminal():
            project = "" if hit.project == "default" else project_name(hit.project)
            details = [when(hit.created_at), source_label(hit.source), project]
        else:
            details.append(f"score {hit.score:.2f}")
        self._print_title(number, hit, safe(" · ".join(filter(None, details))))
        for message in (hit, *hit.also) if by_conversation else (hit,):
            prefix = f"[cyan]{safe(author(message))}[/]: " if by_conversation else ""
            out.print(Padding(f"{prefix}{highlight(message)}", _INDENT))
            if explains:
                self._explain(message, parts=message is hit)
        if not at_terminal():  # for programs and files: the whole ids, in a command
            words = map(shlex.quote, (hit.conversation_id, hit.message_id))
            conversation, message_id = map(safe, words)
            show(f"    [dim]recollect read {conversation} --message {message_id}[/]")
        out.print()

    def _print_title(self, number: int, hit: Hit, details: str) -> None:
        """The number and the title on one line, and what else is known about the hit."""
        short_id = self._short_ids.get(hit.conversation_id)
        title = f"[bold]{safe_line(self._titles[hit.conversation_id])}[/]"
        if short_id is not None:
            title = f"[bold cyan]{number:>2}[/]  {title}"
        if not at_terminal():
            show(f"{title}  [dim]{details}[/]")
            return
        if short_id is not None:
            details = f"{safe(short_id)} · {details}"
        self._out.print(title, no_wrap=True, overflow="ellipsis")
        self._out.print(Padding(f"[dim]{details}[/]", _INDENT))

    def _explain(self, hit: Hit, *, parts: bool) -> None:
        arms = " and ".join(_ARMS[arm] for arm in hit.arms) or "fields or time only"
        line = f"score {hit.score:.3f} · matched by {arms}"
        if hit.terms:
            line += f" · contains {safe(', '.join(hit.terms))}"
        self._out.print(Padding(f"[magenta]{line}[/]", _INDENT))
        if not parts or not hit.parts:
            return
        from rich.table import Table

        from recollect.search.ranking import EXPLANATIONS

        table = Table.grid(padding=(0, 2))
        table.add_column(style="magenta")
        table.add_column(justify="right")
        largest = max(abs(value) for value in hit.parts.values())
        for name, value in sorted(hit.parts.items(), key=lambda part: -abs(part[1])):
            bar = "█" * round(_BAR * abs(value) / largest) or "▏"
            colour = "red" if value < 0 else "green"
            explanation = f"[dim]{EXPLANATIONS[name]}[/]"
            table.add_row(name, f"{value:.3f}", f"[{colour}]{bar}[/]", explanation)
        self._out.print(Padding(table, (0, 0, 0, 6)))


def author(hit: Hit) -> str:
    return hit.author or hit.role or hit.kind


def highlight(hit: Hit) -> str:
    parts, at = [], 0
    for start, end in hit.marks:
        parts += [safe(hit.snippet[at:start]), f"[bold green]{safe(hit.snippet[start:end])}[/]"]
        at = end
    return "".join([*parts, safe(hit.snippet[at:])])
