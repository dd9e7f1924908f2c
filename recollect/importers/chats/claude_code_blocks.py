"""One record of a Claude Code transcript as passages.

`type: user` rarely means the user: most such records have tool results, and others have text that
the program added. What the user typed outside a prompt (slash commands, shell commands) is visible
context. What the program added (reminders, caveats, `isMeta`) is hidden context. A tool's result is
stored once: `toolUseResult` repeats it, and is used only if the block is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from recollect.importers.chats.agentlog import Tally, Unusable, content_blocks
from recollect.language.text import moment
from recollect.model.chat_messages import as_lines, as_text, parse_content
from recollect.model.documents import Json, Passage

_COMMANDS = ("<command-name>", "<command-message>", "<bash-input>", "<user-memory-input>")
_OUTPUTS = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
_NOTICES = ("<task-notification>", "<agent-message", "<teammate-message")
_ADDED_BY_PROGRAM = (
    "<system-reminder>",
    "<local-command-caveat>",
    "Caveat: The messages below",
    "<ide_opened_file>",
    "<ide_selection>",
    "<user-prompt-submit-hook>",
    "[Request interrupted by user",
)
_METADATA = tuple(
    "requestId isApiErrorMessage permissionMode subtype level sourceToolUseID".split()
)


class _Category(NamedTuple):
    role: str
    type: str
    visibility: str = "all"


_PROMPT = _Category("user", "message")
_VISIBLE_CONTEXT = _Category("user", "context")
_HIDDEN_CONTEXT = _Category("user", "context", "hidden")
_OUTPUT = _Category("tool", "tool_result")
_SUMMARY = _Category("system", "summary")
_HIDDEN_NOTICE = _Category("system", "context", "hidden")


@dataclass(slots=True)
class _Passages:
    """Collects the passages of one record."""

    id: str
    role: str
    record: Mapping[str, Json]
    model: str | None = None
    metadata: dict[str, Json] = field(default_factory=dict)
    passages: list[Passage] = field(default_factory=list)
    attachments: list[Json] = field(default_factory=list)
    created_at: datetime | None = field(init=False)
    _continuations: list[str] = field(default_factory=list)
    """Texts that belong to the last passage."""

    def __post_init__(self) -> None:
        self.created_at = moment(self.record.get("timestamp"))

    def add(
        self,
        content: str,
        category: _Category,
        *,
        tool: str | None = None,
        attachments: tuple[Json, ...] = (),
        **metadata: Json,
    ) -> None:
        self._join_continuations()
        number = len(self.passages)
        self.passages.append(
            Passage(
                id=f"{self.id}:{number}" if number else self.id,
                role=category.role,
                content=content,
                type=category.type,
                model=self.model,
                tool=tool,
                created_at=self.created_at,
                visibility=category.visibility,
                attachments=attachments,
                metadata=self.metadata | {k: v for k, v in metadata.items() if v is not None},
            )
        )

    def add_text(self, content: str, category: _Category) -> None:
        """Add text. Successive blocks of text of the same category become one passage."""
        if not content.strip():
            return
        last = self.passages[-1] if self.passages else None
        if last and (last.role, last.type, last.visibility) == category:
            self._continuations.append(content)
        else:
            self.add(content, category)

    def _join_continuations(self) -> None:
        if self._continuations:
            self.passages[-1] = append_text(self.passages[-1], "\n\n".join(self._continuations))
            self._continuations = []

    def finish(self) -> list[Passage]:
        """All passages, with the attachments on the first that can have them."""
        self._join_continuations()
        if not self.attachments:
            return self.passages
        attachments = tuple(self.attachments)
        for number, passage in enumerate(self.passages):
            if passage.type in ("message", "context", "summary"):
                self.passages[number] = passage._replace(attachments=attachments)
                return self.passages
        self.add("", _Category(self.role, "message"), attachments=attachments)
        return self.passages


def append_text(passage: Passage, text: str) -> Passage:
    return passage._replace(content=f"{passage.content}\n\n{text}")


# -- records -----------------------------------------------------------------


def message_passages(
    record: Mapping[str, Json], id_: str, tools: dict[str, str], tally: Tally
) -> list[Passage]:
    """The passages of a `user` or `assistant` record. Adds the names of called tools to `tools`."""
    message = record.get("message")
    if not isinstance(message, dict):
        raise Unusable("message without content")
    passages = _Passages(id_, str(record["type"]), record, _model(message), _metadata(record))
    if isinstance(message.get("id"), str):
        passages.metadata["message_id"] = message["id"]
    for block in content_blocks(message.get("content")):
        _add_block(passages, block, tools, tally)
    return passages.finish()


def queued_passages(
    content: Json, record: Mapping[str, Json], id_: str, tally: Tally
) -> list[Passage]:
    """The passages of a prompt that was queued while the agent was busy."""
    passages = _Passages(id_, "user", record, metadata={"queued": True})
    for block in content_blocks(content):
        _add_block(passages, block, {}, tally)
    return passages.finish()


def system_passages(record: Mapping[str, Json], id_: str) -> list[Passage]:
    """The passages of a `system` record."""
    passages = _Passages(id_, "system", record, metadata=_metadata(record))
    content = as_text(record.get("content"))
    if record.get("subtype") == "away_summary":
        category = _SUMMARY
    elif content.lstrip().startswith(_COMMANDS + _OUTPUTS):
        category = _user_category(content)
    else:
        category = _HIDDEN_NOTICE
    passages.add_text(content, category)
    return passages.finish()


def _metadata(record: Mapping[str, Json]) -> dict[str, Json]:
    return {key: record[key] for key in _METADATA if isinstance(record.get(key), (str, bool))}


def _model(message: Mapping[str, Json]) -> str | None:
    model = as_text(message.get("model"))
    if model in ("", "<synthetic>"):
        return None
    return model


# -- blocks ------------------------------------------------------------------


def _add_block(
    passages: _Passages, block: Mapping[str, Json], tools: dict[str, str], tally: Tally
) -> None:
    type_ = as_text(block.get("type"))
    if type_ == "text":
        _add_text(passages, as_text(block.get("text")))
    elif type_ == "thinking":
        thinking = _Category(passages.role, "thinking")
        passages.add_text(as_text(block.get("thinking")), thinking)
    elif type_.endswith("tool_use"):
        _add_tool_call(passages, block, tools)
    elif type_.endswith("tool_result"):
        _add_tool_result(passages, block, tools)
    elif type_ in ("image", "document"):
        content = parse_content([block])
        passages.attachments += content.files
        _add_text(passages, content.text)
    else:
        tally.skip("block type", type_)


def _add_text(passages: _Passages, content: str) -> None:
    if passages.role != "user":
        category = _Category(passages.role, "message")
    elif passages.record.get("isCompactSummary") is True:
        category = _SUMMARY
    elif passages.record.get("isMeta") is True:
        category = _HIDDEN_CONTEXT
    else:
        category = _user_category(content)
    passages.add_text(content, category)


def _user_category(content: str) -> _Category:
    """The category of text in a `user` record, judged by how it begins."""
    start = content.lstrip()
    if start.startswith(_OUTPUTS):
        return _OUTPUT
    if start.startswith(_COMMANDS + _NOTICES):
        return _VISIBLE_CONTEXT
    if start.startswith(_ADDED_BY_PROGRAM):
        return _HIDDEN_CONTEXT
    return _PROMPT


def _add_tool_call(passages: _Passages, block: Mapping[str, Json], tools: dict[str, str]) -> None:
    name, call = as_text(block.get("name")), as_text(block.get("id"))
    tools[call] = name
    passages.add(
        as_lines(block.get("input", "")),
        _Category("assistant", "tool_call"),
        tool=name or None,
        tool_use_id=call or None,
    )


def _add_tool_result(
    passages: _Passages, block: Mapping[str, Json], tools: Mapping[str, str]
) -> None:
    call = as_text(block.get("tool_use_id"))
    result = parse_content(block.get("content"))
    content = result.text
    if not content and not result.files:
        content = as_lines(passages.record.get("toolUseResult", ""))
    is_error = block.get("is_error")
    if not isinstance(is_error, bool):
        is_error = None
    passages.add(
        content,
        _OUTPUT,
        tool=tools.get(call) or None,
        attachments=result.files,
        tool_use_id=call or None,
        is_error=is_error,
    )
