"""Recording requests: which conversation they belong to, what is stored, how answers are parsed."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from upstream import events

import recollect
from recollect import Document, Passage
from recollect.capture.model_answers import Answer, AnswerReader, Choice
from recollect.capture.recording import ChatRequest, Recorder, Recording, parse_turns

EVENTS = "text/event-stream"


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def system(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


def answer(*texts: str, is_complete: bool = True, **message: Any) -> Answer:
    choices = tuple(Choice(n, assistant(text, **message), "stop") for n, text in enumerate(texts))
    return Answer(choices, "model-1", "chatcmpl-1", {"total_tokens": 8}, is_complete)


class Chat:
    """A client that keeps its history and sends all of it each time."""

    def __init__(self, library: recollect.Library, recorder: Recorder | None = None) -> None:
        self.library = library
        self.recorder = recorder or Recorder()

    def begin(self, *messages: Any, **more: Any) -> Recording:
        recording = self.recorder.begin(self.library, "somebody", ChatRequest(messages, **more))
        assert recording is not None
        self.recorder.save_request(self.library, recording)
        return recording

    def say(self, *messages: Any, to: str | Answer = "Yes.", **more: Any) -> str:
        """Record a request and its answer. Returns the ID of the conversation."""
        recording = self.begin(*messages, **more)
        reply = to
        if isinstance(reply, str):
            reply = answer(reply)
        self.recorder.save_answer(self.library, recording, reply)
        self.recorder.end(recording, has_answer=reply.is_complete)
        return recording.conversation


@pytest.fixture
def chat(library: recollect.Library) -> Iterator[Chat]:
    yield Chat(library)


def messages_of(document: Document) -> list[tuple[str | None, str]]:
    return [(p.role, p.content) for p in document.passages]


def canonical(document: Document) -> list[str]:
    return [p.content for p in document.passages if p.canonical]


def parent_of(document: Document, content: str) -> str | None:
    by_id = {p.id: p for p in document.passages}
    (passage,) = [p for p in document.passages if p.content == content]
    if passage.parent is None:
        return None
    return by_id[passage.parent].content


# -- sessions ------------------------------------------------------------------


def test_a_history_continues_its_conversation(chat: Chat) -> None:
    first = chat.say(user("Hello"), to="Hi.")
    again = chat.say(user("Hello"), assistant("Hi."), user("And now?"), to="Now this.")
    assert again == first
    document = chat.library.conversation(first)
    assert messages_of(document) == [
        ("user", "Hello"),
        ("assistant", "Hi."),
        ("user", "And now?"),
        ("assistant", "Now this."),
    ]
    assert all(p.canonical for p in document.passages)
    assert (document.source, document.title, document.project) == ("proxy", "Hello", "default")
    assert document.passages[1].model == "model-1"
    assert document.passages[1].metadata == {
        "finish_reason": "stop",
        "usage": {"total_tokens": 8},
        "response_id": "chatcmpl-1",
    }


def test_an_edited_question_creates_a_branch(chat: Chat) -> None:
    first = chat.say(user("Hello"), to="Hi.")
    chat.say(user("Hello"), assistant("Hi."), user("Cats?"), to="Meow.")
    assert chat.say(user("Hello"), assistant("Hi."), user("Dogs?"), to="Wuff.") == first
    document = chat.library.conversation(first)
    assert canonical(document) == ["Hello", "Hi.", "Dogs?", "Wuff."]
    assert parent_of(document, "Cats?") == parent_of(document, "Dogs?") == "Hi."
    chat.say(
        user("Hello"), assistant("Hi."), user("Cats?"), assistant("Meow."), user("More"), to="Purr."
    )
    assert canonical(chat.library.conversation(first)) == [
        "Hello",
        "Hi.",
        "Cats?",
        "Meow.",
        "More",
        "Purr.",
    ]


def test_a_repeated_request_is_stored_once(chat: Chat) -> None:
    failed = chat.begin(user("Hello"))
    chat.recorder.end(failed, has_answer=False)
    assert chat.say(user("Hello"), to="Hi.") == failed.conversation
    history = (user("Hello"), assistant("Hi."), user("More"))
    chat.recorder.end(chat.begin(*history), has_answer=False)
    chat.say(*history, to="Sure.")
    chat.say(*history, to="Sure.")
    assert len(chat.library.conversation(failed.conversation).passages) == 4


def test_an_explicit_retry_joins_the_pending_request(
    chat: Chat,
) -> None:
    waiting = chat.begin(user("Hello"))
    assert chat.begin(user("Hello"), is_retry=True).conversation == waiting.conversation


def test_few_shot_examples_do_not_join_conversations(chat: Chat) -> None:
    examples = (user("2+2"), assistant("4"), user("3+3"), assistant("6"))
    first = chat.say(*examples, user("5+5"), to="10")
    second = chat.say(*examples, user("7+7"), to="14")
    assert first != second
    assert chat.say(*examples, user("7+7"), assistant("14"), user("8+8")) == second
    assert len(chat.library.conversation(second).passages) == 8


@pytest.mark.parametrize(
    "sent_back",
    [
        "Hi.\n",
        "  Hi. ",
        [{"type": "text", "text": "Hi."}],
    ],
)
def test_an_answer_is_recognized_after_a_client_trims_it(chat: Chat, sent_back: Any) -> None:
    first = chat.say(user("Hello"), to=" Hi.\n\n")
    assert chat.say(user("Hello "), assistant(sent_back), user("a")) == first


# -- sessions with a name --------------------------------------------------------


def test_a_session_is_one_conversation_whatever_its_history(chat: Chat) -> None:
    first = chat.say(user("Hello"), to="Hi.", session="s-1", project="work")
    assert chat.say(user("Something else"), to="Well.", session="s-1") == first
    assert chat.say(user("Hello"), to="Hi.", session="s-2") != first
    document = chat.library.conversation(first)
    assert canonical(document) == ["Hello", "Hi.", "Something else", "Well."]
    assert (document.project, document.source_id) == ("work", "s-1")


def test_a_session_stays_in_order_if_the_client_sends_only_recent_messages(chat: Chat) -> None:
    history: list[Any] = []
    for number in range(12):
        history.append(user("yes" if number % 3 else f"question {number}"))
        chat.say(*history[-5:], to=f"answer {number}", session="s")
        history.append(assistant(f"answer {number}"))
    document = chat.library.conversation(chat.begin(user("x"), session="s").conversation)
    assert canonical(document)[:-1] == [m["content"] for m in history]
    assert len(document.passages) == len(history) + 1


# -- what is stored --------------------------------------------------------------


def test_choices_are_branches_and_the_conversation_follows_the_one_sent_back(chat: Chat) -> None:
    first = chat.say(user("Name one"), to=answer("Ada", "Bea", "Cleo"))
    document = chat.library.conversation(first)
    assert canonical(document) == ["Name one", "Ada"]
    assert {p.content: p.metadata["choice"] for p in document.passages[1:]} == {
        "Ada": 0,
        "Bea": 1,
        "Cleo": 2,
    }
    assert chat.say(user("Name one"), assistant("Bea"), user("Why?"), to="So.") == first
    assert canonical(chat.library.conversation(first)) == ["Name one", "Bea", "Why?", "So."]


CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Rome", "days": 2}'},
}


def test_tool_calls_and_their_results_are_stored(chat: Chat) -> None:
    question = user("Weather?")
    first = chat.say(
        question,
        to=Answer((Choice(0, assistant(None, tool_calls=[CALL]), "tool_calls"),), "model-1"),
    )
    same_call = {
        **CALL,
        "function": {"name": "weather", "arguments": '{"days":2,"city":"Rome"}'},
    }
    result = {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"}
    answer_with_call = assistant("", tool_calls=[same_call])
    assert chat.say(question, answer_with_call, result, to="It is sunny.") == first
    passages = chat.library.conversation(first).passages
    assert [(p.role, p.type, p.tool, p.content) for p in passages] == [
        ("user", "message", None, "Weather?"),
        ("assistant", "tool_call", "weather", "weather\ncity: Rome\ndays: 2"),
        ("tool", "tool_result", "weather", "Sunny"),
        ("assistant", "message", None, "It is sunny."),
    ]
    assert passages[1].metadata == {"call_id": "call_1", "finish_reason": "tool_calls"}
    assert passages[2].metadata == {"call_id": "call_1"}


def test_an_interrupted_answer_is_marked_and_the_next_one_is_a_branch(chat: Chat) -> None:
    first = chat.say(user("Tell"), to=answer("Once upon", is_complete=False))
    assert chat.library.conversation(first).passages[1].metadata["interrupted"] is True
    assert chat.say(user("Tell"), to="Once upon a time.") == first
    document = chat.library.conversation(first)
    assert canonical(document) == ["Tell", "Once upon a time."] and len(document.passages) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "image_url",
                    "url",
                    "tool_calls",
                    "function",
                    "name",
                    "id",
                    "arguments",
                    "refusal",
                    "audio",
                    "data",
                    "file",
                    "file_data",
                    "input_audio",
                    "function_call",
                ]
            ),
            inner
            | st.sampled_from(
                ["user", "assistant", "tool", "system", "text", "image_url", "file", "input_audio"]
            ),
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.lists(JSON, max_size=4))
def test_messages_of_any_shape_can_be_parsed(messages: list[Any]) -> None:
    for turn in parse_turns(messages):
        assert turn.passages and all(
            isinstance(p, Passage) and isinstance(p.content, str) for p in turn.passages
        )


# -- answers in chunks -----------------------------------------------------------

STREAM = events(
    [{"role": "assistant", "reasoning_content": "Hm, "}, {"role": "assistant", "content": "Zwei"}],
    [{"reasoning_content": "ja."}, {}],
    [{"content": "Grüße 👋 "}, {"content": "tens"}],
    {"content": "an alle\n\ndata: x"},
    {
        "tool_calls": [
            {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
        ]
    },
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
    {
        "tool_calls": [
            {
                "index": 1,
                "id": "c2",
                "type": "function",
                "function": {"name": "g", "arguments": "{}"},
            }
        ]
    },
    {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
)
MESSAGES = [
    {
        "reasoning_content": "Hm, ja.",
        "content": "Grüße 👋 an alle\n\ndata: x",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    },
    {"content": "Zweitens"},
]


def read_answer(
    body: bytes, cuts: list[int], encoding: str = "", kind: str = EVENTS, complete: bool = True
) -> Answer | None:
    reader = AnswerReader(kind, encoding)
    places = sorted({0, len(body), *(c % (len(body) + 1) for c in cuts)})
    for start, end in itertools.pairwise(places):
        reader.feed(body[start:end])
    return reader.answer(complete=complete)


@given(
    st.lists(st.integers(0, 1_000_000), max_size=60),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "gzip", "deflate"]),
)
def test_a_stream_gives_the_same_answer_however_it_is_chunked(
    cuts: list[int], line_end: str, compression: str
) -> None:
    body = STREAM.replace(b"\n", line_end.encode())
    if compression == "gzip":
        body = gzip.compress(body)
    elif compression == "deflate":
        body = zlib.compress(body)
    reply = read_answer(body, cuts, compression)
    assert reply is not None and reply.is_complete
    assert [c.message for c in reply.choices] == MESSAGES
    assert [c.finish_reason for c in reply.choices] == ["stop", "stop"]
    assert (reply.model, reply.id) == ("stand-in-1", "chatcmpl-2")
    assert reply.usage == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}


@given(
    st.binary(max_size=200),
    st.sampled_from(["", "gzip", "deflate", "br"]),
    st.sampled_from([EVENTS, "text/html"]),
)
def test_the_reader_accepts_any_bytes(body: bytes, encoding: str, kind: str) -> None:
    assert_valid(read_answer(body, [3, 5], encoding, kind))
    event = b'data: {"choices": [' + body + b"]}\n\n"
    assert_valid(read_answer(event, [7], "", kind, complete=False))


def assert_valid(reply: Answer | None) -> None:
    if reply is not None:
        assert all(isinstance(choice.message, dict) for choice in reply.choices)


@pytest.mark.parametrize("complete", [True, False])
def test_a_stream_without_an_end_marker_is_complete_if_the_model_finished(complete: bool) -> None:
    body = events({"content": "Hi"}, done=False)
    finished = read_answer(body, [], complete=complete)
    unfinished = read_answer(body.split(b'"stop"')[0], [], complete=complete)
    assert finished is not None and finished.is_complete
    assert unfinished is not None and not unfinished.is_complete


def test_an_answer_over_the_memory_limit_is_truncated() -> None:
    reader = AnswerReader(EVENTS, limit=2_000)
    for _ in range(50):
        reader.feed(events({"content": "x" * 100}, done=False))
    reply = reader.answer(complete=True)
    assert reply is not None and not reply.is_complete and not reader.is_readable
    bomb = AnswerReader("application/json", "gzip", limit=10_000)
    bomb.feed(gzip.compress(b"\0" * 10_000_000))
    assert bomb.answer(complete=True) is None and not bomb.is_readable
