"""Numbers as tables show them: with a fixed number of decimals, and zero as 0."""

from __future__ import annotations


def plain(value: float, decimals: int = 3) -> str:
    """A number that needs no sign.

    >>> plain(1 / 3), plain(-0.25, 2), plain(0.0), plain(-0.0001)
    ('0.333', '-0.25', '0', '0')
    """
    return f"{value:.{decimals}f}" if round(value, decimals) else "0"


def signed(value: float, decimals: int = 3) -> str:
    """A score or a difference, with its sign.

    >>> signed(1.0), signed(-1 / 3, 2), signed(0.0), signed(-0.0001)
    ('+1.000', '-0.33', '0', '0')
    """
    return f"{value:+.{decimals}f}" if round(value, decimals) else "0"
