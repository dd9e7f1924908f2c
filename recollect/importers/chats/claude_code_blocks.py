"""One record of a Claude Code transcript as passages.

`type: user` rarely means the person: most such records carry tool results,
and others what the program put in. What the person typed outside a prompt
(slash commands, shell lines) is context that is seen; what the program slipped
in (reminders, caveats, `isMeta`) is context that is hidden. A tool's result is
stored once: `toolUseResult` repeats it and counts only where the block is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from recollect.importers.chats.agentlog import (
    Tally,
    Unusable,
    as_lines,
    as_mapping,
    as_text,
    content_blocks,
    embedded_file,
    linked_file,
)
from recollect.language.text import moment
from recollect.model.documents import Json, Passage

_TYPED = ("<command-name>", "<command-message>", "<bash-input>", "<user-memory-input>")
_PRINTED = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
_NOTICES = ("<task-notification>", "<agent-message", "<teammate-message")
_SLIPPED_IN = (
    "<system-reminder>",
    "<local-command-caveat>",
    "Caveat: The messages below",
    "<ide_opened_file>",
    "<ide_selection>",
    "<user-prompt-submit-hook>",
    "[Request interrupted by user",
)
_NOTED = ("requestId", "isApiErrorMessage", "permissionMode", "subtype", "level", "sourceToolUseID")


@dataclass(slots=True)
class Speech:
    """Collects the passages of one record."""

    id: str
    role: str
    record: Mapping[str, Json]
    model: str | None = None
    metadata: dict[str, Json] = field(default_factory=dict)
    passages: list[Passage] = field(default_factory=list)
    attachments: list[Json] = field(default_factory=list)
    at: datetime | None = field(init=False)

    def __post_init__(self) -> None:
        self.at = moment(self.record.get("timestamp"))

    def add(
        self,
        content: str,
        kind: str,
        *,
        role: str | None = None,
        visibility: str = "all",
        tool: str | None = None,
        attachments: tuple[Json, ...] = (),
        **metadata: Json,
    ) -> None:
        number = len(self.passages)
        self.passages.append(
            Passage(
                id=f"{self.id}:{number}" if number else self.id,
                role=role or self.role,
                content=content,
                type=kind,
                model=self.model,
                tool=tool,
                created_at=self.at,
                visibility=visibility,
                attachments=attachments,
                metadata=self.metadata | {k: v for k, v in metadata.items() if v is not None},
            )
        )

    def say(self, content: str, role: str, kind: str, visibility: str) -> None:
        """Add text; text blocks that follow one another are one passage."""
        if not content.strip():
            return
        last = self.passages[-1] if self.passages else None
        if last and (last.role, last.type, last.visibility) == (role, kind, visibility):
            self.passages[-1] = joined(last, content)
        else:
            self.add(content, kind, role=role, visibility=visibility)

    def finished(self) -> list[Passage]:
        if not self.attachments:
            return self.passages
        for n, passage in enumerate(self.passages):
            if passage.type in ("message", "context", "summary"):
                self.passages[n] = passage._replace(attachments=tuple(self.attachments))
                return self.passages
        self.add("", "message", attachments=tuple(self.attachments))
        return self.passages


def joined(passage: Passage, more: str) -> Passage:
    return passage._replace(content=f"{passage.content}\n\n{more}")


# -- records -----------------------------------------------------------------


def spoken(
    record: Mapping[str, Json], id_: str, tools: dict[str, str], tally: Tally
) -> list[Passage]:
    """The passages of a `user` or `assistant` record; notes the names of the tools called in `tools`."""
    message = record.get("message")
    if not isinstance(message, dict):
        raise Unusable("message without content")
    speech = Speech(id_, str(record["type"]), record, _model(message), _noted(record))
    if isinstance(message.get("id"), str):
        speech.metadata["message_id"] = message["id"]
    for block in content_blocks(message.get("content")):
        _block(speech, block, tools, tally)
    return speech.finished()


def typed(content: Json, record: Mapping[str, Json], id_: str, tally: Tally) -> list[Passage]:
    """The passages of a prompt that was queued while the agent was busy."""
    speech = Speech(id_, "user", record, metadata={"queued": True})
    for block in content_blocks(content):
        _block(speech, block, {}, tally)
    return speech.finished()


def announced(record: Mapping[str, Json], id_: str) -> list[Passage]:
    """The passages of a `system` record."""
    speech = Speech(id_, "system", record, metadata=_noted(record))
    content = as_text(record.get("content"))
    if record.get("subtype") == "away_summary":
        speech.say(content, "system", "summary", "all")
    elif content.lstrip().startswith(_TYPED + _PRINTED):
        speech.say(content, *_sorted(content))
    else:
        speech.say(content, "system", "context", "hidden")
    return speech.finished()


def _noted(record: Mapping[str, Json]) -> dict[str, Json]:
    return {k: record[k] for k in _NOTED if isinstance(record.get(k), (str, bool))}


def _model(message: Mapping[str, Json]) -> str | None:
    model = as_text(message.get("model"))
    return None if model in ("", "<synthetic>") else model


# -- blocks ------------------------------------------------------------------


def _block(speech: Speech, block: Mapping[str, Json], tools: dict[str, str], tally: Tally) -> None:
    type_ = as_text(block.get("type"))
    if type_ == "text":
        _text(speech, as_text(block.get("text")))
    elif type_ == "thinking":
        speech.say(as_text(block.get("thinking")), speech.role, "thinking", "all")
    elif type_.endswith("tool_use"):
        _tool_call(speech, block, tools)
    elif type_.endswith("tool_result"):
        _tool_result(speech, block, tools)
    elif (file := _file(block)) is not None:
        speech.attachments.append(file)
        source = as_mapping(block.get("source"))
        if source.get("type") == "text":
            _text(speech, as_text(source.get("data")))
    else:
        tally.skip("block type", type_)


def _text(speech: Speech, content: str) -> None:
    if speech.role != "user":
        speech.say(content, speech.role, "message", "all")
    elif speech.record.get("isCompactSummary") is True:
        speech.say(content, "system", "summary", "all")
    elif speech.record.get("isMeta") is True:
        speech.say(content, "user", "context", "hidden")
    else:
        speech.say(content, *_sorted(content))


def _sorted(content: str) -> tuple[str, str, str]:
    """Role, kind and visibility of text in a `user` record, by how it begins."""
    start = content.lstrip()
    if start.startswith(_PRINTED):
        return "tool", "tool_result", "all"
    if start.startswith(_TYPED + _NOTICES):
        return "user", "context", "all"
    if start.startswith(_SLIPPED_IN):
        return "user", "context", "hidden"
    return "user", "message", "all"


def _tool_call(speech: Speech, block: Mapping[str, Json], tools: dict[str, str]) -> None:
    name, call = as_text(block.get("name")), as_text(block.get("id"))
    tools[call] = name
    speech.add(
        as_lines(block.get("input", "")),
        "tool_call",
        role="assistant",
        tool=name or None,
        tool_use_id=call or None,
    )


def _tool_result(speech: Speech, block: Mapping[str, Json], tools: Mapping[str, str]) -> None:
    call = as_text(block.get("tool_use_id"))
    content, files = _output(block.get("content"))
    if not content and not files:
        content = as_lines(speech.record.get("toolUseResult", ""))
    speech.add(
        content,
        "tool_result",
        role="tool",
        tool=tools.get(call) or None,
        attachments=tuple(files),
        tool_use_id=call or None,
        is_error=block.get("is_error") if isinstance(block.get("is_error"), bool) else None,
    )


def _output(content: Json) -> tuple[str, list[Json]]:
    if not isinstance(content, list):
        return as_lines(content) if content is not None else "", []
    texts, files = [], []
    for block in content:
        if (file := _file(as_mapping(block))) is not None:
            files.append(file)
        elif isinstance(block, dict) and block.get("type") == "text":
            texts.append(as_text(block.get("text")))
        else:
            texts.append(as_lines(block))
    return "\n".join(texts), files


def _file(block: Mapping[str, Json]) -> dict[str, Json] | None:
    """An image or document, without its bytes; None for any other block."""
    type_ = as_text(block.get("type"))
    if type_ not in ("image", "document"):
        return None
    source = as_mapping(block.get("source"))
    if source.get("type") == "url":
        found = linked_file(type_, source.get("url"))
    elif source.get("type") == "text":
        found = {"type": type_, "media_type": as_text(source.get("media_type"))}
    else:
        found = embedded_file(type_, source.get("media_type"), source.get("data"))
    title = as_text(block.get("title"))
    return found | {"name": title} if title else found
