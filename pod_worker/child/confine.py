"""A pipeline's process confines itself, before anything of a run is in it.

Law: a right that is given up here does not come back, whatever the process executes. The process still has
one thread only.
"""

from __future__ import annotations

import os
from typing import Final

from pod_worker.isolation.confinement import SYSTEM, Confinement
from pod_worker.isolation.mounts import seclude, show
from pod_worker.isolation.privileges import become, drop_capabilities
from pod_worker.isolation.process_space import ProcessSpace
from pod_worker.isolation.task_limit import limit_tasks
from stages.adapters.sandbox import kernel
from stages.adapters.sandbox.known_data import around

SHARED: Final = ("shm", "mqueue")  # in /dev: folders of everybody


def enter(confinement: Confinement, space: ProcessSpace) -> None:
    """Confine this process for good to folders and user of `space`, and needed files. Raises `OSError`."""
    limit_tasks()
    if space.work is None:
        show(confinement.places)
        become(space.number)
        return
    own = [str(each) for each in (space.work, space.home, space.temporary)]
    if confinement.method == "namespace":
        seclude(confinement.hidden, confinement.places, own, confinement.scratch)
        _give_up()
        kernel.stay_inside()
    else:
        _give_up()
        _fence(confinement, own)


def _give_up() -> None:
    """Drop every capability for good: in a namespace of its own a process has all."""
    drop_capabilities(kept=0)
    kernel.gain_no_privileges()


def _fence(confinement: Confinement, own: list[str]) -> None:
    """Grant by Landlock each folder beside the hidden ones: its rules can allow, and not forbid."""
    system = (f"/{name}" for name in SYSTEM if name != "dev")
    of_system = [around(root, confinement.hidden) for root in system if os.path.exists(root)]
    of_places = [around(place, confinement.hidden) for place in confinement.places if os.path.exists(place)]
    devices = [each.path for each in os.scandir("/dev") if each.name not in SHARED and not each.is_symlink()]
    kernel.restrict_files(
        [path for allowed, _ in (*of_system, *of_places) for path in allowed],
        [path for _, listed in of_places for path in listed],  # Python looks into what it imports from
        [*own, *devices],
        kernel.landlock_abi(),
        has_network=True,
    )
