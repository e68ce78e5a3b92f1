"""The data types: tasks, observations, turns, episodes, trials, groups, samples, and the enums of the config.

All are frozen and complete when built. They hold plain values only (no tensors, no arrays), so a transcript
is these types as JSON and reads back equal. `CONTRIBUTING.md` has the glossary. They cannot form reference cycles, so
they are not tracked by the garbage collector (`gc=False`): a rollout makes a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

Scalar = str | int | float | bool | None
Fact = Scalar | tuple[Scalar | tuple[Scalar, ...], ...]
"""A structured fact: a scalar, a row of scalars, or rows of scalars (a board)."""

SAME_OPPONENTS = "You play {episodes} episodes against the same opponents, who play in the same way."
REFLECT_REQUEST = "Write a short note to yourself: how does the opponent play, and what will you do next?"
"""What agents are told and asked in worlds with opponents."""


class Phase(StrEnum):
    """What a turn is for."""

    PLAY = "play"
    REFLECT = "reflect"


class Ending(StrEnum):
    """How an episode ended."""

    FINISHED = "finished"
    FORFEITED = "forfeited"
    TRUNCATED = "truncated"


class Memory(StrEnum):
    """What an agent carries across an episode boundary."""

    NONE = "none"
    HISTORY = "history"
    REFLECTIONS = "reflections"
    BOTH = "both"


class ReplyMode(StrEnum):
    """How a model answers: constrained to the legal actions, or free text with a tagged action."""

    CHOICE = "choice"
    TEXT = "text"


class Thoughts(StrEnum):
    """Whether thoughts (text between think tags, or before an action) stay in the history, or are removed from it."""

    KEEP = "keep"
    STRIP = "strip"


class Weight(StrEnum):
    """What has equal weight in the loss. A choice is one token and a reflection may be sixty, hence turn."""

    TURN = "turn"
    TOKEN = "token"
    SEQUENCE = "sequence"


class Divergence(StrEnum):
    """Estimators of KL(policy || reference) from the sampled token alone."""

    NONE = "none"
    K1 = "k1"
    K2 = "k2"
    K3 = "k3"


class DeadGroups(StrEnum):
    """What a step does with groups whose siblings all scored alike, so that all advantages are zero."""

    DROP = "drop"
    """Leave them out of the batch."""
    KEEP = "keep"
    """Train on them: the advantages are zero, the entropy bonus and the divergence penalty still apply."""
    RESAMPLE = "resample"
    """Leave them out and play as many new tasks instead, once a step."""


class AlarmAction(StrEnum):
    """What a run does when an alarm is raised."""

    PRINT = "print"
    STOP = "stop"
    ROLLBACK = "rollback"


class Objective(StrEnum):
    """What training maximises; `credit/returns.py` has the equations."""

    SINGLE = "single"
    """Each episode for itself."""
    CUMULATIVE = "cumulative"
    """This episode and the discounted later ones (LaMer)."""
    CUMULATIVE_PAPER = "cumulative-paper"
    """The same as its paper's equation has it."""
    DIFFERENTIAL = "differential"
    """Improvement from episode to episode (MAGE)."""
    FINAL = "final"
    """The last episode alone."""


class Device(StrEnum):
    """The device that models run on."""

    CPU = "cpu"
    CUDA = "cuda"
    AUTO = "auto"
    """CUDA where there is a device, else the CPU."""


class Dtype(StrEnum):
    """The number format that models compute in."""

    AUTO = "auto"
    """bfloat16 on CUDA, float32 on a CPU."""
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class Observation(msgspec.Struct, frozen=True, gc=False):
    """What one seat may know when it must act."""

    seat: int
    episode: int
    """Index of the episode within the trial, from 0."""
    turn: int
    """How many decisions this seat has made in this episode."""
    text: str
    actions: tuple[str, ...]
    """Legal actions in the world's words; empty where the answer is free text."""
    ids: tuple[int, ...]
    """The world's own numbers for `actions`, aligned; they do not depend on the wording."""
    key: str
    """Equal for equal decision problems of one episode."""
    facts: Mapping[str, Fact]
    """Structured facts (board, card, betting) for scripted players and viewers."""


class Completion(msgspec.Struct, frozen=True, gc=False):
    """What an engine returns for one prompt."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    allowed: tuple[tuple[int, ...], ...] | None
    """Per token the ids it was chosen from, where decoding was constrained; one id means forced."""
    version: int
    """Version of the weights that sampled it."""
    truncated: bool
    """True when the token limit came before the end of the turn."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """One model call: `stream` and `start` locate its prompt, `trial.streams[stream][:start]`.

    Calls of a model in another seat point into streams of its own, which the trial does not hold.
    """

    stream: int
    start: int
    completion: Completion
    problem: str | None
    """Why the reply could not be used, or None."""


class Reply(msgspec.Struct, frozen=True, gc=False):
    """What a player answers. An action of None is a forfeit."""

    action: str | None
    text: str
    """The whole reply, for people to read; empty for scripted players."""
    calls: tuple[Call, ...]


class Turn(msgspec.Struct, frozen=True, gc=False):
    """One decision of one seat. A reflection is a turn whose action is its text."""

    phase: Phase
    observation: Observation
    action: str | None
    text: str
    calls: tuple[Call, ...]
    reward: float
    """What this seat gained between this decision and its next one."""


class Result(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How an episode ended, for every seat."""

    returns: tuple[float, ...]
    outcomes: tuple[str, ...]
    """What each seat is told afterwards; the rules decide what is revealed."""
    ending: Ending
    forfeited_by: int | None
    facts: Mapping[str, Fact]
    """Everything, hidden cards included: for viewers, never for players."""
    successes: tuple[bool, ...] = ()
    """For each seat whether it succeeded; empty where success is a positive score."""
    keys: tuple[str, ...] = ()
    """For each seat what it is told in the words of the exact model, where a trial has names of its own."""

    def is_success(self, seat: int) -> bool:
        """Whether a seat succeeded."""
        return self.successes[seat] if self.successes else self.returns[seat] > 0


class Episode(msgspec.Struct, frozen=True, gc=False):
    """One play of the world from start to end, with every seat's turns in order of play."""

    turns: tuple[Turn, ...]
    result: Result


class WorldInfo(msgspec.Struct, frozen=True, gc=False):
    """What a world is like: its seats, its scores, its actions, and its sentences for agents."""

    num_seats: int
    lowest: float
    """The lowest score of a seat, and the score of a forfeit."""
    highest: float
    has_open_actions: bool = False
    """Whether any text is an action. Observations then list none, and agents must answer in text."""
    has_chance: bool = False
    """Whether episodes of tasks that differ in their seeds alone can differ."""
    constant_sum: float | None = None
    """The sum of all seats' scores in a finished episode, where it is always the same."""
    trial: str = SAME_OPPONENTS
    """Tells an agent what stays the same in a trial; `{episodes}` stands for their number."""
    reflect: str = REFLECT_REQUEST
    """Asks an agent for a reflection."""
    turns: int = 0
    """Turns of each seat in a finished episode, where their number is always the same; 0: it varies."""
    lists_actions: bool = True
    """Whether prompts list the legal actions. Where not, answers are held to them all the same."""

    @property
    def is_zero_sum(self) -> bool:
        """Whether what one seat wins the others lose."""
        return self.constant_sum == 0


class Task(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What is played. Trials of equal tasks may be compared."""

    world: str
    """A world spec, such as `kuhn_poker` or `rps(rounds=3)`."""
    opponents: tuple[str, ...]
    """One spec for each other seat, in order of seats; empty in a world of one seat."""
    seat: int
    seed: int
    episodes: int
    replay_deal: bool
    """Every episode deals the cards of the first."""
    early_stop: bool
    """The trial ends after the first episode in which the seat succeeds."""
    max_turns: int
    """An episode longer than this is truncated."""
    level: str = ""
    """In a world of one seat, what is played, in the world's own words; where empty, the seed decides."""

    @property
    def members(self) -> tuple[str, ...]:
        """The members of a population or split that it is about: its opponents, or its level where there is one."""
        return self.opponents or ((self.level,) if self.level else ())


class AgentInfo(msgspec.Struct, frozen=True, gc=False):
    """The agent in the task's seat: its name and settings."""

    name: str
    memory: Memory | None
    reply: ReplyMode | None
    method: str | None = None
    """How a model was prompted; None where there is no model, and in transcripts of versions that did not store it."""


class Trial(msgspec.Struct, frozen=True, gc=False, tag="trial"):
    """The episodes of one task with memory carried between them."""

    task: Task
    sibling: int
    agent: AgentInfo
    episodes: tuple[Episode, ...]
    reflections: tuple[Turn, ...]
    """In order; `observation.episode` says which episode each follows. Empty where the agent writes none."""
    streams: tuple[tuple[int, ...], ...]
    """The agent's token streams. Memory that is rewritten begins a new one."""
    overflows: tuple[int, ...]
    """Episodes in which the context was full and the oldest memory was dropped."""

    @property
    def scores(self) -> tuple[float, ...]:
        """The task seat's return in each episode."""
        return tuple(e.result.returns[self.task.seat] for e in self.episodes)


class Failure(msgspec.Struct, frozen=True, gc=False, tag="failure"):
    """A trial that could not be played, and why."""

    task: Task
    sibling: int
    error: str
    message: str


class Group(msgspec.Struct, frozen=True, gc=False):
    """Sibling trials of one task: the unit in which advantages are computed."""

    task: Task
    trials: tuple[Trial, ...]
    failures: tuple[Failure, ...]


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One trainable token sequence: a stream, and which of its tokens are trained and how.

    Fields in the plural but `tokens` are aligned with `positions`, and so is `proximal`, unless it is empty.
    """

    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    """Where the trained tokens stand in `tokens`, ascending."""
    turns: tuple[int, ...]
    """The number of the agent's turn, within the trial, that sampled the token."""
    phases: tuple[Phase, ...]
    logprobs: tuple[float, ...]
    """As the engine sampled them."""
    advantages: tuple[float, ...]
    returns: tuple[float, ...]
    """The return of the turn: the target of a value head."""
    allowed: tuple[tuple[int, ...] | None, ...]
    """The ids that the token was chosen from; None where all were allowed."""
    version: int
    """The version of the weights that sampled it; the oldest where there are several."""
    num_versions: int = 1
    """Versions of the weights that sampled it; several only with `rollout.lag`."""
    proximal: tuple[float, ...] = ()
    """The learner's own log-probabilities before an update of several optimizer steps on older samples; else empty."""
