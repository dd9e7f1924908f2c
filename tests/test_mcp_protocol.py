"""The dispatcher: both eras, their errors, and anything a client may send."""

from __future__ import annotations

import json
import logging
from typing import Any

import mcp_types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import methods

from recollect import __version__
from recollect.serve.mcp.catalog import CONVERSATION_SEARCH, Catalog, ToolError
from recollect.serve.mcp.protocol import INSTRUCTIONS, Dispatcher, RpcError, decode, encode

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Answers(Catalog):
    """A catalogue whose tool says what it was asked, or fails."""

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        if "refuse" in arguments:
            raise ToolError("Error: refused")
        if "crash" in arguments:
            raise RuntimeError("secret")
        return f"{name} {sorted(arguments)}"


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher(Answers())


def ask(dispatcher: Dispatcher, method: str, params: Any = None, **more: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params}), **more}
    return dispatcher.handle(message)


def result(dispatcher: Dispatcher, method: str, params: Any = None) -> Any:
    answer = ask(dispatcher, method, params)
    assert answer.keys() == {"jsonrpc", "id", "result"}, answer
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
    return answer["result"]


def code(answer: Any) -> int:
    assert answer.keys() == {"jsonrpc", "id", "error"}, answer
    number: int = answer["error"]["code"]
    return number


def modern(**params: Any) -> dict[str, Any]:
    return {"_meta": dict(ENVELOPE), **params}


# -- the era of the handshake ----------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_initialize_agrees_on_every_version_of_its_era(dispatcher: Dispatcher, version: str) -> None:
    answer = result(dispatcher, "initialize", {"protocolVersion": version, "capabilities": {}})
    assert answer["protocolVersion"] == version
    assert answer["serverInfo"]["name"] == "recollect"
    assert answer["serverInfo"]["version"] == __version__
    assert answer["capabilities"] == {"tools": {}}
    methods.parse_server_result("initialize", version, answer)


@pytest.mark.parametrize("version", [MODERN, "1999-01-01", "2099-01-01", ""])
def test_initialize_answers_its_newest_version_to_any_other(dispatcher: Dispatcher, version: str) -> None:
    assert result(dispatcher, "initialize", {"protocolVersion": version})["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [None, {}, {"protocolVersion": 5}])
def test_initialize_without_a_version_is_refused(dispatcher: Dispatcher, params: Any) -> None:
    assert code(ask(dispatcher, "initialize", params)) == -32602


def test_initialize_belongs_to_the_first_era_whatever_it_carries(dispatcher: Dispatcher) -> None:
    answer = result(dispatcher, "initialize", modern(protocolVersion="2025-06-18"))
    assert answer["protocolVersion"] == "2025-06-18"
    assert "resultType" not in answer


def test_ping_and_log_levels_are_answered_with_nothing(dispatcher: Dispatcher) -> None:
    assert result(dispatcher, "ping") == {}
    assert result(dispatcher, "logging/setLevel", {"level": "debug"}) == {}
    assert code(ask(dispatcher, "logging/setLevel", {"level": ["loud"]})) == -32602


@pytest.mark.parametrize("version", HANDSHAKE)
def test_results_of_the_first_era_are_valid_for_the_official_sdk(dispatcher: Dispatcher, version: str) -> None:
    listed = result(dispatcher, "tools/list")
    called = result(dispatcher, "tools/call", {"name": "conversation_search", "arguments": {"query": "x"}})
    methods.parse_server_result("tools/list", version, listed)
    methods.parse_server_result("tools/call", version, called)
    assert "resultType" not in listed and "ttlMs" not in listed
    assert called == {"content": [{"type": "text", "text": "conversation_search ['query']"}], "isError": False}


@pytest.mark.parametrize(
    "method",
    ["resources/list", "resources/read", "prompts/list", "completion/complete", "tasks/list", "x" * 9_999, ""],
)
def test_methods_that_were_not_announced_do_not_exist(dispatcher: Dispatcher, method: str) -> None:
    for params in ({}, modern()):
        answer = ask(dispatcher, method, params)
        assert code(answer) == -32601
        assert len(answer["error"]["message"]) < 200


# -- the stateless era -----------------------------------------------------


def test_discover_introduces_the_server(dispatcher: Dispatcher) -> None:
    answer = result(dispatcher, "server/discover", modern())
    assert answer["supportedVersions"] == [MODERN]
    assert answer["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "recollect"
    assert isinstance(methods.parse_server_result("server/discover", MODERN, answer), mcp_types.DiscoverResult)


def test_results_of_the_stateless_era_are_complete_and_cacheable(dispatcher: Dispatcher) -> None:
    listed = result(dispatcher, "tools/list", modern())
    called = result(dispatcher, "tools/call", modern(name="conversation_search", arguments={}))
    assert listed["resultType"] == called["resultType"] == "complete"
    assert listed["ttlMs"] >= 0 and listed["cacheScope"] == "private"
    assert "ttlMs" not in called
    methods.parse_server_result("tools/list", MODERN, listed)
    methods.parse_server_result("tools/call", MODERN, called)


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "notifications/initialized", "resources/subscribe"])
def test_what_the_stateless_era_removed_does_not_exist_in_it(dispatcher: Dispatcher, method: str) -> None:
    assert code(ask(dispatcher, method, modern(level="info"))) == -32601


def test_an_unsupported_version_is_refused_with_those_that_are(dispatcher: Dispatcher) -> None:
    meta = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    for method in ("server/discover", "tools/list"):
        answer = ask(dispatcher, method, {"_meta": meta})
        assert code(answer) == -32022
        assert answer["error"]["data"] == {"supported": [MODERN, *reversed(HANDSHAKE)], "requested": "2099-01-01"}


@pytest.mark.parametrize("key", list(ENVELOPE))
def test_an_envelope_that_is_incomplete_names_what_is_missing(dispatcher: Dispatcher, key: str) -> None:
    meta = {k: v for k, v in ENVELOPE.items() if k != key}
    answer = ask(dispatcher, "server/discover", {"_meta": meta})
    assert code(answer) == -32602
    assert key in answer["error"]["message"]


@pytest.mark.parametrize("params", [None, {}, {"_meta": None}, {"_meta": []}, {"_meta": {}}])
def test_discover_needs_an_envelope(dispatcher: Dispatcher, params: Any) -> None:
    assert code(ask(dispatcher, "server/discover", params)) == -32602


@pytest.mark.parametrize("change", [{"protocolVersion": 20260728}, {"clientCapabilities": []}])
def test_an_envelope_of_the_wrong_types_is_refused(dispatcher: Dispatcher, change: dict[str, Any]) -> None:
    meta = ENVELOPE | {f"io.modelcontextprotocol/{key}": value for key, value in change.items()}
    assert code(ask(dispatcher, "tools/list", {"_meta": meta})) == -32602


def test_each_request_chooses_its_era(dispatcher: Dispatcher) -> None:
    assert "resultType" in result(dispatcher, "tools/list", modern())
    assert "resultType" not in result(dispatcher, "tools/list", {"_meta": {"progressToken": 1}})
    result(dispatcher, "initialize", {"protocolVersion": "2025-11-25"})
    assert "resultType" in result(dispatcher, "tools/list", modern())


# -- tools -----------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 5}, {"name": "nothing"}, {"name": "conversation_search", "arguments": [1]}, {"name": "x" * 9_999}],
)
def test_a_call_of_no_tool_is_refused(dispatcher: Dispatcher, params: dict[str, Any]) -> None:
    for era in ({}, modern()):
        answer = ask(dispatcher, "tools/call", {**era, **params})
        assert code(answer) == -32602
        assert len(answer["error"]["message"]) < 200


def test_an_error_of_a_tool_is_a_result(dispatcher: Dispatcher) -> None:
    answer = result(dispatcher, "tools/call", {"name": "conversation_search", "arguments": {"refuse": 1}})
    assert answer == {"content": [{"type": "text", "text": "Error: refused"}], "isError": True}


def test_a_crash_of_a_tool_is_logged_and_not_told(dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = result(dispatcher, "tools/call", {"name": "conversation_search", "arguments": {"crash": 1}})
    assert answer["isError"] is True
    assert "secret" not in json.dumps(answer)
    assert "RuntimeError: secret" in caplog.text


def test_a_cursor_that_was_never_given_out_is_refused(dispatcher: Dispatcher) -> None:
    assert code(ask(dispatcher, "tools/list", {"cursor": "abc"})) == -32602
    assert result(dispatcher, "tools/list", {"cursor": None})["tools"]


def test_what_a_model_reads_is_constant_and_short(dispatcher: Dispatcher) -> None:
    assert len(INSTRUCTIONS) < 512
    shown = result(dispatcher, "tools/list")["tools"]
    assert shown == [CONVERSATION_SEARCH.listed("conversation_search")]


@pytest.mark.parametrize(
    "options",
    [
        {"rename": {"nothing": "x"}},
        {"rename": {"conversation_search": "with.dot"}},
        {"rename": {"conversation_search": ""}},
        {"prefix": "a b"},
        {"prefix": "x" * 60},
    ],
)
def test_a_name_that_clients_would_refuse_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"name|tool"):
        Catalog(**options)


# -- messages --------------------------------------------------------------


@pytest.mark.parametrize("bad", [None, 1.5, True, [1], {"a": 1}])
def test_an_id_is_a_string_or_an_integer(dispatcher: Dispatcher, bad: Any) -> None:
    answer = dispatcher.handle({"jsonrpc": "2.0", "id": bad, "method": "ping"})
    assert code(answer) == -32600
    assert answer["id"] is None


@pytest.mark.parametrize("good", [0, -1, 10**30, "", "a", "1"])
def test_an_id_comes_back_as_it_was(dispatcher: Dispatcher, good: Any) -> None:
    assert dispatcher.handle({"jsonrpc": "2.0", "id": good, "method": "ping"}) == {
        "jsonrpc": "2.0",
        "id": good,
        "result": {},
    }


@pytest.mark.parametrize(
    "message",
    [
        None,
        1,
        "ping",
        {},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0"},
    ],
)
def test_what_is_no_request_is_refused(dispatcher: Dispatcher, message: Any) -> None:
    assert code(dispatcher.handle(message)) == -32600


@pytest.mark.parametrize("params", [[], [1], "x", 5, True])
def test_params_are_an_object(dispatcher: Dispatcher, params: Any) -> None:
    assert code(ask(dispatcher, "ping", params)) == -32602


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "notifications/unheard-of", "params": [1]},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "conversation_search"}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": ""}},
    ],
)
def test_notifications_and_responses_are_not_answered(dispatcher: Dispatcher, message: Any) -> None:
    assert dispatcher.handle(message) is None


def ping(request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": "ping"}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", None])
def test_a_batch_is_refused_where_the_version_has_none(dispatcher: Dispatcher, version: str | None) -> None:
    if version:
        result(dispatcher, "initialize", {"protocolVersion": version})
    assert code(dispatcher.handle([ping(1)])) == -32600


def test_a_batch_is_answered_in_the_version_that_has_them(dispatcher: Dispatcher) -> None:
    result(dispatcher, "initialize", {"protocolVersion": "2025-03-26"})
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answers = dispatcher.handle([ping(1), note, 5, [ping(3)], ping("b")])
    assert [answer["id"] for answer in answers] == [1, None, None, "b"]
    assert dispatcher.handle([note]) is None
    assert code(dispatcher.handle([])) == -32600
    assert code(dispatcher.handle([ping(1)] * 10_000)) == -32600


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"\xff\xfe", b'{"a": \xc3}', b"[" * 100_000, b'{"id": ' + b"9" * 10_000 + b"}", b"nope", b"\x00"],
)
def test_what_is_no_json_is_a_parse_error(line: bytes) -> None:
    with pytest.raises(RpcError) as error:
        decode(line)
    assert error.value.code == -32700


def test_any_text_survives_the_way_out() -> None:
    line = encode({"text": "\ud800 \u2028 \x00 日本 😀\n"})
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"text": "\ud800 \u2028 \x00 日本 😀\n"}


# -- anything --------------------------------------------------------------

KEYS = ["jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "cursor", "_meta", *ENVELOPE]
WORDS = ["2.0", "initialize", "ping", "tools/list", "tools/call", "server/discover", "conversation_search", MODERN]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=10,
)
requests = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(["initialize", "ping", "tools/list", "tools/call"])},
    optional={"id": values, "params": values},
)


@given(messages=st.lists(values | requests | st.lists(requests, max_size=3), min_size=1, max_size=4))
@settings(max_examples=300)
def test_whatever_comes_in_the_answer_is_valid_json_rpc(messages: list[Any]) -> None:
    dispatcher = Dispatcher(Answers())
    for message in messages:
        answer = dispatcher.handle(message)
        for one in answer if isinstance(answer, list) else [answer] if answer is not None else []:
            assert one["jsonrpc"] == "2.0"
            assert ("result" in one) != ("error" in one)
            mcp_types.jsonrpc_message_adapter.validate_json(encode(one), by_name=False)
