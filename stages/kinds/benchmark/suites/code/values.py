"""Plain values as text that crosses between processes, pure.

Law: what comes out is plain data of Python, whatever was put in: a number, a text, a list. An object that is
more than that crosses as its type's name, and equals nothing. It is copied into sandboxes, and uses the
standard library alone.
"""

from __future__ import annotations

import numbers
from typing import Any

DEPTH_MAX = 100
NODES_MAX = 2_000_000
EXACT_MAX = 2**53


class Other:
    """Stands for a value that did not cross; it equals nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class _Budget:
    def __init__(self) -> None:
        self.left = NODES_MAX


def encode(value: Any) -> Any:
    """Return a value as what JSON can hold."""
    return _encode(value, 0, _Budget())


def decode(told: Any) -> Any:
    """Return the value that `encode` made this of. Raises `ValueError` for anything else."""
    try:
        return _decode(told, 0)
    except (TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"it is no value: {error}") from error


def _encode(value: Any, depth: int, budget: _Budget) -> Any:
    budget.left -= 1
    if depth > DEPTH_MAX or budget.left < 0:
        return {"other": "a value that is too large"}
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return whole if abs(whole) <= EXACT_MAX else {"int": hex(whole)}
    if isinstance(value, numbers.Real):
        return {"float": float(value).hex()}
    if isinstance(value, numbers.Complex):
        return {"complex": [complex(value).real.hex(), complex(value).imag.hex()]}
    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, dict):
        pairs = [
            [_encode(key, depth + 1, budget), _encode(each, depth + 1, budget)] for key, each in value.items()
        ]
        return {"dict": pairs}
    for kind, name in ((tuple, "tuple"), (set, "set"), (frozenset, "set")):
        if isinstance(value, kind):
            return {name: [_encode(each, depth + 1, budget) for each in value]}
    if isinstance(value, list):
        return [_encode(each, depth + 1, budget) for each in value]
    return {"other": type(value).__name__[:100]}


def _decode(told: Any, depth: int) -> Any:
    if depth > DEPTH_MAX + 1:
        raise ValueError("it is too deep")
    if told is None or isinstance(told, bool | int | str):
        return told
    if isinstance(told, list):
        return [_decode(each, depth + 1) for each in told]
    if not isinstance(told, dict) or len(told) != 1:
        raise ValueError("it is no value")
    ((kind, inner),) = told.items()
    if kind == "int":
        return int(inner, 16)
    if kind == "float":
        return float.fromhex(inner)
    if kind == "complex":
        return complex(*map(float.fromhex, inner))
    if kind == "bytes":
        return bytes.fromhex(inner)
    if kind == "tuple":
        return tuple(_decode(each, depth + 1) for each in inner)
    if kind == "set":
        return {_decode(each, depth + 1) for each in inner}
    if kind == "dict":
        return {_decode(key, depth + 1): _decode(each, depth + 1) for key, each in inner}
    if kind == "other":
        return Other(str(inner)[:100])
    raise ValueError("it is no value")
