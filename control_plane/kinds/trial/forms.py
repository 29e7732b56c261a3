"""The form of a task: its texts, the task that they say, and the texts that would say a task, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from control_plane.kinds.trial.bodies import RangeBody, TaskBody, name_of_model
from control_plane.server.web.forms.fields import FormWithParts, Unfit, read_body, typed_lines
from control_plane.server.web.forms.parts import Input, Part, option_parts, options_in, shown, typed_as
from control_plane.server.web.forms.typed import read_json
from events.models.engine import Engine
from events.models.engines import ENGINES
from events.models.parameter import Parameter
from events.text import traffic

ELSEWHERE: Final = ("not_before",)
ON: Final = "on"
WORDS_MAX: Final = 12  # scenarios that are told in words
# What is worth a try, as texts of the form; of each engine those parameters that it has.
PRESETS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "slots": (
        "Requests at once",
        {
            "n_parallel": "1, 2, 4, 8", "max_num_seqs": "32, 64, 128, 256",
            "max_running_requests": "32, 64, 128, 256", "parallel": "1, 2, 4, 8", "num_parallel": "1, 2, 4",
        },
    ),
    "batches": (
        "Batches",
        {
            "n_batch": "512, 1024, 2048", "n_ubatch": "128, 256, 512", "batch_size": "512, 1024, 2048",
            "ubatch_size": "128, 256, 512", "max_num_batched_tokens": "2048, 4096, 8192",
            "chunked_prefill_size": "2048, 4096, 8192",
        },
    ),
    "memory": (
        "Memory",
        {
            "cache_type_k": "f16, q8_0", "cache_type_v": "f16, q8_0", "flash_attn": "auto, disabled",
            "gpu_memory_utilization": "0.8, 0.9, 0.95", "mem_fraction_static": "0.8, 0.85, 0.9",
            "kv_cache_dtype": "auto, fp8",
        },
    ),
}  # fmt: skip


class TaskForm(FormWithParts):
    """What a person typed; `touched` names the fields of the model that follow its id no longer."""

    revision: str = ""
    touched: str = ""
    name: str = ""
    description: str = ""
    model_id: str = ""
    model_name: str = ""
    model_tokenizer: str = ""
    base_runtime: str = "xllamacpp"
    deployment_mode: str = "process"
    runtime_image_tag: str = ""
    command: str = ""
    more: str = ""
    strategy: str = "bayesian"
    metric: str = "tokens_out_per_s"
    direction: str = "maximize"
    second_metric: str = ""
    second_direction: str = "maximize"
    constraints: str = ""
    max_iterations: str = "20"
    repeats: str = "1"
    parallel: str = "1"
    patience: str = ""
    target: str = ""
    baseline: str = ""
    baseline_values: str = ""
    baseline_every: str = ""
    confirm_top: str = ""
    confirm_repeats: str = ""
    prune_after: str = ""
    prune_keep_percent: str = ""
    prune_min_members: str = ""
    max_seconds: str = ""
    max_cost_usd: str = ""
    points: str = "5"
    seed: str = "0"
    traffic_scenarios: str = "D(100,20)"
    num_concurrency: str = "1, 4"
    rates: str = ""
    requests: str = "32"
    warmup: str = "2"
    measured: str = "1"
    shared_prefix: str = "0"
    ttft_s: str = ""
    tpot_s: str = ""
    e2e_s: str = ""
    ready_s: str = "600"
    measure_s: str = "300"
    memory_gib: str = ""
    cores: str = ""
    token_secret: str = ""
    proxy_secret: str = ""
    certificates_secret: str = ""
    offline: str = ""
    client: str = "own"

    @classmethod
    def of(cls, task: TaskBody, revision: int) -> TaskForm:
        """Return the filled-in form of a task."""
        wanted, benchmark, limits = task.optimization, task.benchmark, task.benchmark.limits
        derived = {"model_name": name_of_model(task.model.id), "model_tokenizer": task.model.id}
        model = {"model_name": task.model.name, "model_tokenizer": task.model.tokenizer}
        own = wanted.baseline if isinstance(wanted.baseline, dict) else {}
        known = {each.name for each in rows_of(task.base_runtime)}
        texts = {name: parameter_text(given) for name, given in task.parameters.items()}
        typed = {field_of(task.base_runtime, name): text for name, text in texts.items() if name in known}
        typed |= typed_as(option_parts(ELSEWHERE), task.placement.model_dump())
        flat = {
            **{name: getattr(task, name) for name in ("name", "description", "command")},
            **{
                name: getattr(task, name) for name in ("base_runtime", "deployment_mode", "runtime_image_tag")
            },
            **{name: getattr(wanted, name) for name in _OPTIMIZATION},
            **{name: getattr(benchmark, name) for name in _BENCHMARK},
            **{name: getattr(limits, name) for name in _LIMITS},
            "metric": wanted.objective.metric,
            "direction": wanted.objective.direction,
            "measured": benchmark.repeats,
            "client": benchmark.client,
        }
        if wanted.second_objective is not None:
            second = wanted.second_objective
            flat |= {"second_metric": second.metric, "second_direction": second.direction}
        if wanted.confirm is not None:
            flat |= {"confirm_top": wanted.confirm.top, "confirm_repeats": wanted.confirm.repeats}
        if wanted.prune is not None:
            flat |= {f"prune_{name}": value for name, value in wanted.prune.model_dump().items()}
        return cls(
            **{name: _text(value) for name, value in flat.items()},
            **model,
            revision=str(revision),
            touched=" ".join(name for name, value in model.items() if value != derived[name]),
            model_id=task.model.id,
            more="\n".join(f"{name}={text}" for name, text in texts.items() if name not in known),
            constraints="\n".join(wanted.constraints),
            baseline=ON if wanted.baseline else "",
            baseline_values="\n".join(f"{name}={_text(value)}" for name, value in own.items()),
            traffic_scenarios=", ".join(map(str, traffic.read_scenarios(benchmark.traffic_scenarios))),
            num_concurrency=", ".join(map(str, benchmark.num_concurrency)),
            rates=", ".join(map(_text, benchmark.rates)),
            offline=ON if benchmark.offline else "",
            typed=typed,
        )

    def body(self) -> TaskBody:
        """Return the task. Raises `Unfit`."""
        problems = [] if self.model_id.strip() else ["Model id: say something here"]
        wanted: dict[str, Any] = {
            "name": self.name.strip(),
            "description": typed_lines(self.description).strip(),
            "model": {
                "id": self.model_id.strip(),
                "name": self.model_name.strip(),
                "tokenizer": self.model_tokenizer.strip(),
            },
            "base_runtime": self.base_runtime,
            "deployment_mode": self.deployment_mode,
            "runtime_image_tag": self.runtime_image_tag.strip(),
            "command": self.command.strip(),
            "parameters": self.parameters(problems),
            "optimization": self._optimization(problems),
            "benchmark": self._benchmark(),
            "placement": options_in(self.typed, ELSEWHERE).model_dump(exclude={*ELSEWHERE}),
        }
        if problems:
            raise Unfit(problems)
        return read_body(TaskBody, wanted)

    def parameters(self, problems: list[str]) -> dict[str, Any]:
        """Return the typed parameters of the chosen engine, and those that its row does not have."""
        texts = {
            each.name: text
            for each in rows_of(self.base_runtime)
            if (text := self.typed.get(field_of(self.base_runtime, each.name), "").strip())
        }
        texts |= pairs_in(self.more, "Further parameters", problems)
        found = dict[str, Any]()
        for name, text in texts.items():
            try:
                found[name] = parameter_of(text)
            except ValueError as error:
                problems.append(f"{name}: {error}")
        return found

    def _optimization(self, problems: list[str]) -> dict[str, Any]:
        own = pairs_in(self.baseline_values, "Baseline", problems)
        found: dict[str, Any] = {
            "strategy": self.strategy,
            "objective": {"metric": self.metric.strip(), "direction": self.direction},
            "constraints": [
                line for each in typed_lines(self.constraints).split("\n") if (line := each.strip())
            ],
            "baseline": {name: value_of(text) for name, text in own.items()} or self.baseline == ON,
        }
        if metric := self.second_metric.strip():
            found["second_objective"] = {"metric": metric, "direction": self.second_direction}
        for part, names in _PARTS.items():
            typed = {name: getattr(self, f"{part}_{name}").strip() for name in names}
            if any(typed.values()):
                found[part] = {name: number_of(text) for name, text in typed.items() if text}
        return found | self._numbers([each for each in _OPTIMIZATION if each != "strategy"])

    def _benchmark(self) -> dict[str, Any]:
        repeats = {"repeats": number_of(self.measured)} if self.measured.strip() else {}
        return {
            "traffic_scenarios": typed_lines(self.traffic_scenarios).replace("\n", ", ").strip(),
            "num_concurrency": _listed(self.num_concurrency),
            "rates": _listed(self.rates),
            "limits": self._numbers(_LIMITS),
            "offline": self.offline == ON,
            "client": self.client,
            **repeats,
            **self._numbers(_BENCHMARK),
        }

    def _numbers(self, names: Iterable[str]) -> dict[str, Any]:
        texts = {name: getattr(self, name).strip() for name in names}
        return {name: number_of(text) for name, text in texts.items() if text}


_OWN: Final = ("name", "description", "command", "base_runtime", "deployment_mode", "runtime_image_tag")
_OPTIMIZATION: Final = (
    "strategy",
    "max_iterations",
    "repeats",
    "parallel",
    "patience",
    "target",
    "points",
    "seed",
    "baseline_every",
    "max_seconds",
    "max_cost_usd",
)
_PARTS: Final = {"confirm": ("top", "repeats"), "prune": ("after", "keep_percent", "min_members")}
_BENCHMARK: Final = (
    "requests",
    "warmup",
    "shared_prefix",
    "ready_s",
    "measure_s",
    "memory_gib",
    "cores",
    "token_secret",
    "proxy_secret",
    "certificates_secret",
)
_LIMITS: Final = ("ttft_s", "tpot_s", "e2e_s")


def preset_of(engine: str, name: str) -> dict[str, str]:
    """Return the texts of a preset by the names of their fields; none of an unknown one."""
    _, texts = PRESETS.get(name, ("", {}))
    known = {each.name for each in rows_of(engine)}
    return {field_of(engine, each): text for each, text in texts.items() if each in known}


def presets_of(engine: str) -> list[tuple[str, str]]:
    """Return the names and the titles of the presets that an engine has."""
    return [(name, title) for name, (title, _) in PRESETS.items() if preset_of(engine, name)]


def rows_of(engine: str) -> Sequence[Parameter]:
    """Return the parameters that an engine declares."""
    found: Engine | None = ENGINES.get(engine)
    return found.parameters if found is not None else ()


def field_of(engine: str, parameter: str) -> str:
    """Return the name of the field of a parameter."""
    return f"p.{engine}.{parameter}"


def accepted(parameter: Parameter) -> str:
    """Return in words what a parameter takes, and its default."""
    if parameter.choices:
        takes = ", ".join(parameter.choices)
    elif parameter.type == "switch":
        takes = "true, false"
    elif parameter.leaves_a_core:
        takes = f"{_text(float(parameter.low))} to one less than the cores"
    else:
        takes = f"{_text(float(parameter.low))} to {_text(float(parameter.high))}"
    usual = parameter.usual if parameter.default is None else parameter.default
    by_default = "the engine's own" if usual is None else _text(usual)
    return f"{parameter.says}: {takes}; {by_default} by default"


def parameter_of(text: str) -> Any:
    """Return the value, the values or the range that a text says. Raises `ValueError` with advice.

    `1, 2, 4` are values, `1..8` is a range, `32..2048 log` one by its logarithm, and `4` one value.
    """
    words, is_range, rest = text.partition("..")
    if is_range:
        high, _, log = rest.strip().partition(" ")
        ends = (number_of(words), number_of(high))
        if log.strip() not in ("", "log") or any(isinstance(each, str) for each in ends):
            raise ValueError(f"{text[:60]!r} is no range, such as 1..8 or 32..2048 log")
        return {"low": ends[0], "high": ends[1], "log": log.strip() == "log"}
    if "," in text:
        return [value_of(each.strip()) for each in text.split(",") if each.strip()]
    return value_of(text)


def parameter_text(given: Any) -> str:
    """Return the text that says what a parameter is."""
    if isinstance(given, RangeBody):
        return f"{_text(given.low)}..{_text(given.high)}{' log' if given.log else ''}"
    if isinstance(given, list):
        return ", ".join(map(_text, given)) + ("," if len(given) == 1 else "")
    return _text(given)


def value_of(text: str) -> Any:
    """Return a number, true, false, or the text itself."""
    try:
        found = read_json(text)
    except ValueError:
        return text
    return found if isinstance(found, bool | int | float) else text


def number_of(text: str) -> Any:
    """Return the number that a text says, else the text, which will be refused by its field."""
    found = value_of(text.strip())
    return text if isinstance(found, bool) else found


def pairs_in(text: str, what: str, problems: list[str]) -> dict[str, str]:
    """Return the lines NAME=VALUE of a text; what is none is added to the problems."""
    found: dict[str, str] = {}
    for line in filter(None, (each.strip() for each in typed_lines(text).split("\n"))):
        name, is_pair, value = line.partition("=")
        if is_pair and value.strip():
            found[name.strip()] = value.strip()
        else:
            problems.append(f"{what}: {line[:80]!r} is not NAME=VALUE")
    return found


def parts_of(form: TaskForm, unfit: Unfit | None) -> list[tuple[Part, list[Input]]]:
    """Return the options of the trials as the form shows them."""
    return shown(option_parts(ELSEWHERE), form.typed, unfit.fields if unfit else {})


def scenario_words(text: str) -> str:
    """Return in words what scenarios ask for, or what is wrong with them."""
    try:
        found = traffic.read_scenarios(typed_lines(text).replace("\n", ", "))
    except ValueError as error:
        return f"✗ {error}"
    told = [_scenario(each) for each in found[:WORDS_MAX]]
    rest = f"; {len(found) - WORDS_MAX} more" if len(found) > WORDS_MAX else ""
    return f"✓ {len(found)} scenario{'' if len(found) == 1 else 's'}: {'; '.join(told)}{rest}"


def _scenario(each: traffic.Scenario) -> str:
    match each:
        case traffic.Fixed():
            return f"{each.tokens_in:,} tokens in, {each.tokens_out:,} out"
        case traffic.Normal():
            return (
                f"about {each.mean_in:,} ± {each.deviation_in:,} tokens in, "
                f"{each.mean_out:,} ± {each.deviation_out:,} out"
            )
        case _:
            return f"{each} ({each.asks})"


def _listed(text: str) -> list[Any]:
    return [number_of(each) for each in text.split(",") if each.strip()]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
