"""Checks of the Host and Origin headers, which protect a local server from other web sites."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from recollect.serve.http.service import ServiceConfig

_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?")
_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
_LOCAL_PATH = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def is_allowed_host(host: str, config: ServiceConfig, server: Any = None) -> bool:
    """Whether a Host header names this server.

    It may be a name of this computer with our port, the address the connection came to
    (`server`), or a name allowed in the configuration.
    """
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return False
    name, port = match[1], int(match[2] or 80)
    if name in _LOCAL_NAMES and port == config.port:
        return True
    if name in config.public_hosts or host.lower() in config.public_hosts:
        return True
    if not server or port != server[1]:
        return False
    try:
        return ip_address(name.strip("[]")) == ip_address(server[0])
    except ValueError:
        return False


def is_same_origin(origin: str, host: str, config: ServiceConfig) -> bool:
    """Whether an Origin header names a page of this server."""
    origin = origin.lower()
    parts = urlsplit(origin)
    default_port = _DEFAULT_PORTS.get(parts.scheme)
    if default_port is None or origin != f"{parts.scheme}://{parts.netloc}":
        return False
    own_names = {host.lower().removesuffix(default_port)}
    base = urlsplit(config.base_url.lower())
    if base.scheme == parts.scheme:
        own_names.add(base.netloc.removesuffix(default_port))
    return parts.netloc.removesuffix(default_port) in own_names


def is_local_path(target: str) -> bool:
    """Whether a redirect target is a path of this server and cannot lead to another site."""
    return _LOCAL_PATH.fullmatch(target) is not None
