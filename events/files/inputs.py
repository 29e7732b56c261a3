"""What a run reads, as its specification names it: a tree, a data set, or files of a run; pure."""

from __future__ import annotations

import re
from typing import Final

OF_RUN: Final = "run:"  # before the id of a run whose files are an input
# What a data set, or files of a run, were found to be stands behind `@`.
_SOURCE: Final = re.compile(
    r"[0-9a-f]{64}|([a-z0-9][a-z0-9._-]{0,99}(/[1-9][0-9]{0,8})?"
    r"|run:[A-Za-z0-9._-]{1,64}(/[^\x00-\x1f]{1,500})?)(@[0-9a-f]{64})?"
)


def is_source(text: str) -> bool:
    """Say whether a text has the form of an input."""
    return _SOURCE.fullmatch(text) is not None
