"""Jobs whose folder is a commit: fetched by https from a real server, and what is refused."""

from __future__ import annotations

import base64
import ipaddress
import os
import pwd
import shlex
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from events.catalog import StageStarted
from events.kinds import read_spec
from events.runtime.errors import PipelineError, Rejected
from stages.kinds.job import git_source
from stages.kinds.job.pipeline import run
from stages.testing import RecordingReporter, make_context, make_tools

TOKEN: Final = "tok-CANARY-0123456789"
PROGRAM: Final = "import os; print(open('own.txt').read(), 'CANARY' in str(dict(os.environ)), os.listdir())"
PATH: Final = os.pathsep.join([str(Path(shutil.which("git") or "").parent), os.defpath])
BY: Final = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Backend(BaseHTTPRequestHandler):
    """`git http-backend`; what lies below /private asks for the token, /moved leads there."""

    root: Path

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.replace("/moved/", "/private/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        given = base64.b64decode(self.headers.get("authorization", "Basic ").partition(" ")[2]).decode()
        if given.partition(":")[2] != TOKEN:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        environment = {
            "PATH": PATH,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def certificate(folder: Path) -> Path:
    """Return a file with a key, and a certificate for 127.0.0.1 by it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)  # noqa: TID251 # the certificate is of this machine's time
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(pem)
    )
    return file


class Repository:
    """A server of one repository: its address, the commit in it, and whom to believe."""

    def __init__(self, folder: Path, port: int, authorities: Path) -> None:
        self.url = f"https://127.0.0.1:{port}/private/a.git"
        self.authorities = authorities
        work = folder / "private" / "a.git"
        work.mkdir(parents=True)
        git(work, "init", "-q", "-b", "main")
        (work / "own.txt").write_text("first")
        git(work, "add", ".")
        (work / ".gitmodules").write_text(f'[submodule "below"]\n\tpath = below\n\turl = file://{work}\n')
        git(work, *BY, "commit", "-q", "--allow-empty", "-m", "none")
        git(work, "update-index", "--add", "--cacheinfo", f"160000,{git(work, 'rev-parse', 'HEAD')},below")
        git(work, "add", ".gitmodules")
        git(work, *BY, "commit", "-q", "-m", "first")
        self.commit = git(work, "rev-parse", "HEAD")
        (work / "own.txt").write_text("second")
        git(work, *BY, "commit", "-q", "-a", "-m", "second")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    folder = tmp_path_factory.mktemp("git")
    file = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Backend,), {"root": folder})) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield Repository(folder, server.server_address[1], file)
        finally:
            server.shutdown()
            thread.join()


class Fetched:
    """A run whose folder is a commit."""

    def __init__(
        self, repository: Repository, folder: Path, token: str = TOKEN, secret: str = "KEY", **git: str
    ) -> None:
        named = {"url": repository.url, "commit": repository.commit, "secret": secret, **git}
        spec = read_spec("job", {"command": shlex.join([sys.executable, "-c", PROGRAM]), "git": named})
        variables = {
            "PATH": PATH,
            "KEY": token,
            "HOME": "/nowhere",
            "SSL_CERT_FILE": str(repository.authorities),
        }
        self.reporter = RecordingReporter()
        tools = make_tools(variables=variables, secrets=("KEY",))
        self.context = make_context(spec, folder, reporter=self.reporter, tools=tools)

    def run(self) -> dict[str, str]:
        run(self.context)
        return {each.name: each.path.read_text() for each in self.reporter.files}


def test_a_commit_is_fetched_with_a_secret_that_the_program_does_not_get(
    repository: Repository, tmp_path: Path
) -> None:
    job = Fetched(repository, tmp_path)
    files = job.run()
    printed = files["log.txt"]
    assert printed.startswith("first False ")
    assert "below" in printed
    assert not (tmp_path / "work" / "below").exists() or not os.listdir(tmp_path / "work" / "below")
    assert [each.stage for each in job.reporter.of(StageStarted)] == ["source", "run"]
    assert files["source.txt"].splitlines()[-1] == repository.commit
    left = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in each for each in left)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"token": "tok-of-another-one"}, "Authentication failed"),
        ({"commit": "0" * 40}, "git ended with status 128"),
        ({"secret": "OTHER"}, "the run has no secret OTHER"),
        ({"url": "/moved/"}, "git ended with status 128"),
    ],
)
def test_what_cannot_be_fetched_fails_the_run_with_the_words_of_git(
    repository: Repository, tmp_path: Path, given: dict[str, str], why: str
) -> None:
    if "url" in given:
        given = {"url": repository.url.replace("/private/", given["url"])}
    with pytest.raises(PipelineError, match=why) as failed:
        Fetched(repository, tmp_path, **given).run()
    assert failed.value.code == "NO_SOURCE"
    assert TOKEN not in str(failed.value)


def test_ssh_runs_for_a_user_without_a_name_and_its_reason_is_told(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {
        "unshare": '[ "$1" = --map-root-user ] && shift && NAMED=yes exec "$@"',
        "ssh": 'echo "named: ${NAMED:-no}." >&2; exit 255',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    (workspace := tmp_path / "run").mkdir()
    job = Fetched(repository, workspace, url="ssh://git@127.0.0.1/a.git")
    variables = {**job.context.tools.variables, "PATH": f"{tmp_path}:{PATH}"}
    job.context = replace(job.context, tools=replace(job.context.tools, variables=variables))
    with pytest.raises(PipelineError, match=r"named: yes.* Could not read") as failed:
        job.run()
    assert "repository exists" not in str(failed.value)


def test_a_commit_that_is_too_large_fails_the_run(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_source, "FILES_MAX", 3)
    monkeypatch.setattr(git_source, "LOOK_S", 0.01)
    with pytest.raises(PipelineError, match="the commit is too large"):
        Fetched(repository, tmp_path).run()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc",
        "/etc",
        "../a",
        "ext::sh -c id",
        "http://example.org/a",
        "git://example.org/a",
        "https://token@example.org/a",
        "https://user:token@example.org/a",
        "ssh://-oProxyCommand=id/a",
        "ssh://git:word@example.org/a",
        "ssh://git@-example.org/a",
        "git@example.org:a/b",
        "https://example.org/a b",
        "https://example.org/a\n",
        "--upload-pack=id",
        "https://example.org",
    ],
)
def test_an_address_that_is_neither_https_nor_ssh_or_has_a_token_is_refused(url: str) -> None:
    with pytest.raises(Rejected, match="git"):
        read_spec("job", {"command": "true", "git": {"url": url, "commit": "0" * 40}})


def test_a_commit_beside_a_folder_and_an_incomplete_commit_are_refused() -> None:
    named = {"url": "https://example.org/a", "commit": "0" * 40}
    assert read_spec("job", {"command": "true", "git": {**named, "url": "ssh://git@example.org:22/a/b.git"}})
    with pytest.raises(Rejected, match="leave one of them out"):
        read_spec("job", {"command": "true", "git": named, "tree": "0" * 64})
    with pytest.raises(Rejected, match="commit"):
        read_spec("job", {"command": "true", "git": {**named, "commit": "main"}})
