"""The rules for alerts: each reads metrics that there are, and has a row in the operator's page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from control_plane.server.metrics import FLEET, REGISTRY

ROOT: Final = Path(__file__).parents[2]
RULES: Final[list[dict[str, Any]]] = [
    rule
    for group in yaml.safe_load((ROOT / "docs" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
SAMPLES: Final = {"counter": ("_total",), "summary": ("_sum", "_count"), "gauge": ("",)}
OF_PROMETHEUS: Final = {"up": {"job", "instance"}}
FUNCTIONS: Final = {"max", "min", "sum", "rate", "delta", "by", "and", "e"}
SELECTED: Final = re.compile(r"([a-zA-Z_:][\w:]*)(\{[^}]*\})?")


def exposed() -> dict[str, set[str]]:
    """Return the names of the samples that a control plane exposes, with their labels."""
    found = dict(OF_PROMETHEUS)
    for registry in (REGISTRY, FLEET):
        for collector in list(registry._collector_to_names):
            name, kind = collector._name, collector._type  # type: ignore[attr-defined]
            for ending in SAMPLES[kind]:
                found[f"{name}{ending}"] = set(collector._labelnames)  # type: ignore[attr-defined]
    return found


def read(expression: str) -> list[tuple[str, set[str]]]:
    """Return the metrics of an expression, each with the labels that it selects by."""
    grouped = re.sub(r"\bby \([^)]*\)|\[[^]]*\]|\b\d[\d.]*(e\d+)?\b", " ", expression)
    return [
        (name, set(re.findall(r"(\w+)=", labels or "")))
        for name, labels in SELECTED.findall(grouped)
        if name not in FUNCTIONS
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_reads_what_is_exposed_and_has_a_row_for_people(rule: dict[str, Any]) -> None:
    metrics = read(rule["expr"])
    assert metrics
    for name, labels in metrics:
        assert name in exposed(), name
        assert labels <= exposed()[name], (name, labels)
    for labels in re.findall(r"by \(([^)]*)\)", rule["expr"]):
        assert all(set(re.split(r",\s*", labels)) <= exposed()[name] for name, _ in metrics)
    assert rule["labels"]["severity"] in ("page", "warn")
    assert rule["annotations"]["summary"].endswith(".")
    assert f"- **`{rule['alert']}`**" in (ROOT / "docs" / "operations.md").read_text()


def test_each_rule_has_a_name_of_its_own_and_each_row_its_rule() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names)) >= 15
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.partition("## Alerts")[2].partition("\n## ")[0]
    assert re.findall(r"^- \*\*`(\w+)`\*\*$", section, flags=re.M) == names


def test_a_name_that_nobody_exposes_would_be_found() -> None:
    found = read('sum by (code) (rate(podfleet_nothing_total{code="x"}[5m])) > 2e9 and up == 0')
    assert found == [("podfleet_nothing_total", {"code"}), ("up", set())]
    assert "podfleet_nothing_total" not in exposed()
