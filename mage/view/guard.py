"""Access control of the viewer: checks hosts, origins and tokens, and sets strict headers on every response.

Every request needs a token, new at each start: other users of this machine can reach the server, and other machines can
where it listens on another address than loopback. The printed URL has the token; the first page puts it into a cookie.
A page of another site that is open in the browser can send requests here. It cannot read the responses, and requests
that act need the token in a header too, which only our own pages can send. Host names of other sites that resolve to
this address (DNS rebinding) are refused.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
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
_NO_TOKEN = "the token of this start is missing or old; open the address that mage view printed, which has it"


class Access(msgspec.Struct, frozen=True):
    """The access rights at one start of the server."""

    host: str
    """The address that the server listens on."""
    token: str
    """The secret of this start."""

    def knows(self, host: str) -> bool:
        """Whether a host name in a request is one of this server's."""
        if host in ("localhost", "127.0.0.1", "::1", self.host.casefold()):
            return True
        return self.host in _ANYWHERE and (_is_address(host) or host == socket.gethostname().casefold())


def new_access(host: str) -> Access:
    """The access rights of a server that listens on `host`, with a new token."""
    return Access(host, secrets.token_urlsafe(24))


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
        if scope["method"] not in _READING:
            return self._check_action(headers)
        return self._check_token(scope, headers)

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Require the token, in the query, a header or a cookie; the printed URL sets the cookie and leads on."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN_QUERY, [""])[0]
        if scope["path"] == "/" and self._is_token(given):
            answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
            answer.set_cookie(_cookie_name(headers), self._access.token, httponly=True, samesite="lax")
            return answer
        sent = (given, headers.get(TOKEN_HEADER, ""), _cookie(headers, _cookie_name(headers)))
        if any(self._is_token(each) for each in sent):
            return None
        if scope["path"].startswith("/api"):
            return refusal(HTTPStatus.FORBIDDEN, f"{_NO_TOKEN}, or send it as X-Mage-Token or ?token=")
        return PlainTextResponse(f"mage view: {_NO_TOKEN}.\n", HTTPStatus.FORBIDDEN)

    def _check_action(self, headers: Headers) -> Response | None:
        """Refuse a request that acts unless it comes from our own page and has the token."""
        if headers.get("origin", "") not in (f"{scheme}://{headers['host']}" for scheme in ("http", "https")):
            return refusal(HTTPStatus.FORBIDDEN, "a request from another origin cannot act here")
        if not self._is_token(headers.get(TOKEN_HEADER, "")):
            return refusal(HTTPStatus.FORBIDDEN, _NO_TOKEN)
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


def _cookie_name(headers: Headers) -> str:
    """The name of the token's cookie; it differs by port, because all ports of a host share cookies.

    >>> _cookie_name(Headers({"host": "localhost:8765"})), _cookie_name(Headers({"host": "[::1]"}))
    ('mage-view-8765', 'mage-view-80')
    """
    port = headers.get("host", "").rpartition(":")[2]
    return f"mage-view-{port if port.isdecimal() else 80}"


def _cookie(headers: Headers, name: str) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""
