"""How much of what is stored one read takes in."""

from __future__ import annotations

from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from hypothesis import given
from hypothesis import strategies as st

from control_plane.store.pages import VALUE_BYTES, read_bounded, weight

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
    max_leaves=20,
)


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(count(each) for each in inner)


@given(VALUES)
def test_every_value_of_a_document_has_its_weight(value: Any) -> None:
    document = bson.encode({"a": value})
    assert weight(document) >= len(document) + VALUE_BYTES * count(value)


class Cursor:
    """A cursor over documents, as the driver has it."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.raw = [RawBSONDocument(bson.encode(each)) for each in documents]

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __aiter__(self) -> Any:
        for each in self.raw:
            yield each


async def test_of_documents_of_many_values_fewer_are_read_than_of_long_ones() -> None:
    db: Any = type("Db", (), {"codec_options": CodecOptions()})
    long, many = {"a": "x" * 12_000}, {"a": [[]] * 1_000}
    read: dict[str, int] = {}
    for name, document in (("long", long), ("many", many)):
        cursor: Any = Cursor(*[document] * 20)
        documents, is_cut = await read_bounded(db, cursor, 130_000)
        read[name] = len(documents)
        assert is_cut
    assert read["many"] < read["long"] / 2
