"""What an agent did in a stretch of a conversation, read off its tool calls and their results.

Importers unfold a call's arguments into `key: value` lines (`key:` and the
lines below it where a value has several), so they are read back from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from recollect.memory.observe.prose import cut, folded
from recollect.memory.observe.words import word_set
from recollect.model.documents import Json, Passage

LOOKED_AT = 40_000
"""Characters of a call or a result that are looked at."""
_EDITS = word_set(
    "edit multiedit write create notebookedit str_replace str_replace_editor str_replace_based_edit_tool edit_file"
    " write_file create_file replace replace_in_file write_to_file apply_diff insert search_replace"
)
_WRITES = word_set("write write_file create_file create write_to_file")
_READS = word_set("read view open cat read_file notebookread view_file read_many_files open_file")
_SHELLS = word_set(
    "bash shell exec exec_command local_shell run_shell_command container.exec run_command execute_command terminal"
    " run_terminal_cmd unified_exec shell_command write_stdin"
)
_SEARCHES = word_set("websearch web_search google_web_search web_search_call search_web")
_PATHS = ("file_path", "path", "notebook_path", "absolute_path", "target_file", "filename", "file")
_KEY = re.compile(r"^([A-Za-z_]{2,24}):(?: (.*)|)$", re.MULTILINE)
_OLD = re.compile(r"^old_(?:string|str|text):(?: |\n)", re.MULTILINE)
_NEW = re.compile(r"^new_(?:string|str|text):(?: |\n)", re.MULTILINE)
_NEXT_EDIT = re.compile(r"^(?:replace_all|file_path|expected_replacements): ", re.MULTILINE)
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.MULTILINE)
_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|ava|cypress|playwright test|rspec|phpunit|ctest|xcodebuild test"
    r"|(?:npm|pnpm|yarn|bun)(?: run)? (?:test|check|e2e)[\w:.-]*|(?:go|cargo|mix|dotnet|swift|deno|mvn|zig build|bazel"
    r"|gradle|\./gradlew|just|make|rake|composer) (?:test|check)\w*)\b"
)
_CHECKS = re.compile(
    r"\b(?:ruff|mypy|pyright|eslint|biome|tsc|clippy|flake8|pylint|shellcheck|golangci-lint|prettier --check"
    r"|(?:npm|pnpm|yarn|bun)(?: run)? (?:lint|typecheck|type-check|build)[\w:.-]*|(?:cargo|go|make|dotnet"
    r"|swift) build)\b"
)
_COMMIT = re.compile(
    r"\bgit\b[^\n|;&]{0,60}?\bcommit\b[^\n]{0,100}?(?:-m|-am|--message)[= ]*"
    r"(?:\"\$\(cat <<'?\"?(\w+)\"?'?\n\s*(?P<here>[^\n]+)|(?P<quote>[\"'])(?P<said>[^\n]*?)(?:(?P=quote)|\n|$))"
)
_MOVED = re.compile(r"(?:^|[;&|]\s*|\s)(?:git mv|mv)\s+(?:-\w+\s+)*([^\s;&|]+)\s+([^\s;&|]+)")
_SEEN = re.compile(
    r"(?:^|[;&|]\s*)(?:cat|nl(?: -\w+)*|head(?: -\w+(?: \d+)?)?|tail(?: -\w+(?: \d+)?)?|sed -n '?[\d,$p]+'?)\s+"
    r"(?![-<>])([^\s;&|<>*]+\.\w+)",
)
_REDIRECTED = re.compile(
    r"(?:cat|tee|echo|printf)\b[^\n|;&]*?>>?\s*([\w./~-]+\.\w+)|\btee\s+(?:-a\s+)?([\w./~-]+\.\w+)"
)
_EXIT = re.compile(
    r"(?:^|\n)\s*(?:Exit code:?|Process exited with code|exited with code|exit code)\s*:?\s*(-?\d+)",
    re.I,
)
_TROUBLE = re.compile(
    r"^\s*(?:\S{0,80}:\d+[\d:]*:?\s+|[|>E│]\s+|npm ERR! |remote: )?\s*((?:[\w.]*(?:Error|Exception|Failure"
    r"|Warning)\b|FAILED\b"
    r"|error(?:\[\w+\]|\sTS\d+)?:|fatal:|panic:|ERROR\b|FAIL:|AssertionError|Traceback|command not found|CONFLICT\b"
    r"|.{0,60}: command not found|.{0,60}No such file or directory|.{0,60}[Pp]ermission denied|Cannot |Could not "
    r"|Unable to )"
    r".{0,300})$",
    re.MULTILINE,
)
_FAILED = re.compile(
    r"\b([1-9]\d*) (?:failed|failing|failures?|errors?)\b|^FAIL(?:ED|URE)?\b|\bBUILD FAILED\b|^Traceback \(most recent"
    r"|\btest result: FAILED|✗|✖ [1-9]|^npm ERR!|error TS\d+|^error(?:\[\w+\])?:",
    re.MULTILINE | re.IGNORECASE,
)
_PASSED = re.compile(
    r"\b\d+ (?:passed|passing|tests? passed)\b|\btest result: ok|^OK\b|^ok\s|\bAll (?:tests|checks) pass|BUILD SUCCESS"
    r"|\b0 (?:failed|failures|errors)\b|Success: no issues|Found 0 errors|no issues found",
    re.MULTILINE | re.IGNORECASE,
)
_WARNING = re.compile(r"(?:\w+)?Warning\b")
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
CONFIG = re.compile(
    r"(?:^|/)(?:Dockerfile[\w.]*|Makefile|Justfile|Procfile|Vagrantfile|[\w.-]*\.(?:toml|ya?ml|ini|cfg|conf|env|lock|"
    r"properties|editorconfig|tf|nix)|\.[\w-]*(?:rc|ignore|env|config|attributes)(?:\.[\w.]+)?|\.env[\w.]*"
    r"|package(?:-lock)?\.json"
    r"|tsconfig[\w.]*\.json|[\w.-]+\.config\.\w+|requirements[\w.-]*\.txt|settings(?:\.local)?\.json|biome\.json"
    r"|knip\.json"
    r"|\.?[\w-]*lint[\w-]*\.json|composer\.json|go\.mod|Gemfile|Cargo\.toml)$",
    re.IGNORECASE,
)
TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|e2e)/|(?:^|/)(?:test_[^/]+|conftest)\.\w+$|[._-](?:test|spec|e2e)s?\.\w+$"
    r"|Tests?\.\w+$"
)


@dataclass(slots=True)
class Change:
    """What was done to one file."""

    path: str
    added: int = 0
    removed: int = 0
    counted: bool = True
    created: bool = False
    deleted: bool = False

    @property
    def told(self) -> str:
        verb = "Deleted" if self.deleted else "Created" if self.created else "Modified"
        counts = (
            f" (+{self.added} −{self.removed})"
            if self.counted and (self.added or self.removed)
            else ""
        )
        return f"{verb} {self.path}{counts}"


@dataclass(slots=True)
class Run:
    """A command whose outcome matters: it runs tests, or checks."""

    command: str
    outcomes: list[str] = field(default_factory=list)
    test: bool = False

    @property
    def told(self) -> str:
        """The outcomes in their order, one for a row of the same."""
        said = [o for n, o in enumerate(self.outcomes) if n == 0 or self.outcomes[n - 1] != o]
        said = (
            [said[0], said[-1]]
            if len(said) > 2 and said[0] != said[-1]
            else said[-1:]
            if len(said) > 2
            else said
        )
        return f"Ran `{self.command}`: {', then '.join(said)}" if said else f"Ran `{self.command}`"


@dataclass(slots=True)
class Work:
    """The structure of a stretch: files, commands and what came of them."""

    changes: dict[str, Change] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    calls: int = 0

    @property
    def modified(self) -> tuple[str, ...]:
        return tuple(self.changes)

    @property
    def mended(self) -> bool:
        """Whether tests or checks failed before they passed."""
        return any(
            "failed" in run.outcomes and run.outcomes[-1] == "passed" for run in self.runs.values()
        )


def work(passages: Sequence[Passage], root: str = "") -> Work:
    """What the calls among these passages did. Paths below `root` are told from there."""
    done = Work()
    results = _results(passages)
    for number, passage in enumerate(passages):
        if passage.type == "tool_call":
            done.calls += 1
            result = results.get(_call(passage)) or _following(passages, number)
            _call_made(done, passage, result, root)
    done.read = [path for path in dict.fromkeys(done.read) if path not in done.changes]
    done.errors = list(dict.fromkeys(done.errors))
    return done


def shown(path: str, root: str) -> str:
    """A path as it is told: from the project's folder, where it lies in it."""
    path = path.strip().strip("\"'")
    base = root.rstrip("/\\")
    return path[len(base) + 1 :] if base and path.startswith((f"{base}/", f"{base}\\")) else path


def basename(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def arguments(content: str) -> dict[str, str]:
    """The arguments of a call, by name; of lines below each other, the first of a name counts."""
    found: dict[str, str] = {}
    marks = list(_KEY.finditer(content, 0, LOOKED_AT))
    for mark, following in zip_longest(marks, marks[1:]):
        end = following.start() if following else len(content)
        found.setdefault(
            mark[1], mark[2] if mark[2] is not None else content[mark.end() : end].strip("\n")
        )
    return found


# -- calls ---------------------------------------------------------------------


def _call(passage: Passage) -> Json:
    return passage.metadata.get("tool_use_id") or passage.metadata.get("call_id")


def _results(passages: Iterable[Passage]) -> dict[Json, Passage]:
    return {_call(p): p for p in passages if p.type == "tool_result" and _call(p)}


def _following(passages: Sequence[Passage], number: int) -> Passage | None:
    """The result of a call that has no id: what comes next."""
    following = passages[number + 1] if number + 1 < len(passages) else None
    return (
        following
        if following and following.type == "tool_result" and not _call(following)
        else None
    )


def _call_made(done: Work, call: Passage, result: Passage | None, root: str) -> None:
    tool = (call.tool or "").rsplit("__", 1)[-1].casefold()
    content = call.content[:LOOKED_AT]
    given = arguments(content)
    if tool in _SHELLS and "*** Begin Patch" not in content:
        _shell(done, given.get("command") or given.get("cmd") or content, result, root)
        return
    failed = result is not None and _refused(result)
    path = next((shown(given[k], root) for k in _PATHS if given.get(k)), "")
    if path and (tool in _READS or (tool in _EDITS and given.get("command") == "view")):
        done.read.append(path)
    elif not failed and ("*** Begin Patch" in content or tool == "apply_patch"):
        _patched(done, content, root)
    elif not failed and tool in _EDITS and path:
        _edited(done, tool, path, call.content, given, result)
    elif tool in _SEARCHES and (query := given.get("query") or given.get("q")):
        done.searched.append(folded(query))
    if failed and result is not None:
        _note_trouble(done, result.content)


def _refused(result: Passage) -> bool:
    return result.metadata.get("is_error") is True or result.content.startswith("<tool_use_error>")


def _edited(
    done: Work, tool: str, path: str, content: str, given: Mapping[str, str], result: Passage | None
) -> None:
    change = done.changes.setdefault(path, Change(path))
    if tool in _WRITES or given.get("command") == "create":
        body = given.get("content") or given.get("file_text") or given.get("contents") or ""
        start = content.find(body) if body else -1
        whole = content[start:] if start >= 0 else body
        change.added += whole.count("\n") + 1 if whole else 0
        change.created = change.created or not (
            result and re.search(r"\bupdated\b|overwr", result.content[:300])
        )
        return
    for old, new in _replacements(content):
        before, after = Counter(old.split("\n")), Counter(new.split("\n"))
        change.added += (after - before).total() if new else 0
        change.removed += (before - after).total() if old else 0


def _replacements(content: str) -> Iterator[tuple[str, str]]:
    """The old and the new text of each edit in a call."""
    starts = list(_OLD.finditer(content))
    for start, following in zip_longest(starts, starts[1:]):
        end = following.start() if following else len(content)
        middle = _NEW.search(content, start.end(), end)
        if middle:
            stop = _NEXT_EDIT.search(content, middle.end(), end)
            new = content[middle.end() : stop.start() if stop else end]
            yield content[start.end() : middle.start()].rstrip("\n"), new.rstrip("\n")


def _patched(done: Work, content: str, root: str) -> None:
    heads = list(_PATCHED.finditer(content))
    for head, following in zip_longest(heads, heads[1:]):
        path = shown(head[2], root)
        change = done.changes.setdefault(path, Change(path))
        change.created = change.created or head[1] == "Add"
        change.deleted = head[1] == "Delete"
        for line in content[head.end() : following.start() if following else len(content)].split(
            "\n"
        ):
            change.added += line.startswith("+")
            change.removed += line.startswith("-")


def _shell(done: Work, command: str, result: Passage | None, root: str) -> None:
    output = _TERMINAL.sub("", result.content[:LOOKED_AT]) if result else ""
    if result and len(result.content) > LOOKED_AT:
        output += "\n" + _TERMINAL.sub("", result.content[-5_000:])
    failed = result is not None and _unsuccessful(result, output)
    done.commands.append(_first_line(command))
    run = _TESTS.search(command) or _CHECKS.search(command)
    if run and result is not None and not _is_text(command, run.start()):
        _note_run(done, command, run, output, failed)
    for commit in _COMMIT.finditer(command):
        said = (commit["here"] or commit["said"] or "").strip()
        if said and not failed:
            done.commits.append(folded(said))
    if not failed:
        done.moved += [(shown(a, root), shown(b, root)) for a, b in _MOVED.findall(command)]
        for match in _REDIRECTED.finditer(command):
            path = shown(match[1] or match[2], root)
            if not path.startswith(("/dev/", "/tmp/")):  # noqa: S108
                done.changes.setdefault(path, Change(path, counted=False))
    done.read += [shown(path, root) for path in _SEEN.findall(command)]
    if failed:
        _note_trouble(done, output)


def _is_text(command: str, at: int) -> bool:
    """Whether a place in a command lies in what it only writes or says, as a commit's message."""
    return re.search(r"\bgit commit\b|<<|\becho\b|\bgrep\b|\brg\b", command[:at]) is not None


def _note_run(done: Work, command: str, run: re.Match[str], output: str, failed: bool) -> None:
    line = command[command.rfind("\n", 0, run.start()) + 1 :].split("\n", 1)[0]
    starts = max(line.rfind(sign, 0, max(line.find(run[0]), 0)) for sign in ("&&", ";", "||"))
    told = (
        re.split(r"\s*(?:[|;>&]|2>)", line[starts + 2 if starts >= 0 else 0 :].strip())[0] or run[0]
    )
    told = cut(folded(told), 60)
    entry = done.runs.setdefault(run[0], Run(told, test=_TESTS.search(run[0]) is not None))
    if _FAILED.search(output) and not re.search(r"\b0 (?:failed|failures|errors)\b", output):
        entry.outcomes.append("failed")
    elif _PASSED.search(output):
        entry.outcomes.append("passed")
    elif failed:
        entry.outcomes.append("failed")
    elif output.strip() and "running with" not in output[:80]:
        entry.outcomes.append("passed")
    if failed or (entry.outcomes and entry.outcomes[-1] == "failed"):
        _note_trouble(done, output)


def _unsuccessful(result: Passage, output: str) -> bool:
    code = result.metadata.get("exit_code")
    inner = result.metadata.get("metadata")
    if code is None and isinstance(inner, Mapping):
        code = inner.get("exit_code")
    if isinstance(code, int):
        return code != 0
    if result.metadata.get("is_error") is True:
        return True
    if found := _EXIT.search(output[:2_000]):
        return int(found[1]) != 0
    return False


def _note_trouble(done: Work, output: str) -> None:
    """The line of an output that says what was wrong: of a traceback the last one, else the first."""
    found = [
        m
        for m in _TROUBLE.finditer(_TERMINAL.sub("", output[:LOOKED_AT]))
        if not _WARNING.match(m[1])
    ]
    best = [m for m in found if not m[1].startswith("Traceback")]
    if not best:
        return
    last = best[-1] if "Traceback (most recent" in output else best[0]
    done.errors.append(cut(folded(last[1]), 160).removesuffix("…"))


def _first_line(command: str) -> str:
    return cut(folded(command.strip().split("\n", 1)[0]), 80)
