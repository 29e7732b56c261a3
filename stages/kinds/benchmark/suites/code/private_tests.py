"""Reads the tests of a LiveCodeBench problem, pure but for the file that they stand in.

Law: packed tests are another's claim. They are unpacked within bounds, and unpickled by a reader that knows
no class and no function: only plain values come out.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from stages.kinds.benchmark.suites.data.records import read_line
from stages.kinds.benchmark.suites.data.sources import DataRefused
from stages.kinds.benchmark.suites.payload import Line, Program

TESTS_MAX: Final = 1_000
PACKED_BYTES_MAX: Final = 256 << 20
UNPACKED_BYTES_MAX: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """One pair of input and expected output."""

    given: str
    wanted: str
    sort: Literal["stdin", "functional"]


class BadTests(ValueError):
    """The tests cannot be read; the text says why."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise BadTests(f"the private tests ask for {module}.{name}: they may hold plain values only")

    def persistent_load(self, _: Any) -> NoReturn:
        raise BadTests("the private tests ask for an object outside of them")


def cases_of(program: Program) -> list[Case]:
    """Return the public and the private tests of a problem. Raises `BadTests`."""
    private = program.private
    if isinstance(private, Line):
        private = _from_line(private, program.record)
    tests = [*_listed(program.public, "public"), *_listed(unpacked(private), "private")]
    if not 0 < len(tests) <= TESTS_MAX:
        raise BadTests(f"it has {len(tests)} tests")
    return tests


def unpacked(told: str) -> str:
    """Return private tests as JSON text, out of base64, zlib and pickle if need be. Raises `BadTests`."""
    if told.lstrip()[:1] in ("[", ""):
        return told
    if len(told) > PACKED_BYTES_MAX:
        raise BadTests(f"the private tests have more than {PACKED_BYTES_MAX} bytes")
    try:
        reader = zlib.decompressobj()
        content = reader.decompress(base64.b64decode(told, validate=True), UNPACKED_BYTES_MAX)
        if reader.unconsumed_tail or not reader.eof:
            raise BadTests(
                f"the private tests are cut off, or have more than {UNPACKED_BYTES_MAX} bytes unpacked"
            )
        found = _Plain(io.BytesIO(content)).load()
    except BadTests:
        raise
    except (
        binascii.Error,
        zlib.error,
        pickle.UnpicklingError,
        ValueError,
        EOFError,
        IndexError,
        KeyError,
        TypeError,
    ) as error:
        raise BadTests(f"the private tests cannot be unpacked: {type(error).__name__}") from error
    except (AttributeError, ImportError, MemoryError, OverflowError, RecursionError) as error:
        raise BadTests(f"the private tests are no plain values: {type(error).__name__}") from error
    if not isinstance(found, str):
        raise BadTests("the private tests are no text")
    return found


def _from_line(line: Line, record: str) -> str:
    try:
        fields = read_line(line)
    except DataRefused as error:
        raise BadTests(str(error)) from error
    private = fields.get("private_test_cases")
    if str(fields.get("question_id")) != record or not isinstance(private, str):
        raise BadTests("its file has changed since it was read")
    return private


def _listed(told: str, which: str) -> list[Case]:
    try:
        cases = json.loads(told) if told.strip() else []
    except (ValueError, RecursionError) as error:
        raise BadTests(f"the {which} tests are no JSON") from error
    if not isinstance(cases, list):
        raise BadTests(f"the {which} tests are no list")
    return [_test(case, which) for case in cases]


def _test(case: Any, which: str) -> Case:
    if isinstance(case, dict):
        given, wanted, sort = case.get("input"), case.get("output"), case.get("testtype", "stdin")
        if isinstance(given, str) and isinstance(wanted, str) and sort in ("stdin", "functional"):
            return Case(given, wanted, sort)
    raise BadTests(f"one of the {which} tests has no input and output, or another type")
