"""Decides which addresses the tools of a pod may connect to, pure.

Law: public ones. An address in a private network, on this machine or beside it is refused unless the
operator named it, however it is written: mapped, translated or tunnelled addresses count as their target. A
name allows no address at which cloud providers serve credentials, as those of the link are.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

SETTING: Final = "PODFLEET_PRIVATE_HOSTS"
TRANSLATED: Final = IPv6Network("64:ff9b::/96")  # to IPv4, by the network
ALLOCATED: Final = IPv6Network("2000::/3")  # nothing else of IPv6 was given to the public internet
# Of the special-purpose registries of IANA (RFC 6890), what some Python counts as global: protocols, relays
# and anycast that the nearest network may answer, and documentation.
SPECIAL: Final[tuple[IPv4Network | IPv6Network, ...]] = (
    *(IPv4Network(each) for each in ("192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24")),
    *(IPv4Network(each) for each in ("192.88.99.0/24", "192.175.48.0/24")),
    *(IPv6Network(each) for each in ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20")),
)
# Where clouds hand credentials to a machine, besides addresses of the link: AWS and Google by IPv6, Alibaba,
# Azure, Oracle.
OF_CLOUDS: Final[tuple[IPv4Network | IPv6Network, ...]] = (
    *(IPv6Network(each) for each in ("fd00:ec2::254/128", "fd20:ce::254/128")),
    *(IPv4Network(each) for each in ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32")),
)

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What the operator allows besides the public internet."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    names: frozenset[str] = frozenset()

    def early_objection(self, host: str) -> str | None:
        """Return the objection to a host whose address is known without a look-up."""
        name = host.lower().rstrip(".")
        if name == "localhost" or name.endswith(".localhost"):
            return self.objection(host, "127.0.0.1")
        return self.objection(host, host) if _is_address(host) else None

    def objection(self, host: str, address: str) -> str | None:
        """Return why a connection to `address` for `host` is refused; None where it is allowed."""
        found = _led_to(ip_address(address))
        if _is_public(found) or any(found in network for network in self.networks):
            return None
        is_named = host.lower().rstrip(".") in self.names
        if is_named and not (found.is_link_local or found.is_multicast or _is_of_cloud(found)):
            return None
        place = host if host == address else f"{host} ({address})"
        named = str(found) if is_named or _is_address(host) else f"{host} or {found}"
        return f"{place} is no public address; to allow it, add {named} to {SETTING}"


def read_egress_policy(text: str) -> EgressPolicy:
    """Return what a list like `localhost, 10.0.0.0/8` allows. Raises `ValueError` with words."""
    networks, names = [], set()
    for entry in filter(None, (each.strip() for each in text.split(","))):
        try:
            networks.append(ip_network(entry, strict=False))
        except ValueError:
            if "/" in entry or ":" in entry or not entry.isprintable() or " " in entry:
                message = (
                    f"{SETTING} has {entry!r}; accepted are hosts, addresses and networks, without ports"
                )
                raise ValueError(message) from None
            names.add(entry.lower().rstrip("."))
    return EgressPolicy(tuple(networks), frozenset(names))


def _led_to(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if address in TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in ALLOCATED:
        return False
    if _is_of_cloud(address) or any(address in network for network in SPECIAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _is_of_cloud(address: Address) -> bool:
    return any(address in network for network in OF_CLOUDS)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
