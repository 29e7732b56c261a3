"""What a command makes of an answer that an older control plane gives."""

from __future__ import annotations

import httpx
import pytest
import typer

from podfleet.client import EXIT_FAILED, EXIT_UNREACHABLE, Client


def answering(status: int, body: object) -> Client:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, json=body))
    return Client("http://fleet", None, {"http": httpx.Client(transport=transport, base_url="http://fleet")})


@pytest.mark.parametrize("body", [{"detail": "Not Found"}, {"code": "http", "detail": "Not Found"}])
def test_a_question_that_an_older_control_plane_does_not_know_has_no_answer(body: object) -> None:
    assert answering(404, body).get_if_known("/api/runs/ID/explain") is None


def test_what_is_not_there_is_still_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert answering(200, {"reasons": []}).get_if_known("/x") == {"reasons": []}
    with pytest.raises(typer.Exit) as ended:
        answering(404, {"code": "unknown_run", "detail": "there is no run 'ID'"}).get_if_known("/x")
    assert ended.value.exit_code == EXIT_FAILED
    assert "there is no run 'ID'" in capsys.readouterr().err


@pytest.mark.parametrize("body", [None, [], "x", {"items": "abc"}, {"items": [1]}, {"items": None}])
def test_what_no_control_plane_answers_ends_the_command_in_words(
    body: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        list(answering(200, body).items("/api/runs"))
    assert ended.value.exit_code == EXIT_UNREACHABLE
    assert "is no control plane" in capsys.readouterr().err
