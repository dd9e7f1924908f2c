"""Host names and addresses, and the checks of the Host and Origin headers, which protect a local
server from other web sites."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

_MAX_PROXIES = 16
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?")
_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this computer's own."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def client_network(peer: str) -> str:
    """The addresses one client can be expected to have: an IPv4 address, or an IPv6 /64 network."""
    try:
        address = ip_address(peer)
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    return str(address.ipv4_mapped or int(address) >> 64)


def client_address(peer: str, forwarded: Iterable[str], proxies: tuple[str, ...]) -> str:
    """The address of the client behind trusted proxies.

    `forwarded` are the X-Forwarded-For headers. Each proxy appends the address it was connected
    from, so only what trusted proxies appended counts: anybody can write the rest.
    """
    if not is_in_networks(peer, proxies):
        return peer
    addresses = ",".join(forwarded).split(",")[-_MAX_PROXIES:]
    client = peer
    for text in reversed(addresses):
        try:
            client = str(ip_address(text.strip()))
        except ValueError:
            break
        if not is_in_networks(client, proxies):
            break
    return client


def is_in_networks(address: str, networks: tuple[str, ...]) -> bool:
    if not networks:
        return False
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in parse_networks(networks))


@lru_cache(maxsize=8)
def parse_networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Addresses and networks such as 10.0.0.0/8. Raises ValueError."""
    return tuple(ip_network(text) for text in texts)


def is_allowed_host(
    host: str, own_port: int, public_hosts: tuple[str, ...], server: Any = None
) -> bool:
    """Whether a Host header names this server.

    It may be a name of this computer with our port, the address the connection came to
    (`server`), or a name allowed in the configuration.
    """
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return False
    name, port = match[1], int(match[2] or 80)
    if name in _LOCAL_NAMES and port == own_port:
        return True
    if name in public_hosts or host.lower() in public_hosts:
        return True
    if not server or port != server[1]:
        return False
    try:
        return ip_address(name.strip("[]")) == ip_address(server[0])
    except ValueError:
        return False


def is_same_origin(origin: str, host: str, base_url: str) -> bool:
    """Whether an Origin header names a page of this server."""
    origin = origin.lower()
    parts = urlsplit(origin)
    default_port = _DEFAULT_PORTS.get(parts.scheme)
    if default_port is None or origin != f"{parts.scheme}://{parts.netloc}":
        return False
    own_names = {host.lower().removesuffix(default_port)}
    base = urlsplit(base_url.lower())
    if base.scheme == parts.scheme:
        own_names.add(base.netloc.removesuffix(default_port))
    return parts.netloc.removesuffix(default_port) in own_names
