"""JSON-RPC 2.0 messages: decoding, encoding, requests and errors."""

from __future__ import annotations

import json

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from typing import Any, TypeAlias

Json: TypeAlias = "Any"
Object: TypeAlias = "dict[str, Json]"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
TOO_BUSY = -32000
RESOURCE_NOT_FOUND = -32002
UNSUPPORTED_VERSION = -32022


class RpcError(Exception):
    """A request is answered with a JSON-RPC error."""

    def __init__(
        self, code: int, message: str, *, data: Json = None, request_id: Json = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.request_id = request_id


def decode(line: bytes) -> Json:
    """Parse a message. Raises RpcError if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise RpcError(
            PARSE_ERROR, "Parse error: the message is not valid JSON in UTF-8"
        ) from error


def encode(message: Json) -> bytes:
    """One line of ASCII: stored text may contain lone surrogates, which UTF-8 cannot encode."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def error_response(request_id: Json, error: RpcError) -> Object:
    body: Object = {"code": error.code, "message": str(error)}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def notification(method: str, params: Object) -> Object:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def is_id(value: Json) -> bool:
    """Whether this is a valid request id: a string or an integer."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def request_id_of(message: Json) -> Json:
    """The id to answer a message under; None if it has no valid one."""
    if isinstance(message, dict) and is_id(message.get("id")):
        return message["id"]
    return None


def needs_no_answer(message: Json) -> bool:
    """Whether a message is a notification, or a client's response."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return False
    if "method" not in message:
        return "id" in message and ("result" in message or "error" in message)
    return "id" not in message and isinstance(message["method"], str)


def parse_request(message: Json) -> tuple[str, Object]:
    """The method and the params of a request. Raises RpcError if it is not a valid request."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid request: not a JSON-RPC 2.0 message")
    if not isinstance(message.get("method"), str):
        raise RpcError(INVALID_REQUEST, "Invalid request: 'method' must be a string")
    if not is_id(message.get("id")):
        raise RpcError(INVALID_REQUEST, "Invalid request: 'id' must be a string or an integer")
    params = message.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: 'params' must be an object")
    return message["method"], params


def params_of(message: Json) -> Object:
    """The params of a message that may not be valid; empty if it has none."""
    params = message.get("params") if isinstance(message, dict) else None
    return params if isinstance(params, dict) else {}


def meta_of(params: Object) -> Object:
    """The `_meta` object of a request's params; empty if there is none."""
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}
