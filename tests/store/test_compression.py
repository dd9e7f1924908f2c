"""Messages are stored compressed, and the text index is merged as it grows."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect import Document, Passage
from recollect.errors import DamagedLibrary
from recollect.store.sqlite import SqliteStore, compression
from recollect.store.sqlite.compression import Codec, pack_id
from recollect.store.sqlite.connection import connect

LONG = "The tram to the castle leaves from the market square every twelve minutes. " * 4
METADATA = {"request_id": "4fbb2c1e", "status": "finished_successfully", "weight": 1.0}


@pytest.fixture
def store(sqlite_store: SqliteStore) -> SqliteStore:
    return sqlite_store


def conversation(*texts: str, id: str = "c1") -> Document:
    passages = tuple(
        Passage(f"m{n}", "user", text, metadata=METADATA) for n, text in enumerate(texts)
    )
    return Document("test", id, "Trams", passages=passages)


def stored_types(path: Path) -> list[str]:
    db = connect(path)
    rows = db.rows("select typeof(body) from passage order by key")
    db.close()
    return [type_ for (type_,) in rows]


def contents(store: SqliteStore, id: str = "c1") -> list[str]:
    return [passage.content for passage in store.document(id).passages]


# -- new messages ---


def test_messages_are_stored_compressed_and_read_verbatim(store: SqliteStore, path: Path) -> None:
    store.save([conversation(LONG)])
    store.append("c1", Passage("m9", "user", LONG + "!", metadata=METADATA))
    assert stored_types(path) == ["blob", "blob"]
    assert contents(store) == [LONG, LONG + "!"]
    assert [dict(p.metadata) for p in store.document("c1").passages] == [METADATA, METADATA]
    assert LONG.encode() not in path.read_bytes()


UUIDS = [f"5c0ffee{n}-0000-4000-8000-00000000000{n}" for n in range(3)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.text(),
    st.none() | st.text(min_size=1).map(lambda text: '{"a":"' + text.strip("\0")),
    st.none() | st.sampled_from(["m1", *UUIDS]),
)
def test_every_text_is_decompressed_exactly(
    content: str, metadata: str | None, parent: str | None
) -> None:
    content = content.replace("\0", "").encode("utf-8", "ignore").decode()
    if metadata is not None:
        metadata = metadata.replace("\0", "").encode("utf-8", "ignore").decode()
        metadata += f"{parent}, {parent}"
    codec = Codec()
    parent_id = pack_id(parent)
    packed_parent = parent if isinstance(parent_id, bytes) else None
    body, details = codec.compress(content, metadata, packed_parent)
    assert codec.content(body) == content
    assert codec.metadata(body, details, parent_id) == metadata


def test_deleted_messages_are_in_no_file(store: SqliteStore, path: Path) -> None:
    store.save([conversation(LONG), conversation("Another conversation. " * 9, id="c2")])
    db = connect(path)
    ((body,),) = db.rows("select body from passage where key = 1")
    db.close()
    store.delete("c1")
    assert not [f for f in path.parent.rglob("*") if f.is_file() and body in f.read_bytes()]


# -- the dictionary ---


def test_the_dictionary_is_the_one_in_the_notice() -> None:
    folder = Path(compression.__file__).parent
    data = (folder / "texts-1.zdict").read_bytes()
    assert hashlib.sha256(data).hexdigest() in (folder / "NOTICE.md").read_text(encoding="utf-8")


def test_an_unknown_dictionary_is_an_error() -> None:
    with pytest.raises(DamagedLibrary, match="dictionary 77"):
        Codec().content(b"\x4d123")


def test_verify_names_messages_that_cannot_be_decompressed(store: SqliteStore, path: Path) -> None:
    store.save([conversation(LONG)])
    db = connect(path)
    db.codec._is_inserting = True  # or the update would fail
    db.execute("update passage set body = x'01ffffff'")
    db.close()
    assert "m0" in " ".join(store.verify().damaged)
    with pytest.raises(DamagedLibrary, match="doctor"):
        store.document("c1")
