"""Convert public sets of questions about conversations for `bench.quality`.

    git clone https://github.com/danny911kr/REALTALK
    git clone https://github.com/mohammadtavakoli78/BEAM
    python -m bench.public_sets realtalk REALTALK FOLDER
    python -m bench.public_sets beam BEAM FOLDER [--size 100K|500K|1M]
    python -m bench.quality FOLDER --quick

REALTALK: ten dialogues of two people over 21 days. BEAM: chats of one person with an assistant of
100,000 tokens and more, each a library whose conversations are its batches. No weight of the
ranking was fitted on their questions. Questions without an answer, and those that refer to messages
which do not exist, are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_MESSAGE_OF_REALTALK = re.compile(r"D\d+:\d+")
# In the questions of BEAM's user, numbers of the plan follow the text.
_PLAN_OF_BEAM = re.compile(r"\s*->->.*$", re.DOTALL)
_BEGIN_OF_BEAM = datetime(2024, 1, 1, 9, tzinfo=UTC)


class Library:
    """Collects the conversations and questions of one library."""

    def __init__(self) -> None:
        self.conversations: list[dict[str, Any]] = []
        self._conversation_of: dict[str, str] = {}
        self._queries: list[dict[str, Any]] = []
        self._last = datetime.min.replace(tzinfo=UTC)

    def add(self, id: str, messages: list[dict[str, Any]]) -> None:
        """Add a conversation. `created_at` of its messages is a datetime."""
        for message in messages:
            self._conversation_of[message["id"]] = id
            self._last = max(self._last, message["created_at"])
            message["created_at"] = message["created_at"].isoformat()
        self.conversations.append({"id": id, "title": "", "messages": messages})

    def ask(self, text: str, messages: set[str]) -> None:
        """Add a question, asked an hour after the last message, and the messages that answer it."""
        if not messages or not messages.issubset(self._conversation_of):
            return
        conversations = {self._conversation_of[message] for message in messages}
        self._queries.append(
            {
                "text": text,
                "asked_at": (self._last + _HOUR).isoformat(),
                "gold_messages": sorted(messages),
                "gold_conversations": sorted(conversations),
            }
        )

    def data(self) -> dict[str, Any]:
        return {"conversations": self.conversations, "queries": self._queries}


def realtalk(folder: Path) -> Iterator[Library]:
    for path in sorted((folder / "data").glob("*.json")):
        chat = json.loads(path.read_text(encoding="utf-8"))
        library = Library()
        number = 1
        while f"session_{number}" in chat:
            messages = [
                {
                    "id": message["dia_id"],
                    "role": "user",
                    "author": message["speaker"],
                    "content": _text_of_realtalk(message),
                    "created_at": _time_of_realtalk(message["date_time"]),
                }
                for message in chat[f"session_{number}"]
            ]
            library.add(f"session-{number}", messages)
            number += 1
        for question in chat["qa"]:
            evidence = " ".join(question.get("evidence") or [])
            library.ask(question["question"], set(_MESSAGE_OF_REALTALK.findall(evidence)))
        yield library


def _text_of_realtalk(message: dict[str, Any]) -> str:
    text: str = message.get("clean_text") or ""
    if message.get("blip_caption"):
        text += f" [image: {message['blip_caption']}]"
    return text.strip() or "[image]"


def _time_of_realtalk(text: str) -> datetime:
    return datetime.strptime(text, "%d.%m.%Y, %H:%M:%S").replace(tzinfo=UTC)


def beam(folder: Path, size: str) -> Iterator[Library]:
    for chat_folder in sorted((folder / "chats" / size).iterdir()):
        questions = chat_folder / "probing_questions" / "probing_questions.json"
        if not questions.exists():
            continue
        chat = json.loads((chat_folder / "chat.json").read_text(encoding="utf-8"))
        library = Library()
        moment = _BEGIN_OF_BEAM
        for batch in chat:
            moment += _DAY
            messages = []
            for message in (message for turn in batch["turns"] for message in turn):
                moment = max(moment, _time_of_beam(message.get("time_anchor"))) + _MINUTE
                messages.append(
                    {
                        "id": str(message["id"]),
                        "role": message["role"],
                        "content": _PLAN_OF_BEAM.sub("", message["content"]) or "…",
                        "created_at": moment,
                    }
                )
            library.add(f"batch-{batch['batch_number']}", messages)
        for kind, items in json.loads(questions.read_text(encoding="utf-8")).items():
            if kind != "abstention":
                for item in items:
                    library.ask(item["question"], set(_numbers(item.get("source_chat_ids"))))
        yield library


def _time_of_beam(text: str | None) -> datetime:
    """The day that a message names; long ago if it names none."""
    for format in ("%B-%d-%Y", "%B %d, %Y"):
        try:
            return datetime.strptime(text or "", format).replace(hour=9, tzinfo=UTC)
        except ValueError:
            continue
    return _BEGIN_OF_BEAM


def _numbers(value: Any) -> Iterator[str]:
    """The numbers in nested lists and objects, as text."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
        yield str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description="Convert public sets of questions.")
    parser.add_argument("set", choices=["realtalk", "beam"])
    parser.add_argument("clone", type=Path, help="a clone of the repository of the set")
    parser.add_argument("folder", type=Path, help="where the converted file is written")
    parser.add_argument("--size", default="100K", help="of the chats of BEAM")
    arguments = parser.parse_args()
    if arguments.set == "realtalk":
        name, converted = "realtalk", realtalk(arguments.clone)
    else:
        name, converted = f"beam-{arguments.size}", beam(arguments.clone, arguments.size)
    data = {"libraries": [library.data() for library in converted]}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(arguments.folder / f"{name}.json.gz", "wt", encoding="utf-8") as file:
        json.dump(data, file)
    libraries = data["libraries"]
    messages = sum(len(c["messages"]) for each in libraries for c in each["conversations"])
    questions = sum(len(each["queries"]) for each in libraries)
    print(f"{len(libraries)} libraries, {messages:,} messages, {questions:,} questions")


if __name__ == "__main__":
    main()
