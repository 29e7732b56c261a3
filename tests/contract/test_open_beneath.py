"""Both ways to open a file beneath a folder refuse the same, and neither ever leaves the folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.files import open_beneath
from events.files.open_beneath import (
    Opener,
    by_kernel,
    by_walk,
    copy_beneath,
    place_beneath,
    read_beneath,
    write_beneath,
)
from events.files.paths import BadPath, RunPath

READ = os.O_RDONLY | os.O_CLOEXEC
WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC

# Every name below the folder `inside`; `outside` lies beside it.
HOSTILE = (
    "../outside/secret", "a/../../outside/secret", "a/../../../../../../../../etc/passwd", "/etc/passwd",
    "//etc/passwd", "..", "a/..//../outside/secret", "to_secret", "to_outside/secret", "to_outside/new",
    "absolute", "absolute/secret", "a/up/outside/secret", "dangling", "to_plain", "to_a/plain", "chain",
    "loop", "loop/x", "magic/etc/passwd", "proc/self/root/etc/passwd", "plain/x", "missing/x",
    "a/plain/../../../outside/secret", "./../outside/secret",
)  # fmt: skip
LEGAL = ("plain", "a/plain", "a/b/c/deep")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder, outside = tmp_path / "inside", tmp_path / "outside"
    (folder / "a" / "b" / "c").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for name in LEGAL:
        (folder / name).write_text("plain")
    links = {
        "to_secret": "../outside/secret", "to_outside": "../outside", "absolute": str(outside),
        "a/up": "../..", "dangling": "../outside/new", "to_plain": "plain", "to_a": "a", "chain": "to_plain",
        "loop": "loop", "magic": "/proc/self/root", "proc": "/proc",
    }  # fmt: skip
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return folder


@pytest.fixture(params=[by_kernel, by_walk])
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """One of both ways, which the functions with names use as well."""
    found: Opener = request.param
    here = os.open("/", os.O_RDONLY)
    try:
        os.close(found(here, "tmp", os.O_RDONLY | os.O_DIRECTORY, 0))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            pytest.skip("this kernel, or a filter of system calls, has no openat2; the walk is used here")
        raise
    finally:
        os.close(here)
    monkeypatch.setattr(open_beneath, "opener", lambda: found)
    return found


@pytest.mark.parametrize("path", HOSTILE)
def test_what_leads_out_or_goes_over_a_link_is_refused_and_makes_nothing(
    inside: Path, opener: Opener, path: str
) -> None:
    root = os.open(inside, os.O_RDONLY)
    before = sorted(inside.parent.rglob("*"))
    try:
        for flags in (READ, WRITE):
            with pytest.raises(OSError, match=r".") as refused:
                os.close(opener(root, path, flags, 0o600))
            assert refused.value.errno != errno.EINVAL, "refused for what it says, not for how it was asked"
    finally:
        os.close(root)
    assert sorted(inside.parent.rglob("*")) == before


def test_a_text_that_ends_early_is_not_cut_short(inside: Path, opener: Opener) -> None:
    root = os.open(inside, os.O_RDONLY)
    try:
        with pytest.raises(ValueError, match="null"):
            opener(root, "plain\x00/x", READ, 0)
    finally:
        os.close(root)


@pytest.mark.parametrize("path", LEGAL)
def test_a_plain_file_is_opened(inside: Path, opener: Opener, path: str) -> None:
    with read_beneath(inside, RunPath(path)) as file:
        assert file.read() == b"plain"
    with write_beneath(inside, RunPath(path)) as file:
        file.write(b"new")
    assert (inside / path).read_text() == "new"


def test_what_stands_in_the_place_of_a_new_file_is_replaced_and_never_written_through(
    inside: Path, opener: Opener
) -> None:
    secret = inside.parent / "outside" / "secret"
    os.link(secret, inside / "hard")
    for name in ("to_secret", "hard", "dangling"):
        with write_beneath(inside, RunPath(name)) as file:
            file.write(b"mine")
        assert not (inside / name).is_symlink()
    assert place_beneath(inside, RunPath("absolute")) == inside / "absolute"
    assert secret.read_text() == "secret"
    assert sorted(each.name for each in secret.parent.iterdir()) == ["secret"]


@pytest.mark.parametrize("path", ["to_outside/new", "a/up/outside/new", "absolute/deep/new", "plain/new"])
@pytest.mark.parametrize("make", [write_beneath, place_beneath])
def test_folders_are_made_only_inside(
    inside: Path, opener: Opener, make: Callable[[Path, RunPath], object], path: str
) -> None:
    before = sorted(inside.parent.rglob("*"))
    with pytest.raises(OSError, match=r"."):
        make(inside, RunPath(path))
    assert sorted(inside.parent.rglob("*")) == before


def test_what_is_no_plain_file_is_not_read(inside: Path, opener: Opener) -> None:
    os.mkfifo(inside / "pipe")
    for name in ("pipe", "a", "to_plain"):
        with pytest.raises(OSError, match=r"."):
            read_beneath(inside, RunPath(name))


def test_a_copy_takes_no_link(inside: Path, opener: Opener, tmp_path: Path) -> None:
    copy_beneath(inside / "plain", tmp_path / "paper", RunPath("nodes/one.png"))
    assert (tmp_path / "paper" / "nodes" / "one.png").read_text() == "plain"
    with pytest.raises(OSError, match=r"."):
        copy_beneath(inside / "to_secret", tmp_path / "paper", RunPath("two.png"))


NASTY = (
    "..",
    ".",
    "",
    "a",
    "b",
    "to_outside",
    "absolute",
    "up",
    "secret",
    "outside",
    "proc",
    "~",
    "\x00",
    "\\",
)
PARTS = st.one_of(st.sampled_from(NASTY), st.text(max_size=4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(parts=st.lists(PARTS, min_size=1, max_size=6), absolute=st.booleans())
def test_no_text_writes_outside(inside: Path, opener: Opener, parts: list[str], absolute: bool) -> None:
    text = ("/" if absolute else "") + "/".join(parts)
    outside = inside.parent / "outside"
    try:
        path = RunPath(text)
        with write_beneath(inside, path) as file:
            file.write(b"mine")
            assert Path(os.readlink(f"/proc/self/fd/{file.fileno()}")).is_relative_to(inside.resolve())
    except (BadPath, OSError):
        pass
    assert [each.name for each in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    assert sorted(each.name for each in inside.parent.iterdir()) == ["inside", "outside"]
