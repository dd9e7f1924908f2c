"""`recollect search` and `recollect related`: find messages, best first."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace

from rich.padding import Padding

from recollect.cli.common import (
    AS_TYPED,
    add_filters,
    add_search_options,
    console,
    define,
    existing,
    print_json,
    safe,
    when,
)
from recollect.errors import InvalidInput
from recollect.language.query import parse_query
from recollect.library import Library
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.models import embeddings as models

_EXAMPLES = """\
  recollect search how did I fix the leaking valve last summer
  recollect search '"connection refused" OR ECONNREFUSED' --after 2025-01-01
  recollect search 'deploy* -staging role:user' --limit 5
  recollect search watering --by conversation --explain
  recollect search --and "React Router" --and authentication
  recollect search 非同期 --json

query language (quote the query, so that the shell does not change it):
  two words                    a question: any of the words, or a similar meaning
  "two words"  irrigat*        a phrase; words that begin with this
  a AND b  a OR b  (a OR b) c  operators are upper case
  a NOT b  a -b                without b
  NEAR(a b, 5)  a NEAR/5 b     at most 5 words apart
  role:user,assistant          the role: user, assistant, tool or system
  from:"Ada Lovelace"          the author's name
  in:work                      the project
  tag:idea                     a tag of the conversation
  title:roses                  words of the title
  after:2025-06 before:2026    inclusive; a month means the whole month
  -role:tool  -title:draft     a minus sign excludes (not for dates)
  last week, in May 2024, …    dates in a question: messages from then come first
"""
_RELATED_EXAMPLES = """\
  recollect related CONVERSATION MESSAGE               both ids as `recollect search` shows them
  recollect related CONVERSATION MESSAGE --by conversation
  recollect related CONVERSATION MESSAGE --limit 5 --json
"""
PARTS = {
    "words": "it contains words of the query",
    "close": "the words are close together",
    "meaning": "its meaning is similar",
    "topic": "its conversation has a similar meaning",
    "reply": "it answers a message that asks this",
    "whole": "its conversation contains words of the query",
    "side": "the user used these words in the conversation",
    "person": "the user wrote it",
    "speaker": "the person named in the query wrote it",
    "recent": "it is recent",
    "time": "it is from the time named in the query",
    "title": "the title contains words of the query",
    "question": "it is a question, so it rarely contains the answer",
    "opening": "it is the first message of its conversation",
    "past": "it tells what happened, in the first person",
    "first_person": "it is about its author",
    "answer": "it has a time or a number, which the query asks for",
    "preference": "it says what the user likes, wants or does, and the query asks for advice",
    "around": "the messages before and after it have a similar meaning",
    "context": "the messages before and after it contain other words of the query",
    "length": "it is long enough to say something",
    "exact": "it contains the identifiers of the query",
    "covered": "it contains this share of the query",
    "complete": "it contains all words of the query",
    "phrase": "it contains the query exactly as typed",
    "adjacent": "the words are next to each other, as in the query",
    "rerank": "how well it answers the query, as the reranker judges",
}
_ARMS = {"text": "words", "vector": "meaning"}
_BAR = 12


def define_search(command: argparse.ArgumentParser) -> None:
    define(command, search, _EXAMPLES)
    command.add_argument("query", nargs="*", help="a question, words, or a query (see below)")
    add_search_options(command)
    command.add_argument(
        "--and",
        action="append",
        default=[],
        dest="concepts",
        metavar="CONCEPT",
        help="only conversations that also contain this; may be repeated",
    )
    _add_view(command)
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
    command.add_argument(
        "--hidden", action="store_true", help="include hidden messages, such as system prompts"
    )
    add_filters(command)


def define_related(command: argparse.ArgumentParser) -> None:
    define(command, related, _RELATED_EXAMPLES)
    command.add_argument("conversation", help="its id, as `list` and `search` show it")
    command.add_argument("message", help="the id of the message in it")
    _add_view(command)


def _add_view(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--limit", type=int, default=10, help="hits to show (default: %(default)s, at most 200)"
    )
    command.add_argument("--offset", type=int, default=0, help="hits to skip")
    command.add_argument(
        "--mode",
        choices=("both", "text", "vector"),
        default="both",
        help="by words (text), by meaning (vector) or both (default)",
    )
    command.add_argument(
        "--by",
        choices=("message", "conversation"),
        default="message",
        help="one hit per message (default) or per conversation",
    )
    command.add_argument("--explain", action="store_true", help="explain why each hit matches")


def search(arguments: argparse.Namespace) -> int:
    text = " ".join(arguments.query)
    concepts = list(arguments.concepts)
    if text:
        concepts.insert(0, text)
    if not concepts:
        raise InvalidInput("Nothing to search for. Usage: recollect search WORDS")
    query: str | list[str] = text
    if arguments.concepts:
        query = concepts
    with existing(arguments) as library:
        page = library.search(
            query,
            Filter.of(
                roles=arguments.role,
                authors=arguments.author,
                after=arguments.after,
                before=arguments.before,
                projects=arguments.project,
                sources=arguments.source,
                conversations=arguments.conversation,
                tags=arguments.tag,
                hidden=arguments.hidden,
            ),
            SearchOptions(
                mode=arguments.mode,
                group=arguments.by,
                score=arguments.score,
                limit=arguments.limit,
                offset=arguments.offset,
                now=arguments.now,
                correct=not arguments.no_correct,
                rerank=arguments.rerank,
            ),
        )
        remarks = _remarks(library, page, arguments.mode)
        if not arguments.json:
            page = _with_labels(library, page)
    if page.matched == "literal":
        remarks.insert(0, "The query was searched as plain text.")
    elif page.matched == "any" and not _is_plain(text):
        remarks.insert(
            0,
            "No message contains all of that; these contain some of it or have a similar meaning.",
        )
    by_conversation = bool(arguments.concepts) or arguments.by == "conversation"
    _print_page(page, arguments, remarks, by_conversation=by_conversation)
    return 0


def _is_plain(text: str) -> bool:
    try:
        return parse_query(text).plain
    except InvalidInput:  # too long: it was searched by some of its words
        return True


def related(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        page = library.related(
            arguments.conversation,
            arguments.message,
            SearchOptions(
                mode=arguments.mode,
                group=arguments.by,
                limit=arguments.limit,
                offset=arguments.offset,
            ),
        )
        remarks = _remarks(library, page, arguments.mode)
        if not arguments.json:
            page = _with_labels(library, page)
    _print_page(page, arguments, remarks, by_conversation=arguments.by == "conversation")
    return 0


def _with_labels(library: Library, page: Page) -> Page:
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


def _print_page(
    page: Page, arguments: argparse.Namespace, remarks: list[str], *, by_conversation: bool
) -> None:
    if arguments.json:
        print_json(asdict(page))
        return
    out = console()
    unit = "conversation" if by_conversation else "message"
    for hit in page.hits:
        if by_conversation:
            _show_conversation(hit, arguments.explain)
        else:
            _show_message(hit, arguments.explain)
        out.print()
    total = f"{page.total:,}"
    if not page.exact:
        total = f"at least {total}"
    if page.hits:
        last = page.offset + len(page.hits)
        out.print(f"[dim]{page.offset + 1:,} to {last:,} of {total} {unit}s[/]")
    elif page.total:
        out.print(f"No more hits; there are {total}.")
    else:
        out.print(f"No {unit}s match.")
    for remark in remarks:
        out.print(f"[yellow]{safe(remark)}[/]")
    if page.nearest:
        out.print("\n[dim]Closest in meaning:[/]\n")
        for hit in page.nearest:
            _show_message(hit, explain=False)
            out.print()


def _show_message(hit: Hit, explain: bool) -> None:
    out = console()
    details = [safe(_author(hit)), when(hit.created_at), hit.source]
    if hit.copies == 1:
        details.append("1 copy")
    elif hit.copies:
        details.append(f"{hit.copies:,} copies")
    line = f"[bold]{safe(hit.title)}[/]  [dim]{' · '.join(details)}[/]"
    if not hit.canonical:
        line += " · [yellow]on another branch[/]"
    out.print(line)
    out.print(Padding(_highlight(hit), (0, 0, 0, 2)))
    if explain:
        _explain(hit)
    _show_command(hit)


def _show_conversation(hit: Hit, explain: bool) -> None:
    out = console()
    out.print(
        f"[bold]{safe(hit.title)}[/]  [dim]{when(hit.created_at)} · {hit.source} · "
        f"score {hit.score:.2f}[/]"
    )
    for message in (hit, *hit.also):
        out.print(
            Padding(f"[cyan]{safe(_author(message))}[/]: {_highlight(message)}", (0, 0, 0, 2))
        )
        if explain:
            _explain(message, parts=message is hit)
    _show_command(hit)


def _show_command(hit: Hit) -> None:
    console().print(
        f"  [dim]recollect read {safe(hit.conversation_id)} --message {safe(hit.message_id)}[/]",
        soft_wrap=True,
    )


def _author(hit: Hit) -> str:
    return hit.author or hit.role or hit.kind


def _highlight(hit: Hit) -> str:
    parts, at = [], 0
    for start, end in hit.marks:
        parts += [safe(hit.snippet[at:start]), f"[bold green]{safe(hit.snippet[start:end])}[/]"]
        at = end
    return "".join([*parts, safe(hit.snippet[at:])])


def _explain(hit: Hit, *, parts: bool = True) -> None:
    out = console()
    line = f"score {hit.score:.3f} · matched by {' and '.join(_ARMS[arm] for arm in hit.arms)}"
    if hit.terms:
        line += f" · contains {safe(', '.join(hit.terms))}"
    out.print(Padding(f"[magenta]{line}[/]", (0, 0, 0, 2)))
    if not parts or not hit.parts:
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="magenta")
    table.add_column(justify="right")
    largest = max(abs(value) for value in hit.parts.values())
    for name, value in sorted(hit.parts.items(), key=lambda part: -abs(part[1])):
        bar = "█" * round(_BAR * abs(value) / largest) or "▏"
        colour = "red" if value < 0 else "green"
        table.add_row(name, f"{value:.3f}", f"[{colour}]{bar}[/]", f"[dim]{PARTS.get(name, '')}[/]")
    out.print(Padding(table, (0, 0, 0, 4)))
