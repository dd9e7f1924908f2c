"""Every setting and every cap, in one table each."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What a single request, file or queue may cost. Over a cap: a clear error, never a hang."""

    query_bytes: int = 1_024
    query_terms: int = 64
    search_seconds: float = 1.0
    foreign_search_seconds: float = 10.0
    write_wait_seconds: float = 30.0
    page_size: int = 200
    page_offset: int = 1_000_000
    snippet_length: int = 240
    snippet_slice: int = 65_536
    indexed_characters: int = 1_048_576
    word_matches: int = 400
    embedded_parts: int = 64
    concepts: int = 5
    message_bytes: int = 256_000_000
    record_bytes: int = 256_000_000
    nesting: int = 200
    archive_entries: int = 50_000
    archive_ratio: int = 500
    archive_bytes: int = 64_000_000_000
    mcp_line_bytes: int = 4_194_304

    def table(self) -> dict[str, float]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    help: str


SETTINGS = (
    Setting("RECOLLECT_HOME", "The folder that holds every library (default: the user's data folder)."),
    Setting(
        "RECOLLECT_EMBEDDINGS",
        "What makes the vectors: static (default), off, gte-small, a folder with an ONNX model, or the address of an "
        "OpenAI-compatible service (https://host/v1#model).",
    ),
    Setting("RECOLLECT_EMBEDDINGS_KEY", "The key for that address, if it needs one."),
    Setting("RECOLLECT_INDEXING", "background (default) or manual: then only `recollect index` embeds and seals."),
    Setting("CONVERSATION_DB", "A ChatGPT Browser database that conversation_search reads instead of the library."),
    Setting("ORIGIN_CONVERSATION_DB", "The same; CONVERSATION_DB wins where both are set."),
)


def home(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder that holds the libraries: what was given, RECOLLECT_HOME, or the data folder."""
    if given is not None:
        return Path(given).expanduser()
    if configured := os.environ.get("RECOLLECT_HOME"):
        return Path(configured).expanduser()
    from platformdirs import user_data_path

    return user_data_path("recollect", appauthor=False)
