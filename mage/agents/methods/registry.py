"""Prompting methods by name: the agent class of each."""

from __future__ import annotations

from collections.abc import Mapping

from mage.agents.language import LanguageAgent
from mage.agents.methods.cases import CasesAgent
from mage.agents.methods.linked_notes import LinkedNotesAgent
from mage.agents.methods.react import ReactAgent
from mage.agents.methods.reflexion import ReflexionAgent
from mage.errors import ConfigError, pick
from mage.registry import Registry
from mage.types import Memory

METHODS: Mapping[str, type[LanguageAgent]] = {
    kind.method: kind
    for kind in (
        LanguageAgent,
        ReactAgent,
        ReflexionAgent,
        LinkedNotesAgent,
        CasesAgent,
    )
}
"""Our methods by name. Zero-shot is `plain` with memory none."""


def _agent_class(given: object) -> type[LanguageAgent]:
    if not (isinstance(given, type) and issubclass(given, LanguageAgent)):
        raise TypeError(f"a method is a subclass of mage.agents.language.LanguageAgent, not {given!r}")
    return given


ALL_METHODS: Registry[type[LanguageAgent]] = Registry("method", METHODS, _agent_class, lambda _: False)
"""All methods, those of plugins included."""


def agent_class(method: str) -> type[LanguageAgent]:
    """The agent class of a method; all have the same constructor arguments.

    >>> agent_class("react").method
    'react'
    """
    return pick("method", ALL_METHODS, method)


def check_method(method: str, memory: Memory) -> None:
    """Refuse an unknown method, and a memory mode that the method does not support."""
    allowed = agent_class(method).memories
    if memory not in allowed:
        raise ConfigError(f"agent.method = {method} takes agent.memory = {' or '.join(allowed)}, not {memory}")
