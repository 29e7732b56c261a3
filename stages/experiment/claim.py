"""What an idea claims, in measurable words: an intervention moves a metric in a direction.

Pure. Law: what the text leaves open is filled in visibly (`notes`), and what it names but
nobody here can measure is refused with a list of what can be.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from events.errors import PipelineError
from events.runs import Idea
from stages.experiment.interventions import INTERVENTIONS, Intervention
from stages.experiment.metrics import METRICS, QUALITY, Metric, Task
from stages.experiment.recipe import described

Direction = Literal["increase", "decrease"]

TEXT_MAX: Final = 20_000  # characters of each field that are read for words
SMALL_TRAINING_SET: Final[Mapping[str, int]] = {
    "digits": 300, "wine": 30, "breast_cancer": 60, "iris": 24, "diabetes": 60,
}  # fmt: skip
TASKS: Final[Mapping[str, Task]] = {
    "digits": "classification",
    "wine": "classification",
    "breast_cancer": "classification",
    "iris": "classification",
    "diabetes": "regression",
}
DEFAULT_DATASET: Final = "digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What will be measured. `direction` is the claimed move of the metric's own number."""

    intervention: Intervention
    metric: Metric
    direction: Direction
    dataset: str
    train_examples: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        """Return whether classes or values are predicted."""
        return TASKS[self.dataset]

    @property
    def selection(self) -> Metric:
        """Return the metric that the search optimises: the claim's own, unless that can be cheated."""
        return self.metric if self.metric.selects else QUALITY[self.task]

    @property
    def sentence(self) -> str:
        """Return the claim as one plain sentence."""
        move = "higher" if self.direction == "increase" else "lower"
        few = f" ({self.train_examples} training examples)" if self.train_examples else ""
        data = self.dataset.replace("_", " ")
        return f"With {self.intervention.title}, the {self.metric.title} on {data}{few} becomes {move}."


@dataclass(frozen=True, slots=True)
class _Mention:
    start: int
    end: int
    name: str
    inverse: bool = False


# name, words, whether the words speak of the opposite of the number
_METRIC_WORDS: Final = (
    ("ece", r"(?:expected )?(?:mis ?calibration|calibration) errors?|ece|mis ?calibration|mis ?calibrated|over ?confiden\w+", False),
    ("ece", r"calibrat\w+", True),
    ("nll", r"(?:negative )?log ?likelihoods?(?: loss)?|nll|log ?loss|cross ?entropy|(?:test|validation) loss|predictive uncertainty", False),
    ("brier", r"brier(?: scores?)?", False),
    ("rmse", r"rmse|(?:root )?mean squared? errors?|mse|squared errors?|regression errors?|prediction errors?", False),
    ("training_seconds", r"(?:training|wall ?clock|run|running|compute|computation) ?times?|training (?:seconds|cost|duration)|time to train|wall ?clock|seconds", False),
    ("training_seconds", r"training (?:speed|throughput)|throughput|speed", True),
    ("parameters", r"(?:number of |trainable )?(?:parameters?|weights)(?: counts?| numbers?)?|model size", False),
    ("accuracy", r"(?:classification |test |generali[sz]ation |misclassification )?errors?(?: rates?)?|mis ?classifications?", True),
    ("accuracy", r"accurac\w+|accurate(?:ly)?|correct predictions|hit rate", False),
    ("quality", r"generali[sz]\w+|performance|performs?|results|quality|predictions?", False),
)  # fmt: skip
_FOREIGN_METRICS: Final = (
    r"f1(?: score)?|auc|auroc|roc|precision|recall|perplexity|bleu|rouge|robustness|adversarial\w*|fairness|latency"
    r"|memory(?: use| usage| footprint)?|energy|convergence|converges?|converging|sample efficiency|interpretability|mae|r2|sparsity"
)
_DATASET_WORDS: Final = (
    ("breast_cancer", r"breast ?cancer|wdbc"),
    ("digits", r"digits?(?: data ?set)?|hand ?written digits?"),
    ("wine", r"wines?"),
    ("iris", r"iris(?:es)?"),
    ("diabetes", r"diabetes|diabetic"),
    ("diabetes", r"regression(?: tasks?| problems?)?(?! error)"),
)
_FOREIGN_DATASETS: Final = (
    r"(?:fashion ?|e ?|k ?)?mnist|cifar ?\d*|(?:tiny ?)?image ?net\w*|svhn|coco|celeb ?a|glue|superglue|squad|wiki ?text\w*|c4|imdb"
    r"|ag ?news|penn tree ?bank|librispeech|ogbn?\w*|california housing|boston housing|adult census|covertype|kitti|ade20k|openwebtext"
)
_GOOD: Final = r"improv\w+|help\w*|benefit\w*|enhanc\w+|outperform\w*|beats?|boost\w*|better|best|superior|stronger|wins?"
_BAD: Final = r"harm\w*|hurt\w*|degrad\w+|worsen\w*|worse|damag\w+|impair\w*|deteriorat\w+|inferior|hinder\w*|underperform\w*"
_UP: Final = r"increas\w+|rais\w+|rises?|grows?|gains?|higher|greater|more|larger|bigger|slows?|longer|slower"
_DOWN: Final = (
    r"reduc\w+|decreas\w+|lowers?|lowered|lowering|cuts?|cutting|shrinks?|drops?|falls?|diminish\w*|minimi[sz]\w+|less|fewer"
    r"|smaller|shorter|faster|quicker|speeds?(?: up)?|sav(?:es?|ing)|accelerat\w+|mitigat\w+|prevents?|alleviat\w+|lose[s]?"
)
_TIME: Final = r"faster|quicker|slower|slows?|speeds?(?: up)?|accelerat\w+"
_NULL: Final = (
    r"no (?:significant |measurable |real |clear )?(?:effect|difference|change|influence|impact|improvement|benefit|gain|harm)"
    r"|(?:has|have|makes?|with) no (?:\w+ )?(?:effect|difference|influence|impact)|unchanged|unaffected|without effect"
    r"|(?:the )?same (?:accuracy|error|loss|calibration|performance)|(?:equally|as) (?:good|well|accurate) as"
    r"|(?:neither|nor|never|not|cannot|can t|doesn t|don t|won t|fails? to|isn t|aren t|hardly|no longer)"
    r" (?:\w+ ){0,2}?(?:improv|help|benefit|enhanc|outperform|beat|boost|better|harm|hurt|degrad|worsen|worse|chang|affect|influenc"
    r"|increas|rais|reduc|decreas|lower|higher|matter|differ|impair|damag)\w*"
)
_ASIDE: Final = (
    r"\b(?:without (?:\w+ ){0,2}?(?:harm|hurt|los|sacrific|chang|affect|reduc|degrad|worsen|damag|increas|decreas|lower|cost)\w*"
    r"|at (?:the|some|little|no) (?:\w+ )?(?:cost|expense)|while|although|though|even if|but|despite|because|since|as it|so that"
    r"|not only|whether or not)\b"
)
_REMOVAL: Final = (
    r"remov(?:ing|al of)|dropping|disabling|omitting|eliminating|turning off|switching off|leaving out|without|no"
    r"|ablating|absence of|lack of|weaker|less|reducing|decreasing"
)
_USE: Final = r"adding|using|applying|introducing|increasing|more|stronger|higher|larger|greater|raising|employing|training with"
_INSTEAD: Final = r"(?:instead of|rather than|than|over|versus|vs|against|compared (?:to|with)|relative to|replacing|outperforms?|beats?)"


def understand(idea: Idea, dataset: str | None = None) -> Claim:
    """Return what `idea` claims; `dataset` overrules its words.

    Raises `PipelineError` with the code CONFIG, which says what is known, where no claim
    that can be measured was found.
    """
    texts = [text for text in map(_plain, _fields(idea)) if text]
    found = next((hit for hit in map(_intervention, texts) if hit), None)
    if found is None:
        raise _unknown("The idea names no intervention that the built-in researcher knows.")
    intervention, blanked, notes = found
    texts = [blanked, *texts]  # its own words, such as "higher learning rate", say nothing of the metric
    name = _dataset(texts, dataset)
    if not dataset and not any(_search_dataset(text) for text in texts):
        notes.append(f"The idea names no data set; {name} is used.")
    _check_needs(intervention, name)
    metric, direction = _effect(texts, TASKS[name], notes)
    return Claim(
        intervention=intervention,
        metric=metric,
        direction=direction,
        dataset=name,
        train_examples=_train_examples(texts, name),
        notes=tuple(notes),
    )


def known_space() -> str:
    """Return the interventions, metrics and data sets that can be tried, as text."""
    return (
        f"Known interventions: {', '.join(each.title for each in INTERVENTIONS.values())}. "
        f"Known metrics: {', '.join(each.title for each in METRICS.values())}. "
        f"Known data sets: {', '.join(sorted(TASKS))}."
    )


def _unknown(reason: str) -> PipelineError:
    limit = "Ideas outside this space need a researcher that writes its own code with a language model."
    return PipelineError("CONFIG", f"{reason} {known_space()} {limit}")


def _fields(idea: Idea) -> Iterator[str]:
    """Yield the texts of an idea, the most binding one first."""
    experiments = idea.experiments if isinstance(idea.experiments, str) else ". ".join(idea.experiments)
    yield from (idea.short_hypothesis, idea.title, idea.name, idea.abstract, experiments)


def _plain(text: str) -> str:
    """Return `text` in lower case, its words parted by single spaces, its sentences by full stops."""
    folded = unicodedata.normalize("NFKC", text[:TEXT_MAX]).lower()
    folded = re.sub(
        r"(?<=\d)\.(?=\d)|(?<![\w.])\.(?=\d)", "\N{MIDDLE DOT}", folded
    )  # 0.5 is no end of a sentence
    folded = re.sub(r"[.!?;\n]+", " . ", folded)
    folded = re.sub(r"[^\w.%\N{MIDDLE DOT}]|_", " ", folded)
    return " ".join(folded.replace("\N{MIDDLE DOT}", ".").split())


def _mentions(words: str, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(rf"\b(?:{words})\b", text)


def _intervention(text: str) -> tuple[Intervention, str, list[str]] | None:
    """Return the intervention that `text` is about, and the text without the words that name it."""
    mentions = _intervention_mentions(text)
    if not mentions:
        return None
    asides = [mention for mention in mentions if _preceded(text, mention, _INSTEAD)]
    first = next((mention for mention in mentions if mention not in asides), mentions[0])
    chosen = INTERVENTIONS[first.name]
    notes: list[str] = []
    for other in (INTERVENTIONS[mention.name] for mention in mentions if mention != first):
        if chosen.competes_with(other):
            chosen = chosen.instead_of(other)
            break
    strength = _strength(text, first, chosen)
    if strength is not None:
        chosen = chosen.pinned(strength)
    if _preceded(text, first, _REMOVAL):
        chosen = chosen.reversed()
        notes.append(f"The idea takes something away: the baseline has {described(chosen.off)}.")
    unused = {INTERVENTIONS[mention.name].title for mention in mentions} - {INTERVENTIONS[first.name].title}
    unused = {title for title in unused if title not in chosen.title}
    if unused:
        notes.append(
            f"The idea also names {', '.join(sorted(unused))}; only the first intervention is tested."
        )
    return chosen, _blanked(text, mentions), notes


def _intervention_mentions(text: str) -> list[_Mention]:
    """Return every intervention named in `text`, in order; an earlier entry of the space wins an overlap."""
    found: list[_Mention] = []
    for intervention in INTERVENTIONS.values():
        for match in _mentions(intervention.words, text):
            if all(match.end() <= other.start or match.start() >= other.end for other in found):
                found.append(_Mention(match.start(), match.end(), intervention.name))
    return sorted(found, key=lambda mention: mention.start)


def _preceded(text: str, mention: _Mention, words: str) -> bool:
    return (
        re.search(rf"\b(?:{words}) (?:(?:the|a|an|any|use of|plain|amount of) )*$", text[: mention.start])
        is not None
    )


def _strength(text: str, mention: _Mention, intervention: Intervention) -> float | None:
    """Return the number that stands at the mention, where it is a possible strength."""
    if intervention.knob is None:
        return None
    number = r"(\d*\.?\d+) ?(%|percent)?"
    after = re.match(
        rf" (?:(?:rate|probability|of|at|p|alpha|epsilon|strength|decay|with|a|size|to) )*{number}(?!\w)",
        text[mention.end :],
    )
    before = re.search(rf"(?<!\S){number} $", text[: mention.start])
    match = after or before
    if match is None:
        return None
    value = float(match[1]) / (100.0 if match[2] else 1.0)
    return value if intervention.knob.low <= value <= intervention.knob.high else None


def _blanked(text: str, mentions: list[_Mention]) -> str:
    """Return `text` without the interventions and the words of degree before them."""
    for mention in reversed(mentions):
        head = re.sub(
            rf"\b(?:{_USE}|{_REMOVAL})(?: (?:the|a|an|use of|amount of))? $", "", text[: mention.start]
        )
        text = f"{head}_ {text[mention.end :].lstrip()}"
    return text


def _search_dataset(text: str) -> str | None:
    hits = [(match.start(), name) for name, words in _DATASET_WORDS for match in _mentions(words, text)]
    return min(hits)[1] if hits else None


def _dataset(texts: list[str], wanted: str | None) -> str:
    if wanted is not None:
        name = "_".join(_plain(wanted).split())
        if name not in TASKS:
            raise PipelineError("CONFIG", f"unknown data set {wanted!r}; known: {', '.join(sorted(TASKS))}")
        return name
    for text in texts:
        foreign = next(_mentions(_FOREIGN_DATASETS, text), None)
        known = _search_dataset(text)
        if foreign and (known is None or "mnist" in foreign[0]):
            raise _unknown(f"The data set {foreign[0]!r} is not at hand.")
        if known:
            return known
    return DEFAULT_DATASET


def _check_needs(intervention: Intervention, dataset: str) -> None:
    if "images" in intervention.needs and dataset != "digits":
        raise PipelineError(
            "CONFIG", f"{intervention.title} needs images, and {dataset} has none; the data set digits has."
        )
    if "classes" in intervention.needs and TASKS[dataset] != "classification":
        classes = ", ".join(sorted(name for name, task in TASKS.items() if task == "classification"))
        raise PipelineError(
            "CONFIG", f"{intervention.title} needs classes, and {dataset} has none; try {classes}."
        )


def _effect(texts: list[str], task: Task, notes: list[str]) -> tuple[Metric, Direction]:
    """Return the metric and its claimed move; fills in what the texts leave open."""
    clause = texts[0]
    aside = re.search(_ASIDE, clause)
    if aside and re.search(rf"\b(?:{_GOOD}|{_BAD}|{_UP}|{_DOWN})\b", clause[: aside.start()]):
        clause = clause[: aside.start()]
    if re.search(rf"\b(?:{_NULL})\b", clause):
        raise PipelineError(
            "CONFIG",
            "The idea claims that something makes no difference. A confidence interval can show a difference, "
            "never its absence: please claim the difference (improves, reduces, harms, ...), and read an "
            "interval that holds zero as the answer.",
        )
    verb = _verb(clause)
    mention = _metric_mention([clause, *texts], verb)
    metric = _metric(mention, verb, texts, task, notes)
    if verb is None:
        notes.append("The idea names no direction; it is read as an improvement.")
        return metric, "increase" if metric.higher_is_better else "decrease"
    good = verb.name == "good"
    if verb.name in ("good", "bad"):
        return metric, "increase" if good == metric.higher_is_better else "decrease"
    inverse = mention is not None and mention.inverse
    return metric, "increase" if (verb.name == "up") != inverse else "decrease"


def _verb(clause: str) -> _Mention | None:
    """Return the first word of direction; real verbs go before comparatives."""
    kinds = (("good", _GOOD), ("bad", _BAD), ("up", _UP), ("down", _DOWN))
    found = [
        _Mention(hit.start(), hit.end(), kind) for kind, words in kinds for hit in _mentions(words, clause)
    ]
    return min(found, key=lambda each: each.start, default=None)


def _metric_mention(texts: list[str], verb: _Mention | None) -> _Mention | None:
    """Return the metric nearest to the verb (what follows it goes first), else of the first text that has one."""
    for number, text in enumerate(texts):
        found: list[_Mention] = []
        for name, words, inverse in _METRIC_WORDS:
            for hit in _mentions(words, text):
                if all(hit.end() <= each.start or hit.start() >= each.end for each in found):
                    found.append(_Mention(hit.start(), hit.end(), name, inverse))
        real = [each for each in found if each.name != "quality"] or found
        if real:
            anchor = verb.start if verb and number == 0 else 0
            return min(real, key=lambda each: (each.start < anchor, abs(each.start - anchor)))
        if foreign := next(_mentions(_FOREIGN_METRICS, text), None):
            raise _unknown(f"The idea is about {foreign[0]!r}, which is not measured here.")
    return None


def _metric(
    mention: _Mention | None, verb: _Mention | None, texts: list[str], task: Task, notes: list[str]
) -> Metric:
    name = mention.name if mention else "quality"
    if name == "quality" and verb and re.fullmatch(_TIME, texts[0][verb.start : verb.end]):
        return METRICS["training_seconds"]
    if name == "quality":
        if mention is None:
            notes.append(f"The idea names no metric; {QUALITY[task].title} is measured.")
        return QUALITY[task]
    if task == "regression" and name == "accuracy" and mention and mention.inverse:
        return QUALITY[task]
    if task == "classification" and name == "rmse":
        raise PipelineError("CONFIG", "A squared error needs the regression data set diabetes.")
    metric = METRICS[name]
    if task not in metric.tasks:
        raise PipelineError(
            "CONFIG", f"{metric.title} needs classes, and the data set has none; rmse is measured there."
        )
    return metric


def _train_examples(texts: list[str], dataset: str) -> int | None:
    few = r"(?:small|little|limited|scarce|tiny|few) (?:\w+ )?(?:training )?(?:data(?: ?sets?)?|sets?|examples|samples|labels|images)|low data|few shot|data scarc\w+"
    for text in texts:
        counted = re.search(
            r"\b(\d{1,5}) (?:\w+ ){0,2}?(?:examples|samples|images|labels|rows|points)\b", text
        )
        if counted:
            return max(10, int(counted[1]))
        if re.search(rf"\b(?:{few})\b", text):
            return SMALL_TRAINING_SET[dataset]
    return None
