"""What a listing of models says, as a server that is compatible with OpenAI's sends it; pure.

Law: everything in it is hostile. A row that cannot be read is counted and left out, and none takes the place
of an entry that has another address: a secret that the entry names would go there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

from events.runtime.errors import Rejected

ROWS_MAX: Final = 2_000
URL_CHARS_MAX: Final = 500
SLUG: Final = re.compile("[a-z0-9][a-z0-9._-]{0,99}")
TOKENS_MAX: Final = 10**9
USD_MAX: Final = 1e6  # for a million tokens
PER_MILLION: Final = 1_000_000
ENDING: Final = "/models"

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]


class _Pricing(msgspec.Struct):
    """Dollars for one token, as text or as a number."""

    prompt: str | float | None = None
    completion: str | float | None = None


class _TopProvider(msgspec.Struct):
    max_completion_tokens: Tokens | None = None


class _Row(msgspec.Struct):
    id: Id
    name: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    context_length: Tokens | None = None
    max_model_len: Tokens | None = None
    pricing: _Pricing | None = None
    top_provider: _TopProvider | None = None


class _Listing(msgspec.Struct):
    data: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=ROWS_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One model of a listing, under the name that it gets here; None is what the listing does not say."""

    slug: str
    model: str
    title: str
    input_usd_per_mtok: float | None
    output_usd_per_mtok: float | None
    context_tokens: int | None
    answer_tokens_max: int | None


@dataclass(frozen=True, slots=True)
class Read:
    """The models of a listing, and how many of its rows could not be read."""

    models: Sequence[Listed]
    unreadable: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What a sync writes; `kept` belong to another address, `left_out` have no room."""

    writes: Sequence[Listed]
    kept: int
    left_out: int


def fault_of_address(text: str) -> str | None:
    """Return what is wrong with the address of an API, in words; None where it is one."""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is no number
        is_address = False
    if not is_address or not (text.isascii() and text.isprintable()) or " " in text:
        return "it has to be an address like https://api.example.com/v1"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "an address has no user, no query and no fragment; a key is a secret, by its name"
    return None


def base_of(url: str) -> str:
    """Return the address of the API whose listing is at `url`, or which is `url` itself."""
    return url.rstrip("/").removesuffix(ENDING)


def read_listing(body: bytes) -> Read:
    """Return what a listing says. Raises `Rejected` for what is none."""
    try:
        rows = msgspec.json.decode(body, type=_Listing).data
    except (ValueError, RecursionError) as error:
        raise Rejected("bad_listing", f"the answer is no listing of models: {str(error)[:200]}") from error
    found: dict[str, Listed] = {}
    for row in rows:
        listed = _listed(row)
        if listed is not None:
            found.setdefault(listed.slug, listed)
    return Read([*found.values()], len(rows) - len(found))


def planned(models: Sequence[Listed], base: str, bases: Mapping[str, str | None], room: int) -> Planned:
    """Return what to write of the listing at `base`; `bases` has the address of each entry that there is."""
    known = [each for each in models if each.slug in bases]
    mine = [each for each in known if bases[each.slug] == base]
    fresh = [each for each in models if each.slug not in bases]
    return Planned([*mine, *fresh[:room]], len(known) - len(mine), max(0, len(fresh) - room))


def slug_of(model: str) -> str | None:
    """Return the name that a provider's name of a model gets here; None where nothing of it is left."""
    slug = re.sub("[^a-z0-9._-]+", "-", model.lower()).lstrip("._-")[:100]
    return slug if SLUG.fullmatch(slug) else None


def _listed(raw: msgspec.Raw) -> Listed | None:
    try:
        row = msgspec.json.decode(raw, type=_Row)
    except (ValueError, RecursionError):
        return None
    slug = slug_of(row.id)
    if slug is None or not row.id.isprintable():
        return None
    pricing = row.pricing or _Pricing()
    title = "".join(each for each in row.name or row.id if each.isprintable())[:200]
    return Listed(
        slug=slug,
        model=row.id,
        title=title or row.id,
        input_usd_per_mtok=_per_million(pricing.prompt),
        output_usd_per_mtok=_per_million(pricing.completion),
        context_tokens=row.context_length or row.max_model_len,
        answer_tokens_max=row.top_provider.max_completion_tokens if row.top_provider else None,
    )


def _per_million(usd: str | float | None) -> float | None:
    """Return the price of a million tokens; None where it is unknown, or varies, which some write as -1."""
    try:
        price = float(usd) * PER_MILLION if usd is not None else math.nan
    except ValueError:
        return None
    return round(price, 9) if 0 <= price <= USD_MAX else None
