"""`python -m testing.engine_double.ollama serve`: a double of Ollama, after the documentation of its API.

It listens at OLLAMA_HOST, has the models that are files in OLLAMA_MODELS, and pulls any but those called
`unheard...`. It says `word1 word2 ...`, and times of its own: 10 ms to load, 20 ms to read, 5 ms a token.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

MS: Final = 1_000_000  # nanoseconds
BODY_BYTES_MAX: Final = 1 << 20
LIBRARY: Final = Path(os.environ.get("OLLAMA_MODELS", "."))


class _Answers(BaseHTTPRequestHandler):
    """Answers one request; a stream ends with its connection."""

    def do_GET(self) -> None:
        self._say(200, {"version": "0.0.0", "object": "list", "data": []})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(min(int(self.headers["content-length"]), BODY_BYTES_MAX)))
        model = str(asked["model"])
        file = LIBRARY / model.replace("/", "_")
        if self.path == "/api/pull":
            self._pull(model, file)
        elif not file.exists():
            self._say(404, {"error": f"model '{model}' not found"})
        elif self.path == "/api/show":
            self._say(200, {"details": {"format": "gguf"}})
        elif self.path == "/api/chat":
            self._chat(asked["options"]["num_predict"])
        else:
            self._say(404, {"error": "404 page not found"})

    def _pull(self, model: str, file: Path) -> None:
        lines: list[dict[str, Any]] = [{"status": "pulling manifest"}]
        if model.startswith("unheard"):
            lines.append({"error": "pull model manifest: file does not exist"})
        else:
            lines += [{"status": "pulling 6a0746a1", "total": 200, "completed": each} for each in (50, 200)]
            lines += [{"status": "verifying sha256 digest"}, {"status": "success"}]
            file.touch()
        self._say(200, *lines)

    def _chat(self, tokens: int) -> None:
        said = [f"word{number} " for number in range(1, tokens + 1)]
        lines = [{"message": {"role": "assistant", "content": each}, "done": False} for each in said]
        end = {
            "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "length",
            "load_duration": 10 * MS, "prompt_eval_count": 7, "prompt_eval_duration": 20 * MS,
            "eval_count": tokens, "eval_duration": 5 * MS * tokens,
        }  # fmt: skip
        self._say(200, *lines, end)

    def _say(self, status: int, *lines: dict[str, Any]) -> None:
        self.send_response(status)
        self.end_headers()
        for line in lines:
            self.wfile.write(json.dumps(line).encode() + b"\n")

    def log_message(self, *_: object) -> None:
        """Write no log."""


if __name__ == "__main__":
    host, _, port = os.environ["OLLAMA_HOST"].partition(":")
    print(f"ollama {sys.argv[1]}: {host}:{port}", flush=True)
    ThreadingHTTPServer((host, int(port)), _Answers).serve_forever()
