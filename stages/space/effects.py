"""Parses the metric of a sentence, and the direction in which its number moves; pure.

Law: a direction that the sentence leaves out is filled in as an improvement and noted. A metric that is not
measured here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from events.runtime.errors import PipelineError
from stages.space.claim import Direction
from stages.space.limits import beyond
from stages.space.mentions import Mention, mentions
from stages.space.metrics import METRICS, QUALITY, Metric, Task

Kind = Literal["good", "bad", "up", "down"]

QUALITY_WORD: Final = "quality"
FOREIGN: Final = "foreign"
# name, words, whether the words speak of the opposite of the number; what comes first wins an overlap
_METRIC_WORDS: Final = (
    (FOREIGN, r"(?:variance|variation|variability|standard deviation|spread|stability|confidence)(?: (?:of|in|on|between|across) (?:(?:the|its|their|test) )*\w+)?", False),
    (FOREIGN, r"(?:\w+ )?gaps?(?: (?:between|in|of) (?:\w+ ){1,5}(?:accurac\w+|loss(?:es)?|errors?))?", False),
    (FOREIGN, r"train(?:ing)? (?:accurac\w+|loss(?:es)?|errors?)|inference (?:times?|speed|cost)|prediction times?", False),
    ("ece", r"(?:expected )?(?:mis ?calibration|calibration) errors?|ece|mis ?calibration|mis ?calibrated|over ?confiden\w+|under ?confiden\w+", False),
    ("ece", r"calibrat\w+", True),
    ("nll", r"(?:negative )?log ?likelihoods?(?: loss)?|nll|log ?loss(?:es)?|cross ?entropy(?: loss)?|predictive uncertainty", False),
    ("brier", r"brier(?: scores?)?", False),
    ("rmse", r"rmse|(?:root )?mean squared? errors?|mse|squared errors?|regression errors?|prediction errors?", False),
    ("training_seconds", r"(?:training|wall ?clock|run|running|compute|computation) ?times?|training (?:seconds|costs?|durations?)|time to train|wall ?clock|seconds|(?<=longer )to train|(?:more|less) time", False),
    ("training_seconds", r"training (?:speed|throughput)|throughput|speed", True),
    ("parameters", r"(?:number of )?(?:trainable )?parameters?(?: counts?| numbers?)?|number of weights|(?<=fewer )weights|(?<=more )weights|model sizes?", False),
    ("accuracy", r"(?:classification |test |generali[sz]ation |misclassification )?errors?(?: rates?)?|mis ?classifi\w+|wrong predictions|mistakes?", True),
    ("accuracy", r"accurac\w+|accurate(?:ly)?|correct predictions|hit rate", False),
    ("loss", r"(?:test |validation )?loss(?:es)?(?! (?:of|in))", False),
    (FOREIGN, r"f1(?: score)?|auc|auroc|roc|precision|recall|perplexity|bleu|rouge|robust\w*|adversarial\w*|fairness|latency"
              r"|memory(?: use| usage| footprint)?|energy|convergence|converges?|converging|sample efficiency|interpretability|mae|r2|sparsity", False),
    (QUALITY_WORD, r"over ?fit\w*|memori[sz]\w+|divergence|instabilit\w+", True),
    (QUALITY_WORD, r"generali[sz]\w+|performance|performs?|quality", False),
)  # fmt: skip
_UNDOES: Final = (
    r"(?:prevent|mitigat|alleviat|avoid|reduc|limit|counteract)\w* (?:(?:the|a|an|any|such|its) )?"
)
_GOOD: Final = (
    r"improv\w+|help\w*|benefit\w*|enhanc\w+|outperform\w*|beats?|boost\w*|better|best|superior|stronger|wins?|surpass\w*"
    r"|exceeds?|well(?= calibrated)|rarer"
)
_BAD: Final = (
    r"harm\w*|hurt\w*|degrad\w+|worsen\w*|worse|worst|damag\w+|impair\w*|deteriorat\w+|inferior|hinder\w*|underperform\w*"
    r"|suffers?|poor(?:ly|er)?|badly|destroys?|weakens?"
)
_UP: Final = (
    rf"{_UNDOES}(?:drop|loss|decrease|decline|degradation|deterioration)s? (?:in|of)"
    r"|increas\w+|rais\w+|rises?|grows?|gains?|higher|greater|more|larger|bigger|slows?(?: down)?|longer|slower|climbs?|goes up|doubles?|triples?"
)
_DOWN: Final = (
    rf"{_UNDOES}(?:increase|growth|rise)s? (?:in|of)"
    r"|reduc\w+|decreas\w+|lowers?|lowered|lowering|cuts?|cutting|shrinks?|drops?|falls?|diminish\w*|minimi[sz]\w+|less|fewer"
    r"|smaller|shorter|faster|quicker|speeds(?: up)?|speed up|sav(?:es?|ing)|accelerat\w+|mitigat\w+|prevents?|alleviat\w+|lose[s]?"
    r"|declin\w+|costs?|goes down|halves"
)
_KINDS: Final[Mapping[Kind, str]] = {"good": _GOOD, "bad": _BAD, "up": _UP, "down": _DOWN}
_TIME: Final = r"faster|quicker|slower|slows?(?: down)?|speeds(?: up)?|speed up|accelerat\w+"
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
_JOINT: Final = r"\b(?:and|but|or|yet)\b"


@dataclass(frozen=True, slots=True)
class Effect:
    """What is measured, and how its number is claimed to move."""

    metric: Metric
    direction: Direction


@dataclass(frozen=True, slots=True)
class _Verb:
    """A word of direction, and where the words that it may be about end."""

    at: Mention
    kind: Kind
    is_about_time: bool
    reach: int


def read_effect(texts: Sequence[str], task: Task, notes: list[str]) -> Effect:
    """Return the effect that plain `texts` claim, the first of them the most binding; notes what is filled in.

    Raises `PipelineError` with the code CONFIG.
    """
    clause = _main_clause(texts[0])
    if re.search(rf"\b(?:{_NULL})\b", clause):
        raise PipelineError(
            "CONFIG",
            "The idea claims that something makes no difference. A confidence interval can show a difference, "
            "never its absence: please claim the difference (improves, reduces, harms, ...), and read an "
            "interval that holds zero as the answer.",
        )
    named = _metrics_in(clause)
    verbs = _verbs_in(clause, named)
    verb, mention = _pair(verbs, named)
    foreign = next((each for each in named if each.name == FOREIGN), None)
    if mention is None and foreign is not None:
        raise beyond(
            f"The idea is about {clause[foreign.start : foreign.end]!r}, which is not measured here."
        )
    if mention is None:
        mention = _elsewhere(texts)
    metric = _metric(mention, task, notes)
    _tell_of_others(named, mention, metric, notes)
    return Effect(metric, _direction(verb, mention, metric, clause, notes))


def _main_clause(text: str) -> str:
    """Return `text` without its subordinate remarks behind a word of direction."""
    aside = re.search(_ASIDE, text)
    said = "|".join(_KINDS.values())
    return text[: aside.start()] if aside and re.search(rf"\b(?:{said})\b", text[: aside.start()]) else text


def _metrics_in(text: str) -> list[Mention]:
    """Return every measure that `text` names, in order."""
    found: list[Mention] = []
    for name, words, inverse in _METRIC_WORDS:
        hits = (Mention(hit.start(), hit.end(), name, inverse) for hit in mentions(words, text))
        found.extend([hit for hit in hits if not any(hit.overlaps(each) for each in found)])
    return sorted(found, key=lambda each: each.start)


def _verbs_in(text: str, named: Sequence[Mention]) -> list[_Verb]:
    """Return the words of direction in order, each with its reach: up to the next one, or to a new clause."""
    hits = [
        (Mention(hit.start(), hit.end(), kind), kind)
        for kind, words in _KINDS.items()
        for hit in mentions(words, text)
    ]
    hits.sort(key=lambda hit: (hit[0].start, -hit[0].end))
    verbs: list[tuple[Mention, Kind]] = []
    for at, kind in hits:
        if not any(at.overlaps(other) for other, _ in verbs):
            verbs.append((at, kind))
    found = []
    for number, (at, kind) in enumerate(verbs):
        end = verbs[number + 1][0].start if number + 1 < len(verbs) else len(text)
        is_about_time = re.fullmatch(_TIME, text[at.start : at.end]) is not None
        found.append(_Verb(at, kind, is_about_time, _reach(text, at, end, named)))
    return found


def _reach(text: str, verb: Mention, end: int, named: Sequence[Mention]) -> int:
    """Return where the words that `verb` may be about end: `accuracy rises and loss falls` are two claims."""
    stop = text.find(" . ", verb.end, end)
    end = end if stop < 0 else stop
    joint = re.search(_JOINT, text[verb.end : end])
    if joint is None:
        return end
    at = verb.end + joint.start()
    return end if any(verb.end <= each.start < at for each in named) else at


def _pair(verbs: Sequence[_Verb], named: Sequence[Mention]) -> tuple[_Verb | None, Mention | None]:
    """Return the first word of direction that has its measure, and the measure."""
    for wanted in (_is_real, _is_vague):
        for verb in verbs:
            reached = (each for each in named if verb.at.end <= each.start < verb.reach and wanted(each))
            hit = next(reached, None)
            if hit is None and verb.is_about_time and not _is_foreign(verb, named):
                hit = Mention(verb.at.start, verb.at.end, "training_seconds")
            if hit is not None:
                return verb, hit
        before = [each for each in named if wanted(each) and (not verbs or each.start < verbs[0].at.start)]
        if before:
            return next(iter(verbs), None), before[0]
    return next(iter(verbs), None), None


def _is_real(mention: Mention) -> bool:
    return mention.name not in (QUALITY_WORD, FOREIGN)


def _is_vague(mention: Mention) -> bool:
    return mention.name == QUALITY_WORD


def _is_foreign(verb: _Verb, named: Sequence[Mention]) -> bool:
    """Return whether `verb` is about something that is not measured."""
    return any(each.name == FOREIGN and verb.at.end <= each.start < verb.reach for each in named)


def _elsewhere(texts: Sequence[str]) -> Mention | None:
    """Return the measure that the first of the other texts names."""
    found: Iterator[Mention] = (
        each for text in texts for each in _metrics_in(text) if _is_real(each) or _is_vague(each)
    )
    return next(found, None)


def _metric(mention: Mention | None, task: Task, notes: list[str]) -> Metric:
    name = mention.name if mention else QUALITY_WORD
    if name == QUALITY_WORD:
        if mention is None:
            notes.append(f"The idea names no metric; {QUALITY[task].title} is measured.")
        else:
            notes.append(f"The idea speaks of quality in general; {QUALITY[task].title} is measured.")
        return QUALITY[task]
    if name == "loss":
        return METRICS["nll"] if task == "classification" else METRICS["rmse"]
    if task == "regression" and name == "accuracy" and mention and mention.inverse:
        return QUALITY[task]
    if task == "classification" and name == "rmse":
        raise beyond("A squared error needs a regression data set, such as diabetes.")
    metric = METRICS[name]
    if task not in metric.tasks:
        raise beyond(f"{metric.title} needs classes, and the data set has none; rmse is measured there.")
    return metric


def _tell_of_others(
    named: Sequence[Mention], mention: Mention | None, metric: Metric, notes: list[str]
) -> None:
    others = {METRICS[each.name].title for each in named if each.name in METRICS and each != mention}
    others -= {metric.title}
    if others and mention is not None:
        notes.append(f"The idea also names {', '.join(sorted(others))}; the verdict is on {metric.title}.")


def _direction(
    verb: _Verb | None, mention: Mention | None, metric: Metric, clause: str, notes: list[str]
) -> Direction:
    if verb is None:
        notes.append("The idea names no direction; it is read as an improvement.")
        return _better(metric)
    if verb.kind in ("good", "bad"):
        return _better(metric) if verb.kind == "good" else _worse(metric)
    if mention is None:
        said = clause[verb.at.start : verb.at.end]
        raise beyond(f"The idea says {said!r} of something that is not measured here.")
    is_up = (verb.kind == "up") != mention.inverse
    if mention.name == QUALITY_WORD or (mention.name == "accuracy" and metric.name != "accuracy"):
        return _better(metric) if is_up else _worse(metric)  # more quality is a smaller error
    return "increase" if is_up else "decrease"


def _better(metric: Metric) -> Direction:
    return "increase" if metric.higher_is_better else "decrease"


def _worse(metric: Metric) -> Direction:
    return "decrease" if metric.higher_is_better else "increase"
