"""`podfleet config`: the settings of the programs on this machine, each with its source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import typer

from control_plane.config import BUDGETS
from events.kinds.declaring.queues import DEFAULT_MODE
from events.runtime.access import URL_DEFAULT
from events.text.mask import STARS, masked_address
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, field, is_terminal, print_items, say

app = noun("config")

# Every setting that is read, with its default; None: it has none.
KNOWN: Final[Mapping[str, str | None]] = {
    "CONTROL_PLANE_URL": URL_DEFAULT,
    "PODFLEET_API_KEY": None,
    "MONGODB_URL": None,
    "MINIO_ENDPOINT": None,
    "MINIO_ACCESS_KEY": None,
    "MINIO_SECRET_KEY": None,
    "MINIO_BUCKET": "podfleet",
    "MINIO_REGION": "us-east-1",
    "MINIO_SECURE": "false",
    "PODFLEET_SECRETS_KEY": None,
    "PODFLEET_SECRETS_KEY_FILE": None,
    "PODFLEET_BACKUP_PASSPHRASE": None,
    "PODFLEET_BACKUP_PASSPHRASE_FILE": None,
    "PODFLEET_OIDC_ISSUER": None,
    "PODFLEET_OIDC_CLIENT_ID": None,
    "PODFLEET_OIDC_CLIENT_SECRET": None,
    "PODFLEET_OIDC_SCOPES": "openid email offline_access",
    "PODFLEET_OIDC_ROLES": None,
    "PODFLEET_PUBLIC_URL": None,
    "PODFLEET_SMTP_URL": None,
    "PODFLEET_MAIL_FROM": None,
    "PODFLEET_FILES": None,
    "PODFLEET_ORIGINS": None,
    "PODFLEET_MODELS_URL": None,
    **{name: str(default) for name, default in BUDGETS.items()},
    "PODFLEET_SHARE_HALF_LIFE_S": "86400",
    "FORWARDED_ALLOW_IPS": None,
    "PODFLEET_DATA": ".podfleet",
    "PODFLEET_PROJECT": None,
    "WORKER_MODE": DEFAULT_MODE,
    "RUNPOD_POD_ID": None,
    "PODFLEET_POD_ID": None,
    "CONTAINER_ID": None,
    "POD_NAME": None,
    "RUNPOD_DC_ID": None,
    "PODFLEET_REGION": None,
    "PODFLEET_ADDRESS": None,
    "PODFLEET_LABELS": None,
    "PODFLEET_GPU_USD_PER_HOUR": None,
    "PODFLEET_SLOTS": None,
    "PODFLEET_STRAY_GPU_USE": "log",
    "PODFLEET_PRICES": None,
    "PODFLEET_ISOLATION": "strict",
    "PODFLEET_JOB_ISOLATION": "user",
    "PODFLEET_ON_LEAVE": "exit",
    "PODFLEET_UPDATE": None,
    "RUNPOD_API_KEY": None,
    "CONTAINER_API_KEY": None,
    "PODFLEET_DATASETS": None,
    "PODFLEET_TREE_CACHE_GIB": "100",
    "PODFLEET_ENVIRONMENT_CACHE_GIB": "50",
    "PODFLEET_JUDGE_SECRET": None,
    "PODFLEET_LITERATURE_URL": None,
    "PODFLEET_HUB_URL": "https://huggingface.co",
    "PODFLEET_PRIVATE_HOSTS": None,
    "PODFLEET_ENGINES": None,
    "PODFLEET_CONTAINERS": None,
    "PODFLEET_ENDPOINTS": None,
    "PODFLEET_SERVICES": None,
    "PODFLEET_STREAM_FLUSH_CHARS": None,
    "PODFLEET_STREAM_FLUSH_SECONDS": None,
    "OPENAI_API_KEY": None,
    "OPENAI_BASE_URL": None,
    "OPENAI_MODEL": None,
    "ANTHROPIC_API_KEY": None,
    "ANTHROPIC_BASE_URL": None,
    "ANTHROPIC_MODEL": None,
    "HTTP_PROXY": None,
    "HTTPS_PROXY": None,
    "NO_PROXY": None,
    "HF_TOKEN": None,
    "HF_HOME": None,
    "HF_HUB_OFFLINE": None,
    "MODEL_PATH": None,
}
PREFIXES: Final = ("PODFLEET_", "MINIO_")  # a name of ours that is not known was misspelt
SECRET: Final = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|PASSPHRASE")

COLUMNS: Final = (
    Column("NAME", field("name"), is_whole=True),
    Column("VALUE", field("value"), is_prose=True),
    Column("FROM", field("from"), is_whole=True),
)


@app.command()
def show(
    as_json: AsJson = False, everything: bool = typer.Option(False, "--all", help="Also what is not set.")
) -> None:
    """Show every setting with where it comes from; secrets are masked."""
    from podfleet.embedded.config import written

    folder = Path.cwd()
    file = folder / ".env"
    rows = settings(os.environ, written(file), str(file))
    shown = [row for row in rows if everything or row["from"] != "–"]
    print_items(shown, COLUMNS, as_json=as_json)
    if is_terminal() and not as_json:
        say(f"\nthe environment wins over {file}" + ("" if file.is_file() else ", which is not there"))


def settings(
    environment: Mapping[str, str], written: Mapping[str, str], file: str
) -> list[dict[str, str | None]]:
    """Return each setting: its name, its value as it may be shown, and where that comes from."""
    ours = [name for name in (*environment, *written) if name.startswith(PREFIXES)]
    rows: list[dict[str, str | None]] = []
    for name in _once((*KNOWN, *sorted(ours))):
        if environment.get(name):
            value, source = environment[name], "environment"
        elif written.get(name):
            value, source = written[name], file
        else:
            default = KNOWN.get(name)
            rows.append({"name": name, "value": default, "from": "default" if default else "–"})
            continue
        known = "" if name in KNOWN else " (nobody reads this name)"
        rows.append({"name": name, "value": masked(name, value), "from": source + known})
    return rows


def masked(name: str, value: str) -> str:
    """Return a value without what is secret in it."""
    return STARS if SECRET.search(name) else masked_address(value)


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
