"""Runs a solution on inputs, each test in a process of its own, and writes down what came out.

A stand-alone script, copied into a job's folder beside `values.py`, `job.json` and the sources. Its report is
a claim: nothing here knows what is right, so that no solution can make itself right.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PIECE_BYTES = 1 << 16
WORDS_BYTES_MAX = 2_000


def main() -> None:
    """Run every test until one does not end well."""
    sys.path.insert(0, str(HERE))
    job = json.loads((HERE / "job.json").read_text(encoding="utf-8"))
    ends = []
    for test in job["tests"]:
        ends.append(run_test(job, test))
        if ends[-1]["how"] != "exited" or ends[-1]["status"]:
            break
    write("report.json", json.dumps({"ends": ends}))


def run_test(job: dict[str, Any], test: dict[str, Any]) -> dict[str, Any]:
    """Run one test in a child, and return how it ended and what it said."""
    out_read, out_write = os.pipe()
    words_read, words_write = os.pipe()
    (HERE / "input").write_text(test.get("input", ""), encoding="utf-8")
    pid = os.fork()
    if not pid:
        status = 70
        try:
            os.close(out_read)
            os.close(words_read)
            status = be_the_solution(job, test, out_write, words_write)
        finally:
            os._exit(status)
    os.close(out_write)
    os.close(words_write)
    output, words, how = gathered(out_read, words_read, job)
    for each in (out_read, words_read):
        os.close(each)
    os.kill(pid, signal.SIGKILL)  # what it has started itself ends with the job
    _, raw, used = os.wait4(pid, 0)
    cpu_s = used.ru_utime + used.ru_stime
    status = os.waitstatus_to_exitcode(raw)
    if how == "closed":
        out_of_time = status == -signal.SIGXCPU or cpu_s > job["test_s"]
        how = "timeout" if out_of_time else "exited"
    text = output.decode("utf-8", "replace")
    return {
        "how": how,
        "status": status,
        "cpu_s": cpu_s,
        "output": text,
        "words": words.decode("utf-8", "replace"),
    }


def gathered(output: int, words: int, job: dict[str, Any]) -> tuple[bytes, bytes, str]:
    """Return what a child wrote on both pipes until it closed them, or what ended it."""
    said = {output: bytearray(), words: bytearray()}
    open_pipes = set(said)
    deadline = time.monotonic() + job["wall_s"]  # noqa: TID251 - nothing of ours is in the sandbox
    while open_pipes:
        left = deadline - time.monotonic()  # noqa: TID251 - the same
        ready = select.select(list(open_pipes), [], [], max(0.0, left))[0] if left > 0 else []
        if not ready:
            return bytes(said[output]), bytes(said[words]), "timeout"
        for each in ready:
            piece = os.read(each, PIECE_BYTES)
            if not piece:
                open_pipes.discard(each)
            said[each] += piece
        if len(said[output]) > job["output_bytes"]:
            return b"", bytes(said[words][:WORDS_BYTES_MAX]), "too_much"
        del said[words][WORDS_BYTES_MAX:]
    return bytes(said[output]), bytes(said[words]), "closed"


def be_the_solution(job: dict[str, Any], test: dict[str, Any], out: int, words: int) -> int:
    """Do what the test asks of the solution; return the status to exit with."""
    try:
        return solve(job, test, out)
    except SystemExit as error:
        come_to_an_end()
        return 0 if error.code in (None, 0) else 1
    except BaseException as error:  # noqa: BLE001 - it is the solution's, and is told
        os.write(words, told(error).encode("utf-8", "replace")[:WORDS_BYTES_MAX])
        return 1


def solve(job: dict[str, Any], test: dict[str, Any], out: int) -> int:
    """Execute the sources within their limits, with the test's input and output in the place of ours."""
    is_program = job["mode"] == "program"
    source = os.open(HERE / "input", os.O_RDONLY)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for place, file in enumerate((source, out if is_program else nowhere, nowhere)):
        os.dup2(file, place)
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - to the end of the process
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - the same
    bound(resource.RLIMIT_CPU, int(job["test_s"]) + 1)
    bound(resource.RLIMIT_AS, job["memory_bytes"])
    names: dict[str, Any] = {"__name__": "__main__" if is_program else "solution"}
    for each in job["sources"]:
        exec(compile((HERE / each).read_text(encoding="utf-8"), each, "exec", dont_inherit=True), names)  # noqa: S102 - that is what it is for
    if not is_program:
        answer_calls(job, test, names, out)
    come_to_an_end()
    return 0


def bound(what: int, most: int) -> None:
    """Lower a limit of this process; one that is lower already stays."""
    _, hard = resource.getrlimit(what)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (least, hard))


def come_to_an_end() -> None:
    """Do what Python does at its end: wait for threads, call what was registered, write what is buffered."""
    if (threading := sys.modules.get("threading")) is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()


def answer_calls(job: dict[str, Any], test: dict[str, Any], names: dict[str, Any], out: int) -> None:
    """Call the solution's function, and write one line for each call: what it returned, or raised."""
    values = __import__("values")
    owner, _, name = job["function"].rpartition(".")
    function = getattr(names[owner](), name) if owner else names[name]
    for call in test["calls"]:
        arguments = [values.decode(each) for each in call["arguments"]]
        named = {key: values.decode(each) for key, each in call["named"].items()}
        try:
            line = {"value": values.encode(function(*arguments, **named))}
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a test may want it
            line = {"raised": type(error).__name__, "words": told(error)}
        send(out, json.dumps(line).encode() + b"\n")


def send(out: int, line: bytes) -> None:
    """Write a whole line into a pipe."""
    while line:
        line = line[os.write(out, line) :]


def told(error: BaseException) -> str:
    """Return an error with the line of the solution at which it was raised."""
    try:
        place = traceback.extract_tb(error.__traceback__)[-1].lineno
        return f"{type(error).__name__}: {error} (line {place})"[:500]
    except Exception:  # noqa: BLE001 - an error may have any text, also none
        return type(error).__name__


def write(name: str, text: str) -> None:
    """Write a file whole: it appears under its name when it is complete."""
    (HERE / f"{name}.part").write_text(text, encoding="utf-8")
    os.replace(HERE / f"{name}.part", HERE / name)


if __name__ == "__main__":
    main()
