"""How large an object of the storage may be, pure."""

from __future__ import annotations

from typing import Final

OBJECT_BYTES_MAX: Final = 5 << 40  # S3 holds no larger one
PUT_BYTES_MAX: Final = 5 << 30  # of one request of S3; more goes up in parts
