"""Which files an environment is made of, and what may not stand in them."""

from __future__ import annotations

import pytest

from events.files.environments import BYTES_MAX, environment_key, read_ingredients
from events.runtime.errors import Rejected

PROJECT = "[project]\nname='own'\nversion='1'\ndependencies=['numpy']\n"


def found(**files: str) -> tuple[str, set[str]] | None:
    contents = {name.replace("__", "/").replace("_", "."): text.encode() for name, text in files.items()}
    made_of = read_ingredients(contents.get)
    return made_of and (made_of.source, set(made_of.files))


def test_a_lock_counts_before_a_project_and_that_before_requirements() -> None:
    assert found() is None
    assert found(requirements_txt="a") == ("requirements", {"requirements.txt"})
    assert found(pyproject_toml="[tool.ruff]\n", requirements_txt="a") == (
        "requirements",
        {"requirements.txt"},
    )
    assert found(pyproject_toml=PROJECT, requirements_txt="a") == ("project", {"pyproject.toml"})
    locked = 'source = { virtual = "." }\nsource = { registry = "https://index.example/simple" }\n'
    assert found(pyproject_toml=PROJECT, uv_lock=locked) == ("lock", {"pyproject.toml", "uv.lock"})
    assert found(
        requirements_txt="-r lists/base.txt\n",
        lists__base_txt="-c more.txt\n",
        lists__more_txt="-r ../requirements.txt",
    ) == ("requirements", {"requirements.txt", "lists/base.txt", "lists/more.txt"})


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy == 1.0 ; python_version < '3'  # why",
        "numpy>=1,<2 --hash=sha256:aa \\\n  --hash=sha256:bb",
        "x[a,b]~=1",
        "torch @ https://index.example/torch.whl",
        "git+https://host.example/x@v1#egg=y",
        "--extra-index-url https://index.example/simple",
        "--index-url=https://index.example/simple",
        "-i https://index.example/simple",
        "--only-binary :all:",
        "--pre",
    ],
)
def test_packages_of_an_index_or_an_address_are_fit(line: str) -> None:
    assert found(requirements_txt=line) == ("requirements", {"requirements.txt"})


@pytest.mark.parametrize(
    "line",
    [
        "-e .",
        "-e /",
        "./x",
        "/abs/x.whl",
        "../x",
        "~/x",
        "x @ file:///a",
        "x @ ./y",
        "file:x",
        "--index-url file:///etc",
        "--index-url /etc",
        "-f /tmp",
        "--find-links=/tmp",
        "-r /etc/passwd",
        "-r ../secret.txt",
        "-r missing.txt",
        "-r https://host.example/list.txt",
        "--config-settings x=y",
        "--no-build-isolation",
        "a b c",
    ],
)
def test_what_lies_in_a_folder_of_the_pod_is_refused(line: str) -> None:
    with pytest.raises(Rejected) as refused:
        found(requirements_txt=f"numpy\n{line}\n")
    assert refused.value.code == "ENVIRONMENT_FAILED"
    assert "line 2" in refused.value.message or "missing.txt" in refused.value.message


@pytest.mark.parametrize(
    ("project", "lock"),
    [
        ("[[[", None),
        (PROJECT.replace("numpy", "x @ file:///tmp/x"), None),
        (PROJECT + "[build-system]\nrequires=['x @ file:///tmp/x']", None),
        (PROJECT + "[tool.uv]\nfind-links=['/tmp']", None),
        (PROJECT + "[tool.uv.sources]\nnumpy={path='lib'}", None),
        (PROJECT + "[[tool.uv.index]]\nurl='file:///tmp'", None),
        (PROJECT, 'source = { registry = "/tmp/wheels" }'),
        (PROJECT, 'source = { editable = "lib" }'),
        (PROJECT, 'wheels = [\n  { path = "/tmp/x.whl" }]'),
        (PROJECT, "x" * (BYTES_MAX + 1)),
    ],
)
def test_a_project_or_lock_that_names_a_folder_is_refused(project: str, lock: str | None) -> None:
    with pytest.raises(Rejected, match=r"pyproject\.toml|uv\.lock"):
        found(pyproject_toml=project, **({} if lock is None else {"uv_lock": lock}))


def test_the_key_is_another_for_other_files_another_python_and_other_indices() -> None:
    def digest(text: str, name: str = "requirements.txt") -> str:
        made_of = read_ingredients({name: text.encode()}.get)
        assert made_of is not None
        return made_of.digest

    keys = {
        environment_key(digest("a"), "3.11", {}, []),
        environment_key(digest("b"), "3.11", {}, []),
        environment_key(digest(PROJECT, "pyproject.toml"), "3.11", {}, []),
        environment_key(digest("a"), "3.12", {}, []),
        environment_key(digest("a"), "3.11", {"UV_INDEX": "https://index.example"}, []),
        environment_key(digest("a"), "3.11", {}, ["--no-index"]),
    }
    assert len(keys) == 6
