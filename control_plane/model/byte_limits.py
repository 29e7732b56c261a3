"""The limits in bytes of data from pods, where no setting has another value."""

from typing import Final

EVENT_BYTES_DEFAULT: Final = 1 << 30  # of one attempt
KEY_EVENT_BYTES_DEFAULT: Final = 32 << 30  # an hour: 9 MB/s
ARTIFACT_BYTES_DEFAULT: Final = 64 << 30  # of one attempt
OVER_BUDGET: Final = "over_budget"
