"""Two other files of Codex: the output of `codex exec --json`, and `history.jsonl`.

The events of `exec` have neither times nor the prompt, and the history has only prompts. Both
repeat, with other ids, what a rollout of the same thread has in full. So they become documents of
their own (`exec:<thread>`, `history:<thread>`) and do not touch those of the rollouts.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping

from recollect.importers.chats.agentlog import Tally, stem, title_of
from recollect.importers.entries import Entry
from recollect.language.text import moment
from recollect.model.chat_messages import as_lines, as_mapping, as_text
from recollect.model.documents import Document, Json, Passage

EVENT_TYPES = tuple(
    "thread.started turn.started turn.completed item.started item.updated item.completed".split()
)
_UNKNOWN_THREAD = "unknown"  # of events before the first one that names a thread

# The keys of a tool's input and of its output, by item type.
_TOOL_KEYS = {
    "command_execution": (("command",), ("aggregated_output",)),
    "file_change": (("changes",), ()),
    "mcp_tool_call": (("arguments",), ("result", "error")),
    "collab_tool_call": (("prompt",), ("agents_states",)),
    "web_search": (("query",), ()),
    "todo_list": (("items",), ()),
}


# -- exec --------------------------------------------------------------------


class Events:
    """Collects the items of each thread. A later event of an item replaces the earlier ones."""

    def __init__(self, entry: Entry, tally: Tally) -> None:
        self._tally = tally
        self._name = stem(entry)
        self._threads: dict[str, dict[str, dict[str, Json]]] = {}
        self._thread = _UNKNOWN_THREAD
        self._runs: Counter[str] = Counter()

    def add(self, number: int, record: dict[str, Json]) -> None:
        type_ = as_text(record.get("type"))
        if type_ == "thread.started":
            self._thread = as_text(record.get("thread_id")) or _UNKNOWN_THREAD
            self._runs[self._thread] += 1
        elif type_.startswith("item."):
            item = as_mapping(record.get("item"))
            key = as_text(item.get("id")) or f"line_{number}"
            run = self._runs[self._thread]
            if run > 1:  # a resumed run numbers its items from the start again
                key = f"{run}:{key}"
            self._items()[key] = item
        elif type_ in ("error", "turn.failed"):
            error = as_mapping(record.get("error")) or record
            self._items()[f"line_{number}"] = {"type": "error", **error}
        elif type_ not in EVENT_TYPES:
            self._tally.skip("record type", type_)

    def _items(self) -> dict[str, dict[str, Json]]:
        return self._threads.setdefault(self._thread, {})

    def documents(self, source: str) -> Iterator[Document]:
        for thread, items in self._threads.items():
            identity = self._name if thread == _UNKNOWN_THREAD else thread
            passages: list[Passage] = []
            parent = None
            for number, item in enumerate(items.values()):
                for part, passage in enumerate(self._passages(item)):
                    id_ = f"{identity}:{number}:{part}" if part else f"{identity}:{number}"
                    passages.append(passage._replace(id=id_, parent=parent))
                    parent = id_
            if passages:
                yield Document(
                    source=source,
                    source_id=f"exec:{identity}",
                    title=title_of(passages),
                    head=parent,
                    passages=tuple(passages),
                    metadata={"thread_id": thread},
                )

    def _passages(self, item: Mapping[str, Json]) -> list[Passage]:
        type_ = as_text(item.get("type"))
        text = as_text(item.get("text"))
        if type_ == "agent_message":
            return [Passage("", "assistant", text)]
        if type_ == "reasoning":
            return [Passage("", "assistant", text, type="thinking")]
        if type_ == "error":
            return [Passage("", "system", as_text(item.get("message")), type="context")]
        if type_ in _TOOL_KEYS:
            return _tool_passages(item, type_)
        self._tally.skip("item type", type_)
        return []


def _tool_passages(item: Mapping[str, Json], type_: str) -> list[Passage]:
    """A tool call, and its result if there is one."""
    input_keys, output_keys = _TOOL_KEYS[type_]
    tool = as_text(item.get("tool")) or type_
    metadata = {
        key: item[key]
        for key in ("status", "exit_code", "server")
        if isinstance(item.get(key), (str, int))
    }
    call = "\n".join(as_lines(item[key]) for key in input_keys if key in item)
    result = "\n".join(as_lines(item[key]) for key in output_keys if item.get(key))
    passages = [Passage("", "assistant", call, type="tool_call", tool=tool, metadata=metadata)]
    if result:
        passages.append(
            Passage("", "tool", result, type="tool_result", tool=tool, metadata=metadata)
        )
    return passages


# -- history -----------------------------------------------------------------


class History:
    """Collects the prompts of each session."""

    def __init__(self, _entry: Entry, tally: Tally) -> None:
        self._tally = tally
        self._sessions: dict[str, list[Passage]] = {}
        self._repetitions: Counter[str] = Counter()

    def add(self, _number: int, record: dict[str, Json]) -> None:
        session, text = as_text(record.get("session_id")), as_text(record.get("text"))
        if not session or not text.strip():
            self._tally.skip("history line without a prompt")
            return
        prompts = self._sessions.setdefault(session, [])
        id_ = digest(session, str(record.get("ts")), text)
        number = self._repetitions[id_]
        self._repetitions[id_] += 1
        if number:
            id_ = f"{id_}:{number}"
        prompts.append(
            Passage(
                id=id_,
                role="user",
                content=text,
                parent=prompts[-1].id if prompts else None,
                created_at=moment(record.get("ts")),
            )
        )

    def documents(self, source: str) -> Iterator[Document]:
        for session, prompts in self._sessions.items():
            yield Document(
                source=source,
                source_id=f"history:{session}",
                title=title_of(prompts),
                created_at=prompts[0].created_at,
                updated_at=prompts[-1].created_at,
                head=prompts[-1].id,
                passages=tuple(prompts),
                metadata={"thread_id": session},
                partial=True,  # Codex truncates the file at its start
            )


def digest(*parts: str) -> str:
    """An id made from the content of something that has none."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:32]
