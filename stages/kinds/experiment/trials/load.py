"""How busy the machine is, for whoever reads a time that was measured on it."""

from __future__ import annotations

import os


def load_words() -> str:
    """Return the load average of the last minute, and how many processors there are."""
    return f"the load average is {os.getloadavg()[0]:.1f} on {os.cpu_count() or 1} processors"
