"""Decodes raw documents of any content, also such as only people can have made."""

from __future__ import annotations

from typing import Any, Final

from bson import Code, decode, encode
from bson.codec_options import CodecOptions, DatetimeConversion, TypeDecoder, TypeRegistry
from bson.errors import BSONError
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from control_plane.store.database import Document

UNREAD: Final[Any] = CodecOptions[Any](document_class=RawBSONDocument)


class _WholeNumbers(TypeDecoder):
    """Reads a whole number beyond 32 bits as an `int`; JSON has no `Int64`."""

    bson_type = Int64

    def transform_bson(self, value: Any) -> int:
        return int(value)


class _Programs(TypeDecoder):
    """Reads JavaScript as bytes: the driver's type for it is a `str` that cannot be hashed."""

    bson_type = Code

    def transform_bson(self, value: Any) -> bytes:
        return str(value).encode("utf-8", "replace")


# Of what is read raw only: as an option of the client it breaks how the driver reads a failed write.
READ: Final[Any] = CodecOptions(
    tz_aware=True,
    type_registry=TypeRegistry([_WholeNumbers(), _Programs()]),
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="replace",
)


def body_of(raw: Document) -> bytes:
    """Return the bytes of a raw document."""
    return bytes(raw.raw) if isinstance(raw, RawBSONDocument) else encode(raw)


def decoded(raw: Document) -> tuple[Document, int]:
    """Return a document and its size in bytes. Values that only BSON can represent stay values of BSON.

    A document that cannot be decoded has only its id.
    """
    body = body_of(raw)
    try:
        return decode(body, READ), len(body)
    except (BSONError, ValueError, RecursionError):
        identity = raw.get("_id") if isinstance(raw, RawBSONDocument) else None
        return {"_id": identity}, len(body)
