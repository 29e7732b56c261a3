"""Writes prompts of about so many tokens, the same for a seed, and different from their first word on; pure.

Law: two prompts share a beginning only where a prefix is asked for, so no cache of prefixes answers for them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

# Short words that most vocabularies have as one token, with the space before it.
_TEXT: Final = """
able add age air all also and any area arm art ask away back ball bank base bed best big bird black blue
board boat body book both box boy bring build bus busy but buy call camp can car card care case cat cause
cell chair city class clear close coat cold come cook cost could cup cut dark data date day deal deep did
door down draw dream drink drive drop dry each early earth east easy eat edge else end even ever eye face
fact fall farm fast fear feel few field fight find fine fire fish five fly food foot force form four free
front full game gave girl give glass gold good grass great green group grow hair half hall hand hard hat
have head hear heart heat help here high hill hold home hope horse hot hour house how ice idea inch iron
join jump keep key kind king know lake land large last late lead leaf learn left leg less let life light
line list live long look lost loud love low made mail main make man map mark may mean meet milk mind moon
more most move much music name near neck need new next nice night nine nose note now off oil old once one
open other our out over own page paint pair paper park part pass past pay plan plant play point pool poor
power press pull push put race rain read ready real red rest rich ride right ring rise river road rock roll
room root rope rose round rule run safe said sail salt same sand save say sea seat see seed sell send set
seven shape share ship shop short show side sign sing sit six size skin sky sleep slow small snow soft some
song soon sort south space spring stand star start state step stone stop street strong such sugar sun sure
table take talk tall team tell ten test then thin third three tie time tiny tone top town train tree trip
true try turn two under unit use very view voice walk wall want warm wash watch water wave way week well
west what wheel white wide wild will wind wish wood word work world write year yes yet young your zone
"""
WORDS: Final = tuple(_TEXT.split())
POOL_WORDS: Final = 4_096
FIRST_WORDS: Final = 4  # two prompts have the same ones once in ten thousand million
TOKENS_PER_WORD_LEAST: Final = 0.25
TOKENS_PER_WORD_MOST: Final = 16.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How many tokens a word of ours has, and how many a prompt has beside its words."""

    tokens_per_word: float = 1.0
    beside: float = 0.0
    is_measured: bool = False

    @classmethod
    def between(cls, few: tuple[int, int], many: tuple[int, int]) -> Scale:
        """Return the scale of two prompts, each with its words and with the tokens that its server counted.

        What cannot be is not believed: then a word is a token.
        """
        (words, tokens), (more_words, more_tokens) = few, many
        slope = (more_tokens - tokens) / (more_words - words)
        beside = tokens - slope * words
        if not TOKENS_PER_WORD_LEAST <= slope <= TOKENS_PER_WORD_MOST or beside < -1.0:
            return cls()
        return cls(slope, max(0.0, beside), is_measured=True)

    def words(self, tokens: int) -> int:
        """Return of how many words a prompt of so many tokens is; one at least."""
        return max(1, round((tokens - self.beside) / self.tokens_per_word))


class Prompts:
    """Prompts of one seed, one after the other."""

    __slots__ = ("_begins", "_chance", "_pool", "_prefix", "_prefix_words", "_scale")

    def __init__(self, seed: str, scale: Scale, shared_prefix_tokens: int = 0) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - repeatable, no secret
        words = self._chance.choices(WORDS, k=POOL_WORDS)
        self._pool = " ".join(words) + " "
        self._begins = [0, *accumulate(len(each) + 1 for each in words)]
        self._scale = scale
        self._prefix_words = round(shared_prefix_tokens / scale.tokens_per_word)
        self._prefix = self._piece(self._prefix_words)

    def next(self, tokens: int) -> str:
        """Return the next prompt: of so many tokens with all that the server puts around it."""
        return self.of_words(self._scale.words(tokens))

    def of_words(self, words: int) -> str:
        """Return the next prompt, of so many words; a shared prefix leaves one of its own at least."""
        shared = min(self._prefix_words, words - 1)
        own = words - shared
        first = self._chance.choices(WORDS, k=min(own, FIRST_WORDS))
        prefix = self._prefix if shared == self._prefix_words else _cut(self._prefix, shared)
        return f"{prefix}{' '.join(first)} {self._piece(own - len(first))}".rstrip()

    def _piece(self, words: int) -> str:
        """Return so many words from some place of the pool, each with a space behind it."""
        begin = self._chance.randrange(POOL_WORDS)
        pieces: list[str] = []
        while words > 0:
            taken = min(words, POOL_WORDS - begin)
            pieces.append(self._pool[self._begins[begin] : self._begins[begin + taken]])
            words, begin = words - taken, 0
        return "".join(pieces)


def _cut(text: str, words: int) -> str:
    """Return the first words of a text, each with a space behind it."""
    return "".join(f"{each} " for each in text.split(" ", words)[:words])
