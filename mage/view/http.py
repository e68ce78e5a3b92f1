"""Answers as JSON, and questions read from requests: whatever is wrong with one is one line and a status of its own."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mage.errors import ConfigError, MageError, RecordError
from mage.view.guard import refused
from mage.view.read.folder import NotFoundError, one_line

MAX_BODY = 64 * 1024


class JsonResponse(Response):
    """Any value that msgspec can write; what is not a number is null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else msgspec.json.encode(content)


def failed(request: Request, error: Exception) -> Response:
    """What is answered when something was wrong on purpose, or a file could not be read."""
    if isinstance(error, OSError):
        return refused(HTTPStatus.INTERNAL_SERVER_ERROR, one_line(f"a file cannot be read: {error.strerror or error}"))
    status = HTTPStatus.CONFLICT
    if isinstance(error, NotFoundError):
        status = HTTPStatus.NOT_FOUND
    elif isinstance(error, ConfigError):
        status = HTTPStatus.BAD_REQUEST
    elif isinstance(error, RecordError):
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    return refused(status, one_line(error))


def whole(request: Request, name: str, default: int, least: int = 0) -> int:
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


def number_in_path(request: Request, name: str) -> int:
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
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"what was sent is not a JSON object: {error}") from None


def unanswered(request: Request, error: Exception) -> Response:
    """What is answered where there is no such address or method."""
    assert isinstance(error, HTTPException)
    return refused(HTTPStatus(error.status_code), error.detail)


def broken(request: Request, error: Exception) -> Response:
    """What is answered when nobody expected the error; the terminal has all of it."""
    return refused(HTTPStatus.INTERNAL_SERVER_ERROR, "something went wrong; the terminal of mage view says what")


ERRORS = {MageError: failed, OSError: failed, HTTPException: unanswered, Exception: broken}
