"""The settings of a control plane: its environment and its command line, checked together."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from dotenv import dotenv_values

from control_plane.model.byte_limits import (
    ARTIFACT_BYTES_DEFAULT,
    EVENT_BYTES_DEFAULT,
    KEY_EVENT_BYTES_DEFAULT,
)
from events.queue.fair.usage import HALF_LIFE_S
from events.runtime.egress_policy import SETTING as PRIVATE_HOSTS
from events.runtime.egress_policy import EgressPolicy, read_egress_policy
from events.runtime.errors import ConfigError

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"0", "false", "no", "off", ""})
PORT_MAX: Final = 65_535
KEY_NEEDED: Final = (
    "there is no key yet, so nobody could do anything: make one with `podfleet keys create NAME --kind admin "
    "--direct`, or set PODFLEET_API_KEY; on a machine of one's own, behind no proxy, say --keyless"
)
EVENT_BYTES: Final = "PODFLEET_EVENT_BYTES_MAX"
KEY_BYTES: Final = "PODFLEET_KEY_EVENT_BYTES_MAX"
ARTIFACT_BYTES: Final = "PODFLEET_ARTIFACT_BYTES_MAX"
SECRETS_KEY: Final = "PODFLEET_SECRETS_KEY"
SECRETS_KEY_FILE: Final = "PODFLEET_SECRETS_KEY_FILE"
SECRETS_KEY_BYTES: Final = 32
SECRETS_KEYS_MAX: Final = 16
SECRETS_FILE_BYTES_MAX: Final = 4096
PASSPHRASE: Final = "PODFLEET_BACKUP_PASSPHRASE"  # noqa: S105 - a name
PASSPHRASE_FILE: Final = "PODFLEET_BACKUP_PASSPHRASE_FILE"  # noqa: S105 - a name
OIDC_ISSUER: Final = "PODFLEET_OIDC_ISSUER"
OIDC_CLIENT_ID: Final = "PODFLEET_OIDC_CLIENT_ID"
OIDC_SCOPES: Final = "PODFLEET_OIDC_SCOPES"
OIDC_ROLES: Final = "PODFLEET_OIDC_ROLES"
OIDC_CLIENT_SECRET: Final = "PODFLEET_OIDC_CLIENT_SECRET"  # noqa: S105 - a name
PUBLIC_URL: Final = "PODFLEET_PUBLIC_URL"
FILES: Final = "PODFLEET_FILES"
THROUGH_US: Final = "control-plane"
FROM_STORAGE: Final = "storage"
OIDC_SCOPES_DEFAULT: Final = "openid email offline_access"
SMTP_URL: Final = "PODFLEET_SMTP_URL"
MAIL_FROM: Final = "PODFLEET_MAIL_FROM"
SMTP_PORTS: Final = {"smtps": 465, "smtp": 587, "smtp+plain": 25}
SHARE_HALF_LIFE: Final = "PODFLEET_SHARE_HALF_LIFE_S"
ROLES: Final = ("viewer", "operator", "admin")
# Each by its setting.
BUDGETS: Final = {
    EVENT_BYTES: EVENT_BYTES_DEFAULT,
    KEY_BYTES: KEY_EVENT_BYTES_DEFAULT,
    ARTIFACT_BYTES: ARTIFACT_BYTES_DEFAULT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where artifacts lie; pods only ever see URLs that were signed with these."""

    endpoint: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    bucket: str
    region: str
    is_secure: bool

    @property
    def origin(self) -> str:
        """The scheme, host and port under which browsers and pods reach the storage."""
        return f"{'https' if self.is_secure else 'http'}://{self.endpoint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """Sign-in by OpenID Connect: the issuer, this client of it, and who gets which role.

    A role belongs to a claim and its value, as `email:ada@example.com`; `*` is everybody.
    """

    issuer: str
    client_id: str
    client_secret: str | None = field(repr=False)
    scopes: str
    public_url: str  # where browsers find this site: the only place to which an issuer sends them back
    roles: tuple[tuple[str, str], ...]

    @property
    def redirect_uri(self) -> str:
        """The address to which the issuer sends a browser back."""
        return f"{self.public_url}/signin/oidc/done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """The server that takes mail of this fleet, and the sender of it.

    `scheme` is `smtps` (TLS from the first byte), `smtp` (STARTTLS, or nothing is sent) or `smtp+plain`.
    """

    scheme: str
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A control plane's settings."""

    mongodb_url: str = field(repr=False)
    api_key: str | None = field(repr=False)
    storage: Storage
    host: str
    port: int
    keyless: bool = False  # whether this machine needs no key, until there is a stored one
    event_bytes_max: int = EVENT_BYTES_DEFAULT  # of one attempt
    key_bytes_max: int = KEY_EVENT_BYTES_DEFAULT  # of events, of what is claimed with one key, in an hour
    artifact_bytes_max: int = ARTIFACT_BYTES_DEFAULT  # of one attempt
    origins: tuple[str, ...] = ()  # whose pages may ask us through a browser, with a key of their own
    secrets_keys: tuple[bytes, ...] = field(default=(), repr=False)  # the first encrypts, all decrypt
    egress: EgressPolicy = field(default_factory=EgressPolicy)  # where listings of models may be
    models_url: str = ""  # of an API like OpenAI's, whose listing of models is read at the start
    oidc: Oidc | None = None  # None: nobody signs in by an issuer
    public_url: str | None = None  # where others find this control plane; without a slash at its end
    are_files_passed_on: bool = False  # whether pods and browsers have files through the control plane
    share_half_life_s: float = HALF_LIFE_S  # after which what a project used counts half
    mail: Mail | None = None  # None: no mail is sent
    proxies: str = ""  # whose word on where a request comes from is taken: addresses and networks, or *

    @property
    def needs_stored_key(self) -> bool:
        """Say whether only a stored key could open anything."""
        return not (self.api_key or self.keyless)

    @property
    def site_url(self) -> str:
        """Where browsers find the pages, for links in what leaves the fleet."""
        return self.public_url or f"http://{self.host}:{self.port}"

    @property
    def sign_in_url(self) -> str | None:
        """The public address where browsers stay signed in: by https, or on this machine."""
        return self.public_url if self.public_url and _is_site(self.public_url) else None

    @property
    def files_url(self) -> str | None:
        """The address through which files go; None where they go between the storage and who has them."""
        return self.public_url if self.are_files_passed_on else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that may appear nowhere."""
        client = self.oidc and self.oidc.client_secret
        values = (
            *(self.mongodb_url, self.api_key, client),
            *(self.storage.access_key, self.storage.secret_key, self.mail and self.mail.password),
        )
        keys = (base64.b64encode(each).decode() for each in self.secrets_keys)
        return (*(value for value in values if value), *keys)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment on top of the folder's `.env` file."""
    from_file = {name: value for name, value in dotenv_values(folder / ".env").items() if value is not None}
    return {**from_file, **os.environ}


def read_storage(values: Mapping[str, str]) -> Storage:
    """Return the settings of the storage, whose endpoint and keys are there."""
    return Storage(
        endpoint=values["MINIO_ENDPOINT"],
        access_key=values["MINIO_ACCESS_KEY"],
        secret_key=values["MINIO_SECRET_KEY"],
        bucket=values.get("MINIO_BUCKET") or "podfleet",
        region=values.get("MINIO_REGION") or "us-east-1",
        is_secure=values.get("MINIO_SECURE", "").lower() in TRUE,
    )


def _models_url(values: Mapping[str, str], problems: list[str]) -> str:
    """Return the address of the API whose models are listed, if there is one; add what is wrong with it."""
    found = values.get("PODFLEET_MODELS_URL", "").strip()
    if found and not is_address(found):
        problems.append(f"PODFLEET_MODELS_URL is {found!r}; it is like https://api.example.com/v1")
    return found


def _egress(values: Mapping[str, str], problems: list[str]) -> EgressPolicy:
    """Return where listings of models may be; add what is wrong with that."""
    try:
        return read_egress_policy(values.get(PRIVATE_HOSTS, ""))
    except ValueError as error:
        problems.append(str(error))
        return EgressPolicy()


def _half_life_s(values: Mapping[str, str], problems: list[str]) -> float:
    """Return after how many seconds what a project used counts half; add what is wrong with that."""
    found = values.get(SHARE_HALF_LIFE) or f"{HALF_LIFE_S:.0f}"
    if re.fullmatch("[1-9][0-9]{1,7}", found):
        return float(found)
    problems.append(f"{SHARE_HALF_LIFE} is {found!r}; it is a number of seconds, 10 at least")
    return HALF_LIFE_S


def read_settings(values: Mapping[str, str], *, host: str, port: int, keyless: bool = False) -> Settings:
    """Return the settings. Raises `ConfigError` that lists every problem.

    Whether there is a key is not known before the stored ones can be read: `key_needed`.
    """
    required = {
        "MONGODB_URL": "the connection string of a MongoDB replica set",
        "MINIO_ENDPOINT": "host:port of the object storage",
        "MINIO_ACCESS_KEY": "the object storage's access key",
        "MINIO_SECRET_KEY": "the object storage's secret key",
    }
    problems = [f"{name} is not set; it is {what}" for name, what in required.items() if not values.get(name)]
    if problems:
        problems.append("`podfleet up` starts everything on one machine and sets them")
    secure = values.get("MINIO_SECURE", "").lower()
    if secure not in TRUE | FALSE:
        problems.append(f"MINIO_SECURE is {secure!r}; accepted values: true, false")
    if "://" in values.get("MINIO_ENDPOINT", ""):
        problems.append("MINIO_ENDPOINT is host:port without a scheme; MINIO_SECURE chooses https")
    origins = tuple(each.strip() for each in values.get("PODFLEET_ORIGINS", "").split(",") if each.strip())
    problems += [
        f"PODFLEET_ORIGINS names {each!r}; an origin is like https://host or https://host:8443, and * is none"
        for each in origins
        if not is_origin(each)
    ]
    budgets = {name: values.get(name) or str(default) for name, default in BUDGETS.items()}
    problems += [
        f"{name} is {value!r}; it is a number of bytes, 100000 at least"
        for name, value in budgets.items()
        if not re.fullmatch("[1-9][0-9]{5,14}", value)
    ]
    secrets_keys = _secrets_keys(values, problems)
    oidc = _oidc(values, problems)
    if oidc is not None and not (values.get(SECRETS_KEY) or values.get(SECRETS_KEY_FILE)):
        problems.append(f"{OIDC_ISSUER} needs {SECRETS_KEY_FILE}: the tokens of users are kept encrypted")
    egress = _egress(values, problems)
    public_url, are_files_passed_on = _public(values, problems)
    models_url, half_life_s = _models_url(values, problems), _half_life_s(values, problems)
    mail = _mail(values, problems)
    if not 0 < port <= PORT_MAX:
        problems.append(f"--port is {port}; it has to be from 1 to {PORT_MAX}")
    problems += _keyless_problems(host, public_url) if keyless else []
    if problems and not keyless and not values.get("PODFLEET_API_KEY"):
        problems.append(KEY_NEEDED)
    if problems:
        raise ConfigError(problems)
    return Settings(
        mongodb_url=values["MONGODB_URL"],
        api_key=values.get("PODFLEET_API_KEY") or None,
        storage=read_storage(values),
        host=host,
        port=port,
        keyless=keyless,
        origins=origins,
        event_bytes_max=int(budgets[EVENT_BYTES]),
        key_bytes_max=int(budgets[KEY_BYTES]),
        artifact_bytes_max=int(budgets[ARTIFACT_BYTES]),
        secrets_keys=secrets_keys,
        egress=egress,
        models_url=models_url,
        oidc=oidc,
        mail=mail,
        proxies=values.get("FORWARDED_ALLOW_IPS", ""),
        share_half_life_s=half_life_s,
        public_url=public_url,
        are_files_passed_on=are_files_passed_on,
    )


def _mail(values: Mapping[str, str], problems: list[str]) -> Mail | None:
    """Return the settings of mail; None where no server is set."""
    url, sender = values.get(SMTP_URL, "").strip(), values.get(MAIL_FROM, "").strip()
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port or SMTP_PORTS.get(parts.scheme, 0)
    except ValueError:
        parts, port = urlsplit(""), 0
    is_plain = not (parts.path.strip("/") or parts.query or parts.fragment)
    if not (parts.scheme in SMTP_PORTS and parts.hostname and port and is_plain):
        problems.append(f"{SMTP_URL} is like smtps://user:password@mail.example, smtp:// or smtp+plain://")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme == "smtp+plain" and (user or password):
        problems.append(f"{SMTP_URL}: a password is sent by smtp:// or smtps:// only")
    if not re.fullmatch(r"[A-Za-z0-9._+=-]+@[A-Za-z0-9.-]+\Z", sender):
        problems.append(f"{MAIL_FROM} is {sender!r}; with {SMTP_URL} it is like podfleet@example.com")
    return Mail(
        scheme=parts.scheme, host=parts.hostname or "", port=port, user=user, password=password, sender=sender
    )


def _keyless_problems(host: str, public_url: str | None) -> Iterator[str]:
    """Yield why a control plane cannot do without keys."""
    if host not in LOOPBACK:
        yield (
            f"--keyless is for a machine of one's own, and --host {host} can be reached from other machines: "
            "leave --keyless away, and make a key with `podfleet keys create NAME --kind admin --direct`"
        )
    if public_url is not None and urlsplit(public_url).hostname not in LOOPBACK:
        yield f"--keyless is for a machine of one's own, and {PUBLIC_URL} is for others: leave one away"


def _public(values: Mapping[str, str], problems: list[str]) -> tuple[str | None, bool]:
    """Return the public address, if there is one, and whether files go through it."""
    found = values.get(PUBLIC_URL, "").rstrip("/")
    if found and not is_origin(found):
        problems.append(
            f"{PUBLIC_URL} is {found!r}; it is like https://fleet.example or http://10.0.0.7:8700"
        )
    files = values.get(FILES, "").strip() or (THROUGH_US if found else FROM_STORAGE)
    if files not in (THROUGH_US, FROM_STORAGE):
        problems.append(f"{FILES} is {files!r}; accepted values: {THROUGH_US}, {FROM_STORAGE}")
    elif files == THROUGH_US and not found:
        problems.append(f"{FILES}={THROUGH_US} needs {PUBLIC_URL}, the address through which files go")
    return found or None, files == THROUGH_US


def _oidc(values: Mapping[str, str], problems: list[str]) -> Oidc | None:
    """Return the settings of sign-in by an issuer; None where no issuer is set."""
    issuer = values.get(OIDC_ISSUER, "").strip()
    if not issuer:
        return None
    client_id = values.get(OIDC_CLIENT_ID, "").strip()
    scopes = " ".join((values.get(OIDC_SCOPES) or OIDC_SCOPES_DEFAULT).split())
    public_url = values.get(PUBLIC_URL, "").rstrip("/")
    if not _is_site(issuer):
        problems.append(f"{OIDC_ISSUER} is {issuer!r}; it is like https://login.example, without a query")
    if not client_id:
        problems.append(f"{OIDC_CLIENT_ID} is not set; the issuer names it when the client is registered")
    if "openid" not in scopes.split():
        problems.append(f"{OIDC_SCOPES} is {scopes!r}; it needs openid")
    if not is_origin(public_url) or not _is_site(public_url):
        problems.append(f"{PUBLIC_URL} is {public_url!r}; with an issuer it is like https://fleet.example")
    return Oidc(
        issuer=issuer,
        client_id=client_id,
        client_secret=values.get(OIDC_CLIENT_SECRET) or None,
        scopes=scopes,
        public_url=public_url,
        roles=_roles(values.get(OIDC_ROLES, ""), problems),
    )


def _roles(text: str, problems: list[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for entry in filter(None, (each.strip() for each in text.split(","))):
        who, _, role = entry.rpartition("=")
        claim, colon, value = who.strip().partition(":")
        if role.strip() not in ROLES or not (who.strip() == "*" or (claim and colon and value)):
            problems.append(
                f"{OIDC_ROLES} has {entry!r}; an entry is like email:ada@example.com=admin, sub:7=operator, "
                f"groups:research=viewer or *=viewer, with one of the roles {', '.join(ROLES)}"
            )
        found.append((who.strip(), role.strip()))
    return tuple(found)


def _is_site(text: str) -> bool:
    """Say whether it is an address by https, or of this machine, at which a site or an issuer may be."""
    try:
        parts = urlsplit(text)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        is_plain = not (parts.query or parts.fragment or "@" in parts.netloc or " " in text)
        return is_safe and bool(parts.hostname) and is_plain and parts.port != 0
    except ValueError:
        return False


def _secrets_keys(values: Mapping[str, str], problems: list[str]) -> tuple[bytes, ...]:
    """Return the keys of secrets, from the environment or from the file that it names."""
    text, file = values.get(SECRETS_KEY, ""), values.get(SECRETS_KEY_FILE, "")
    if text and file:
        problems.append(f"{SECRETS_KEY} and {SECRETS_KEY_FILE} are both set; leave one of them out")
    if file:
        try:
            with Path(file).open("rb") as opened:
                text = opened.read(SECRETS_FILE_BYTES_MAX).decode("ascii", "replace")
        except OSError as error:
            problems.append(f"{SECRETS_KEY_FILE} names {file}, which cannot be read: {error.strerror}")
            return ()
    written = re.split(r"[\s,]+", text.strip()) if text.strip() else []
    keys = tuple(dict.fromkeys(map(_secrets_key, written)))
    name = SECRETS_KEY_FILE if file else SECRETS_KEY
    if None in keys or len(keys) > SECRETS_KEYS_MAX or (file and not keys):
        problems.append(
            f"{name}: a key is {SECRETS_KEY_BYTES} random bytes in base64, from `openssl rand -base64 32`; "
            f"give 1 to {SECRETS_KEYS_MAX}, separated by commas or line ends, of which the first encrypts"
        )
    return tuple(key for key in keys if key is not None)


def read_passphrase(values: Mapping[str, str]) -> str | None:
    """Return the passphrase of backups, if one is set. Raises `ConfigError`."""
    text, file = values.get(PASSPHRASE, ""), values.get(PASSPHRASE_FILE, "")
    if text and file:
        raise ConfigError([f"{PASSPHRASE} and {PASSPHRASE_FILE} are both set; leave one of them out"])
    if file:
        try:
            with Path(file).open("rb") as opened:
                text = opened.read(SECRETS_FILE_BYTES_MAX).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([f"{PASSPHRASE_FILE} names {file}, which cannot be read: {error}"]) from error
        if not text.strip():
            raise ConfigError([f"{PASSPHRASE_FILE} names {file}, which is empty"])
    return text.strip() or None


def _secrets_key(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return None
    return key if len(key) == SECRETS_KEY_BYTES else None


def is_address(text: str) -> bool:
    """Say whether a text is an address of a server, with scheme and host, and without a user."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def is_origin(text: str) -> bool:
    """Say whether a text is an origin as browsers write it: scheme, host, and an unusual port."""
    try:
        parts = urlsplit(text)
        usual = {"http": 80, "https": 443}.get(parts.scheme, parts.port)
        is_plain = text == f"{parts.scheme}://{parts.netloc}" and "@" not in text
        return is_plain and bool(parts.hostname) and parts.port != usual
    except ValueError:
        return False
