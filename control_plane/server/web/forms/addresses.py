"""Short addresses: drops the empty fields of a form from the address, pure."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

from control_plane.server.web.forms.columns import USUAL

COLUMNS = "columns"


def shorter(path: str, query: Iterable[tuple[str, str]]) -> str | None:
    """Return the address without empty fields and with all columns in one; None if it does not change."""
    given = list(query)
    pairs = [(name, value) for name, value in given if value and name != COLUMNS]
    wanted = [value for name, value in given if name == COLUMNS and value]
    if wanted and wanted != list(USUAL):
        pairs.append((COLUMNS, ",".join(wanted)))
    if len(pairs) == len(given):
        return None
    return f"{path}?{urlencode(pairs)}" if pairs else path
