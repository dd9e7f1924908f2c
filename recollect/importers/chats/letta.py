"""Letta's exports: agent files (`.af`, of both versions) and lists of messages from its API.

An agent is a conversation. In the API's lists, one message of the agent is several records with
one id: its reasoning, its calls of tools, its text. Letta wraps what it sends to the model in JSON;
the text inside is used. What is not from a person (logins, alerts, heartbeats) is hidden context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from recollect.importers.chats import own
from recollect.importers.chats.agentlog import head_text, title_of
from recollect.importers.entries import Entry
from recollect.importers.jsonstream import records
from recollect.importers.records import EMPTY_CONVERSATION, as_list, contain_errors
from recollect.language.text import EPOCH, moment
from recollect.model.chat_messages import as_blocks, as_mapping, as_text, parse_json
from recollect.model.documents import Document, Json
from recollect.model.receipts import Problem
from recollect.model.sources import LETTA

SOURCE = LETTA
DESCRIPTION = "Letta agent files (*.af) and lists of messages (JSON)"

_AGENT_KEYS = ('"agent_type"', '"in_context_message_ids"', '"memory_blocks"')
_SEND = "send_message"  # the tool by which older agents speak


def claims(entry: Entry) -> bool:
    name = entry.basename.lower()
    if not name.endswith((".af", ".json", ".jsonl")):
        return False
    head = head_text(entry)
    if name.endswith(".af"):
        return any(key in head for key in _AGENT_KEYS)
    return '"message_type"' in head and '_message"' in head


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    messages: list[Json] = []
    for item in records(entry, {"message_type", "messages"}):
        if isinstance(item, Problem):
            yield item
            continue
        record = as_mapping(item[1])
        if "message_type" in record:
            messages.append(record)
            continue
        for agent in map(as_mapping, as_list(record.get("agents")) or [record]):
            yield from conversation(as_text(agent.get("name")), agent.get("messages"), entry)
    if messages:
        yield from conversation("", messages, entry)


def conversation(agent: str, records: Json, entry: Entry) -> Iterator[Document | Problem]:
    """The conversation with an agent, read by the same code as one in Recollect's JSON."""
    converted = [_message(record) for record in as_list(records) if isinstance(record, dict)]
    messages = [message for message in converted if message["content"] or message["tool_calls"]]
    if not messages:
        yield Problem(EMPTY_CONVERSATION, entry.name, unit="conversations")
        return
    times = [moment(message["timestamp"]) or EPOCH for message in messages]
    if times[0] > times[-1]:
        messages.reverse()  # the API lists the newest first
    numbers: Counter[str] = Counter()
    for message in messages:
        id_ = as_text(message["id"])
        numbers[id_] += 1
        message["id"] = id_ if numbers[id_] == 1 else f"{id_}#{numbers[id_]}"
    # Agent files number agents and messages from 0: they say which agent it is by its name.
    id_ = f"{agent}@{messages[0]['timestamp']}" if agent else messages[0]["id"]
    record = {"id": id_, "source": SOURCE.name, "title": agent, "messages": messages}
    for item in own.conversation(record, entry.name):
        if isinstance(item, Document):
            title = item.title or title_of(item.passages)
            item = replace(item, title=title, shared_ids=not agent)
        yield item


def _message(record: Mapping[str, Json]) -> dict[str, Json]:
    message = chat_message(record)
    blocks = [_block(block) for block in as_blocks(message.get("content"))]
    text = as_text(as_mapping(blocks[0]).get("text", blocks[0])) if len(blocks) == 1 else ""
    wrapper = as_mapping(parse_json(text) if text.lstrip().startswith("{") else None)
    type_, visibility = "message", "hidden" if message["role"] == "system" else "all"
    if message["role"] == "user" and wrapper.get("type", "user_message") != "user_message":
        type_, visibility = "context", "hidden"
    elif isinstance(wrapper.get("message"), str):
        blocks = [wrapper["message"]]
    calls = []
    for call in map(as_mapping, as_list(message.get("tool_calls"))):
        function = as_mapping(call.get("function"))
        arguments = as_mapping(parse_json(as_text(function.get("arguments"))))
        if function.get("name") == _SEND and "message" in arguments:
            thoughts = arguments.get("inner_thoughts") or arguments.get("thinking")
            blocks += [{"type": "thinking", "thinking": thoughts}, arguments["message"]]
        else:
            calls.append(call)
    return {
        "id": record.get("id"),
        "role": message["role"],
        "content": blocks,
        "tool_calls": calls,
        "tool_call_id": message.get("tool_call_id"),
        "name": message.get("name"),
        "model": record.get("model"),
        "timestamp": record.get("date") or record.get("created_at"),
        "type": type_,
        "visibility": visibility,
    }


def chat_message(record: Mapping[str, Json]) -> Mapping[str, Json]:
    """A record of the API as a message of the chat protocol. Agent files have such messages."""
    kind = as_text(record.get("message_type")).removesuffix("_message")
    if not kind:
        return {**record, "role": as_text(record.get("role"))}
    if kind == "reasoning":
        return {"role": "assistant", "content": [{**record, "type": "reasoning"}]}
    if kind in ("tool_call", "approval_request"):
        calls = as_list(record.get("tool_calls")) or [record.get("tool_call")]
        functions = [{"id": c.get("tool_call_id"), "function": c} for c in map(as_mapping, calls)]
        return {"role": "assistant", "tool_calls": functions}
    if kind == "tool_return":
        return {**record, "role": "tool", "content": record.get("tool_return")}
    if kind in ("user", "assistant"):
        return {**record, "role": kind}
    return {"role": "system", "content": record.get("content") or record.get("summary")}


def _block(block: Json) -> Json:
    """A block of a message, by the name that Anthropic has for it."""
    fields = as_mapping(block)
    type_ = as_text(fields.get("type"))
    if type_.endswith("reasoning"):
        return {"type": "thinking", "thinking": fields.get("reasoning")}
    if type_ == "tool_call":
        return {**fields, "type": "tool_use"}
    if type_ == "tool_return":
        return {**fields, "type": "tool_result", "tool_use_id": fields.get("tool_call_id")}
    return block
