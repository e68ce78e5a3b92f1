"""ReAct: a thought before each action (Yao et al. 2022, arXiv 2210.03629).

If replies are choices, the thought is a call of its own, because a constrained answer cannot contain one; in text mode
it is in the answer, before the action. Thoughts stay in the stream, so the memory mode decides what carries over to the
next episode.
"""

from __future__ import annotations

from typing import ClassVar

from mage.agents.language import LanguageAgent
from mage.agents.parsing import Parsed
from mage.seeds import derive
from mage.types import Call, Observation, ReplyMode

THOUGHT_REQUEST = "Thought: in a few words, what has happened, and what follows from it?"
ACTION_REQUEST = "Action: answer with one of the actions and nothing else."
_THOUGHT_FIRST = "First write Thought: and, in a few words, what has happened and what follows from it."
_ANSWER = {
    ReplyMode.CHOICE: f"Before each action you are asked for a thought.\n{ACTION_REQUEST}",
    ReplyMode.TEXT: f"{_THOUGHT_FIRST} Then write Action: and your action as <action>NAME</action>.",
}
_OPEN_ANSWER = f"{_THOUGHT_FIRST} Then write Action: and your action as <action>TEXT</action>."


class ReactAgent(LanguageAgent):
    """Thinks, then acts. A thought may have as many tokens as a free-text answer."""

    method: ClassVar[str] = "react"
    thinks: ClassVar[bool] = True

    async def odds(self, observation: Observation) -> tuple[float, ...] | None:
        """None: the probabilities depend on a sampled thought."""
        return None

    def _system(self) -> str:
        is_open = self._briefing.has_open_actions
        return self._system_message(answer=_OPEN_ANSWER if is_open else _ANSWER[self._settings.reply])

    async def _decide(self, observation: Observation, message: str, seed: int) -> tuple[tuple[Call, ...], Parsed]:
        if self._settings.reply is ReplyMode.TEXT:
            return await super()._decide(observation, message, seed)
        asked = f"{message}\n{THOUGHT_REQUEST}"
        max_tokens = self._settings.max_tokens
        thought = await self._ask(observation.episode, asked, max_tokens, derive(seed, "thought"), None)
        calls, parsed = await super()._decide(observation, ACTION_REQUEST, seed)
        return (thought, *calls), parsed
