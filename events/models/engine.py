"""An engine as a row: its command, its addresses, its parameters, and how it is known to be ours; pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from events.models.parameter import SHOWN_CHARS, Impossible, Parameter, Value, text_of
from events.runtime.errors import PipelineError

LOOSE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
NAMES_SHOWN: Final = 40
PYTHON_SHOWN: Final = "python3"
PORT_SHOWN: Final = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A program that serves a model behind the API of OpenAI.

    The words of `command`, and `variables` of its environment, have the fields `{python}`, `{model}`,
    `{port}`, `{alias}` and `{name}`; those of `option` are `{name}`, `{dashed}` and `{value}` of a parameter.
    `needs` is the module of this Python, or the program, without which it does not run; `install` says how
    to get it. `weights` are a file, an id of the hub or a folder, or a name in its own library.

    Ready is what answers at `health` and lists the alias at `listing`; one that cannot be given an alias is
    known by who listens at its port. Requests call the model by the `called` one of the fields.
    `requests_in` and `context_in` name the parameters of requests at once and of tokens of context, which
    all requests share where `is_context_shared`. The product of those in `gpus_in` is a number of GPUs.
    With those in `uncached` it keeps no prompt for the next one. One that `is_open` takes any parameter.
    """

    name: str
    title: str
    needs: str
    install: str
    command: tuple[str, ...]
    option: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    impossible: tuple[Impossible, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    needs_is: Literal["module", "program"] = "module"
    weights: Literal["file", "hub", "library"] = "file"
    called: Literal["name", "alias", "model"] = "alias"
    proof: Literal["alias", "listener"] = "alias"
    takes_ignore_eos: bool = True
    image: str = ""
    requests_in: str = ""
    context_in: str = ""
    is_context_shared: bool = False
    gpus_in: tuple[str, ...] = ()
    uncached: tuple[tuple[str, Value], ...] = ()
    is_open: bool = False
    api: str = "/v1"
    health: str = "/health"
    listing: str = "/v1/models"
    metrics: str = "/metrics"

    def settled(self, given: Mapping[str, Value], cores: int, gpus: int | None = None) -> dict[str, Value]:
        """Return the parameters to start with, without those that are left to the engine.

        Raises `PipelineError` that names every problem.
        """
        if problems := self.problems(given, cores, gpus):
            raise PipelineError("CONFIG", f"{self.name}: {'; '.join(problems)}")
        values = {each.name: each.settled(given.get(each.name), cores) for each in self._of(given)}
        return {name: value for name, value in values.items() if value is not None}

    def problems(
        self, given: Mapping[str, Value], cores: int | None = None, gpus: int | None = None
    ) -> list[str]:
        """Return in words why it cannot start with these; what is not known of a machine bounds nothing."""
        wrong = list(self._wrong(given, cores))
        return wrong or [*self._combined(given), *self._too_many_gpus(given, gpus)]

    def words(self, fields: Mapping[str, str | int], parameters: Mapping[str, Value]) -> list[str]:
        """Return the command line with settled parameters."""
        known = {each.name: each for each in self._of(parameters)}
        options = (known[name].words(value, self.option) for name, value in parameters.items())
        return [
            *(word.format(**fields) for word in self.command),
            *(word for each in options for word in each),
        ]

    def command_line(self, model: str, name: str, parameters: Mapping[str, Value]) -> str:
        """Return what a person types to serve a model like that, in one line, safe to paste."""
        fields: dict[str, str | int] = {
            "python": PYTHON_SHOWN, "model": model, "port": PORT_SHOWN, "alias": name, "name": name,
        }  # fmt: skip
        variables = [f"{key}={value}" for key, value in self.environment(fields, parameters).items()]
        return shlex.join([*(["env"] if variables else []), *variables, *self.words(fields, parameters)])

    def environment(self, fields: Mapping[str, str | int], parameters: Mapping[str, Value]) -> dict[str, str]:
        """Return the variables of its own, and those that are parameters."""
        own = {name: value.format(**fields) for name, value in self.variables}
        asked = {each.variable: parameters.get(each.name) for each in self.parameters if each.variable}
        return own | {name: _flag(value) for name, value in asked.items() if value is not None}

    def space(self) -> dict[str, dict[str, Any]]:
        """Return what a study tries by default, as its plan has it: each parameter with its values."""
        return {each.name: each.tried.space(each.type) for each in self.parameters if each.tried}

    def sized(self, requests: int, tokens_each: int) -> dict[str, Value]:
        """Return parameters for as many requests at once, each with so many tokens of context."""
        tokens = requests * tokens_each if self.is_context_shared else tokens_each
        sizes: dict[str, Value] = {self.requests_in: requests, self.context_in: tokens}
        return {name: value for name, value in sizes.items() if name}

    def _of(self, given: Mapping[str, Value]) -> Sequence[Parameter]:
        if not self.is_open:
            return self.parameters
        known = {each.name for each in self.parameters}
        loose = (Parameter(name=name, says="", type="any") for name in given if name not in known)
        return [*self.parameters, *loose]

    def _wrong(self, given: Mapping[str, Value], cores: int | None) -> Iterator[str]:
        known = {each.name: each for each in self._of(given)}
        for name, value in given.items():
            if self.is_open and not LOOSE_NAME.fullmatch(name):
                yield f"{name[:SHOWN_CHARS]!r} is no name of a parameter"
            elif name not in known:
                listed = ", ".join([*known][:NAMES_SHOWN])
                yield f"there is no parameter {name[:SHOWN_CHARS]!r}; there are {listed}"
            else:
                try:
                    known[name].settled(value, cores)
                except ValueError as error:
                    yield str(error)

    def _combined(self, given: Mapping[str, Value]) -> Iterator[str]:
        yield from (each.says for each in self.impossible if each.holds(given))

    def _too_many_gpus(self, given: Mapping[str, Value], gpus: int | None) -> Iterator[str]:
        wanted = math.prod(int(given.get(name, 1)) for name in self.gpus_in)
        if gpus is not None and wanted > max(1, gpus):
            yield f"{' x '.join(self.gpus_in)} is {wanted} GPUs, and this pod has {gpus}"


def _flag(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else text_of(value)


def listed_names(answer: object) -> Sequence[str]:
    """Return the names in the answer of a listing of models, whatever that holds."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    found: list[object] = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            aliases = row.get("aliases")
            found += [row.get("id"), *(aliases if isinstance(aliases, list) else ())]
    return [each for each in found if isinstance(each, str)]
