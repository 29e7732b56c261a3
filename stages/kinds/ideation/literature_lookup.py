"""Looks up earlier work for a request, and writes the references; no other module names a publication.

Law: a reference is a number of `works`; text that names a work by other means loses the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stages.kinds.ideation.idea_fields import cut, printable
from stages.ports.literature import Literature, LookUpFailed, Work

LOOK_UPS_MAX: Final = 40  # of one request
FAILURES_MAX: Final = 2  # in a row; an index that is down is not asked twenty times
FAILED_MAX: Final = 5  # in all; one that hangs now and then costs each time as long as it may take
WORKS_EACH: Final = 5
WORKS_MAX: Final = 60
QUERY_MAX: Final = 300
WORK_BYTES_MAX: Final = 500
AUTHORS_MAX: Final = 3
NONE_MADE: Final = "No literature was looked up for this idea."
NONE_FOUND: Final = "A look-up was made, and none of what it found is cited."

# How texts name a publication: authors, numbers in brackets, years in brackets, archives, addresses, venues.
_REFERENCE: Final = re.compile(
    r"(?i:\bet\.? al\b|\barxiv\b|\bdoi\b|https?://)"
    r"|\[\d{1,3}(?:\s*[,;\N{EN DASH}-]\s*\d{1,3})*\]"
    r"|\(\s*(?:[^()]{0,80}[,\s])?(?:19|20)\d{2}[a-z]?\s*\)"
    r"|\b[A-Z][\w-]+ (?:and|&) [A-Z][\w-]+,? (?:19|20)\d{2}\b"
    r"|\b(?:NeurIPS|NIPS|ICML|ICLR|CVPR|ICCV|ECCV|ACL|EMNLP|AAAI|JMLR|TMLR)\b",
)


@dataclass(slots=True)
class LookUps:
    """The look-ups of one request; `works` grows, and a work keeps its number, counted from 1."""

    literature: Literature | None
    warn: Callable[[str], None]
    works: list[Work] = field(default_factory=list)
    asked: dict[str, list[int]] = field(default_factory=dict)
    failures: int = 0
    failed: set[str] = field(default_factory=set)

    def search(self, query: str) -> list[int]:
        """Return the numbers of works for `query`, none where the index is missing, silent or spent."""
        wanted = printable(query)[:QUERY_MAX].replace("\n", " ").strip()
        if self.literature is None or not wanted or self._is_given_up or wanted.lower() in self.failed:
            return []
        if wanted.lower() in self.asked:
            return self.asked[wanted.lower()]
        if len(self.asked) >= LOOK_UPS_MAX:
            return []
        try:
            found = self.literature.search(wanted, WORKS_EACH)
        except LookUpFailed as error:
            self.failures += 1
            self.failed.add(wanted.lower())
            rest = "; no more look-ups for this request" if self._is_given_up else ""
            self.warn(f"the look-up of {wanted!r} failed, ideation goes on without it: {error}{rest}")
            return []
        self.failures = 0
        numbers = [number for work in found[:WORKS_EACH] if (number := self._number(work)) is not None]
        self.asked[wanted.lower()] = numbers
        return numbers

    @property
    def _is_given_up(self) -> bool:
        return self.failures >= FAILURES_MAX or len(self.failed) >= FAILED_MAX

    def knows(self, number: int) -> bool:
        """Return whether a look-up found a work of this number."""
        return 1 <= number <= len(self.works)

    def listed(self, numbers: Sequence[int]) -> str:
        """Return works as lines with their numbers."""
        return "\n".join(f"[{number}] {reference(self.works[number - 1])}" for number in numbers)

    def related_work(self, cited: Sequence[tuple[int, str]], own_words: str) -> str:
        """Return the field Related Work: works that were found with a remark on each, then own words."""
        known = {number: remark for number, remark in cited if self.knows(number)}
        parts = [
            _entry(self.works[number - 1], without_references(remark)) for number, remark in known.items()
        ]
        if not parts:
            parts = [NONE_FOUND if self.asked else NONE_MADE]
        return "\n".join(part for part in (*parts, without_references(own_words)) if part)

    def _number(self, work: Work) -> int | None:
        """Return the number of a work, a new one if it is not known; None where there is no room."""
        title = work.title.casefold().strip()
        for number, each in enumerate(self.works, start=1):
            if each.title.casefold().strip() == title:
                return number
        if not title or len(self.works) >= WORKS_MAX:
            return None
        self.works.append(work)
        return len(self.works)


def reference(work: Work) -> str:
    """Return a work as it is cited: authors, year, title, venue, address."""
    names = [printable(name) for name in work.authors]
    authors = ", ".join(names[:AUTHORS_MAX]) + (" et al." if len(names) > AUTHORS_MAX else "")
    head = f"{authors} ({work.year}). " if authors and work.year else f"{authors or work.year or ''}. "
    tail = "".join(f" {printable(part)}." for part in (work.venue, work.url) if part)
    return cut(printable(f"{head.removeprefix('. ')}{printable(work.title)}.{tail}"), WORK_BYTES_MAX)


def without_references(text: str) -> str:
    """Return `text` without the sentences that name a work, since that work was not looked up."""
    lines = []
    for line in text.split("\n"):
        sentences = re.split(r"(?<=[.!?])(?<!\bal\.)\s+(?=[A-Z\"'(\[])", line)
        lines.append(" ".join(each for each in sentences if not has_reference(each)))
    return "\n".join(line for line in lines if line.strip()).strip()


def has_reference(text: str) -> bool:
    """Return whether `text` names a publication as texts do."""
    return _REFERENCE.search(text) is not None


def _entry(work: Work, remark: str) -> str:
    return f"{reference(work)} {remark}".strip()
