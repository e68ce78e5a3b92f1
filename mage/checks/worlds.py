"""Contract check for worlds: plays random episodes and raises `PlayError` at the first broken rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from mage.errors import PlayError
from mage.protocols import Env
from mage.seeds import uniform
from mage.types import Ending, Observation, Result, Task
from mage.worlds.registry import load_world

NewEnv = Callable[[Task, int], Env]
"""A fresh environment for an episode of a task."""

_NO_ACTION = "no action has this name"


class WorldClaims(NamedTuple):
    """The properties that a world claims."""

    num_seats: int
    lowest: float
    """The lowest score of a seat, and the score of a forfeit."""
    total: float | None
    """The sum of the returns of a finished episode, where it is constant."""
    has_chance: bool
    """Whether episodes with different seeds differ."""


class PlayedEpisode(NamedTuple):
    """Observations and actions of an episode, and its result."""

    turns: tuple[tuple[Observation, str], ...]
    result: Result


def check_env(game: str, seeds: Iterable[int] = range(5), *, max_turns: int = 200, chance_shows: bool = True) -> None:
    """Check a world that `load_game` knows. `chance_shows=False` is for worlds in which chance hardly matters."""
    world = load_world(game)
    info = world.info
    claims = WorldClaims(info.num_seats, info.lowest, info.constant_sum, info.has_chance and chance_shows)
    check_new_env(world.new_env, claims, game, seeds, max_turns=max_turns)


def check_new_env(new_env: NewEnv, claims: WorldClaims, game: str, seeds: Iterable[int], *, max_turns: int) -> None:
    """Check the environments of `new_env`, over tasks that differ in their seeds alone."""
    opponents = ("uniform",) * (claims.num_seats - 1)
    tasks = [Task(game, opponents, 0, seed, 2, False, False, max_turns) for seed in seeds]
    played = [_play(new_env(task, 0), claims, max_turns) for task in tasks]
    for task, first in zip(tasks, played, strict=True):
        _require(_play(new_env(task, 0), claims, max_turns) == first, game, "the same seed gives another episode")
        _check_replayed_deal(new_env, claims, task)
        _check_early_ends(new_env, claims, task, first)
    # Moves are the same for every seed where the choices are, so only chance can make a difference.
    differs = any(other != played[0] for other in played)
    _require(differs or not claims.has_chance or len(played) < 2, game, "chance is the same for every seed")


def _play(env: Env, claims: WorldClaims, max_turns: int) -> PlayedEpisode:
    """Play to the end and check every step."""
    turns: list[tuple[Observation, str]] = []
    gained = [0.0] * claims.num_seats
    decisions = [0] * claims.num_seats
    while (mover := env.to_move()) is not None:
        observation = _check_observations(env, mover, decisions)
        _refuses(env.result, "result() answers before the end")
        _refuses(lambda: env.step(_NO_ACTION), "an action that is not legal is played")
        _require(env.observe(mover) == observation, observation.text, "a refused action changes the state")
        action = _choice(observation, len(turns))
        for seat, gain in enumerate(env.step(action)):
            gained[seat] += gain
        turns.append((observation, action))
        decisions[mover] += 1
        _require(len(turns) <= max_turns, observation.text, f"it does not end after {max_turns} turns")
    _refuses(lambda: env.step(_NO_ACTION), "an action is played after the end")
    _refuses(lambda: env.step(None), "an episode that is over is forfeited")
    result = env.result()
    _check_result(result, claims, gained)
    return PlayedEpisode(tuple(turns), result)


def _check_observations(env: Env, mover: int, decisions: list[int]) -> Observation:
    """Every seat can observe, only the mover has actions, and observing changes nothing."""
    for seat, turn in enumerate(decisions):
        seen = env.observe(seat)
        _require(env.observe(seat) == seen, seen.text, "observing twice gives two observations")
        _require((seen.seat, seen.turn) == (seat, turn), seen.text, f"seat or turn is wrong for seat {seat}")
        _require(len(seen.actions) == len(seen.ids), seen.text, "actions and ids are not aligned")
        _require(bool(seen.actions) == (seat == mover), seen.text, f"seat {seat} has actions {seen.actions}")
    observation = env.observe(mover)
    words, ids = observation.actions, observation.ids
    _require(len(set(words)) == len(words), observation.text, f"two actions share a word: {words}")
    _require(len(set(ids)) == len(ids), observation.text, f"two actions share an id: {ids}")
    tidy = all(word and word == " ".join(word.split()) for word in words)
    _require(tidy, observation.text, f"an action is empty or has untidy spaces: {words}")
    _require(bool(observation.text.strip()), observation.key, "the observation has no text")
    return observation


def _check_result(result: Result, claims: WorldClaims, gained: list[float]) -> None:
    returns = result.returns
    _require(len(returns) == len(result.outcomes) == claims.num_seats, str(result), "a seat has no result")
    _require(_close(returns, gained), str(returns), f"gains along the way add up to {gained}")
    _require(min(returns) >= claims.lowest - 1e-6, str(returns), f"a seat scores below {claims.lowest}")
    if result.ending is Ending.FINISHED and claims.total is not None:
        _require(_close([sum(returns)], [claims.total]), str(returns), f"returns do not add up to {claims.total}")


def _check_replayed_deal(new_env: NewEnv, claims: WorldClaims, task: Task) -> None:
    """With `replay_deal` every episode is dealt like the first."""
    again = msgspec.structs.replace(task, replay_deal=True)
    first, second = (_play(new_env(again, episode), claims, task.max_turns) for episode in (0, 1))
    seen = [o for o, _ in second.turns]
    _require(all(o.episode == 1 for o in seen), task.world, "the episode's number is wrong")
    same = [msgspec.structs.replace(o, episode=0) for o in seen] == [o for o, _ in first.turns]
    _require(same and first.result == second.result, task.world, "a replayed deal differs")


def _check_early_ends(new_env: NewEnv, claims: WorldClaims, task: Task, played: PlayedEpisode) -> None:
    """Truncate and forfeit at a random turn."""
    moment = int(uniform(task.seed, "check", "moment") * len(played.turns))
    env = new_env(task, 0)
    for _, action in played.turns[:moment]:
        env.step(action)
    who = env.to_move()
    assert who is not None
    env.step(None)
    result = env.result()
    returns = tuple(claims.lowest if seat == who else 0.0 for seat in range(claims.num_seats))
    right = (result.ending, result.forfeited_by, result.returns) == (Ending.FORFEITED, who, returns)
    _require(right and env.to_move() is None, task.world, f"a forfeit ends as {result}")
    _refuses(lambda: env.step(played.turns[moment][1]), "an action is played after a forfeit")
    shorter = _play(new_env(msgspec.structs.replace(task, max_turns=moment), 0), claims, moment)
    _require(shorter.turns == played.turns[:moment], task.world, "a limit on the turns changes the episode")
    _require(shorter.result.ending is Ending.TRUNCATED, task.world, f"a limit of {moment} turns does not stop it")


def _choice(observation: Observation, turn: int) -> str:
    return observation.actions[int(uniform(0, "check", turn) * len(observation.actions))]


def _refuses(action: Callable[[], object], problem: str) -> None:
    try:
        action()
    except PlayError:
        return
    raise PlayError(problem)


def _require(holds: bool, where: str, problem: str) -> None:
    if not holds:
        raise PlayError(f"{problem} (at {where!r})")


def _close(some: Iterable[float], others: Iterable[float]) -> bool:
    return all(abs(a - b) <= 1e-6 * max(1.0, abs(a)) for a, b in zip(some, others, strict=True))
