"""Which era of the protocol an HTTP request belongs to, and whether its headers match its body.

In the stateless era, headers repeat parts of the body, so that proxies can rely on them.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from starlette.datastructures import Headers

from recollect.serve.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RpcError,
    meta_of,
    params_of,
)
from recollect.serve.mcp.protocol import (
    CAPABILITIES_KEY,
    HANDSHAKE_VERSIONS,
    STATELESS_VERSIONS,
    VERSION_KEY,
    is_stateless,
    unsupported_version,
)

HEADER_MISMATCH = -32020
VERSION_HEADER = "mcp-protocol-version"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the header Mcp-Name repeats, by method."""
_BASE64 = re.compile(r"=\?base64\?(.*)\?=")


def single_header(headers: Headers, name: str) -> str | None:
    """The value of a header, without surrounding whitespace. Raises RpcError if it occurs twice."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise RpcError(HEADER_MISMATCH, f"The header {name} occurs twice")
    if not values:
        return None
    return values[0].strip()


def check_era(message: Any, headers: Headers) -> bool:
    """Whether a message belongs to the stateless era. Raises RpcError if it fits neither era."""
    version = single_header(headers, VERSION_HEADER)
    is_handshake_version = version is None or version in HANDSHAKE_VERSIONS
    if isinstance(message, list):
        if not is_handshake_version or any(map(_is_stateless_message, message)):
            raise RpcError(INVALID_REQUEST, "This protocol version does not support batches")
        return False
    if is_handshake_version and not _is_stateless_message(message):
        return False
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise RpcError(INVALID_REQUEST, "Invalid request: post one request or notification")
    if "id" in message:
        _compare_headers(message, headers, version)
    elif version not in STATELESS_VERSIONS:
        raise unsupported_version(version or "")
    return True


def _is_stateless_message(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return False
    return is_stateless(message["method"], params_of(message))


def _compare_headers(message: dict[str, Any], headers: Headers, version: str | None) -> None:
    method = message["method"]
    params = params_of(message)
    meta = meta_of(params)
    if VERSION_KEY not in meta or CAPABILITIES_KEY not in meta:
        if version is not None and version not in STATELESS_VERSIONS:
            raise unsupported_version(version)
        raise RpcError(
            INVALID_PARAMS, f"Invalid params: '_meta' needs {VERSION_KEY} and {CAPABILITIES_KEY}"
        )
    if version is None or version != meta[VERSION_KEY]:
        raise _mismatch(VERSION_HEADER, "the version")
    if single_header(headers, METHOD_HEADER) != method:
        raise _mismatch(METHOD_HEADER, "the method")
    name_param = _NAME_PARAMS.get(method, "")
    name = params.get(name_param)
    if name is not None and name != _decode_header(single_header(headers, NAME_HEADER)):
        raise _mismatch(NAME_HEADER, f"'{name_param}'")
    if version not in STATELESS_VERSIONS:
        raise unsupported_version(version)
    if method == "initialize":
        raise RpcError(METHOD_NOT_FOUND, "Method not found: initialize")


def _mismatch(header: str, part: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"The header {header} does not match {part} in the body")


def _decode_header(value: str | None) -> str | None:
    """A header's value, which may be encoded in base64; None if it is encoded incorrectly."""
    match = _BASE64.fullmatch(value or "")
    if match is None:
        return value
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
