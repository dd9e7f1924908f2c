"""A synthetic set of coding sessions and everyday chats with questions about them.

    python -m bench.memory_set FOLDER    writes the files that bench.memory imports

The sessions are written out in `bench/data/coding_sessions`, one text per project, because
generated language repeats itself. Around them, a seeded generator adds everyday coding turns (see
`_filler`), so that a session is as long as a real one and most of it is beside the point.
Each line starts with what it is:

    == project language          a new session
    > text                       what the person wrote
    $ command => output          the assistant runs a command
    read path                    it reads a file (the text of the file is generated)
    edit path: old => new        it edits a file
    < text                       what the assistant wrote
    ? kind: question => key      a question about this session. An answer is in context when the
                                 key is; what follows ", not" names an earlier decision, for readers

Lines that start with two spaces continue the line above. Sessions are in the order of time.
"""

from __future__ import annotations

import json
import random
import sys
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

SEED = 17
START = datetime(2026, 1, 12, 8, tzinfo=UTC)
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
"""When the questions are asked."""

FOLDER = Path(__file__).with_name("data") / "coding_sessions"
QUESTIONS = tomllib.loads((FOLDER / "questions.toml").read_text(encoding="utf-8"))
WITHOUT_ANSWER: dict[str, list[str]] = QUESTIONS["without_answer"]


class Call(NamedTuple):
    """A tool call and its result."""

    tool: str
    input: dict[str, str]
    result: str


class Turn(NamedTuple):
    """A message of a person (role "user") or of the assistant, with the calls before it."""

    role: str
    text: str
    calls: tuple[Call, ...] = ()


class Question(NamedTuple):
    kind: str
    text: str
    key: str
    session: str
    """The id of the session with the answer."""


class Session(NamedTuple):
    id: str
    project: str
    """Empty for an everyday chat."""
    language: str
    start: datetime
    turns: tuple[Turn, ...]


class Set(NamedTuple):
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]


# -- reading the texts ---------------------------------------------------

_ROLES = {">": "user", "<": "assistant"}


def build() -> Set:
    """All sessions in the order of time, and the questions that have an answer."""
    sessions: list[Session] = []
    questions: list[Question] = []
    blocks = _blocks()
    for number, block in enumerate(blocks):
        session, session_questions = _session(block, number, len(blocks))
        sessions.append(session)
        questions += session_questions
    return Set(tuple(sessions), tuple(questions))


def _blocks() -> list[list[str]]:
    """The lines of each session. Projects take turns, so that they overlap in time."""
    columns = []
    for path in sorted(FOLDER.glob("*.txt")):
        joined = path.read_text(encoding="utf-8").replace("\n  ", " ")
        columns.append([block.strip().split("\n") for block in joined.split("\n\n")])
    rows = range(max(map(len, columns)))
    return [column[row] for row in rows for column in columns if row < len(column)]


def _session(lines: list[str], number: int, count: int) -> tuple[Session, list[Question]]:
    _, project, language = lines[0].split()
    if project == "-":
        project = ""
    id_ = str(uuid.uuid5(uuid.NAMESPACE_URL, f"memory-set/{number}"))
    turns: list[Turn] = []
    calls: list[Call] = []
    questions = []
    rng = random.Random(f"{SEED}/{number}")
    for line in lines[1:]:
        if line.startswith("? "):
            questions.append(parse_question(line[2:], id_))
        elif line.startswith(("> ", "< ")):
            turns.append(Turn(_ROLES[line[0]], line[2:], tuple(calls)))
            calls = []
        else:
            calls.append(_call(line, rng))
    if project:
        turns = [*_filler(rng, language, rng.randint(2, 8)), *turns]
        turns += _filler(rng, language, rng.randint(2, 8))
    start = START + timedelta(days=160 * number / count, minutes=rng.randrange(240))
    return Session(id_, project, language, start, tuple(turns)), questions


def parse_question(line: str, session: str) -> Question:
    """A question from `kind: text => key`, or `key, not old key`."""
    kind, rest = line.split(": ", 1)
    text, keys = rest.rsplit(" => ", 1)
    return Question(kind, text, keys.partition(", not ")[0], session)


def asked_later(name: str, sessions: tuple[Session, ...]) -> tuple[Question, ...]:
    """The questions `later` or `last`, each with the session that contains its key."""
    result = []
    for line in QUESTIONS[name]:
        question = parse_question(line, "")
        matches = [
            session.id
            for session in sessions
            if any(question.key in turn.text for turn in session.turns)
        ]
        if len(matches) != 1:
            raise ValueError(f"{len(matches)} sessions contain {question.key!r}")
        result.append(question._replace(session=matches[0]))
    return tuple(result)


def _call(line: str, rng: random.Random) -> Call:
    if line.startswith("$ "):
        command, _, output = line[2:].partition(" => ")
        return Call("Bash", {"command": command}, output.replace("\\n", "\n"))
    verb, _, rest = line.partition(" ")
    if verb == "read":
        return Call("Read", {"file_path": rest}, _source(rng, rest))
    path, _, change = rest.partition(": ")
    old, _, new = change.partition(" => ")
    new = new.replace("\\n", "\n")
    values = {"file_path": path, "old_string": old, "new_string": new}
    return Call("Edit", values, f"The file {path} has been updated.")


# -- everyday coding turns ---------------------------------------------------------

_FILLER = QUESTIONS["filler"]
_NOUNS: list[str] = _FILLER["nouns"]
_VERBS: list[str] = _FILLER["verbs"]


def _filler(rng: random.Random, language: str, count: int) -> list[Turn]:
    turns = []
    for _ in range(count):
        noun = rng.choice(_NOUNS)
        names = {"a": f"{rng.choice(_VERBS)}_{noun}", "b": f"{rng.choice(_VERBS)}_{noun}s"}
        choice = rng.randrange(len(_FILLER[language]["requests"]))
        path = f"src/{noun}/{names['a']}.py"
        calls = [Call("Read", {"file_path": path}, _source(rng, path))]
        if rng.random() < 0.6:
            output = f"{rng.randint(20, 400)} passed"
            calls.append(Call("Bash", {"command": f"make test-{noun}"}, output))
        reply = _FILLER[language]["replies"][choice]
        turns.append(Turn("user", _FILLER[language]["requests"][choice].format(**names)))
        text = reply.format(n=rng.randint(2, 30), noun=noun, **names)
        turns.append(Turn("assistant", text, tuple(calls)))
    return turns


def _source(rng: random.Random, path: str) -> str:
    """The text of a source file as the tool `Read` returns it, with line numbers."""
    lines = [f"# {path}", ""]
    for _ in range(rng.randint(3, 9)):
        verb, noun = rng.choice(_VERBS), rng.choice(_NOUNS)
        lines += [
            f"def {verb}_{noun}(entries, limit={rng.randint(2, 900)}):",
            f"    result = [entry for entry in entries if entry.{noun}]",
            f"    for {noun} in result[:limit]:",
            f"        {rng.choice(_VERBS)}({noun}, strict={rng.random() < 0.5})",
            "    return result",
            "",
        ]
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))


# -- files ---------------------------------------------------------------------------


def write(sessions: tuple[Session, ...], folder: Path) -> None:
    """Write transcripts of Claude Code, and a file of everyday chats."""
    chats = []
    for session in sessions:
        if not session.project:
            chats.append(_chat(session))
            continue
        path = folder / f"-work-{session.project}" / f"{session.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(record, ensure_ascii=False) for record in _records(session)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = json.dumps({"conversations": chats}, ensure_ascii=False)
    (folder / "conversations.json").write_text(text, encoding="utf-8")


def _chat(session: Session) -> dict[str, Any]:
    messages = []
    for number, turn in enumerate(session.turns):
        time = session.start + timedelta(minutes=number)
        messages.append(
            {
                "id": f"{session.id}-{number}",
                "role": turn.role,
                "content": turn.text,
                "created_at": time.isoformat(),
            }
        )
    return {"id": session.id, "created_at": session.start.isoformat(), "messages": messages}


def _records(session: Session) -> Iterator[dict[str, Any]]:
    parent = None
    contents = [pair for turn in session.turns for pair in _contents(turn)]
    for number, (role, content) in enumerate(contents):
        id_ = str(uuid.uuid5(uuid.UUID(session.id), str(number)))
        yield {
            "type": role,
            "uuid": id_,
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": f"/work/{session.project}",
            "sessionId": session.id,
            "version": "2.0.14",
            "gitBranch": "main",
            "timestamp": (session.start + timedelta(seconds=40 * number)).isoformat(),
            "message": {"role": role, "content": content},
        }
        parent = id_


def _contents(turn: Turn) -> Iterator[tuple[str, list[dict[str, Any]] | str]]:
    """The messages of one turn: tool calls with their results, then the text."""
    for number, call in enumerate(turn.calls):
        id_ = "toolu_" + uuid.uuid5(uuid.NAMESPACE_OID, f"{turn}/{number}").hex[:24]
        use = {"type": "tool_use", "id": id_, "name": call.tool, "input": call.input}
        yield "assistant", [use]
        yield "user", [{"type": "tool_result", "tool_use_id": id_, "content": call.result}]
    if turn.role == "user":
        yield "user", turn.text
    else:
        yield "assistant", [{"type": "text", "text": turn.text}]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    set_ = build()
    write(set_.sessions, Path(sys.argv[1]))
    print(f"{len(set_.sessions)} sessions, {len(set_.questions)} questions")


if __name__ == "__main__":
    main()
