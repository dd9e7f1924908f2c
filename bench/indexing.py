"""Benchmark indexing: tokenizing, importing, embedding and observing messages.

    python -m bench.indexing [--messages 20000]

Tokenizing is measured on texts of 1,000 characters, the other steps through a library of generated
conversations: importing a ChatGPT export with the text index; embedding with the static model from
reading messages to writing vectors, without the step that counts the words of the library;
observing by rules from reading conversations to writing observations. The background thread is
off. Times are CPU time of one process.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import recollect
from bench import corpus
from bench.speed import Clock, in_own_process
from recollect.index.refresh import refresh
from recollect.language.text import tokens
from recollect.memory.backlog import catch_up
from recollect.models import embeddings

_ROUNDS = 2_000
_SENTENCE = "I went to the market yesterday and bought apples, pears and a loaf of bread. "
_TEXTS = {
    "ASCII": _SENTENCE * 13,
    "one curly quote": _SENTENCE * 13 + "It\u2019s",
    "one emoji": _SENTENCE * 13 + "\U0001f600",
    "accents and dashes": (_SENTENCE + "caf\xe9 \u2014 ") * 12,
    "Chinese": "\u6211\u6628\u5929\u53bb\u4e86\u5e02\u573a\u3002" * 125,
}


def tokenizing_times() -> dict[str, float]:
    """The microseconds that each text takes."""
    times = {}
    for name, text in _TEXTS.items():
        tokens(text)
        clock = Clock()
        for _ in range(_ROUNDS):
            tokens(text)
        times[name] = clock.lap().cpu / _ROUNDS * 1_000_000
    return times


def embed_messages(home: Path) -> float:
    """The seconds that embedding takes."""
    with recollect.open(home, background=False) as library:
        store = library._store
        store.refresh(None, lambda: False)
        embeddings.ensure_space(store, embeddings.STATIC)
        clock = Clock()
        refresh(store, embeddings.STATIC)
        return clock.lap().cpu


def observe_messages(home: Path) -> float:
    """The seconds that observing takes."""
    with recollect.open(home, background=False) as library:
        clock = Clock()
        catch_up(library._store)
        return clock.lap().cpu


def import_messages(home: Path, messages: int) -> float:
    """The seconds that importing takes."""
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "conversations.json"
        corpus.write_chatgpt_export(export, messages)
        with recollect.open(home, background=False) as library:
            clock = Clock()
            library.import_path(export)
            return clock.lap().cpu


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark indexing.")
    parser.add_argument("--messages", type=int, default=20_000)
    messages: int = parser.parse_args().messages
    print("| tokenizing 1,000 characters | CPU \u00b5s |\n|---|---|")
    for name, microseconds in tokenizing_times().items():
        print(f"| {name} | {microseconds:.1f} |")
    print(f"\n| {messages:,} messages | CPU s | messages / CPU s |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        times = {"importing": in_own_process(import_messages, home, messages)}
        for name, step in (("embedding", embed_messages), ("observing", observe_messages)):
            times[name] = in_own_process(step, home)
    for name, seconds in times.items():
        print(f"| {name} | {seconds:.1f} | {messages / seconds:,.0f} |")


if __name__ == "__main__":
    main()
