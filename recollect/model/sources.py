"""The sources of documents: one table with everything Recollect knows about each.

It lives here, not in the importers, so that the command line and the MCP server can read it
without loading every importer.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import NamedTuple


class Transcripts(NamedTuple):
    """Where a coding agent writes its transcripts, and which files are transcripts."""

    variable: str
    """The environment variable that moves the agent's home folder."""
    home: str
    """The home folder when the variable is not set."""
    base: str = "."
    """Below the home folder. Names in the archive are relative to this folder."""
    folders: tuple[str, ...] = (".",)
    """The folders to watch, below `base`."""
    prefix: str = ""
    suffixes: tuple[str, ...] = (".jsonl", ".json")
    inside: str = ""
    """A folder that a transcript must be in, at any depth below the watched folder."""

    def includes(self, file: PurePath) -> bool:
        """Whether a file is a transcript, by its path relative to the watched folder."""
        name = file.name.lower()
        if self.inside and self.inside not in file.parts:
            return False
        return name.startswith(self.prefix) and name.endswith(self.suffixes)


class Source(NamedTuple):
    """Where documents come from: a program that writes conversations, or a kind of file."""

    name: str
    """Stored with every document: `claude-code`."""
    label: str
    """Shown to people: `Claude Code`."""
    colour: str = ""
    """The colour of its dot in the console; empty for the default."""
    open_url: str = ""
    """The address of a conversation in the program itself, with `{}` for its id."""
    resume_command: str = ""
    """The command that resumes a conversation in a terminal, with `{}` for its id."""
    assistant: str = ""
    """What people call the assistant, as in "Claude said that…"."""
    transcripts: Transcripts | None = None
    """Set if the program writes transcripts that can be watched."""


# Conversations
CHATGPT = Source(
    "chatgpt",
    "ChatGPT",
    colour="#0f9d77",
    open_url="https://chatgpt.com/c/{}",
    assistant="ChatGPT",
)
CLAUDE = Source(
    "claude",
    "Claude",
    colour="#d0714a",
    open_url="https://claude.ai/chat/{}",
    assistant="Claude",
)
CLAUDE_CODE = Source(
    "claude-code",
    "Claude Code",
    colour="#b04f8f",
    resume_command="claude --resume {}",
    assistant="Claude",
    transcripts=Transcripts(
        "CLAUDE_CONFIG_DIR", "~/.claude", base="projects", suffixes=(".jsonl",)
    ),
)
CODEX = Source(
    "codex",
    "Codex",
    colour="#4a7bd0",
    resume_command="codex resume {}",
    assistant="Codex",
    transcripts=Transcripts(
        "CODEX_HOME", "~/.codex", folders=("sessions", "archived_sessions"), prefix="rollout-"
    ),
)
GEMINI_CLI = Source(
    "gemini-cli",
    "Gemini CLI",
    colour="#7a6ad8",
    resume_command="gemini --resume {}",
    assistant="Gemini",
    transcripts=Transcripts("GEMINI_CLI_HOME", "~", base=".gemini/tmp", inside="chats"),
)
LETTA = Source("letta", "Letta", colour="#5b6b9a", assistant="Letta")
TLDW = Source("tldw", "tldw", colour="#8a7a52", assistant="tldw")
RECOLLECT = Source("recollect", "Recollect")

# Written by Recollect's own interfaces
BUS = Source("bus", "Bus", colour="#a68a1c")
PROXY = Source("proxy", "Proxy", colour="#a68a1c")
CHAT = Source("chat", "Chat")

# Agent frameworks
LANGCHAIN = Source("langchain", "LangChain")
OPENAI_AGENTS = Source("openai-agents", "OpenAI Agents")
PYDANTIC_AI = Source("pydantic-ai", "Pydantic AI")

# Files
NOTES = Source("notes", "Notes")
MEDIA = Source("media", "Media")
CHARACTERS = Source("characters", "Characters")
PROMPTS = Source("prompts", "Prompts")

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        CHATGPT,
        CLAUDE,
        CLAUDE_CODE,
        CODEX,
        GEMINI_CLI,
        LETTA,
        TLDW,
        RECOLLECT,
        BUS,
        PROXY,
        CHAT,
        LANGCHAIN,
        OPENAI_AGENTS,
        PYDANTIC_AI,
        NOTES,
        MEDIA,
        CHARACTERS,
        PROMPTS,
    )
}
WATCHED = tuple(source.name for source in SOURCES.values() if source.transcripts)
"""The coding agents whose transcripts can be watched."""


def find_source(name: str) -> Source | None:
    """A source by its name, ignoring case, with hyphens, underscores or spaces."""
    return SOURCES.get(name.lower().replace("_", "-").replace(" ", "-"))


def source_label(name: str) -> str:
    """The name of a source that people know; the name itself for an unknown source."""
    source = find_source(name)
    if source is None:
        return name
    return source.label
