"""How a command asks a control plane, and how it ends when that does not work."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import typer

EXIT_FAILED: Final = 1
EXIT_WRONG_USE: Final = 2
EXIT_UNREACHABLE: Final = 3

URL_DEFAULT: Final = "http://127.0.0.1:8700"
ANSWER_S: Final = 30.0
PAGE: Final = 200
PAGES_MAX: Final = 50


def fail(message: str, status: int) -> NoReturn:
    """Say what is wrong and end the command with `status`."""
    print(message, file=sys.stderr)
    raise typer.Exit(status)


@dataclass(frozen=True, slots=True)
class Client:
    """One control plane; whatever it refuses ends the command."""

    url: str
    key: str | None = field(default=None, repr=False)

    def get(self, path: str, **parameters: str | int) -> dict[str, Any]:
        """Return the answer to a question."""
        return self._ask("GET", path, parameters=parameters)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to an order."""
        return self._ask("POST", path, body=body)

    def items(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page, the newest first."""
        after: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            page = self.get(path, limit=PAGE, **after)
            yield from page["items"]
            if page["next"] is None:
                return
            after = {"after": page["next"]}

    def _ask(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        import httpx

        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            response = httpx.request(
                method, self.url + path, params=parameters, json=body, headers=headers, timeout=ANSWER_S
            )
            answer = response.json()
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            fail(f"CONTROL_PLANE_URL is {self.url!r}: {error}", EXIT_WRONG_USE)
        except httpx.HTTPError as error:
            name = type(error).__name__
            fail(f"no control plane at {self.url} ({name}); start one with `podfleet up`", EXIT_UNREACHABLE)
        except ValueError:
            fail(f"what answers at {self.url} is no control plane", EXIT_UNREACHABLE)
        if not isinstance(answer, dict):
            fail(f"what answers at {self.url} is no control plane", EXIT_UNREACHABLE)
        if response.is_error:
            fail(f"{response.status_code}: {answer.get('detail', response.text)}", EXIT_FAILED)
        return answer


def client() -> Client:
    """Return the control plane that the environment names."""
    from control_plane.embedded.config import environment

    variables = environment(Path.cwd())
    url = variables.get("CONTROL_PLANE_URL") or URL_DEFAULT
    return Client(url.rstrip("/"), variables.get("PODFLEET_API_KEY"))
