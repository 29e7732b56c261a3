"""A fleet on one machine with a public address by TLS, and a pod in a network that has that address alone."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from events.runtime.clock import SystemIds
from podfleet.embedded.ports import choose
from tests.integration.command_line import PROGRAM

Until = Callable[..., None]
LONG_AGO: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
START_S: Final = 100.0  # on a loaded machine; alone it takes ten


def _ran(*words: str) -> bool:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode == 0


@contextmanager
def another_network(name: str, here: str, there: str) -> Iterator[tuple[str, ...]]:
    """Make a network of its own that reaches `here` on this machine and nothing else.

    Give the words that run a command in it. Skips where this user or this machine can make none.
    """
    if os.geteuid() != 0:
        pytest.skip("only root makes networks")
    ours, theirs = f"{name}a", f"{name}b"
    try:
        if not _ran("ip", "netns", "add", name):
            pytest.skip("this machine makes no network namespaces")
    except FileNotFoundError:
        pytest.skip("ip is not installed")
    within = ("ip", "netns", "exec", name)
    try:
        steps = (
            ("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name),
            ("ip", "addr", "add", f"{here}/30", "dev", ours),
            ("ip", "link", "set", ours, "up"),
            (*within, "ip", "addr", "add", f"{there}/30", "dev", theirs),
            (*within, "ip", "link", "set", theirs, "up"),
            (*within, "ip", "link", "set", "lo", "up"),
        )
        if not all(_ran(*step) for step in steps):
            pytest.skip("this machine joins no network namespaces")
        yield within
    finally:
        _ran("ip", "netns", "del", name)
        _ran("ip", "link", "del", ours)


def certified(folder: Path, address: str) -> tuple[Path, Path]:
    """Write a certificate for an address, which is its own authority, and its key; return both files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleet of a test")])
    known = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    signed = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(LONG_AGO).not_valid_after(LONG_AGO + dt.timedelta(days=9_999))
        .add_extension(known, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    files = folder / "fleet.pem", folder / "fleet.key"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files[1].write_bytes(key.private_bytes(*form))
    return files


@contextmanager
def program(log: Path, words: tuple[str, ...], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block, which asks it to stop."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, env={"PATH": os.defpath, **environment}, cwd=log.parent, stdout=output, stderr=output
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.slow("a fleet of its own, with a pod and commands in another network")
def test_a_pod_that_knows_the_public_address_alone_serves_a_run_with_a_file(
    memory_path: Path, until: Until
) -> None:
    ids = SystemIds()
    name = f"pf{ids.token()[:6].lower().replace('-', 'x').replace('_', 'y')}"
    net = ids.fraction()
    first = f"10.{200 + int(net * 50)}.{int(net * 5_000) % 250}."
    here, there = f"{first}1", f"{first}2"
    with ExitStack() as stack:
        within = stack.enter_context(another_network(name, here, there))
        certificate, private_key = certified(memory_path, here)
        port, public = choose(ids), choose(ids)
        url, data = f"https://{here}:{public}", memory_path / "data"
        options = ("up", "--data", str(data), "--port", str(port), "--workers", "0", "--public", url)
        tls = ("--listen", f"{here}:{public}", "--certificate", str(certificate))
        home = {"HOME": str(memory_path)}
        up_log, pod_log = memory_path / "up.log", memory_path / "pod.log"
        up = stack.enter_context(
            program(
                up_log, (sys.executable, *PROGRAM, *options, *tls, "--private-key", str(private_key)), **home
            )
        )
        until(lambda: "ready http" in up_log.read_text() or up.poll() is not None, START_S)
        assert up.poll() is None, up_log.read_text()
        key = json.loads((data / "access.json").read_text())["api_key"]
        access = {**home, "CONTROL_PLANE_URL": url, "PODFLEET_API_KEY": key}

        def command(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*within, sys.executable, *PROGRAM, *words],
                env={"PATH": os.defpath, **access, **more}, cwd=memory_path,
                capture_output=True, text=True, check=False,
            )  # fmt: skip

        trusting = {"SSL_CERT_FILE": str(certificate)}
        refused = command("pods", "list")
        assert refused.returncode != 0, "the authority is nobody's that this machine knows"
        pod = (*within, sys.executable, "-m", "pod_worker", "--mode", "experiment", "--max-runs", "1")
        worker = stack.enter_context(
            program(
                pod_log,
                (*pod, "--data", str(memory_path / "pod")),
                **access,
                **trusting,
                PODFLEET_POD_ID="far",
            )
        )
        run_id = command("submit", "--kind", "probe", "-p", "seconds=0", **trusting).stdout.strip()
        assert run_id
        until(lambda: worker.poll() is not None, START_S)
        assert worker.returncode == 0, pod_log.read_text()
        shown = json.loads(command("runs", "show", run_id, "--json", **trusting).stdout)
        assert (shown["status"], shown["claimedBy"].partition("/")[0]) == ("COMPLETED", "far")
        got = command("artifacts", "get", run_id, "--output", str(memory_path / "got"), **trusting)
        assert got.returncode == 0, got.stderr
        files = [each for each in (memory_path / "got").rglob("*") if each.is_file()]
        assert any(each.stat().st_size for each in files)
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        assert not _ran(*within, sys.executable, "-c", code), "only the public address is reachable there"
        with socket.create_connection(("127.0.0.1", port), 2):
            pass
