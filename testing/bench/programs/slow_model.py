"""`python -m testing.bench.programs.slow_model SECONDS`: a server of models that answers so late.

It prints its port, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

BODY: Final = (
    b'{"id":"a","object":"chat.completion","created":1,"model":"bench","choices":[{"index":0,"finish_reason":"stop",'
    b'"message":{"role":"assistant","content":"Answer: 42"}}],'
    b'"usage":{"prompt_tokens":20,"completion_tokens":4,"total_tokens":24}}'
)
ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
    + str(len(BODY)).encode()
    + b"\r\n\r\n"
    + BODY
)
LENGTH: Final = b"content-length:"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late_s: float) -> None:
    """Answer the requests of one connection until it is closed."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next((int(each.split(b":")[1]) for each in lines if each.startswith(LENGTH)), 0)
            await reader.readexactly(length)
            await asyncio.sleep(late_s)
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(late_s: float) -> None:
    """Serve until nobody listens any more."""
    server = await asyncio.start_server(
        lambda reader, writer: answer(reader, writer, late_s), "127.0.0.1", 0, backlog=256
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
