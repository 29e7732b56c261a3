"""Who wants to be told of what, and where: subscriptions, their filters and their targets; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from control_plane.upkeep.notifications.notification import Notification
from events.runtime.egress_policy import EgressPolicy

Format = Literal["standard", "slack", "discord", "plain", "mail"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)
FILTERS: Final = ("types", "projects", "kinds", "labels", "owners")
WEBHOOKS_MAX: Final = 100  # each is looked at every second
URL_CHARS_MAX: Final = 2_000
MAIL: Final = "mailto:"
ADDRESS_CHARS_MAX: Final = 254  # RFC 5321


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A stored subscription as far as it decides: what it wants, and since when."""

    id: str
    since: datetime
    types: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # NAME=VALUE, all of which a run has
    owners: tuple[str, ...] = ()

    def wants(self, told: Notification) -> bool:
        """Say whether a notification passes every filter; an empty one takes all.

        What has no kind, project, label or owner does not pass a filter of those.
        """
        if told.at < self.since:
            return False
        given = ((self.projects, told.project), (self.kinds, told.kind), (self.owners, told.owner))
        has_labels = all(told.labels.get(name) == value for name, value in map(_pair, self.labels))
        return (
            _takes_type(self.types, told.type)
            and has_labels
            and all(not wanted or value in wanted for wanted, value in given)
        )


def subscription_in(stored: Mapping[str, Any]) -> Subscription:
    """Return the subscription of a stored document."""
    lists = {name: tuple(str(each) for each in stored["filters"].get(name) or ()) for name in FILTERS}
    if not isinstance(stored["since"], datetime):
        raise TypeError("`since` is no moment")
    return Subscription(id=stored["_id"], since=stored["since"], **lists)


def fault_of_target(url: str, form: str, egress: EgressPolicy) -> str | None:
    """Return what is wrong with where a subscription wants to be told; None where it may be.

    A name is looked up when something is sent: what it leads to then is judged by the same policy.
    """
    if form == "mail" or url.startswith(MAIL):
        return _fault_of_mail(url, form)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "the URL cannot be read"
    if not url.isascii() or not url.isprintable() or any(each in url for each in ' \\"<>'):
        return "a URL is visible ASCII without spaces, quotes and backslashes"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "a URL is like https://host/path; for mail it is mailto:name@host"
    if "@" in parts.netloc:
        return "a URL has no user or password: a receiver knows us by the signature"
    if parts.fragment:
        return "a URL has no fragment"
    if objection := egress.early_objection(parts.hostname):
        return objection
    if parts.scheme == "http" and not _is_private(parts.hostname, egress):
        return "http is for hosts that PODFLEET_PRIVATE_HOSTS names; for others take https"
    return None


def place_of(url: str) -> str:
    """Return what may be shown of a target: of a URL not its path, which is a password to chat servers."""
    if url.startswith(MAIL):
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def is_label(text: str) -> bool:
    """Say whether a filter of labels can be read."""
    name, equal, _ = text.partition("=")
    return bool(name and equal)


def _fault_of_mail(url: str, form: str) -> str | None:
    if form != "mail":
        return "mailto: goes with the format mail"
    if not url.startswith(MAIL):
        return "the format mail goes with a target like mailto:name@host"
    address = url.removeprefix(MAIL)
    name, at, host = address.rpartition("@")
    plain = all(each.isalnum() or each in ".-_+=@" for each in address) and address.isascii()
    has_host = "." in host.strip(".") or host == "localhost"
    has_odd_dots = name != name.strip(".") or host != host.strip(".") or ".." in address
    if not (name and at and has_host and plain) or has_odd_dots or "@" in name:
        return "an address of mail is like name@host.example, in plain letters"
    if len(address) > ADDRESS_CHARS_MAX:
        return f"an address of mail has {ADDRESS_CHARS_MAX} characters at most"
    return None


def _is_private(host: str, egress: EgressPolicy) -> bool:
    """Say whether the operator named a host, or the network of its address."""
    name = host.lower().rstrip(".")
    if name in egress.names:
        return True
    return EgressPolicy().early_objection(host) is not None and egress.early_objection(host) is None


def _takes_type(wanted: tuple[str, ...], type_: str) -> bool:
    """Say whether a list of types, or of their families such as `run`, has one; a test passes always."""
    family = type_.partition(".")[0]
    return not wanted or family == "webhook" or type_ in wanted or family in wanted


def _pair(label: str) -> tuple[str, str]:
    name, _, value = label.partition("=")
    return name, value
