"""The prompts of the language agent: short sentences that a small model can follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

BEGUN_ANSWER = "Answer with one of the actions as <action>NAME</action>."
"""The instruction in `text` mode with a prefilled answer, where a thought would come too late."""
REFLECT_REQUEST = "Write a short note to yourself: how does the opponent play, and what will you do next?"
ACTIONS = "Actions: "
"""Label of the list of legal actions."""


def system_message(
    rules: str, episodes: int, memory: Memory, reply: ReplyMode, *, carried: str = "", answer: str = ""
) -> str:
    """The system message: the rules of the world, of the trial and of answering.

    `carried` and `answer` replace the default sentences about memory and about answering.
    """
    if episodes == 1 or memory is Memory.NONE:
        trial = "You play one episode."
    else:
        remembered = f" {carried}" if carried else _CARRIED[memory]
        trial = f"You play {episodes} episodes against the same opponents, who play in the same way.{remembered}"
    return f"{rules}\n{trial}\n{answer or _ANSWER[reply]}"


def tagged(action: str) -> str:
    """An action as a tag in free text."""
    return f"<action>{action}</action>"


def turn_message(observation: Observation, announced: Sequence[str], shown: Callable[[str], str] = str) -> str:
    """The observation and, if they differ from those `announced` last, the legal actions, formatted by `shown`."""
    if observation.actions == announced:
        return observation.text
    return f"{observation.text}\n{ACTIONS}{', '.join(map(shown, observation.actions))}"


def episode_heading(episode: int, episodes: int, memory: Memory) -> str:
    """The line above an episode's first observation; empty without memory."""
    return "" if memory is Memory.NONE else f"Episode {episode + 1} of {episodes}.\n"


def outcome_message(outcome: Observation) -> str:
    """How an episode ended."""
    return f"Episode {outcome.episode + 1} is over.\n{outcome.text}"


def reflect_message(outcome: Observation) -> str:
    """The outcome of an episode and the request for a reflection."""
    return f"{outcome_message(outcome)}\n{REFLECT_REQUEST}"


def notes_message(notes: Sequence[tuple[int, str]]) -> str:
    """Earlier reflections, each with its episode."""
    lines = [f"After episode {episode + 1}: {note}" for episode, note in notes]
    return "\n".join(["Your notes:", *lines]) + "\n\n" if lines else ""


def retry_message(problem: str, observation: Observation, shown: Callable[[str], str] = str) -> str:
    """Why an answer could not be parsed, and the legal actions, formatted by `shown`."""
    return f"That answer cannot be used: {problem}.\n{ACTIONS}{', '.join(map(shown, observation.actions))}"
