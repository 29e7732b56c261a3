"""The text of an answer that comes in pieces, byte for byte as an engine says it; pure.

Law: what two pieces divide is one again, be it the halves of a character of UTF-16 or the bytes of one of
UTF-8. Half a character alone has no bytes in UTF-8: U+FFFD stands in its place, and is counted.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import Final

FIRST_HALF: Final = ("\ud800", "\udbff")
SURROGATES: Final = ("\ud800", "\udfff")
OF_BYTES: Final = 0xDC00  # how Python writes a byte that is no UTF-8: this and its number
REPLACEMENT: Final = "\ufffd".encode()


@dataclass(slots=True)
class Said:
    """What was said so far: `data` are its bytes, `replaced` is how many halves stood alone."""

    data: bytearray = field(default_factory=bytearray)
    chars: int = 0
    replaced: int = 0
    _half: str = ""
    _shown: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def add(self, piece: str, *, is_raw: bool = False) -> str:
        """Take a piece, and return what a reader can be shown now.

        One that is raw was decoded with `surrogateescape`: its surrogates are bytes that are no UTF-8.
        """
        if not is_raw:
            piece, self._half = self._half + piece, ""
            if piece and FIRST_HALF[0] <= piece[-1] <= FIRST_HALF[1]:
                piece, self._half = piece[:-1], piece[-1]
        return self._take(piece, is_raw=is_raw)

    def end(self) -> str:
        """Take it as ended, and return what is left to be shown."""
        half, self._half = self._half, ""
        left = self._take(half) + self._shown.decode(b"", final=True)
        return left

    def _take(self, piece: str, *, is_raw: bool = False) -> str:
        data = self._bytes(piece, is_raw=is_raw)
        self.data += data
        shown = self._shown.decode(data)
        self.chars += len(shown)
        return shown

    def _bytes(self, piece: str, *, is_raw: bool) -> bytes:
        try:
            return piece.encode()
        except UnicodeEncodeError:
            pass
        if is_raw:
            return b"".join(self._byte(each) for each in piece)
        joined = piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return b"".join(self._char(each) for each in joined)

    def _byte(self, char: str) -> bytes:
        code = ord(char) - OF_BYTES
        return bytes((code,)) if 0x80 <= code <= 0xFF else self._char(char)

    def _char(self, char: str) -> bytes:
        if SURROGATES[0] <= char <= SURROGATES[1]:
            self.replaced += 1
            return REPLACEMENT
        return char.encode()
