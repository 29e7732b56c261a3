"""The client of the object storage, by the storage's clock: storage refuses what another clock signed.

Every answer tells the time of the storage (`Date`), also one that refuses: so each request is a measurement.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from minio import Minio
from minio.error import MinioException
from minio.time import to_amz_date
from urllib3 import BaseHTTPResponse, PoolManager

from events.runtime.measured_clock import SECOND_S, MeasuredClock

SKEW_S: Final = 60.0  # storage takes fifteen minutes
KEPT: Final = "age"  # told by a cache of an answer that it has kept: its date is over


class TimedPool(PoolManager):
    """Connections that note the storage's time in each answer."""

    def __init__(self, clock: MeasuredClock, **options: Any) -> None:
        super().__init__(**options)
        self._clock = clock

    def urlopen(self, method: str, url: str, *rest: Any, **options: Any) -> BaseHTTPResponse:
        """Send a request as any pool does."""
        asked_s = self._clock.monotonic_s()
        response = super().urlopen(method, url, *rest, **options)
        date = response.headers.get("date")
        moment = None if date is None or KEPT in response.headers else _moment(date)
        if moment is not None:
            self._clock.note(moment, asked_s=asked_s, unit_s=SECOND_S)
        return response


class TimedClient(Minio):
    """The SDK's client; its signatures are made for the storage's clock.

    A request that is refused, in an answer that tells that it was signed for another time, is signed anew and
    sent once more. The code of the refusal says little: storages differ, and a HEAD has none.

    `origin` is the storage's address, which is asked for the time before anything is signed.
    """

    def __init__(self, endpoint: str, *, origin: str, clock: MeasuredClock, **options: Any) -> None:
        super().__init__(endpoint, **options)
        self._origin = origin
        self._clock = clock
        self._has_asked = False

    def measure(self) -> None:
        """Ask the storage for its time, without a signature: no clock can be too wrong for that."""
        self._http.request("HEAD", f"{self._origin}/", redirect=False)
        self._has_asked = True

    def get_presigned_url(
        self,
        method: str,
        bucket_name: str,
        object_name: str,
        expires: timedelta = timedelta(days=7),
        response_headers: Any = None,
        request_date: datetime | None = None,
        version_id: str | None = None,
        extra_query_params: Any = None,
    ) -> str:
        """Return a signed URL; its life begins at the storage's now."""
        return super().get_presigned_url(
            method,
            bucket_name,
            object_name,
            expires,
            response_headers,
            request_date or self._clock.now(),
            version_id,
            extra_query_params,
        )

    def _url_open(self, *request: Any, **more: Any) -> BaseHTTPResponse:
        if not self._has_asked and self._clock.machine_ahead_s is None:
            self.measure()
        again = {**more, "headers": dict(more.get("headers") or {})}  # the SDK adds to those that it is given
        signed_for, begun_s = self._clock.now(), self._clock.monotonic_s()
        try:
            return super()._url_open(*request, **more)
        except MinioException:
            passed_s = self._clock.monotonic_s() - begun_s
            moved_s = (self._clock.now() - signed_for).total_seconds() - passed_s
            if abs(moved_s) < SKEW_S:
                raise
            return super()._url_open(*request, **again)

    def _build_headers(self, *request: Any, **more: Any) -> tuple[Any, datetime]:
        headers, _ = super()._build_headers(*request, **more)
        date = self._clock.now()
        headers["x-amz-date"] = to_amz_date(date)
        return headers, date


def _moment(date: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
