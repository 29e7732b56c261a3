"""Research by a language model: its prompts, the parsing of its answers, the handling of its failures."""

from stages.kinds.experiment.research.modelled.choosing import choose
from stages.kinds.experiment.research.modelled.researcher import ModelResearcher

__all__ = ["ModelResearcher", "choose"]
