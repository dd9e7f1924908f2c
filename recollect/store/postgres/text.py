"""The full-text index of a library on PostgreSQL, and finding in it.

GIN finds; what scores is ours. Of a question the rarest words choose the
candidates, and the others only where two of them meet: a word that very many
messages have costs more than all the others, and says little alone. How often a
word occurs is counted when it is first asked, and remembered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from recollect.language.matching import matches
from recollect.language.query import Node, Or, words
from recollect.language.stem import stem
from recollect.language.text import fold, indexable, micros, storable, tokens
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.postgres import bm25
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import conditions, document_conditions
from recollect.store.postgres.words import LONGEST, Compiled, compiled, indexed
from recollect.store.sql.candidates import COLUMNS, decode_candidates
from recollect.store.sql.database import IndexRow
from recollect.store.sql.selection import few_documents, matching_documents
from recollect.store.values import Candidate

VERSION = 2
_COUNTED = 20_000  # matches counted one by one
_MANY = 3_000  # matches from which walking is cheaper than sorting
_ENOUGH = 4_000  # matches from which common words choose candidates only together
_ORDERED = 600  # candidates that their length orders too
_REORDERED = 300  # candidates that words order which did not choose them
_FEW = 200  # asked for, so that the rarest words may choose alone
_OFTEN = 1_000  # matches from which a count is good until the library has grown by a fiftieth
_READ = 500  # texts read at once
_VARIANTS = 50
_VOCABULARY_LIMIT = 500_000
_REBUILT = 2_000  # passages a transaction
NEWEST_FIRST = "p.created_at desc nulls last, p.key desc"
_CONTAINS = 'strpos(coalesce(t.folded, lower(p.content collate "C")), ?) > 0'
_ALL = """passage p join passage_text t on t.owner = p.owner and t.key = p.key
  join document d on d.owner = p.owner and d.key = p.document"""


# -- keeping in step ---------------------------------------------------------


class Vocabulary:
    """Words that this process knows to be in the table, so that most are not written again. What is
    taken out of a library counts, so it is seen when somebody else may have removed words."""

    def __init__(self) -> None:
        self._words: frozenset[str] = frozenset()
        self._removed = -1

    def fresh(self, words: set[str], removed: int) -> set[str]:
        return words - self._words if removed == self._removed else set(words)

    def learn(self, words: set[str], removed: int) -> None:
        """These were committed."""
        if removed != self._removed or len(self._words) > _VOCABULARY_LIMIT:
            self._words, self._removed = frozenset(), removed
        self._words |= words


class Index:
    """The index inside one transaction (see store.database)."""

    def __init__(self, db: Connection, vocabulary: Vocabulary) -> None:
        self._db = db
        self._known = vocabulary
        self.noted: set[str] = set()
        self.removed: int = (
            db.get("select removed from last_key where owner = ?::integer", (db.owner,)) or 0
        )

    def add(self, rows: Iterable[IndexRow]) -> None:
        keys, openings, vectors, lengths, sure, whole, folded, texts = (
            [],
            [],
            [],
            [],
            [],
            [],
            [],
            [],
        )
        distinct: set[str] = set()
        for key, title, content in rows:
            words = indexed(title, content)
            keys.append(key)
            openings.append(bool(title))
            vectors.append(words.words)
            lengths.append(words.length)
            sure.append(words.sure)
            whole.append(words.whole)
            folded.append(None if content.isascii() else fold(content))
            distinct |= words.distinct
            if bm25.is_indexed(self._db):
                texts.append(_in_order(title, content))
        self._db.run(
            """insert into passage_text (key, document, created_at, role, author, hidden, opening, sure, whole, length,
              words, folded)
            select p.key, p.document, p.created_at, p.role, p.author, p.visibility = 'hidden', k.opening, k.sure,
              k.whole, k.length, k.words::tsvector, k.folded
            from unnest(?::bigint[], ?::boolean[], ?::text[], ?::integer[], ?::boolean[], ?::boolean[], ?::text[])
              k(key, opening, words, length, sure, whole, folded)
            join passage p on p.owner = ?::integer and p.key = k.key""",
            (keys, openings, vectors, lengths, sure, whole, folded, self._db.owner),
        )
        if bm25.is_indexed(self._db):
            bm25.add(self._db, keys, texts)
        if fresh := sorted(self._known.fresh(distinct, self.removed) - self.noted):
            stems = [None if (root := stem(word)) == word else root for word in fresh]
            self._db.run(
                "insert into word (term, stem) select * from unnest(?::text[], ?::text[]) on conflict do nothing",
                (fresh, stems),
            )
            self.noted.update(fresh)

    def remove(self, rows: Iterable[IndexRow], count: int = 1) -> None:
        """Take passages out, and words that no other passage has out of the list."""
        distinct: set[str] = set()
        keys = []
        for key, title, content in rows:
            keys.append(key)
            distinct |= indexed(title, content).distinct
        self._db.run(
            "delete from passage_text where owner = ?::integer and key = any(?::bigint[])",
            (self._db.owner, keys),
        )
        if bm25.is_indexed(self._db):
            bm25.remove(self._db, keys)
        self._db.run(
            "update last_key set removed = removed + 1 where owner = ?::integer", (self._db.owner,)
        )
        self._db.run(
            "delete from word where owner = ?::integer and term in (select absent(?::text[]))",
            (self._db.owner, sorted(distinct)),
        )
        self.removed += 1
        self.noted -= distinct


def add_some_to_bm25(db: Connection) -> int:
    """Words of passages that the BM25 index does not have yet."""
    rows = db.rows(
        f"""select p.key, case when d.opening = p.key then d.title else '' end, p.content
        from passage p join document d on d.owner = p.owner and d.key = p.document
        where p.owner = ?::integer and not exists (select from {bm25.TABLE} b where b.owner = p.owner and b.key = p.key)
        limit ?""",
        (db.owner, _REBUILT),
    )
    if rows:
        bm25.add(
            db,
            [key for key, _, _ in rows],
            [_in_order(title, content) for _, title, content in rows],
        )
    return len(rows)


def _in_order(title: str, content: str) -> list[str]:
    return [word[:LONGEST] for word in tokens(f"{title}\n{content[: LIMITS.indexed_characters]}")]


# -- counting ----------------------------------------------------------------


class Counts:
    """How many passages have a word, remembered while it stays true or nearly so."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int, int, int]] = {}

    def of(self, db: Connection, queries: Sequence[str]) -> tuple[list[tuple[int, int]], int]:
        """For each query how many passages match and how many of those are not hidden; and how
        many passages there are."""
        ((size, removed),) = db.rows(
            "select passage, removed from last_key where owner = ?::integer", (db.owner,)
        )
        totals = {
            q: entry
            for q in queries
            if (entry := self._known.get(q)) and self._holds(entry, size, removed)
        }
        missing = [q for q in dict.fromkeys(queries) if q not in totals]
        if missing:
            counted = db.rows(
                "select * from frequencies(?::tsquery[], ?::integer)", (missing, _COUNTED)
            )
            new = {
                q: (all_, seen, size, removed)
                for q, (all_, seen) in zip(missing, counted, strict=True)
            }
            totals |= new
            self._known = new if len(self._known) > 10_000 else self._known | new
        return [totals[q][:2] for q in queries], size

    @staticmethod
    def _holds(entry: tuple[int, int, int, int], size: int, removed: int) -> bool:
        count, _, then, removed_then = entry
        if (then, removed_then) == (size, removed):
            return True
        return count > _OFTEN and abs(size - then) + (removed - removed_then) < then / 50


def frequencies(db: Connection, nodes: Sequence[Node], counts: Counts) -> tuple[list[int], int]:
    queries = [compiled(node) for node in nodes]
    counts_, size = counts.of(db, [each.query for each in queries])
    numbers = [count for count, _ in counts_]
    for number, (node, each) in enumerate(zip(nodes, queries, strict=True)):
        if not each.exact or each.phrases:
            numbers[number] = _count(db, node, each, _arguments(db, Filter(hidden=True)), _COUNTED)
    return numbers, size


def count(db: Connection, node: Node, filter: Filter, counts: Counts) -> tuple[int, bool]:
    each = compiled(node)
    if isinstance(node, Or) and filter in (Filter(), Filter(hidden=True)):
        parts = [c for c in map(compiled, node.parts) if c.exact and not c.phrases]
        counts_, _ = counts.of(db, [c.query for c in parts])
        most = max((all_ if filter.hidden else seen for all_, seen in counts_), default=0)
        if (
            most >= _ENOUGH
        ):  # then so many at least, and counting all of them would take longer than finding
            return most, False
    if (few := keys_of_few(db, filter)) is not None:
        return len(_among(db, node, each, few)), True
    counted = _count(db, node, each, _arguments(db, filter), _COUNTED)
    return counted, counted < _COUNTED


def _count(
    db: Connection, node: Node, each: Compiled, arguments: tuple[Any, ...], at_most: int
) -> int:
    total = 0
    if each.exact:
        total = db.get(
            f"select counted(?::tsquery, ?::boolean, ?::integer, {_FILTER})",
            (each.query, each.phrases or None, at_most, *arguments),
        )
    return int(total) + len(_looked_up(db, node, each, arguments))


# -- filters as the functions take them ----------------------------------------

_FILTER = "?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint, ?::bigint, ?::bigint[], ?::bigint[], ?::boolean"


def _arguments(db: Connection, filter: Filter) -> tuple[Any, ...]:
    names = (filter.roles, filter.authors, filter.senders, filter.not_roles, filter.not_authors)
    lists = [[storable(name) for name in some] or None for some in names]
    documents = matching_documents(db, filter)
    return (
        *lists,
        micros(filter.after),
        micros(filter.before),
        documents.only,
        documents.without or None,
        filter.hidden,
    )


_CANDIDATES = (
    f"select * from candidates(?::tsquery[], ?::float8[], ?::boolean, ?::integer, {_FILTER})"
)


# -- finding -----------------------------------------------------------------


def best(
    db: Connection, node: Node, filter: Filter, limit: int, counts: Counts, by_bm25: bool = False
) -> list[int]:
    """Passages that match, best first: those with the rarest words, the shorter before the longer."""
    nodes = node.parts if isinstance(node, Or) else (node,)
    numbers, size = frequencies(db, nodes, counts)
    parts = sorted(
        (
            _Part(part, compiled(part), n, math.log(1 + (size - n + 0.5) / (n + 0.5)))
            for part, n in zip(nodes, numbers, strict=True)
        ),
        key=lambda part: part.count_,
    )
    if (few := keys_of_few(db, filter)) is not None:
        return _ordered(_matches(db, parts, few))[:limit]
    arguments = _arguments(db, filter)
    if (
        by_bm25
        and limit <= _ORDERED
        and filter in (Filter(), Filter(hidden=True))
        and all(map(_is_plain, parts))
    ):
        return _ordered(_found_by_bm25(db, parts, filter))[:limit]
    chosen = _rarest(parts) if limit <= _FEW else parts
    if len(chosen) < len(parts):
        matches = _with_rare_words(db, chosen, parts[len(chosen) :], size, arguments)
        if len(matches) >= limit:
            return _ordered(matches)[:limit]
    return _ordered(_candidates(db, parts, limit, arguments))[:limit]


def keys_of_few(db: Connection, filter: Filter) -> list[int] | None:
    """The passages that the filter lets through, where its documents are few; else None."""
    documents = few_documents(db, filter)
    if documents is None:
        return None
    where, values = conditions(filter, "p", "p.visibility = 'hidden'")
    rows = db.rows(
        f"select p.key from passage p where p.owner = ?::integer and p.document = any(?::bigint[]) and {where}",
        (db.owner, documents, *values),
    )
    return [key for (key,) in rows]


def _matches(db: Connection, parts: Sequence[_Part], keys: Sequence[int]) -> dict[int, _Match]:
    """Those of some passages that have one of the parts."""
    matches: dict[int, _Match] = {}
    for part in parts:
        for key, length in _among(db, part.node, part.query_, keys).items():
            matches[key] = _Match(
                (matches[key].weight if key in matches else 0.0) + part.weight, length
            )
    return matches


def _among(db: Connection, node: Node, each: Compiled, keys: Sequence[int]) -> dict[int, int]:
    """Those of some passages that match, with their lengths."""
    rows = db.rows(
        "select t.key, t.length, t.words @@ ?::tsquery, t.sure from passage_text t "
        "where t.owner = ?::integer and t.key = any(?::bigint[]) and t.words @@ ?::tsquery",
        (each.query, db.owner, list(keys), each.wider),
    )
    sure_keys = {key for key, _, _, sure in rows if each.exact and (sure or not each.phrases)}
    lengths = {key: length for key, length, matched, _ in rows if key in sure_keys and matched}
    return lengths | _read(db, node, [key for key, *_ in rows if key not in sure_keys])


def _ordered(matches: dict[int, _Match]) -> list[int]:
    """Best first, the newer of two that are alike. Lengths order chunks of a fixed size, so that a
    longer list begins as a shorter one."""
    ranked = sorted(matches, key=lambda key: (-round(matches[key].weight, 9), -key))
    chunks = (ranked[start : start + _ORDERED] for start in range(0, len(ranked), _ORDERED))
    return [
        key
        for chunk in chunks
        for key in sorted(chunk, key=lambda key: (-round(matches[key].score, 9), -key))
    ]


class _Match(NamedTuple):
    weight: float
    length: int

    @property
    def score(self) -> float:
        return 2.2 * self.weight / (1.3 + 0.015 * self.length)


class _Part(NamedTuple):
    """One of several things of which a passage must have at least one."""

    node: Node
    query_: Compiled
    count_: int
    weight: float


def _rarest(parts: Sequence[_Part]) -> Sequence[_Part]:
    """The rarest, and as many more as do not have too many matches together."""
    total = 0
    for place, part in enumerate(parts):
        total += part.count_
        if place and total > _ENOUGH:
            return parts[:place] if all(map(_is_plain, parts)) else parts
    return parts


def _candidates(
    db: Connection, parts: Sequence[_Part], limit: int, arguments: tuple[Any, ...]
) -> dict[int, _Match]:
    """Passages that have one of the parts, those with the heaviest first."""
    in_rows = any(part.query_.phrases for part in parts)
    exact = [part for part in parts if part.query_.exact]
    rows = db.rows(
        _CANDIDATES,
        (
            [p.query_.query for p in exact],
            [p.weight for p in exact],
            in_rows or None,
            max(limit, _ORDERED),
            *arguments,
        ),
    )
    matches = {key: _Match(weight, length) for key, weight, length in rows}
    for part in parts:
        for key, length in _looked_up(db, part.node, part.query_, arguments, in_rows).items():
            matches[key] = _Match(
                (matches[key].weight if key in matches else 0.0) + part.weight, length
            )
    return matches


def _with_rare_words(
    db: Connection,
    rare: Sequence[_Part],
    others: Sequence[_Part],
    size: int,
    arguments: tuple[Any, ...],
) -> dict[int, _Match]:
    """Passages that have a rare part, or two of those that very many have; weighed by all of them."""
    query_ = {part.query_.query: part.weight for part in rare}
    pairs = sorted(combinations(others, 2), key=lambda pair: pair[0].count_ * pair[1].count_)
    expected = 0.0
    for one, other in pairs:
        expected += one.count_ * other.count_ / max(size, 1)
        if expected > _ENOUGH:
            break
        query_[f"({one.query_.query}) & ({other.query_.query})"] = one.weight + other.weight
    rows = db.rows(_CANDIDATES, (list(query_), list(query_.values()), None, _REORDERED, *arguments))
    lengths = {key: length for key, _, length in rows}
    weights = _weights(db, [*rare, *others], list(lengths))
    return {key: _Match(weights.get(key, 0.0), length) for key, length in lengths.items()}


def _weights(db: Connection, parts: Sequence[_Part], keys: list[int]) -> dict[int, float]:
    """How heavy the parts are that each of these passages has."""
    rows = db.rows(
        """select t.key, sum(u.weight) from passage_text t, unnest(?::tsquery[], ?::float8[]) u(query, weight)
        where t.owner = ?::integer and t.key = any(?::bigint[]) and t.words @@ u.query group by t.key""",
        ([part.query_.query for part in parts], [part.weight for part in parts], db.owner, keys),
    )
    return dict(rows)


def _is_plain(part: _Part) -> bool:
    return (
        part.query_.exact
        and not part.query_.phrases
        and not any(word.prefix for word in words(part.node))
    )


def _found_by_bm25(db: Connection, parts: Sequence[_Part], filter: Filter) -> dict[int, _Match]:
    query_ = [
        token[:LONGEST]
        for part in parts
        for word in words(part.node)
        for token in tokens(word.text)
    ]
    keys = bm25.best(db, query_, filter.hidden, _ORDERED)
    weights = _weights(db, parts, keys)
    lengths = db.rows(
        "select t.key, t.length from passage_text t where t.owner = ?::integer and t.key = any(?::bigint[])",
        (db.owner, keys),
    )
    return {key: _Match(weights[key], length) for key, length in lengths if key in weights}


def _looked_up(
    db: Connection, node: Node, each: Compiled, arguments: tuple[Any, ...], in_rows: bool = False
) -> dict[int, int]:
    """The passages that match as their texts say and the index cannot, with their lengths: all
    where the query is not one that it understands, else those whose places it does not have."""
    if each.exact and not ((each.phrases or in_rows) and _has_long_texts(db)):
        return {}
    keys = [
        k
        for (k,) in db.rows(
            f"select newest(?::tsquery, ?::boolean, ?::integer, {_FILTER})",
            (each.wider, False if each.exact else None, 1 << 30, *arguments),
        )
    ]
    return _read(db, node, keys)


def _read(db: Connection, node: Node, keys: Sequence[int]) -> dict[int, int]:
    """Those of some passages whose texts match, with their lengths."""
    lengths: dict[int, int] = {}
    for at in range(0, len(keys), _READ):
        texts = db.rows(
            """select p.key, case when d.opening = p.key then d.title else '' end, p.content, t.length
            from passage p join document d on d.owner = p.owner and d.key = p.document
            join passage_text t on t.owner = p.owner and t.key = p.key
            where p.owner = ?::integer and p.key = any(?::bigint[])""",
            (db.owner, list(keys[at : at + _READ])),
        )
        lengths |= {
            key: length for key, title, content, length in texts if matches(node, title, content)
        }
    return lengths


def _has_long_texts(db: Connection) -> bool:
    """Whether there are texts of which the index does not have every place."""
    return bool(
        db.get(
            "select exists (select from passage_text where owner = ?::integer and not sure)",
            (db.owner,),
        )
    )


def candidates(db: Connection, keys: Sequence[int], filter: Filter) -> list[Candidate]:
    where, values = _through(filter)
    return decode_candidates(
        db.rows(
            f"""select {COLUMNS} from unnest(?::bigint[]) k(key)
        cross join lateral (select * from passage p where p.owner = ?::integer and p.key = k.key offset 0) p
        cross join lateral (select * from document d where d.owner = ?::integer and d.key = p.document offset 0) d
        where {where}""",
            (list(keys), db.owner, db.owner, *values),
        )
    )


def _through(filter: Filter) -> tuple[str, list[Any]]:
    """The filter over passage p and document d."""
    of_passage, values = conditions(filter, "p", "p.visibility = 'hidden'")
    of_document, more = document_conditions(filter)
    return f"{of_passage} and {of_document}", values + more


def _walk(db: Connection, filter: Filter) -> tuple[str, list[Any]]:
    """The same to go through everything, document by document where these are few."""
    documents = few_documents(db, filter)
    if documents is None:
        return _through(filter)
    where, values = conditions(filter, "p", "p.visibility = 'hidden'")
    return f"{where} and p.document = any(?::bigint[])", [*values, documents]


def previous_passages(db: Connection, keys: Sequence[int]) -> list[Candidate]:
    # `offset 0` keeps the server from joining all passages: under row-level security it expects far too many.
    return decode_candidates(
        db.rows(
            f"""select {COLUMNS} from unnest(?::bigint[]) k(key)
        cross join lateral (select a.document, a.position from passage a
          where a.owner = ?::integer and a.key = k.key offset 0) a
        cross join lateral (select * from passage p
          where p.owner = ?::integer and p.document = a.document and p.position = a.position - 1 offset 0) p
        cross join lateral (select * from document d where d.owner = ?::integer and d.key = p.document offset 0) d""",
            (list(keys), db.owner, db.owner, db.owner),
        )
    )


def scores(db: Connection, node: Node, keys: Sequence[int]) -> dict[int, float]:
    rows = db.rows(
        "select t.key, ts_rank(t.words, ?::tsquery) from passage_text t "
        "where t.owner = ?::integer and t.key = any(?::bigint[])",
        (compiled(node).wider, db.owner, list(keys)),
    )
    return {key: float(score) for key, score in rows}


def size(db: Connection) -> int:
    return int(db.get("select passage from last_key where owner = ?::integer", (db.owner,)) or 0)


def sample(db: Connection, limit: int) -> list[str]:
    """Contents of passages, spread evenly over the keys."""
    newest_key = size(db)
    keys = list(range(1, newest_key + 1, max(1, newest_key // limit)))
    rows = db.rows(
        "select content from passage where owner = ?::integer and key = any(?::bigint[]) order by key",
        (db.owner, keys),
    )
    return [content for (content,) in rows]


def variants(db: Connection, words: Sequence[str]) -> list[tuple[str, ...]]:
    """See Store.variants."""
    stems = [stem(word) for word in words]
    rows = db.rows(
        """select w.term, coalesce(w.stem, w.term) from word w
        where w.owner = ?::integer and (w.stem = any(?::text[]) or w.term = any(?::text[]))""",
        (db.owner, stems, [*words, *stems]),
    )
    alike: dict[str, set[str]] = {}
    for term, root in rows:
        alike.setdefault(root, set()).add(term)
    return [
        (word, *sorted(_alike(db, word, alike.get(root, set())) - {word}))
        for word, root in zip(words, stems, strict=True)
    ]


def _alike(db: Connection, word: str, same: set[str]) -> set[str]:
    if same or len(word) < 3:
        return set(sorted(same)[:_VARIANTS])
    rows = db.rows(
        "select term from word where owner = ?::integer and strpos(term, ?) > 0 order by term limit ?",
        (db.owner, word, _VARIANTS),
    )
    return {term for (term,) in rows}


def find_substring(
    db: Connection, text: str, filter: Filter, limit: int, offset: int
) -> tuple[list[Candidate], int]:
    """See Store.find_substring. No index helps with texts that contain no word."""
    where, values = _walk(db, filter)
    source = f"from {_ALL} where p.owner = ?::integer and {_CONTAINS} and {where}"
    parameters = (db.owner, fold(text), *values)
    total: int = db.get(f"select count(*) {source}", parameters)
    rows = db.rows(
        f"select {COLUMNS} {source} order by {NEWEST_FIRST} limit ? offset ?",
        (*parameters, limit, offset),
    )
    return decode_candidates(rows), total


def newest(
    db: Connection, filter: Filter, limit: int, offset: int, by_document: bool
) -> tuple[list[Candidate], int]:
    where, values = _walk(db, filter)
    source = f"passage p join document d on d.owner = p.owner and d.key = p.document where p.owner = ?::integer and {where}"
    parameters = (db.owner, *values)
    if not by_document:
        total = db.get(f"select count(*) from {source}", parameters)
        rows = db.rows(
            f"select {COLUMNS} from {source} order by {NEWEST_FIRST} limit ? offset ?",
            (*parameters, limit, offset),
        )
        return decode_candidates(rows), total
    total = db.get(f"select count(distinct p.document) from {source}", parameters)
    rows = db.rows(
        f"""select {COLUMNS} from (
          select p.key, row_number() over (partition by p.document order by {NEWEST_FIRST}) as place from {source}) n
        join passage p on p.owner = ?::integer and p.key = n.key
        join document d on d.owner = p.owner and d.key = p.document
        where n.place = 1 order by {NEWEST_FIRST} limit ? offset ?""",
        (*parameters, db.owner, limit, offset),
    )
    return decode_candidates(rows), total


# -- what contains a text ------------------------------------------------------


def recent(db: Connection, text: str | None, filter: Filter, limit: int) -> list[Candidate]:
    """See Store.recent. A few matches are gathered and sorted; where there are many, a walk
    from the newest passage soon has enough of them."""
    where, values = _through(filter)
    if text is None:
        return newest(db, filter, limit, 0, False)[0] if limit else []
    documents = few_documents(db, filter)
    titled = [k for (k,) in _titled(db, text, documents)]
    few = _containing(db, text)
    if few is not None:
        rows = db.rows(
            f"""select {COLUMNS} from (select unnest(?::bigint[]) as key union select p.key from passage p
              where p.owner = ?::integer and p.document = any(?::bigint[])) k
            join passage p on p.owner = ?::integer and p.key = k.key
            join document d on d.owner = p.owner and d.key = p.document
            where {where} order by {NEWEST_FIRST} limit ?""",
            (few, db.owner, titled, db.owner, *values, limit),
        )
        return decode_candidates(rows)
    where, values = _walk(db, filter)
    words = _all_words(text)
    long = [
        word for word in tokens(text) if len(word) >= LONGEST
    ]  # of which the index has the beginning only
    has_words = f"(t.words @@ ?::tsquery {f'and {_CONTAINS} ' * len(long)}) or" if words else ""
    rows = db.rows(
        f"""select {COLUMNS} from {_ALL} where p.owner = ?::integer
          and ({has_words} {_CONTAINS} or p.document = any(?::bigint[])) and {where}
        order by {NEWEST_FIRST} limit ?""",
        (db.owner, *([words, *long] if words else []), fold(text), titled, *values, limit),
    )
    return decode_candidates(rows)


def _titled(db: Connection, text: str, documents: list[int] | None) -> Iterator[tuple[Any, ...]]:
    """The documents, of all or of some, whose title contains the text literally or all its words."""
    words = sorted(set(tokens(text)))
    some = "" if documents is None else "and d.key = any(?::bigint[])"
    every = " and ".join(["strpos(d.title_words, ?) > 0"] * len(words)) or "false"
    yield from db.rows(
        f"""select d.key from document d where d.owner = ?::integer and d.title <> ''
          and (strpos(d.folded_title, ?) > 0 or ({every})) {some}""",
        (
            db.owner,
            fold(text),
            *(f" {word} " for word in words),
            *([] if documents is None else [documents]),
        ),
    )


def _all_words(text: str) -> str:
    """Every word of the text, in the content; nothing for a text without words."""
    return " & ".join(f"'{word[:LONGEST]}':D" for word in dict.fromkeys(tokens(text)))


def _containing(db: Connection, text: str) -> list[int] | None:
    """The passages that contain the text literally or all its words; None for many, or when its
    words say too little."""
    around = _words_around(db, text)
    if around is None or any(len(word) >= LONGEST for word in tokens(text)):
        return None
    arguments = _arguments(db, Filter(hidden=True))
    matches: set[int] = set()
    for query, literal in ((_all_words(text), None), (around, fold(text))):
        plain = query.replace(":D", "").replace(":*D", ":*")
        keys = [
            k
            for (k,) in db.rows(
                f"select newest(?::tsquery, null, ?::integer, {_FILTER})",
                (plain, _MANY, *arguments),
            )
        ]
        if len(keys) == _MANY:
            return None
        checked = _CONTAINS if literal is not None else "(not t.opening or t.words @@ ?::tsquery)"
        matches |= {
            k
            for (k,) in db.rows(
                f"select p.key from {_ALL} where p.owner = ?::integer and p.key = any(?::bigint[]) and {checked}",
                (db.owner, keys, literal if literal is not None else query),
            )
        }
    return sorted(matches)


def _words_around(db: Connection, text: str) -> str | None:
    """Passages whose words could contain the text; None when that would be too many."""
    looked_up = indexable(text)
    pieces = tokens(text)
    parts = []
    for number, piece in enumerate(pieces):
        open_left = number == 0 and looked_up.startswith(piece)
        open_right = number == len(pieces) - 1 and looked_up.endswith(piece)
        terms = _terms(db, piece[:LONGEST], open_left, open_right)
        if terms is not None:  # else the other pieces must narrow it down
            parts.append("(" + (" | ".join(f"'{term}'" for term in terms) or "'\x1f'") + ")")
    return " & ".join(parts) if parts else None


def _terms(db: Connection, piece: str, open_left: bool, open_right: bool) -> list[str] | None:
    """The known words that have the piece where the text has it; None for too many."""
    if not (open_left or open_right):
        return [piece]
    if not open_left:
        condition, value = "starts_with(term, ?)", piece
    elif not open_right:
        condition, value = "right(term, ?) = ?", piece
    else:
        condition, value = "strpos(term, ?) > 0", piece
    values = (len(piece), value) if condition.startswith("right") else (value,)
    rows = db.rows(  # a word that was cut may have it further on
        f"""select term from word where owner = ?::integer and {condition}
        union select term from word where owner = ?::integer and length(term) >= {LONGEST} limit ?""",
        (db.owner, *values, db.owner, LIMITS.word_matches + 1),
    )
    return None if len(rows) > LIMITS.word_matches else [term for (term,) in rows]
