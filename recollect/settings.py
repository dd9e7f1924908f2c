"""Every setting and every cap, in one table each."""

from __future__ import annotations

import os
import re
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
    server_connections: int = 16
    page_size: int = 200
    page_offset: int = 1_000_000
    snippet_length: int = 240
    snippet_slice: int = 65_536
    excerpt_words: int = 20
    indexed_characters: int = 1_048_576
    observer_characters_each_day: int = 2_000_000
    observer_characters_each_conversation: int = 120_000
    word_matches: int = 400
    embedded_parts: int = 64
    concepts: int = 5
    message_bytes: int = 256_000_000
    record_bytes: int = 256_000_000
    nesting: int = 200
    note_bytes: int = 16_000_000
    front_matter_characters: int = 65_536
    card_bytes: int = 64_000_000
    avatar_bytes: int = 4_000_000
    document_bytes: int = 268_435_456
    document_part_bytes: int = 67_108_864
    document_characters: int = 20_000_000
    document_pages: int = 20_000
    document_seconds: float = 120.0
    document_memory_bytes: int = 2_147_483_648
    transcript_bytes: int = 67_108_864
    transcriber_seconds: float = 14_400.0
    archive_entries: int = 50_000
    archive_ratio: int = 500
    archive_bytes: int = 64_000_000_000
    mcp_line_bytes: int = 4_194_304
    mcp_sessions: int = 10_000
    mcp_sessions_each_user: int = 1_000
    mcp_session_seconds: float = 1_800.0
    mcp_calls: int = 256
    mcp_calls_each_user: int = 128
    mcp_connections: int = 512
    mcp_connections_each_user: int = 128
    request_bytes: int = 16_777_216
    upload_bytes: int = 8_000_000_000
    header_bytes: int = 65_536
    token_bytes: int = 8_192
    header_seconds: float = 15.0
    body_seconds: float = 30.0
    drain_seconds: float = 10.0
    requests_at_once: int = 512
    searches_at_once: int = 4
    search_wait_seconds: float = 10.0
    connections: int = 1_000
    open_libraries: int = 64
    streams: int = 512
    streams_each_user: int = 32
    waiting_imports: int = 50

    def table(self) -> dict[str, float]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


LIMITS = Limits()
DIGEST_TOKENS = 400


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    help: str


SETTINGS = (
    Setting(
        "RECOLLECT_HOME",
        "Where the libraries are: a folder (default: the user's data folder), or a PostgreSQL database "
        "(postgresql://user:password@host/database).",
    ),
    Setting(
        "RECOLLECT_USER", "Whose library is opened where nothing else is said (default: default)."
    ),
    Setting(
        "RECOLLECT_EMBEDDINGS",
        "What makes the vectors: static (default), off, gte-small, a folder with an ONNX model, or the address of an "
        "OpenAI-compatible service (https://host/v1#model).",
    ),
    Setting("RECOLLECT_EMBEDDINGS_KEY", "The key for that address, if it needs one."),
    Setting(
        "RECOLLECT_INDEXING",
        "background (default) or manual: then only `recollect index` embeds and seals.",
    ),
    Setting(
        "RECOLLECT_MODEL",
        "The model behind /chat and /v1: the address of an OpenAI-compatible service, and which of its models is asked "
        "unless said (https://host/v1#model).",
    ),
    Setting(
        "RECOLLECT_OBSERVER",
        "What makes observations of conversations: rules (default, on this computer), model (the one that "
        "RECOLLECT_MODEL names, which is sent the conversations), or off.",
    ),
    Setting(
        "RECOLLECT_MODEL_KEY",
        "The key for that address; without it, the clients' own keys are passed on.",
    ),
    Setting(
        "RECOLLECT_REDACT",
        "on: secrets (keys, tokens, passwords) are taken out of everything before it is stored, so that they are "
        "neither found nor served; off (default): everything is kept as it was said.",
    ),
    Setting(
        "RECOLLECT_TRANSCRIBER",
        "A command that makes transcripts of recordings, with {file} where the recording's name goes; what it prints "
        "is SRT, VTT, JSON or text (default: none; recordings need a transcript beside them).",
    ),
    Setting(
        "RECOLLECT_EXCLUDE",
        "Projects whose conversations are never taken in: patterns of their folder or its name, separated by commas "
        "(~/clients/*, secret-*); more in exclude.txt in the home, a line each.",
    ),
    Setting(
        "RECOLLECT_DIGEST_TOKENS",
        "How many tokens (of four characters) `recollect hook session-start` may tell an agent of recent work in its "
        "project (default: 400; 0: nothing).",
    ),
    Setting(
        "RECOLLECT_HOST",
        "Where `recollect serve` listens (default: 127.0.0.1, this computer alone).",
    ),
    Setting("RECOLLECT_PORT", "Its port (default: 8765; 0: any that is free)."),
    Setting(
        "RECOLLECT_ALLOWED_HOSTS",
        "Names under which the server may be asked, besides those of this computer; separated by commas.",
    ),
    Setting(
        "RECOLLECT_CORS_ORIGINS",
        "Web pages of other sites that may ask (https://app.example), separated by commas (default: none).",
    ),
    Setting(
        "RECOLLECT_RATE_LIMIT",
        "Requests a minute of one user and kind (default: 3000; 0: no limit).",
    ),
    Setting(
        "RECOLLECT_BASE_URL",
        "The server's public address, where a proxy stands before it (https://notes.example).",
    ),
    Setting(
        "RECOLLECT_HUMAN_ONLY",
        "What agents see over MCP of messages that only people may see: mask (default; they are found and counted, "
        "their contents masked), or hide (they are left out).",
    ),
    Setting("RECOLLECT_JWT_SECRET", "The secret of tokens signed with HS256; at least 32 bytes."),
    Setting(
        "RECOLLECT_JWT_KEYS",
        "The public keys of tokens signed with RS256 or ES256: the address of a JWKS, or a file (a JWKS or a PEM key).",
    ),
    Setting("RECOLLECT_JWT_AUDIENCE", "What a token's aud must be."),
    Setting("RECOLLECT_JWT_ISSUER", "What a token's iss must be."),
    Setting(
        "CONVERSATION_DB",
        "A ChatGPT Browser database that conversation_search reads instead of the library.",
    ),
    Setting("ORIGIN_CONVERSATION_DB", "The same; CONVERSATION_DB wins where both are set."),
)


def place(given: str | os.PathLike[str] | None = None) -> Path | str:
    """Where the libraries are: what was given, RECOLLECT_HOME, or the data folder. A database's
    address is text, a folder is a path."""
    said = given if given is not None else os.environ.get("RECOLLECT_HOME") or None
    if said is None:
        return _data_folder()
    if isinstance(said, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", said):
        return said
    return Path(said).expanduser()


def home() -> Path:
    """The folder for files that belong to no one library, as models: also where libraries are in a database."""
    configured = place()
    return configured if isinstance(configured, Path) else _data_folder()


def default_user() -> str:
    return os.environ.get("RECOLLECT_USER") or "default"


def _data_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("recollect", appauthor=False)
