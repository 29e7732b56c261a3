"""Stands in for the control plane: answers /readyz, and /environment with what it was given."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path == "/environment":
            self.wfile.write(json.dumps(dict(os.environ)).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing: nobody reads it."""


port = int(sys.argv[sys.argv.index("--port") + 1])
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
