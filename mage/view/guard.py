"""Access control of the viewer: checks hosts, origins and tokens, and sets strict headers on every response.

A page of another site that is open in the browser can send requests here. It cannot read the responses, and requests
that act need a token, new at each start, which only our own pages get. Host names of other sites that resolve to this
address (DNS rebinding) are refused.
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
    """The access rights at one start of the server."""

    host: str
    """The address that the server listens on."""
    token: str
    """The secret of this start."""
    is_open: bool
    """Whether reading needs no token: only if the server is reachable from this machine alone."""

    @property
    def cookie(self) -> str:
        """The name of the token's cookie; it differs by token, because all ports of a host share cookies."""
        return f"mage-view-{hashlib.sha256(self.token.encode()).hexdigest()[:8]}"

    def knows(self, host: str) -> bool:
        """Whether a host name in a request is one of this server's."""
        if host in ("localhost", "127.0.0.1", "::1", self.host.casefold()):
            return True
        return self.host in _ANYWHERE and (_is_address(host) or host == socket.gethostname().casefold())


def new_access(host: str) -> Access:
    """The access rights of a server that listens on `host`, with a new token."""
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
            answer = self._refuse_or_redirect(scope)
            await (self._app if answer is None else answer)(scope, receive, _with_headers(send))

    def _refuse_or_redirect(self, scope: Scope) -> Response | None:
        """The response to a request that does not reach the app; None if it may."""
        headers = Headers(scope=scope)
        host = _host_name(headers.get("host", ""))
        if host is None or not self._access.knows(host):
            return refusal(HTTPStatus.FORBIDDEN, "this server is not known by that name; open the address it printed")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _is_navigation(scope, headers):
            return refusal(HTTPStatus.FORBIDDEN, "a request from another site was refused")
        if not self._access.is_open:
            answer = self._check_token(scope, headers)
            if answer is not None:
                return answer
        return None if scope["method"] in _READING else self._check_action(headers)

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Require the token, in a cookie, a header or the first URL: other machines can reach the server."""
        if self._is_token(headers.get(TOKEN_HEADER, "")) or self._is_token(_cookie(headers, self._access.cookie)):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN_QUERY, [""])[0]
        if scope["method"] not in _READING or not self._is_token(given):
            return refusal(HTTPStatus.UNAUTHORIZED, "open the address that mage view printed: it has a token in it")
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        answer.set_cookie(self._access.cookie, self._access.token, httponly=True, samesite="strict")
        return answer

    def _check_action(self, headers: Headers) -> Response | None:
        """Refuse a request that acts unless it comes from our own page and has the token."""
        if headers.get("origin", "") not in (f"{scheme}://{headers['host']}" for scheme in ("http", "https")):
            return refusal(HTTPStatus.FORBIDDEN, "a request from another origin cannot act here")
        if not self._is_token(headers.get(TOKEN_HEADER, "")):
            return refusal(HTTPStatus.FORBIDDEN, "the token of this start is missing or old; load the page again")
        return None

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._access.token.encode())


def refusal(status: HTTPStatus, why: str) -> Response:
    """An error response with one line on why."""
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


def _is_navigation(scope: Scope, headers: Headers) -> bool:
    """Whether a request follows a link to one of our pages, which reveals nothing to the linking site."""
    is_page = scope["method"] in _READING and not scope["path"].startswith("/api")
    return is_page and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _host_name(header: str) -> str | None:
    """The name in a Host header without its port; None if it is malformed."""
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
