"""The address of a Ray cluster: checked before Ray is asked, which waits for minutes where nothing answers."""

from __future__ import annotations

import socket

from mage.errors import ConfigError

AUTO = "auto"
_WAIT_S = 5.0


def check_address(address: str) -> None:
    """Raise a ConfigError for an address that is neither `auto` nor host:port, or where nothing listens."""
    if address in ("", AUTO):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"rollout.address = {address!r}: write host:port, or {AUTO} on a machine of the cluster")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _WAIT_S).close()
    except UnicodeError:  # a label is empty or too long
        raise ConfigError(
            f"rollout.address = {address!r}: no host can have the name {host!r}; write host:port"
        ) from None
    except OSError as error:
        raise ConfigError(f"rollout.address = {address!r}: no Ray answers there: {error.strerror or error}") from None
