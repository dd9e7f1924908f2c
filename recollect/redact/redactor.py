"""Find secrets in text, and redact them in texts, JSON values and documents.

The rules are those of gitleaks (rules.json) and our own (own_rules.toml). RE2 matches them in time
linear in the length of the text, whatever the text is. First, one automaton finds the keywords of
all rules. Only rules whose keywords occur are tried, in most texts few or none.

In documents, passages, titles and metadata are redacted; identifiers are not: ids, the project, and
the names of authors, models and tools.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from recollect.language.symbols import CODE_STARTS, code_spans
from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION

SecretCounts = Counter[str]
"""The number of secrets of each kind."""
Span = tuple[int, int, str]
"""The start and end of a secret in the bytes of a text, and its kind."""

MARK = "[redacted:{}]"
_MARKS = re.compile(rb"\[redacted:[a-z0-9-]+\]")
_MIN_UNMARKED = 4  # bytes that a secret must have besides marks in it
_MAX_ROUNDS = 16
_SECRET_NAMES = ("key", "token", "secret", "pass", "pwd", "auth", "cred")
_NAMED_CHARACTERS = 4_096  # a longer value is not a secret because of its name
_LINE_BYTES = 1_000  # of a line before and after a secret that an allowlist sees
_GENERIC_KINDS = ("password", "authorization", "api-key", "generic-api-key")
"""The least specific kinds, the most specific of them first."""
_CODE_STARTS = tuple(start.encode() for start in CODE_STARTS)


# -- redacting -----------------------------------------------------------------


def redact_text(text: str) -> tuple[str, SecretCounts]:
    """The text with every secret replaced by `[redacted:<kind>]`, and the secrets' counts."""
    (clean,), counts = redact_parts([text])
    return clean, counts


def redact_parts(texts: Sequence[str]) -> tuple[list[str], SecretCounts]:
    """Redact the parts of one text. A secret in several parts is marked where it begins."""
    counts: SecretCounts = Counter()
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    for _ in range(_MAX_ROUNDS):  # removing a secret can reveal another one next to it
        spans = find_secrets(b"".join(parts))
        if not spans:
            break
        counts.update(kind for _, _, kind in spans)
        parts = replace_spans(parts, spans)
    if not counts:
        return list(texts), counts
    return [part.decode("utf-8", "surrogatepass") for part in parts], counts


def redact_value(value: Any, counts: SecretCounts, name: str = "") -> Any:
    """Redact every text in a JSON value and add to `counts`; returns the same object if clean.

    A text may be a secret because of its `name`: {"api_key": "…"}.
    """
    if isinstance(value, str):
        return redact_named(value, name, counts)
    if isinstance(value, Mapping):
        clean = {key: redact_value(item, counts, str(key)) for key, item in value.items()}
        return value if all(clean[key] is item for key, item in value.items()) else clean
    if isinstance(value, (list, tuple)):
        items = [redact_value(item, counts, name) for item in value]
        if all(item is original for item, original in zip(items, value, strict=True)):
            return value
        return type(value)(items)
    return value


def redact_named(text: str, name: str, counts: SecretCounts) -> str:
    clean, secrets = redact_text(text)
    counts.update(secrets)
    is_secret_name = any(word in name.lower() for word in _SECRET_NAMES)
    if len(clean) > _NAMED_CHARACTERS or not is_secret_name:
        return clean
    if '"' in clean or "\n" in clean:
        return clean
    prefix = f'{name}: "'
    assignment, secrets = redact_text(f'{prefix}{clean}"')
    if not secrets or not assignment.startswith(prefix):
        return clean
    counts.update(secrets)
    return assignment[len(prefix) : -1]


def replace_spans(parts: Sequence[bytes], spans: Iterable[Span]) -> list[bytes]:
    """The parts of a text with marks in the place of the spans, which are sorted and disjoint."""
    replaced: list[bytes] = []
    remaining = iter((*spans, None))
    span = next(remaining)
    part_start = 0
    for part in parts:
        part_end = part_start + len(part)
        position = part_start
        pieces: list[bytes] = []
        while span is not None and span[0] < part_end:
            start, end, kind = span
            if start >= part_start:
                pieces.append(part[position - part_start : start - part_start])
                pieces.append(MARK.format(kind).encode())
            position = min(end, part_end)
            if end > part_end:  # the span continues in the next part
                break
            span = next(remaining)
        pieces.append(part[position - part_start :])
        replaced.append(b"".join(pieces))
        part_start = part_end
    return replaced


# -- finding -------------------------------------------------------------------


def find_secrets(text: bytes) -> list[Span]:
    """The secrets in a text in order, without overlaps.

    The output of programs may have colours before, after or inside a secret. So it is searched
    with the codes as spaces, and without them.
    """
    codes = terminal_codes(text)
    if not codes:
        return match_rules(text)
    bounds = [0, *(place for span in codes for place in span), len(text)]
    # Texts and codes in turn.
    parts = [text[start:end] for start, end in pairwise(bounds)]
    joined = b"".join(parts[::2])
    parts[1::2] = [b" " * len(code) for code in parts[1::2]]
    ends = list(accumulate(map(len, parts[::2])))

    def place(position: int) -> int:
        """Where a byte of the joined texts is."""
        number = min(bisect(ends, position), len(ends) - 1)
        return bounds[2 * number + 1] - (ends[number] - position)

    spans = match_rules(b"".join(parts))
    spans += [(place(start), place(end - 1) + 1, kind) for start, end, kind in match_rules(joined)]
    return merge_overlaps(spans)


def terminal_codes(text: bytes) -> list[tuple[int, int]]:
    """Where the codes of a terminal start and end, in bytes."""
    if not any(start in text for start in _CODE_STARTS):
        return []
    characters = text.decode("utf-8", "surrogatepass")
    spans = []
    previous = position = 0
    for start, end in code_spans(characters):
        first = position + len(characters[previous:start].encode("utf-8", "surrogatepass"))
        position = first + len(characters[start:end].encode())
        previous = end
        spans.append((first, position))
    return spans


def match_rules(text: bytes) -> list[Span]:
    """The secrets in a text without terminal codes, in order and without overlaps."""
    keywords, rules_of_keywords = rule_set()
    rules = {
        id(rule): rule for index in keywords.Match(text) or () for rule in rules_of_keywords[index]
    }
    return merge_overlaps([span for rule in rules.values() for span in rule.find(text)])


def merge_overlaps(spans: list[Span]) -> list[Span]:
    """Merge overlapping spans into one of the most specific kind."""

    def generality(kind: str) -> int:
        return _GENERIC_KINDS.index(kind) if kind in _GENERIC_KINDS else -1

    merged: list[Span] = []
    for start, end, kind in sorted(spans):
        if merged and start < merged[-1][1]:
            first_start, first_end, first_kind = merged[-1]
            specific = min(first_kind, kind, key=generality)
            merged[-1] = (first_start, max(first_end, end), specific)
        else:
            merged.append((start, end, kind))
    return merged


# -- rules ---------------------------------------------------------------------


class Allowlist(NamedTuple):
    """Text that looks like a secret but is none."""

    regexes: Sequence[str] = ()
    target: str = "secret"
    """What the regexes are matched with: the "secret", the whole "match", or its "line"."""
    stopwords: str = ""

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> Allowlist:
        words = "|".join(map(re.escape, definition.get("stopwords", ())))
        return cls(
            definition.get("regexes", ()),
            definition.get("regexTarget", "secret"),
            f"(?i){words}" if words else "",
        )

    def allows(self, secret: bytes, match: Any, text: bytes) -> bool:
        if self.stopwords and compile_re2(self.stopwords).search(secret):
            return True
        target = secret
        if self.target == "match":
            target = match.group(0)
        elif self.target == "line":  # cut on both sides if it is long
            start = text.rfind(b"\n", 0, match.start()) + 1
            end = text.find(b"\n", match.end())
            end = len(text) if end < 0 else end
            target = text[
                max(start, match.start() - _LINE_BYTES) : min(end, match.end() + _LINE_BYTES)
            ]
        return any(compile_re2(pattern).search(target) for pattern in self.regexes)


class Rule(NamedTuple):
    """A rule for secrets of one kind. It is compiled when it is first needed."""

    kind: str
    regex: str
    allowlists: Sequence[Allowlist]
    entropy: float
    """The least entropy of a secret, in bits per byte."""
    group: int
    """The group with the secret; 0 for the first one that matched something."""
    least: int
    """The least length of a secret."""

    def find(self, text: bytes) -> list[Span]:
        spans: list[Span] = []
        for match in compile_re2(self.regex).finditer(text):
            groups = range(1, match.re.groups + 1)
            group = self.group or next((n for n in groups if match.group(n)), 0)
            secret = match.group(group)
            length = len(_MARKS.sub(b"", secret))
            if length < self.least or (length < len(secret) and length < _MIN_UNMARKED):
                continue
            if self.entropy and _entropy(secret) <= self.entropy:
                continue
            if not any(allowlist.allows(secret, match, text) for allowlist in self.allowlists):
                spans.append((*match.span(group), self.kind))
        return spans


def all_rules() -> list[tuple[Rule, list[str]]]:
    """All rules, each with its keywords: our own first."""
    folder = Path(__file__).parent
    gitleaks = json.loads((folder / "rules.json").read_text(encoding="utf-8"))
    own = tomllib.loads((folder / "own_rules.toml").read_text(encoding="utf-8"))
    rules = []
    for definition in (*own["rules"], *gitleaks["rules"]):
        placeholders = own["placeholders"] if definition.get("placeholders") else []
        allowlists = [
            gitleaks["allowlist"],
            *definition.get("allowlists", ()),
            own["allowlists"].get(definition["id"], {}),
            {"regexes": [*placeholders, *definition.get("allowed", ())]},
        ]
        rule = Rule(
            definition["id"],
            definition["regex"],
            [Allowlist.of(allowlist) for allowlist in allowlists],
            definition.get("entropy", 0),
            definition.get("secretGroup", 0),
            definition.get("least", 1),
        )
        rules.append((rule, definition["keywords"]))
    return rules


@cache
def rule_set() -> tuple[Any, list[list[Rule]]]:
    """An automaton that finds the keywords of all rules, and the rules of each keyword."""
    by_keyword: dict[str, list[Rule]] = {}
    for rule, keywords in all_rules():
        for keyword in keywords:
            by_keyword.setdefault(keyword, []).append(rule)
    return automaton(map(re.escape, by_keyword)), list(by_keyword.values())


def automaton(patterns: Iterable[str]) -> Any:
    """Finds in one pass which of these patterns, in any case, a text matches."""
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    rules = re2.Set.SearchSet(options)
    for pattern in patterns:
        rules.Add(pattern)
    rules.Compile()
    return rules


@cache
def compile_re2(pattern: str, *, ignore_case: bool = False) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    return re2.compile(pattern.encode(), options)


def _entropy(secret: bytes) -> float:
    """The Shannon entropy in bits per byte."""
    size = len(secret)
    return -sum(n / size * math.log2(n / size) for n in Counter(secret).values())


# -- documents -----------------------------------------------------------------

_TITLE_PASSAGES = 20  # a title may be the beginning of one of the first passages


def redact_document(document: Document) -> tuple[Document, SecretCounts]:
    """The document without secrets, and their counts; the same object if it has none."""
    counts: SecretCounts = Counter()
    if document.kind == CONVERSATION:
        passages = [redact_passage(passage, counts) for passage in document.passages]
    else:  # chunks of a text, or chunks of fields
        passages = []
        for _, chunks in groupby(document.passages, key=lambda passage: passage.role):
            passages += redact_chunks(list(chunks), counts)
    title = redact_title(document, passages, counts)
    metadata = redact_value(document.metadata, counts)
    if not counts:
        return document, counts
    clean = replace(document, title=title, passages=tuple(passages), metadata=metadata)
    return clean, counts


def redact_passage(passage: Passage, counts: SecretCounts) -> Passage:
    content, secrets = redact_text(passage.content)
    counts.update(secrets)
    return with_content(passage, content, counts)


def with_content(passage: Passage, content: str, counts: SecretCounts) -> Passage:
    """The passage with a clean content, its other fields redacted."""
    clean = passage._replace(
        content=content,
        metadata=redact_value(passage.metadata, counts),
        attachments=redact_value(passage.attachments, counts),
        citations=redact_value(passage.citations, counts),
    )
    is_unchanged = (
        content == passage.content
        and clean.metadata is passage.metadata
        and clean.attachments is passage.attachments
        and clean.citations is passage.citations
    )
    if is_unchanged:
        return passage
    return clean


# -- chunks ------------------------------------------------------------------


def redact_chunks(chunks: Sequence[Passage], counts: SecretCounts) -> list[Passage]:
    """Redact the chunks of one text together, because a secret may be in several."""
    cuts = [_cuts(chunk) for chunk in chunks]
    pieces = [
        chunk.content[start:end]
        for chunk, positions in zip(chunks, cuts, strict=True)
        for start, end in pairwise(positions)
    ]
    clean_pieces, secrets = redact_parts(pieces)
    counts.update(secrets)
    if not secrets:
        return [with_content(chunk, chunk.content, counts) for chunk in chunks]
    remaining = iter(clean_pieces)
    passages: list[Passage] = []
    start = 0
    for chunk, positions in zip(chunks, cuts, strict=True):
        chunk_pieces = [next(remaining) for _ in pairwise(positions)]
        passages.append(redacted_chunk(chunk, chunk_pieces, start, counts))
        start += sum(map(len, chunk_pieces))
    return passages


def _cuts(chunk: Passage) -> list[int]:
    """Where to cut a chunk so that its cues and pages begin at cuts."""
    cues = chunk.metadata.get("cues") or ()
    positions = [cue[0] for cue in cues] or chunk.metadata.get("page_breaks") or ()
    length = len(chunk.content)
    return [0, *(min(position, length) for position in positions), length]


def redacted_chunk(chunk: Passage, pieces: list[str], start: int, counts: SecretCounts) -> Passage:
    content = "".join(pieces)
    metadata: dict[str, Any] = dict(chunk.metadata)
    if "start" in metadata and "end" in metadata:
        metadata |= {"start": start, "end": start + len(content)}
    positions = accumulate(map(len, pieces[:-1]))
    if metadata.get("cues"):
        metadata["cues"] = [
            [position, *cue[1:]] for position, cue in zip(positions, metadata["cues"], strict=True)
        ]
    elif metadata.get("page_breaks"):
        metadata["page_breaks"] = list(positions)
    return with_content(chunk._replace(metadata=metadata), content, counts)


# -- titles ------------------------------------------------------------------


def redact_title(document: Document, passages: Sequence[Passage], counts: SecretCounts) -> str:
    """The clean title. It may be the beginning of a message, cut off inside a secret."""
    title, secrets = redact_text(document.title)
    counts.update(secrets)
    beginning = title.rstrip("….")
    if not beginning:
        return title
    for original, clean in changed_passages(document.passages, passages):
        if first_words(original.content, title).startswith(beginning):
            words = first_words(clean.content, title)
            if not words.startswith(beginning):
                return words[: len(title)]
    return title


def changed_passages(
    originals: Sequence[Passage], passages: Sequence[Passage]
) -> Iterator[tuple[Passage, Passage]]:
    for original, clean in zip(originals[:_TITLE_PASSAGES], passages, strict=False):
        if original.content != clean.content:
            yield original, clean


def first_words(content: str, title: str) -> str:
    """The beginning of a message on one line, as titles are made from it."""
    return " ".join(content[: 4 * len(title) + 1_000].split())
