"""`recollect search` and `recollect related`: the right moment, best first."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.padding import Padding
from rich.table import Table

from recollect.cli.common import (
    Commands,
    add_command,
    add_filters,
    console,
    existing,
    print_json,
    safe,
    when,
)
from recollect.errors import InvalidInput
from recollect.language.query import parse_query
from recollect.library import Library
from recollect.model.search import Hit, Page
from recollect.models import embeddings as models

_EXAMPLES = """\
  recollect search how did I fix the leaking valve last summer
  recollect search '"connection refused" OR ECONNREFUSED' --after 2025-01-01
  recollect search 'deploy* -staging role:user' --limit 5
  recollect search watering --by conversation --explain
  recollect search --and "React Router" --and authentication
  recollect search 非同期 --json

a query may hold (quote it, so that the shell leaves it alone):
  two words                    a question: any of the words, or something near in meaning
  "two words"  irrigat*        them in a row; words that begin like that
  a AND b  a OR b  (a OR b) c  operators are upper case
  a NOT b  a -b                without b
  NEAR(a b, 5)  a NEAR/5 b     at most 5 words between them
  role:user,assistant          who spoke: user, assistant, tool, system
  from:"Ada Lovelace"          the author's name
  in:work                      the project
  tag:idea                     a tag of the conversation
  title:roses                  words of the title
  after:2025-06 before:2026    dates are inclusive: a month is all of it
  -role:tool  -title:draft     every field can be taken away with a minus
  last week, in May 2024, …    times in a question: what was said then comes first
"""
_RELATED_EXAMPLES = """\
  recollect related CONVERSATION MESSAGE               both ids as `recollect search` shows them
  recollect related CONVERSATION MESSAGE --by conversation
  recollect related CONVERSATION MESSAGE --limit 5 --json
"""
PARTS = {
    "words": "it has words of the query",
    "close": "they stand close together",
    "meaning": "it is near in meaning",
    "topic": "its conversation is near in meaning",
    "reply": "it answers a message that asks this",
    "whole": "its conversation has words of the query",
    "side": "the person used them in it",
    "person": "the person said it",
    "speaker": "the one whom the query names said it",
    "recent": "it is new",
    "time": "it is of the time that the query names",
    "title": "the title has words of the query",
    "question": "it asks, and so seldom holds the answer",
}
_ARMS = {"text": "its words", "vector": "its meaning"}
_BAR = 12


def register(commands: Commands) -> None:
    search_ = add_command(
        commands, "search", "find messages by their words and their meaning", search, _EXAMPLES
    )
    search_.add_argument("query", nargs="*", help="a question, words, or a query as below")
    search_.add_argument(
        "--and",
        action="append",
        default=[],
        dest="concepts",
        metavar="CONCEPT",
        help="conversations that have this too, anywhere in them; may be repeated",
    )
    _add_view(search_)
    search_.add_argument(
        "--now", metavar="DATE", help='when "last week" and the like are seen from (default: now)'
    )
    search_.add_argument(
        "--score",
        choices=("rank", "fts"),
        default="rank",
        help="score and order by Recollect's ranker (default), or by the text engine's own measure",
    )
    search_.add_argument(
        "--hidden", action="store_true", help="include hidden messages, such as system prompts"
    )
    add_filters(search_)
    related_ = add_command(
        commands, "related", "find messages like a arguments one", related, _RELATED_EXAMPLES
    )
    related_.add_argument("conversation", help="its id, as `list` and `search` show it")
    related_.add_argument("message", help="the id of the message in it")
    _add_view(related_)


def _add_view(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--limit", type=int, default=10, help="hits to show (default: %(default)s, at most 200)"
    )
    command.add_argument("--offset", type=int, default=0, help="hits to pass over")
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
        help="one hit a message (default), or one a conversation",
    )
    command.add_argument("--explain", action="store_true", help="say why each hit was found")


def search(arguments: argparse.Namespace) -> int:
    text = " ".join(arguments.query)
    concepts = [text, *arguments.concepts] if text else arguments.concepts
    if not concepts:
        raise InvalidInput("Nothing to look for. Give words: recollect search WORDS")
    with existing(arguments) as library:
        page = library.search(
            concepts if arguments.concepts else text,
            mode=arguments.mode,
            group=arguments.by,
            score=arguments.score,
            limit=arguments.limit,
            offset=arguments.offset,
            roles=arguments.role,
            authors=arguments.author,
            after=arguments.after,
            before=arguments.before,
            projects=arguments.project,
            sources=arguments.source,
            conversations=arguments.conversation,
            tags=arguments.tag,
            hidden=arguments.hidden,
            now=arguments.now,
        )
        remarks = _remarks(library, page, arguments.mode)
    if page.matched == "literal":
        remarks.insert(0, "Looked for as plain text.")
    elif page.matched == "any" and not parse_query(text).plain:
        remarks.insert(
            0, "No message has all of that; these have some of it, or are near in meaning."
        )
    _answer(
        page, arguments, remarks, whole=bool(arguments.concepts) or arguments.by == "conversation"
    )
    return 0


def related(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        page = library.related(
            arguments.conversation,
            arguments.message,
            mode=arguments.mode,
            group=arguments.by,
            limit=arguments.limit,
            offset=arguments.offset,
        )
        remarks = _remarks(library, page, arguments.mode)
    _answer(page, arguments, remarks, whole=arguments.by == "conversation")
    return 0


def _remarks(library: Library, page: Page, mode: str) -> list[str]:
    """What the person should know of how the answer came about."""
    if page.note:
        return [page.note]
    if mode == "text":
        return []
    if page.mode == "text":
        if models.embedding_setting() == models.OFF:
            return ["Words only: vectors are off (RECOLLECT_EMBEDDINGS)."]
        if models.space_to_search(library.store.spaces()) is None:
            return ["Words only: there are no vectors yet (`recollect index` makes them)."]
        return ["Words only: the model knows none of these words."] if page.embedded else []
    if page.embedded < 1:
        return [
            f"Only {int(100 * page.embedded)} % of the library has vectors yet (`recollect index` makes the rest)."
        ]
    return []


# -- showing -----------------------------------------------------------------


def _answer(page: Page, arguments: argparse.Namespace, remarks: list[str], *, whole: bool) -> None:
    """`whole`: each hit stands for its conversation."""
    if arguments.json:
        print_json(asdict(page))
        return
    out = console()
    units = "conversations" if whole else "messages"
    total = f"{page.total:,}" if page.exact else f"at least {page.total:,}"
    if page.hits:
        for hit in page.hits:
            _show_conversation(hit, arguments.explain) if whole else _show_message(
                hit, arguments.explain
            )
            out.print()
        last = page.offset + len(page.hits)
        out.print(
            f"[dim]{page.offset + 1:,} to {last:,} of {total}{' conversations' if whole else ''}[/]"
        )
    else:
        out.print(f"No more hits; there are {total}." if page.total else f"No {units} match.")
    for remark in remarks:
        out.print(f"[yellow]{safe(remark)}[/]")


def _show_message(hit: Hit, explain: bool) -> None:
    out = console()
    copies = (
        f" · and {hit.copies:,} {'copy' if hit.copies == 1 else 'copies'}" if hit.copies else ""
    )
    branch = "" if hit.canonical else " · [yellow]on another branch[/]"
    out.print(
        f"[bold]{safe(hit.title) or 'Untitled'}[/]  [dim]{safe(_who(hit))} · {when(hit.created_at)} · "
        f"{hit.source}{copies}[/]{branch}"
    )
    out.print(Padding(_marked(hit), (0, 0, 0, 2)))
    if explain:
        _explain(hit)
    _show_where(hit)


def _show_conversation(hit: Hit, explain: bool) -> None:
    out = console()
    out.print(
        f"[bold]{safe(hit.title) or 'Untitled'}[/]  [dim]{when(hit.created_at)} · {hit.source} · "
        f"score {hit.score:.2f}[/]"
    )
    for one in (hit, *hit.also):
        out.print(Padding(f"[cyan]{safe(_who(one))}[/]: {_marked(one)}", (0, 0, 0, 2)))
        if explain:
            _explain(one, parts=one is hit)
    _show_where(hit)


def _show_where(hit: Hit) -> None:
    console().print(
        f"  [dim]recollect read {safe(hit.conversation_id)} --message {safe(hit.message_id)}[/]",
        soft_wrap=True,
    )


def _who(hit: Hit) -> str:
    return hit.author or hit.role or hit.kind


def _marked(hit: Hit) -> str:
    parts, at = [], 0
    for start, end in hit.marks:
        parts += [safe(hit.snippet[at:start]), f"[bold green]{safe(hit.snippet[start:end])}[/]"]
        at = end
    return "".join([*parts, safe(hit.snippet[at:])])


def _explain(hit: Hit, *, parts: bool = True) -> None:
    out = console()
    found = " and ".join(_ARMS[arm] for arm in hit.arms)
    has = f" · it has {safe(', '.join(hit.terms))}" if hit.terms else ""
    out.print(Padding(f"[magenta]score {hit.score:.3f} · found by {found}{has}[/]", (0, 0, 0, 2)))
    if not parts or not hit.parts:
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="magenta")
    table.add_column(justify="right")
    most = max(abs(value) for value in hit.parts.values())
    for name, value in sorted(hit.parts.items(), key=lambda part: -abs(part[1])):
        bar = "█" * round(_BAR * abs(value) / most) or "▏"
        colour = "red" if value < 0 else "green"
        table.add_row(name, f"{value:.3f}", f"[{colour}]{bar}[/]", f"[dim]{PARTS.get(name, '')}[/]")
    out.print(Padding(table, (0, 0, 0, 4)))
