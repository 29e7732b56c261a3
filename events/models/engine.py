"""An engine as a row: its command, its addresses, its parameters with ranges and defaults; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from events.runtime.errors import PipelineError

Value = int | bool | str
SHOWN_CHARS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: a whole number from `low` to `high`, one of `choices`, or a switch.

    `leaves_a_core` is a number of threads: one less than the cores at most, which is also its default. As
    many threads as cores stall as soon as anything else runs, since they wait for each other by spinning.
    """

    name: str
    says: str
    default: Value
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    leaves_a_core: bool = False

    def settled(self, given: Value | None, cores: int) -> Value:
        """Return the value to start with. Raises `ValueError` with words."""
        high = max(1, cores - 1) if self.leaves_a_core else self.high
        if given is None:
            return high if self.leaves_a_core else self.default
        if isinstance(self.default, bool):
            is_fit, accepted = isinstance(given, bool), "true or false"
        elif self.choices:
            is_fit, accepted = given in self.choices, f"one of {', '.join(self.choices)}"
        else:
            is_number = isinstance(given, int) and not isinstance(given, bool)
            is_fit = is_number and self.low <= int(given) <= high
            accepted = f"a whole number from {self.low} to {high}"
        if not is_fit:
            raise ValueError(f"{self.name} has to be {accepted}, not {str(given)[:SHOWN_CHARS]!r}")
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A program that serves a model behind the API of OpenAI.

    The words of `command` have the fields `{python}`, `{model}`, `{port}`, `{alias}` and `{name}`; those of
    `option` have `{name}` and `{value}` of a parameter. `needs` is the Python module without which it does
    not run, `extra` the extra that has it. Ready is what lists its alias at `listing`.
    """

    name: str
    title: str
    needs: str
    extra: str
    command: tuple[str, ...]
    option: str
    parameters: tuple[Parameter, ...]
    api: str = "/v1"
    listing: str = "/v1/models"
    metrics: str = "/metrics"

    def settled(self, given: Mapping[str, Value], cores: int) -> dict[str, Value]:
        """Return all parameters to start with. Raises `PipelineError` that names every wrong one."""
        if problems := list(self._problems(given, cores)):
            raise PipelineError("CONFIG", f"{self.name}: {'; '.join(problems)}")
        return {each.name: each.settled(given.get(each.name), cores) for each in self.parameters}

    def words(self, fields: Mapping[str, str | int], parameters: Mapping[str, Value]) -> list[str]:
        """Return the command line with settled parameters."""
        options = (self.option.format(name=name, value=_text(value)) for name, value in parameters.items())
        return [*(word.format(**fields) for word in self.command), *options]

    def _problems(self, given: Mapping[str, Value], cores: int) -> Iterator[str]:
        known = {each.name: each for each in self.parameters}
        for name, value in given.items():
            if name not in known:
                yield f"there is no parameter {name[:SHOWN_CHARS]!r}; there are {', '.join(known)}"
                continue
            try:
                known[name].settled(value, cores)
            except ValueError as error:
                yield str(error)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def listed_names(answer: object) -> Sequence[str]:
    """Return the names in the answer of a listing of models, whatever that holds."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    found: list[object] = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            aliases = row.get("aliases")
            found += [row.get("id"), *(aliases if isinstance(aliases, list) else ())]
    return [each for each in found if isinstance(each, str)]
