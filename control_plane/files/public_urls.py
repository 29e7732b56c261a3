"""The public form of presigned URLs: the same request at the control plane's own address, and back, pure.

Law: a request has a way to the storage only where it has this form, and we signed it. It is for one object of
our bucket, with a method, a query and headers of the lists here. What goes on is written anew from what was
read and verified: nothing of the request's own spelling reaches the storage.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

from control_plane.files import signing
from control_plane.files.object_keys import is_key
from control_plane.model.presentation import IN_PLACE
from events.files.object_sizes import PUT_BYTES_MAX
from events.runtime.errors import Rejected

FOLDER: Final = "/files/"
RAW_FOLDER: Final = FOLDER.encode()
LENGTH: Final = "content-length"
DISPOSITION: Final = "response-content-disposition"
TYPE: Final = "response-content-type"
DOWNLOAD: Final = "application/octet-stream"
QUERY_CHARS_MAX: Final = 8 * 1024  # a name of a file in it has 3 KiB, the rest less than one
SKEW: Final = timedelta(minutes=15)  # what S3 takes of a signature from the future
NEEDED: Final = (
    *("X-Amz-Algorithm", signing.CREDENTIAL, signing.DATE, signing.EXPIRES),
    *(signing.SIGNED_HEADERS, signing.SIGNATURE),
)
QUERY_OF: Final[Mapping[str, frozenset[str]]] = {
    "GET": frozenset({DISPOSITION, TYPE}),
    "PUT": frozenset({"partNumber", "uploadId"}),
}
CONDITIONS: Final = frozenset(
    {"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"}
)
CONTENT: Final = frozenset({LENGTH, "content-type", "content-md5"})
CHECKSUMS: Final = "x-amz-checksum-"
CODE: Final = "bad_file_url"


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that may go on to the storage: its target and headers as they are sent there.

    `shown_as` is the type with which browsers may show the object in place, `disposition` its name there;
    both are what was signed. `length` is the number of bytes of a PUT, 0 of a GET.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    length: int
    shown_as: str
    disposition: str


@dataclass(frozen=True, slots=True)
class PublicFiles:
    """The objects of one bucket under the public address of the control plane, without a slash at its end.

    `host` is the storage's, for which URLs are signed, and `prefix` what their paths have before the key.
    """

    public_url: str
    bucket: str
    host: str
    prefix: str
    is_secure: bool
    access_key: str
    secret_key: str = field(repr=False)

    @classmethod
    def of(
        cls, public_url: str, bucket: str, sample: str, *, access_key: str, secret_key: str
    ) -> PublicFiles:
        """Return the form for a storage, told by a URL that was signed for its object `any`."""
        parts = urlsplit(sample)
        prefix = parts.path.removesuffix("/any")
        is_secure = parts.scheme == "https"
        return cls(public_url, bucket, parts.netloc, prefix, is_secure, access_key, secret_key)

    @property
    def origin(self) -> str:
        """The scheme, host and port of the storage."""
        return f"{'https' if self.is_secure else 'http'}://{self.host}"

    def public(self, url: str) -> str:
        """Return the public form of a presigned URL of the storage."""
        parts = urlsplit(url)
        key = parts.path.removeprefix(self.prefix)
        return f"{self.public_url}{FOLDER}{self.bucket}{key}?{parts.query}"

    def passed(
        self, method: str, path: bytes, query: bytes, headers: Iterable[tuple[bytes, bytes]], now: datetime
    ) -> Passed:
        """Return a request as it goes on to the storage, whose time is `now`. Raises `Rejected`.

        `path` and `query` are as they were sent, percent-encoded.
        """
        if method not in QUERY_OF:
            raise Rejected("bad_method", "a file is read with GET, or put with PUT")
        target = f"{self.prefix}/{quote(self._key(path), safe='/~')}"
        signed = _read_query(method, query)
        sent = _sent_headers(method, headers)
        length = _length(method, sent)
        self._require_signature(method, target, signed, sent)
        _require_time(signed, now)
        shown_as = signed.get(TYPE, DOWNLOAD)
        return Passed(
            method=method,
            target=f"{target}?{signing.query_text(signed)}",
            headers={**sent, "host": self.host},
            length=length,
            shown_as=shown_as if shown_as in IN_PLACE else DOWNLOAD,
            disposition=signed.get(DISPOSITION, "attachment"),
        )

    def _key(self, path: bytes) -> str:
        """Return the key that a path names: decoded once, and no way out of the bucket."""
        folder = f"{FOLDER}{self.bucket}/".encode()
        try:
            key = unquote_to_bytes(path.removeprefix(folder)).decode()
        except UnicodeDecodeError:
            key = ""
        if not path.startswith(folder) or not is_key(key):
            raise Rejected(CODE, "this address names no file here")
        return key

    def _require_signature(
        self, method: str, target: str, signed: Mapping[str, str], sent: Mapping[str, str]
    ) -> None:
        names = signed[signing.SIGNED_HEADERS].split(";")
        has = {**sent, "host": self.host}
        needed = {"host", LENGTH} if method == "PUT" else {"host"}
        query = {name: value for name, value in signed.items() if name != signing.SIGNATURE}
        is_ours = signed[signing.CREDENTIAL].startswith(f"{self.access_key}/")
        is_whole = needed <= set(names) <= set(has) and len(names) == len(set(names))
        if is_ours and is_whole and signed["X-Amz-Algorithm"] == signing.ALGORITHM:
            signature = _signature(
                method, target, query, {name: has[name] for name in names}, self.secret_key
            )
            if hmac.compare_digest(signature.encode(), signed[signing.SIGNATURE].encode()):
                return
        raise Rejected("bad_signature", "this request is not the one that was signed: ask for a new address")


def _signature(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], secret_key: str
) -> str:
    try:
        return signing.signature_of(method, path, query, headers, secret_key)
    except ValueError:
        return ""


def _read_query(method: str, query: bytes) -> Mapping[str, str]:
    """Return the query, each name once, and all of them known."""
    found: list[tuple[str, str]] = []
    if len(query) <= QUERY_CHARS_MAX:
        try:
            found = parse_qsl(
                query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict"
            )
        except ValueError:
            found = []
    names = [name for name, _ in found]
    if not set(NEEDED) <= set(names) or len(names) != len(set(names)):
        raise Rejected("bad_signature", "this address is not signed: ask for one that is")
    if unknown := set(names) - set(NEEDED) - QUERY_OF[method]:
        raise Rejected(CODE, f"a signed address has no {min(unknown)[:40]!r} here")
    return dict(found)


def _sent_headers(method: str, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return those headers that go on; the names are lower case already."""
    sent: dict[str, str] = {}
    for raw, value in headers:
        name = raw.decode("latin-1")
        if name == "transfer-encoding":
            raise Rejected("length_required", "a file is sent with its Content-Length, in no encoding")
        if name in CONDITIONS or (method == "PUT" and (name in CONTENT or name.startswith(CHECKSUMS))):
            text = value.decode("latin-1").strip()
            if name in sent or not (text.isascii() and text.isprintable()):
                raise Rejected(CODE, f"the header {name[:40]} is there twice, or no text")
            sent[name] = text
        elif name == LENGTH and value.strip() != b"0":
            raise Rejected(CODE, "a file is read without a body")
    return sent


def _length(method: str, sent: Mapping[str, str]) -> int:
    text = sent.get(LENGTH, "" if method == "PUT" else "0")
    if not (text.isdigit() and len(text) <= len(str(PUT_BYTES_MAX))):
        raise Rejected("length_required", "a file is sent with its Content-Length")
    if int(text) > PUT_BYTES_MAX:
        raise Rejected("too_large", f"one request holds {PUT_BYTES_MAX:,} bytes at most: send it in parts")
    return int(text)


def _require_time(signed: Mapping[str, str], now: datetime) -> None:
    try:
        begin, life_s = _moment(signed[signing.DATE]), int(signed[signing.EXPIRES])
        is_over = not begin - SKEW <= now <= begin + timedelta(seconds=life_s)
    except (ValueError, OverflowError):
        is_over = True
    if is_over:
        raise Rejected("url_expired", "this address holds no longer: ask for a new one")


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
