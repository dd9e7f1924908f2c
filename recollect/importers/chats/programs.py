"""Programs whose files are read by a table: the entries of `programs.toml`.

To add a program, add its table; `session_databases` and `chat_logs` say what is in it. CONVERTERS
has functions for programs that write values in a way of their own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

from recollect.importers.chat_logs import ChatLog
from recollect.importers.chats.chatgpt import decode_parts
from recollect.importers.records import as_list
from recollect.importers.session_databases import Row, SessionDatabase, Table
from recollect.model.chat_messages import parse_json
from recollect.model.sources import SOURCES


def browser_message(row: Row) -> None:
    """ChatGPT Browser stores the parts of a message as JSON, and citations in two columns."""
    row["content"], row["attachments"] = decode_parts(row.get("content"))
    lists = (parse_json(str(row.pop(n, ""))) for n in ("citations", "content_references"))
    row["citations"] = [citation for values in lists for citation in as_list(values)]
    if row.get("role") == "system":
        row["visibility"] = "hidden"


CONVERTERS: dict[str, Callable[[Row], None]] = {"chatgpt browser": browser_message}


def _with_converter(fields: Row) -> Row:
    return {**fields, "convert": CONVERTERS[fields["convert"]]} if "convert" in fields else fields


_PROGRAMS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
DATABASES = tuple(
    SessionDatabase(
        SOURCES[program["source"]],
        program["description"],
        *(Table(**_with_converter(table)) for table in program["tables"]),
        is_copy=program.get("is_copy", False),
    )
    for program in _PROGRAMS["database"]
)
LOGS = tuple(
    ChatLog(SOURCES[program.pop("source")], program.pop("description"), **_with_converter(program))
    for program in _PROGRAMS["log"]
)
