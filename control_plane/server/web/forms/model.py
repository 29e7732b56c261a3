"""The form of a model of the catalogue, and the model that it describes."""

from __future__ import annotations

import json
from typing import Any, Final

from control_plane.server.api.models import ModelBody, ModelId
from control_plane.server.web.forms.fields import Form, Unfit, read_body, typed_lines, whole
from control_plane.server.web.forms.typed import read_json
from events.answers.kinds.models import CatalogueModel

WHOLE: Final = ("context_tokens", "answer_tokens_max", "concurrency_max")
PARAMETER: Final = "x"
PRICES: Final = ("input_usd_per_mtok", "output_usd_per_mtok")


class Named(ModelBody):
    """A model with its name."""

    name: ModelId


class ModelForm(Form):
    """A model: an endpoint where it has an address, else weights that a pod serves."""

    name: str = ""
    title: str = ""
    provider: str = "openai"
    base_url: str = ""
    model: str = ""
    secret: str = ""
    engine: str = ""
    weights: str = ""
    parameters: str = ""
    input_usd_per_mtok: str = ""
    output_usd_per_mtok: str = ""
    context_tokens: str = ""
    answer_tokens_max: str = ""
    concurrency_max: str = ""

    @classmethod
    def of(cls, found: CatalogueModel) -> ModelForm:
        """Return the filled-in form of a model."""
        typed: dict[str, Any] = {"name": found.id, "title": found.title}
        typed |= {each: _text(getattr(found, each)) for each in (*WHOLE, *PRICES)}
        if found.endpoint is not None:
            typed |= {each: _text(getattr(found.endpoint, each)) for each in ("provider", "model", "secret")}
            typed["base_url"] = found.endpoint.base_url
        if found.served is not None:
            typed |= {"engine": found.served.engine, "weights": found.served.weights}
            lines = (f"{name}={_parameter(value)}" for name, value in found.served.parameters.items())
            typed["parameters"] = "\n".join(lines)
        return cls(**typed)

    def body(self) -> Named:
        """Return the model. Raises `Unfit`."""
        wanted: dict[str, Any] = {"name": self.name.strip(), "title": self.title.strip()}
        for each in WHOLE:
            if text := getattr(self, each).strip():
                wanted[each] = whole(text)
        for each in PRICES:
            if text := getattr(self, each).strip():
                wanted[each] = _price(each, text)
        if self.base_url.strip():
            wanted["endpoint"] = {
                "provider": self.provider,
                "model": self.model.strip() or self.name.strip(),
                "base_url": self.base_url.strip(),
                "secret": self.secret.strip() or None,
            }
        if self.engine.strip() or self.weights.strip():
            served = {"engine": self.engine.strip(), "weights": self.weights.strip()}
            wanted["served"] = {**served, "parameters": _parameters(typed_lines(self.parameters))}
        if ("endpoint" in wanted) == ("served" in wanted):
            raise Unfit(["Give the address of an endpoint, or the engine and the weights of a served model"])
        return read_body(Named, wanted)


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"


def _parameter(value: Any) -> str:
    """Return a parameter as one line, from which the same value is read again."""
    text = _text(value)
    if not isinstance(value, str):
        return text
    try:
        is_same = _parameters(f"{PARAMETER}={text}") == {PARAMETER: text}
    except Unfit:
        is_same = False
    return text if is_same else json.dumps(text)


def _price(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Unfit([f"{name}: a number of dollars, such as 0.15"]) from None


def _parameters(text: str) -> dict[str, Any]:
    """Return the parameters of an engine, one a line: NAME=VALUE, with a number, true, false or text."""
    found: dict[str, Any] = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, is_pair, value = line.partition("=")
        if not is_pair:
            raise Unfit([f"Parameters: {line[:80]!r} is not NAME=VALUE"])
        try:
            found[name.strip()] = read_json(value.strip())
        except ValueError:
            found[name.strip()] = value.strip()
    return found
