"""The two lesser files of Codex: what `codex exec --json` prints, and `history.jsonl`.

The events of `exec` carry neither times nor the prompt, and the history only
prompts. Both repeat, with other ids, what a rollout of the same thread has in
full, so each makes documents of its own (`exec:<thread>`, `history:<thread>`)
and leaves those of the rollouts alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping

from recollect.importers.chats.agentlog import (
    Tally,
    as_lines,
    as_mapping,
    as_text,
    stem,
    title_of,
)
from recollect.importers.entries import Entry
from recollect.language.text import moment
from recollect.model.documents import Document, Json, Passage

EVENT_TYPES = (
    "thread.started",
    "turn.started",
    "turn.completed",
    "item.started",
    "item.updated",
    "item.completed",
)
_BEGINNING = "unknown"  # of events before any that names their thread


# -- exec --------------------------------------------------------------------


class Events:
    """Collects the items of each thread; a later event of an item replaces the earlier ones."""

    def __init__(self, entry: Entry, tally: Tally) -> None:
        self._tally = tally
        self._name = stem(entry)
        self._threads: dict[str, dict[str, dict[str, Json]]] = {}
        self._thread = _BEGINNING
        self._runs: Counter[str] = Counter()

    def add(self, number: int, record: dict[str, Json]) -> None:
        type_ = as_text(record.get("type"))
        if type_ == "thread.started":
            self._thread = as_text(record.get("thread_id")) or _BEGINNING
            self._runs[self._thread] += 1
        elif type_.startswith("item."):
            item = as_mapping(record.get("item"))
            run = self._runs[self._thread]  # resuming counts the items anew
            key = as_text(item.get("id")) or f"line_{number}"
            self._threads.setdefault(self._thread, {})[f"{run}:{key}" if run > 1 else key] = item
        elif type_ in ("error", "turn.failed"):
            error = as_mapping(record.get("error")) or record
            self._threads.setdefault(self._thread, {})[f"line_{number}"] = {
                "type": "error",
                **error,
            }
        elif type_ not in EVENT_TYPES:
            self._tally.skip("record type", type_)

    def documents(self, origin: str) -> Iterator[Document]:
        for thread, items in self._threads.items():
            identity = self._name if thread == _BEGINNING else thread
            passages: list[Passage] = []
            for number, item in enumerate(items.values()):
                for part, passage in enumerate(self._passages(item)):
                    id_ = f"{identity}:{number}:{part}" if part else f"{identity}:{number}"
                    passages.append(
                        passage._replace(id=id_, parent=passages[-1].id if passages else None)
                    )
            if passages:
                yield Document(
                    source=origin,
                    source_id=f"exec:{identity}",
                    title=title_of(passages),
                    head=passages[-1].id,
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
        if type_ in _TOOLS:
            return _used(item, type_)
        self._tally.skip("item type", type_)
        return []


# Item type -> the keys of what was asked, and of what came back.
_TOOLS = {
    "command_execution": (("command",), ("aggregated_output",)),
    "file_change": (("changes",), ()),
    "mcp_tool_call": (("arguments",), ("result", "error")),
    "collab_tool_call": (("prompt",), ("agents_states",)),
    "web_search": (("query",), ()),
    "todo_list": (("items",), ()),
}


def _used(item: Mapping[str, Json], type_: str) -> list[Passage]:
    asked, answered = _TOOLS[type_]
    tool = as_text(item.get("tool")) or type_
    notes = {
        k: item[k] for k in ("status", "exit_code", "server") if isinstance(item.get(k), (str, int))
    }
    call = "\n".join(as_lines(item[k]) for k in asked if k in item)
    result = "\n".join(as_lines(item[k]) for k in answered if item.get(k))
    passages = [Passage("", "assistant", call, type="tool_call", tool=tool, metadata=notes)]
    if result:
        passages.append(Passage("", "tool", result, type="tool_result", tool=tool, metadata=notes))
    return passages


# -- history -----------------------------------------------------------------


class History:
    """Collects the prompts of each session."""

    def __init__(self, _entry: Entry, tally: Tally) -> None:
        self._tally = tally
        self._sessions: dict[str, list[Passage]] = {}
        self._seen: Counter[str] = Counter()

    def add(self, _number: int, record: dict[str, Json]) -> None:
        session, text = as_text(record.get("session_id")), as_text(record.get("text"))
        if not session or not text.strip():
            self._tally.skip("history line without a prompt")
            return
        prompts = self._sessions.setdefault(session, [])
        key = digest(session, str(record.get("ts")), text)
        number = self._seen[key]
        self._seen[key] += 1
        prompts.append(
            Passage(
                id=f"{key}:{number}" if number else key,
                role="user",
                content=text,
                parent=prompts[-1].id if prompts else None,
                created_at=moment(record.get("ts")),
            )
        )

    def documents(self, origin: str) -> Iterator[Document]:
        for session, prompts in self._sessions.items():
            yield Document(
                source=origin,
                source_id=f"history:{session}",
                title=title_of(prompts),
                created_at=prompts[0].created_at,
                updated_at=prompts[-1].created_at,
                head=prompts[-1].id,
                passages=tuple(prompts),
                metadata={"thread_id": session},
                partial=True,  # Codex cuts the file at its start
            )


def digest(*parts: str) -> str:
    """A name for what has no id, made of what it says."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:32]
