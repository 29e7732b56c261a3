"""What an answer has to be beside what Schemathesis asks by itself; loaded by Schemathesis."""

from __future__ import annotations

import re
from typing import Any, Final

import httpx
import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response
from schemathesis.openapi.checks import IgnoredAuth
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from control_plane.runs.claiming import WAIT_MAX_S

UNREADABLE: Final = frozenset({"bad_json", "not_an_object", "bad_attribute"})
RULE: Final = "Value error, "  # begins what a check of ours says, beyond what a schema can
WAIT_SHARE: Final = 1 / 100
NUMBER: Final = re.compile(r"\d{1,3}(\.\d*)?")


@schemathesis.hook
def before_call(_: HookContext, case: Case[Any], __: dict[str, Any]) -> None:
    """Shorten the wait of what may wait for a run: none comes, and nothing else would be tried."""
    if case.operation.path == "/api/claims" and isinstance(case.body, dict):
        _shorten(case.body)
    elif case.operation.path == "/api/wakeups" and isinstance(case.query, dict):
        case.query.setdefault("wait_s", WAIT_MAX_S)
        _shorten(case.query)


def _shorten(given: dict[str, Any]) -> None:
    wait_s = given.get("wait_s")
    if isinstance(wait_s, str) and NUMBER.fullmatch(wait_s):  # as a query has it
        wait_s = float(wait_s)
    if isinstance(wait_s, int | float) and not isinstance(wait_s, bool) and 0 <= wait_s <= WAIT_MAX_S:
        given["wait_s"] = wait_s * WAIT_SHARE


@schemathesis.check
def honest_data_is_read(ctx: CheckContext, response: Response, case: Case[Any]) -> bool | None:
    """Refuse that what the document allows is not even understood; a refusal in words is an answer."""
    if response.status_code in (400, 412, 422) and _is_refused_in_words(response.json()):
        return None
    return positive_data_acceptance(ctx, response, case)


def _is_refused_in_words(body: dict[str, Any]) -> bool:
    if "rejected" in body:
        # CloudEvents' integer is 1, never 1.0 or 1e0; to a schema they are one number
        lines = (line for line in body["rejected"] if "integer" not in line["message"])
        return not any(line["code"] in UNREADABLE for line in lines)
    if body["code"] == "invalid":
        return all(field["message"].startswith(RULE) for field in body["fields"])
    return body["code"] not in UNREADABLE


@schemathesis.check
def a_key_is_asked_for(ctx: CheckContext, response: Response, case: Case[Any]) -> bool | None:
    """Refuse that anything opens without a key, or by a wrong one; 429 is an answer to many wrong ones."""
    try:
        return ignored_auth(ctx, response, case)
    except IgnoredAuth as failure:
        if f"{httpx.codes.TOO_MANY_REQUESTS:d}" in failure.message:
            return None
        raise


@schemathesis.check
def nothing_is_given_away(ctx: CheckContext, response: Response, case: Case[Any]) -> bool | None:
    """Refuse tracebacks, paths of the server, and names of what it is made of."""
    answer = (response.content or b"") + repr(response.headers).encode()
    for word in (b"Traceback", b"/site-packages/", b"pymongo", b"mongodb://", b"uvicorn", b"starlette"):
        assert word not in answer, word
    return None
