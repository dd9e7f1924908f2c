"""Ask one library about 2,000 things through every interface, and write down the answers.

The library holds the samples, the examples and the questions of nine languages. An answer is kept
as text without what differs between two runs: scores, today's date, and random marks. Of a long
answer only the beginning and a checksum are kept; `make golden` writes all of it to build/golden,
so that `diff` shows what a change did.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_plus, urlencode

import recollect

TESTS = Path(__file__).parents[1]
ANSWERS = Path(__file__).with_name("answers")
LANGUAGES = sorted((TESTS / "data" / "languages").glob("*.json"))
FILE_TIME = 1_770_000_000
LONGEST = 320
NOW = "2026-05-20T12:00:00Z"
TIME = r"(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?)?"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
VOLATILE = (
    (re.compile(r'\\?"(score|relevance|parts)\\?": ?(\{[^}]*\}|-?[\d.e-]+),? ?'), ""),
    (re.compile(r'"request_id": ?"[0-9a-f]+"'), '"request_id":""'),
    (re.compile(r"END-[0-9a-f]{8}"), "END-MARK"),
    (re.compile(r"\b[01]\.\d{3}\b *█*"), "0"),
)


class Call(NamedTuple):
    name: str
    answer: Callable[[], str]


WORDS = """
tomato; tomatoes; roof; watering; event loop; RuntimeError; asyncio; valve; sensor; moisture;
chutney; recipe; Kyoto; packing; kite; harbour; ferry; tides; clock; bees; deploy; pytest; 苔庭;
雨の日; Zürich; cafe; café; naive; docker compose; git rebase; knot; garden; roses; pruning; moss;
lighthouse; e-mail; state of the art; x; the; and; of the; 2025; 2026-01-02; 15-litre; 3.11; C++;
C#; ->; .py; /home/robin; print(; $PATH; #1; @app; user_id; eventLoop; event_loop; EventLoop
""".replace("\n", " ").split(";")
QUESTIONS = """
who waters the tomatoes while I am away?; how did I fix the event loop; what should I pack for
Kyoto in November?; when does the ferry leave; which knot holds a kite line?; what did we decide
about the valve?; how many tomato plants are on the roof; what did I ask about bees; why did the
test fail; where is the clock project; what do I prefer; summarize the garden notes; do I have a
recipe for chutney; what did the assistant recommend for pruning roses?; is there anything about
quantum chromodynamics?; when did I last talk about tides; what was the error in the deployment;
how long does the soil stay moist; what are my constraints; please find my notes about the harbour
""".replace("\n", " ").split(";")
OPERATORS = """
"event loop"; "soil moisture" sensor; tomato OR bees; tomato AND roof; valve NOT sensor; valve
-sensor; (tomato OR bees) AND water; tom*; role:assistant valve; role:user tomato; source:chatgpt
tomato; project:garden roses; title:Kyoto pack; after:2026-01-01 test; before:2025-06-01 roof;
tomato NEAR roof; NEAR(tomato roof, 5); "unclosed; AND; OR OR; NOT tomato; (; "" ; ***;
tag:garden tomato; model:gpt-5 loop; author:nobody tomato; in:chatgpt moss; has:code loop
""".replace("\n", " ").split(";")
TYPOS = """
tomatos; tomatoe; chutny; Kyotto; asynico; moistre; RuntimeEror; event lop; pruneing; harbor;
recpie; sensr; zzqqxv; flibbertigibbet wombat; mitochondrion ribosome; lighthose
""".replace("\n", " ").split(";")


def queries() -> list[str]:
    texts = (
        " ".join(text.split()) for group in (WORDS, QUESTIONS, OPERATORS, TYPOS) for text in group
    )
    return list(dict.fromkeys(text for text in texts if text))


def foreign_questions() -> list[str]:
    return [
        question["text"]
        for path in LANGUAGES
        for question in json.loads(path.read_text(encoding="utf-8"))["questions"][:12]
    ]


def fill(home: Path) -> None:
    """Import the samples as files of one time, and build words and vectors."""
    files = home.with_name("files")
    shutil.copytree(TESTS / "samples", files / "samples")
    shutil.copytree(TESTS.parent / "examples", files / "examples")
    for path in [files, *sorted(files.rglob("*"))]:
        os.utime(path, (FILE_TIME, FILE_TIME))
    with recollect.open(home, background=False) as library:
        for group in ("samples", "examples"):
            for folder in sorted((files / group).iterdir()):
                if folder.is_dir() and folder.name not in ("broken", "letta", "__pycache__"):
                    library.import_path(folder)
        for path in LANGUAGES:
            for chat in json.loads(path.read_text(encoding="utf-8"))["conversations"]:
                messages = [{**m, "id": f"{path.stem}-{m['id']}"} for m in chat["messages"]]
                library.add_conversation(
                    f"{path.stem}-{chat['id']}", chat["title"], messages=messages
                )
        library.index()


def message_names(library: recollect.Library) -> dict[str, str]:
    """Names of the messages of items, whose ids depend on the path of their file."""
    return {
        message.id: f"{document.id}/{number}"
        for document in library.documents(recollect.Filter(kinds=tuple(SOURCES)))
        for number, message in enumerate(document.messages, 1)
    }


def stable(text: str, home: Path, names: dict[str, str]) -> str:
    """An answer without what differs between two runs."""
    text = UUID.sub(lambda match: names.get(match[0], match[0]), text)
    for pattern, replacement in VOLATILE:
        text = pattern.sub(replacement, text)
    text = re.sub(f"{datetime.now(UTC):%Y-%m-%d}{TIME}", "TODAY", text)
    text = text.replace(str(home.parent), "/tmp/golden").replace(home.parent.name, "golden")
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


def entry(call: Call, text: str) -> str:
    """What is kept of an answer."""
    if len(text) > LONGEST:
        checksum = hashlib.sha256(text.encode()).hexdigest()[:12]
        text = f"{text[:LONGEST]}\n[{len(text)} characters, {checksum}]"
    body = "\n".join(f"  {line}" if line else "" for line in text.splitlines())
    return f"> {call.name}\n{body}\n"


def library_calls(library: recollect.Library) -> Iterator[Call]:
    options = recollect.SearchOptions(limit=5, now=datetime.fromisoformat(NOW))
    variants: dict[str, tuple[recollect.Filter, recollect.SearchOptions]] = {
        "": (recollect.Filter(), options),
        "mode=text": (recollect.Filter(), replace(options, mode="text")),
        "group=conversation": (recollect.Filter(), replace(options, group="conversation")),
        "role=user": (recollect.Filter(roles=("user",)), options),
        "offset=3": (recollect.Filter(), replace(options, offset=3)),
    }
    for query in queries():
        for name, (filter_, some_options) in variants.items():
            ask = partial(library.search, query, filter_, some_options)
            yield Call(f"search {query!r} {name}".rstrip(), partial(page_lines, ask))
    for query in [*foreign_questions(), "last week", "what happened in April 2026?"]:
        yield Call(
            f"search {query!r}", partial(page_lines, partial(library.search, query, None, options))
        )


def page_lines(ask: Callable[[], recollect.Page]) -> str:
    """The hits of a page, one on a line, best first."""
    try:
        page = ask()
    except recollect.RecollectError as error:
        return f"{type(error).__name__}: {error}"
    facts = [
        f"total={page.total}",
        *(["weak"] if page.weak else []),
        *([page.note] if page.note else []),
    ]
    if page.corrections:
        facts.append(f"corrections={page.corrections}")
    lines = [" ".join(facts)]
    lines += [f"{h.conversation_id} {h.message_id} {h.snippet[:50]!r}" for h in page.hits]
    return "\n".join(lines)


SEARCHES = {
    "/api/v1/search": {"q": "{}", "limit": "4"},
    "/conversations/search/messages": {"query": "{}", "limit": "4"},
    "/api/search": {"q": "{}", "limit": "4"},
    "/api/knowledge/search": {"query": "{}", "limit": "4"},
    "/api/knowledge/notes/search": {"query": "{}", "limit": "3"},
}
LISTS = (
    "/conversations",
    "/conversations?limit=3&offset=2",
    "/conversations?limit=0",
    "/api/threads",
    "/api/knowledge/notes",
    "/api/knowledge/media",
    "/api/knowledge/characters",
    "/api/knowledge/prompts",
    "/api/knowledge/chats",
    "/api/knowledge/nothing",
    "/api/knowledge/notes?search=garden",
    "/api/knowledge/media-types",
    "/api/v1/facets",
    "/api/v1/activity",
    "/api/v1/changes",
    "/api/receipts",
    "/api/imports",
    "/api/keys",
    "/conversations/none",
    "/conversations/by-session/none",
    "/v1/models",
    "/nowhere",
    "/healthz",
)
RETRIEVALS = (
    {},
    {"mode": "full"},
    {"max_tokens": "60"},
    {"mode": "snippet", "snippet_length": "80"},
)


def rest_calls(client: Any, library: recollect.Library) -> Iterator[Call]:
    def get(path: str, **parameters: str) -> Call:
        url = f"{path}?{urlencode(parameters)}" if parameters else path
        return Call(f"GET {unquote_plus(url)}", partial(response, partial(client.get, url)))

    for path, parameters in SEARCHES.items():
        for query in queries():
            yield get(path, **{name: value.format(query) for name, value in parameters.items()})
    for path in LISTS:
        yield get(path)
    for summary in items(library):
        if summary.kind == "conversation":
            yield get(f"/conversations/{summary.id}")
            yield get(f"/conversations/{summary.id}/messages", limit="3")
            yield get("/api/v1/related", conversation_id=summary.id, limit="3")
            for format_ in ("md", "txt", "json"):
                body = {"format": format_}
                post = partial(client.post, f"/conversations/{summary.id}/export", json=body)
                yield Call(f"POST export {summary.id} {format_}", partial(response, post))
        else:
            source = SOURCES[summary.kind]
            for retrieval in RETRIEVALS:
                yield get(f"/api/knowledge/{source}/{quote(summary.id)}", **retrieval)


SOURCES = {"note": "notes", "media": "media", "character": "characters", "prompt": "prompts"}


def items(library: recollect.Library) -> list[recollect.Summary]:
    """Conversations and items, without most of the languages."""
    filter_ = recollect.Filter(kinds=("conversation", *SOURCES))
    summaries = library.conversations(filter_)
    summaries = [s for s in summaries if not re.match("(es|fr|it|ko|nl|pt|zh)-", s.id)]
    return sorted(summaries, key=lambda summary: (summary.kind, summary.id))


def response(request: Callable[[], Any]) -> str:
    answer = request()
    kind = answer.headers.get("content-type", "").split(";")[0]
    return f"{answer.status_code} {kind}\n{answer.text}"


TOOLS: dict[str, dict[str, Any]] = {
    "recall_search": {"query": "{}", "limit": 4},
    "conversation_search": {"query": "{}", "limit": 3},
    "msg_search": {"query": "{}", "limit": 3},
    "knowledge_search": {"query": "{}", "limit": 3},
    "search": {"query": "{}", "limit": 3},
}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def mcp_calls(client: Any, library: recollect.Library) -> Iterator[Call]:
    def rpc(method: str, profile: str = "all", **params: Any) -> Call:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        post = partial(client.post, f"/mcp/{profile}", json=message, headers=HEADERS)
        parameters = json.dumps(params, ensure_ascii=False)
        return Call(f"{profile} {method} {parameters}", partial(response, post))

    def tool(name: str, **arguments: Any) -> Call:
        return rpc("tools/call", name=name, arguments=arguments)

    for profile in ("letta", "bus", "knowledge", "memory", "research", "all"):
        yield rpc("tools/list", profile)
    for name, arguments in TOOLS.items():
        for query in queries()[:: 1 if name.startswith("recall") else 2]:
            yield tool(name, **{**arguments, "query": query})
    for summary in items(library):
        if summary.kind == "conversation":
            yield tool("recall_read", id=summary.id, max_tokens=300)
            yield tool("chats_get", id=summary.id)
        else:
            yield tool("knowledge_get", source=SOURCES[summary.kind], id=summary.id)
    for name, arguments in {
        "recall_recent": {},
        "recall_timeline": {"query": "valve"},
        "timeline": {"anchor": "2026-04-05"},
        "thread_list": {},
        "fetch": {"id": "nothing"},
        "media_transcript": {"id": "nothing"},
    }.items():
        yield tool(name, **arguments)


def cli_calls(run: Callable[..., str], library: recollect.Library) -> Iterator[Call]:
    def command(*arguments: str) -> Call:
        return Call(shlex.join(arguments), partial(run, *arguments))

    for query in queries()[::2]:
        yield command("search", "--limit", "3", "--", query)
    for query in queries()[::6]:
        yield command("search", "--json", "--limit", "2", "--by", "conversation", "--", query)
        yield command("knowledge", "search", "--limit", "3", "--", query)
        yield command("memory", "search", "--limit", "3", "--", query)
        yield command("search", "--explain", "--limit", "1", "--mode", "text", "--", query)
    for summary in items(library):
        if summary.kind == "conversation":
            yield command("read", summary.id)
            yield command("export", summary.id, "--format", "md")
        else:
            yield command("knowledge", "read", SOURCES[summary.kind], summary.id)
    for arguments in (
        "list",
        "list --json --limit 3",
        "list --source claude-code",
        "read nothing",
        "knowledge list notes",
        "knowledge list media --json",
        "knowledge types",
        "memory timeline 2026-04-05",
        "audit log",
        "keys list",
        "archive list",
        "nothing",
        "search",
        "export nothing",
        "tag nothing x",
    ):
        yield command(*arguments.split())
    for name in (
        "import",
        "search",
        "list",
        "read",
        "knowledge",
        "memory",
        "backup",
        "serve",
        "mcp",
        "keys",
    ):
        yield command(name, "--help")


def run_command(*arguments: str) -> str:
    from recollect.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(arguments), arguments[0])
        except SystemExit as stop:
            code = stop.code
    return f"exit {code}\n{out.getvalue()}{err.getvalue()}"
