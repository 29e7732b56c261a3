"""The words of claims, as a table: what each phrase means, and the sign for it in a pattern of a sentence; pure.

Law: a phrase stands for one thing. What people say of several things, or only of some of them, is not here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from events.kinds.space.interventions import INTERVENTIONS

FILE: Final = "thefileofdata"  # stands in a text for the name of a file
GIVEN: Final = "given"  # the data that the specification names
NUMBER: Final = r"(?:\d{1,99}(?:\.\d{0,99})?|\.\d{1,99})"  # a longer one is no word of a claim
_WHOLE: Final = r"\d{1,99}"
_EXACT: Final = r"(?:at least |at most |more than |less than |about |around |roughly |up to |over )?"
_ROWS: Final = r"(?:examples|samples|images|rows|labels|(?:data|training) points)"
_TRAINED: Final = r"(?:(?:when )?(?:trained|training) )?(?:with |on |from |using |given )?(?:only |just )?"
_BOUND: Final = (
    r"(?:(?P<bound>at least|more than|over|no less than|at most|less than|no more than|not more than|fewer than|under"
    r"|about|around|roughly|approximately|exactly|only|just|up to) )?"
)
_SIZE: Final = rf"(?P<size>{NUMBER}|half an?|one|an?)"
_POINTS: Final = r"(?P<unit>(?:percentage |% )?points?|seconds?|times|fold)"
_EFFECT: Final = r"(?:effects?|impact|influence)(?: on| for)?"
_REAL: Final = r"(?:significant |measurable |real |clear )?"
_OF: Final = r"(?:in|of|on)"
_THAT: Final = r"(?: that| whether| if)?"
_NOUNS: Final = r"(?:networks?|nets?|models?|classifiers?|mlps?|multi ?layer perceptrons?)"
_CLASS: Final = r"(?:for|on|of|in) (?:the )?class (?P<of>\w+)"
_BASELINE: Final = (
    r"(?:the |a )?(?:baseline|(?:plain|standard|same) (?:network|model)|(?:plain|standard) training)"
)

# sign, meaning, words
_TABLE: Final = (
    # what is measured
    ("M", "ece", r"(?:expected )?calibration errors?|ece|mis ?calibration"),
    ("M", "-ece", r"calibration|calibrated"),
    ("M", "nll", r"negative log ?likelihoods?(?: loss)?|nll|log ?loss(?:es)?|cross ?entropy(?: loss)?"),
    ("M", "-nll", r"log ?likelihoods?"),
    ("M", "brier", r"brier scores?|brier"),
    ("M", "rmse", r"rmse|root mean squared? errors?"),
    ("M", "training_seconds", r"(?:wall ?clock )?training (?:times?|seconds|duration)(?: in seconds)?|time to train"),
    ("M", "-training_seconds", r"training speed"),
    ("M", "parameters", r"(?:number of )?(?:trainable )?parameters|parameter counts?|number of weights|model size"),
    ("M", "error", r"(?:classification |test |generali[sz]ation |misclassification |prediction )?errors?(?: rates?)?"
                   r"|misclassifications?|wrong predictions|mistakes"),
    ("M", "accuracy", r"(?:classification |test |generali[sz]ation )?accurac(?:y|ies)|accurate|correct predictions"),
    ("M", "loss", r"(?:test )?loss(?:es)?"),
    ("M", "quality", r"generali[sz](?:ation|es?)|(?:test |predictive |generali[sz]ation )?performance|performs?|works?|quality"),
    ("M", "ranked", r"top (?P<k>\d+) (?:accuracy|errors?(?: rates?)?)"),
    ("M", "balanced_accuracy", r"balanced accurac(?:y|ies)|macro recall"),
    ("M", "auroc", r"(?:macro )?(?:au ?roc|auc(?: roc)?|roc auc|area under the roc(?: curve)?)"),
    ("M", "recall", rf"(?:recall|sensitivity|accuracy) {_CLASS}"),
    ("M", "-recall", rf"errors?(?: rates?)? {_CLASS}"),
    ("M", "precision", rf"precision {_CLASS}"),
    ("M", "f1", rf"f1(?: scores?)? {_CLASS}"),
    ("M", "recall", r"recall|sensitivity"),
    ("M", "precision", r"precision"),
    ("M", "f1", r"(?:macro )?f1(?: scores?)?"),
    # how it moves
    ("E", "good", rf"improv(?:es?|ed|ing)|help(?:s|ed|ing)?|benefits?|better|superior"
                  rf"|good (?:for|to)|beneficial(?: (?:for|to))?|helpful(?: (?:for|to))?|(?:an )?improvements? {_OF}"),
    ("E", "good?", rf"enhanc(?:es?|ed|ing)|boost(?:s|ed|ing)?|(?:a )?(?:positive|beneficial) {_EFFECT}"),
    ("E", "bad", rf"harm(?:s|ed|ing)?|hurt(?:s|ing)?|degrad(?:es?|ed|ing)|worsen(?:s|ed|ing)?|worse|damag(?:es?|ed|ing)"
                 rf"|impair(?:s|ed|ing)?|deteriorat(?:es?|ed|ing)|inferior|hinder(?:s|ed|ing)?|suffers?|costs?"
                 rf"|(?:a )?(?:harmful|detrimental|adverse) {_EFFECT}|bad (?:for|to)|(?:harmful|detrimental)(?: (?:for|to))?"),
    ("E", "bad?", rf"(?:a )?negative {_EFFECT}"),
    ("E", "up", r"(?:an? )?(?:increase|rise|growth|gains?) (?:in|of)"
                r"|increas(?:es?|ed|ing)|rais(?:es?|ed|ing)|rises?|rising|grows?|higher|greater|more|larger|climbs?|goes up"),
    ("E", "down", r"(?:an? )?(?:decrease|drop|decline|reduction|fall|loss) (?:in|of)"
                  r"|reduc(?:es?|ed|ing)|decreas(?:es?|ed|ing)|lower(?:s|ed|ing)?|cuts?|shrinks?|drops?|falls?|less|fewer|smaller"
                  r"|diminish(?:es|ed|ing)?|declin(?:es?|ed|ing)|loses?|goes down"),
    ("E", "none", rf"no {_REAL}(?:differences?|changes?)(?: to| in| of| on| for)?|no {_REAL}{_EFFECT}|same|unchanged|unaffected"),
    ("E", "not good", rf"no {_REAL}(?:improvements?|benefits?|gains?)(?: to| in| of| on| for)?"),
    ("E", "not bad", rf"no {_REAL}harm(?: to| in| of| on| for)?"),
    ("E", "any", rf"affect(?:s|ed|ing)?|chang(?:es?|ed)|influenc(?:es?|ed|ing)|matters?(?: for| to)?|alter(?:s|ed)?|(?:an )?{_EFFECT}"),
    ("E", "up*", r"doubl(?:es?|ed)|tripl(?:es?|ed)"),
    ("E", "down*", r"halv(?:es?|ed)"),
    ("Z", "down", r"speeds? up training|sped up training|trains? (?:faster|quicker|more quickly)|(?:faster|quicker|shorter) training"
                  r"|training (?:is |becomes |gets |runs )?(?:faster|quicker)|makes? training (?:faster|quicker)|shortens? training"
                  r"|accelerat(?:es?|ed|e) training|takes? less time to train|(?:is |are )?(?:faster|quicker) to train"),
    ("Z", "up", r"slow(?:s|ed)?(?: down)? training(?: down)?|trains? (?:slower|more slowly)|slower training|(?:is |are )?slower to train"
                r"|training (?:is |becomes |gets |runs )?slower|makes? training slower|takes? (?:longer|more time) to train"),
    ("e", "good", r"(?:benefits?|profits?) from"),
    ("e", "good?", r"gains? from"),
    ("e", "bad", r"suffers? (?:from|under)"),
    ("b", "good", r"outperform(?:s|ed)?|beats?|surpass(?:es)?|superior to"),
    ("b", "bad", r"underperforms?|loses? (?:to|against)|inferior to"),
    # what it is compared with
    ("c", "", r"than(?: those)?(?: trained)?|instead of|in place of|rather than|over|versus|vs|against|(?:as )?compared (?:to|with)|relative to"),
    ("C", "", r"(?:than|instead of|versus|vs|(?:as )?compared (?:to|with)|relative to)(?: with)? no"),
    ("s", "", r"switch(?:ing|ed)?|moving|changing"),
    ("r", "", r"replac(?:ing|e)|swapping|exchanging"),
    ("R", "", r"(?:is |are |was |were |being )?(?:replaced|swapped|exchanged) (?:by|with|for)"),
    ("f", "", r"from"),
    ("t", "", r"to"),
    ("o", "", r"for"),
    ("i", "", r"in terms of|with respect to|regarding|in"),
    ("w", "", r"with(?: a)?|when|if|under|by|through|via|thanks to|due to|because of|after|once"),
    ("u", "", r"(?:switching|moving|changing) to|adding|using|applying|introducing|employing|(?:the )?(?:use|addition) of|(?:when )?train(?:ing|ed)(?: (?:an? |the )?(?:networks?|models?))? (?:with|by|using)"),
    ("U", "", r"(?:is|are|was|were|being) (?:used|added|applied|introduced|employed|turned on|switched on)"),
    ("x", "", r"without(?: any| using)?|removing|(?:the )?removal of|disabling|omitting|leaving out|turning off|switching off|ablating"
              r"|(?:the )?(?:absence|lack) of"),
    ("X", "", r"(?:is|are|was|were|being) (?:removed|omitted|disabled|left out|turned off|switched off)"),
    ("j", "", r"and|then"),
    ("k", "", r"but|(?:and|but) (?:also|yet)|while"),
    # numbers
    ("N", "", rf"{NUMBER}(?: ?(?P<unit>%|percent)| (?P<thing>pixels?|members?|networks|times the length))?"),
    ("q", "", r"(?:with )?(?:a |an )?(?:max(?:imum)? )?(?:rate|probability|strength|coefficient|factor|norm|size|alpha|sigma|epsilon|p|level"
              rf"|learning rate|lr)(?: (?:of|at|equal to|set to))?(?= {NUMBER})|of|at|set to|equal to"),
    # what surrounds it
    ("F", "rows", rf"{_TRAINED}(?P<rows>{_WHOLE}) (?:labell?ed |training )*{_ROWS}"),
    ("F", "share", rf"{_TRAINED}(?P<share>{NUMBER}) ?(?:%|percent) of (?:the |its |all )?training (?:data|set|{_ROWS})"),
    ("n", "", r"no|not|never|no longer|cannot|can not|neither|nor|fail(?:s|ed)? to|nothing|none"
              r"|it is (?:false|untrue|wrong|not true|not the case) that|false"),
    ("h", "", r"may|might|could|would|can|possibly|perhaps|maybe|probably|likely|unlikely|rarely|seldom|sometimes|often|usually|generally|typically"
              r"|occasionally|hardly|barely|(?:i|we) doubt(?: that)?|(?:tends?|seems?|appears?) to|in (?:some|many|most) cases|supposedly"
              r"|it is (?:possible|likely|unlikely|doubtful) that"),
    ("m", "size", rf"(?:by )?{_BOUND}{_SIZE} {_POINTS}"),
    ("m", "size", rf"by {_BOUND}(?P<size>{NUMBER})(?: ?(?P<unit>%|percent))?"),
    ("m", "size", rf"by {_SIZE}(?: {_POINTS})? (?P<bound>or more)"),
    ("m", "", rf"by (?:half|much|a lot|a factor of {NUMBER})"
              r"|slightly|substantially|greatly|dramatically|considerably|strongly|marginally|much|somewhat|twofold|at least|at most"),
    # words that say nothing of what is measured
    ("_", "", r"the|an?|its|their|our"),
    ("_", "", r"is|are|was|were|be|been|being|becomes?|has|have|had|does|do|did|will|should|makes?|gives?|gets?|yields?|leads? to"
              r"|results? in|reach(?:es)?|achiev(?:es?|ed)|obtains?|attains?|shows?|means|caus(?:es?|ed)|brings?|produces?|trains? to"),
    ("_", "", rf"(?:(?:from|in|of|for|by) )?(?:the |a )?(?:neural |trained |(?:fully|densely) connected |feed ?forward )*{_NOUNS}"),
    ("_", "", r"the default margin|significantly|measurably|clearly|really|on (?:the )?(?:test (?:data|set)|(?:unseen|new|held out) (?:data|examples|rows))"),
    ("_", "", rf"(?:than|over|compared (?:to|with)|relative to|against) {_BASELINE}"),
    ("_", "", rf"(?:we|i) (?:hypothesi[sz]e|expect|claim|think|believe|assume|propose|predict|suspect|conjecture|test|ask|show"
              rf"|want to (?:know|test|see|show)){_THAT}|(?:the |my |our )?(?:hypothesis|claim|question|idea)(?: is)?{_THAT}|whether|that|is it true that|h\d"
              rf"|(?:please )?(?:test|check|show|investigate|verify|find out|see){_THAT}|it is (?:expected|hypothesi[sz]ed|assumed)(?: that)?"),
    ("_", "", r"\."),
)  # fmt: skip
_DATA: Final = (
    ("breast_cancer", r"breast ?cancer"),
    ("digits", r"(?:hand ?written )?digits?"),
    ("wine", r"wines?"),
    ("iris", r"iris(?:es)?"),
    ("diabetes", r"diabetes"),
    (FILE, FILE),
)
_ON: Final = r"(?:(?:on|for|in|from|of|over) )?(?:the |a )?"
_SET: Final = r"(?: data ?sets?| data| images| table| classification| rows)?"
_THESE: Final = r"(?:on|for|in) (?:this|these|the|my|our) (?:data(?: ?sets?)?|table|file)"


@dataclass(frozen=True, slots=True)
class Entry:
    """A meaning, its sign, and its words as a compiled expression that ends where a word ends."""

    sign: str
    meaning: str
    words: re.Pattern[str]


def entry(sign: str, meaning: str, words: str) -> Entry:
    """Return an entry of the lexicon."""
    return Entry(sign, meaning, re.compile(rf"(?:{words})(?!\S)"))


ENTRIES: Final = (
    *(entry("I", each.name, each.words) for each in INTERVENTIONS.values()),
    *(entry("D", name, rf"{_ON}{words}{_SET}") for name, words in _DATA),
    entry("D", GIVEN, _THESE),
    *(entry(*row) for row in _TABLE),
)


# Words of other languages that turn a meaning: only what a language model read has any, and they are held against it.
FOREIGN: Final = tuple(
    entry(*row)
    for row in (
        ("n", "", r"nicht|keine?[nmrs]?|nie(?:mals)?|weder|ne|n'\S+|pas|jamais|aucune?|ni|nunca|ningún|ninguna"),
        ("h", "", r"vielleicht|könnte|kann|dürfte|manchmal|selten|peut être|peut|pourrait|parfois|rarement|puede|podría"
                  r"|quizás?|a veces|rara vez"),
        ("x", "", r"ohne|sans|sin"),
        ("c", "", r"als|statt|anstelle von|au lieu de?|plutôt que|en lugar de|en vez de"),
        ("E", "up", r"steigert|steigt|erhöht|hebt|vergrößert|augmente|accroît|aumenta|incrementa"),
        ("E", "down", r"senkt|sinkt|verringert|reduziert|vermindert|mindert|fällt|réduit|diminue|baisse|abaisse|reduce"
                      r"|disminuye|baja"),
        ("E", "good", r"verbessert|améliore|mejora"),
        ("E", "bad", r"verschlechtert|schadet|dégrade|détériore|empeora|perjudica"),
    )
)  # fmt: skip


NAMING: Final = tuple(each for each in ENTRIES if each.sign in "DME")  # of data and metrics


def named_data(words: str) -> Entry:
    """Return the entry of a data set of the user's own, by the plain words of its name."""
    return entry("D", GIVEN, rf"{_ON}{re.escape(words)}{_SET}")
