"""Gemini CLI: sessions as an append log (`session-*.jsonl`) and, before that, as one object (`session-*.json`).

In the log a line of a known id replaces that message, `$set` changes what is
said of the session, and `$rewindTo` takes back a message and all behind it;
what was taken back stays as a branch. `$set.messages` replaces the list, where
the CLI has masked long results to save room: of a message known before, the
fuller version is kept. Sub-agents (`chats/<session>/<id>.jsonl`) are documents
of their own that name their parent. The project is the folder that
`.project_root` or `projects.json` names, as far as they lie where the CLI puts
them. A session that was resumed lies there in both shapes, under one id and
with the same message ids: the later one has the last word.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from recollect.importers import jsonstream
from recollect.importers.chats.agentlog import (
    Tally,
    Unusable,
    as_lines,
    as_mapping,
    as_text,
    embedded_file,
    first_records,
    head_text,
    parse_json,
    stem,
    title_of,
)
from recollect.importers.entries import Entry
from recollect.language.text import moment
from recollect.model.documents import Document, Json, Passage
from recollect.model.receipts import Problem
from recollect.model.sources import GEMINI_CLI

SOURCE = GEMINI_CLI
DESCRIPTION = "Gemini CLI sessions (session-*.jsonl, session-*.json)"

_ROLES = {
    "user": "user",
    "gemini": "assistant",
    "info": "system",
    "warning": "system",
    "error": "system",
}
_NOTED = ("projectHash", "kind", "directories")
_PROJECT_BYTES = 65_536


# -- recognising -------------------------------------------------------------


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if name.endswith(".json"):
        keys = jsonstream.peek(entry)
        return "sessionId" in keys and ("projectHash" in keys or {"startTime", "messages"} <= keys)
    return name.endswith(".jsonl") and any(map(_is_start, first_records(head_text(entry))[:1]))


def _is_start(record: Mapping[str, Json]) -> bool:
    if not isinstance(record.get("sessionId"), str) or "type" in record:
        return "$set" in record or "$rewindTo" in record
    return not record.keys().isdisjoint(("projectHash", "startTime", "lastUpdated"))


# -- reading -----------------------------------------------------------------


def read(entry: Entry) -> Iterator[Document | Problem]:
    session = _Session(entry)
    whole = not entry.basename.lower().endswith(".jsonl")
    for item in jsonstream.records(entry) if whole else jsonstream.lines(entry):
        if isinstance(item, Problem):
            yield item
            continue
        number, record = item
        try:
            session.add(record)
        except Unusable as error:
            yield Problem(str(error), where=f"line {number}", failed=True)
    yield from session.documents()


class _Session:
    """Follows the log: which messages there were, which of them are current, and where the others hung."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._tally = Tally(entry.name)
        self._about: dict[str, Json] = {}
        self._messages: dict[str, dict[str, Json]] = {}
        self._current: dict[str, None] = {}
        self._hung: dict[str, str | None] = {}
        """Of a message that was taken back: the one that it came after."""

    # -- lines --

    def add(self, record: Json) -> None:
        if not isinstance(record, dict):
            raise Unusable("line without a record")
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(record["$rewindTo"])
        elif isinstance(record.get("id"), str) and "type" in record:
            self._messages[record["id"]] = record
            self._current[record["id"]] = None
        elif isinstance(record.get("$set"), dict):
            self._set(record["$set"])
        elif isinstance(record.get("sessionId"), str):
            self._set(record)
        else:
            self._tally.skip("record of an unknown type")

    def _rewind(self, to: str) -> None:
        order = list(self._current)
        self._keep(order[: order.index(to)] if to in self._current else [])

    def _set(self, about: Mapping[str, Json]) -> None:
        self._about |= {k: v for k, v in about.items() if k != "messages"}
        listed = [
            m
            for m in _list(about.get("messages"))
            if isinstance(m, dict) and isinstance(m.get("id"), str)
        ]
        if listed:
            for message in listed:
                known = self._messages.get(message["id"])
                if known is None or _size(message) >= _size(known):
                    self._messages[message["id"]] = message
            self._keep([message["id"] for message in listed])

    def _keep(self, order: list[str]) -> None:
        kept = dict.fromkeys(order)
        above = None
        for id_ in self._current:
            if id_ not in kept:
                self._hung[id_] = above
            above = id_
        self._current = kept

    # -- the document --

    def documents(self) -> Iterator[Document | Problem]:
        passages, head = self._linked()
        times = [p.created_at for p in passages if p.created_at]
        started, changed = (
            moment(self._about.get("startTime")),
            moment(self._about.get("lastUpdated")),
        )
        session, parent = as_text(self._about.get("sessionId")) or stem(self._entry), self._parent()
        if passages:
            yield Document(
                source=SOURCE.name,
                source_id=f"{session}:{stem(self._entry)}" if session == parent else session,
                title=as_text(self._about.get("summary")).strip() or title_of(passages),
                project=self._project(),
                created_at=started or min(times, default=None),
                updated_at=max([*times, *([changed] if changed else [])], default=started),
                head=head,
                passages=tuple(passages),
                metadata=self._metadata(parent),
            )
        else:
            yield Problem(
                "no messages in the session", where=self._entry.name, unit="conversations"
            )
        yield from self._tally.problems()

    def _linked(self) -> tuple[list[Passage], str | None]:
        """The passages with their parents, and the one where the session stands."""
        calls = {
            as_text(call.get("id"))
            for m in self._messages.values()
            for call in _objects(m.get("toolCalls"))
        }
        above: dict[str, str | None] = {}
        previous = None
        for id_ in self._current:
            above[id_] = previous
            previous = id_
        ends: dict[
            str, str | None
        ] = {}  # message -> its last passage, or that of the nearest above it
        passages: list[Passage] = []
        for id_ in self._in_order(above):
            tip = ends.get(above.get(id_, self._hung.get(id_)) or "")
            for part in _spoken(self._messages[id_], calls, self._tally):
                passages.append(part._replace(parent=tip))
                tip = part.id
            ends[id_] = tip
        return passages, ends.get(previous) if previous else None

    def _in_order(self, above: Mapping[str, str | None]) -> list[str]:
        """Messages after those that they follow, else as they came."""
        order: dict[str, None] = {}
        for start in self._messages:
            trail: list[str] = []
            walk: str | None = start
            while walk is not None and walk not in order and walk not in trail:
                trail.append(walk)
                walk = above.get(walk, self._hung.get(walk))
            order |= dict.fromkeys(reversed(trail))
        return list(order)

    def _parent(self) -> str:
        """The session that a sub-agent works for: the folder it lies in."""
        parts = _folders(self._entry)
        return parts[-1] if len(parts) > 1 and parts[-2] == "chats" else ""

    def _project(self) -> str:
        parts = _folders(self._entry)
        at = max((n for n, part in enumerate(parts) if part == "chats"), default=0)
        slug = parts[at - 1] if at else ""
        hashed = as_text(self._about.get("projectHash"))
        if at and self._entry.path is not None and Path(self._entry.place).is_absolute():
            tmp = Path(self._entry.place).parents[len(parts) - at + 1]
            if found := _root(tmp / slug / ".project_root") or _listed(
                tmp.parent / "projects.json", slug, hashed
            ):
                return found
        directories = self._about.get("directories")
        if isinstance(directories, list) and directories and isinstance(directories[0], str):
            return directories[0]
        return slug or hashed or "default"

    def _metadata(self, parent: str) -> dict[str, Json]:
        found = {key: self._about[key] for key in _NOTED if self._about.get(key)}
        return found | {"parent_session": parent} if parent else found


# -- messages ----------------------------------------------------------------


def _spoken(message: Mapping[str, Json], calls: set[str], tally: Tally) -> list[Passage]:
    """What a message holds: thoughts, words, then tools and what they gave."""
    id_, type_ = as_text(message.get("id")), as_text(message.get("type"))
    if type_ not in _ROLES:
        tally.skip("message type", type_)
        return []
    role, at = _ROLES[type_], moment(message.get("timestamp"))
    model = as_text(message.get("model")) or None
    made = Passage(id_, role, "", model=model if role == "assistant" else None, created_at=at)
    passages = [
        made._replace(id=f"{id_}:thought:{n}", content=words, type="thinking")
        for n, thought in enumerate(_objects(message.get("thoughts")))
        if (
            words := "\n".join(
                filter(None, (as_text(thought.get("subject")), as_text(thought.get("description"))))
            )
        )
    ]
    passages += _parts(made, message, calls)
    for n, call in enumerate(_objects(message.get("toolCalls"))):
        passages += _used(made, call, f"{id_}:{as_text(call.get('id')) or n}")
    if isinstance(message.get("tokens"), dict) and passages:
        passages[0] = passages[0]._replace(
            metadata={**passages[0].metadata, "usage": message["tokens"]}
        )
    return passages


def _parts(made: Passage, message: Mapping[str, Json], calls: set[str]) -> list[Passage]:
    words: list[str] = []
    files: list[Json] = []
    passages: list[Passage] = []
    for n, part in enumerate(_content(message.get("content"))):
        text = as_text(part.get("text"))
        if part.get("thought") is True:
            passages.append(made._replace(id=f"{made.id}:part:{n}", content=text, type="thinking"))
        elif text:
            words.append(text)
        elif call := as_mapping(part.get("functionCall")):
            if as_text(call.get("id")) not in calls:
                passages += _used(made, call, f"{made.id}:part:{n}")
        elif response := as_mapping(part.get("functionResponse")):
            if as_text(response.get("id")) not in calls:
                given = made._replace(
                    id=f"{made.id}:part:{n}", role="tool", type="tool_result", model=None
                )
                passages.append(
                    given._replace(
                        content=_answer([part]), tool=as_text(response.get("name")) or None
                    )
                )
        elif file := _file(part):
            files.append(file)
    if words or files:
        type_ = "context" if made.role == "system" else "message"
        shown = "\n".join(as_text(p.get("text")) for p in _content(message.get("displayContent")))
        text = "\n".join(words)
        notes = {"displayed": shown} if shown and shown != text else {}
        passages.append(
            made._replace(content=text, type=type_, attachments=tuple(files), metadata=notes)
        )
    return passages


def _used(made: Passage, call: Mapping[str, Json], id_: str) -> list[Passage]:
    tool = as_text(call.get("name")) or None
    notes = {
        k: call[k]
        for k in ("status", "description", "agentId")
        if isinstance(call.get(k), str) and call[k]
    }
    notes |= {"call_id": call["id"]} if isinstance(call.get("id"), str) else {}
    at = moment(call.get("timestamp")) or made.created_at
    asked = made._replace(
        id=id_,
        content=as_lines(as_mapping(call.get("args"))),
        type="tool_call",
        tool=tool,
        created_at=at,
        metadata=notes,
    )
    answer = _answer(_content(call.get("result"))) or as_lines(call.get("resultDisplay") or "")
    if not answer:
        return [asked]
    files = tuple(file for part in _content(call.get("result")) if (file := _file(part)))
    return [
        asked,
        asked._replace(
            id=f"{id_}:result",
            role="tool",
            content=answer,
            type="tool_result",
            model=None,
            attachments=files,
        ),
    ]


def _answer(parts: list[dict[str, Json]]) -> str:
    """What a tool gave back: its output or error, without the shell that it is handed to the model in."""
    found = []
    for part in parts:
        response = as_mapping(part.get("functionResponse")).get("response")
        if isinstance(response, dict):
            said = [response[key] for key in ("output", "error") if response.get(key)]
            found.append("\n".join(map(as_lines, said)) if said else as_lines(response))
        else:
            found.append(as_text(part.get("text")))
    return "\n".join(filter(None, found))


def _file(part: Mapping[str, Json]) -> dict[str, Json] | None:
    if inline := as_mapping(part.get("inlineData")):
        return embedded_file("file", inline.get("mimeType"), inline.get("data"))
    linked = as_mapping(part.get("fileData"))
    return {"type": "file", "url": as_text(linked.get("fileUri"))} if linked else None


def _content(value: Json) -> list[dict[str, Json]]:
    """A list of parts, however it is written: text alone, one part, or several."""
    several = value if isinstance(value, list) else [value]
    return [
        {"text": part} if isinstance(part, str) else part
        for part in several
        if isinstance(part, (str, dict))
    ]


def _objects(value: Json) -> list[dict[str, Json]]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _size(message: Mapping[str, Json]) -> int:
    return len(json.dumps(message))


# -- projects ----------------------------------------------------------------


def _folders(entry: Entry) -> list[str]:
    return entry.place.replace("\\", "/").replace("!", "/").split("/")[:-1]


def _root(file: Path) -> str:
    return _text(file).strip()


@lru_cache(maxsize=4096)
def _project_of(text: str, slug: str, hashed: str) -> str:
    projects = as_mapping(as_mapping(parse_json(text)).get("projects"))
    for path, name in projects.items():
        if name == slug or hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest() in (
            slug,
            hashed,
        ):
            return path
    return ""


def _listed(file: Path, slug: str, hashed: str) -> str:
    """The project of a name, or of a hash of its folder."""
    return _project_of(text, slug, hashed) if (text := _text(file)) else ""


def _text(file: Path) -> str:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _PROJECT_BYTES:
            return ""
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
