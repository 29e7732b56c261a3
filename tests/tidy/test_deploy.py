"""What deploy/ says is what there is: settings, options, files, exit statuses."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from events.runtime.exits import EXIT_LEFT
from pod_worker.machine.update import ASK_S, INSTALL_S
from pod_worker.program import LEAVE_S
from podfleet.commands.maintenance.config import KNOWN, SECRET
from podfleet.embedded.stack import CONTROL_PLANE_GRACE_S, WORKER_GRACE_S
from scripts.try_containerfile import steps

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILES = sorted(DEPLOY.glob("Containerfile.*"))
UNITS = sorted(DEPLOY.glob("systemd/*.service"))
OWN_IMAGES = {"podfleet-control-plane", "podfleet-pod"}
OPTIONS_OF_WORKERS = {"--mode", "--data", "--max-runs", "--idle-exit", "--label", "--slots", "--update"}


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def unit(path: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {name: value for name, equals, value in lines if equals}


@pytest.mark.parametrize("file", CONTAINERFILES, ids=lambda file: file.name)
def test_a_containerfile_names_its_base_is_not_root_and_keeps_no_secret(file: Path) -> None:
    found = list(steps(file.read_text()))
    said = dict(found)
    (base,) = (rest.partition("=")[2] for name, rest in found if name == "ARG" and rest.startswith("BASE="))
    assert said["FROM"] == "${BASE}"
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", base)
    assert said["USER"] == "podfleet"
    assert [name for name, _ in found].index("USER") > max(
        at for at, (name, _) in enumerate(found) if name in ("RUN", "COPY")
    )
    assert "CMD [" in said["HEALTHCHECK"]
    assert json.loads(said["ENTRYPOINT"])
    for name, rest in found:
        if name in ("ENV", "ARG"):
            names = [each.partition("=")[0] for each in shlex.split(rest)]
            assert [each for each in names if SECRET.search(each)] == []
            assert [each for each in names if each.startswith("PODFLEET_") and each not in KNOWN] == []
        if name == "COPY":
            assert [each for each in shlex.split(rest)[:-1] if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("file", CONTAINERFILES, ids=lambda file: file.name)
def test_an_image_has_all_packages_and_extras_that_there_are(file: Path) -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = list(steps(file.read_text()))
    copied = {each for name, rest in found if name == "COPY" for each in shlex.split(rest)[:-1]}
    assert copied >= {*pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], "constraints.txt"}
    (installed,) = re.findall(r"locked\.py (\S+)", " ".join(rest for name, rest in found if name == "RUN"))
    default = dict(rest.split("=", 1) for name, rest in found if name == "ARG").get("EXTRAS", "")
    extras = (default if "$" in installed else installed).split(",")
    assert set(extras) <= pyproject["project"]["optional-dependencies"].keys()


def test_every_setting_of_compose_is_known_and_what_it_names_is_there() -> None:
    found = compose()
    for name, service in found["services"].items():
        if service["image"] in OWN_IMAGES:
            assert service["environment"].keys() - KNOWN.keys() == set(), name
            assert (ROOT / service["build"]["dockerfile"]).is_file()
        else:
            assert re.search(r":\d", service["image"]), name
        assert service["depends_on"].keys() <= found["services"].keys() if "depends_on" in service else True
        volumes = {each.partition(":")[0] for each in service.get("volumes", ())}
        assert volumes <= found["volumes"].keys(), name
        assert service["restart"] == "unless-stopped"


def test_no_secret_stands_in_compose_and_each_that_it_asks_for_is_made_by_the_readme() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    asked = set(re.findall(r"\$\{(\w+):\?", text))
    assert asked == {
        *("MONGO_KEY", "MONGO_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY"),
        *("PODFLEET_API_KEY", "PODFLEET_SECRETS_KEY"),
    }
    made = set(re.findall(r"^(\w+)=\$\(openssl", (DEPLOY / "README.md").read_text(), re.MULTILINE))
    assert made == asked
    for service in compose()["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not SECRET.search(name) or "${" in value, name


def test_services_and_containers_wait_for_a_worker_to_leave() -> None:
    services = compose()["services"]
    assert int(services["worker"]["stop_grace_period"].removesuffix("s")) >= WORKER_GRACE_S > LEAVE_S
    assert int(services["control-plane"]["stop_grace_period"].removesuffix("s")) >= CONTROL_PLANE_GRACE_S
    by_name = {each.stem: unit(each) for each in UNITS}
    worker, control = by_name["podfleet-worker"], by_name["podfleet-control-plane"]
    assert int(worker["TimeoutStopSec"]) >= WORKER_GRACE_S
    assert int(control["TimeoutStopSec"]) >= CONTROL_PLANE_GRACE_S
    assert str(EXIT_LEFT) in worker["RestartPreventExitStatus"].split()
    assert int(worker["TimeoutStartSec"]) > INSTALL_S + ASK_S
    assert worker["KillMode"] == control["KillMode"] == "mixed"
    assert {worker["Restart"], control["Restart"]} == {"always"}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_reads_the_units(path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here")
    answer = subprocess.run([program, "verify", str(path)], capture_output=True, text=True, check=False)
    lines = (answer.stdout + answer.stderr).splitlines()
    # its programs are where nothing is installed here
    ours = [line for line in lines if path.stem in line and "is not executable" not in line]
    assert ours == []


def test_the_template_has_known_settings_and_options_and_no_secret() -> None:
    found = json.loads((DEPLOY / "runpod-template.json").read_text())
    assert found["env"].keys() <= KNOWN.keys()
    for name, value in found["env"].items():
        assert not SECRET.search(name) or re.fullmatch(r"\{\{ RUNPOD_SECRET_\w+ \}\}", value), name
    assert {each for each in found["dockerStartCmd"] if each.startswith("-")} <= OPTIONS_OF_WORKERS


def test_the_readme_names_every_file() -> None:
    text = (DEPLOY / "README.md").read_text()
    assert [each.name for each in DEPLOY.iterdir() if each.name not in text] == ["README.md"]
