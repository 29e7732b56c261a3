"""Which names a submission may have of secrets, and who may name a secret in a submission.

A secret has a list of kinds and one of keys, by their names; an empty list allows all. The lists hold for
everybody, also for an admin, who may change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from control_plane.access.auth import Forbidden
from control_plane.access.keys import person_id_in
from events.runtime.errors import Rejected
from events.text.secret_names import OF_RUN_MAX, USER_TOKEN, fault_of_name, fault_of_named


def require_name(name: str) -> str:
    """Return `name`. Raises `Rejected` where it is no name of a secret."""
    if fault := fault_of_name(name):
        raise Rejected("bad_secret_name", fault)
    return name


def require_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a run has, sorted, each once. Raises `Rejected`."""
    found = tuple(sorted(set(names)))
    if fault := next(filter(None, map(fault_of_named, found)), None):
        raise Rejected("bad_secret_name", fault)
    if len(found) > OF_RUN_MAX:
        raise Rejected("too_many_secrets", f"a run names {OF_RUN_MAX} secrets at most, not {len(found)}")
    return found


def require_named(
    names: Sequence[str], found: Iterable[Mapping[str, Any]], *, kind: str, named_by: str | None
) -> None:
    """Check the secrets of a submission, of which `found` are stored. Raises `Rejected`, `Forbidden`.

    `named_by` is the name of the key that asks for the run, None where nobody knows it.
    """
    known = {each["_id"]: each for each in found}
    if USER_TOKEN in names and person_id_in(named_by) is None:
        message = f"{USER_TOKEN} is the access of whoever signed in by the issuer: a key has none"
        raise Forbidden("no_user_access", message)
    names = [name for name in names if name != USER_TOKEN]
    if missing := [name for name in names if name not in known]:
        message = f"there is no secret {', '.join(missing)}; `podfleet secrets set NAME` makes one"
        raise Rejected("unknown_secret", message)
    for name in names:
        if not serves_kind(known[name], kind):
            raise Forbidden("foreign_secret", f"the secret {name} is not for runs of kind {kind}")
        if (keys := known[name]["keys"]) and named_by not in keys:
            raise Forbidden("foreign_secret", f"this key may not name the secret {name}")


def serves_kind(secret: Mapping[str, Any], kind: str) -> bool:
    """Say whether runs of `kind` may have a stored secret."""
    return not secret["kinds"] or kind in secret["kinds"]
