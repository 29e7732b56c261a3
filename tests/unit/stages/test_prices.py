"""What tokens cost, and what is said where nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.catalog import Price
from events.models.providers import PROVIDERS
from events.runtime.errors import PipelineError
from stages.models.model import Usage
from stages.models.prices import Prices, cost_usd

PRICE = Price(input_usd_per_mtok=2.0, output_usd_per_mtok=10.0)


def usage(prompt: int | None, completion: int | None) -> Usage:
    return Usage(prompt_tokens=prompt, completion_tokens=completion, seconds=1.0)


def written(folder: Path, text: str) -> Path:
    path = folder / "prices.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_the_models_that_are_asked_by_default_have_a_price(provider: object) -> None:
    assert Prices.load().of(provider.model) is not None  # type: ignore[attr-defined]


def test_a_name_stands_for_its_dated_variants_and_for_no_other_model() -> None:
    prices = Prices({"gpt-9": PRICE, "gpt-9-mini": Price(input_usd_per_mtok=1.0, output_usd_per_mtok=1.0)})
    for same in ("gpt-9", "gpt-9-2026-01-31", "gpt-9-20260131", "gpt-9-latest", "gpt-9@20260131"):
        assert prices.of(same) == PRICE
    assert prices.of("gpt-9-mini-2026-01-31") == prices.rows["gpt-9-mini"]
    for other in ("gpt-9-pro", "gpt-9.5", "gpt-99", "gpt-9-nano-2026-01-31", "gpt", "", "my/gpt-9"):
        assert prices.of(other) is None, other


def test_the_longest_name_decides() -> None:
    dear = Price(input_usd_per_mtok=9.0, output_usd_per_mtok=9.0)
    prices = Prices(
        {"*": PRICE, "local/*": dear, "local/small": PRICE, "gpt-9-2025-01-01": dear, "gpt-9": PRICE}
    )
    assert prices.of("local/large") == dear
    assert prices.of("local/small") == PRICE
    assert prices.of("whatever") == PRICE
    assert prices.of("gpt-9-2025-01-01") == dear


def test_the_operators_file_goes_before_the_shipped_one(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "[usd_per_million_tokens]\n"
        '"gpt-4o" = { input = 1, output = 2.5 }\n"my-model" = { input = 0, output = 0 }\n',
    )
    prices = Prices.load(path)
    assert prices.of("gpt-4o") == Price(input_usd_per_mtok=1.0, output_usd_per_mtok=2.5)
    assert prices.of("my-model") == Price(input_usd_per_mtok=0.0, output_usd_per_mtok=0.0)
    assert prices.of("gpt-4o-mini") == Prices.load().of("gpt-4o-mini")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[usd_per_million_tokens\n", "Expected"),
        ("[prices]\n", "'prices' is not known"),
        ("usd_per_million_tokens = 3\n", "has to be a table"),
        ("[usd_per_million_tokens]\nx = 3\n", "'x' has to be"),
        ("[usd_per_million_tokens]\nx = { input = 1 }\n", "'x' has to be"),
        ("[usd_per_million_tokens]\nx = { input = 1, output = -2 }\n", "output of 'x' is -2"),
        ("[usd_per_million_tokens]\nx = { input = nan, output = 2 }\n", "input of 'x' is nan"),
        ('[usd_per_million_tokens]\nx = { input = "1", output = true }\n', "output of 'x' is True"),
    ],
)
def test_a_file_that_is_no_list_of_prices_is_named_with_its_problem(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PipelineError) as caught:
        Prices.load(path)
    assert caught.value.code == "CONFIG"
    assert str(path) in caught.value.message
    assert problem in caught.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(PipelineError, match=str(path)):
            Prices.load(path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PipelineError, match=r"binary\.toml"):
        Prices.load(binary)


def test_a_request_costs_its_tokens_times_their_prices() -> None:
    assert cost_usd(PRICE, usage(1_000_000, 500_000)) == pytest.approx(7.0)
    assert cost_usd(PRICE, usage(0, 0)) == 0.0


def test_a_cost_that_nobody_knows_is_not_zero() -> None:
    assert cost_usd(None, usage(10, 10)) is None
    assert cost_usd(PRICE, usage(None, 10)) is None
    assert cost_usd(PRICE, usage(10, None)) is None
    assert cost_usd(Price(input_usd_per_mtok=1.0), usage(10, 10)) is None
