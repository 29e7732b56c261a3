"""The files of a run as a tree of folders with sizes, pure.

Law: a pod names its files, so depth and number of folders are bounded; what lies deeper keeps its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from events.answers.artifacts import Artifact
from events.files.checkpoints import PREFIX

DEPTH_MAX: Final = 8
FOLDERS_MAX: Final = 400
OPEN_BELOW: Final = 40  # files of a folder that is unfolded from the start


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file by its name in its folder; `is_latest` of those with the same path the last attempt's."""

    name: str
    artifact: Artifact
    is_latest: bool


@dataclass(slots=True)
class Folder:
    """A folder with all that lies below it; `path` ends with a slash, that of the root is empty."""

    path: str = ""
    name: str = ""
    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[FileEntry] = field(default_factory=list)
    count: int = 0
    size: int = 0
    holds: bool = False  # the file that is shown beside the tree

    @property
    def is_open(self) -> bool:
        """Say whether it is unfolded from the start: checkpoints and what is long are not."""
        return self.holds or (self.count <= OPEN_BELOW and not self.path.startswith(PREFIX))

    @property
    def sorted_folders(self) -> Sequence[Folder]:
        """Return the folders in it by their names."""
        return [self.folders[name] for name in sorted(self.folders)]


def file_tree(artifacts: Iterable[Artifact], chosen: str | None = None) -> Folder:
    """Return the tree of some files, the latest attempt's first; that of the id `chosen` is shown."""
    root, made = Folder(), 0
    seen: set[str] = set()
    for each in artifacts:
        *above, name = each.name.split("/")
        here, way = root, [root]
        for depth, part in enumerate(above):
            if part not in here.folders:
                if depth >= DEPTH_MAX or made >= FOLDERS_MAX:
                    name = "/".join([*above[depth:], name])
                    break
                made += 1
                here.folders[part] = Folder(f"{here.path}{part}/", part)
            here = here.folders[part]
            way.append(here)
        here.files.append(FileEntry(name, each, each.name not in seen))
        seen.add(each.name)
        for folder in way:
            folder.count += 1
            folder.size += each.size
            folder.holds |= each.id == chosen
    return root
