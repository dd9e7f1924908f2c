"""Gemini CLI: sessions as a log (`session-*.jsonl`) or, in old versions, JSON (`session-*.json`).

In the log, a line with a known id replaces that message, `$set` changes the session's data, and
`$rewindTo` removes a message and all after it; what was removed stays as a branch. `$set.messages`
replaces the list. The CLI truncates long results there to save space, so the longer version of each
message is used. Sub-agents (`chats/<session>/<id>.jsonl`) are documents that name their parent. The
project is the folder in `.project_root` or `projects.json`, if they are where the CLI puts them. A
resumed session can exist in both formats with the same ids; the later one wins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from recollect.importers import jsonstream
from recollect.importers.chats.agentlog import (
    Tally,
    first_records,
    head_text,
    read_log,
    stem,
    title_of,
)
from recollect.importers.entries import Entry
from recollect.importers.records import as_list, contain_errors, join_texts
from recollect.language.text import moment
from recollect.model.chat_messages import as_lines, as_mapping, as_text, embedded_file, parse_json
from recollect.model.documents import Document, Json, Passage
from recollect.model.receipts import Problem
from recollect.model.sources import GEMINI_CLI

SOURCE = GEMINI_CLI
DESCRIPTION = "Gemini CLI sessions (session-*.jsonl, session-*.json)"

_ROLES = {
    "user": "user",
    "gemini": "assistant",
    **dict.fromkeys(("info", "warning", "error"), "system"),
}
_METADATA = ("projectHash", "kind", "directories")
_CALL_METADATA = ("status", "description", "agentId")
_PROJECT_BYTES = 65_536


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if name.endswith(".json"):
        keys = jsonstream.peek(entry)
        return "sessionId" in keys and ("projectHash" in keys or {"startTime", "messages"} <= keys)
    if not name.endswith(".jsonl"):
        return False
    records = first_records(head_text(entry))
    return bool(records) and is_first_record(records[0])


def is_first_record(record: Mapping[str, Json]) -> bool:
    if not isinstance(record.get("sessionId"), str) or "type" in record:
        return "$set" in record or "$rewindTo" in record
    return not record.keys().isdisjoint(("projectHash", "startTime", "lastUpdated"))


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    return read_log(entry, _Session(entry))


class _Session:
    """Replays the log: all messages, the current ones, and where the removed ones were."""

    def __init__(self, entry: Entry) -> None:
        self.tally = Tally(entry.name)
        self._entry = entry
        self._fields: dict[str, Json] = {}
        self._messages: dict[str, dict[str, Json]] = {}
        self._current: dict[str, None] = {}
        self._before_removal: dict[str, str | None] = {}
        """For each removed message: the one before it."""

    # -- lines --

    def add(self, number: int, record: dict[str, Json]) -> None:
        if isinstance(record.get("$rewindTo"), str):
            # Removes a message and all after it, or all messages if it is unknown.
            removed: str | None = None
            while self._current and removed != record["$rewindTo"]:
                removed, _ = self._current.popitem()
                self._before_removal[removed] = next(reversed(self._current), None)
        elif isinstance(record.get("id"), str) and "type" in record:
            self._messages[record["id"]] = record
            self._current[record["id"]] = None
        elif isinstance(record.get("$set"), dict):
            self._set(record["$set"])
        elif isinstance(record.get("sessionId"), str):
            self._set(record)
        else:
            self.tally.skip("record of an unknown type")

    def _set(self, fields: Mapping[str, Json]) -> None:
        self._fields |= {key: value for key, value in fields.items() if key != "messages"}
        messages = {
            message["id"]: message
            for message in objects(fields.get("messages"))
            if isinstance(message.get("id"), str)
        }
        if not messages:
            return
        for id_, message in messages.items():
            earlier = self._messages.get(id_, {})
            if len(json.dumps(message)) >= len(json.dumps(earlier)):
                self._messages[id_] = message
        previous = None
        for id_ in self._current:
            if id_ not in messages:
                self._before_removal[id_] = previous
            previous = id_
        self._current = dict.fromkeys(messages)

    # -- the document --

    def documents(self) -> Iterator[Document]:
        passages, head = self._passages()
        if not passages:
            return
        name = stem(self._entry)
        folders = self._entry.place.replace("\\", "/").replace("!", "/").split("/")[:-1]
        # A sub-agent works for the session that its folder is named after.
        parent = folders[-1] if len(folders) > 1 and folders[-2] == "chats" else ""
        metadata = {key: self._fields[key] for key in _METADATA if self._fields.get(key)}
        if parent:
            metadata["parent_session"] = parent
        times = [passage.created_at for passage in passages if passage.created_at]
        started_at = moment(self._fields.get("startTime"))
        updated_at = moment(self._fields.get("lastUpdated"))
        created_at = started_at or min(times, default=None)
        session = as_text(self._fields.get("sessionId")) or name
        yield Document(
            source=SOURCE.name,
            source_id=f"{session}:{name}" if session == parent else session,
            title=as_text(self._fields.get("summary")).strip() or title_of(passages),
            project=self._project(folders),
            created_at=created_at,
            updated_at=max(filter(None, (*times, updated_at)), default=started_at),
            head=head,
            passages=tuple(passages),
            metadata=metadata,
        )

    def _passages(self) -> tuple[list[Passage], str | None]:
        """The passages with their parents, and the head of the session."""
        calls = {
            as_text(call.get("id"))
            for message in self._messages.values()
            for call in objects(message.get("toolCalls"))
        }
        parents = dict(self._before_removal)
        previous = None
        for message_id in self._current:
            parents[message_id] = previous
            previous = message_id
        last_passages: dict[str, str | None] = {}
        """The last passage of each message, or of its nearest ancestor that has one."""
        passages: list[Passage] = []
        for message_id in self._messages:
            path: dict[str, None] = {}  # from the message up to one that is done
            current: str | None = message_id
            while current is not None and current not in last_passages and current not in path:
                path[current] = None
                current = parents.get(current)
            for ancestor in reversed(path):
                last = last_passages.get(parents.get(ancestor) or "")
                for passage in message_passages(self._messages[ancestor], calls, self.tally):
                    passages.append(passage._replace(parent=last))
                    last = passage.id
                last_passages[ancestor] = last
        return passages, last_passages.get(previous or "")

    def _project(self, folders: list[str]) -> str:
        chats = max((n for n, folder in enumerate(folders) if folder == "chats"), default=0)
        slug = folders[chats - 1] if chats else ""
        project_hash = as_text(self._fields.get("projectHash"))
        place = Path(self._entry.place)
        if chats and self._entry.path is not None and place.is_absolute():
            tmp = place.parents[len(folders) - chats + 1]
            root = read_text(tmp / slug / ".project_root").strip()
            root = root or find_project(read_text(tmp.parent / "projects.json"), slug, project_hash)
            if root:
                return root
        directories = as_list(self._fields.get("directories"))
        if directories and isinstance(directories[0], str):
            return directories[0]
        return slug or project_hash or "default"


@lru_cache(maxsize=4096)
def find_project(text: str, slug: str, project_hash: str) -> str:
    """The folder of a project in `projects.json`, by its name or by the hash of its folder."""
    projects = as_mapping(as_mapping(parse_json(text)).get("projects"))
    for path, name in projects.items():
        digest = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
        if name == slug or digest in (slug, project_hash):
            return path
    return ""


def read_text(file: Path) -> str:
    with suppress(OSError):
        if not file.is_symlink() and file.is_file() and file.stat().st_size <= _PROJECT_BYTES:
            return file.read_text(encoding="utf-8", errors="replace")
    return ""


# -- messages ----------------------------------------------------------------


def message_passages(message: Mapping[str, Json], calls: set[str], tally: Tally) -> list[Passage]:
    """The passages of a message: thoughts, text, then tool calls with their results."""
    message_id, type_ = as_text(message.get("id")), as_text(message.get("type"))
    role = _ROLES.get(type_)
    if role is None:
        tally.skip("message type", type_)
        return []
    model = as_text(message.get("model")) if role == "assistant" else ""
    created_at = moment(message.get("timestamp"))
    template = Passage(message_id, role, "", model=model or None, created_at=created_at)
    passages: list[Passage] = []
    for number, thought in enumerate(objects(message.get("thoughts"))):
        content = join_texts((thought.get("subject"), thought.get("description")))
        if content:
            id_ = f"{message_id}:thought:{number}"
            passages.append(template._replace(id=id_, content=content, type="thinking"))
    passages += _parts(template, message, calls)
    for number, call in enumerate(objects(message.get("toolCalls"))):
        call_id = as_text(call.get("id")) or number
        passages += tool_passages(template, call, f"{message_id}:{call_id}")
    if isinstance(message.get("tokens"), dict) and passages:
        metadata = {**passages[0].metadata, "usage": message["tokens"]}
        passages[0] = passages[0]._replace(metadata=metadata)
    return passages


def _parts(template: Passage, message: Mapping[str, Json], calls: set[str]) -> list[Passage]:
    """The passages of a message's content, without tool calls that are in `calls`."""
    texts: list[str] = []
    files: list[Json] = []
    passages: list[Passage] = []
    for number, part in enumerate(content_parts(message.get("content"))):
        id_ = f"{template.id}:part:{number}"
        text = as_text(part.get("text"))
        call = as_mapping(part.get("functionCall"))
        response = as_mapping(part.get("functionResponse"))
        if part.get("thought") is True:
            passages.append(template._replace(id=id_, content=text, type="thinking"))
        elif text:
            texts.append(text)
        elif call:
            if as_text(call.get("id")) not in calls:
                passages += tool_passages(template, call, id_)
        elif response:
            if as_text(response.get("id")) not in calls:
                result = template._replace(id=id_, role="tool", type="tool_result", model=None)
                tool = as_text(response.get("name")) or None
                passages.append(result._replace(content=result_text([part]), tool=tool))
        else:
            files += filter(None, [_file(part)])
    if texts or files:
        text = "\n".join(texts)
        display_parts = content_parts(message.get("displayContent"))
        displayed = "\n".join(as_text(part.get("text")) for part in display_parts)
        passages.append(
            template._replace(
                content=text,
                type="context" if template.role == "system" else "message",
                attachments=tuple(files),
                metadata={"displayed": displayed} if displayed not in ("", text) else {},
            )
        )
    return passages


def tool_passages(template: Passage, call: Mapping[str, Json], id_: str) -> list[Passage]:
    """A tool call, and its result if there is one."""
    metadata = {
        key: call[key] for key in _CALL_METADATA if isinstance(call.get(key), str) and call[key]
    }
    if isinstance(call.get("id"), str):
        metadata["call_id"] = call["id"]
    call_passage = template._replace(
        id=id_,
        content=as_lines(as_mapping(call.get("args"))),
        type="tool_call",
        tool=as_text(call.get("name")) or None,
        created_at=moment(call.get("timestamp")) or template.created_at,
        metadata=metadata,
    )
    result_parts = content_parts(call.get("result"))
    result = result_text(result_parts) or as_lines(call.get("resultDisplay") or "")
    if not result:
        return [call_passage]
    result_passage = call_passage._replace(
        id=f"{id_}:result",
        role="tool",
        content=result,
        type="tool_result",
        model=None,
        attachments=tuple(filter(None, map(_file, result_parts))),
    )
    return [call_passage, result_passage]


def result_text(parts: list[dict[str, Json]]) -> str:
    """The output or error of a tool, without the wrapper that the model receives."""
    texts = []
    for part in parts:
        response = as_mapping(part.get("functionResponse")).get("response")
        if not isinstance(response, dict):
            texts.append(as_text(part.get("text")))
            continue
        outputs = [response[key] for key in ("output", "error") if response.get(key)]
        texts += map(as_lines, outputs or [response])
    return "\n".join(text for text in texts if text)


def _file(part: Mapping[str, Json]) -> dict[str, Json] | None:
    inline = as_mapping(part.get("inlineData"))
    if inline:
        return embedded_file("file", inline.get("mimeType"), inline.get("data"))
    link = as_mapping(part.get("fileData"))
    return {"type": "file", "url": as_text(link.get("fileUri"))} if link else None


def content_parts(value: Json) -> list[dict[str, Json]]:
    """A list of parts. The CLI also writes a text alone, or one part."""
    values = value if isinstance(value, list) else [value]
    return objects([{"text": part} if isinstance(part, str) else part for part in values])


def objects(value: Json) -> list[dict[str, Json]]:
    return [item for item in as_list(value) if isinstance(item, dict)]
