"""Find conversations on this computer that could be imported.

It reads only names, sizes and dates of files. Nothing is opened before the user has agreed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from recollect.capture.watch import folders, transcript_files
from recollect.model.sources import CHATGPT, CLAUDE, source_label
from recollect.transfer.exclusion import is_agent

_DATE = "20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_EXPORTS = (
    (CHATGPT.name, "*chatgpt*.zip"),
    (CHATGPT.name, "*chat[-_ ]gpt*.zip"),
    (CLAUDE.name, f"data-{_DATE}-*.zip"),
    (CLAUDE.name, "*claude*.zip"),
    (CHATGPT.name, f"{'[0-9a-f]' * 32}*-{_DATE}-*.zip"),
    ("", "conversations.json"),
    ("", "conversations-[0-9]*.json"),
)
"""The names that providers give to exports, or that people would."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """Something to import: the sessions of one coding agent, or an export."""

    source: str
    """The source, or empty if the name does not tell."""
    paths: tuple[Path, ...]
    """Files and folders for `import_path`."""
    sessions: int = 0
    """How many sessions the folders have; 0 for an export."""

    @property
    def label(self) -> str:
        """`214 Claude Code sessions`, or `chatgpt-export.zip in Downloads`."""
        if not self.sessions:
            (path,) = self.paths
            return f"{path.name} in {path.parent.name}"
        noun = "session" if self.sessions == 1 else "sessions"
        return f"{self.sessions:,} {source_label(self.source)} {noun}"


def discover(download_folders: Sequence[Path] | None = None) -> list[Discovery]:
    """What could be imported: sessions of coding agents, and exports in the download folders."""
    if download_folders is None:
        from platformdirs import user_downloads_path

        download_folders = [user_downloads_path()]
    return [*_sessions(), *exports(download_folders)]


def _sessions() -> Iterator[Discovery]:
    counts: dict[str, int] = {}
    roots: dict[str, list[Path]] = {}
    for folder in folders():
        sessions = [path for path in transcript_files(folder) if not is_agent(str(path))]
        if sessions:
            counts[folder.tool] = counts.get(folder.tool, 0) + len(sessions)
            roots.setdefault(folder.tool, []).append(folder.root)
    for tool, count in counts.items():
        yield Discovery(tool, tuple(roots[tool]), count)


def exports(download_folders: Sequence[Path]) -> Iterator[Discovery]:
    for folder in download_folders:
        try:
            paths = sorted(folder.iterdir())
        except OSError:  # there is no such folder, or it may not be read
            continue
        for path in paths:
            for source, pattern in _EXPORTS:
                if fnmatchcase(path.name.lower(), pattern) and path.is_file():
                    yield Discovery(source, (path,))
                    break
