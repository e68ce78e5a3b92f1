"""Who may ask: hosts, origins and keys are checked before anything else, and every answer carries strict headers.

A page of another site that somebody has open can send requests here. It cannot read the answers, and what acts needs
the token of this start, which only our own pages are given. A name of another site that leads to this address (DNS
rebinding) is refused by its name.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER = "x-mage-token"
TOKEN_QUERY = "token"
_READING = ("GET", "HEAD")
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": _CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_ANYWHERE = ("0.0.0.0", "::")


class Access(msgspec.Struct, frozen=True):
    """Who may ask at one start of the server."""

    host: str
    """The address that it listens on."""
    token: str
    """The secret of this start."""
    is_open: bool
    """Whether reading needs no token: only where nobody but this machine can ask."""

    @property
    def cookie(self) -> str:
        """The name of the cookie that holds the token: cookies of one host are shared by all its ports."""
        return f"mage-view-{hashlib.sha256(self.token.encode()).hexdigest()[:8]}"

    def knows(self, host: str) -> bool:
        """Whether a name by which the server was called is one of its own."""
        if host in ("localhost", "127.0.0.1", "::1", self.host.casefold()):
            return True
        return self.host in _ANYWHERE and (_is_address(host) or host == socket.gethostname().casefold())


def new_access(host: str) -> Access:
    """The access of a server that listens on `host`, with a fresh token."""
    return Access(host, secrets.token_urlsafe(24), is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


class Guard:
    """An ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._answered(scope)
            await (self._app if answer is None else answer)(scope, receive, _with_headers(send))

    def _answered(self, scope: Scope) -> Response | None:
        """What is answered at once, without asking the app."""
        headers = Headers(scope=scope)
        host = _host_name(headers.get("host", ""))
        if host is None or not self._access.knows(host):
            return refused(HTTPStatus.FORBIDDEN, "this server is not known by that name; open the address it printed")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _is_visit(scope, headers):
            return refused(HTTPStatus.FORBIDDEN, "a request from another site was refused")
        if not self._access.is_open:
            answer = self._keyed(scope, headers)
            if answer is not None:
                return answer
        return None if scope["method"] in _READING else self._acting(headers)

    def _keyed(self, scope: Scope, headers: Headers) -> Response | None:
        """Where others can reach this address, everything needs the token: in a cookie, a header or the first URL."""
        if self._is_token(headers.get(TOKEN_HEADER, "")) or self._is_token(_cookie(headers, self._access.cookie)):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN_QUERY, [""])[0]
        if scope["method"] not in _READING or not self._is_token(given):
            return refused(HTTPStatus.UNAUTHORIZED, "open the address that mage view printed: it has a token in it")
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        answer.set_cookie(self._access.cookie, self._access.token, httponly=True, samesite="strict")
        return answer

    def _acting(self, headers: Headers) -> Response | None:
        """A request that acts comes from our own page and carries the token."""
        if headers.get("origin", "") not in (f"{scheme}://{headers['host']}" for scheme in ("http", "https")):
            return refused(HTTPStatus.FORBIDDEN, "a request from another origin cannot act here")
        if not self._is_token(headers.get(TOKEN_HEADER, "")):
            return refused(HTTPStatus.FORBIDDEN, "the token of this start is missing or old; load the page again")
        return None

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._access.token.encode())


def refused(status: HTTPStatus, why: str) -> Response:
    """An answer that is no data: one line on why."""
    return Response(msgspec.json.encode({"error": why}), status, media_type="application/json")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


def _is_visit(scope: Scope, headers: Headers) -> bool:
    """Whether somebody follows a link to one of our pages: those show nothing to the site that the link is on."""
    is_page = scope["method"] in _READING and not scope["path"].startswith("/api")
    return is_page and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _host_name(header: str) -> str | None:
    """The name in a Host header, less its port; None where there is no sense in it."""
    name, _, port = header.rpartition(":") if not header.endswith("]") and ":" in header else (header, "", "0")
    if not name or not port.isdecimal() or "@" in name or "/" in name:
        return None
    return name.removeprefix("[").removesuffix("]").casefold()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _cookie(headers: Headers, name: str) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""
