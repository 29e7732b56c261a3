"""The declared space: every intervention that the built-in researcher can try, with its strengths, pure.

Law: an intervention owns its fields. The baseline holds them at `off`, tuning leaves them alone,
and the intervention changes nothing else, so that a difference has one cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from stages.space.recipe import Value, described

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

    def pinned(self, value: float) -> Intervention:
        """Return this intervention at the one strength that the text named."""
        assert self.knob is not None
        number: Value = round(value) if isinstance(self.off[self.knob.name], int) else value
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
        """Return this intervention against a baseline that has `other`."""
        return replace(self, title=f"{self.title} instead of {other.title}", off=other.usual)

    def competes_with(self, other: Intervention) -> bool:
        """Return whether both decide the same choice, so that one can replace the other."""
        return self.name != other.name and bool(set(self.strengths[0]) & set(other.strengths[0]))


def _rates(optimiser: str, *rates: float) -> tuple[Changes, ...]:
    return tuple({"optimiser": optimiser, "lr": rate} for rate in rates)


_SGD: Final[Changes] = {"optimiser": "sgd", "lr": 0.05}
_CLASSES: Final[frozenset[Need]] = frozenset({"classes"})
_IMAGES: Final[frozenset[Need]] = frozenset({"images"})
_GROWING: Final = r"(?:increas\w+|doubling|raising|growing|enlarging|higher|larger|greater)(?: the)?"
_SHRINKING: Final = r"(?:decreas\w+|halving|reduc\w+|lowering|shrinking|cutting|lower|smaller)(?: the)?"
_NORM: Final = r"(?:norm|normali[sz]ation|normali[sz]ed|normali[sz]ing)"


def _activation(name: str, title: str, words: str) -> Intervention:
    off = "tanh" if name == "relu" else "relu"
    return Intervention(
        name=name, title=title, words=words, off={"activation": off}, strengths=({"activation": name},)
    )


# Order matters where words overlap: the more special intervention comes first.
_SPACE: Final = (
    Intervention(
        name="dropout",
        title="dropout",
        words=r"drop ?out",
        off={"dropout": 0.0},
        strengths=tuple({"dropout": each} for each in (0.1, 0.25, 0.5)),
        knob=Knob("dropout", 0.01, 0.9),
    ),
    Intervention(
        name="batch_normalisation",
        title="batch normalisation",
        words=rf"batch ?{_NORM}",
        off={"normalisation": "none"},
        strengths=({"normalisation": "batch"},),
    ),
    Intervention(
        name="layer_normalisation",
        title="layer normalisation",
        words=rf"layer ?{_NORM}",
        off={"normalisation": "none"},
        strengths=({"normalisation": "layer"},),
    ),
    Intervention(
        name="normalisation",
        title="normalisation of the hidden layers",
        words=r"normali[sz]ation(?: layers?)?|normali[sz]ing (?:activations|layers)",
        off={"normalisation": "none"},
        strengths=({"normalisation": "batch"}, {"normalisation": "layer"}),
    ),
    Intervention(
        name="label_smoothing",
        title="label smoothing",
        words=r"label ?smoothing|smooth(?:ed|ing)(?: of)?(?: the)? (?:labels|targets)|soft(?:ened)? (?:labels|targets)"
        r"|(?:labels|targets) (?:are|were|being) (?:smoothed|softened)",
        off={"label_smoothing": 0.0},
        strengths=tuple({"label_smoothing": each} for each in (0.05, 0.1, 0.2)),
        knob=Knob("label_smoothing", 0.01, 0.5),
        needs=_CLASSES,
    ),
    Intervention(
        name="mix_up",
        title="mix-up",
        words=r"mix ?up|mixing (?:pairs of )?(?:training )?(?:examples|samples|inputs)",
        off={"mix_up": 0.0},
        strengths=tuple({"mix_up": each} for each in (0.1, 0.2, 0.4)),
        knob=Knob("mix_up", 0.02, 2.0),
    ),
    Intervention(
        name="shift_augmentation",
        title="augmentation by random shifts",
        words=r"(?:random |small )*(?:shifts?|shifting|translations?|crops?|cropping)(?: augmentation)?"
        r"|data augmentation|image augmentation|augmentation|augmenting|augmented",
        off={"shift": 0},
        strengths=({"shift": 1}, {"shift": 2}),
        needs=_IMAGES,
    ),
    Intervention(
        name="noise_augmentation",
        title="noise on the inputs",
        words=r"(?:gaussian |input |random |additive )+noise(?: augmentation| injection)?"
        r"|noise (?:augmentation|injection)|(?:noisy|jittered) inputs|adding noise|jitter",
        off={"noise": 0.0},
        strengths=tuple({"noise": each} for each in (0.1, 0.2, 0.4)),
        knob=Knob("noise", 0.01, 2.0),
    ),
    Intervention(
        name="weight_decay",
        title="weight decay",
        words=r"weight ?decay|l2 (?:regulari[sz]ation|penalty)|l2|ridge penalty",
        off={"weight_decay": 0.0},
        strengths=tuple({"weight_decay": each} for each in (1e-4, 1e-3, 1e-2)),
        knob=Knob("weight_decay", 1e-6, 0.3),
    ),
    Intervention(
        name="one_cycle",
        title="one-cycle schedule",
        words=r"(?:one|1) ?cycle(?: (?:learning rate )?(?:schedule|policy))?",
        off={"schedule": "constant"},
        strengths=({"schedule": "one_cycle"},),
    ),
    Intervention(
        name="cosine_schedule",
        title="cosine learning-rate schedule",
        words=r"cosine(?: learning rate| lr)?(?: annealing| schedule| decay)?(?: schedule)?",
        off={"schedule": "constant"},
        strengths=({"schedule": "cosine"},),
    ),
    Intervention(
        name="step_schedule",
        title="step learning-rate schedule",
        words=r"step(?: learning rate| lr)? (?:decay|schedule)|step ?wise (?:decay|schedule)",
        off={"schedule": "constant"},
        strengths=({"schedule": "step"},),
    ),
    Intervention(
        name="learning_rate_schedule",
        title="learning-rate schedule",
        words=r"(?:learning rate|lr) (?:schedul\w+|decay|annealing)"
        r"|(?:decaying|annealing) (?:the )?(?:learning rate|lr)|(?:reducing|lowering|decreasing) (?:the )?(?:learning rate|lr) "
        r"(?:over time|during training|as training goes on|step by step|gradually)",
        off={"schedule": "constant"},
        strengths=({"schedule": "cosine"}, {"schedule": "linear"}, {"schedule": "step"}),
    ),
    Intervention(
        name="warm_up",
        title="learning-rate warm-up",
        words=r"(?:learning rate |lr |linear )?warm ?(?:up|ing up)",
        off={"warm_up": 0.0},
        strengths=tuple({"warm_up": each} for each in (0.05, 0.1, 0.3)),
        knob=Knob("warm_up", 0.01, 0.8),
    ),
    Intervention(
        name="adamw",
        title="AdamW",
        words=r"adam ?w",
        off=_SGD,
        strengths=_rates("adamw", 0.001, 0.003, 0.01),
    ),
    Intervention(
        name="adam",
        title="Adam",
        words=r"adam(?: optimi[sz]er)?|adaptive (?:optimi[sz]ers?|learning rates?)",
        off=_SGD,
        strengths=_rates("adam", 0.001, 0.003, 0.01),
    ),
    Intervention(
        name="rmsprop",
        title="RMSprop",
        words=r"rms ?prop",
        off=_SGD,
        strengths=_rates("rmsprop", 0.0003, 0.001, 0.003),
    ),
    Intervention(
        name="nesterov",
        title="SGD with Nesterov momentum",
        words=r"nesterov(?: momentum| acceleration)?",
        off=_SGD,
        strengths=_rates("nesterov", 0.02, 0.05, 0.1),
    ),
    Intervention(
        name="momentum",
        title="SGD with momentum",
        words=r"(?:sgd (?:with )?)?momentum",
        off=_SGD,
        strengths=_rates("momentum", 0.02, 0.05, 0.1),
    ),
    Intervention(
        name="sgd",
        title="plain SGD",
        words=r"(?:plain |vanilla )?(?:sgd|stochastic gradient descent|gradient descent)",
        off={"optimiser": "adam", "lr": 0.003},
        strengths=_rates("sgd", 0.05, 0.1, 0.2),
    ),
    Intervention(
        name="convolution",
        title="a convolutional network",
        words=r"convolution\w*(?: (?:neural )?(?:networks?|layers?))?|cnns?|conv ?nets?",
        off={"network": "mlp"},
        strengths=({"network": "cnn"},),
        needs=_IMAGES,
    ),
    Intervention(
        name="wider",
        title="a wider network",
        words=r"wider(?: (?:hidden )?(?:networks?|layers?|models?|mlps?))?|widening|more (?:hidden )?(?:units|neurons)"
        r"|(?:larger|greater|increased|more) (?:hidden )?(?:width|hidden layers?)|larger (?:networks?|models?)|bigger (?:networks?|models?)"
        rf"|{_GROWING} (?:hidden )?(?:width|layer size|number of (?:hidden )?(?:units|neurons))|twice (?:the width|as wide|as many (?:hidden )?(?:units|neurons))"
        r"|(?:6[5-9]|[7-9]\d|\d{3,4}) (?:hidden )?(?:units|neurons)|width of (?:6[5-9]|[7-9]\d|\d{3,4})",
        off={"width": 64},
        strengths=({"width": 128}, {"width": 256}, {"width": 512}),
        knob=Knob("width", 65, 1024),
    ),
    Intervention(
        name="narrower",
        title="a narrower network",
        words=r"narrower(?: (?:hidden )?(?:networks?|layers?|models?))?|fewer (?:hidden )?(?:units|neurons)"
        r"|smaller (?:networks?|models?|width)|reduced width"
        rf"|{_SHRINKING} (?:hidden )?(?:width|layer size|number of (?:hidden )?(?:units|neurons))|half (?:the width|as wide|as many (?:hidden )?(?:units|neurons))"
        r"|(?:[2-9]|[1-5]\d|6[0-3]) (?:hidden )?(?:units|neurons)|width of (?:[2-9]|[1-5]\d|6[0-3])(?!\d)",
        off={"width": 64},
        strengths=({"width": 32}, {"width": 16}, {"width": 8}),
        knob=Knob("width", 2, 63),
    ),
    Intervention(
        name="deeper",
        title="a deeper network",
        words=r"deeper(?: (?:networks?|models?|mlps?))?|more (?:hidden )?layers|(?:greater|larger|increased|more) depth"
        r"|additional (?:hidden )?layers?|extra (?:hidden )?layers?|adding (?:hidden )?layers"
        rf"|{_GROWING} (?:depth|number of (?:hidden )?layers)|twice (?:the depth|as deep|as many (?:hidden )?layers)"
        r"|[3-9] (?:hidden )?layers",
        off={"depth": 2},
        strengths=({"depth": 3}, {"depth": 4}, {"depth": 6}),
    ),
    Intervention(
        name="shallower",
        title="a shallower network",
        words=r"shallow(?:er)?(?: (?:networks?|models?))?|fewer (?:hidden )?layers|(?:a )?(?:single|one) hidden layer"
        rf"|{_SHRINKING} (?:depth|number of (?:hidden )?layers)|half (?:the depth|as deep|as many (?:hidden )?layers)",
        off={"depth": 2},
        strengths=({"depth": 1},),
    ),
    Intervention(
        name="residual",
        title="residual connections",
        words=r"residual(?: (?:connections?|networks?|blocks?))?|skip connections?|res ?nets?",
        off={"residual": False, "depth": 4},
        strengths=({"residual": True, "depth": 4},),
    ),
    _activation("leaky_relu", "leaky ReLU", r"leaky ?relus?(?: activations?)?"),
    _activation("gelu", "GELU", r"gelus?(?: activations?)?"),
    _activation("silu", "SiLU", r"(?:silu|swish)(?: activations?)?"),
    _activation("elu", "ELU", r"elus?(?: activations?)?"),
    _activation("relu", "ReLU", r"relus?(?: activations?)?"),
    _activation("tanh", "tanh", r"tanh(?: activations?)?|hyperbolic tangent"),
    _activation("sigmoid", "sigmoid", r"sigmoids?(?: activations?)?|logistic activations?"),
    Intervention(
        name="weight_averaging",
        title="averaging of the weights",
        words=r"ema(?: of(?: the)? weights)?|exponential moving averages?(?: of(?: the)? weights)?|polyak averaging"
        r"|(?:stochastic )?weight averaging|averag(?:ing|ed)(?: of)?(?: the)? weights",
        off={"weight_average": 0.0},
        strengths=tuple({"weight_average": each} for each in (0.9, 0.97, 0.99)),
        knob=Knob("weight_average", 0.5, 0.999),
    ),
    Intervention(
        name="ensemble",
        title="an ensemble of networks",
        words=r"(?:deep )?ensembl\w+(?: of (?:several )?(?:neural )?(?:networks|models))?"
        r"|averaging (?:several |the predictions of several )?(?:neural )?(?:networks|models|predictions)|bagging",
        off={"members": 1},
        strengths=({"members": 3}, {"members": 5}),
        knob=Knob("members", 2, 15),
    ),
    Intervention(
        name="gradient_clipping",
        title="gradient clipping",
        words=r"gradient(?: norm)? clipping|clipp(?:ing|ed)(?: the)?(?: norm of the)? gradients?",
        off={"gradient_clip": 0.0},
        strengths=tuple({"gradient_clip": each} for each in (0.5, 1.0, 2.0)),
        knob=Knob("gradient_clip", 0.01, 10.0),
    ),
    Intervention(
        name="larger_batches",
        title="larger batches",
        words=r"(?:larger?|bigger|big|increased|higher) (?:mini ?)?batch(?:es| sizes?)?"
        rf"|{_GROWING} (?:mini ?)?batch(?:es| sizes?)|(?:mini ?)?batch(?:es| sizes?) of (?:3[3-9]|[4-9]\d|\d{{3}})",
        off={"batch_size": 32},
        strengths=({"batch_size": 64}, {"batch_size": 128}, {"batch_size": 256}),
        knob=Knob("batch_size", 33, 512),
    ),
    Intervention(
        name="smaller_batches",
        title="smaller batches",
        words=r"(?:small(?:er)?|reduced|tiny|lower) (?:mini ?)?batch(?:es| sizes?)?"
        rf"|{_SHRINKING} (?:mini ?)?batch(?:es| sizes?)|(?:mini ?)?batch(?:es| sizes?) of (?:[4-9]|[12]\d|3[01])(?!\d)",
        off={"batch_size": 32},
        strengths=({"batch_size": 16}, {"batch_size": 8}),
        knob=Knob("batch_size", 4, 31),
    ),
    Intervention(
        name="higher_learning_rate",
        title="a higher learning rate",
        words=r"(?:higher|larger?|increased|bigger|high) (?:learning rates?|lr|step sizes?)"
        rf"|{_GROWING} (?:learning rates?|lr|step sizes?)",
        off={"optimiser": "adam", "lr": 0.001},
        strengths=_rates("adam", 0.003, 0.01, 0.03),
    ),
    Intervention(
        name="lower_learning_rate",
        title="a lower learning rate",
        words=r"(?:lower|small(?:er)?|reduced|low) (?:learning rates?|lr|step sizes?)"
        rf"|{_SHRINKING} (?:learning rates?|lr|step sizes?)",
        off={"optimiser": "adam", "lr": 0.003},
        strengths=_rates("adam", 0.001, 0.0003, 0.0001),
    ),
    Intervention(
        name="longer_training",
        title="longer training",
        words=r"longer training(?! times?| durations?)|training (?:for )?longer|train(?:ed|s)? longer|more epochs|additional epochs"
        rf"|{_GROWING} (?:training length|(?:number of )?epochs)|(?:training |trained )?(?:twice as long|for twice as many epochs)",
        off={"training_length": 1.0},
        strengths=({"training_length": 2.0}, {"training_length": 4.0}),
        knob=Knob("training_length", 1.1, 8.0),
    ),
    Intervention(
        name="shorter_training",
        title="shorter training",
        words=r"shorter training(?! times?| durations?)|training (?:for )?(?:less|shorter)(?! times?)|fewer epochs"
        rf"|{_SHRINKING} (?:training length|(?:number of )?epochs)|(?:training |trained )?(?:half as long|for half as many epochs)",
        off={"training_length": 1.0},
        strengths=({"training_length": 0.5}, {"training_length": 0.25}),
        knob=Knob("training_length", 0.05, 0.95),
    ),
    Intervention(
        name="early_stopping",
        title="early stopping",
        words=r"early stopping|stopping early|early stop",
        off={"early_stop": False},
        strengths=({"early_stop": True},),
    ),
    Intervention(
        name="temperature_scaling",
        title="temperature scaling",
        words=r"temperature(?: scaling)?|platt scaling",
        off={"temperature": False},
        strengths=({"temperature": True},),
        needs=_CLASSES,
    ),
)
INTERVENTIONS: Final[Mapping[str, Intervention]] = {each.name: each for each in _SPACE}
