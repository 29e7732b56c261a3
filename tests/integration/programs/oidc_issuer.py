"""An OpenID provider on loopback that follows the standard, and lies where a test tells it to.

    with OidcIssuer() as issuer:
        issuer.url            # PODFLEET_OIDC_ISSUER
        issuer.user = {...}   # the claims of whoever signs in next, without a question
        issuer.lie = ...      # changes the claims and the header of an ID token
        issuer.refreshed      # refresh tokens that were spent, in order; each may be spent once

Codes are for once; PKCE, the redirect URI and the client's secret are checked; a refresh token that is
spent twice ends its family, as RFC 9700 says.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwk, jws

CLIENT: Final = "podfleet of the test"
CLIENT_SECRET: Final = "a+secret/of the:client"
Claims = dict[str, Any]


class OidcIssuer:
    """One issuer, its users and its tokens."""

    def __init__(self) -> None:
        self.key = jwk.RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})
        self.foreign = jwk.RSAKey.generate_key(2048, {"kid": "first"})
        self.published: list[Any] = [self.key]
        self.user: Claims = {"sub": "7", "email": "ada@example.com", "email_verified": True}
        self.life_s = 300
        self.refreshing_s = 0.0  # how long a refresh takes
        self.lie: Callable[[Claims], None] = lambda claims: None
        self.sign: Callable[[Claims], str] = self.signed
        self.odd: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}  # by path
        self.codes: dict[str, Claims] = {}
        self.families: dict[str, Claims] = {}  # by the refresh token that may be spent
        self.refreshed: list[str] = []
        self.access: list[str] = []
        self.revoked: list[str] = []
        self.ended: set[int] = set()
        self.key_requests = 0
        self._count = 0
        self._lock = threading.Lock()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                issuer.answer(self, {name: each[0] for name, each in parse_qs(body).items()})

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def settings(self) -> dict[str, str]:
        return {
            "PODFLEET_OIDC_ISSUER": self.url,
            "PODFLEET_OIDC_CLIENT_ID": CLIENT,
            "PODFLEET_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "PODFLEET_OIDC_ROLES": "email:ada@example.com=operator, groups:admins=admin, sub:reader=viewer",
            "PODFLEET_PUBLIC_URL": "http://localhost:8700",
        }

    def signed(self, claims: Claims, **header: Any) -> str:
        return jws.serialize_compact({"alg": "RS256", "kid": "first", **header}, json.dumps(claims), self.key)

    def answer(self, request: BaseHTTPRequestHandler, form: dict[str, str]) -> None:
        parts = urlsplit(request.path)
        query = {name: each[0] for name, each in parse_qs(parts.query).items()}
        if odd := self.odd.get(parts.path):
            odd(request)
            return
        found: tuple[int, Any]
        if parts.path == "/.well-known/openid-configuration":
            found = (200, self.said())
        elif parts.path == "/keys":
            self.key_requests += 1
            found = (200, {"keys": [each.as_dict(private=False) for each in self.published]})
        elif parts.path == "/authorize":
            place = self.authorize(query)
            request.send_response(302)
            request.send_header("location", place)
            request.end_headers()
            return
        elif parts.path in ("/token", "/revoke") and not self.is_client(request):
            found = (401, {"error": "invalid_client"})
        elif parts.path == "/token":
            found = self.token(form)
        elif parts.path == "/revoke":
            self.revoked.append(form["token"])
            self.families.pop(form["token"], None)
            found = (200, {})
        else:
            found = (404, {})
        send(request, *found)

    def said(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            **{f"{name}_endpoint": f"{self.url}/{path}" for name, path in
               (("authorization", "authorize"), ("token", "token"), ("revocation", "revoke"))},
            "jwks_uri": f"{self.url}/keys",
            "authorization_response_iss_parameter_supported": True,
        }  # fmt: skip

    def is_client(self, request: BaseHTTPRequestHandler) -> bool:
        _, _, basic = request.headers.get("authorization", "").partition(" ")
        name, _, secret = base64.b64decode(basic).decode().partition(":")
        return (unquote(name), unquote(secret)) == (CLIENT, CLIENT_SECRET)

    def authorize(self, query: dict[str, str]) -> str:
        assert query["response_type"] == "code", query
        assert query["client_id"] == CLIENT, query
        assert query["code_challenge_method"] == "S256", query
        code = self.new("code")
        self.codes[code] = {**query, "user": dict(self.user)}
        back = {"code": code, "state": query["state"], "iss": self.url}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def token(self, form: dict[str, str]) -> tuple[int, Any]:
        with self._lock:
            if form["grant_type"] == "authorization_code":
                asked = self.codes.pop(form["code"], None)
                given = hashlib.sha256(form["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(given).rstrip(b"=").decode()
                if asked is None or asked["code_challenge"] != challenge:
                    return 400, {"error": "invalid_grant"}
                if asked["redirect_uri"] != form["redirect_uri"]:
                    return 400, {"error": "invalid_grant"}
                asked["family"] = self._count
            else:
                asked = self.families.pop(form["refresh_token"], None)
                if asked is None or asked["family"] in self.ended:
                    for token, each in list(self.families.items()):  # a token that was spent: its family ends
                        if form["refresh_token"].startswith(f"refresh-{each['family']}-"):
                            del self.families[token]
                    return 400, {"error": "invalid_grant"}
                self.refreshed.append(form["refresh_token"])
            refresh, access = self.new(f"refresh-{asked['family']}"), self.new("access-of-the-user")
            self.families[refresh] = asked
            self.access.append(access)
        if form["grant_type"] == "refresh_token":
            time.sleep(self.refreshing_s)
        now = int(time.time())
        own = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims: Claims = {**asked["user"], **own}
        self.lie(claims)
        return 200, {
            "access_token": access, "token_type": "Bearer", "expires_in": self.life_s,
            "refresh_token": refresh, "id_token": self.sign(claims),
        }  # fmt: skip

    def new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}-{hashlib.sha256(f'{id(self)}{self._count}'.encode()).hexdigest()[:20]}"


def send(request: BaseHTTPRequestHandler, status: int, body: Any) -> None:
    content = json.dumps(body).encode()
    request.send_response(status)
    request.send_header("content-type", "application/json")
    request.send_header("content-length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)
