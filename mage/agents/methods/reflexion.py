"""Reflexion: a reflection after each episode; the last three are the only memory.

It follows Shinn et al. 2023 (arXiv 2303.11366), where the reflections of earlier trials are a short list put before the
next one.
"""

from __future__ import annotations

from typing import ClassVar

from mage.agents.language import LanguageAgent
from mage.agents.messages import reflect_message
from mage.types import Memory, Observation

NUM_KEPT = 3
"""How many of the newest reflections are remembered."""
REFLEXION_REQUEST = "Say what went well or wrong in this episode and why, and make a short plan for the next one."
_CARRIED = f"After each you write a note to yourself; you remember only your last {NUM_KEPT} notes."


class ReflexionAgent(LanguageAgent):
    """Reflects on every episode and sees its newest reflections in the next; it has no history."""

    method: ClassVar[str] = "reflexion"
    memories: ClassVar[tuple[Memory, ...]] = (Memory.REFLECTIONS, Memory.NONE)

    def _system(self) -> str:
        return self._system_message(carried=_CARRIED)

    def _reflection_request(self, outcome: Observation) -> str:
        return f"{reflect_message(outcome, self._briefing.reflect)}\n{REFLEXION_REQUEST}"

    def _keep(self, outcome: Observation, note: str) -> None:
        super()._keep(outcome, note)
        self._context.notes = self._context.notes[-NUM_KEPT:]
