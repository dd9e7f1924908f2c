"""`recollect search`, `related` and `tui`: find messages, best first."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import NamedTuple

from rich.padding import Padding

from recollect.cli.common import (
    AS_TYPED,
    add_filters,
    add_flag,
    add_list,
    add_search_options,
    at_terminal,
    check_filters,
    console,
    copies_label,
    define,
    existing,
    plural,
    print_json,
    safe,
    safe_line,
    short_id,
    when,
    whole_number,
)
from recollect.cli.references import Reference, remember, resolve
from recollect.errors import InvalidInput, RecollectError
from recollect.language.queries.query import parse_query
from recollect.library import Library
from recollect.model.projects import project_name
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.model.sources import source_label
from recollect.models import embeddings as models
from recollect.settings import LIMITS

_EXAMPLES = """\
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
"""
_RELATED_EXAMPLES = """\
  recollect related 1                                  similar to the first hit of the last search
  recollect related CONVERSATION MESSAGE               ids, or the beginnings of ids
  recollect related CONVERSATION MESSAGE --by conversation
  recollect related CONVERSATION MESSAGE --limit 5 --json
"""
_ARMS = {"text": "words", "vector": "meaning"}
_BAR = 12
_INDENT = 4
"""Below the title, which comes after its number."""


def define_search(command: argparse.ArgumentParser) -> None:
    define(command, search, _EXAMPLES)
    command.add_argument("query", nargs="*", help="a question, words, or a query (see below)")
    add_search_options(command)
    add_list(
        command,
        "--and",
        "only conversations that also contain this; may be repeated",
        dest="concepts",
        metavar="CONCEPT",
    )
    add_view(command)
    command.add_argument(
        "--now",
        metavar="DATE",
        help='the date that "last week" and the like refer to (default: now)',
    )
    command.add_argument(
        "--score",
        choices=("rank", "fts"),
        default="rank",
        help="order by Recollect's ranking (default), or by the text engine's score",
    )
    add_flag(command, "--hidden", "include hidden messages, such as system prompts")
    add_filters(command)


def define_related(command: argparse.ArgumentParser) -> None:
    define(command, related, _RELATED_EXAMPLES)
    command.add_argument(
        "conversation", help="a number of the last search, or an id or its beginning"
    )
    command.add_argument(
        "message", nargs="?", help="the id of the message in it (default: the one of the hit)"
    )
    add_view(command)


def add_view(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-n",
        "--limit",
        type=whole_number(1, LIMITS.page_size),
        default=10,
        help="hits to show (default: %(default)s, at most 200)",
    )
    command.add_argument("--offset", type=whole_number(0), default=0, help="hits to skip")
    command.add_argument(
        "--mode",
        choices=("both", "text", "vector"),
        default="both",
        help="by words (text), by meaning (vector) or both (default)",
    )
    command.add_argument(
        "--by",
        choices=("message", "conversation"),
        help="one hit per message or per conversation (default: per conversation at a terminal)",
    )
    add_flag(command, "--explain", "explain why each hit matches")


def search(arguments: argparse.Namespace) -> int:
    text = " ".join(arguments.query)
    concepts = list(arguments.concepts)
    if text.strip():
        concepts.insert(0, text)
    if not concepts:
        raise InvalidInput("Nothing to search for. Usage: recollect search WORDS")
    query: str | list[str] = concepts
    if len(concepts) == 1:
        query = text = concepts[0]
    with existing(arguments) as library:
        check_filters(library, arguments)
        page = library.search(query, _filter(library, arguments), search_options(arguments))
        remarks = _remarks(library, page, arguments.mode)
        page, short_ids = prepare(library, arguments, page)
    if page.matched == "any" and not is_plain(text):
        remarks.insert(
            0,
            "No message contains all of that; these contain some of it or have a similar meaning.",
        )
    print_page(Results(page, short_ids, len(concepts) > 1), arguments, remarks)
    return 0


def _filter(library: Library, arguments: argparse.Namespace) -> Filter:
    return Filter.of(
        roles=arguments.role,
        authors=arguments.author,
        after=arguments.after,
        before=arguments.before,
        projects=arguments.project,
        sources=arguments.source,
        conversations=[resolve(library, arguments, text).id for text in arguments.conversation],
        tags=arguments.tag,
        hidden=arguments.hidden,
    )


def search_options(arguments: argparse.Namespace) -> SearchOptions:
    return SearchOptions(
        mode=arguments.mode,
        group=grouping(arguments),
        score=arguments.score,
        limit=arguments.limit,
        offset=arguments.offset,
        now=arguments.now,
        correct=not arguments.no_correct,
        rerank=arguments.rerank,
    )


def is_plain(text: str) -> bool:
    try:
        return parse_query(text).plain
    except InvalidInput:  # too long: it was searched by some of its words
        return True


def related(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        target = resolve(library, arguments, arguments.conversation)
        message_id = arguments.message or target.message_id
        if message_id is None:
            raise InvalidInput(
                "Which message? Give its id after the conversation, or the number of a hit of "
                "`recollect search`."
            )
        page = library.related(
            target.id,
            message_id,
            SearchOptions(
                mode=arguments.mode,
                group=grouping(arguments),
                limit=arguments.limit,
                offset=arguments.offset,
            ),
        )
        remarks = _remarks(library, page, arguments.mode)
        page, short_ids = prepare(library, arguments, page)
    print_page(Results(page, short_ids), arguments, remarks)
    return 0


def grouping(arguments: argparse.Namespace) -> str:
    """People at a terminal get each conversation once; programs get messages, as before."""
    if arguments.by:
        return str(arguments.by)
    if not arguments.json and at_terminal():
        return "conversation"
    return "message"


class Results(NamedTuple):
    """A page of hits to print. Hits without short ids are printed without numbers."""

    page: Page
    short_ids: Mapping[str, str]
    several_concepts: bool = False


def prepare(
    library: Library, arguments: argparse.Namespace, page: Page
) -> tuple[Page, dict[str, str]]:
    """A page as people read it: with titles, short ids, and numbers."""
    if arguments.json:
        return page, {}
    page = with_labels(library, page)
    hits = (*page.hits, *page.nearest)
    references = [Reference(hit.conversation_id, hit.message_id) for hit in hits]
    if not remember(arguments, references):
        return page, {}
    ids = dict.fromkeys(hit.conversation_id for hit in hits)
    if not at_terminal():
        return page, {id_: id_ for id_ in ids}
    return page, {id_: short_id(library, id_) for id_ in ids}


def with_labels(library: Library, page: Page) -> Page:
    """The page as it is shown: every conversation has a title."""

    def label(hit: Hit) -> Hit:
        return replace(hit, title=library.label(hit.conversation_id, hit.title))

    return replace(page, hits=tuple(map(label, page.hits)), nearest=tuple(map(label, page.nearest)))


def _remarks(library: Library, page: Page, mode: str) -> list[str]:
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
        if not any(status.searched for status in library.embedding_status()):
            return ["Searched by words only: there are no vectors yet. Run `recollect index`."]
        if page.embedded:
            return ["Searched by words only: the model knows none of these words."]
        return []
    if page.embedded < 1:
        share = int(100 * page.embedded)
        return [f"Only {share} % of the library has vectors yet. `recollect index` adds the rest."]
    return []


# -- showing -----------------------------------------------------------------


def print_page(results: Results, arguments: argparse.Namespace, remarks: list[str]) -> None:
    page = results.page
    if arguments.json:
        print_json(asdict(page))
        return
    out = console()
    by_conversation = results.several_concepts or grouping(arguments) == "conversation"
    for number, hit in enumerate(page.hits, 1):
        if by_conversation:
            show_conversation(results, number, hit, arguments.explain)
        else:
            show_message(results, number, hit, arguments.explain)
        out.print()
    if page.hits or page.total or not any(remark.startswith("No ") for remark in remarks):
        show_total(page, "conversation" if by_conversation else "message")
    for remark in remarks:
        out.print(f"[yellow]{safe(remark)}[/]")
    if page.nearest:
        out.print("\n[dim]Closest in meaning:[/]\n")
        for number, hit in enumerate(page.nearest, len(page.hits) + 1):
            show_message(results, number, hit, explain=False)
            out.print()
    if at_terminal() and results.short_ids:
        out.print("[dim]Read one: recollect read 1 · in the browser: recollect open 1[/]")


def show_total(page: Page, unit: str) -> None:
    out = console()
    total = plural(page.total, unit)
    if not page.exact:
        total = f"at least {total}"
    last = page.offset + len(page.hits)
    if not page.hits and page.total:
        out.print(f"No more hits: {total} in all.")
    elif not page.hits:
        out.print(f"No {unit}s match.")
    elif at_terminal() and last == page.total and page.exact and not page.offset:
        out.print(f"[dim]{total}[/]")
    else:
        line = f"{page.offset + 1:,} to {last:,} of {total}"
        if at_terminal() and (last < page.total or not page.exact):
            line += f" · more with --offset {last}"
        out.print(f"[dim]{line}[/]")


def show_message(results: Results, number: int, hit: Hit, explain: bool) -> None:
    out = console()
    details = [safe(author(hit)), when(hit.created_at), hit.source]
    if hit.copies:
        details.append(copies_label(hit.copies))
    if not hit.canonical:
        details.append("[yellow]on another branch[/]")
    show_title(results, number, hit, details)
    out.print(Padding(highlight(hit), (0, 0, 0, _INDENT)))
    if explain:
        _explain(hit)
    if not at_terminal():
        show_command(hit)


def show_conversation(results: Results, number: int, hit: Hit, explain: bool) -> None:
    out = console()
    details = [when(hit.created_at), hit.source, f"score {hit.score:.2f}"]
    if at_terminal():
        details = [when(hit.created_at), safe(source_label(hit.source)), safe(project(hit))]
    show_title(results, number, hit, [detail for detail in details if detail])
    for message in (hit, *hit.also):
        out.print(
            Padding(f"[cyan]{safe(author(message))}[/]: {highlight(message)}", (0, 0, 0, _INDENT))
        )
        if explain:
            _explain(message, parts=message is hit)
    if not at_terminal():
        show_command(hit)


def show_title(results: Results, number: int, hit: Hit, details: list[str]) -> None:
    """The number and the title on one line, and what else is known about the hit."""
    out = console()
    short_id = results.short_ids.get(hit.conversation_id)
    title = f"[bold]{safe_line(hit.title)}[/]"
    if short_id is not None:
        title = f"[bold cyan]{number:>2}[/]  {title}"
    line = " · ".join(details)
    if not at_terminal():
        out.print(f"{title}  [dim]{line}[/]", soft_wrap=True)
        return
    if short_id is not None:
        line = f"{safe(short_id)} · {line}"
    out.print(title, no_wrap=True, overflow="ellipsis")
    out.print(Padding(f"[dim]{line}[/]", (0, 0, 0, _INDENT)))


def project(hit: Hit) -> str:
    if hit.project == "default":
        return ""
    return project_name(hit.project)


def show_command(hit: Hit) -> None:
    """For programs and files: the whole ids, in a command that can be copied."""
    words = (hit.conversation_id, hit.message_id)
    conversation, message = (safe(shlex.quote(word)) for word in words)
    console().print(
        f"    [dim]recollect read {conversation} --message {message}[/]", soft_wrap=True
    )


def author(hit: Hit) -> str:
    return hit.author or hit.role or hit.kind


def highlight(hit: Hit) -> str:
    parts, at = [], 0
    for start, end in hit.marks:
        parts += [safe(hit.snippet[at:start]), f"[bold green]{safe(hit.snippet[start:end])}[/]"]
        at = end
    return "".join([*parts, safe(hit.snippet[at:])])


def _explain(hit: Hit, *, parts: bool = True) -> None:
    out = console()
    arms = " and ".join(_ARMS[arm] for arm in hit.arms) or "fields or time only"
    line = f"score {hit.score:.3f} · matched by {arms}"
    if hit.terms:
        line += f" · contains {safe(', '.join(hit.terms))}"
    out.print(Padding(f"[magenta]{line}[/]", (0, 0, 0, _INDENT)))
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
        table.add_row(name, f"{value:.3f}", f"[{colour}]{bar}[/]", f"[dim]{EXPLANATIONS[name]}[/]")
    out.print(Padding(table, (0, 0, 0, _INDENT + 2)))


_TUI_EXAMPLES = """\
  recollect tui                                        start with the recent conversations
  recollect tui rain barrel                            start with a search

F1 shows the keys. Type to search, Enter reads the conversation, Ctrl+F filters,
Ctrl+Y copies the id, Ctrl+Q ends it.
"""


def define_tui(command: argparse.ArgumentParser) -> None:
    define(command, run, _TUI_EXAMPLES)
    command.add_argument("query", nargs="*", help="what to search for first")


def run(arguments: argparse.Namespace) -> int:
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
    return 0
