"""What encryption at rest costs in CPU time and size: storing, indexing and searching.

python -m bench.encryption (with apsw-sqlite3mc, see docs/encryption.md)
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import recollect
from recollect.encrypting import encrypt_home
from recollect.model.documents import Passage

MESSAGES = int(os.environ.get("MESSAGES", "5000"))
ROUNDS = 3
PASSPHRASE = "a passphrase for this measurement"
TOPICS = ("harbour", "garden", "engine", "violin", "glacier", "market", "bakery", "telescope")


def main() -> None:
    os.environ["RECOLLECT_PASSPHRASE"] = PASSPHRASE
    results: dict[str, list[dict[str, float]]] = {"plain": [], "encrypted": []}
    for _ in range(ROUNDS):
        for name, runs in results.items():
            with tempfile.TemporaryDirectory() as folder:
                runs.append(measure(Path(folder) / "home", name == "encrypted"))
    print(f"{MESSAGES:,} messages, median of {ROUNDS} rounds")
    for step in results["plain"][0]:
        plain, encrypted = (
            statistics.median(run[step] for run in runs) for runs in results.values()
        )
        print(f"{step:16} {plain:12.2f} {encrypted:12.2f}  x {encrypted / plain:.2f}")


def measure(home: Path, is_encrypted: bool) -> dict[str, float]:
    if is_encrypted:
        encrypt_home(home, PASSPHRASE)
    chance = random.Random(1)
    texts = [sentence(chance) for _ in range(MESSAGES)]
    figures = {}
    with recollect.open(home, background=False) as library:
        start = time.process_time()
        for first in range(0, MESSAGES, 50):
            library.add_conversation(f"c{first}", f"About {chance.choice(TOPICS)}")
            library.add_messages(
                f"c{first}",
                [
                    Passage(id=f"m{n}", content=texts[n], role="user")
                    for n in range(first, first + 50)
                ],
            )
        figures["store, s"] = time.process_time() - start
        start = time.process_time()
        library.index()
        figures["index, s"] = time.process_time() - start
    with recollect.open(home, background=False) as library:
        start = time.process_time()
        library.search("who repaired the engine near the harbour?")
        figures["first search, ms"] = 1000 * (time.process_time() - start)
        times = []
        for _ in range(60):
            words = " ".join(chance.sample(texts[chance.randrange(MESSAGES)].split(), 4))
            start = time.process_time()
            library.search(words)
            times.append(1000 * (time.process_time() - start))
        figures["search, ms"] = statistics.median(times)
    figures["size, MB"] = sum(f.stat().st_size for f in home.rglob("*") if f.is_file()) / 1e6
    return figures


def sentence(chance: random.Random) -> str:
    topic = chance.choice(TOPICS)
    words = [
        f"{chance.choice(TOPICS)[:4]}{chance.randrange(3000)}"
        for _ in range(chance.randrange(8, 60))
    ]
    words.insert(len(words) // 2, topic)
    return " ".join(words)


if __name__ == "__main__":
    main()
