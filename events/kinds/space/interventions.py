"""The declared space: every intervention that the built-in researcher can try, with its strengths, pure.

Law: an intervention owns its fields. The baseline holds them at `off`, tuning leaves them alone,
and the intervention changes nothing else, so that a difference has one cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from events.kinds.space.recipe import Value, described

Need = Literal["images", "classes"]
Changes = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Knob:
    """A number that can be refined between `low` and `high`."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """One thing to change: how people call it, the state without it, and the strengths to try."""

    name: str
    title: str
    words: str  # a regular expression over lower-case words with single spaces
    off: Changes
    strengths: tuple[Changes, ...]
    knob: Knob | None = None
    needs: frozenset[Need] = frozenset()
    fields: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        names = {name for changes in (self.off, *self.strengths) for name in changes}
        object.__setattr__(self, "fields", frozenset(names))

    @property
    def usual(self) -> Changes:
        """Return the middle strength, which stands for the intervention where only one can."""
        return self.strengths[len(self.strengths) // 2]

    @property
    def is_counted(self) -> bool:
        """Return whether the number that can be refined is a whole one."""
        return self.knob is not None and isinstance(self.off[self.knob.name], int)

    def can_be(self, value: float) -> bool:
        """Return whether its number can be a value: in range, and whole where only whole ones are tried."""
        if self.knob is None or not self.knob.low <= value <= self.knob.high:
            return False
        return value.is_integer() or not self.is_counted

    def pinned(self, value: float) -> Intervention:
        """Return this intervention at the one strength that the text named."""
        assert self.knob is not None
        number: Value = round(value) if self.is_counted else value
        return replace(
            self,
            title=f"{self.title} ({described({self.knob.name: number})})",
            strengths=({self.knob.name: number},),
            knob=None,
        )

    def reversed(self) -> Intervention:
        """Return the removal of this intervention: the baseline has it, the other arm has not."""
        return replace(self, title=f"{self.title} removed", off=self.usual, strengths=(self.off,), knob=None)

    def instead_of(self, other: Intervention) -> Intervention:
        """Return this intervention against a baseline that has `other`: each arm has one of the two."""
        return replace(
            self,
            title=f"{self.title} instead of {other.title}",
            off={**self.off, **other.usual},
            strengths=tuple({**other.off, **each} for each in self.strengths),
            # a refined value would leave the other on
            knob=self.knob if self.competes_with(other) else None,
            needs=self.needs | other.needs,
        )

    def competes_with(self, other: Intervention) -> bool:
        """Return whether both decide the same choice, so that one can replace the other."""
        return self.name != other.name and bool(set(self.strengths[0]) & set(other.strengths[0]))


_SGD: Final[Changes] = {"optimiser": "sgd", "lr": 0.05}
_CLASSES: Final[frozenset[Need]] = frozenset({"classes"})
_IMAGES: Final[frozenset[Need]] = frozenset({"images"})
_RAISING: Final = r"(?:increas\w+|raising|growing|enlarging|higher|larger|greater)(?: the)?"
_LOWERING: Final = r"(?:decreas\w+|reduc\w+|lowering|shrinking|cutting|lower|smaller)(?: the)?"
_GROWING: Final = rf"(?:{_RAISING}|doubling(?: the)?)"
_SHRINKING: Final = rf"(?:{_LOWERING}|halving(?: the)?)"
_NORM: Final = r"(?:norm|normali[sz]ation|normali[sz]ed|normali[sz]ing)"


def _one(
    name: str,
    title: str,
    changed: str,
    *,
    off: Value,
    at: tuple[Value, ...],
    words: str,
    knob: tuple[float, float] | None = None,
    needs: frozenset[Need] = frozenset(),
) -> Intervention:
    """Return an intervention that changes one field, from `off` to each value of `at`."""
    return Intervention(
        name=name,
        title=title,
        words=words,
        off={changed: off},
        strengths=tuple({changed: each} for each in at),
        knob=Knob(changed, *knob) if knob else None,
        needs=needs,
    )


def _activation(name: str, title: str, words: str) -> Intervention:
    off = "tanh" if name == "relu" else "relu"
    return _one(name, title, "activation", off=off, at=(name,), words=words)


def _optimiser(
    name: str, title: str, *, rates: tuple[float, ...], words: str, off: Changes = _SGD, by: str = ""
) -> Intervention:
    """Return an intervention that sets optimiser and learning rate; `by` is the optimiser, by default its name."""
    strengths: tuple[Changes, ...] = tuple({"optimiser": by or name, "lr": rate} for rate in rates)
    return Intervention(name=name, title=title, words=words, off=off, strengths=strengths)


# Order matters where words overlap: the more special intervention comes first.
_SPACE: Final = (
    _one("dropout", "dropout", "dropout", off=0.0, at=(0.1, 0.25, 0.5), knob=(0.01, 0.9), words=r"drop ?out"),
    _one("batch_normalisation", "batch normalisation", "normalisation", off="none", at=("batch",),
        words=rf"batch ?{_NORM}"),
    _one("layer_normalisation", "layer normalisation", "normalisation", off="none", at=("layer",),
        words=rf"layer ?{_NORM}"),
    _one("normalisation", "normalisation of the hidden layers", "normalisation", off="none", at=("batch", "layer"),
        words=r"normali[sz]ation (?:of (?:the )?hidden )?layers?|normali[sz]ing (?:(?:the )?hidden )?(?:activations|layers)"),
    _one("label_smoothing", "label smoothing", "label_smoothing", off=0.0, at=(0.05, 0.1, 0.2), knob=(0.01, 0.5), needs=_CLASSES,
        words=r"label ?smoothing|smooth(?:ed|ing)(?: of)?(?: the)? (?:labels|targets)"
        r"|(?:labels|targets) (?:are|were|being) smoothed"),
    _one("mix_up", "mix-up", "mix_up", off=0.0, at=(0.1, 0.2, 0.4), knob=(0.02, 2.0),
        words=r"mix ?up|mixing (?:pairs of )?(?:training )?(?:examples|samples|inputs)"),
    _one("shift_augmentation", "augmentation by random shifts", "shift", off=0, at=(1, 2), needs=_IMAGES,
        words=r"(?:(?:data )?augmentation (?:by|with) )?(?:random )?(?:image )?(?:shifts|translations)(?: of the images)?|(?:random )?(?:image )?(?:shift|translation) augmentation|random (?:image )?(?:shift|translation)"),
    _one("noise_augmentation", "noise on the inputs", "noise", off=0.0, at=(0.1, 0.2, 0.4), knob=(0.01, 2.0),
        words=r"(?:gaussian |random |additive )*input noise(?: augmentation| injection)?"
        r"|(?:gaussian |random |additive )*noise (?:on|to|in) (?:the )?(?:inputs|features|pixels)"),
    _one("weight_decay", "weight decay", "weight_decay", off=0.0, at=(1e-4, 1e-3, 1e-2), knob=(1e-6, 0.3),
        words=r"weight ?decay|l2 (?:regulari[sz]ation|penalty)"),
    _one("one_cycle", "one-cycle schedule", "schedule", off="constant", at=("one_cycle",),
        words=r"(?:one|1) ?cycle(?: (?:learning rate )?(?:schedule|policy))?"),
    _one("cosine_schedule", "cosine learning-rate schedule", "schedule", off="constant", at=("cosine",),
        words=r"cosine(?: learning rate| lr)?(?: annealing| schedule| decay)(?: schedule)?"),
    _one("step_schedule", "step learning-rate schedule", "schedule", off="constant", at=("step",),
        words=r"step(?: learning rate| lr)? (?:decay|schedule)|step ?wise (?:decay|schedule)"),
    _one("learning_rate_schedule", "learning-rate schedule", "schedule", off="constant", at=("cosine", "linear", "step"),
        words=r"(?:learning rate|lr) (?:schedul\w+|decay|annealing)"
        r"|(?:decaying|annealing) (?:the )?(?:learning rate|lr)|(?:reducing|lowering|decreasing) (?:the )?(?:learning rate|lr) "
        r"(?:over time|during training|as training goes on|step by step|gradually)"),
    _one("warm_up", "learning-rate warm-up", "warm_up", off=0.0, at=(0.05, 0.1, 0.3), knob=(0.01, 0.8),
        words=r"(?:learning rate |lr |linear )?warm ?(?:up|ing up)"),
    _optimiser("adamw", "AdamW", rates=(0.001, 0.003, 0.01), words=r"adam ?w"),
    _optimiser("adam", "Adam", rates=(0.001, 0.003, 0.01),
        words=r"(?:the )?adam(?: optimi[sz]er)?"),
    _optimiser("rmsprop", "RMSprop", rates=(0.0003, 0.001, 0.003), words=r"rms ?prop"),
    _optimiser("nesterov", "SGD with Nesterov momentum", rates=(0.02, 0.05, 0.1),
        words=r"(?:sgd with )?nesterov(?: momentum)?"),
    _optimiser("momentum", "SGD with momentum", rates=(0.02, 0.05, 0.1),
        words=r"(?:sgd (?:with )?)?momentum"),
    _optimiser("sgd", "plain SGD", rates=(0.05, 0.1, 0.2), off={"optimiser": "adam", "lr": 0.003},
        words=r"(?:plain |vanilla )?(?:sgd|stochastic gradient descent|gradient descent)"),
    _one("convolution", "a convolutional network", "network", off="mlp", at=("cnn",), needs=_IMAGES,
        words=r"convolution\w*(?: (?:neural )?(?:networks?|layers?))?|cnns?|conv ?nets?"),
    _one("wider", "a wider network", "width", off=64, at=(128, 256, 512), knob=(65, 1024),
        words=r"wider(?: (?:hidden )?(?:networks?|layers?|models?|mlps?))?|widening|more (?:hidden )?(?:units|neurons)"
        r"|(?:larger|greater|increased) (?:hidden )?(?:width|hidden layers?)|more width|larger (?:networks?|models?)|bigger (?:networks?|models?)"
        rf"|{_GROWING} (?:hidden )?(?:width|layer size|number of (?:hidden )?(?:units|neurons))|twice (?:the width|as wide|as many (?:hidden )?(?:units|neurons))"
        r"|(?:6[5-9]|[7-9]\d|\d{3,4}) (?:hidden )?(?:units|neurons)|width (?:of )?(?:6[5-9]|[7-9]\d|\d{3,4})"),
    _one("narrower", "a narrower network", "width", off=64, at=(32, 16, 8), knob=(2, 63),
        words=r"narrower(?: (?:hidden )?(?:networks?|layers?|models?))?|fewer (?:hidden )?(?:units|neurons)"
        r"|smaller (?:networks?|models?|width)|reduced width"
        rf"|{_SHRINKING} (?:hidden )?(?:width|layer size|number of (?:hidden )?(?:units|neurons))|half (?:the width|as wide|as many (?:hidden )?(?:units|neurons))"
        r"|(?:[2-9]|[1-5]\d|6[0-3]) (?:hidden )?(?:units|neurons)|width (?:of )?(?:[2-9]|[1-5]\d|6[0-3])(?!\d)"),
    _one("deeper", "a deeper network", "depth", off=2, at=(3, 4, 6),
        words=r"deeper(?: (?:networks?|models?|mlps?))?|more (?:hidden )?layers|(?:greater|larger|increased|more) depth"
        r"|additional (?:hidden )?layers|extra (?:hidden )?layers|adding (?:hidden )?layers"
        rf"|{_GROWING} (?:depth|number of (?:hidden )?layers)|twice (?:the depth|as deep|as many (?:hidden )?layers)"
        r"|[3-9] (?:hidden )?layers"),
    _one("shallower", "a shallower network", "depth", off=2, at=(1,),
        words=r"shallow(?:er)?(?: (?:networks?|models?))?|fewer (?:hidden )?layers|(?:a )?(?:single|one) hidden layer"
        rf"|{_SHRINKING} (?:depth|number of (?:hidden )?layers)|half (?:the depth|as deep|as many (?:hidden )?layers)"),
    Intervention(name="residual", title="residual connections", off={"residual": False, "depth": 4},
        strengths=({"residual": True, "depth": 4},),
        words=r"residual (?:connections?|networks?|blocks?)|skip connections?"),
    _activation("leaky_relu", "leaky ReLU", r"leaky ?relus?(?: activations?)?"),
    _activation("gelu", "GELU", r"gelus?(?: activations?)?"),
    _activation("silu", "SiLU", r"(?:silu|swish)(?: activations?)?"),
    _activation("elu", "ELU", r"elus?(?: activations?)?"),
    _activation("relu", "ReLU", r"relus?(?: activations?)?"),
    _activation("tanh", "tanh", r"tanh(?: activations?)?|hyperbolic tangent"),
    _activation("sigmoid", "sigmoid", r"sigmoids?(?: activations?)?(?! cross| loss)|logistic activations?"),
    _one("weight_averaging", "averaging of the weights", "weight_average", off=0.0, at=(0.9, 0.97, 0.99), knob=(0.5, 0.999),
        words=r"ema(?: of(?: the)? weights)?|exponential moving averages?(?: of(?: the)? weights)?|polyak averaging"
        r"|weight averaging|averag(?:ing|ed)(?: of)?(?: the)? weights"),
    _one("ensemble", "an ensemble of networks", "members", off=1, at=(3, 5), knob=(2, 15),
        words=r"(?:deep )?ensembl\w+(?: of (?:several )?(?:neural )?(?:networks|models))?"
        r"|averaging (?:the )?predictions(?: of several (?:neural )?(?:networks|models))?"),
    _one("gradient_clipping", "gradient clipping", "gradient_clip", off=0.0, at=(0.5, 1.0, 2.0), knob=(0.01, 10.0),
        words=r"gradient(?: norm)? clipping|clipp(?:ing|ed)(?: the)?(?: norm of the)? gradients?"),
    _one("larger_batches", "larger batches", "batch_size", off=32, at=(64, 128, 256), knob=(33, 512),
        words=r"(?:larger?|bigger|big|increased|higher) (?:mini ?)?batch(?:es| sizes?)?"
        rf"|{_GROWING} (?:mini ?)?batch(?:es| sizes?)|(?:mini ?)?batch(?:es| sizes?) (?:of )?(?:3[3-9]|[4-9]\d|\d{{3}})(?: examples)?"),
    _one("smaller_batches", "smaller batches", "batch_size", off=32, at=(16, 8), knob=(4, 31),
        words=r"(?:small(?:er)?|reduced|tiny|lower) (?:mini ?)?batch(?:es| sizes?)?"
        rf"|{_SHRINKING} (?:mini ?)?batch(?:es| sizes?)|(?:mini ?)?batch(?:es| sizes?) (?:of )?(?:[4-9]|[12]\d|3[01])(?!\d)(?: examples)?"),
    _optimiser("higher_learning_rate", "a higher learning rate", rates=(0.003, 0.01, 0.03), off={"optimiser": "adam", "lr": 0.001}, by="adam",
        words=r"(?:higher|larger?|increased|bigger|high) (?:learning rates?|lr|step sizes?)"
        rf"|{_RAISING} (?:learning rates?|lr|step sizes?)"),
    _optimiser("lower_learning_rate", "a lower learning rate", rates=(0.001, 0.0003, 0.0001), off={"optimiser": "adam", "lr": 0.003}, by="adam",
        words=r"(?:lower|small(?:er)?|reduced|low) (?:learning rates?|lr|step sizes?)"
        rf"|{_LOWERING} (?:learning rates?|lr|step sizes?)"),
    _one("longer_training", "longer training", "training_length", off=1.0, at=(2.0, 4.0), knob=(1.1, 8.0),
        words=r"longer training(?! times?| durations?)|training (?:for )?longer|train(?:ed|s)? longer|more epochs|additional epochs"
        rf"|{_GROWING} (?:training length|(?:number of )?epochs)|(?:training |trained )?(?:twice as long|(?:for )?twice as many epochs)"),
    _one("shorter_training", "shorter training", "training_length", off=1.0, at=(0.5, 0.25), knob=(0.05, 0.95),
        words=r"shorter training(?! times?| durations?)|training (?:for )?(?:less|shorter)(?! times?)|fewer epochs"
        rf"|{_SHRINKING} (?:training length|(?:number of )?epochs)|(?:training |trained )?(?:half as long|(?:for )?half as many epochs)"),
    _one("early_stopping", "early stopping", "early_stop", off=False, at=(True,),
        words=r"early stopping|stopping early|early stop"),
    _one("temperature_scaling", "temperature scaling", "temperature", off=False, at=(True,), needs=_CLASSES,
        words=r"temperature scaling"),
)  # fmt: skip
INTERVENTIONS: Final[Mapping[str, Intervention]] = {each.name: each for each in _SPACE}
