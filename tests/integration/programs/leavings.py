"""A program that leaves another hostile thing for each seed, and an honest answer for the last one.

`ANSWERS` names what it leaves in the place of answers, `REPORTS` what it writes as a report, each with a part
of the message that it gets. Links lead into its own folder or its own devices alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NO_FILE: Final = "no file that can be read"
SHAPE: Final = "it has the shape"
NO_NUMBERS: Final = "it holds no numbers"
SUMS: Final = "must be 0 or more and add up to 1"

# In the place of answers: how it is left as `file`, and what is said of it.
ANSWERS: Final[Mapping[str, tuple[str, str]]] = {
    "a pipe": ("os.mkfifo(file)", NO_FILE),
    "a socket": ("socket.socket(socket.AF_UNIX).bind(os.path.relpath(file))", NO_FILE),
    "a folder": ("os.mkdir(file)", NO_FILE),
    "a link to zeros": ("os.symlink('/dev/zero', file)", NO_FILE),
    "a link to itself": ("os.symlink(file, file)", NO_FILE),
    "a link to its own file": ("save(HERE / 'own.npy', UNSURE); os.symlink(HERE / 'own.npy', file)", NO_FILE),
    "a link to a descriptor": ("os.symlink('/proc/self/fd/0', file)", NO_FILE),
    "a second name of the job": ("os.link(HERE / 'job.json', file)", "does not begin as an array"),
    "a second name of what judges": ("os.link(job['judge'], file)", NO_FILE),
    "a device": ("os.mknod(file, 0o20644, os.makedev(1, 5))", NO_FILE),
    "a hole": ("open(file, 'wb').close(); os.truncate(file, 400 << 20)", "does not begin as an array"),
    "a record": ("save(file, np.zeros((len(UNSURE), 3), dtype=[('a', 'f8')]))", "its heading is strange"),
    "complex numbers": ("save(file, UNSURE + 0j)", NO_NUMBERS),
    "dates": ("save(file, np.zeros(UNSURE.shape, dtype='M8[s]'))", NO_NUMBERS),
    "texts": ("save(file, np.full(UNSURE.shape, '0.33'))", NO_NUMBERS),
    "long numbers": ("save(file, UNSURE.astype(np.longdouble))", NO_NUMBERS),
    "the transposed": ("save(file, np.ascontiguousarray(UNSURE.T))", SHAPE),
    "another axis": ("save(file, UNSURE[..., None])", SHAPE),
    "one row for all": ("save(file, UNSURE[:1])", SHAPE),
    "one number for all": ("save(file, np.float64(1 / 3))", SHAPE),
    "all rows twice": ("save(file, np.concatenate([UNSURE, UNSURE]))", SHAPE),
    "one byte more": ("save(file, UNSURE); open(file, 'ab').write(b'x')", "where its heading claims"),
    "no numbers": ("save(file, UNSURE * np.nan)", "not finite"),
    "hardly anything": ("save(file, UNSURE * 5e-324)", SUMS),
    "less than nothing": ("save(file, UNSURE + [[1e-9, 0, -0.5]])", SUMS),
    "the largest numbers": ("save(file, np.full(UNSURE.shape, 1.7e308))", "beyond 1e+150"),
}
# In the place of a report: an expression that gives its text.
REPORTS: Final[Mapping[str, tuple[str, str]]] = {
    "an error without words": ("""'{"error": ""}'""", "no reason given"),
    "orders to whoever shows it": (
        r"""json.dumps({"error": "\x1b[2J\u202e\u2028</script>\\end {verbatim} #image(1) =1+1"})""",
        r"[2J  </script>\end {verbatim} #image(1) =1+1",
    ),
    "half a letter": (r"""'{"error": "\\ud800"}'""", "cannot be read"),
    "a truth for a count": ("""'{"parameters": true}'""", "cannot be read"),
    "a count without end": ("""'{"parameters": 1e999}'""", "cannot be read"),
    "a count that is no number": ("""'{"parameters": NaN}'""", "cannot be read"),
    "a loss without end": (
        """'{"curve": [{"epoch": 1, "train_loss": 1e400, "watch_loss": 0}]}'""",
        "cannot be read",
    ),
    "scores": ("""'{"error": null, "scores": {"nll": 0}}'""", "unknown field"),
    "brackets": ("""'{"curve": ' + '[' * 100_000""", "cannot be read"),
    "spaces": ("' ' * (2 << 20) + '{}'", "is larger than"),
    "a list": ("'[]'", "cannot be read"),
    "nothing": ("''", "cannot be read"),
}
SAID: Final = tuple(words for deeds in (ANSWERS, REPORTS) for _, words in deeds.values())

_TRIES: Final = "".join(
    f"        lambda file: exec({deed!r}, globals(), {{'file': file}}),\n" for deed, _ in ANSWERS.values()
)
_WRITES: Final = "".join(f"        lambda: {text},\n" for text, _ in REPORTS.values())
PROGRAM: Final = f"""
import json, os, socket, sys
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
job = json.loads((HERE / "job.json").read_text())
save, main = np.save, sys.modules["__main__"]
write = main.write
UNSURE, LEFT = None, []

def run(task):
    global UNSURE
    UNSURE = np.full((len(task.judge), task.outputs), 1.0 / task.outputs)
    deeds = [
{_TRIES}    ]
    reports = [
{_WRITES}    ]
    at = len(LEFT)
    LEFT.append(at)
    np.save, main.write = save, write
    if at < len(deeds):
        def leave(file, *_, **named):
            np.save = save
            try:
                deeds[at](str(file))
            except OSError as error:
                print(error)
                os.mkdir(file)  # what the sandbox refuses to make
        np.save = leave
    elif at < len(deeds) + len(reports):
        main.write = lambda name, _: (HERE / name).write_text(reports[at - len(deeds)]())
    task.size(1)
    return UNSURE
"""
