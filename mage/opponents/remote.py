"""A remote model as an opponent: a language model with memory and without known action probabilities."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

from mage.agents.briefing import Briefing
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.engines.remote import RemoteEngine
from mage.errors import ConfigError, InexactError
from mage.models.address import Address, make_address
from mage.models.hosts import check_access, named_by
from mage.opponents.parameters import number, one_of
from mage.spec import Spec, parse_spec, whole
from mage.types import Memory, Observation, ReplyMode, Task
from mage.worlds.openspiel.game import Game

MAX_TOKENS, REFLECTION_TOKENS, CONTEXT = 2048, 1024, 65536
"""Defaults in bytes, about four to a token: the longest answer, the longest reflection and the context."""

_engine = lru_cache(maxsize=64)(RemoteEngine)


NAME = "remote"


def address_of(spec: Spec) -> Address:
    """The address in an opponent spec."""
    values = {**dict(zip(("url", "model"), spec.args, strict=False)), **spec.named}
    return make_address(str(values.get("url", "")), str(values.get("model", "")))


def check_access_to(members: Iterable[str], source: str) -> None:
    """Raise a ConfigError where a remote model among opponents must not be asked; `source` says where they are named.

    Other errors are left to `check_opponent`.
    """
    for member in members:
        if not member.startswith(f"{NAME}("):
            continue
        try:
            address = address_of(parse_spec(member))
        except ConfigError:
            continue
        with named_by(source):
            check_access(address)


class RemotePolicy:
    """Stands for a remote model where a policy is asked for: it can play, but not asked for probabilities."""

    def __init__(self, address: Address, settings: AgentSettings) -> None:
        self._address = address
        self._settings = settings

    def check(self) -> None:
        """Raise a ConfigError where it cannot be asked: a package is missing, or its host is not allowed."""
        check_access(self._address)
        _engine(self._address)

    def __call__(self, observation: Observation) -> NoReturn:
        raise InexactError(
            f"{self._address} has no probabilities that could be read; it can be an opponent, but not a part of one"
        )

    def make_player(self, game: Game, task: Task, seat: int) -> LanguageAgent:
        """The model as a player in a seat of a task."""
        check_access(self._address)  # the engine may be one of an earlier game
        own = msgspec.structs.replace(task, seat=seat)
        briefing = Briefing(game.rules_for(seat))
        return LanguageAgent(_engine(self._address), ByteFormat(), self._settings, briefing, own, sibling=0)


def remote(
    game: Game,
    seat: int,
    rng: random.Random,
    url: Any,
    model: Any,
    memory: Any = "history",
    temperature: Any = 1.0,
    max_tokens: Any = MAX_TOKENS,
    context: Any = CONTEXT,
    retries: Any = 1,
) -> RemotePolicy:
    """A model on an OpenAI-compatible server: remote(url="http://localhost:8000/v1",model="my-model")."""
    address = make_address(str(url), str(model))
    settings = AgentSettings(
        name=str(address),
        memory=Memory(one_of("memory", memory, tuple(Memory))),
        reply=ReplyMode.TEXT,
        temperature=number("temperature", temperature, 0.0, 10.0),
        max_tokens=whole("max_tokens", max_tokens, 1),
        reflection_tokens=REFLECTION_TOKENS,
        retries=whole("retries", retries, 0),
        context=whole("context", context, 1),
    )
    return RemotePolicy(address, settings)
