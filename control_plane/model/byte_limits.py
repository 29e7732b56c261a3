"""How many bytes what comes from a pod may have, where no setting says another number."""

from typing import Final

EVENT_BYTES_DEFAULT: Final = 1 << 30  # of one attempt
KEY_EVENT_BYTES_DEFAULT: Final = 32 << 30  # an hour: 9 MB/s
ARTIFACT_BYTES_DEFAULT: Final = 64 << 30  # of one attempt
OVER_BUDGET: Final = "over_budget"
