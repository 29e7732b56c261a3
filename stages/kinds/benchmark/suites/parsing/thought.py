"""Separates an answer from the thought before it, pure.

Law: what stands in an unfinished thought is no answer.
"""

from __future__ import annotations

import re
from typing import Final

TEXT_CHARS_MAX: Final = 400_000  # far above what a model may answer; the end is kept, where the answer stands

_NAMES: Final = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad)"
_OPEN: Final = re.compile(rf"<{_NAMES}(?:\s[^<>]{{0,100}})?>|◁think▷|\[THINK\]", re.IGNORECASE)
_CLOSE: Final = re.compile(rf"</{_NAMES}\s*>|◁/think▷|\[/THINK\]", re.IGNORECASE)
# The last channel of models that name their channels is what they say to people.
_FINAL: Final = re.compile(r"<\|channel\|>\s*final\b[^<]{0,100}<\|message\|>")
_CHANNEL: Final = re.compile(r"<\|channel\|>")
_BLANK_LINES: Final = re.compile(r"\A(?:[ \t]*\r?\n)+")  # an indentation behind them may be that of code
_END: Final = re.compile(r"<\|(?:end|return|im_end|eot_id|endoftext|start)\|>|</s>\s*\Z")


def without_thought(text: str) -> str:
    """Return what an answer says outside of its thought; empty where the thought has not come to an end."""
    said = text[-TEXT_CHARS_MAX:]
    if final := list(_FINAL.finditer(said)):
        said = said[final[-1].end() :]
    elif _CHANNEL.search(said):
        return ""
    if closed := list(_CLOSE.finditer(said)):
        head, said = said[: closed[-1].start()], said[closed[-1].end() :]
        said = _before_any(head) + "\n" + said
    if opened := _OPEN.search(said):
        said = said[: opened.start()]
    return _BLANK_LINES.sub("", _END.split(said)[0].rstrip())


def _before_any(head: str) -> str:
    """Return what stands before the first thought; a thought without a beginning began with the text."""
    opened = _OPEN.search(head)
    return "" if opened is None else head[: opened.start()]
