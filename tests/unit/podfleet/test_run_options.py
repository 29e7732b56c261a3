"""The options of `podfleet run`."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from podfleet.kinds import job

COMMIT = "0123456789" * 4


@pytest.mark.parametrize("option", [["--watch"], ["--after", "R"], ["--not-before", "2030-01-01T00:00:00Z"]])
def test_options_of_one_run_are_refused_for_several_nodes_before_anything_is_sent(option: list[str]) -> None:
    done = CliRunner().invoke(job.app, ["--nodes", "2", *option, "--", "true"])
    assert done.exit_code == 2
    assert "leave out" in done.output


def test_a_run_alone_waits_for_no_other_node() -> None:
    done = CliRunner().invoke(job.app, ["--ready-s", "5", "--", "true"])
    assert (done.exit_code, "--ready-s is for --nodes" in done.output) == (2, True)


def test_a_gpu_is_asked_for_by_its_memory_or_its_name() -> None:
    assert job.needed("24", None) == ["gpu_gib=24"]
    assert job.needed("h100", 4) == ["gpus=4", "gpu=h100"]
    assert job.needed(None, None) == []


def test_an_input_is_named_by_its_data_set_or_by_a_person() -> None:
    assert job.named_input("images/3") == ("images", "images/3")
    assert job.named_input("model=run:R/*.pt") == ("model", "run:R/*.pt")
    with pytest.raises(typer.BadParameter, match="write NAME=run:R"):
        job.named_input("run:R")


def test_a_commit_is_named_whole() -> None:
    wanted = {"url": "ssh://git@host/a", "commit": COMMIT, "secret": "KEY"}
    assert job.commit_named(f"ssh://git@host/a@{COMMIT}", "KEY") == wanted
    for wrong in ("https://host/a", "https://host/a@main", f"https://host/a@{COMMIT[:7]}"):
        with pytest.raises(typer.BadParameter, match="40 digits"):
            job.commit_named(wrong, None)
