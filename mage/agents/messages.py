"""The prompts of the language agent: short sentences that a small model can follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mage.agents.briefing import Briefing
from mage.types import Memory, Observation, ReplyMode

_CARRIED = {
    Memory.HISTORY: " You remember what happened.",
    Memory.REFLECTIONS: " After each you write a note to yourself; you remember only your notes.",
    Memory.BOTH: " After each you write a note to yourself. You remember what happened and your notes.",
}

_ANSWER = {
    ReplyMode.CHOICE: "Answer with one of the actions and nothing else.",
    ReplyMode.TEXT: "Think in a few words, then give your action as <action>NAME</action>.",
}
_OPEN_ANSWER = "Think in a few words, then give your action as <action>TEXT</action>."

BEGUN_ANSWER = "Answer with one of the actions as <action>NAME</action>."
"""The instruction in `text` mode where the prefilled answer begins in the tag: a thought would come too late."""
BEGUN_OPEN_ANSWER = "Answer with your action as <action>TEXT</action>."
"""The same where any text is an action."""
ACTIONS = "Actions: "
"""Label of the list of legal actions."""
_ENDS = re.compile(r"^Episode \d+ is over\.$", re.MULTILINE)
_BEGINS = re.compile(r"^Episode \d+ of \d+\.$", re.MULTILINE)


def system_message(
    briefing: Briefing, episodes: int, memory: Memory, reply: ReplyMode, *, carried: str = "", answer: str = ""
) -> str:
    """The system message: the rules of the world, of the trial and of answering.

    `carried` and `answer` replace the default sentences about memory and about answering.
    """
    if episodes == 1 or memory is Memory.NONE:
        trial = "You play one episode."
    else:
        remembered = f" {carried}" if carried else _CARRIED[memory]
        trial = f"{briefing.trial_of(episodes)}{remembered}"
    usual = _OPEN_ANSWER if briefing.has_open_actions else _ANSWER[reply]
    return f"{briefing.rules}\n{trial}\n{answer or usual}"


def tagged(action: str) -> str:
    """An action as a tag in free text."""
    return f"<action>{action}</action>"


def turn_message(observation: Observation, announced: Sequence[str], shown: Callable[[str], str] = str) -> str:
    """The observation and, if they differ from those `announced` last, the legal actions, formatted by `shown`."""
    return observation.text if observation.actions == announced else observation.text + _listed(observation, shown)


def episode_heading(episode: int, episodes: int, memory: Memory) -> str:
    """The line above an episode's first observation; empty without memory."""
    return "" if memory is Memory.NONE else f"Episode {episode + 1} of {episodes}.\n"


def outcome_message(outcome: Observation) -> str:
    """How an episode ended."""
    return f"Episode {outcome.episode + 1} is over.\n{outcome.text}"


def reflect_message(outcome: Observation, request: str) -> str:
    """The outcome of an episode and the request for a reflection."""
    return f"{outcome_message(outcome)}\n{request}"


def asks_for_reflection(message: str) -> bool:
    """Whether a user message asks for a reflection: it tells how an episode ended, and no other begins after that.

    >>> asks_for_reflection("Episode 1 is over.\\nYou won.\\nWrite a note.")
    True
    >>> asks_for_reflection("Episode 1 is over.\\nYou won.\\n\\nEpisode 2 of 3.\\nYour card: king.")
    False
    """
    ends, begins = (max((m.start() for m in mark.finditer(message)), default=-1) for mark in (_ENDS, _BEGINS))
    return ends > begins


def notes_message(notes: Sequence[tuple[int, str]]) -> str:
    """Earlier reflections, each with its episode."""
    lines = [f"After episode {episode + 1}: {note}" for episode, note in notes]
    return "\n".join(["Your notes:", *lines]) + "\n\n" if lines else ""


def retry_message(problem: str, observation: Observation, shown: Callable[[str], str] = str) -> str:
    """Why an answer could not be parsed, and the legal actions, formatted by `shown`."""
    return f"That answer cannot be used: {problem}.{_listed(observation, shown)}"


def _listed(observation: Observation, shown: Callable[[str], str]) -> str:
    """The line of the legal actions; empty where there is no list."""
    return f"\n{ACTIONS}{', '.join(map(shown, observation.actions))}" if observation.actions else ""
