"""The prices of a model's tokens: the shipped list, and a file of the operator over it.

Law: a model without a price has no cost, and the run's page states that; it never costs 0 by accident.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Self

from events.catalog import Price
from events.runtime.errors import PipelineError
from stages.models.model import Usage

TABLE: Final = "usd_per_million_tokens"
FILE_BYTES_MAX: Final = 1 << 20
TOKENS_PER_PRICE: Final = 1_000_000
ANYTHING: Final = "*"  # at the end of a name
# What may follow a name without making it another model: a date, a revision, `latest`.
VARIANT: Final = re.compile(r"[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest)")


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by the names of models; a name that ends with `*` stands for all that begin with it."""

    rows: Mapping[str, Price]

    @classmethod
    def load(cls, extra: Path | None = None) -> Self:
        """Return the shipped prices, with those of `extra` in their place where it names them.

        Raises `PipelineError` with the code CONFIG for a file that cannot be read as prices.
        """
        shipped = _read(
            files("stages.models").joinpath("prices.toml").read_text("utf-8"), "the shipped prices"
        )
        return cls(shipped if extra is None else shipped | _read(_text_of(extra), str(extra)))

    def of(self, model: str) -> Price | None:
        """Return the price of `model` by the longest name that fits it; None where none does."""
        names = [name for name in self.rows if _fits(name, model)]
        return self.rows[max(names, key=lambda name: len(name.rstrip(ANYTHING)))] if names else None


def cost_usd(price: Price | None, usage: Usage) -> float | None:
    """Return what a request cost; None where its price or a count of its tokens is not known."""
    if price is None or price.input_usd_per_mtok is None or price.output_usd_per_mtok is None:
        return None
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    input_usd = usage.prompt_tokens * price.input_usd_per_mtok
    answered = usage.completion_tokens * price.output_usd_per_mtok
    return (input_usd + answered) / TOKENS_PER_PRICE


def _fits(name: str, model: str) -> bool:
    if name.endswith(ANYTHING):
        return model.startswith(name[: -len(ANYTHING)])
    rest = model.removeprefix(name) if model.startswith(name) else None
    return rest is not None and (rest == "" or VARIANT.fullmatch(rest) is not None)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise _wrong(str(path), [f"it has more than {FILE_BYTES_MAX} bytes"])
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(str(path), [str(error)]) from error


def _read(text: str, source: str) -> dict[str, Price]:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _wrong(source, [str(error)]) from error
    problems = [f"{name!r} is not known" for name in document if name != TABLE]
    table = document.get(TABLE, {})
    if not isinstance(table, dict):
        raise _wrong(source, [f"[{TABLE}] has to be a table"])
    problems += [problem for name, row in table.items() for problem in _problems(name, row)]
    if problems:
        raise _wrong(source, problems)
    return {
        name: Price(input_usd_per_mtok=float(row["input"]), output_usd_per_mtok=float(row["output"]))
        for name, row in table.items()
    }


def _problems(name: str, row: Any) -> Iterator[str]:
    if not isinstance(row, dict) or set(row) != {"input", "output"}:
        yield f"{name!r} has to be {{ input = ..., output = ... }}"
        return
    for side, value in row.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0:
            yield f"{side} of {name!r} is {value!r}; it has to be a number of US dollars, 0 or more"


def _wrong(source: str, problems: list[str]) -> PipelineError:
    example = f'[{TABLE}], then lines like "my-model" = {{ input = 0.5, output = 1.5 }}'
    return PipelineError(
        "CONFIG", f"{source} is no list of prices: {'; '.join(problems)}. It holds {example}"
    )
