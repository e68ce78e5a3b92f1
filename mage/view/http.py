"""JSON responses, parsing of requests, and error responses of one line with a status."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mage.errors import ConfigError, MageError, RecordError
from mage.files import BAD_JSON
from mage.view.guard import refusal
from mage.view.read.folder import NotFoundError, one_line

MAX_BODY = 64 * 1024


class JsonResponse(Response):
    """Any value that msgspec can encode; nan and infinity become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else msgspec.json.encode(content)


def on_error(request: Request, error: Exception) -> Response:
    """The response to an error raised on purpose, or to a file that cannot be read."""
    if isinstance(error, OSError):
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, one_line(f"a file cannot be read: {error.strerror or error}"))
    status = HTTPStatus.CONFLICT
    if isinstance(error, NotFoundError):
        status = HTTPStatus.NOT_FOUND
    elif isinstance(error, ConfigError):
        status = HTTPStatus.BAD_REQUEST
    elif isinstance(error, RecordError):
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    return refusal(status, one_line(error))


def query_int(request: Request, name: str, default: int, least: int = 0) -> int:
    """A whole number in the query."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.removeprefix("-").isdecimal() or len(text) > 12 or int(text) < least:
        raise ConfigError(f"{name} = {text[:40]!r}: give a whole number from {least}")
    return int(text)


def text_or_none(request: Request, name: str) -> str | None:
    """A text in the query; None where it is missing or empty."""
    return request.query_params.get(name) or None


def path_int(request: Request, name: str) -> int:
    """A whole number in the path."""
    text = str(request.path_params[name])
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        raise NotFoundError(f"{text[:40]!r} is not the number of a trial")
    return int(text)


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that was sent."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ConfigError("send JSON, with the content type application/json")
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY:
            raise ConfigError(f"send {MAX_BODY} bytes at most")
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except BAD_JSON as error:
        raise ConfigError(f"what was sent is not a JSON object: {error}") from None


def on_http_error(request: Request, error: Exception) -> Response:
    """The response to an unknown path or method."""
    assert isinstance(error, HTTPException)
    return refusal(HTTPStatus(error.status_code), error.detail)


def on_crash(request: Request, error: Exception) -> Response:
    """The response to an unexpected error; the traceback is in the terminal."""
    return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "something went wrong; the terminal of mage view says what")


ERRORS = {
    MageError: on_error,
    OSError: on_error,
    HTTPException: on_http_error,
    Exception: on_crash,
}
