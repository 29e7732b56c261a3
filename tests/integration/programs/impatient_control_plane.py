"""A control plane that gives up on MongoDB after two seconds: no test waits longer for it."""

from __future__ import annotations

import sys

from control_plane.__main__ import main
from control_plane.store import database

if __name__ == "__main__":
    vars(database)["SERVER_SELECTION_S"] = 2
    sys.exit(main())
