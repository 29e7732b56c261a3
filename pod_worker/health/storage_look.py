"""Looks at the object storage, by the upload of a small object that every pod may put there."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from typing import Final

import httpx
import msgspec

from events.delivery.control_plane_client import Answer, ControlPlane
from events.runtime.errors import Transient
from pod_worker.health.bounded_head import Head, ask
from pod_worker.health.check import Finding

CALL_S: Final = 15.0
CONTENT: Final = b"podfleet"
# What a control plane answers that has no such route, or does not give it to this pod's key.
NOT_FOR_US: Final = frozenset({401, 403, 404, 405})


class _Signed(msgspec.Struct):
    url: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class StorageLook:
    """Looks at the storage behind a control plane, as the pod of this name."""

    control_plane: ControlPlane
    tls: ssl.SSLContext
    pod: str

    def __call__(self) -> Finding:
        """Put the object. Where the control plane signs nothing, nothing can be told."""
        body = {"pod": self.pod, "size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}
        try:
            answer = self.control_plane.send("POST", "/api/upload-tests", json=body, timeout_s=CALL_S)
            if answer.status in NOT_FOR_US:
                return Finding(True, message=f"not tested: the control plane answers {answer.status}")
            return self._put(answer)
        except Transient as error:
            return Finding(None, error.code, error.message)

    def _put(self, answer: Answer) -> Finding:
        signed = answer.read(_Signed)
        headers = {**signed.headers, "content-length": str(len(CONTENT))}
        try:
            head = ask("PUT", signed.url, headers, content=CONTENT, uses_proxy=False, tls=self.tls)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            why = type(error).__name__
            return Finding(False, "STORAGE_UNREACHABLE", f"the object storage does not answer ({why})")
        return judge(head)


def judge(head: Head) -> Finding:
    """Return what the answer to a PUT says of the storage."""
    answers = f"the object storage answers {head.status}"
    if 200 <= head.status < 300 and head.content_type.startswith("text/html"):
        return Finding(False, "STORAGE_UNREACHABLE", f"{answers} with a page: it is no storage")
    if 200 <= head.status < 300:
        return Finding(True, message=answers)
    if head.status in (401, 403):
        return Finding(False, "STORAGE_REFUSED", f"{answers} to a signed upload")
    return Finding(False, "STORAGE_UNREACHABLE", f"{answers} to an upload")
