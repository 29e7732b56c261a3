"""Research by a language model: what it is told, how its answers are read, and what becomes of its failures."""

from stages.experiment.research.modelled.choosing import choose
from stages.experiment.research.modelled.researcher import ModelResearcher

__all__ = ["ModelResearcher", "choose"]
