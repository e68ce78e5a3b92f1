"""What an agent is told about its trial beside the observations, in the words of its world."""

from __future__ import annotations

import msgspec

from mage.protocols import World
from mage.types import REFLECT_REQUEST, SAME_OPPONENTS, Task


class Briefing(msgspec.Struct, frozen=True, gc=False):
    """The rules, and what `WorldInfo` says about trials, reflections and actions."""

    rules: str
    trial: str = SAME_OPPONENTS
    """What stays the same in a trial; `{episodes}` stands for the number of episodes."""
    reflect: str = REFLECT_REQUEST
    """The request for a reflection."""
    has_open_actions: bool = False
    """Whether any text is an action."""
    lists_actions: bool = True
    """Whether prompts list the legal actions."""

    def trial_of(self, episodes: int) -> str:
        """The sentence about a trial of so many episodes.

        >>> Briefing("", "{episodes} episodes of {x}.").trial_of(3)
        '3 episodes of {x}.'
        """
        return self.trial.replace("{episodes}", str(episodes))


def briefing_of(world: World, task: Task) -> Briefing:
    """What a world tells the agent in the task's seat."""
    info = world.info
    return Briefing(world.rules(task), info.trial, info.reflect, info.has_open_actions, info.lists_actions)
