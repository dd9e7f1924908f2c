"""Messages as OpenAI's and Anthropic's SDKs have them, and their parts as passages.

The content of a message is text or null, or a list of OpenAI's parts or Anthropic's blocks. Its
text, its thoughts, each call of a tool and each result become a passage. Tool calls and results
become text in which every word of the original can be found: JSON is unfolded into `key: value`
lines, because its escapes join words. Files are described, not stored.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from recollect.language.text import truncate
from recollect.model.documents import PASSAGE_TYPES, Json, Passage
from recollect.settings import LIMITS

_MAX_URL_LENGTH = 2_000
_FILE_KINDS = ("image", "audio", "file", "video", "document")
_FIELDS: Mapping[str, type] = {
    "tool_calls": list,
    "function_call": dict,
    "tool_call_id": str,
    "refusal": str,
    "annotations": list,
    "reasoning_content": str,
    "reasoning": str,
    "audio": dict,
    "name": str,
}
"""The fields of a message in the SDKs, beside its role and content, and their types."""
_CALL_INPUTS = ("arguments", "input", "action", "code", "queries", "revised_prompt")


# -- values ------------------------------------------------------------------


def plain(value: Any) -> Json:
    """A value with the objects of an SDK, such as a message that a model answered, as JSON."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json", exclude_none=True)
    return value


def as_mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def as_lines(value: Json) -> str:
    """A tool's input or output as lines of text. Strings stay as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(
            line(key, item) for key, item in value.items() if not is_encoded(key, value)
        )
    if isinstance(value, list):
        return "\n".join(as_lines(item) for item in value)
    return json.dumps(value, default=str)


def line(key: str, value: Json) -> str:
    if key in ("command", "cmd") and isinstance(value, list):
        return f"{key}: {' '.join(map(as_lines, value))}"
    text = as_lines(value)
    separator = "\n" if "\n" in text else " "
    return f"{key}:{separator}{text}"


def is_encoded(key: str, parent: dict[str, Json]) -> bool:
    is_base64 = key == "data" and parent.get("type") == "base64"
    return is_base64 or key in ("base64", "encrypted_content")


def unfold_json(text: str) -> str:
    """Like `as_lines`, for JSON in a string. Text that is not JSON stays as it is."""
    value = parse_json(text)
    if value is None:
        return text
    return as_lines(value)


def parse_json(text: str) -> Json:
    """The value of JSON in a string; None if it is invalid or nested too deeply."""
    try:
        value = json.loads(text, parse_float=parse_float, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    if nested_too_deeply(value):
        return None
    return value


def parse_float(digits: str) -> float | str:
    """A number of JSON; its digits if it is too large."""
    value = float(digits)
    return value if math.isfinite(value) else digits


def nested_too_deeply(value: Json) -> bool:
    """Whether a value has more levels than a recursive function should walk."""
    level = [value]
    for _ in range(LIMITS.nesting + 1):
        level = [v for v in level if type(v) is dict or type(v) is list]
        if not level:
            return False
        level = list(chain.from_iterable([v.values() if type(v) is dict else v for v in level]))
    return True


# -- files -------------------------------------------------------------------


def embedded_file(kind: str, media_type: Json, data: Json) -> dict[str, Json]:
    """Describe a file in base64: its type, size and hash."""
    file: dict[str, Json] = {"type": kind, "media_type": as_text(media_type)}
    if isinstance(data, str):
        try:
            raw = base64.b64decode(data)
        except ValueError:
            file["bytes"] = len(data) * 3 // 4
        else:
            file |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return file


def linked_file(kind: str, url: Json) -> dict[str, Json]:
    """Describe a file given by its URL, which may be a data URL."""
    text = as_text(url)
    head, comma, data = text.partition(",")
    if comma and head.startswith("data:"):
        return embedded_file(kind, head[5:].partition(";")[0], data)
    if len(text) <= _MAX_URL_LENGTH:
        return {"type": kind, "url": text}
    checksum = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"type": kind, "url": truncate(text, 200), "sha256": checksum}


def parse_file(block: Mapping[str, Json]) -> dict[str, Json] | None:
    """A file in a message: its kind, name, size and checksum. None for any other block."""
    type_ = as_text(block.get("type"))
    kind = next((kind for kind in _FILE_KINDS if kind in type_), None)
    if kind is None or type_.endswith(("tool_use", "tool_result")):
        return None
    names = (type_, "image_url", "audio_url", "input_audio", "file", "source", "file_url", "path")
    inner = next((block[name] for name in names if block.get(name)), block)
    fields = as_mapping(inner)
    if isinstance(inner, str):
        file = linked_file(kind, inner)
    elif fields.get("type") == "text":
        file = {"type": kind, "media_type": as_text(fields.get("media_type"))}
    elif kind == "audio" and "data" in fields:
        file = embedded_file(
            kind, "format" in fields and f"audio/{fields['format']}", fields["data"]
        )
    elif "data" in fields:
        file = embedded_file(kind, fields.get("media_type"), fields["data"])
    elif as_text(fields.get("file_data")).startswith("data:") or "url" in fields:
        file = linked_file(kind, as_text(fields.get("url")) or as_text(fields.get("file_data")))
    elif "file_data" in fields:
        file = embedded_file(kind, "", fields["file_data"])
    else:
        file = {"type": kind}
    name = fields.get("filename") or block.get("title")
    for key, value in (("name", name), ("file_id", fields.get("file_id"))):
        if isinstance(value, str):
            file = file | {key: value[:500]}
    return file


# -- content -----------------------------------------------------------------


def as_blocks(content: Json) -> list[Json]:
    """The parts of a content, which may be a single text."""
    if isinstance(content, list):
        return content
    return [] if content is None else [content]


class Content(NamedTuple):
    text: str = ""
    files: tuple[Json, ...] = ()
    refusal: str = ""
    citations: tuple[Json, ...] = ()


def parse_content(content: Json) -> Content:
    """The text and the files of a message or of a tool's result."""
    if content is None:
        return Content()
    if not isinstance(content, list):
        return Content(as_lines(content))
    texts: list[str] = []
    files: list[Json] = []
    refusals: list[str] = []
    citations: list[Json] = []
    for part in content:
        block = part if isinstance(part, dict) else {"text": as_lines(part)}
        file = parse_file(block)
        if file is not None:
            files.append(file)
            source = as_mapping(block.get("source"))
            block = {"text": source.get("data") if source.get("type") == "text" else ""}
        if block.get("type") == "refusal":
            refusals.append(as_text(block.get("refusal")))
        elif "text" in block or "content" in block:
            texts.append(as_text(block.get("text")) or as_text(block.get("content")))
        else:
            texts.append(as_lines(block))
        for name in ("annotations", "citations"):
            citations += block[name] if isinstance(block.get(name), list) else ()
    text, refusal = ("\n".join(filter(None, pieces)) for pieces in (texts, refusals))
    return Content(text, tuple(files), refusal, tuple(citations))


class Call(NamedTuple):
    id: str
    name: str
    arguments: str

    @property
    def canonical_arguments(self) -> str:
        """The arguments in a form that survives parsing and serializing by a client."""
        try:
            return json.dumps(json.loads(self.arguments), sort_keys=True)
        except (ValueError, RecursionError):
            return self.arguments.strip()


def calls_in(message: Mapping[str, Json]) -> list[Call]:
    """The calls of a message: in its content, or in fields of its own."""
    return [parse_call(as_mapping(block)) for block in _blocks(message) if is_call(block)]


def _blocks(message: Mapping[str, Json]) -> list[Json]:
    """The content of a message, with what OpenAI's messages have in fields of their own."""
    blocks = list(as_blocks(message.get("content")))
    reasoning = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
    if reasoning:
        blocks.insert(0, {"type": "thinking", "thinking": reasoning})
    audio = as_mapping(message.get("audio"))
    if message.get("refusal"):
        blocks.append({"type": "refusal", "refusal": message["refusal"]})
    elif not message.get("content") and audio.get("transcript"):
        blocks.append({"text": audio["transcript"]})
    if message.get("annotations"):
        blocks.append({"text": "", "annotations": message["annotations"]})
    if audio.get("data"):
        blocks.append({"type": "audio", "audio": {"data": audio["data"]}})
    calls = [call for call in as_blocks(message.get("tool_calls")) if isinstance(call, dict)]
    if isinstance(message.get("function_call"), dict):  # the older form
        calls.append({"function": message["function_call"]})
    return blocks + [{**call, "type": "tool_use"} for call in calls]


def is_call(block: Json) -> bool:
    return as_text(as_mapping(block).get("type")).endswith("tool_use")


def parse_call(call: Mapping[str, Json]) -> Call:
    inner = as_mapping(call.get("function")) or as_mapping(call.get("custom")) or call
    arguments = inner.get("arguments", inner.get("input", ""))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, default=str)
    return Call(as_text(call.get("id")), as_text(inner.get("name")), arguments)


# -- messages as passages ----------------------------------------------------


def message_parts(message: Mapping[str, Json], tools: dict[str, str]) -> list[Passage]:
    """The parts of a message in reading order, without ids; empty if it has no content.

    `tools` has the names of the tools of earlier calls, and gets those of this message.
    """
    role = as_text(message.get("role"))
    if role in ("tool", "function"):
        return [_result(as_text(message.get("tool_call_id")), message, tools)]
    parts: list[Passage] = []
    texts: list[Json] = []
    for block in _blocks(message):
        step = _step(as_mapping(block), role, tools)
        if step is None:
            texts.append(block)
        else:
            parts += _text(message, role, texts) + step
            texts = []
    return parts + _text(message, role, texts)


def _step(block: Mapping[str, Json], role: str, tools: dict[str, str]) -> list[Passage] | None:
    """What a block other than text and files adds; None for text and files."""
    type_ = as_text(block.get("type"))
    if type_.endswith("thinking"):
        thoughts = as_text(block.get("thinking"))
        return [Passage("", role, thoughts, type="thinking")] if thoughts.strip() else []
    if is_call(block):
        return [_call(parse_call(block), tools)]
    if type_.endswith("tool_result"):
        return [_result(as_text(block.get("tool_use_id")), block, tools)]
    return None


def _text(message: Mapping[str, Json], role: str, blocks: list[Json]) -> list[Passage]:
    content = parse_content(blocks)
    text = content.text or content.refusal
    if not text and not content.files:
        return []
    return [
        Passage(
            "",
            role,
            text,
            author=as_text(message.get("name"))[:500] or None,
            attachments=content.files,
            citations=content.citations,
            metadata={} if content.text or not text else {"refusal": True},
        )
    ]


def _call(call: Call, tools: dict[str, str]) -> Passage:
    """A call of a tool. Its text begins with the name, so that a search finds it."""
    tools[call.id] = call.name
    text = "\n".join(filter(None, (call.name, unfold_json(call.arguments))))
    metadata = {"call_id": call.id} if call.id else {}
    return Passage(
        "", "assistant", text, type="tool_call", tool=call.name or None, metadata=metadata
    )


def _result(call: str, result: Mapping[str, Json], tools: Mapping[str, str]) -> Passage:
    content = parse_content(result.get("content"))
    metadata: dict[str, Json] = {"call_id": call} if call else {}
    if isinstance(result.get("is_error"), bool):
        metadata["is_error"] = result["is_error"]
    return Passage(
        "",
        "tool",
        content.text,
        type="tool_result",
        tool=tools.get(call) or as_text(result.get("name")) or None,
        attachments=content.files,
        citations=content.citations,
        metadata=metadata,
    )


def sdk_fields(message: Mapping[str, Json]) -> set[str]:
    """The fields of a message that this module reads, or that are null in an SDK's message."""
    return {
        name
        for name, type_ in _FIELDS.items()
        if name in message and (message[name] is None or isinstance(message[name], type_))
    }


def message_passages(
    base: Passage, message: Mapping[str, Json], tools: dict[str, str]
) -> list[Passage]:
    """The passages of a message, given what its other fields say; empty without any content.

    Each is the parent of the next, and the last has the id of the message.
    """
    content = message.get("content")
    has_fields = any(message.get(name) for name in sdk_fields(message))
    if isinstance(content, str) and not has_fields:
        return [base._replace(content=content)]
    if content is not None and not isinstance(content, str | list):
        return []
    parts = message_parts({**message, "role": base.role or ""}, tools)
    passages = [
        base._replace(
            role=part.role or None,
            content=part.content,
            type=base.type if part.type == "message" else part.type,
            author=base.author or part.author,
            tool=part.tool or base.tool,
            attachments=part.attachments,
            citations=part.citations,
            metadata={**base.metadata, **part.metadata},
        )
        for part in parts
    ]
    if passages:
        last = passages[-1]
        passages[-1] = last._replace(
            attachments=(*base.attachments, *last.attachments),
            citations=(*base.citations, *last.citations),
        )
    return link_parts(passages, base.id, base.parent)


def link_parts(parts: Sequence[Passage], id: str, parent: str | None) -> list[Passage]:
    """The parts of a message, each the parent of the next. The last has the id of the message."""
    passages: list[Passage] = []
    for number, part in enumerate(parts, 1):
        part_id = id if number == len(parts) else f"{id}.{number}"
        passages.append(part._replace(id=part_id, parent=parent))
        parent = part_id
    return passages


# -- OpenAI's Responses API --------------------------------------------------


def is_response_item(item: Json) -> bool:
    """Whether this is an item of the Responses API that is no message: a call, its output, …"""
    fields = as_mapping(item)
    type_ = fields.get("type")
    return isinstance(type_, str) and type_ not in PASSAGE_TYPES and "role" not in fields


def chat_messages(items: Iterable[Json]) -> list[Json]:
    """The items of the Responses API as messages of the chat protocol.

    What a model did in a row (thoughts, texts, calls) is one message, as in a chat's answer.
    """
    messages: list[Json] = []
    for item in items:
        message = chat_message(as_mapping(item))
        if message.get("role") == "assistant" and messages and messages[-1]["role"] == "assistant":
            blocks = messages[-1]["content"]
            messages[-1] |= {**message, "content": blocks}
            blocks += message["content"]
        elif message:
            messages.append(message)
    return messages


def chat_message(item: Mapping[str, Json]) -> dict[str, Json]:
    """An item as a message; empty if it has nothing to read."""
    type_ = as_text(item.get("type"))
    call = as_text(item.get("call_id")) or as_text(item.get("id"))
    if "role" in item:
        message = {name: value for name, value in item.items() if name not in ("type", "status")}
        if item["role"] == "assistant":
            message["content"] = list(as_blocks(item.get("content")))
        return message
    if type_.endswith("_output"):
        return {"role": "tool", "tool_call_id": call, "content": item.get("output")}
    if type_ == "reasoning":
        thoughts = parse_content([*as_blocks(item.get("summary")), *as_blocks(item.get("content"))])
        block: dict[str, Json] = {"type": "thinking", "thinking": thoughts.text}
    elif type_.endswith("_call"):
        arguments = next((item[name] for name in _CALL_INPUTS if item.get(name)), "")
        if item.get("output"):  # of a tool that the model server ran
            arguments = parse_json(as_text(arguments)) or arguments
            arguments = {"input": arguments, "output": item["output"]}
        name = as_text(item.get("name")) or type_.removesuffix("_call")
        block = {"type": "tool_use", "id": call, "name": name, "input": arguments}
    else:
        return {}
    return {"role": "assistant", "content": [block]}
