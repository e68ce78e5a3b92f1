"""Methods of prompting by name: which kind of agent a config or a command asks for."""

from __future__ import annotations

from collections.abc import Mapping

from mage.agents.language import LanguageAgent
from mage.agents.methods.cases import CasesAgent
from mage.agents.methods.linked_notes import LinkedNotesAgent
from mage.agents.methods.react import ReactAgent
from mage.agents.methods.reflexion import ReflexionAgent
from mage.errors import ConfigError, pick
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
"""Every method by its name. Zero-shot is `plain` with memory none."""


def agent_class(method: str) -> type[LanguageAgent]:
    """The kind of agent that a method is; all are made with the same arguments.

    >>> agent_class("react").method
    'react'
    """
    return pick("method", METHODS, method)


def check_method(method: str, memory: Memory) -> None:
    """Refuse a method that does not exist, and a memory that it cannot have."""
    allowed = agent_class(method).memories
    if memory not in allowed:
        raise ConfigError(f"agent.method = {method} takes agent.memory = {' or '.join(allowed)}, not {memory}")
