"""Synthetic conversations with realistic statistics. The same seed gives the same text.

The vocabulary has 60,000 words in a Zipf distribution: English function words first, then computing
terms, then invented words. Messages average about sixty words with a long tail. They contain what
makes search hard: code, paths, error numbers, stock phrases, text without spaces, and curly quotes,
dashes or emoji in every other message. Everything is generated as a stream, so a larger corpus
takes more time but not more memory.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from recollect.model.documents import Document, Passage, arrange

VOCABULARY_SIZE = 60_000
_BAG_SIZE = 1 << 20
_START = datetime(2023, 1, 1, tzinfo=UTC).timestamp()
_SPAN = 3 * 365 * 86_400.0
_MODEL = "gpt-4o"
_MEAN_CHAT = 50
_TYPOGRAPHIC_SHARE = 0.5  # of messages and titles


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FUNCTION_WORDS = _words("""
the to and a of is in you i it that for this with on be as can are if not or have your but from use
an at my we so do will what by how all when there they would should then one like which more just me
has also about only was get no make need out into than up any some them other want its does these
each their were had been could our time way after before over here where because most see new same
very first while still too two using both between work well without even might such those through
why back now know try set think sure let maybe something used
""")
_TOPIC_WORDS = _words("""
file error function data code server value name string list class test user config run key query
table line type path python database request response index number return message call object module
version token thread memory search cache loop array client install package docker build branch
commit merge deploy log timeout connection reset async await event queue worker lock socket stream
buffer parser schema migration column row join filter sort limit fix debug crash exception traceback
warning variable argument parameter default import export library framework configuration configure
configured environment container cluster node pod service endpoint header cookie session permission
denied password certificate proxy network packet latency throughput benchmark regression model
training garden recipe budget travel flight hotel invoice contract meeting draft paragraph summary
translate email letter
""")
_PHRASES = (
    "connection reset by peer",
    "index out of range",
    "permission denied",
    "no such file or directory",
    "segmentation fault",
    "cannot allocate memory",
    "broken pipe",
    "deadline exceeded",
    "undefined is not a function",
    "database is locked",
    "maximum recursion depth exceeded",
    "too many open files",
)
_TYPOGRAPHY = ("“{}”", "“{}”", "{}’s", "{}’t", "{} —", "{} –", "{}…", "{} 👍", "{} 🎉", "→ {}")
_UNSPACED = (
    "接続がタイムアウトしました。もう一度お試しください。",
    "この関数は空のリストを返します。",
    "設定ファイルが見つかりません。",
    "数据库连接失败，请检查用户名和密码。",
    "如何在不丢失数据的情况下迁移这张表？",
    "테스트가 실패했습니다. 로그를 확인하세요.",
)


# -- words -------------------------------------------------------------------


@cache
def vocabulary() -> tuple[str, ...]:
    """All words, most frequent first."""
    rng = Random("vocabulary")
    onsets = _words("b c d f g h j k l m n p r s t v w z br ch cl dr fl gr pl pr sh sp st th tr")
    vowels = _words("a e i o u a e i o u ai ea ou")
    codas = ("", "", "", "", *_words("n r s t l nd rt sk"))
    real_words = dict.fromkeys(_FUNCTION_WORDS + _TOPIC_WORDS)
    invented: dict[str, None] = {}
    while len(real_words) + len(invented) < VOCABULARY_SIZE:
        syllables = rng.choices((2, 3, 4), (6, 3, 1))[0]
        word = "".join(
            rng.choice(onsets) + rng.choice(vowels) + rng.choice(codas) for _ in range(syllables)
        )
        if word not in real_words:
            invented[word] = None
    return *real_words, *sorted(invented, key=len)  # frequent words are short


@cache
def _bag() -> list[str]:
    """Words repeated in proportion to their Zipf frequency, so that a uniform draw is cheap."""
    weights = [1 / (rank + 2.7) ** 1.05 for rank in range(VOCABULARY_SIZE)]
    scale = _BAG_SIZE / sum(weights)
    copies = (
        [word] * max(1, round(w * scale)) for word, w in zip(vocabulary(), weights, strict=True)
    )
    return list(chain.from_iterable(copies))


def _prose(rng: Random, length: int) -> str:
    words = rng.choices(_bag(), k=length)
    start = 0
    while start < length:
        end = min(start + rng.randint(5, 22), length) - 1
        words[start] = words[start].capitalize()
        words[end] += rng.choice((".", ".", ".", ".", "?", ":", ".\n\n"))
        start = end + 1
    if rng.random() < _TYPOGRAPHIC_SHARE:
        _add_typography(rng, words)
    return " ".join(words).replace("\n ", "\n").rstrip()


def _add_typography(rng: Random, words: list[str]) -> None:
    """Put curly quotes, dashes or emoji next to some words: one in thirty, but at least one."""
    for _ in range(1 + len(words) // 30):
        position = rng.randrange(len(words))
        words[position] = rng.choice(_TYPOGRAPHY).format(words[position])


def _code(rng: Random) -> str:
    noun, verb, other = rng.choices(_TOPIC_WORDS, k=3)
    body = "\n".join(
        f"    {w} = self.{rng.choice(_TOPIC_WORDS)}[{rng.randint(0, 99)}]"
        for w in rng.choices(_bag(), k=4)
    )
    return f"```python\ndef {verb}_{noun}({other}: dict[str, int]) -> None:\n{body}\n```"


def _failure(rng: Random) -> str:
    folder, module = rng.choices(_TOPIC_WORDS, k=2)
    where = f"/srv/{folder}/{rng.choice(_bag())}/{module}.py"
    line, code = rng.randint(1, 900), rng.randint(1000, 99_999)
    return f'File "{where}", line {line}\nError {code}: {rng.choice(_PHRASES)}'


def _reference(rng: Random) -> str:
    host, page = rng.choices(_TOPIC_WORDS, k=2)
    version = f"v{rng.randint(0, 9)}.{rng.randint(0, 40)}.{rng.randint(0, 9)}"
    return f"https://{host}.example.com/{page}?id={rng.getrandbits(40):010x} since {version}"


_MEAN_WORDS = {"user": 25, "assistant": 95, "tool": 40}
_ASIDES = (
    (0.12, _code),
    (0.10, _failure),
    (0.06, _reference),
    (0.04, lambda rng: rng.choice(_PHRASES).capitalize() + "."),
    (0.03, lambda rng: rng.choice(_UNSPACED)),
)


def _text(rng: Random, role: str) -> str:
    # The mean of a log-normal distribution with sigma 1.1 is 1.83 times its median.
    length = min(4_000, 1 + int(_MEAN_WORDS[role] / 1.83 * rng.lognormvariate(0, 1.1)))
    asides = [aside(rng) for chance, aside in _ASIDES if rng.random() < chance]
    return "\n\n".join([_prose(rng, length), *asides])


# -- conversations -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    parent: str | None
    role: str
    text: str
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Chat:
    id: str
    title: str
    turns: tuple[Turn, ...]


def chats(messages: int, seed: int = 0) -> Iterator[Chat]:
    """Conversations, oldest first, with `messages` messages in total."""
    rng = Random(seed)
    count = 0
    while count < messages:
        size = min(messages - count, 2 + int((_MEAN_CHAT - 2) / 1.38 * rng.lognormvariate(0, 0.8)))
        yield _chat(rng, size, _START + _SPAN * count / messages)
        count += size


def _chat(rng: Random, size: int, at: float) -> Chat:
    turns: list[Turn] = []
    parent, role = None, "user"
    for _ in range(size):
        at += rng.expovariate(1 / 45)
        turn = Turn(uuid(rng), parent, role, _text(rng, role), round(at, 6))
        turns.append(turn)
        if role == "assistant" and rng.random() < 0.04:
            continue  # a regenerated answer has the same parent
        parent = turn.id
        role = _next_role(rng, role)
    return Chat(uuid(rng), _prose(rng, rng.randint(2, 7)).rstrip(".?:\n"), tuple(turns))


def _next_role(rng: Random, role: str) -> str:
    if role == "assistant":
        return "tool" if rng.random() < 0.1 else "user"
    return "assistant"


def uuid(rng: Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


def messages(count: int, seed: int = 0) -> Iterator[Turn]:
    return chain.from_iterable(chat.turns for chat in chats(count, seed))


def documents(messages: int, seed: int = 0) -> Iterator[Document]:
    """The same conversations, as an importer yields them."""
    for chat in chats(messages, seed):
        passages = tuple(
            Passage(
                t.id,
                t.role,
                t.text,
                parent=t.parent,
                created_at=_moment(t.at),
                metadata={"status": "finished"},
            )
            for t in chat.turns
        )
        yield arrange(
            Document(
                "bench",
                chat.id,
                chat.title,
                created_at=passages[0].created_at,
                updated_at=passages[-1].created_at,
                head=passages[-1].id,
                passages=passages,
                id=chat.id,
            )
        )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# -- a ChatGPT export --------------------------------------------------------


def write_chatgpt_export(path: Path, messages: int = 180_000, seed: int = 0) -> None:
    """Write a ChatGPT export of `messages` messages, without those that are hidden."""
    write_chats(path, chats(messages, seed))


def write_chats(path: Path, chats: Iterable[Chat]) -> None:
    """Write a `conversations.json` in the format of a ChatGPT export.

    As in real exports, each conversation also has an empty, hidden system message.
    """
    with path.open("w", encoding="utf-8") as file:
        separator = "["
        for chat in chats:
            file.write(separator + json.dumps(_chatgpt_conversation(chat)))
            separator = ", "
        file.write("]")


def _chatgpt_conversation(chat: Chat) -> dict[str, Any]:
    root, system = "client-created-root", f"system-{chat.id}"
    hidden = _chatgpt_message(Turn(system, root, "system", "", 0.0))
    hidden |= {
        "create_time": None,
        "weight": 0.0,
        "metadata": {"is_visually_hidden_from_conversation": True},
    }
    mapping: dict[str, dict[str, Any]] = {
        root: {"id": root, "message": None, "parent": None, "children": [system]},
        system: {"id": system, "message": hidden, "parent": root, "children": []},
    }
    for turn in chat.turns:
        parent = turn.parent or system
        mapping[parent]["children"].append(turn.id)
        mapping[turn.id] = {
            "id": turn.id,
            "message": _chatgpt_message(turn),
            "parent": parent,
            "children": [],
        }
    return {
        "title": chat.title,
        "create_time": chat.turns[0].at,
        "update_time": chat.turns[-1].at,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": chat.turns[-1].id,
        "conversation_id": chat.id,
        "gizmo_id": None,
        "is_archived": False,
        "is_starred": None,
        "safe_urls": [],
        "default_model_slug": _MODEL,
        "voice": None,
        "async_status": None,
        "is_do_not_remember": False,
        "memory_scope": "global_enabled",
        "id": chat.id,
    }


def _chatgpt_message(turn: Turn) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "request_id": turn.id[:18],
        "timestamp_": "absolute",
        "message_type": None,
    }
    if turn.role == "assistant":
        metadata |= {
            "finish_details": {"type": "stop", "stop_tokens": [200002]},
            "citations": [],
            "content_references": [],
            "is_complete": True,
            "model_slug": _MODEL,
            "default_model_slug": _MODEL,
            "parent_id": turn.parent,
        }
    author: dict[str, Any] = {"role": turn.role, "name": None, "metadata": {}}
    content: dict[str, Any] = {"content_type": "text", "parts": [turn.text]}
    if turn.role == "tool":
        author["name"] = "python"
        content = {"content_type": "execution_output", "text": turn.text}
    return {
        "id": turn.id,
        "author": author,
        "create_time": turn.at,
        "update_time": None,
        "content": content,
        "status": "finished_successfully",
        "end_turn": turn.role == "assistant" or None,
        "weight": 1.0,
        "metadata": metadata,
        "recipient": "all",
        "channel": None,
    }


# -- queries -----------------------------------------------------------------


def queries() -> dict[str, str]:
    """One typical query of each kind. Each has matches in a corpus that is not tiny."""
    return {
        "rare word": vocabulary()[-1],
        "common word": "file",
        "two words": "server timeout",
        "phrase": '"connection reset by peer"',
        "prefix": "config*",
        "question": "how do I fix the connection reset error",
        "unspaced script": "設定ファイル",
    }


_QUESTIONS = (
    "how do i fix the {} {} {}",
    "why does my {} {} need the {}",
    "where is the {} for the {} {}",
    "which {} should i use for the {}",
    "how can we make the {} {} work",
    "what are the {} and {} of {}",
    "is there any way to {} the {}",
)


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """A query that each engine writes in its own syntax."""

    kind: str
    words: tuple[str, ...]


def many_queries(count: int, seed: int = 0) -> dict[str, list[SampleQuery]]:
    """`count` distinct queries of each kind, drawn from the corpus with this seed."""
    rng = Random(f"queries {seed}")
    texts = [turn.text for turn in messages(3_000, seed)]
    common = _common_words(texts)
    rare = vocabulary()[VOCABULARY_SIZE // 2 :]
    makers: dict[str, Callable[[], str]] = {
        "question": lambda: rng.choice(_QUESTIONS).format(*_subjects(rng)),
        "common word": lambda: rng.choice(common),
        "prefix": lambda: rng.choice(_TOPIC_WORDS)[: rng.randint(3, 5)],
        "phrase": lambda: _phrase(rng, texts),
        "rare word": lambda: rng.choice(rare),
        "two words, AND": lambda: " ".join(rng.sample(_TOPIC_WORDS, 2)),
        "three words, OR": lambda: " ".join(_subjects(rng)),
    }
    return {
        kind: [SampleQuery(kind, tuple(q.split())) for q in _distinct(make, count)]
        for kind, make in makers.items()
    }


def _distinct(make: Callable[[], str], count: int) -> list[str]:
    queries: dict[str, None] = {}
    for _ in range(100 * count):
        queries[make()] = None
        if len(queries) == count:
            break
    return list(queries)


def _subjects(rng: Random) -> list[str]:
    """Three words to ask about: usually computing terms, sometimes a rarer word."""
    words = rng.sample(_TOPIC_WORDS, 3)
    for position in range(3):
        if rng.random() >= 0.75:
            words[position] = vocabulary()[rng.randint(300, 20_000)]
    return words


def _common_words(texts: list[str]) -> list[str]:
    """Words of three letters or more that occur in at least a tenth of the texts."""
    frequencies = Counter(
        chain.from_iterable(set(re.findall(r"[a-z]{3,}", text.lower())) for text in texts)
    )
    return sorted(word for word, count in frequencies.items() if count >= len(texts) / 10)


def _phrase(rng: Random, texts: list[str]) -> str:
    """A stock phrase, or two or three consecutive words of some text."""
    if rng.random() < 0.25:
        return rng.choice(_PHRASES)
    while True:
        words = re.findall(
            rf"[a-z]{{2,}}(?: [a-z]{{2,}}){{{rng.randint(1, 2)}}}(?= )", rng.choice(texts)
        )
        if words:
            return str(rng.choice(words))
