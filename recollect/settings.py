"""Settings and limits, one table each.

To add a setting, add one `define(...)`; `recollect config`, docs/settings.md and the checks of
recollect.toml follow from it. `recollect.configuration` reads the values.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from recollect.configuration import SETTINGS as SETTINGS
from recollect.configuration import (
    choice,
    define,
    expand_path,
    interval,
    names,
    retention,
    switch,
    whole_number,
)

_NONE: tuple[str, ...] = ()

HOME = define(
    "RECOLLECT_HOME",
    "",
    str,
    "Where libraries are stored: a folder, or a PostgreSQL database "
    "(postgresql://user:password@host/database). Default: your data folder.",
)
USER = define("RECOLLECT_USER", "default", str, "Whose library to open.")
EMBEDDINGS = define(
    "RECOLLECT_EMBEDDINGS",
    "static",
    str,
    "The embedding model: `static` (built in), `off`, `gte-small`, a folder with an ONNX model, "
    "or an OpenAI-compatible service (`https://host/v1#model`).",
)
EMBEDDINGS_KEY = define(
    "RECOLLECT_EMBEDDINGS_KEY", "", str, "The API key of that service.", secret=True
)
INDEXING = define(
    "RECOLLECT_INDEXING",
    "background",
    choice("background", "manual"),
    "`background` indexes new messages in a background thread; with `manual`, only "
    "`recollect index` does.",
)
PERMISSIONS = define(
    "RECOLLECT_PERMISSIONS",
    "private",
    choice("private", "keep"),
    "`private` lets only you read the home folder and its files; `keep` leaves the permissions of "
    "existing ones as they are.",
)
READ_ONLY = define(
    "RECOLLECT_READ_ONLY",
    False,
    switch,
    "`on` opens libraries for searching and reading only, and changes no file. Libraries on "
    "read-only media are always opened like this.",
)
RERANK = define(
    "RECOLLECT_RERANK",
    "never",
    choice("auto", "always", "never"),
    "When a small model judges the first hits, which takes .1 to .4 seconds: `never`, `always`, or "
    "`auto` for English questions whose best hits have similar scores.",
)
SYNONYMS = define(
    "RECOLLECT_SYNONYMS",
    "",
    str,
    "A file with more synonyms: a group of words per line, separated by commas.",
)
MODEL = define(
    "RECOLLECT_MODEL",
    "",
    str,
    "The chat model behind `/chat` and `/v1`: an OpenAI-compatible service and its default model "
    "(`https://host/v1#model`).",
)
MODEL_KEY = define(
    "RECOLLECT_MODEL_KEY",
    "",
    str,
    "The API key of that service. Without it, clients' own keys are forwarded.",
    secret=True,
)
OBSERVER = define(
    "RECOLLECT_OBSERVER",
    "rules",
    choice("rules", "model", "off"),
    "How observations are made: `rules` (on this computer), `model` (conversations are sent to "
    "the service in RECOLLECT_MODEL) or `off`.",
)
REDACT = define(
    "RECOLLECT_REDACT",
    False,
    switch,
    "`on` removes secrets (API keys, tokens, passwords) from everything before it is stored.",
)
UNDO_MINUTES = define(
    "RECOLLECT_UNDO_MINUTES",
    60,
    whole_number,
    "How long a change can be undone. What it replaced, or a conversation that was deleted with "
    "undo, is kept for so many minutes.",
)
AUDIT = define(
    "RECOLLECT_AUDIT",
    "on",
    choice("on", "changes", "off"),
    "The audit log: `on` records who reads, searches and exports through a server, and who "
    "deletes, forgets or changes keys anywhere; `changes` leaves out reading and searching; `off` "
    "records nothing.",
)
EXCLUDE = define(
    "RECOLLECT_EXCLUDE",
    _NONE,
    names,
    "Projects that are never imported: patterns for their folder or its name, separated by "
    "commas (`~/clients/*, secret-*`). `exclude.txt` in the home folder adds one per line.",
)
DIGEST_TOKENS = define(
    "RECOLLECT_DIGEST_TOKENS",
    400,
    whole_number,
    "How many tokens `recollect hook session-start` may spend on recent work in the project; "
    "0 turns it off.",
)
JOBS = define(
    "RECOLLECT_JOBS",
    "server",
    choice("server", "worker"),
    "Who imports and indexes what a server receives: the `server` itself, or a `worker` "
    "(`recollect worker`).",
)
HOST = define("RECOLLECT_HOST", "127.0.0.1", str, "The address `recollect serve` listens on.")
PORT = define("RECOLLECT_PORT", 8765, whole_number, "Its port; 0 picks a free one.")
MAX_WORKERS = 256
WORKERS = define(
    "RECOLLECT_WORKERS",
    1,
    whole_number,
    "The number of processes of `recollect serve`. They share its port.",
)
ALLOWED_HOSTS = define(
    "RECOLLECT_ALLOWED_HOSTS",
    _NONE,
    names,
    "More host names the server answers to, separated by commas.",
)
CORS_ORIGINS = define(
    "RECOLLECT_CORS_ORIGINS",
    _NONE,
    names,
    "Other web sites that may call the API (`https://app.example`), separated by commas.",
)
RATE_LIMIT = define(
    "RECOLLECT_RATE_LIMIT",
    3000,
    whole_number,
    "Requests per minute for each user and kind of request; 0 means no limit.",
)
TRUSTED_PROXIES = define(
    "RECOLLECT_TRUSTED_PROXIES",
    _NONE,
    names,
    "Addresses or networks of reverse proxies (`127.0.0.1, 10.0.0.0/8`). Limits for addresses then "
    "count the client that the proxy names in X-Forwarded-For.",
)
BASE_URL = define(
    "RECOLLECT_BASE_URL",
    "",
    str,
    "The server's public address if it is behind a reverse proxy (`https://notes.example`).",
)
HUMAN_ONLY = define(
    "RECOLLECT_HUMAN_ONLY",
    "mask",
    choice("mask", "hide"),
    "What agents see of messages that are for people only: `mask` shows that they exist but not "
    "their text, `hide` leaves them out. With `mask`, an agent can guess words by searching.",
)
JWT_SECRET = define(
    "RECOLLECT_JWT_SECRET",
    "",
    str,
    "The secret of tokens signed with HS256, at least 32 bytes.",
    secret=True,
)
JWT_KEYS = define(
    "RECOLLECT_JWT_KEYS",
    "",
    str,
    "The public keys of tokens signed with RS256 or ES256: the URL of a JWKS, or a file with a "
    "JWKS or a PEM key.",
)
JWT_AUDIENCE = define("RECOLLECT_JWT_AUDIENCE", "", str, "The required `aud` of a token.")
JWT_ISSUER = define("RECOLLECT_JWT_ISSUER", "", str, "The required `iss` of a token.")
BACKUP_FOLDER = define(
    "RECOLLECT_BACKUP_FOLDER",
    "",
    str,
    "Where backups are stored, best on another disk. Default: a folder beside the home folder, "
    "with `-backups` after its name.",
)
BACKUP_EVERY = define(
    "RECOLLECT_BACKUP_EVERY",
    "off",
    interval,
    "How often `recollect serve` and `recollect watch` make a backup: `12h`, `1d`, `2w` or `off`.",
)
BACKUP_KEEP = define(
    "RECOLLECT_BACKUP_KEEP",
    "last=3,daily=7,weekly=5,monthly=12",
    retention,
    "How many backups to keep: the `last` ones, and the newest one of each day, week and month, "
    "for that many days, weeks and months.",
)
BACKUP_PASSPHRASE = define(
    "RECOLLECT_BACKUP_PASSPHRASE", "", str, "The passphrase of encrypted backups.", secret=True
)
BACKUP_PASSPHRASE_FILE = define(
    "RECOLLECT_BACKUP_PASSPHRASE_FILE", "", str, "A file whose first line is that passphrase."
)
PASSPHRASE = define(
    "RECOLLECT_PASSPHRASE",
    "",
    str,
    "The passphrase of an encrypted home (see docs/encryption.md).",
    secret=True,
)
PASSPHRASE_FILE = define(
    "RECOLLECT_PASSPHRASE_FILE", "", str, "A file whose first line is that passphrase."
)
CONVERSATION_DB = define(
    "CONVERSATION_DB",
    "",
    str,
    "A ChatGPT Browser database that `conversation_search` reads instead of the library.",
)
ORIGIN_CONVERSATION_DB = define(
    "ORIGIN_CONVERSATION_DB", "", str, "The same; CONVERSATION_DB takes precedence."
)


# -- places --------------------------------------------------------------------


def place(path_or_url: str | os.PathLike[str] | None = None) -> Path | str:
    """Where the libraries are: the argument, else RECOLLECT_HOME, else the data folder.

    A database URL is returned as text, a folder as a path.
    """
    if path_or_url is None:
        path_or_url = HOME.get() or data_folder()
    if isinstance(path_or_url, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path_or_url):
        return path_or_url
    return expand_path(path_or_url)


def default_user() -> str:
    return USER.get()


def home() -> Path:
    """The folder for files that belong to no single library, such as models."""
    configured = place()
    if isinstance(configured, Path):
        return configured
    return data_folder()


def data_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("recollect", appauthor=False)


# -- limits --------------------------------------------------------------------


def _limit(value: Any, help: str) -> Any:
    return field(default=value, metadata={"help": help})


@dataclass(frozen=True)
class Limits:
    """What one request, file or queue may cost. Over a limit there is an error, never a hang."""

    query_bytes: int = _limit(1_024, "Bytes of a query.")
    query_terms: int = _limit(64, "Words of a query.")
    expression_terms: int = _limit(2_000, "Words of an FTS5 expression, which the bus searches.")
    long_query_bytes: int = _limit(
        65_536, "Bytes of a text that is searched by its most distinctive words."
    )
    search_seconds: float = _limit(1.0, "CPU time of one step of a search.")
    search_slowdown: float = _limit(
        5.0,
        "How many times longer than that a step may take on a database server, whose CPU time is "
        "not known.",
    )
    search_wall_seconds: float = _limit(60.0, "One step of a search, however busy the computer is.")
    search_cpu_seconds: float = _limit(
        0.5, "CPU time to read and compare candidates; then the results are partial."
    )
    ranked_characters: int = _limit(
        32_000, "Characters of a message that the ranker reads, around the first match."
    )
    foreign_search_seconds: float = _limit(
        10.0, "One search of a ChatGPT Browser database, which has no index."
    )
    write_wait_seconds: float = _limit(
        30.0, "Waiting for another writer, or for a database server to restart."
    )
    server_connections: int = _limit(16, "Connections of one process to a database server.")
    page_size: int = _limit(200, "Hits or conversations per page.")
    page_offset: int = _limit(1_000_000, "The largest offset of a page.")
    snippet_length: int = _limit(240, "Characters of a snippet.")
    snippet_slice: int = _limit(16_384, "Characters examined at a time while making a snippet.")
    excerpt_words: int = _limit(20, "Words of an excerpt on the bus.")
    excerpt_characters: int = _limit(400, "Characters of such an excerpt.")
    indexed_characters: int = _limit(
        1_048_576, "Characters of a message that are indexed, from its start."
    )
    observer_characters_each_day: int = _limit(
        2_000_000, "Characters of a library sent to a model for observations per day."
    )
    observer_characters_each_conversation: int = _limit(
        120_000, "The same for one conversation; rules observe the rest."
    )
    word_matches: int = _limit(
        400, "Vocabulary words a substring may match before the text itself is scanned."
    )
    embedded_parts: int = _limit(64, "Parts (120 words each) of a message that get a vector.")
    concepts: int = _limit(5, "Concepts of one search.")
    message_characters: int = _limit(256_000_000, "Characters of one message.")
    record_characters: int = _limit(256_000_000, "Characters of one record in a file.")
    nesting: int = _limit(200, "Levels of nesting in a record.")
    note_bytes: int = _limit(16_000_000, "Bytes of a note, or of a Markdown file with prompts.")
    front_matter_characters: int = _limit(
        65_536, "Characters of front matter; longer front matter counts as text."
    )
    card_bytes: int = _limit(
        64_000_000, "Bytes of a character card with its picture, or of a table of prompts."
    )
    avatar_bytes: int = _limit(4_000_000, "Bytes of a character's picture that is stored.")
    document_bytes: int = _limit(268_435_456, "Bytes of a PDF, book, other document or picture.")
    document_part_bytes: int = _limit(
        67_108_864, "Bytes of one part inside a zipped document, such as DOCX."
    )
    document_characters: int = _limit(
        20_000_000, "Characters of a document's text. The rest is skipped, and the receipt says so."
    )
    document_pages: int = _limit(20_000, "Pages of a document; likewise.")
    document_seconds: float = _limit(120.0, "Extracting the text of a document; likewise.")
    document_memory_bytes: int = _limit(
        2_147_483_648, "Memory of the process that parses files, at most."
    )
    parse_seconds: float = _limit(6.0, "CPU time to parse a file, plus the next limit.")
    parse_seconds_per_megabyte: float = _limit(4.0, "CPU time for each MB of its size.")
    parse_memory_bytes: int = _limit(180_000_000, "Memory to parse a file, plus the next limit.")
    parse_memory_factor: int = _limit(8, "Memory as a multiple of its size.")
    parse_output_bytes: int = _limit(128_000_000, "Content of a file, plus the next limit.")
    parse_output_factor: int = _limit(16, "Content as a multiple of its size.")
    parse_idle_seconds: float = _limit(60.0, "A parser that makes no progress and uses no CPU.")
    parse_failure_seconds: float = _limit(
        600.0, "Files of one import that exceed their limits; then the rest is skipped."
    )
    transcript_bytes: int = _limit(67_108_864, "Bytes of the transcript of a recording.")
    archive_entries: int = _limit(50_000, "Files in a zip.")
    archive_ratio: int = _limit(500, "Compression ratio of a file in a zip.")
    archive_bytes: int = _limit(64_000_000_000, "Bytes a zip may unpack to.")
    mcp_line_bytes: int = _limit(4_194_304, "Bytes of one MCP message.")
    mcp_sessions: int = _limit(
        10_000, "MCP sessions a server remembers; beyond that it drops the least recently used."
    )
    mcp_sessions_each_user: int = _limit(1_000, "The same for one user.")
    mcp_session_seconds: float = _limit(1_800.0, "Until an unused MCP session is dropped.")
    mcp_calls: int = _limit(256, "MCP calls in progress; more are refused.")
    mcp_calls_each_user: int = _limit(128, "The same for one user.")
    mcp_connections: int = _limit(512, "MCP clients that listen or use WebSocket.")
    mcp_connections_each_user: int = _limit(128, "The same for one user.")
    request_bytes: int = _limit(16_777_216, "Bytes of a request body.")
    upload_bytes: int = _limit(8_000_000_000, "Bytes of an uploaded file.")
    header_bytes: int = _limit(65_536, "Bytes of request headers.")
    token_bytes: int = _limit(8_192, "Bytes of an API key or token.")
    header_seconds: float = _limit(15.0, "Until request headers are complete.")
    body_seconds: float = _limit(
        30.0, "Waiting for the next piece of a request body, and for all of a short body."
    )
    body_bytes_per_second: int = _limit(
        1_024, "Bytes that a client must send for each further second of a longer body."
    )
    waiting_bodies: int = _limit(
        256, "Requests whose bodies are incomplete; beyond that, the longest waiting get 408."
    )
    waiting_bodies_each_user: int = _limit(128, "The same for one user.")
    anonymous_bodies: int = _limit(64, "The same for all requests without a credential.")
    anonymous_bodies_each_address: int = _limit(16, "The same for one address.")
    drain_seconds: float = _limit(10.0, "Finishing accepted requests when the server stops.")
    requests_at_once: int = _limit(
        512, "Requests in progress, without those whose bodies are incomplete; more get 503."
    )
    requests_each_user: int = _limit(384, "The same for one user.")
    searches_at_once: int = _limit(
        4, "Searches in progress, on fewer processors one each; more wait."
    )
    search_wait_seconds: float = _limit(10.0, "Waiting for a turn to search; then 503.")
    connections: int = _limit(
        1_000, "Connections to the server; beyond that, idle ones are closed for new ones."
    )
    waiting_connections_each_address: int = _limit(
        200, "Connections of one address that have not yet sent a request with a valid credential."
    )
    waiting_seconds: float = _limit(
        1.0, "How long such a connection has at least, unless there are too many in total."
    )
    open_files: int = _limit(8_192, "What the server raises a lower limit on open files to.")
    open_libraries: int = _limit(64, "Libraries a server keeps open.")
    streams: int = _limit(512, "Open streams of live updates.")
    streams_each_user: int = _limit(32, "The same for one user.")
    audit_bytes: int = _limit(
        268_435_456, "Bytes of a user's audit log in files; beyond that, the oldest are deleted."
    )
    waiting_imports: int = _limit(50, "Uploads of one user that wait to be imported.")

    def table(self) -> dict[str, float]:
        return {limit.name: getattr(self, limit.name) for limit in fields(self)}


LIMITS = Limits()
