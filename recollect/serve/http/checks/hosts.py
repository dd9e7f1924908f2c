"""Host names and addresses."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_MAX_PROXIES = 16


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
