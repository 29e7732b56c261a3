"""Secrets: encrypted and bound to their names, named by those who may, and set within bounds."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from control_plane.access.auth import Forbidden
from control_plane.access.secrets.encryption import Cipher, Sealed, key_id
from control_plane.access.secrets.naming import require_named, require_names
from control_plane.access.secrets.vault import Vault, WantedSecret
from control_plane.config import read_settings
from control_plane.runs.submission import Submission, check, run_fields
from control_plane.server.api.access.secrets import SecretBody
from control_plane.store.access.secrets import Secrets
from events.answers.access.secrets import SecretValues
from events.delivery.pipe import Start
from events.runtime.errors import ConfigError, Conflict, NotFound, Rejected, Transient
from events.text.secret_names import (
    OF_RUN_MAX,
    RESERVED,
    SECRETS_MAX,
    VALUE_BYTES_MAX,
    fault_of_name,
    fault_of_value,
)
from tests.unit.control_plane.test_config import GOOD

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
VALUE = "marker-of-a-secret"
STORED: Mapping[str, Any] = {"_id": "API", "kinds": [], "keys": []}


def test_a_value_is_decrypted_by_its_name_in_its_fleet_alone() -> None:
    cipher = Cipher.of("fleet", [NEW])
    sealed = cipher.seal("API", VALUE)
    assert VALUE.encode() not in sealed.data
    assert cipher.open("API", sealed) == VALUE
    assert cipher.open("OTHER", sealed) is None
    assert Cipher.of("other fleet", [NEW]).open("API", sealed) is None


@pytest.mark.parametrize("place", [0, 11, 12, -1])
def test_a_value_that_was_changed_is_none(place: int) -> None:
    cipher = Cipher.of("fleet", [NEW])
    sealed = cipher.seal("API", VALUE)
    changed = bytearray(sealed.data)
    changed[place] ^= 1
    assert cipher.open("API", Sealed(sealed.key_id, bytes(changed))) is None


@pytest.mark.parametrize("data", [b"", b"x", bytes(12), bytes(27)])
def test_a_value_that_is_too_short_is_none(data: bytes) -> None:
    assert Cipher.of("fleet", [NEW]).open("API", Sealed(key_id(NEW), data)) is None


def test_a_value_is_never_encrypted_twice_in_the_same_way() -> None:
    cipher = Cipher.of("fleet", [NEW])
    assert cipher.seal("API", VALUE).data != cipher.seal("API", VALUE).data


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    sealed = Cipher.of("fleet", [OLD]).seal("API", VALUE)
    both = Cipher.of("fleet", [NEW, OLD])
    assert both.open("API", sealed) == VALUE
    assert both.seal("API", VALUE).key_id == key_id(NEW)
    assert not Cipher.of("fleet", [NEW]).has(sealed)


def test_without_a_key_nothing_is_encrypted_and_people_are_told_what_to_set() -> None:
    with pytest.raises(Conflict, match="PODFLEET_SECRETS_KEY"):
        Cipher.of("fleet", []).seal("API", VALUE)


@pytest.mark.parametrize(
    "name",
    ["API", "_A", "a1", "A" * 100, "OPENAI_API_KEY", "HF_TOKEN", "PGPASSWORD", "UV_INDEX_OWN_PASSWORD"],
)
def test_a_secret_has_the_name_of_a_variable(name: str) -> None:
    assert fault_of_name(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "", "1A", "A-B", "A B", "A=B", "Ä", "A" * 101, "A\n", "PATH", "Path", "LD_PRELOAD", "ld_preload",
        "PYTHONPATH", "PODFLEET_API_KEY", "MONGODB_URL", "MINIO_SECRET_KEY", "https_proxy", "HTTPS_PROXY",
        "SSL_CERT_FILE", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "BASH_ENV", "GIT_SSH_COMMAND", "HOME",
        "CUDA_VISIBLE_DEVICES", "SSLKEYLOGFILE", "TMPDIR", "HF_ENDPOINT", "AWS_SECRET_ACCESS_KEY",
        "aws_profile", "AWS_CA_BUNDLE", "Curl_Ca_Bundle", "REQUESTS_CA_BUNDLE", "MONGO", "mongo_uri",
        "CONTROL_PLANE_KEY", "Ld_Preload", "no_proxy", "FTP_PROXY", "Ssl_Key", "Git_Askpass",
        "PATH\n", "PATH\u200b", "P\u0410TH",
        "\uff30ATH", "\u017fSL_KEY", "HOM\u0117", "\u212aEY", "\ud800", "PATH\0", "LD\uff3fPRELOAD",
        "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR", "CC", "LIBRARY_PATH", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH",
        "XLA_FLAGS", "OLLAMA_HOST", "MPLBACKEND", "SHELLOPTS", "NETRC", "TEXMFCNF", "NODE_OPTIONS",
        "JAVA_TOOL_OPTIONS", "PYTORCH_JIT", "MAVEN_OPTS", "UV_INDEX", "UV_INDEX_URL", "UV_PYTHON",
    ],
)  # fmt: skip
def test_a_secret_takes_no_place_of_a_variable_that_decides_what_a_process_does(name: str) -> None:
    assert fault_of_name(name)
    with pytest.raises(Rejected) as refused:
        require_names([name])
    assert refused.value.code == "bad_secret_name"


def test_a_run_names_each_secret_once_and_so_many_at_most() -> None:
    assert require_names(["B", "A", "B"]) == ("A", "B")
    with pytest.raises(Rejected):
        require_names(f"A{number}" for number in range(OF_RUN_MAX + 1))


@pytest.mark.parametrize("value", ["x", "ä" * (VALUE_BYTES_MAX // 2), "two\nlines"])
def test_a_value_is_text(value: str) -> None:
    assert fault_of_value(value) is None


@pytest.mark.parametrize("value", ["", "x" * (VALUE_BYTES_MAX + 1), "ä" * VALUE_BYTES_MAX, "a\0b", "\ud800"])
def test_a_value_has_bounds_and_its_refusal_does_not_quote_it(value: str) -> None:
    fault = fault_of_value(value)
    assert fault
    assert value == "" or value not in fault
    with pytest.raises(ValueError, match="value") as refused:
        SecretBody.model_validate({"value": value})
    assert value == "" or value not in [each["msg"] for each in cast(Any, refused.value).errors()]


@pytest.mark.parametrize(
    ("lists", "kind", "key", "error"),
    [
        ({}, "probe", None, None),
        ({"kinds": ["probe"]}, "probe", None, None),
        ({"kinds": ["probe"]}, "experiment", "ann", Forbidden),
        ({"keys": ["ann"]}, "probe", "ann", None),
        ({"keys": ["ann"]}, "probe", "bob", Forbidden),
        ({"keys": ["ann"]}, "probe", "root", Forbidden),
        ({"keys": ["ann"]}, "probe", None, Forbidden),
    ],
)
def test_the_lists_of_a_secret_hold_for_everybody(
    lists: dict[str, list[str]], kind: str, key: str | None, error: type[Exception] | None
) -> None:
    found = [{**STORED, **lists}]
    if error is None:
        require_named(["API"], found, kind=kind, named_by=key)
        return
    with pytest.raises(error):
        require_named(["API"], found, kind=kind, named_by=key)


def test_an_unknown_secret_is_refused_by_its_name() -> None:
    with pytest.raises(Rejected, match="OTHER") as refused:
        require_named(["API", "OTHER"], [STORED], kind="probe", named_by=None)
    assert refused.value.code == "unknown_secret"


def test_a_submission_without_secrets_is_what_it_was_before_there_were_any() -> None:
    plain, named = Submission(kind="probe", spec={}, by="me"), ["B", "A"]
    order = check(Submission(kind="probe", spec={}, by="me", secrets=named))
    assert "secrets" not in run_fields(check(plain))
    assert run_fields(order)["secrets"] == ["A", "B"]
    assert check(plain).digest != order.digest
    assert order.digest == check(Submission(kind="probe", spec={}, by="me", secrets=named[::-1])).digest


def text_of(*keys: bytes) -> str:
    return ",".join(base64.b64encode(each).decode() for each in keys)


def test_keys_are_read_from_the_environment_or_a_file_and_printed_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(text_of(NEW, OLD).replace(",", "\n") + "\n")
    for values in ({"PODFLEET_SECRETS_KEY": text_of(NEW, OLD)}, {"PODFLEET_SECRETS_KEY_FILE": str(file)}):
        settings = read_settings({**GOOD, **values}, host="127.0.0.1", port=8700)
        assert settings.secrets_keys == (NEW, OLD)
        assert {text_of(NEW), text_of(OLD)} <= set(settings.secrets)
        assert text_of(NEW) not in repr(settings)
        assert repr(NEW) not in repr(settings)


@pytest.mark.parametrize(
    "text", ["short", text_of(b"x" * 31), text_of(b"x" * 33), f"{text_of(NEW)},no key", "*" * 44]
)
def test_what_is_no_key_is_a_problem_that_does_not_quote_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    for values in ({"PODFLEET_SECRETS_KEY": text}, {"PODFLEET_SECRETS_KEY_FILE": str(file)}):
        with pytest.raises(ConfigError, match="openssl rand -base64 32") as refused:
            read_settings({**GOOD, **values}, host="127.0.0.1", port=8700)
        assert text not in refused.value.message


@pytest.mark.parametrize("wrong", ["both", "none", "empty"])
def test_a_file_that_cannot_serve_is_a_problem(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    values = {"PODFLEET_SECRETS_KEY_FILE": str(file)}
    if wrong != "none":
        file.write_text(text_of(NEW) if wrong == "both" else "")
    if wrong == "both":
        values["PODFLEET_SECRETS_KEY"] = text_of(NEW)
    with pytest.raises(ConfigError, match="PODFLEET_SECRETS_KEY_FILE"):
        read_settings({**GOOD, **values}, host="127.0.0.1", port=8700)


@dataclass
class Store:
    """The store of secrets, in memory."""

    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_full: bool = False

    async def has_room(self, name: str, most: int) -> bool:
        assert most == SECRETS_MAX
        return not self.is_full

    async def put(self, name: str, stored: dict[str, Any], lists: Mapping[str, Any]) -> dict[str, Any]:
        before = self.kept.get(name, {})
        chosen = {each: before.get(each, []) if got is None else got for each, got in lists.items()}
        self.kept[name] = {"_id": name, **stored, **chosen}
        return self.kept[name]

    async def of_names(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return [self.kept[name] for name in names if name in self.kept]

    async def of_other_keys(self, current: str, *, after: Sequence[str], limit: int) -> list[dict[str, Any]]:
        wanted = (each for each in self.kept.values() if each["keyId"] != current)
        return [dict(each) for each in wanted if each["_id"] not in after][:limit]

    async def reseal(self, name: str, old: bytes, new: bytes, current: str) -> int:
        if self.kept[name]["sealed"] != old:
            return 0
        self.kept[name] |= {"sealed": new, "keyId": current}
        return 1

    async def delete(self, name: str) -> bool:
        return self.kept.pop(name, None) is not None


def vault_of(store: Store, *keys: bytes) -> Vault:
    return Vault(cast(Secrets, store), Cipher.of("fleet", keys))


def test_each_reserved_name_is_refused_in_any_case_with_what_it_steers() -> None:
    for steers, names in RESERVED.items():
        for name in names:
            for text in (
                name.replace("*", "X"),
                name.replace("*", "").lower(),
                name.replace("*", "x_9").title(),
            ):
                fault = fault_of_name(text)
                assert fault == f"{text} is a variable that a secret may not set: it decides {steers}"


async def test_what_was_set_under_a_name_that_is_reserved_now_is_handed_to_nobody() -> None:
    store = Store()
    vault = vault_of(store, NEW)
    sealed = vault.cipher.seal("AWS_PROFILE", VALUE)
    await store.put("AWS_PROFILE", {"sealed": sealed.data, "keyId": sealed.key_id}, {"kinds": [], "keys": []})
    assert (await vault.hand(["AWS_PROFILE"], "probe")).missing == ["AWS_PROFILE"]


async def test_a_secret_is_handed_to_a_run_of_its_kinds_and_missing_for_any_other() -> None:
    store = Store()
    vault = vault_of(store, NEW)
    await vault.set(WantedSecret(name="API", value=VALUE, by="ann", kinds=["probe", "probe"]))
    assert VALUE not in str(store.kept)
    assert (await vault.hand(["API", "GONE"], "probe")).values == {"API": VALUE}
    assert (await vault.hand(["API", "GONE"], "probe")).missing == ["GONE"]
    assert (await vault.hand(["API"], "experiment")).missing == ["API"]
    store.kept["API"]["sealed"] = bytes(40)
    assert (await vault.hand(["API"], "probe")).missing == ["API"]


async def test_a_key_that_is_not_here_is_waited_for() -> None:
    store = Store()
    await vault_of(store, OLD).set(WantedSecret(name="API", value=VALUE, by="ann"))
    for vault in (vault_of(store, NEW), vault_of(store)):
        with pytest.raises(Transient, match=key_id(OLD)):
            await vault.hand(["API"], "probe")


async def test_all_are_encrypted_with_the_new_key_but_those_that_nobody_can_decrypt() -> None:
    store, lost = Store(), bytes(32)
    for number in range(120):
        await vault_of(store, OLD).set(WantedSecret(name=f"A{number}", value=VALUE, by="ann"))
    await vault_of(store, lost).set(WantedSecret(name="A1", value=VALUE, by="ann"))
    done = await vault_of(store, NEW, OLD).rotate()
    assert (done.key_id, done.count, done.unreadable) == (key_id(NEW), 119, ["A1"])
    assert (await vault_of(store, NEW).hand(["A0", "A119"], "probe")).values == {"A0": VALUE, "A119": VALUE}
    again = await vault_of(store, NEW).rotate()
    assert (again.count, again.unreadable) == (0, ["A1"])


async def test_there_are_so_many_secrets_at_most_and_each_is_removed_once() -> None:
    store = Store()
    vault = vault_of(store, NEW)
    await vault.set(WantedSecret(name="API", value=VALUE, by="ann", keys=["ann"]))
    await vault.set(WantedSecret(name="API", value="another value", by="bob"))
    assert store.kept["API"]["keys"] == ["ann"], "a new value widens no list"
    store.is_full = True
    with pytest.raises(Conflict):
        await vault.set(WantedSecret(name="MORE", value=VALUE, by="ann"))
    await vault.remove("API")
    with pytest.raises(NotFound):
        await vault.remove("API")


def test_no_value_is_in_what_a_program_prints_of_its_objects() -> None:
    order = Start("r", 1, "probe", {}, "/w", "/w/r", secrets={"API": VALUE})
    cipher = Cipher.of("fleet", [NEW])
    shown = [
        order, SecretValues(values={"API": VALUE}, missing=[]), cipher.seal("API", VALUE), cipher,
        WantedSecret(name="API", value=VALUE, by="ann"), SecretBody(value=VALUE),
    ]  # fmt: skip
    assert VALUE not in repr(shown)
