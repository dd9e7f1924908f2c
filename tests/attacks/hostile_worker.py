"""A parsing process with one more format: files that end in `.hostile` say how to misbehave.

Defects in real parsers get fixed. This one stays, so the bounds can be tested.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

from recollect import Document, Passage
from recollect.importers import registry
from recollect.importers.entries import Entry
from recollect.importers.sandbox import parser
from recollect.model.receipts import Problem
from recollect.model.sources import NOTES


def loop() -> str:
    while True:
        pass


def allocate() -> str:
    data = []
    while True:
        data.append(bytearray(10_000_000))


def crash() -> str:
    os.abort()


def sleep() -> str:
    time.sleep(3_600)
    return ""


def connect() -> str:
    socket.create_connection(("127.0.0.1", 9)).close()
    return "connected"


def send_datagram() -> str:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))
    return "sent"


def start_program() -> str:
    return subprocess.check_output(["/bin/echo", "started"], text=True)


def fork() -> str:
    if os.fork() == 0:
        os._exit(0)
    return "forked"


def write_file() -> str:
    Path(__file__).with_name("PWNED").write_text("x")
    return "written"


def kill_parent() -> str:
    os.kill(os.getppid(), 15)
    return "killed"


def flood() -> str:
    return "word " * 300_000


ATTACKS: dict[str, Callable[[], str]] = {
    attack.__name__: attack
    for attack in (
        loop,
        allocate,
        crash,
        sleep,
        connect,
        send_datagram,
        start_program,
        fork,
        write_file,
        kill_parent,
        flood,
    )
}


def claims(entry: Entry) -> bool:
    if not entry.name.endswith((".hostile", ".hostile-claim")):
        return False
    if entry.name.endswith(".hostile-claim"):
        loop()
    return True


def read(entry: Entry) -> Iterator[Document | Problem]:
    yield document(entry, "first", "harmless")
    attack = entry.head().decode().strip()
    if attack.startswith("read "):
        yield document(entry, "second", Path(attack.removeprefix("read ")).read_text())
    else:
        yield document(entry, "second", ATTACKS[attack]())


def document(entry: Entry, name: str, text: str) -> Document:
    return Document("notes", f"{entry.name}-{name}", passages=(Passage("1", "user", text),))


registry.FORMATS = (
    SimpleNamespace(SOURCE=NOTES, DESCRIPTION="hostile", claims=claims, read=read),  # type: ignore[assignment]
    *registry.FORMATS,
)

if __name__ == "__main__":
    parser.main()
