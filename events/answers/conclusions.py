"""What a validation concludes, in one word; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def conclusion(validation: Mapping[str, Any]) -> str:
    """Return the word; a validation from before there were three has two, which say what they always said."""
    stated = validation.get("conclusion")
    if stated:
        return str(stated)
    return "supported" if validation.get("verdict") == "pass" else "refuted"
