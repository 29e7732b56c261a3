"""The bill of materials of this environment, held against the format's own schema."""

from __future__ import annotations

import json

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from scripts.locked import LOCK, read_lock
from scripts.sbom import bill


def test_the_bill_is_valid_and_names_what_is_locked_with_licence_and_hashes() -> None:
    lock = read_lock(LOCK.read_text())
    made = bill()
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(made)) is None
    assert validator.validate_str(json.dumps(made | {"bomFormat": "ours"})) is not None
    found = {each["name"]: each for each in made["components"]}
    assert {"httpx", "anyio", "torch", "starlette", "pymongo"} <= found.keys()
    assert found.keys() <= lock.keys()
    for name, component in found.items():
        assert component["version"].partition("+")[0] == lock[name].version
        assert component["hashes"], name
        assert component["licenses"] != [{"license": {"name": "unknown"}}], name
    refs = {made["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in found.values())}
    needs = {each["ref"]: set(each["dependsOn"]) for each in made["dependencies"]}
    assert needs.keys() == refs
    assert found["anyio"]["bom-ref"] in needs[found["httpx"]["bom-ref"]]
    assert bill() == made
