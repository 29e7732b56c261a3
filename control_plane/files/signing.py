"""Signs URLs by which storage takes one object, and nothing else in its place.

Law: the bearer of such a URL can put what it was signed for. That is a number of bytes. Where the storage
can hold to it, it is exactly these bytes, and nothing over an existing object.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from minio import Minio
from urllib3 import PoolManager

from control_plane.files.handing_out import PublicForm, handed_out

URL_LIFE: Final = timedelta(minutes=15)
SIGNATURE: Final = "X-Amz-Signature"
SIGNED_HEADERS: Final = "X-Amz-SignedHeaders"
CREDENTIAL: Final = "X-Amz-Credential"
DATE: Final = "X-Amz-Date"
EXPIRES: Final = "X-Amz-Expires"
ALGORITHM: Final = "AWS4-HMAC-SHA256"
SCOPE_WORDS: Final = 4  # date, region, service, and the end of it


def checksum(sha256: str) -> Mapping[str, str]:
    """Return the header by which the storage checks the digest of an object."""
    return {"x-amz-checksum-sha256": base64.b64encode(bytes.fromhex(sha256)).decode()}


TRIAL_KEY: Final = ".podfleet/signing"
NEW_ONLY: Final[Mapping[str, str]] = {"if-none-match": "*"}
_PROBED: Final = b"podfleet"
_TRUE: Final = checksum(hashlib.sha256(_PROBED).hexdigest())
_FALSE: Final = checksum(hashlib.sha256(b"").hexdigest())


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a PUT: its size in bytes, and its SHA-256 in hexadecimal if it is known."""

    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Signed:
    """Where to put an object, and what has to be sent with it beside its `Content-Length`."""

    url: str
    headers: Mapping[str, str]


@dataclass(slots=True)
class Knows:
    """What the storage enforces: the digest of a PUT, and that no object is overwritten."""

    digests: bool = False
    conditions: bool = False


@dataclass(frozen=True, slots=True)
class PutSigner:
    """Signs PUTs into one bucket."""

    client: Minio
    bucket: str
    secret_key: str = field(repr=False)
    knows: Knows = field(default_factory=Knows)
    public: PublicForm | None = None

    def learn(self, http: PoolManager) -> None:
        """Find out by trial which conditions of a PUT the storage enforces: some ignore them silently."""

        def put(headers: Mapping[str, str]) -> int:
            url = self.url(TRIAL_KEY, {**headers, "content-length": str(len(_PROBED))}, {})
            return http.request("PUT", url, body=_PROBED, headers=dict(headers)).status

        self.knows.digests = put(_TRUE) == HTTPStatus.OK and put(_FALSE) == HTTPStatus.BAD_REQUEST
        self.knows.conditions = put(NEW_ONLY) == HTTPStatus.PRECONDITION_FAILED

    def sign(self, key: str, content: Content, **named: str) -> Signed:
        """Return where this content can be put; `named` is part of the URL's query, as a part's number."""
        headers: dict[str, str] = {}
        if self.knows.digests and content.sha256 is not None:
            headers |= checksum(content.sha256)
        if self.knows.conditions and not named:  # a part is put over itself where an answer was lost
            headers |= NEW_ONLY
        return self._signed(key, headers, content.size, named)

    def sign_over(self, key: str, content: Content) -> Signed:
        """Return where this content can be put again and again, over what lies there."""
        sent = checksum(content.sha256) if self.knows.digests and content.sha256 is not None else {}
        return self._signed(key, sent, content.size, {})

    def _signed(self, key: str, headers: Mapping[str, str], size: int, named: Mapping[str, str]) -> Signed:
        url = self.url(key, {**headers, "content-length": str(size)}, named)
        return Signed(handed_out(self.public, url), headers)

    def url(self, key: str, headers: Mapping[str, str], named: Mapping[str, str]) -> str:
        """Return a URL that takes a PUT with these headers (lower case) only."""
        query: dict[str, str | list[str] | tuple[str]] = {**named}
        url = self.client.get_presigned_url(
            "PUT", self.bucket, key, expires=URL_LIFE, extra_query_params=query
        )
        return with_headers(url, self.secret_key, headers)


def with_headers(url: str, secret_key: str, headers: Mapping[str, str]) -> str:
    """Return a presigned URL of a PUT, which holds for its host only, as one that holds these headers too.

    The SDK signs the host alone.
    """
    parts = urlsplit(url)
    query = {name: value for name, value in parse_qsl(parts.query, True) if name != SIGNATURE}
    signed = {"host": parts.netloc, **headers}
    query[SIGNED_HEADERS] = ";".join(sorted(signed))
    signature = signature_of("PUT", parts.path, query, signed, secret_key)
    return parts._replace(query=f"{query_text(query)}&{SIGNATURE}={signature}").geturl()


def query_text(query: Mapping[str, str]) -> str:
    """Return a query as it is signed."""
    return urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")


def signature_of(
    method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], secret_key: str
) -> str:
    """Return the signature of a presigned request, in hexadecimal.

    `path` is percent-encoded, `query` has all but the signature, decoded, and `headers` are those that
    are signed, in lower case. Raises `ValueError` where the query names no credential or no date. Source:
    AWS, "Authenticating requests: using query parameters (Signature Version 4)".
    """
    _, *scope = query.get(CREDENTIAL, "").rsplit("/", 4)
    if len(scope) != SCOPE_WORDS or DATE not in query:
        raise ValueError("no credential, or no date")
    names = ";".join(sorted(headers))
    header_text = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"{method}\n{path}\n{query_text(query)}\n{header_text}\n{names}\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{ALGORITHM}\n{query[DATE]}\n{'/'.join(scope)}\n{digest}"
    key = f"AWS4{secret_key}".encode()
    for word in (*scope, text):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key.hex()
