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

URL_LIFE: Final = timedelta(minutes=15)
_SIGNATURE: Final = "X-Amz-Signature"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


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
        return Signed(self.url(key, {**headers, "content-length": str(content.size)}, named), headers)

    def sign_over(self, key: str, content: Content) -> Signed:
        """Return where this content can be put again and again, over what lies there."""
        sent = checksum(content.sha256) if self.knows.digests and content.sha256 is not None else {}
        return Signed(self.url(key, {**sent, "content-length": str(content.size)}, {}), sent)

    def url(self, key: str, headers: Mapping[str, str], named: Mapping[str, str]) -> str:
        """Return a URL that takes a PUT with these headers (lower case) only."""
        query: dict[str, str | list[str] | tuple[str]] = {**named}
        url = self.client.get_presigned_url(
            "PUT", self.bucket, key, expires=URL_LIFE, extra_query_params=query
        )
        return with_headers(url, self.secret_key, headers)


def with_headers(url: str, secret_key: str, headers: Mapping[str, str]) -> str:
    """Return a presigned URL of a PUT, which holds for its host only, as one that holds these headers too.

    The SDK signs the host alone. Source: AWS, "Authenticating requests: using query parameters
    (Signature Version 4)".
    """
    parts = urlsplit(url)
    query = {name: value for name, value in parse_qsl(parts.query, True) if name != _SIGNATURE}
    signed = {"host": parts.netloc, **headers}
    names = ";".join(sorted(signed))
    query["X-Amz-SignedHeaders"] = names
    query_text = urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
    header_text = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    request = f"PUT\n{parts.path}\n{query_text}\n{header_text}\n{names}\nUNSIGNED-PAYLOAD"
    _, *scope = query["X-Amz-Credential"].rsplit("/", 4)
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{_ALGORITHM}\n{query['X-Amz-Date']}\n{'/'.join(scope)}\n{digest}"
    key = f"AWS4{secret_key}".encode()
    for word in (*scope, text):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return parts._replace(query=f"{query_text}&{_SIGNATURE}={key.hex()}").geturl()
