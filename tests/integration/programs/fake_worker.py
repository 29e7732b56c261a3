"""Stands in for a worker: starts a child in a session of its own that dies with it, and lives on.

With FAKE_WORKER=stubborn it ignores SIGTERM; with FAKE_WORKER=broken it ends at once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from podfleet.embedded.process import DIE_WITH_PARENT

way = os.environ.get("FAKE_WORKER")
if way == "broken":
    sys.exit("this worker cannot work")
if way == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until the sigwait below
sleep = shutil.which("sleep")
assert sleep is not None
child = subprocess.Popen(
    [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid()), sleep, "600"], start_new_session=True
)
data = Path(sys.argv[sys.argv.index("--data") + 1])
data.mkdir(parents=True, exist_ok=True)
(data / "environment.json").write_text(json.dumps(dict(os.environ)))
if way == "stubborn":
    child.wait()
signal.sigwait({signal.SIGTERM})
child.kill()
