"""Follows the event files of TensorBoard below a folder, while a program writes to them.

Law: a look takes a bounded time and memory, whatever lies there. A file that holds something else is given
up, with a line in the log, and the others are read on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.files.open_beneath import read_beneath
from events.files.paths import RunPath
from events.runtime.clock import Clock
from stages.kinds.job.output import plain_files
from stages.kinds.job.scalars import FOOT, HEAD, RECORD_BYTES_MAX, BadRecord, Scalar, length_of, scalars_of

MARK: Final = "tfevents"  # in the name of each such file
FILES_MAX: Final = 100
LOOKED_FOR_S: Final = 5.0  # between two looks for new files
RECORDS_MAX: Final = 200  # of a look, five of which come in a second; a long one counts as several
RECORD_BYTES: Final = 1024
LAST_S: Final = 20.0  # for what is left when the program has ended
NAME_CHARS_MAX: Final = 200


@dataclass(slots=True)
class _File:
    """A file, and how far it was read."""

    name: RunPath
    at: int = 0
    is_given_up: bool = False


@dataclass(slots=True)
class EventFiles:
    """Says what event files below a folder hold: `say` gets name, value and step of each number."""

    folder: Path
    say: Callable[[str, float, int], None]
    warn: Callable[[str], None]
    clock: Clock
    _files: dict[str, _File] = field(default_factory=dict)
    _looked_s: float | None = None
    _is_full: bool = False

    def look(self) -> None:
        """Say what is new, as much of it as a look takes."""
        now_s = self.clock.monotonic_s()
        if self._looked_s is None or now_s > self._looked_s + LOOKED_FOR_S:
            self._looked_s = now_s
            self._find()
        self._read(RECORDS_MAX)

    def finish(self) -> None:
        """Say what is left, for some seconds."""
        self._find()
        until_s = self.clock.monotonic_s() + LAST_S
        while self._read(RECORDS_MAX):
            if self.clock.monotonic_s() > until_s:
                self.warn("the last numbers of event files are in the files alone: there were too many")
                return

    def _find(self) -> None:
        found = (name for name in plain_files(self.folder) if MARK in name.rpartition("/")[2])
        for name in sorted(found):
            if name in self._files:
                continue
            if len(self._files) >= FILES_MAX:
                if not self._is_full:
                    self._is_full = True
                    self.warn(f"of event files {FILES_MAX} are read: the others are kept, and drawn nowhere")
                return
            self._files[name] = _File(RunPath(name))

    def _read(self, most: int) -> int:
        """Say what at most so many records hold; return how many were read."""
        left = most
        for each in [*self._files.values()]:
            if left > 0 and not each.is_given_up:
                try:
                    left -= self._read_file(each, left)
                    self._files[each.name] = self._files.pop(each.name)  # the others come first next time
                except BadRecord as error:
                    each.is_given_up = True
                    self.warn(f"{each.name} is read no further: {error}")
                except OSError:  # it is gone for now
                    continue
        return most - left

    def _read_file(self, each: _File, most: int) -> int:
        """Read whole records; one that is still written waits. Raises `BadRecord`, `OSError`."""
        count = 0
        with read_beneath(self.folder, each.name) as file:
            size = file.seek(0, 2)
            if size < each.at:
                raise BadRecord("it has become shorter")
            file.seek(each.at)
            while count < most and size >= each.at + HEAD:
                length = length_of(file.read(HEAD))
                if size < (end := each.at + HEAD + length + FOOT):
                    break
                if length <= RECORD_BYTES_MAX:
                    self._say(each.name, scalars_of(file.read(length), file.read(FOOT)))
                    count += length // RECORD_BYTES
                else:
                    file.seek(end)
                each.at = end
                count += 1
        return count

    def _say(self, name: RunPath, scalars: list[Scalar]) -> None:
        above = name.rpartition("/")[0]
        for scalar in scalars:
            shown = f"{above}/{scalar.tag}" if above else scalar.tag
            if len(shown) <= NAME_CHARS_MAX:
                self.say(shown, scalar.value, scalar.step)
