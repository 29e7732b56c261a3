"""Sets a program's log up: one record a line, for a console or for a machine.

Law: no secret leaves through the log, neither under its name nor inside another text.
Called by `__main__` only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal, TextIO

import structlog

from events.text.escaping import for_terminal
from events.text.mask import MASK, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How the log looks; `secrets` are values that must never appear.

    Each record names the `slot` of a worker that is one of several.
    """

    style: Literal["console", "json"] = "console"
    level: str = "INFO"
    secrets: tuple[str, ...] = ()
    slot: int | None = None

    def __repr__(self) -> str:
        return f"LogOptions(style={self.style!r}, level={self.level!r}, secrets={MASK})"


def configure_logs(options: LogOptions, stream: TextIO) -> None:
    """Send every record of this process to `stream`, in one style and without secrets."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(default=str)
        if options.style == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                *(() if options.slot is None else (_of_slot(options.slot),)),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,  # before the mask: tracebacks quote secrets too
                Mask(options.secrets),
                *((_told_harmlessly,) if options.style == "console" else ()),
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(options.level.upper())
    # It logs each URL, and a signed URL is a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _of_slot(slot: int) -> structlog.typing.Processor:
    def tell(logger: object, method: str, record: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**record, "slot": slot}

    return tell


def _told_harmlessly(
    logger: object, method: str, record: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Keep a log record from steering the terminal; a value that is no text is written as its `repr`."""
    return {name: for_terminal(value) if isinstance(value, str) else value for name, value in record.items()}
