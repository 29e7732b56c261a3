"""What a run of the kind `hello` does."""

from __future__ import annotations

from events.runtime.errors import PipelineError
from hello_kind import Greeted, HelloSpec
from stages.context import Context


def run(context: Context) -> str:
    """Greet, and keep the greetings as a file."""
    spec = context.spec
    assert isinstance(spec, HelloSpec)
    with context.stage("greet", index=1, total=1):
        if spec.to == "a ghost":
            raise PipelineError("NOBODY_THERE", "nobody answered")
        text = f"{spec.word}, {spec.to}!"
        for _ in range(spec.times):
            context.emit(Greeted(to=spec.to, text=text))
        path = context.workspace / "greeting.txt"
        path.write_text(f"{text}\n")
        context.keep(path)
    return f"{spec.to} was greeted {spec.times} times"
