"""The full-text index of a library, and finding in it.

FTS5 holds words, not text: the content stays in `passage`, and a row is taken
out by giving FTS5 the text that went in. The table `word` lists every word
once; a fragment inside words is found by looking it up there, searching the
words that contain it, and checking the text itself.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple

from recollect.language.query import (
    And,
    Near,
    Node,
    Not,
    Or,
    Word,
)
from recollect.language.stem import stem
from recollect.language.text import fold, indexable, tokens
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.sql.candidates import COLUMNS, decode_candidates
from recollect.store.sql.database import IndexRow as Row
from recollect.store.sql.selection import drop_common_kinds, few_documents
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.filters import conditions, passage_conditions
from recollect.store.values import Candidate

VERSION = 2
_WORD = re.compile(r"[^\W_]+")  # as FTS5 cuts it
_TO_SPACE = bytes(n if _WORD.match(chr(n)) else 0x20 for n in range(256))
_LONGEST_WORD = 128
_DELETE = (
    "insert into passage_text (passage_text, rowid, title, content) values ('delete', ?, ?, ?)"
)
_MATCHING = "select rowid as key from passage_text where passage_text match ?"
_BULK = 2_000  # messages from which words are put off
_MANY = 3_000  # matches from which walking is cheaper than sorting
_LOOKED_AT = 20_000  # matches of one word
_CHUNK = 600
_PARTS = 32  # ranges of keys that are searched one by one
_NEAR = 1_000  # keys between two that are still of one range
_USUAL_LENGTH = 60  # words of a message
_VARIANTS = 50
_NO_WORD = "\x1f"  # quoted, it holds no token and so matches nothing

NEWEST_FIRST = "p.created_at desc, p.key desc"  # without a time: last


# -- keeping in step ---------------------------------------------------------


def indexed(text: str) -> str:
    return indexable(text[: LIMITS.indexed_characters])


class Words:
    """The words this process knows to be in the table, so that most are not written again."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._known_plain: set[bytes] = set()  # of ASCII texts, which are cut much faster as bytes

    def note(self, db: Connection, texts: Iterable[str]) -> None:
        """Add the words of some texts to the list."""
        db.executemany(
            "insert or ignore into word values (?, nullif(stem(?1), ?1))",
            ((w,) for w in sorted(self.fresh(texts))),
        )

    def fresh(self, texts: Iterable[str]) -> set[str]:
        plain: set[bytes] = set()
        words: set[str] = set()
        for text in texts:
            if text.isascii():
                plain.update(text.encode().translate(_TO_SPACE).split())
            else:
                words.update(_WORD.findall(text))
        plain -= self._known_plain
        words -= self._known
        if len(self._known) + len(self._known_plain) > 500_000:
            self.forget()
        self._known_plain |= plain
        self._known |= words
        return {word[:_LONGEST_WORD] for word in words.union(map(bytes.decode, plain))}

    def forget(self) -> None:
        """Believe nothing: a transaction was rolled back, or words were removed."""
        self._known.clear()
        self._known_plain.clear()


class Index:
    """The index inside one transaction."""

    def __init__(self, db: Connection, words: Words) -> None:
        self._db = db
        self._words = words

    def add(self, rows: Iterable[Row]) -> None:
        prepared = [
            (key, title and indexed(title), indexed(content)) for key, title, content in rows
        ]
        self._db.executemany(
            "insert into passage_text (rowid, title, content) values (?, ?, ?)", prepared
        )
        if not _put_off_words(self._db, prepared):
            self._words.note(
                self._db, (text for _, title, content in prepared for text in (title, content))
            )

    def remove(self, rows: Iterable[Row], count: int = 1) -> None:
        """Take passages out, and words that no other passage has out of the list. Wiping a passage
        off every page of the index takes as long as writing three hundred; so from that share on
        they are only crossed out, and then the whole index is written anew without them."""
        if count * 300 < self._db.execute("select passage from last_key").get:
            self._wipe(rows)
            return
        db = self._db
        db.execute("insert into passage_text (passage_text, rank) values ('secure-delete', 0)")
        db.executemany(
            _DELETE, ((key, indexed(title), indexed(content)) for key, title, content in rows)
        )
        db.execute("insert into passage_text (passage_text) values ('optimize')")
        db.execute("insert into passage_text (passage_text, rank) values ('secure-delete', 1)")
        self._words.forget()
        db.execute("delete from word")
        list_words(db)

    def _wipe(self, rows: Iterable[Row]) -> None:
        prepared = [(key, indexed(title), indexed(content)) for key, title, content in rows]
        self._db.executemany(_DELETE, prepared)
        self._words.forget()
        for word in self._words.fresh(
            text for _, title, content in prepared for text in (title, content)
        ):
            query = "select 1 from passage_text where passage_text match ? limit 1"
            if not self._db.execute(query, (_quoted_word(word),)).get:
                self._db.execute("delete from word where term = ?", (word,))
        self._words.forget()


def _put_off_words(db: Connection, rows: Sequence[Row]) -> bool:
    """Whether to list the words of a large import once it is done: reading them off the index
    is then much cheaper than noting them message by message. Until then the list is marked as
    behind, and texts are looked for without it."""
    if words_are_behind(db):
        return True
    if (
        len(rows) < _BULK or len(rows) * 20 < rows[-1][0]
    ):  # keys count up, so the last tells how many there are
        return False
    db.execute("update derived set version = 0 where name = 'words'")
    return True


def words_are_behind(db: Connection) -> bool:
    return bool(db.execute("select version from derived where name = 'words'").get != VERSION)


def list_words(db: Connection) -> None:
    """Bring the list of words up to date with the index."""
    db.execute("insert or ignore into word select term, nullif(stem(term), term) from passage_word")
    db.execute("insert or replace into derived values ('words', ?)", (VERSION,))


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
        case Near(parts, distance):
            return f"NEAR({' '.join(map(compiled, parts))}, {distance})"
        case And(parts):
            required = " AND ".join(compiled(p) for p in parts if not isinstance(p, Not))
            unwanted = [compiled(p) for p in parts if isinstance(p, Not)]
            return f"(({required}) NOT ({' OR '.join(unwanted)}))" if unwanted else f"({required})"


def _quoted(text: str) -> str:
    return '"' + indexable(text).replace('"', '""') + '"'


def _quoted_word(word: str) -> str:
    return _quoted(word) + ("*" if len(word) == _LONGEST_WORD else "")


# -- finding -----------------------------------------------------------------


def candidates(db: Connection, keys: Sequence[int], filter: Filter) -> list[Candidate]:
    """The passages of these keys that the filter lets through, in no order."""
    where, values = conditions(filter)
    found_rows = db.execute(
        f"""select {COLUMNS} from json_each(?) k cross join passage p on p.key = k.value
        cross join document d on d.key = p.document where {where}""",
        (json.dumps(keys), *values),
    )
    return decode_candidates(found_rows)


def previous_passages(db: Connection, keys: Sequence[int]) -> list[Candidate]:
    """The passages just before these in their documents."""
    found_rows = db.execute(
        f"""select {COLUMNS} from json_each(?) k cross join passage a on a.key = k.value
        cross join passage p on p.document = a.document and p.position = a.position - 1
        cross join document d on d.key = p.document""",
        (json.dumps(keys),),
    )
    return decode_candidates(found_rows)


def allowed(db: Connection, keys: Sequence[int], filter: Filter) -> set[int]:
    """Which of these passages the filter lets through."""
    where, values = conditions(filter)
    sql = f"""select p.key from json_each(?) k cross join passage p on p.key = k.value
      cross join document d on d.key = p.document where {where}"""
    return {key for (key,) in db.execute(sql, (json.dumps(keys), *values))}


Span = tuple[int, int]
"""A first and a last key."""


def everything(db: Connection) -> Span:
    return 1, db.execute("select passage from last_key").get


def sample(db: Connection, limit: int) -> Iterator[str]:
    """Contents of passages, spread evenly over the keys."""
    newest = everything(db)[1]
    step = max(1, newest // limit)
    for key in range(1, newest + 1, step):
        content = db.execute("select content from passage where key = ?", (key,)).get
        if content is not None:
            yield content


def keys_of_few(db: Connection, filter: Filter) -> list[int] | None:
    """All passages of the documents that the filter lets through, in order, where they are few; else None."""
    documents = few_documents(db, filter)
    if documents is None:
        return None
    sql = "select p.key from json_each(?) k cross join passage p on p.document = k.value order by p.key"
    return [key for (key,) in db.execute(sql, (json.dumps(documents),))]


def narrowed(span: Span, few: Sequence[int] | None) -> list[Span]:
    """The parts of a range in which there may be something: all of it, or where the few are."""
    if few is None:
        return [span]
    keys = few[bisect_left(few, span[0]) : bisect_right(few, span[1])]
    if not keys:
        return []
    widest = sorted((after - before for before, after in pairwise(keys)), reverse=True)
    gap = max(widest[_PARTS], _NEAR) if len(widest) > _PARTS else _NEAR
    ends = [(before, after) for before, after in pairwise(keys) if after - before > gap]
    return list(
        zip(
            [keys[0], *(after for _, after in ends)],
            [*(before for before, _ in ends), keys[-1]],
            strict=True,
        )
    )


def best(
    db: Connection,
    node: Node,
    filter: Filter,
    span: Span,
    limit: int,
    few: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """Passages of a range of keys that match, best first: those with the rarest words, the
    shorter before the longer. bm25() is not asked, for it counts each word in the whole table.
    Of a word that very many have, the newest are looked at. `few` is what `keys_of_few` gave."""
    spans = narrowed(span, few)
    size = span[1] - span[0] + 1
    weights: dict[int, float] = {}
    for part in node.parts if isinstance(node, Or) else (node,):
        keys = [key for some in spans for key in _matching(db, part, filter, some)]
        found_in_all = (
            len(keys) if few is None or not keys else count(db, part, None, span, _LOOKED_AT)
        )
        weight = math.log(1 + (size - found_in_all + 0.5) / (found_in_all + 0.5))
        for key in keys:
            weights[key] = weights.get(key, 0.0) + weight
    ranked = sorted(weights, key=lambda key: (-round(weights[key], 9), -key))
    hits: list[tuple[int, float]] = []
    for chunk in _chunks(_allowed(db, ranked, filter)):
        lowest = hits[-1][1] if hits else math.inf
        lengths = _lengths(db, sorted(chunk))
        scores = (
            (key, 2.2 * weights[key] / (1 + 1.2 * (0.25 + 0.75 * n / _USUAL_LENGTH)))
            for key, n in lengths
        )
        hits += sorted(
            ((key, min(score, lowest)) for key, score in scores),
            key=lambda hit: (-round(hit[1], 9), -hit[0]),
        )
        if len(hits) >= limit:
            break
    return hits[:limit]


def _allowed(db: Connection, keys: Sequence[int], filter: Filter) -> Iterator[int]:
    for start in range(0, len(keys), _CHUNK):
        some = keys[start : start + _CHUNK]
        let_through = allowed(db, some, filter)
        yield from (key for key in some if key in let_through)


def _chunks(keys: Iterator[int]) -> Iterator[list[int]]:
    """Of a fixed size, so that a longer list begins as a shorter one."""
    while chunk := list(islice(keys, _CHUNK)):
        yield chunk


def count(
    db: Connection,
    node: Node,
    filter: Filter | None,
    span: Span,
    at_most: int,
    few: Sequence[int] | None = None,
) -> int:
    """How many passages of a range of keys match, counted no further than `at_most`."""
    source, values = _through(filter)
    counted = 0
    for some in narrowed(span, few):
        counted += db.execute(
            f"""select count(*) from (select 1 from passage_text t {source}
            where passage_text match ? and t.rowid between ? and ? limit ?)""",
            (*values, compiled(node), *some, at_most - counted),
        ).get
    return counted


def _matching(db: Connection, node: Node, filter: Filter, span: Span) -> list[int]:
    """The newest that match. Where very many do, the newest of those that may be found."""
    for source, values in (("", []), _through(filter)):
        rows = db.execute(
            f"""select t.rowid from passage_text t {source} where passage_text match ? and t.rowid between ? and ?
            order by t.rowid desc limit ?""",
            (*values, compiled(node), *span, _LOOKED_AT),
        )
        keys = [key for (key,) in rows]
        if len(keys) < _LOOKED_AT:
            break
    return keys


def _through(filter: Filter | None) -> tuple[str, list[Any]]:
    """The join that lets only through what may be found."""
    if filter is None:
        return "", []
    where, values = conditions(filter, many=True)
    return (
        f"cross join passage p on p.key = t.rowid cross join document d on d.key = p.document and {where}",
        values,
    )


def _lengths(db: Connection, keys: Sequence[int]) -> list[tuple[int, int]]:
    """How many words the passages have, as FTS5 notes it: one variable-length number a column."""
    sql = (
        "select s.id, s.sz from json_each(?) k cross join passage_text_docsize s on s.id = k.value"
    )
    return [(key, sum(_numbers(sizes))) for key, sizes in db.execute(sql, (json.dumps(keys),))]


def _numbers(data: bytes) -> Iterator[int]:
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            yield value
            value = 0


def scores(
    frequencies: Mapping[Word, tuple[int, int]], passages: Iterable[Candidate]
) -> dict[int, float]:
    """BM25 of some passages. bm25() is not asked, for it counts each word in the whole table."""
    totals: dict[int, float] = {}
    for passage in passages:
        text = f" {' '.join(tokens(passage.title if not passage.position else ''))}  {' '.join(tokens(passage.content))} "
        length = text.count(" ")
        score = 0.0
        for word, (count, size) in frequencies.items():
            phrase = " ".join(tokens(word.text))
            times = text.count(f" {phrase}" if word.prefix else f" {phrase} ") if phrase else 0
            weight = math.log(1 + (size - min(count, size) + 0.5) / (count + 0.5))
            score += weight * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / _USUAL_LENGTH))
        totals[passage.key] = score
    return totals


def variants(db: Connection, words: Sequence[str]) -> list[tuple[str, ...]]:
    """See Store.variants."""
    return [(word, *sorted(_alike(db, word) - {word})) for word in words]


def _alike(db: Connection, word: str) -> set[str]:
    """The words with the same stem; those that contain it, where the library does not have it."""
    same = stem(word)
    listed = db.rows(
        "select term from word where stem = ?1 union select term from word where term in (?1, ?2) limit ?3",
        (same, word, _VARIANTS),
    )
    if listed or len(word) < 3:
        return {term for (term,) in listed if stem(term) == same}
    return {
        term
        for (term,) in db.rows(
            "select term from word where instr(term, ?) limit ?", (word, _VARIANTS)
        )
    }


def find_substring(
    db: Connection, text: str, filter: Filter, limit: int, offset: int
) -> tuple[list[Candidate], int]:
    """See Store.find_substring. No index helps with texts that contain no word."""
    walk = _walk(db, filter, few_documents(db, filter))
    source = f"""from {walk.source} cross join document d on d.key = p.document
      where {walk.where} and contains(p.content, ?)"""
    parameters = (*walk.values, fold(text))
    total: int = db.execute(f"select count(*) {source}", parameters).get
    found_rows = db.execute(
        f"select {COLUMNS} {source} order by {NEWEST_FIRST} limit ? offset ?",
        (*parameters, limit, offset),
    )
    return decode_candidates(found_rows), total


def newest(
    db: Connection, filter: Filter, limit: int, offset: int, by_document: bool
) -> tuple[list[Candidate], int]:
    walk = _walk(db, filter, few_documents(db, filter))
    values = walk.values
    counted = "*"
    source = f"{walk.source} cross join document d on d.key = p.document where {walk.where}"
    order = f"from {source} order by {NEWEST_FIRST}"
    if by_document:
        counted = "distinct p.document"
        order = f"""from (select p.key, row_number() over (partition by p.document order by {NEWEST_FIRST}) as place
          from {source}) n cross join passage p on p.key = n.key cross join document d on d.key = p.document
          where n.place = 1 order by {NEWEST_FIRST}"""
    if "d." not in walk.where:  # then the documents need not be looked up to count
        source = f"{walk.source} where {walk.where}"
    total: int = db.execute(f"select count({counted}) from {source}", values).get
    found_rows = db.execute(f"select {COLUMNS} {order} limit ? offset ?", (*values, limit, offset))
    return decode_candidates(found_rows), total


class _Walk(NamedTuple):
    """A way through all passages that a filter lets through, as SQL over p and its document d."""

    source: str
    where: str
    values: list[Any]


def _walk(db: Connection, filter: Filter, documents: Sequence[int] | None) -> _Walk:
    """By time, or document by document where these are few."""
    if documents is not None:
        where, values = passage_conditions(filter)
        source = (
            "json_each(?) k cross join passage p indexed by passage_order on p.document = k.value"
        )
        return _Walk(source, where, [json.dumps(documents), *values])
    any_kind, others = drop_common_kinds(db, filter)
    where, values = conditions(filter if others else any_kind, many=True)
    return _Walk("passage p indexed by passage_time", where, values)


def recent(db: Connection, text: str | None, filter: Filter, limit: int) -> list[Candidate]:
    """See Store.recent. A few matches are gathered and sorted; where there are many, a walk
    from the newest passage soon has enough of them."""
    documents = few_documents(db, filter)
    source, where, values = _walk(db, filter, documents)
    condition, parameters = "1", []
    if text is not None:
        titled = json.dumps(list(_titled(db, text, documents)))
        containing = _containing(db, text)
        if containing is None:
            words = f"p.key in ({_MATCHING}) or" if (every_word := _all_words(text)) else ""
            condition = f"({words} contains(p.content, ?) or p.document in (select value from json_each(?)))"
            parameters = [*([every_word] if words else []), fold(text), titled]
        elif (gathered := containing.few(db)) is None:
            condition = (
                f"(p.key in ({containing.sql}) or p.document in (select value from json_each(?)))"
            )
            parameters = [*containing.values, titled]
        else:
            source = """(select value as key from json_each(?) union
              select key from passage where document in (select value from json_each(?))
              ) f cross join passage p on p.key = f.key"""
            where, values = conditions(filter)
            values = [gathered, titled, *values]
    found_rows = db.execute(
        f"""select {COLUMNS} from {source} cross join document d on d.key = p.document
        where {where} and {condition} order by {NEWEST_FIRST} limit ?""",
        (*values, *parameters, limit),
    )
    return decode_candidates(found_rows)


@dataclass(frozen=True, slots=True)
class _Keys:
    """A statement that gives the keys of passages, with its values."""

    sql: str
    values: list[str]

    def few(self, db: Connection) -> str | None:
        """The keys as a JSON array, or None when there are many."""
        keys = [key for (key,) in db.execute(f"{self.sql} limit {_MANY}", self.values)]
        return None if len(keys) == _MANY else json.dumps(keys)


def _containing(db: Connection, text: str) -> _Keys | None:
    """The passages that contain the text literally or all its words; None when its words say too little."""
    if words_are_behind(db):
        return None
    around = _words_around(db, text)
    if around is None:
        return None
    if (
        text.isascii() and text.isalnum() and "*" not in around
    ):  # whatever has a word around one word contains it
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


def _titled(db: Connection, text: str, documents: Sequence[int] | None) -> Iterator[int]:
    """The documents, of all or of some, whose title contains the text literally or all its words."""
    titles = "select key, title from document where title <> ''"
    values = []
    if documents is not None:
        titles += " and key in (select value from json_each(?))"
        values.append(json.dumps(documents))
    whole = fold(text)
    words = set(_WORD.findall(indexable(text)))
    for key, title in db.execute(titles, values):
        if whole in fold(title):
            yield key
        elif words:
            looked_up = indexable(title)
            if all(w in looked_up for w in words) and words <= set(_WORD.findall(looked_up)):
                yield key


def _words_around(db: Connection, text: str) -> str | None:
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


def _terms(db: Connection, piece: str, open_left: bool, open_right: bool) -> list[str] | None:
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
    terms = db.rows(  # a word that was cut may have it further on
        f"select term from word where {condition} union "
        f"select term from word where length(term) >= {_LONGEST_WORD} limit ?",
        (*values, LIMITS.word_matches + 1),
    )
    return None if len(terms) > LIMITS.word_matches else [term for (term,) in terms]
