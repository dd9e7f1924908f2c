"""What an agent did in a part of a conversation, from its tool calls and their results.

Importers store the arguments of a call as `key: value` lines, with a value of several lines below
its `key:`. The arguments are parsed from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest

from recollect.language.symbols import without_terminal_codes
from recollect.memory.observe.sentences import fold_spaces, shorten
from recollect.model.documents import Json, Passage


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_LENGTH = 40_000
"""How many characters of a call or a result are analyzed."""
_EDITS = names(
    "edit multiedit write create notebookedit str_replace str_replace_editor"
    " str_replace_based_edit_tool edit_file"
    " write_file create_file replace replace_in_file write_to_file apply_diff insert search_replace"
)
_WRITES = names("write write_file create_file create write_to_file")
_READS = names("read view open cat read_file notebookread view_file read_many_files open_file")
_SHELLS = names(
    "bash shell exec exec_command local_shell run_shell_command container.exec run_command"
    " execute_command terminal"
    " run_terminal_cmd unified_exec shell_command write_stdin"
)
_SEARCHES = names("websearch web_search google_web_search web_search_call search_web")
PATHS = ("file_path", "path", "notebook_path", "absolute_path", "target_file", "filename", "file")
_KEY = re.compile(r"^([A-Za-z_]{2,24}):(?: (.*)|)$", re.MULTILINE)
_OLD = re.compile(r"^old_(?:string|str|text):(?: |\n)", re.MULTILINE)
_NEW = re.compile(r"^new_(?:string|str|text):(?: |\n)", re.MULTILINE)
_NEXT_EDIT = re.compile(r"^(?:replace_all|file_path|expected_replacements): ", re.MULTILINE)
_PATCH_HEADER = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.MULTILINE)
_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|ava|cypress|playwright test|rspec|phpunit"
    r"|ctest|xcodebuild test"
    r"|(?:npm|pnpm|yarn|bun)(?: run)? (?:test|check|e2e)[\w:.-]*|(?:go|cargo|mix|dotnet|swift|deno"
    r"|mvn|zig build|bazel"
    r"|gradle|\./gradlew|just|make|rake|composer) (?:test|check)\w*)\b"
)
_CHECKS = re.compile(
    r"\b(?:ruff|mypy|pyright|eslint|biome|tsc|clippy|flake8|pylint|shellcheck|golangci-lint"
    r"|prettier --check"
    r"|(?:npm|pnpm|yarn|bun)(?: run)? (?:lint|typecheck|type-check|build)[\w:.-]*|(?:cargo|go|make"
    r"|dotnet"
    r"|swift) build)\b"
)
_COMMIT = re.compile(
    r"\bgit\b[^\n|;&]{0,60}?\bcommit\b[^\n]{0,100}?(?:-m|-am|--message)[= ]*"
    r"(?:\"\$\(cat <<'?\"?(\w+)\"?'?\n\s*(?P<here>[^\n]+)"
    r"|(?P<quote>[\"'])(?P<message>[^\n]*?)(?:(?P=quote)|\n|$))"
)
_MOVE = re.compile(r"(?:^|[;&|]\s*|\s)(?:git mv|mv)\s+(?:-\w+\s+)*([^\s;&|]+)\s+([^\s;&|]+)")
_SHOWN_FILE = re.compile(
    r"(?:^|[;&|]\s*)(?:cat|nl(?: -\w+)*|head(?: -\w+(?: \d+)?)?|tail(?: -\w+(?: \d+)?)?|sed -n"
    r" '?[\d,$p]+'?)\s+"
    r"(?![-<>])([^\s;&|<>*]+\.\w+)",
)
_REDIRECT = re.compile(
    r"(?:cat|tee|echo|printf)\b[^\n|;&]{0,500}?>>?\s*+([\w./~-]+\.\w+)|\btee\s+(?:-a\s+)?([\w./~-]+\.\w+)"
)
_EXIT_CODE = re.compile(
    r"(?:^|\n)[^\S\n]*+(?:Exit code|Process exited with code|exited with code|exit"
    r" code)\s*+:?\s*+(-?\d+)",
    re.I,
)
_ERROR_LINE = re.compile(
    r"^[^\S\n]*+(?:(?:\S{0,80}:\d[\d:]*+|[|>E│])\s++|npm ERR! |remote: )?[^\S\n]*+"
    r"((?:[\w.]*(?:Error|Exception|Failure|Warning)\b|FAILED\b"
    r"|error(?:\[\w+\]|\sTS\d+)?:|fatal:|panic:|ERROR\b|FAIL:|AssertionError|Traceback|command not"
    r" found|CONFLICT\b"
    r"|.{0,60}: command not found|.{0,60}No such file or directory|.{0,60}[Pp]ermission denied"
    r"|Cannot |Could not "
    r"|Unable to )"
    r".{0,300})$",
    re.MULTILINE,
)
_FAILED = re.compile(
    r"\b([1-9]\d*) (?:failed|failing|failures?|errors?)\b|^FAIL(?:ED|URE)?\b|\bBUILD FAILED\b"
    r"|^Traceback \(most recent"
    r"|\btest result: FAILED|✗|✖ [1-9]|^npm ERR!|error TS\d+|^error(?:\[\w+\])?:",
    re.MULTILINE | re.IGNORECASE,
)
_PASSED = re.compile(
    r"\b\d+ (?:passed|passing|tests? passed)\b|\btest result: ok|^OK\b|^ok\s|\bAll (?:tests|checks)"
    r" pass|BUILD SUCCESS"
    r"|\b0 (?:failed|failures|errors)\b|Success: no issues|Found 0 errors|no issues found",
    re.MULTILINE | re.IGNORECASE,
)
_WARNING = re.compile(r"(?:\w+)?Warning\b")
_CONFIG_NAMES = names(
    "makefile justfile procfile vagrantfile package.json package-lock.json settings.json biome.json"
    " settings.local.json knip.json composer.json go.mod gemfile cargo.toml package.swift podfile"
)
_CONFIG_SUFFIXES = names("toml yaml yml ini cfg conf env lock properties editorconfig tf nix plist")
_TEST_FOLDERS = names("test tests __tests__ spec specs e2e")
_TEST_NAME = re.compile(r"^(?:test_.+|conftest)\.\w+$|[._-](?:test|spec|e2e)s?\.\w+$|Tests?\.\w+$")


def is_configuration(path: str) -> bool:
    name = basename(path).casefold()
    stem, _, suffix = name.rpartition(".")
    if name in _CONFIG_NAMES or suffix in _CONFIG_SUFFIXES or ".config" in name:
        return True
    if name.startswith(("dockerfile", ".env", "tsconfig", "requirements")):
        return True
    # .npmrc, .eslintrc.json, .gitignore, .gitattributes; eslint.json
    tool = name[1:].partition(".")[0] if name.startswith(".") else ""
    return tool.endswith(("rc", "ignore", "attributes")) or (suffix == "json" and "lint" in stem)


def is_test_file(path: str) -> bool:
    *folders, name = path.replace("\\", "/").split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or _TEST_NAME.search(name) is not None


@dataclass(slots=True)
class Change:
    """The changes to one file."""

    path: str
    added: int = 0
    removed: int = 0
    has_counts: bool = True
    is_new: bool = False
    is_deleted: bool = False

    @property
    def description(self) -> str:
        verb = "Modified"
        if self.is_deleted:
            verb = "Deleted"
        elif self.is_new:
            verb = "Created"
        counts = ""
        if self.has_counts and (self.added or self.removed):
            counts = f" (+{self.added} −{self.removed})"
        return f"{verb} {self.path}{counts}"


@dataclass(slots=True)
class Run:
    """A command that runs tests or checks, with its outcomes."""

    command: str
    outcomes: list[str] = field(default_factory=list)
    is_test: bool = False

    @property
    def description(self) -> str:
        outcomes = self._distinct_outcomes()
        if not outcomes:
            return f"Ran `{self.command}`"
        return f"Ran `{self.command}`: {', then '.join(outcomes)}"

    def _distinct_outcomes(self) -> list[str]:
        """The outcomes without repetitions; of many, the first and the last."""
        outcomes = [outcome for outcome, _ in groupby(self.outcomes)]
        if len(outcomes) <= 2:
            return outcomes
        if outcomes[0] == outcomes[-1]:
            return outcomes[-1:]
        return [outcomes[0], outcomes[-1]]


@dataclass(slots=True)
class Work:
    """The files and commands of a part of a conversation, and their results."""

    changes: dict[str, Change] = field(default_factory=dict)
    files_read: list[str] = field(default_factory=list)
    renames: list[tuple[str, str]] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    web_queries: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    calls: int = 0

    @property
    def files_modified(self) -> tuple[str, ...]:
        return tuple(self.changes)

    @property
    def largest_changes(self) -> list[Change]:
        return sorted(self.changes.values(), key=lambda change: -(change.added + change.removed))

    @property
    def is_notable(self) -> bool:
        done = self.changes or self.commits or self.renames or self.runs
        return bool(done or self.errors or self.files_read)

    @property
    def is_repair(self) -> bool:
        """Whether tests or checks failed before they passed."""
        return any(
            "failed" in run.outcomes and run.outcomes[-1] == "passed" for run in self.runs.values()
        )


def collect_work(passages: Sequence[Passage], root: str = "") -> Work:
    """What the tool calls among these passages did. Paths below `root` are made relative to it."""
    work = Work()
    calls = calls_of_results(passages)
    results = {call.id: result for result in passages if (call := calls.get(result.id))}
    for passage in passages:
        if passage.type == "tool_call":
            work.calls += 1
            add_call(work, passage, results.get(passage.id), root)
    work.files_read = [path for path in dict.fromkeys(work.files_read) if path not in work.changes]
    work.errors = list(dict.fromkeys(work.errors))
    return work


def relative_path(path: str, root: str) -> str:
    """The path relative to the folder of the project, if it lies in it."""
    path = path.strip().strip("\"'")
    base = root.rstrip("/\\")
    if base and path.startswith((f"{base}/", f"{base}\\")):
        return path[len(base) + 1 :]
    return path


def basename(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def parse_arguments(content: str) -> dict[str, str]:
    """The arguments of a call by name. If a name occurs several times, the first counts."""
    arguments: dict[str, str] = {}
    matches = list(_KEY.finditer(content, 0, MAX_LENGTH))
    for match, following in zip_longest(matches, matches[1:]):
        value = match[2]
        if value is None:
            end = following.start() if following else len(content)
            value = content[match.end() : end].strip("\n")
        arguments.setdefault(match[1], value)
    return arguments


# -- calls ---------------------------------------------------------------------


def calls_of_results(passages: Sequence[Passage]) -> dict[str, Passage]:
    """The calls by the ids of their results: by the id of the call, or the call just before."""
    calls_by_id = {call_id(p): p for p in passages if p.type == "tool_call" and call_id(p)}
    calls: dict[str, Passage] = {}
    previous = None
    for passage in passages:
        if passage.type == "tool_result":
            call = calls_by_id.get(call_id(passage))
            if call is None and previous is not None and not call_id(previous):
                call = previous
            if call is not None and call.type == "tool_call":
                calls[passage.id] = call
        previous = passage
    return calls


def call_id(passage: Passage) -> Json:
    return passage.metadata.get("tool_use_id") or passage.metadata.get("call_id")


def add_call(work: Work, call: Passage, result: Passage | None, root: str) -> None:
    tool = (call.tool or "").rsplit("__", 1)[-1].casefold()
    content = call.content[:MAX_LENGTH]
    arguments = parse_arguments(content)
    is_patch = "*** Begin Patch" in content
    if tool in _SHELLS and not is_patch:
        command = arguments.get("command") or arguments.get("cmd") or content
        add_shell_command(work, command, result, root)
        return
    path = next((arguments[name] for name in PATHS if arguments.get(name)), "")
    path = relative_path(path, root) if path else ""
    query = arguments.get("query") or arguments.get("q")
    how = arguments.get("command")
    is_failure = result is not None and (
        result.metadata.get("is_error") is True or result.content.startswith("<tool_use_error>")
    )
    if path and (tool in _READS or (tool in _EDITS and how == "view")):
        work.files_read.append(path)
    elif is_patch or tool == "apply_patch":
        if not is_failure:
            add_patch(work, content, root)
    elif path and tool in _EDITS:
        if not is_failure:
            change = work.changes.setdefault(path, Change(path))
            if tool in _WRITES or how == "create":
                add_written_file(change, call.content, arguments, result)
            else:
                for old, new in replacements(call.content):
                    old_lines, new_lines = Counter(old.split("\n")), Counter(new.split("\n"))
                    change.added += (new_lines - old_lines).total() if new else 0
                    change.removed += (old_lines - new_lines).total() if old else 0
    elif query and tool in _SEARCHES:
        work.web_queries.append(fold_spaces(query))
    if result is not None and is_failure:
        add_error(work, result.content)


def add_written_file(
    change: Change, content: str, arguments: Mapping[str, str], result: Passage | None
) -> None:
    body = arguments.get("content") or arguments.get("file_text") or arguments.get("contents") or ""
    if body:
        start = content.find(body)
        if start >= 0:  # the arguments may be cut off
            body = content[start:]
        change.added += body.count("\n") + 1
    is_update = result is not None and re.search(r"\bupdated\b|overwr", result.content[:300])
    if not is_update:
        change.is_new = True


def replacements(content: str) -> Iterator[tuple[str, str]]:
    """The old and the new text of each edit in a call."""
    starts = list(_OLD.finditer(content))
    for start, following in zip_longest(starts, starts[1:]):
        end = following.start() if following else len(content)
        middle = _NEW.search(content, start.end(), end)
        if middle is None:
            continue
        stop = _NEXT_EDIT.search(content, middle.end(), end)
        old = content[start.end() : middle.start()]
        new = content[middle.end() : stop.start() if stop else end]
        yield old.rstrip("\n"), new.rstrip("\n")


def add_patch(work: Work, content: str, root: str) -> None:
    headers = list(_PATCH_HEADER.finditer(content))
    for header, following in zip_longest(headers, headers[1:]):
        path = relative_path(header[2], root)
        change = work.changes.setdefault(path, Change(path))
        change.is_new = change.is_new or header[1] == "Add"
        change.is_deleted = header[1] == "Delete"
        end = following.start() if following else len(content)
        for line in content[header.end() : end].split("\n"):
            change.added += line.startswith("+")
            change.removed += line.startswith("-")


# -- shell commands ------------------------------------------------------------


def add_shell_command(work: Work, command: str, result: Passage | None, root: str) -> None:
    output = _output(result)
    is_failure = result is not None and _is_failure(result, output)
    first_line = command.strip().split("\n", 1)[0]
    work.commands.append(shorten(fold_spaces(first_line), 80))
    run = _TESTS.search(command) or _CHECKS.search(command)
    if run and result is not None and not is_quoted(command, run.start()):
        add_run(work, command, run, output, is_failure)
    if not is_failure:
        for match in _COMMIT.finditer(command):
            message = (match["here"] or match["message"] or "").strip()
            if message:
                work.commits.append(fold_spaces(message))
        for old, new in _MOVE.findall(command):
            work.renames.append((relative_path(old, root), relative_path(new, root)))
        for match in _REDIRECT.finditer(command):
            path = relative_path(match[1] or match[2], root)
            if not path.startswith(("/dev/", "/tmp/")):  # noqa: S108
                work.changes.setdefault(path, Change(path, has_counts=False))
    work.files_read += [relative_path(path, root) for path in _SHOWN_FILE.findall(command)]
    if is_failure:
        add_error(work, output)


def _output(result: Passage | None) -> str:
    """The output of a command without terminal codes: its beginning, and its end if it is long."""
    if result is None:
        return ""
    output = without_terminal_codes(result.content[:MAX_LENGTH])
    if len(result.content) > MAX_LENGTH:
        output += "\n" + without_terminal_codes(result.content[-5_000:])
    return output


def is_quoted(command: str, at: int) -> bool:
    """Whether a place in a command is only text, such as the message of a commit."""
    return re.search(r"\bgit commit\b|<<|\becho\b|\bgrep\b|\brg\b", command[:at]) is not None


def add_run(work: Work, command: str, match: re.Match[str], output: str, is_failure: bool) -> None:
    is_test = _TESTS.search(match[0]) is not None
    run = work.runs.setdefault(match[0], Run(run_name(command, match), is_test=is_test))
    outcome = _outcome(output, is_failure)
    if outcome:
        run.outcomes.append(outcome)
    if is_failure or run.outcomes[-1:] == ["failed"]:
        add_error(work, output)


def run_name(command: str, match: re.Match[str]) -> str:
    """The part of the command line that runs the tests."""
    line = command[command.rfind("\n", 0, match.start()) + 1 :].split("\n", 1)[0]
    end = max(line.find(match[0]), 0)
    separator = max(line.rfind(sign, 0, end) for sign in ("&&", ";", "||"))
    if separator >= 0:
        line = line[separator + 2 :]
    name = re.split(r"[|;>&]|2>", line.strip())[0].rstrip() or match[0]
    return shorten(fold_spaces(name), 60)


def _outcome(output: str, is_failure: bool) -> str:
    """ "passed", "failed", or nothing if the output does not tell."""
    if _FAILED.search(output) and not re.search(r"\b0 (?:failed|failures|errors)\b", output):
        return "failed"
    if _PASSED.search(output):
        return "passed"
    if is_failure:
        return "failed"
    if output.strip() and "running with" not in output[:80]:
        return "passed"
    return ""


def _is_failure(result: Passage, output: str) -> bool:
    code = result.metadata.get("exit_code")
    inner = result.metadata.get("metadata")
    if code is None and isinstance(inner, Mapping):
        code = inner.get("exit_code")
    if isinstance(code, int):
        return code != 0
    if result.metadata.get("is_error") is True:
        return True
    match = _EXIT_CODE.search(output[:2_000])
    return match is not None and int(match[1]) != 0


def add_error(work: Work, output: str) -> None:
    line = error_line(output)
    if line:
        work.errors.append(line)


def error_line(output: str) -> str:
    """The line that says what went wrong: the end of a traceback, else the first error."""
    text = without_terminal_codes(output[:MAX_LENGTH])
    lines = [match[1] for match in _ERROR_LINE.finditer(text)]
    lines = [
        line for line in lines if not _WARNING.match(line) and not line.startswith("Traceback")
    ]
    if not lines:
        return ""
    line = lines[0]
    if "Traceback (most recent" in output:
        line = lines[-1]
    return shorten(fold_spaces(line), 160).removesuffix("…")
