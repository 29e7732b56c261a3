"""Decodes events from bytes: structured mode, binary mode, the standard batch, and NDJSON, pure.

CloudEvents 1.0 exactly, then this project's attributes (`subject`, `sequence`, `attempt`). Law: the
answer depends on the bytes alone, and one event never decides about its neighbours. Whatever the bytes are,
only `Rejected` is raised, and that only for a request whose events cannot be separated.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, NoReturn
from urllib.parse import unquote_to_bytes

import msgspec

from events.catalog import RESERVED, TYPES, Unknown
from events.envelope import SPEC_VERSION, SUBJECT_PREFIX, Event
from events.kinds.declaring.fact import Fact
from events.runtime.errors import Rejected

LINE_BYTES_MAX: Final = 256 * 1024
LINES_MAX: Final = 1_000
BRACKETS_MAX: Final = LINE_BYTES_MAX  # opening ones in a batch: what one event can have at most
DEPTH_MAX: Final = 64  # levels of objects and arrays; the event itself is the first
VALUES_MAX: Final = 20_000  # of an event: time goes by values, and some are two bytes long
SEQUENCE_MAX: Final = 10**9  # an attempt says less, and whatever counts along it ends
ATTEMPT_MAX: Final = 2**31 - 1
ATTRIBUTE_CHARS_MAX: Final = 2_048  # of an attribute that is stored, indexed or shown
DIGITS_MAX: Final = 32
ORIGINS_MAX: Final = 1_024
MESSAGE_CHARS_MAX: Final = 300
SHOWN_CHARS_MAX: Final = 60
FAMILY: Final = "ai."

RefusalCode = Literal[
    "bad_json",  # no JSON at all
    "not_an_object",  # JSON, but no event
    "bad_attribute",  # the message begins with the name of the attribute
    "unknown_type",
    "reserved_type",
    "subject_mismatch",
    "invalid_data",
    "too_large",
    "too_deep",
    "unstorable",  # an event that the log cannot keep as it is
]


class TooLarge(Rejected):
    """The request as a whole is over a limit; nothing of it was taken."""

    def __init__(self, limit: str, maximum: int) -> None:
        super().__init__(
            "too_large",
            f"the request is over the limit {limit} = {maximum:,}: send it in smaller parts",
        )
        self.limit = limit
        self.maximum = maximum


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event was not taken, and as much of its identity as could be read."""

    code: RefusalCode
    message: str
    id: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    sequence: int | None = None


class Decoded(NamedTuple):
    """One event of a request: its line number from 1, its bytes, and the result of decoding."""

    line: int
    raw: bytes
    outcome: Event | Refusal


def decode_structured(line: bytes) -> Event | Refusal:
    """Return the event in one JSON object, or why there is none."""
    event = _plain_event(line)
    if event is not None:
        return event
    attributes: dict[str, Any] = {}
    try:
        _check_size(line)
        parsed = _parse(line)
        if type(parsed) is not dict:
            raise _Refused("not_an_object", f"an event is a JSON object, not {_kind(parsed)}")
        attributes = parsed
        _check_names(line, _check_storable(attributes, depth=1))
        return _event(attributes)
    except _Refused as refused:
        return _refusal(refused, refused.attributes or attributes)


def decode_binary(headers: Iterable[tuple[str, str]], body: bytes) -> Event | Refusal:
    """Return the event whose attributes are `ce-*` headers and whose data is the body."""
    attributes: dict[str, Any] = {}
    try:
        for name, value in headers:
            _read_header(name.lower(), value.strip(" \t"), attributes)
        _check_size(body)
        if body.strip(_BLANK):
            _check_data_type(attributes)
            attributes["data"] = _parse(body)
            _check_names(body, _check_storable(attributes, depth=1) - len(attributes))
        return _event(attributes)
    except _Refused as refused:
        return _refusal(refused, attributes)


def decode_batch(body: bytes) -> list[Decoded]:
    """Return the event, or refusal, of each element of an `application/cloudevents-batch+json` array.

    A body that is not a JSON array is rejected as a whole: where its elements end is a guess.
    """
    # Brackets are what finding the ends of the elements takes time for, up to seconds for a whole body.
    if body.count(b"[") + body.count(b"{") > BRACKETS_MAX + 1:
        raise TooLarge("brackets", BRACKETS_MAX)
    batch: list[Decoded] = []
    for number, raw in enumerate(_elements(body.removeprefix(_BOM)), start=1):
        if number > LINES_MAX:
            raise TooLarge("lines", LINES_MAX)
        outcome = decode_structured(raw)
        if isinstance(outcome, Refusal) and outcome.code == "bad_json":
            raise Rejected("bad_json", f"element {number} of the batch: {outcome.message}")
        batch.append(Decoded(number, raw, outcome))
    return batch


def decode_ndjson(body: bytes) -> list[Decoded]:
    """Return the event, or refusal, of each line; blank lines are counted, and otherwise ignored."""
    if body.count(b"\n") + (not body.endswith(b"\n")) > LINES_MAX:
        raise TooLarge("lines", LINES_MAX)
    # Line by line, since a decoder of the whole body lets a value span lines and loses their numbers.
    return [
        Decoded(number, raw, decode_structured(raw))
        for number, raw in enumerate(body.removeprefix(_BOM).split(b"\n"), start=1)
        if raw.strip(_BLANK)
    ]


def moment(text: str) -> datetime | None:
    """Return the moment that an RFC 3339 text names, in UTC; None where it names none.

    A leap second becomes the last microsecond of its minute, since `datetime` has no 60th second.
    """
    parts = _TIMESTAMP.fullmatch(text)
    if parts is None:
        return None
    if parts["leap"]:
        text = f"{parts['minute']}:59.999999{parts['offset']}"
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):  # a 30th of February, or a year that no date has
        return None


class _Refused(Exception):
    """Ends the reading of one event; never leaves this module."""

    def __init__(self, code: RefusalCode, message: str, attributes: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code: RefusalCode = code
        self.message = message
        self.attributes = attributes


class _Plain(msgspec.Struct, forbid_unknown_fields=True):
    """An event as our own emitters write it, with nothing in it that needs a closer look."""

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    subject: str
    time: str
    datacontenttype: Literal["application/json"]
    sequence: str
    data: dict[str, Any]
    attempt: int | msgspec.UnsetType = msgspec.UNSET
    traceparent: str | msgspec.UnsetType | None = msgspec.UNSET


def _plain_event(line: bytes) -> Event | None:
    """Return a plain event, in a third of the time; None where all the rules must decide."""
    try:
        _check_size(line)
        plain = _PLAIN.decode(line)
        if plain.type not in _WRITABLE:
            return None
        attempt = (
            1 if plain.attempt is msgspec.UNSET else _check_ordinal("attempt", plain.attempt, ATTEMPT_MAX)
        )
        sequence = _check_ordinal("sequence", plain.sequence, SEQUENCE_MAX)
        _check_text("id", plain.id)
        _check_text("time", plain.time)
        _check_time(plain.time)
        traceparent = None if plain.traceparent is msgspec.UNSET else plain.traceparent
        if traceparent is not None:
            _check_traceparent(traceparent)
        run_id = _origin(plain.source, plain.subject)
        given = (plain.attempt, plain.traceparent)
        names = _PLAIN_NAMES + len(given) - given.count(msgspec.UNSET)
        _check_names(line, names + _check_storable(plain.data, depth=2))
        _check_same_run(plain.data, run_id)
        fact = _fact(plain.type, plain.data)
    except (_Refused, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Event(
        id=plain.id,
        source=plain.source,
        type=plain.type,
        run_id=run_id,
        attempt=attempt,
        sequence=sequence,
        time=plain.time,
        data=plain.data,
        fact=fact,
        traceparent=traceparent,
    )


def _event(attributes: Mapping[str, Any]) -> Event:
    if attributes.get("specversion") != SPEC_VERSION:
        _refuse("specversion", f'must be "{SPEC_VERSION}"')
    event_id = _required(attributes, "id")
    event_type = _required(attributes, "type")
    source = _required(attributes, "source")
    run_id = _origin(source, _required(attributes, "subject"))
    time = _optional(attributes, "time")
    if time is not None:
        _check_time(time)
    attempt = attributes.get("attempt")
    sequence = _sequence(attributes)
    traceparent = _optional(attributes, "traceparent")
    if traceparent is not None:
        _check_traceparent(traceparent)
    _check_unread(attributes)
    _check_type(event_type)
    data = _data(attributes)
    _check_same_run(data, run_id)
    return Event(
        id=event_id,
        source=source,
        type=event_type,
        run_id=run_id,
        attempt=1 if attempt is None else _check_ordinal("attempt", attempt, ATTEMPT_MAX),
        sequence=sequence,
        time=time,
        data=data,
        fact=_fact(event_type, data),
        traceparent=traceparent,
    )


def _check_type(event_type: str) -> None:
    if event_type in RESERVED:
        raise _Refused("reserved_type", f"only the control plane writes {event_type}")
    if not event_type.startswith(FAMILY):
        raise _Refused("unknown_type", f"{_shown(event_type)} does not begin with {FAMILY}")


def _fact(event_type: str, data: dict[str, Any]) -> Fact:
    fact = _WRITABLE.get(event_type)
    if fact is None:
        return _UNKNOWN
    try:
        return msgspec.convert(data, fact)
    except msgspec.ValidationError as error:
        raise _Refused("invalid_data", str(error).replace(" - at `$", " - at `$.data")) from None


def _check_same_run(data: dict[str, Any], run_id: str) -> None:
    if data.get("run_id") not in (None, run_id):
        raise _Refused("subject_mismatch", f"data.run_id is not {run_id}, the run of the subject")


def _data(attributes: Mapping[str, Any]) -> dict[str, Any]:
    data = attributes.get("data")
    encoded = attributes.get("data_base64")
    if encoded is not None:
        if "data" in attributes:
            raise _Refused("invalid_data", "data and data_base64 exclude each other")
        data = _from_base64(attributes, encoded)
    if data is None:
        return {}
    _check_data_type(attributes)
    if type(data) is not dict:
        raise _Refused("invalid_data", f"data must be a JSON object, not {_kind(data)}")
    return data


def _from_base64(attributes: Mapping[str, Any], encoded: object) -> Any:
    if attributes.get("datacontenttype") is None:  # nothing says that the bytes are JSON
        raise _Refused("invalid_data", "data_base64 needs a datacontenttype that is JSON")
    _check_data_type(attributes)
    try:
        if not isinstance(encoded, str):
            raise ValueError
        text = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise _Refused("invalid_data", "data_base64 must be a base64 text") from None
    try:
        data = _parse(text)
    except _Refused as refused:
        code: RefusalCode = "invalid_data" if refused.code == "bad_json" else refused.code
        raise _Refused(code, f"data_base64: {refused.message}") from None
    _check_names(text, _check_storable([data], depth=1))
    return data


def _required(attributes: Mapping[str, Any], name: str) -> str:
    value = _optional(attributes, name)
    if value is None:
        _refuse(name, "is required")
    return value


def _optional(attributes: Mapping[str, Any], name: str) -> str | None:
    value = attributes.get(name)
    if value is None:
        return None
    if type(value) is not str:
        _refuse(name, f"must be a text, not {_kind(value)}")
    _check_text(name, value)
    return value


def _check_text(name: str, value: str) -> None:
    if not value:
        _refuse(name, "must not be empty")
    if len(value) > ATTRIBUTE_CHARS_MAX:
        _refuse(name, f"must not be longer than {ATTRIBUTE_CHARS_MAX:,} characters")
    if not _is_text(value):
        _refuse(name, "must not contain control characters")


@lru_cache(maxsize=ORIGINS_MAX)
def _origin(source: str, subject: str) -> str:
    """Return the run that both attributes name; cached, as they are the same all through an attempt."""
    _check_text("source", source)
    if not _URI_REFERENCE.fullmatch(source):
        _refuse("source", "must be a URI reference (RFC 3986)")
    run_id = _run_id(subject)
    if run_id is None:
        _refuse("subject", f"must be {SUBJECT_PREFIX}<run id>")
    return run_id


def _run_id(subject: str) -> str | None:
    run_id = subject.removeprefix(SUBJECT_PREFIX)
    return run_id if len(run_id) < len(subject) and _RUN_ID.fullmatch(run_id) else None


def _check_time(time: str) -> None:
    if moment(time) is None:
        _refuse("time", "must be an RFC 3339 time with an offset, such as 2027-01-31T09:30:00Z")


def _check_traceparent(traceparent: str) -> None:
    if not _TRACEPARENT.fullmatch(traceparent):
        _refuse("traceparent", "must be a W3C trace context such as 00-<32 hex>-<16 hex>-01")


def _sequence(attributes: Mapping[str, Any]) -> int | None:
    sequence = attributes.get("sequence")
    if sequence is not None:
        sequence = _check_ordinal("sequence", sequence, SEQUENCE_MAX)
    older = attributes.get("extensions")
    if type(older) is not dict or older.get("seq") is None:
        return sequence
    if type(older["seq"]) is not int or not 1 <= older["seq"] <= SEQUENCE_MAX:
        _refuse("extensions", f"seq must be an integer from 1 to {SEQUENCE_MAX}")
    if sequence not in (None, older["seq"]):
        _refuse("extensions", "seq and the attribute sequence differ")
    return older["seq"]


def _check_ordinal(name: str, value: object, maximum: int) -> int:
    number = _ordinal(value, maximum)
    if number is None:
        _refuse(name, f"must be an integer from 1 to {maximum}, or its decimal digits")
    return number


def _ordinal(value: object, maximum: int) -> int | None:
    if type(value) is str and len(value) <= DIGITS_MAX and value.isascii() and value.isdigit():
        value = int(value)
    # By type, not by isinstance: a boolean is no number here.
    return value if type(value) is int and 1 <= value <= maximum else None


def _check_unread(attributes: Mapping[str, Any]) -> None:
    """Hold the attributes without a meaning here to the rules that make them portable."""
    schema = _optional(attributes, "dataschema")
    if schema is not None and not _URI.fullmatch(schema):
        _refuse("dataschema", "must be a URI (RFC 3986)")
    content_type = _optional(attributes, "datacontenttype")
    if content_type is not None and not _MEDIA_TYPE.fullmatch(content_type):
        _refuse("datacontenttype", "must be a media type (RFC 2046)")
    older = attributes.get("extensions")
    if type(older) is not dict:
        _check_extension("extensions", older)
    for name in sorted(attributes.keys() - _NAMED):
        if not _ATTRIBUTE_NAME.fullmatch(name):
            _refuse(name, "is no attribute name: only a-z and 0-9 are")
        _check_extension(name, attributes[name])


def _check_extension(name: str, value: object) -> None:
    if value is None or type(value) is bool:
        return
    if type(value) is str:
        if not _is_text(value):
            _refuse(name, "must not contain control characters")
    elif type(value) is not int or not -(2**31) <= value < 2**31:
        _refuse(name, "must be a text, a boolean or an integer of 32 bits")


def _check_data_type(attributes: Mapping[str, Any]) -> None:
    content_type = attributes.get("datacontenttype")
    if content_type is None or content_type == "application/json":
        return
    media_type = _MEDIA_TYPE.fullmatch(content_type) if isinstance(content_type, str) else None
    if media_type is None:
        _refuse("datacontenttype", "must be a media type (RFC 2046)")
    subtype = media_type[1].lower()
    if subtype != "json" and not subtype.endswith("+json"):
        raise _Refused("invalid_data", f"data must be JSON, not {_shown(content_type)}")


def _check_size(text: bytes) -> None:
    if len(text) > LINE_BYTES_MAX:
        raise _Refused("too_large", f"the event is over the limit line_bytes = {LINE_BYTES_MAX:,}")


def _check_names(text: bytes, names: int) -> None:
    """Refuse JSON in which an object has a name twice: `names` are left of it once it is read."""
    outside = _TEXT.sub(b"", text) if b"\\" in text else b"".join(text.split(b'"')[::2])
    if outside.count(b":") != names:
        raise _Refused("unstorable", "an object has a name twice, of which one value would be lost")


def _check_storable(root: dict[str, Any] | list[Any], *, depth: int) -> int:
    """Refuse what MongoDB would refuse, or would give back as something else; return how many names it has.

    Level by level instead of recursively, so that no depth can exhaust the stack.
    """
    level: list[Any] = [root]
    values = names = 0
    while level:
        if depth > DEPTH_MAX:
            raise _Refused("too_deep", _TOO_DEEP)
        deeper: list[Any] = []
        for container in level:
            values += len(container)
            if values > VALUES_MAX:
                raise _Refused("too_large", f"the event is over the limit values = {VALUES_MAX:,}")
            if type(container) is dict:
                _check_keys(container)
                names += len(container)
                container = container.values()
            for value in container:
                kind = type(value)
                if kind is dict or kind is list:
                    deeper.append(value)
                elif kind is int and not -(2**63) <= value < 2**63:
                    raise _Refused("unstorable", "an integer does not fit into 64 bits")
        level = deeper
        depth += 1
    return names


def _check_keys(container: dict[str, Any]) -> None:
    for key in container:
        if "\x00" in key:
            raise _Refused("unstorable", "a name contains the character U+0000")
    if "$ref" in container and "$id" in container:
        raise _Refused("unstorable", "an object with both $ref and $id would come back as a reference")


def _parse(text: bytes) -> Any:
    try:
        return _JSON.decode(text)
    except RecursionError:
        raise _Refused("too_deep", _TOO_DEEP) from None
    except UnicodeDecodeError:
        raise _Refused("bad_json", "not JSON: a text is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise _unreadable(text, error) from None


def _unreadable(text: bytes, error: msgspec.DecodeError) -> _Refused:
    """Distinguish invalid JSON from JSON that has no counterpart in memory."""
    try:
        lenient = json.loads(text.decode(), parse_int=str, parse_float=str, parse_constant=_no_constant)
    except RecursionError:
        return _Refused("too_deep", _TOO_DEEP)
    except ValueError:
        return _Refused("bad_json", f"not JSON: {error}")
    attributes = lenient if isinstance(lenient, dict) else None
    if isinstance(error, msgspec.ValidationError):
        return _Refused("unstorable", "a number is out of range", attributes)
    return _Refused("unstorable", "a text contains a lone surrogate", attributes)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity, which the standard library reads and JSON lacks


def _read_header(name: str, value: str, attributes: dict[str, Any]) -> None:
    if name == "content-type":
        attribute = "datacontenttype"
    elif name.startswith("ce-"):
        attribute = name.removeprefix("ce-")
        if attribute == "datacontenttype":
            _refuse(attribute, "travels as Content-Type in binary mode")
        if attribute == "data" or not _ATTRIBUTE_NAME.fullmatch(attribute):
            _refuse(attribute, "is no attribute name: only a-z and 0-9 are, and not data")
        value = _from_header(attribute, value)
    else:
        return
    if attribute in attributes:
        _refuse(attribute, "comes twice")
    attributes[attribute] = value


def _from_header(attribute: str, value: str) -> str:
    if value.startswith('"'):
        if not _QUOTED.fullmatch(value):
            _refuse(attribute, "is not a quoted string (RFC 9110)")
        value = _QUOTED_PAIR.sub(r"\1", value[1:-1])
    if not value.isascii() or _HALF_ESCAPE.search(value):
        _refuse(attribute, "must be percent-encoded outside of ASCII, and % itself everywhere")
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        _refuse(attribute, "is not UTF-8 after percent-decoding")


def _elements(body: bytes) -> Iterator[bytes]:
    """Split a JSON array into the texts of its elements, each of which is still to be judged."""
    start = len(body) - len(body.lstrip(_BLANK))
    if body[start : start + 1] != b"[":
        raise Rejected("bad_json", "a batch is a JSON array of events")
    count = 0
    closed = False
    while not closed:
        start += 1
        end = _end_of_element(body, start)
        closed = body[end : end + 1] == b"]"
        element = body[start:end].strip(_BLANK)
        if element:
            count += 1
            yield element
        elif count or not closed:
            raise Rejected("bad_json", f"a comma of the batch has no event beside it, at byte {end}")
        start = end
    if body[start + 1 :].strip(_BLANK):
        raise Rejected("bad_json", f"something follows the batch at byte {start + 1}")


def _end_of_element(body: bytes, start: int) -> int:
    depth = 0
    while True:
        pattern = _WITHIN if depth else _AT_TOP
        start = pattern.match(body, start).end()  # type: ignore[union-attr]  # it matches nothing, too
        match body[start : start + 1]:
            case b"[" | b"{":
                depth += 1
            case b"]" | b"}" if depth:
                depth -= 1
            case b"," | b"]":
                return start
            case _:
                raise Rejected("bad_json", f"the batch is truncated or not JSON at byte {start}")
        start += 1


def _refuse(attribute: str, why: str) -> NoReturn:
    legal = len(attribute) <= SHOWN_CHARS_MAX and _ATTRIBUTE_NAME.fullmatch(attribute)
    raise _Refused("bad_attribute", f"{attribute if legal else _shown(attribute)}: {why}")


def _refusal(refused: _Refused, attributes: Mapping[str, Any]) -> Refusal:
    event_id = attributes.get("id")
    subject = attributes.get("subject")
    return Refusal(
        code=refused.code,
        message=refused.message[:MESSAGE_CHARS_MAX],
        id=event_id if type(event_id) is str and _is_shown(event_id) else None,
        run_id=_run_id(subject) if type(subject) is str else None,
        attempt=_ordinal(attributes.get("attempt"), ATTEMPT_MAX),
        sequence=_ordinal(attributes.get("sequence"), SEQUENCE_MAX),
    )


def _is_shown(event_id: str) -> bool:
    return 0 < len(event_id) <= ATTRIBUTE_CHARS_MAX and _is_text(event_id)


def _is_text(value: str) -> bool:
    return (value.isascii() and value.isprintable()) or not _FORBIDDEN.search(value)


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…")


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS[type(value)]


_KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
_TOO_DEEP: Final = f"more than {DEPTH_MAX} levels of objects and arrays"
_BOM: Final = b"\xef\xbb\xbf"  # RFC 8259 lets a reader ignore it, and some editors write it
_BLANK: Final = b" \t\r\n"
_JSON: Final = msgspec.json.Decoder()
_PLAIN: Final = msgspec.json.Decoder(_Plain)
_PLAIN_NAMES: Final = sum(field.required for field in msgspec.structs.fields(_Plain))
_UNKNOWN: Final = Unknown()
_WRITABLE: Final = {name: fact for name, fact in TYPES.items() if name not in RESERVED}

# What this module reads by name; every other attribute is somebody's extension.
_NAMED: Final = frozenset(
    (
        *("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"),
        *("sequence", "attempt", "traceparent", "extensions", "data", "data_base64"),
    )
)
_ATTRIBUTE_NAME: Final = re.compile(r"[a-z0-9]+")
_RUN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TIMESTAMP: Final = re.compile(
    r"(?P<minute>[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}):(?:[0-5][0-9]|(?P<leap>60))(?:\.[0-9]+)?"
    r"(?P<offset>[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_TRACE_IDS: Final = r"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT: Final = re.compile(rf"00-{_TRACE_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_TRACE_IDS}(?:-.*)?")
_NONCHARACTERS: Final = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_FORBIDDEN: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_NONCHARACTERS}]")

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*+"')
_QUOTED_PAIR: Final = re.compile(r"\\(.)")
_HALF_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_WORD: Final = r"[A-Za-z0-9!#$&^_.+*'`|~%-]++"
_MEDIA_TYPE: Final = re.compile(
    rf'{_WORD}/({_WORD})(?:[ \t]*+;[ \t]*+(?:{_WORD}=(?:{_WORD}|"(?:[^"\\]|\\.)*+"))?)*+[ \t]*'
)

# RFC 3986. A colon in the first segment ends a scheme, so a reference without one has none there.
_LITERAL: Final = r"A-Za-z0-9._~!$&'()*+,;=@\-"
_ESCAPE: Final = r"%[0-9A-Fa-f]{2}"
_CHAR: Final = rf"(?:[{_LITERAL}:]|{_ESCAPE})"
_SEGMENTS: Final = rf"(?:/{_CHAR}*+)*+"
_HOST: Final = rf"(?:{_CHAR}*+(?!\[)|(?:[{_LITERAL}:]*@)?\[[0-9A-Fa-f:.]++\](?::[0-9]*+)?)"
_ROOTED: Final = rf"//{_HOST}{_SEGMENTS}|/(?!/){_CHAR}*+{_SEGMENTS}"
_TAIL: Final = rf"(?:\?(?:{_CHAR}|[/?])*+)?(?:#(?:{_CHAR}|[/?])*+)?"
_ABSOLUTE: Final = rf"[A-Za-z][A-Za-z0-9+.-]*+:(?:{_ROOTED}|(?:{_CHAR}++{_SEGMENTS})?){_TAIL}"
_RELATIVE: Final = rf"(?:{_ROOTED}|(?:(?:[{_LITERAL}]|{_ESCAPE})++(?!:){_SEGMENTS})?){_TAIL}"
_URI: Final = re.compile(_ABSOLUTE)
_URI_REFERENCE: Final = re.compile(f"{_RELATIVE}|{_ABSOLUTE}")

_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Up to the next byte that opens or closes something; between elements, that separates them, too.
_WITHIN: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_AT_TOP: Final = re.compile(rb'(?:[^"\[\]{},]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
