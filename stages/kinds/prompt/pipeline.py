"""Prompts: have a model served, warm it up, wait for the others of a race, and time each answer."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from events.kinds.prompt import LAPS, PromptSpec, parameters_of
from events.models.endpoints import EXAMPLE, SETTING, Endpoint, Form, endpoints
from events.models.engine import Engine
from events.models.engines import chosen
from events.runtime.clock import SystemIds
from events.runtime.errors import PipelineError
from stages.context import Context, Stage
from stages.engines.chat.asking import Answer, Progress, Question, Server
from stages.engines.chat.library import Library
from stages.engines.environment import engine_environment
from stages.engines.failure import EngineFailed
from stages.engines.load.client import opened_session
from stages.engines.load.measuring import without_old_garbage
from stages.engines.running import ServingLimits, log_kept
from stages.engines.serving import Served, serve
from stages.engines.weights import model_of
from stages.kinds.prompt.tally import Tally

SERVE: Final = "serve"
LOAD: Final = "load"
ANSWER: Final = "answer"
STAGES: Final = 3
WARM_UP: Final = "Hi."
WARM_UP_TOKENS: Final = 4
ENDS_S: Final = 2.0  # so long after its answer broke off it is seen that an engine has ended
LATE: Final = frozenset({"timeout"})
GONE: Final = frozenset({"refused", "no_connection", "502", "503", "504"})
BUSY: Final = frozenset({"429"})
MISSING: Final = frozenset({"404"})


def run(context: Context) -> str:
    """Answer a prompt. Raises `PipelineError` where that cannot be done to its end."""
    assert isinstance(context.spec, PromptSpec)
    return _Prompt(context, context.spec).run()


@dataclass(slots=True)
class _Prompt:
    """One attempt: all laps are its own, whatever an earlier attempt has measured."""

    context: Context
    spec: PromptSpec
    tally: Tally = field(default_factory=Tally)

    def run(self) -> str:
        """Answer, and return the line that sums it up."""
        folder = self.context.workspace / "engine"
        folder.mkdir()
        try:
            with log_kept(folder, self.context.keep), ExitStack() as stack:
                with self.context.stage(SERVE, index=1, total=STAGES):
                    asked = self._prepared(stack)
                with self.context.stage(LOAD, index=2, total=STAGES) as stage:
                    asked.load(stage)
                stack.enter_context(without_old_garbage())
                self.context.wait_for_start()
                with self.context.stage(ANSWER, index=3, total=STAGES) as stage:
                    self._laps(stage, asked)
        except EngineFailed as error:
            raise _failed(error) from error
        return self._line()

    def _prepared(self, stack: ExitStack) -> _Asked:
        """Start the engine, or find the endpoint, and return who is asked."""
        runner = asyncio.Runner()
        begun_s = self.context.clock.monotonic_s()
        if self.spec.endpoint is not None:
            place = self._endpoint(self.spec.endpoint)
            asked = _Asked(self.context, self.spec, runner, place.url, place.form, self.spec.model)
        else:
            served, engine = self._served(stack)
            form: Form = "ollama" if engine.weights == "library" else "openai"
            url = served.url if form == "openai" else f"{served.url.removesuffix(engine.api)}/api"
            asked = _Asked(self.context, self.spec, runner, url, form, served.name, served, engine)
        stack.enter_context(runner)
        stack.callback(asked.close)
        asked.open()
        self.context.summarize({"start_s": self.context.clock.monotonic_s() - begun_s})
        return asked

    def _endpoint(self, name: str) -> Endpoint:
        found = endpoints(self.context.tools.variables)
        if name not in found:
            listed = ", ".join(found) or "none"
            raise PipelineError(
                "NOT_AVAILABLE",
                f"this pod has no endpoint {name}; it has {listed}. "
                f"Its operator sets {SETTING}, such as {EXAMPLE}",
                retryable=True,
            )
        return found[name]

    def _served(self, stack: ExitStack) -> tuple[Served, Engine]:
        spec, context = self.spec, self.context
        variables = context.tools.variables
        engine = chosen(spec.engine or "", variables, command=spec.command, image=spec.image)
        try:
            model = model_of(engine, spec.model, variables)
        except PipelineError as error:
            raise PipelineError("MODEL_MISSING", error.message) from error
        served = stack.enter_context(
            serve(
                engine,
                model,
                parameters_of(spec, engine),
                name=spec.model,
                folder=context.workspace / "engine",
                clock=context.clock,
                ids=SystemIds(),
                gpus=context.tools.gpus,
                environment=engine_environment(variables, is_offline=spec.offline),
                image=spec.image,
                pod=context.pod,
                say=context.log,
                limits=ServingLimits(ready_s=spec.ready_s),
            )
        )
        context.log(f"{engine.name} is ready: {' '.join(served.command)}")
        return served, engine

    def _laps(self, stage: Stage, asked: _Asked) -> None:
        for lap in range(1, self.spec.repeats + 1):
            stage.progress((lap - 1) / self.spec.repeats, f"lap {lap} of {self.spec.repeats}")
            answer = asked.answer(lap)
            self._keep_text(lap, answer)
            asked.check(answer, "answer_s", self.spec.answer_s)
            if answer.is_overrun:
                self.context.log(
                    f"lap {lap}: the engine said more behind its end, which is not counted", "warning"
                )
            self.context.result(LAPS.name, str(lap), self.tally.add(answer), "done")
            self.context.summarize(self.tally.headline())

    def _keep_text(self, lap: int, answer: Answer) -> None:
        """Hand over what the engine said, byte for byte; the name tells an answer that broke off."""
        path = self.context.workspace / f"text-{lap}{'.part' if answer.failure else ''}.txt"
        path.write_bytes(answer.text)
        self.context.keep(path)

    def _line(self) -> str:
        values = self.tally.headline()
        speed, first = values["tokens_per_s"], values["ttft_s"]
        said = [f"{speed:,.1f} tokens/s"] if isinstance(speed, float) else []
        said += [f"first token after {first * 1000:,.0f} ms"] if isinstance(first, float) else []
        by = f"at {self.spec.endpoint}" if self.spec.endpoint else f"by {self.spec.engine}"
        return f"{self.spec.model} {by}: {', '.join(said) or 'an empty answer'}"


@dataclass(slots=True)
class _Asked:
    """The server that is asked, with one event loop and one session for all laps."""

    context: Context
    spec: PromptSpec
    runner: asyncio.Runner
    url: str
    form: Form
    model: str
    served: Served | None = None
    engine: Engine | None = None
    _session: ExitStack = field(default_factory=ExitStack)
    _server: Server | None = None

    def open(self) -> None:
        """Open the session."""
        opened = opened_session(self.context.clock)
        session = self.runner.run(opened.__aenter__())
        self._session.callback(lambda: self.runner.run(opened.__aexit__(None, None, None)))
        self._server = Server(base_url=self.url, form=self.form, session=session, clock=self.context.clock)

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    @property
    def server(self) -> Server:
        """Who is asked, once the session is open."""
        assert self._server is not None
        return self._server

    def load(self, stage: Stage) -> None:
        """Have the model loaded: pulled where the server's library lacks it, and asked for some tokens."""
        if self.form == "ollama":
            self._pull(stage)
        stage.progress(0.9, "warm up")
        warm_up = self.server.ask(self._question(WARM_UP, WARM_UP_TOKENS), self.spec.ready_s)
        self.check(self.runner.run(warm_up), "ready_s", self.spec.ready_s)

    def _pull(self, stage: Stage) -> None:
        library = Library(base_url=self.url, session=self.server.session)
        if self.runner.run(library.has(self.model)):
            return
        if self.spec.offline:
            raise PipelineError("MODEL_MISSING", f"the server has no {self.model}, and the run is offline")
        begun_s = self.context.clock.monotonic_s()
        self.context.log(f"the server has no {self.model}: it is pulled")
        pulling = library.pull(
            self.model, self.spec.pull_s, lambda share, words: stage.progress(0.9 * share, f"pull: {words}")
        )
        self.runner.run(pulling)
        self.context.summarize({"pull_s": self.context.clock.monotonic_s() - begun_s})

    def answer(self, lap: int) -> Answer:
        """Ask the prompt, and show the answer as it comes."""

        def heard(progress: Progress) -> None:
            speed = progress.pieces_per_s
            known = {} if speed is None else {"tokens_per_s": speed}
            self.context.show(
                progress.text, lap, ttft_s=progress.ttft_s, tokens=float(progress.pieces), **known
            )

        question = self._question(self.spec.prompt, self.spec.max_tokens)
        return self.runner.run(self.server.ask(question, self.spec.answer_s, heard))

    def check(self, answer: Answer, name: str, limit_s: float) -> None:
        """Raise `PipelineError` for an answer that came to no end within its limit, which has a name."""
        if not answer.failure:
            return
        if (words := self._ended(0.0 if answer.failure in LATE else ENDS_S)) is not None:
            assert self.served is not None
            raise EngineFailed(words, self.served.log)
        raise _broken(answer, self.model, f"{limit_s:g} s ({name})")

    def _ended(self, wait_s: float) -> str | None:
        """Return how the engine ended, if it did, or does soon: a connection is closed before who had it."""
        if self.served is None:
            return None
        clock, never = self.context.clock, threading.Event()
        until_s = clock.monotonic_s() + wait_s
        while (words := self.served.ended()) is None and clock.monotonic_s() < until_s:
            clock.wait(never, 0.05)
        return words

    def _question(self, prompt: str, tokens_max: int) -> Question:
        spec = self.spec
        return Question(
            model=self.model,
            prompt=prompt,
            tokens_max=tokens_max,
            temperature=spec.temperature,
            seed=spec.seed,
            context=spec.context,
            is_eos_ignored=spec.ignore_eos,
        )


def _failed(error: EngineFailed) -> PipelineError:
    """Return the failure of a run whose engine did not start, or ended."""
    if error.advice is not None and error.advice.code == "OUT_OF_MEMORY":
        return PipelineError("ENGINE_OUT_OF_MEMORY", error.message)
    if error.advice is not None and error.advice.code == "MODEL_NOT_FOUND":
        return PipelineError("MODEL_MISSING", error.message)
    return PipelineError("ENGINE_FAILED", error.message, retryable=error.is_elsewhere or error.is_killed)


def _broken(answer: Answer, model: str, limit: str) -> PipelineError:
    """Return the failure of a run whose answer is none, by how that broke off."""
    said = f": {answer.said}" if answer.said else ""
    so_far = f" after {answer.chars:,} characters" if answer.chars else ""
    if answer.failure in MISSING:
        return PipelineError("MODEL_MISSING", f"the server has no model {model}{said}")
    if answer.failure in GONE | BUSY:
        words = f"the server does not answer ({answer.failure}){said}"
        return PipelineError("ENGINE_UNREACHABLE", words, retryable=True)
    if answer.failure in LATE:
        words = f"the answer took more than {limit}, and had no end{so_far}"
        return PipelineError("ANSWER_TIMEOUT", words)
    return PipelineError("STREAM_BROKEN", f"the answer broke off{so_far}: {answer.failure}{said}")
