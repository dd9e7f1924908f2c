"""The full-text index of a library, and finding in it.

FTS5 holds words, not text: the content stays in `passage`, and a row is taken
out by giving FTS5 the text that went in. The table `word` lists every word
once; a fragment inside words is found by looking it up there, searching the
words that contain it, and checking the text itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from recollect.model import Filter
from recollect.query import And, Node, Not, Or, Word
from recollect.settings import LIMITS
from recollect.store.base import Candidate
from recollect.store.sqlite.connection import rows
from recollect.text import fold, from_micros, indexable, micros

VERSION = 1
TITLE_WEIGHT = 2.0  # a word in the title says what the whole conversation is about
_WORD = re.compile(r"[^\W_]+")  # as FTS5 cuts it
_TO_SPACE = bytes(n if _WORD.match(chr(n)) else 0x20 for n in range(256))
_LONGEST_WORD = 128
_DELETE = "insert into passage_text (passage_text, rowid, title, content) values ('delete', ?, ?, ?)"
_MATCHING = "select rowid as key from passage_text where passage_text match ?"
_BULK = 2_000  # messages from which words are put off
_MANY = 3_000  # matches from which walking is cheaper than sorting
_NO_WORD = "\x1f"  # quoted, it holds no token and so matches nothing

COLUMNS = """p.key, p.id, d.id, d.title, p.role, p.author, p.kind, p.created_at, d.origin, d.source,
  d.namespace, p.position, p.canonical, p.content"""
NEWEST_FIRST = "p.created_at desc, p.key desc"  # without a time: last

Row = tuple[int, str, str]
"""What is indexed of a passage: key, title (of the opening passage), content."""


# -- keeping in step ---------------------------------------------------------


def indexed(text: str) -> str:
    return indexable(text[: LIMITS.indexed_characters])


class Words:
    """The words this process knows to be in the table, so that most are not written again."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._known_plain: set[bytes] = set()  # of ASCII texts, which are cut much faster as bytes

    def note(self, db: apsw.Connection, texts: Iterable[str]) -> None:
        """Add the words of some texts to the list."""
        db.executemany("insert or ignore into word values (?)", ((w,) for w in sorted(self.fresh(texts))))

    def fresh(self, texts: Iterable[str]) -> set[str]:
        plain: set[bytes] = set()
        found: set[str] = set()
        for text in texts:
            if text.isascii():
                plain.update(text.encode().translate(_TO_SPACE).split())
            else:
                found.update(_WORD.findall(text))
        plain -= self._known_plain
        found -= self._known
        if len(self._known) + len(self._known_plain) > 500_000:
            self.forget()
        self._known_plain |= plain
        self._known |= found
        return {word[:_LONGEST_WORD] for word in found.union(map(bytes.decode, plain))}

    def forget(self) -> None:
        """Believe nothing: a transaction was rolled back, or words were removed."""
        self._known.clear()
        self._known_plain.clear()


def add(db: apsw.Connection, rows: Iterable[Row], words: Words) -> None:
    prepared = [(key, title and indexed(title), indexed(content)) for key, title, content in rows]
    db.executemany("insert into passage_text (rowid, title, content) values (?, ?, ?)", prepared)
    if not _put_off_words(db, prepared):
        words.note(db, (text for _, title, content in prepared for text in (title, content)))


def _put_off_words(db: apsw.Connection, rows: Sequence[Row]) -> bool:
    """Whether to list the words of a large import once it is done: reading them off the index
    is then much cheaper than noting them message by message. Until then the list is marked as
    behind, and texts are looked for without it."""
    if words_are_behind(db):
        return True
    if len(rows) < _BULK or len(rows) * 20 < rows[-1][0]:  # keys count up, so the last tells how many there are
        return False
    db.execute("update derived set version = 0 where name = 'words'")
    return True


def words_are_behind(db: apsw.Connection) -> bool:
    return bool(db.execute("select version from derived where name = 'words'").get != VERSION)


def list_words(db: apsw.Connection) -> None:
    """Bring the list of words up to date with the index."""
    db.execute("insert or ignore into word select term from passage_word")
    db.execute("insert or replace into derived values ('words', ?)", (VERSION,))


def remove(db: apsw.Connection, rows: Iterable[Row], words: Words) -> None:
    """Take passages out of the index, and words that no other passage has out of the list."""
    prepared = [(key, indexed(title), indexed(content)) for key, title, content in rows]
    db.executemany(_DELETE, prepared)
    words.forget()
    for word in words.fresh(text for _, title, content in prepared for text in (title, content)):
        if not db.execute("select 1 from passage_text where passage_text match ? limit 1", (_quoted_word(word),)).get:
            db.execute("delete from word where term = ?", (word,))
    words.forget()


def remove_some_or_many(db: apsw.Connection, rows: Iterable[Row], count: int, words: Words) -> None:
    """The same for any number. Wiping a passage off every page of the index takes as long as
    writing three hundred; so from that share on they are only crossed out, and then the whole
    index is written anew without them."""
    if count * 300 < db.execute("select passage from last_key").get:
        remove(db, rows, words)
        return
    db.execute("insert into passage_text (passage_text, rank) values ('secure-delete', 0)")
    db.executemany(_DELETE, ((key, indexed(title), indexed(content)) for key, title, content in rows))
    db.execute("insert into passage_text (passage_text) values ('optimize')")
    db.execute("insert into passage_text (passage_text, rank) values ('secure-delete', 1)")
    words.forget()
    db.execute("delete from word")
    list_words(db)


# -- compiling ---------------------------------------------------------------


def compiled(node: Node) -> str:
    """The tree in FTS5's language; every text is quoted, so none of it is syntax."""
    match node:
        case Word(text, prefix):
            return _quoted(text) + ("*" if prefix else "")
        case Not(part):
            return compiled(part)
        case Or(parts):
            return "(" + " OR ".join(compiled(p) for p in parts) + ")"
        case And(parts):
            wanted = " AND ".join(compiled(p) for p in parts if not isinstance(p, Not))
            unwanted = [compiled(p) for p in parts if isinstance(p, Not)]
            return f"(({wanted}) NOT ({' OR '.join(unwanted)}))" if unwanted else f"({wanted})"


def _quoted(text: str) -> str:
    return '"' + indexable(text).replace('"', '""') + '"'


def _quoted_word(word: str) -> str:
    return _quoted(word) + ("*" if len(word) == _LONGEST_WORD else "")


def conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The filter as SQL over passage p; always at least one condition."""
    clauses, values = _clauses(("p.role", filter.roles), ("p.author", filter.authors))
    if not filter.hidden:
        clauses.append("p.visibility <> 'hidden'")
    if filter.after is not None:
        clauses.append("p.created_at >= ?")
        values.append(micros(filter.after))
    if filter.before is not None:
        clauses.append("p.created_at <= ?")
        values.append(micros(filter.before))
    of_document, more = document_conditions(filter)
    if of_document != "1":
        clauses.append(f"p.document in (select d.key from document d where {of_document})")
        values += more
    return " and ".join(clauses) or "1", values


def document_conditions(filter: Filter) -> tuple[str, list[Any]]:
    """The part of the filter that speaks of document d."""
    clauses, values = _clauses(
        ("d.namespace", filter.namespaces),
        ("d.origin", filter.origins),
        ("d.source", filter.sources),
        ("d.id", filter.conversations),
    )
    return " and ".join(clauses) or "1", values


def _clauses(*wanted: tuple[str, tuple[str, ...]]) -> tuple[list[str], list[Any]]:
    clauses = [f"{column} in ({', '.join('?' * len(values))})" for column, values in wanted if values]
    return clauses, [v for _, values in wanted for v in values]


# -- finding -----------------------------------------------------------------


def candidate(row: tuple[Any, ...]) -> Candidate:
    key, id_, document, title, role, author, kind, created, *rest, content = row[:14]
    origin, source, namespace, position, canonical = rest
    return Candidate(
        key, id_, document, title, role, author, kind, from_micros(created),
        origin, source, namespace, position, bool(canonical), content, row[14] if len(row) > 14 else 0.0,
    )  # fmt: skip


def find(db: apsw.Connection, node: Node, filter: Filter, limit: int, offset: int) -> tuple[list[Candidate], int]:
    where, values = conditions(filter)
    expression = compiled(node)
    source = f"from passage_text t join passage p on p.key = t.rowid where passage_text match ? and {where}"
    total: int = db.execute(f"select count(*) {source}", (expression, *values)).get
    if not total:
        return [], 0
    found_rows = db.execute(
        f"""with best as (
          select p.key, bm25(passage_text, {TITLE_WEIGHT}, 1.0) as rank {source}
          order by rank, p.key limit ? offset ?)
        select {COLUMNS}, -best.rank from best join passage p on p.key = best.key
        join document d on d.key = p.document order by best.rank, p.key""",
        (expression, *values, limit, offset),
    )
    return [candidate(r) for r in found_rows], total


def find_literal(
    db: apsw.Connection, text: str, filter: Filter, limit: int, offset: int
) -> tuple[list[Candidate], int]:
    """See Store.find_literal. It is for texts without a word, so there is no index to ask."""
    where, values = conditions(filter)
    source = f"""from passage p indexed by passage_time cross join document d on d.key = p.document
      where contains(p.content, ?) and {where}"""
    given = (fold(text), *values)
    total: int = db.execute(f"select count(*) {source}", given).get
    found_rows = db.execute(
        f"select {COLUMNS} {source} order by {NEWEST_FIRST} limit ? offset ?", (*given, limit, offset)
    )
    return [candidate(r) for r in found_rows], total


def recent(db: apsw.Connection, text: str | None, filter: Filter, limit: int) -> list[Candidate]:
    """See Store.recent. A few matches are gathered and sorted; where there are many, a walk
    from the newest passage soon has enough of them."""
    where, values = conditions(filter)
    source, found, given = "passage p indexed by passage_time", "1", []
    if text is not None:
        titled = json.dumps(list(_titled(db, text)))
        containing = _containing(db, text)
        if containing is None:
            words = f"p.key in ({_MATCHING}) or" if (every_word := _all_words(text)) else ""
            found = f"({words} contains(p.content, ?) or p.document in (select value from json_each(?)))"
            given = [*([every_word] if words else []), fold(text), titled]
        elif (few := containing.few(db)) is None:
            found = f"(p.key in ({containing.sql}) or p.document in (select value from json_each(?)))"
            given = [*containing.values, titled]
        else:
            source = """(select value as key from json_each(?) union
              select key from passage where document in (select value from json_each(?))
              ) f cross join passage p on p.key = f.key"""
            given = [few, titled]
    found_rows = db.execute(
        f"""select {COLUMNS} from {source} cross join document d on d.key = p.document
        where {found} and {where} order by {NEWEST_FIRST} limit ?""",
        (*given, *values, limit),
    )
    return [candidate(r) for r in found_rows]


@dataclass(frozen=True, slots=True)
class _Keys:
    """A statement that gives the keys of passages, with its values."""

    sql: str
    values: list[str]

    def few(self, db: apsw.Connection) -> str | None:
        """The keys as a JSON array, or None when there are many."""
        keys = [key for (key,) in db.execute(f"{self.sql} limit {_MANY}", self.values)]
        return None if len(keys) == _MANY else json.dumps(keys)


def _containing(db: apsw.Connection, text: str) -> _Keys | None:
    """The passages that contain the text literally or all its words; None when its words say too little."""
    if words_are_behind(db):
        return None
    around = _words_around(db, text)
    if around is None:
        return None
    if text.isascii() and text.isalnum():  # one word: whatever has a word around it contains it
        return _Keys(_MATCHING, [around])
    return _Keys(
        f"""{_MATCHING} union select p.key from passage_text t join passage p on p.key = t.rowid
        where passage_text match ? and contains(p.content, ?)""",
        [_all_words(text), around, fold(text)],
    )


def _all_words(text: str) -> str:
    """FTS5: every word of the text, in the content; nothing for a text without words."""
    words = " AND ".join(_quoted(w) for w in _WORD.findall(indexable(text)))
    return f"content : ({words})" if words else ""


def _titled(db: apsw.Connection, text: str) -> Iterator[int]:
    """The documents whose title contains the text literally or all its words."""
    whole = fold(text)
    wanted = set(_WORD.findall(indexable(text)))
    for key, title in db.execute("select key, title from document where title <> ''"):
        if whole in fold(title):
            yield key
        elif wanted:
            looked_up = indexable(title)
            if all(w in looked_up for w in wanted) and wanted <= set(_WORD.findall(looked_up)):
                yield key


def _words_around(db: apsw.Connection, text: str) -> str | None:
    """FTS5: passages whose words could contain the text; None when that would be too many."""
    looked_up = indexable(text)
    pieces = _WORD.findall(looked_up)
    parts = []
    for number, piece in enumerate(pieces):
        open_left = number == 0 and looked_up.startswith(piece)
        open_right = number == len(pieces) - 1 and looked_up.endswith(piece)
        terms = _terms(db, piece, open_left, open_right)
        if terms is not None:  # else the other pieces must narrow it down
            parts.append("(" + " OR ".join(_quoted_word(t) for t in terms or [_NO_WORD]) + ")")
    return "content : (" + " AND ".join(parts) + ")" if parts else None


def _terms(db: apsw.Connection, piece: str, open_left: bool, open_right: bool) -> list[str] | None:
    """The known words that have the piece where the text has it; None for too many."""
    if not (open_left or open_right):
        return [piece]
    values: tuple[str | int, ...]
    if not open_left:
        condition, values = "term >= ? and term < ?", (piece, piece + "\U0010ffff")
    elif not open_right:
        condition, values = "substr(term, ?) = ?", (-len(piece), piece)
    else:
        condition, values = "instr(term, ?)", (piece,)
    terms = rows(db, f"select term from word where {condition} limit ?", (*values, LIMITS.word_matches + 1))
    return None if len(terms) > LIMITS.word_matches else [term for (term,) in terms]
