"""The API against its own OpenAPI document, by Schemathesis: with a key that may do all, and with none.

No answer may be a 5xx, or have a status, media type, header or body that the document does not name; data
that the document allows is read, what it does not allow is refused. One thing of each kind is made first, so
that some ids are of something. The seed is fixed: what fails once fails again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from events.delivery.control_plane_client import bearer
from events.runtime.clock import SystemIds

HERE: Final = Path(__file__).parent
RULES: Final = HERE / "schemathesis.toml"
CHECKS: Final = HERE / "checks.py"
ROOT: Final = HERE.parents[1]
PHASES: Final = ("examples", "coverage", "fuzzing", "stateful")
SHARE: Final = 0.5  # of the ids in requests are of something
REQUEST_S: Final = 15.0
KINDS: Final = ("probe", "experiment")
MATRIX: Final = {"kind": "matrix", "values": {"seconds": [1, 2]}, "parallel": 1}
VARIED: Final = {"n_parallel": [1, 2]}
CRONS: Final = ("0 * * * *", "@daily", "*/5 0 1 1 *")
FIELDS: Final = ("spec.seconds", "label.team", "spec.a.b")
ZONES: Final = ("UTC", "Europe/Berlin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """`examples` requests for each operation and phase, with the key where `is_known`, else without."""

    url: str
    key: str
    examples: int
    is_known: bool = True
    seed: int = 1
    phases: Sequence[str] = PHASES

    def run(self) -> subprocess.CompletedProcess[str]:
        """Try every operation; the status is 0 where nothing is wrong, and the output names what is."""
        with (
            tempfile.TemporaryDirectory(prefix="podfleet-fuzz-") as folder,
            httpx.Client(
                base_url=self.url, headers=bearer(self.key), trust_env=False, timeout=REQUEST_S
            ) as client,
        ):
            document = Path(folder, "openapi.json")
            document.write_bytes(client.get("/openapi.json").raise_for_status().content)
            rules = Path(folder, "schemathesis.toml")
            rules.write_text("\n".join([f'hooks = "{CHECKS}"', RULES.read_text(), *_words(_made(client))]))
            return subprocess.run(
                self._command(rules, document),
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "*"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )

    def _command(self, rules: Path, document: Path) -> list[str]:
        sent = ["--header", f"Authorization: Bearer {self.key}"] if self.is_known else []
        return [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(rules), "run"),
            *(str(document), "--url", self.url, *sent),
            *("--seed", str(self.seed), "--max-examples", str(self.examples)),
            *("--phases", ",".join(self.phases)),
            *("--request-timeout", str(REQUEST_S), "--continue-on-failure", "--warnings", "off"),
        ]


def _made(client: httpx.Client) -> Mapping[str, str]:
    """Make one thing of each kind that a path can name; return the parameters and their ids."""

    def made(path: str, **body: object) -> str:
        return str(client.post(path, json=body).raise_for_status().json()["id"])

    board = {"kind": "probe", "rows": "spec.seconds", "cell": "value"}
    client.put("/api/boards/fuzz", json={"query": board}).raise_for_status()
    return {
        "board_id": "fuzz",
        "run_id": made("/api/runs", kind="probe"),
        "hypothesis_id": made("/api/hypotheses", title="Does it hold?", idea="Dropout helps."),
        "schedule_id": made("/api/schedules", id=_slug(), cron=CRONS[0], run={"kind": "probe"}),
        "group_id": made("/api/groups", id=_slug(), run={"kind": "probe"}, plan=MATRIX),
        "task_id": made("/api/tasks", name=_slug(), model={"id": "smollm2"}, parameters=VARIED),
        "key_id": made("/api/keys", kind="viewer", name="fuzz"),
    }


def _slug() -> str:
    return f"fuzz-{SystemIds().ulid().lower()}"


def _words(made: Mapping[str, str]) -> Iterator[str]:
    """Yield what shall often stand where chance would never find it, in Schemathesis' own form."""
    bound: Mapping[str, Sequence[str]] = {
        **{f"path.{name}": [made_id] for name, made_id in made.items()},
        "body.kind": (*KINDS, *("viewer", "operator", "admin", "pod")),
        "body.run.kind": KINDS,
        "body.cron": CRONS,
        "body.time_zone": ZONES,
        "query.cron": CRONS,
        "query.rows": FIELDS,
        "query.columns": FIELDS,
        "query.sort": FIELDS,
        "query.cell": ("value",),
        "query.kind": KINDS,
        "query.time_zone": ZONES,
    }
    for place, values in bound.items():
        yield f"[dictionaries.{place.replace('.', '_')}]\nvalues = {json.dumps(values)}"
    yield "[parameters]"
    for place in bound:
        yield f'"{place}" = {{ dictionary = "{place.replace(".", "_")}", probability = {SHARE} }}'
