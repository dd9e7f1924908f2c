"""Host names and addresses."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


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
