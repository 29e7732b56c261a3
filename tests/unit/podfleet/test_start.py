"""The command line is there at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from events.kinds import KINDS
from podfleet.main import app, main
from podfleet.nouns import NOUNS, OF_PODFLEET
from tests.fork_server import run_program

HEAVY = (
    "httpx",
    "pymongo",
    "fastapi",
    "pydantic",
    "rich",
    "yaml",
    "minio",
    "uvicorn",
    "dotenv",
    "markupsafe",
)
PROGRAM = """
import json, sys
sys.argv = ["podfleet", "--help"]
from podfleet.main import main
try:
    main()
except SystemExit as end:
    status = end.code
print(json.dumps({"status": status, "modules": sorted(sys.modules)}))
"""


def test_help_loads_nothing_that_only_a_command_needs() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    *help_text, last = answer.stdout.splitlines()
    told = json.loads(last)
    assert told["status"] == 0
    assert any(line.split()[:1] == ["submit"] for line in help_text)
    loaded = {name.partition(".")[0] for name in told["modules"]}
    assert loaded & set(HEAVY) == set()


CLIENT = """
import sys
import podfleet
before = set(sys.modules)
client = podfleet.Client("http://127.0.0.1:9")
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(*sorted(name for name in before if name.startswith("podfleet.")))
"""


def test_a_program_that_imports_the_client_loads_nothing_of_the_servers_or_the_command_line() -> None:
    answer = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, check=True)
    loaded, before = answer.stdout.split("\n")[:2]
    servers = {"control_plane", "pod_worker", "stages", "typer"}
    assert set(loaded.split()) & (set(HEAVY) | servers) == set()
    assert before == "", "what is not used is not loaded"


# what an install for a pod has not: the web stack, and the store's driver where the pod claims over HTTP
POD = """
import sys
from importlib import import_module
lacks = {"fastapi", "starlette", "uvicorn", "jinja2", "minio", "prometheus_client", "cronsim", "zstandard",
         "pymongo", "bson", "multipart"}
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in lacks:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Lacking())
from podfleet.main import main
from podfleet.nouns import NOUNS
for module, _ in NOUNS.values():
    import_module(module)
main()
"""


def test_a_pod_has_the_command_line_and_says_what_the_rest_needs(tmp_path: Path) -> None:
    def said(*words: str) -> tuple[int, str]:
        settings = {"PYTHONPATH": str(Path.cwd()), "MONGODB_URL": "mongodb://127.0.0.1:9"}
        command = [sys.executable, "-c", POD, *words]
        answer = subprocess.run(
            command, env=settings, capture_output=True, text=True, cwd=tmp_path, check=False
        )
        return answer.returncode, answer.stderr

    assert said("config", "show") == (0, "")
    wanted = "which the command needs: pip install 'podfleet[control,embedded]'\n"
    assert said("migrate") == (1, f"this install has no uvicorn, {wanted}")


def test_each_noun_is_there_and_says_the_same_of_itself_as_where_all_are_listed() -> None:
    for name, (_, says) in NOUNS.items():
        answer = CliRunner().invoke(app, [name, "--help"])
        assert answer.exit_code == 0, answer.output
        assert f" {name} [OPTIONS]" in answer.output.splitlines()[0]
        if "COMMAND [ARGS]" in answer.output:
            assert says in answer.output
            assert f" {name} [OPTIONS] COMMAND" in CliRunner().invoke(app, [name]).output


def test_a_kind_cannot_take_the_name_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(collection: str) -> tuple[object, str]:
        noun = replace(KINDS["ideation"].nouns[0], collection=collection)
        monkeypatch.setitem(KINDS, "theirs", replace(KINDS["probe"], name="theirs", nouns=(noun,)))  # type: ignore[arg-type]
        monkeypatch.setattr(sys, "argv", ["podfleet", "--help"])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr().err

    own = [*OF_PODFLEET, *(each.callback.__name__ for each in app.registered_commands if each.callback)]
    assert {"submit", "runs", "up", "serve", "env", "signin", "migrate", "version"} < set(own)
    for name in own:
        taken = f"kind 'theirs': its noun {name!r} is a command of podfleet already"
        assert said(name) == (2, f"{taken}; uninstall its package or fix it\n")
    assert said("letters") == (0, "")


def test_a_noun_or_verb_that_is_not_there_is_answered_with_its_like() -> None:
    for wrong, like in ((["rusn"], "'runs'"), (["runs", "lits"], "'list'"), (["events", "tial"], "'tail'")):
        answer = CliRunner().invoke(app, wrong)
        _, _, meant = answer.output.partition("Did you mean ")
        assert (answer.exit_code, like in meant) == (2, True)


def test_what_no_command_foresees_ends_it_in_words(tmp_path: Path) -> None:
    program = ("-c", "from podfleet.main import main; main()")
    settings = {"PYTHONPATH": str(Path.cwd()), "CONTROL_PLANE_URL": "http://me:a-password@[::1"}

    def redirected(to: str, *words: str) -> tuple[int, str]:
        command = ["sh", "-c", f'exec "$0" "$@" {to}', sys.executable, *program, *words]
        return ended(
            subprocess.run(command, env=settings, capture_output=True, text=True, cwd=tmp_path, check=False)
        )

    def said(*words: str) -> tuple[int, str]:
        return ended(run_program([*program, *words], env=settings, cwd=tmp_path))

    def ended(found: subprocess.CompletedProcess[str]) -> tuple[int, str]:
        assert "Traceback" not in found.stderr, found.stderr
        return found.returncode, found.stderr

    assert said("runs", "list")[1].startswith("CONTROL_PLANE_URL is 'http://me:********@[::1'")
    assert redirected(">&-", "config", "show") == (0, "")
    assert redirected(">/dev/full", "config", "show") == (1, "[Errno 28] No space left on device\n")
    (tmp_path / ".env").write_bytes(b"\xff\xfe")
    for words in (("runs", "list"), ("config", "show")):
        status, why = said(*words)
        assert (status, ".env cannot be read" in why) == (2, True)


SPEAKS: Final = "from podfleet.main import main; import sys; sys.argv[1:] = ['version']; main()"


@pytest.mark.parametrize("options", [(), ("-u",)], ids=["at its end", "on its way"])
def test_a_reader_that_has_enough_ends_a_command_well(options: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        command = [sys.executable, *options, "-c", SPEAKS]
        ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_the_version_is_an_option_too() -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert (told.exit_code, told.stdout.strip()) == (0, version("podfleet"))
