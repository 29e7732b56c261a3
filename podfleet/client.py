"""The HTTP client of the commands, and the exit status of each failure."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

import typer

from events.runtime.access import URL_DEFAULT
from events.runtime.errors import ConfigError
from podfleet.output import clean_lines

EXIT_FAILED: Final = 1
EXIT_WRONG_USE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_INTERRUPTED: Final = 130

ANSWER_S: Final = 30.0
NOT_FOUND: Final = 404
NO_ROUTE: Final = "http"  # the code of a problem that no part of the program gave its own
PAGE: Final = 200
PAGES_MAX: Final = 50
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

# What the server refuses because it was asked for the wrong thing, rather than at the wrong time.
MISUSED: Final = frozenset({400, 413, 415, 422})
# What a person does next; the first that fits, by the code of the problem or by the status.
NEXT_STEPS: Final[Mapping[str | int, str]] = {
    "unknown_kind": "`podfleet kinds list` shows those that there are",
    "unknown_run": "`podfleet runs list` shows the runs that there are",
    "unknown_hypothesis": "`podfleet hypotheses list` shows those that there are",
    "unknown_schedule": "`podfleet schedules list` shows those that there are",
    "unknown_artifact": "`podfleet artifacts list RUN` shows those of a run",
    "unknown_pod": "`podfleet pods list` shows those that there are",
    "schedule_exists": "choose another id, or remove that one with `podfleet schedules remove`",
    "idempotency_conflict": "take a new key for another run, or submit the same as before",
    401: "set PODFLEET_API_KEY beside CONTROL_PLANE_URL, both in the environment or both in .env, "
    "to a key of this control plane; in the folder of `podfleet up` none is needed",
    403: "ask for a key that may do this; `podfleet config show` says which one is sent",
    409: "`podfleet runs show ID` says how it stands",
    429: "wait a moment and try again",
    500: "the control plane's log says more; `podfleet doctor` looks at what it stands on",
    503: "wait a moment and try again; `podfleet doctor` says what is missing",
}

# Says something of one file, and nothing of the others.
WITHHELD: Final = frozenset({"object_unfit", "object_unread", "unknown_artifact", "bad_key"})


def fail(message: str, status: int) -> NoReturn:
    """Say what is wrong and end the command with `status`."""
    print(clean_lines(message), file=sys.stderr)
    raise typer.Exit(status)


class Unreachable(Exception):
    """Nobody answers, or it is no control plane that does; the text says so to a person."""


class Withheld(Exception):
    """A file is not handed out; `code` is the server's, the text says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Client:
    """One control plane; whatever it refuses ends the command."""

    url: str
    key: str | None = field(default=None, repr=False)
    _open: dict[str, Any] = field(default_factory=dict, repr=False)

    def get(self, path: str, **parameters: str | int | Sequence[str] | None) -> dict[str, Any]:
        """Return the answer to a question; parameters that are None are not asked."""
        return self._answer("GET", path, parameters=parameters)

    def get_if_known(self, path: str) -> dict[str, Any] | None:
        """Return the answer to a question; None where the control plane is too old to know it."""
        try:
            response = self._request("GET", path)
            answer = self._read(response)
        except Unreachable as error:
            fail(str(error), EXIT_UNREACHABLE)
        if response.status_code == NOT_FOUND and answer.get("code") in (None, NO_ROUTE):
            return None
        if response.is_error:
            self.refuse(response.status_code, answer)
        return answer

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **parameters: str,
    ) -> dict[str, Any]:
        """Return the answer to an order."""
        return self._answer("POST", path, parameters=parameters, body=body, headers=headers)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what became of a change."""
        return self._answer("PATCH", path, body=body)

    def delete(self, path: str) -> None:
        """Remove something."""
        self._answer("DELETE", path)

    def items(self, path: str, **parameters: str | int | None) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page, the newest first."""
        after: str | None = None
        for _ in range(PAGES_MAX):
            page = self.get(path, **{"limit": PAGE, **parameters, "after": after})
            if not {"items", "next"} <= page.keys():
                fail(self._foreign(), EXIT_UNREACHABLE)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def lines(self, path: str, **parameters: str | int | None) -> Iterator[str]:
        """Yield the lines of an answer of any length."""
        import httpx

        wanted = {name: value for name, value in parameters.items() if value is not None}
        try:
            with self.http().stream("GET", path, params=wanted) as response:
                if response.is_error:
                    response.read()
                    self.refuse(response.status_code, self._read(response))
                yield from response.iter_lines()
        except Unreachable as error:
            fail(str(error), EXIT_UNREACHABLE)
        except httpx.HTTPError as error:
            fail(self.silent(error), EXIT_UNREACHABLE)

    def http(self) -> Any:
        """Return the open connection, with the key."""
        if "http" not in self._open:
            import ssl

            import httpx

            headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
            # without TLS nobody is trusted, and to read the certificates of all authorities takes 30 ms
            is_plain = self.is_near(self.url) and urlsplit(self.url).scheme == "http"
            self._open["http"] = httpx.Client(
                base_url=self.url,
                headers=headers,
                timeout=ANSWER_S,
                trust_env=not self.is_near(self.url),
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
            )
            weakref.finalize(self, self._open["http"].close)
        return self._open["http"]

    @staticmethod
    def is_near(url: str) -> bool:
        """Say whether an address is on this machine, to which no proxy leads."""
        return urlsplit(url).hostname in LOOPBACK

    def location(self, path: str) -> str:
        """Return where the server sends whoever asks for `path`. Raises `Withheld` where it does not."""
        try:
            response = self._request("GET", path)
            problem = self._read(response) if response.is_error else {}
        except Unreachable as error:
            fail(str(error), EXIT_UNREACHABLE)
        if problem.get("code") in WITHHELD:
            raise Withheld(problem["code"], str(problem.get("detail", "refused")))
        if response.is_error:
            self.refuse(response.status_code, problem)
        return str(response.headers.get("location", ""))

    def try_get(self, path: str, **parameters: str | int | None) -> dict[str, Any]:
        """Return the answer to a question. Raises `Unreachable` where nobody answers."""
        return self._ask("GET", path, parameters=parameters)

    def _answer(self, method: str, path: str, **parts: Any) -> dict[str, Any]:
        try:
            return self._ask(method, path, **parts)
        except Unreachable as error:
            fail(str(error), EXIT_UNREACHABLE)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str | int | Sequence[str] | None] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        wanted = {name: value for name, value in (parameters or {}).items() if value is not None}
        response = self._request(method, path, params=wanted, json=body, headers=headers)
        answer = self._read(response)
        if response.is_error:
            self.refuse(response.status_code, answer)
        return answer

    def _request(self, method: str, path: str, **parts: Any) -> Any:
        import httpx

        try:
            return self.http().request(method, path, **parts)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            fail(
                f"CONTROL_PLANE_URL is {shown(self.url)!r}: {error}; it is like {URL_DEFAULT}", EXIT_WRONG_USE
            )
        except httpx.HTTPError as error:
            raise Unreachable(self.silent(error)) from error

    def _read(self, response: Any) -> dict[str, Any]:
        try:
            answer = response.json() if response.content or response.is_error else {}
        except ValueError as error:
            raise Unreachable(self._foreign()) from error
        if not isinstance(answer, dict) or not is_list(answer.get("items", [])):
            raise Unreachable(self._foreign())
        return answer

    def refuse(self, status: int, problem: Mapping[str, Any]) -> NoReturn:
        """End the command with what the server says, and what to do next."""
        message = f"{status}: {problem.get('detail', 'refused')}"
        step = NEXT_STEPS.get(str(problem.get("code"))) or NEXT_STEPS.get(status)
        fail(f"{message}\n{step}" if step else message, EXIT_WRONG_USE if status in MISUSED else EXIT_FAILED)

    def silent(self, error: Exception) -> str:
        """Return what to say where nobody answers."""
        return (
            f"no control plane at {shown(self.url)} ({type(error).__name__}); start one with `podfleet up`, "
            "or set CONTROL_PLANE_URL; `podfleet doctor` looks closer"
        )

    def _foreign(self) -> str:
        return f"what answers at {shown(self.url)} is no control plane; CONTROL_PLANE_URL says where to look"


def shown(url: str) -> str:
    """Return an address without the password that it may hold."""
    from podfleet.config import masked

    return masked("", url)


def is_list(items: object) -> bool:
    """Say whether an answer's items are what every list of the API holds."""
    return isinstance(items, list) and all(isinstance(each, dict) for each in items)


def client() -> Client:
    """Return the control plane that the environment names, else the one that runs in this folder."""
    from podfleet.embedded.config import found_access

    try:
        found = found_access(Path.cwd())
    except ConfigError as error:
        fail(error.message, EXIT_WRONG_USE)
    try:
        urlsplit(found.url)
    except ValueError as error:
        fail(f"CONTROL_PLANE_URL is {shown(found.url)!r}: {error}; it is like {URL_DEFAULT}", EXIT_WRONG_USE)
    return Client(found.url, found.key)
