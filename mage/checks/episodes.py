"""Contract check for environments: plays random episodes and raises `PlayError` at the first broken rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple, TypeVar

import msgspec

from mage.answers import check_range
from mage.errors import MageError, PlayError
from mage.protocols import Env, World
from mage.seeds import uniform
from mage.types import Ending, Observation, Result, Task

S = TypeVar("S", Observation, Result)

NONSENSE = "no action has this name"
TEXTS = (NONSENSE, "search[red shoes]", "1", "Prüfung ✓ <b>'\"</b>", "x" * 300)
"""What is tried in worlds with open actions."""


class PlayedEpisode(NamedTuple):
    """Observations and actions of an episode, and its result."""

    turns: tuple[tuple[Observation, str], ...]
    result: Result


class EpisodeChecker:
    """Plays and checks episodes of one world, and counts them."""

    def __init__(self, world: World, texts: Sequence[str] = ()) -> None:
        self._world = world
        self._info = world.info
        self._texts = (*TEXTS, *texts)
        self._offered: dict[tuple[int | None, int, str], tuple[object, ...]] = {}
        """Ids of actions by seat and key, and their words by the task's seed too: a trial may have names of its own."""
        self.num_episodes = 0
        self.num_turns = 0
        self.num_finished = 0
        self.lowest, self.highest = inf, -inf
        """The scores that were seen."""

    def play(self, task: Task, episode: int = 0, variant: int = 0) -> PlayedEpisode:
        """Play to the end and check every step. Choices depend on `variant` and the turn alone."""
        env = self._world.new_env(task, episode)
        turns: list[tuple[Observation, str]] = []
        gained = [0.0] * self._info.num_seats
        decisions = [0] * self._info.num_seats
        while (mover := env.to_move()) is not None:
            require(mover in range(len(decisions)), task.world, f"seat {mover!r} is to move, which does not exist")
            observation = self._check_observations(env, mover, decisions)
            self._check_offered(task.seed, observation)
            refuses(env.result, "result() answers before the end")
            if not self._info.has_open_actions:
                refuses(lambda: env.step(NONSENSE), "an action that is not legal is played")
            require(env.observe(mover) == observation, observation.text, "a refused action changes the state")
            action = self._choice(observation, variant, len(turns))
            for seat, gain in enumerate(self._step(env, action)):
                gained[seat] += gain
            turns.append((observation, action))
            decisions[mover] += 1
            limit = task.max_turns
            require(len(turns) <= limit, observation.text, f"it does not end after {limit} turns")
        refuses(lambda: env.step(NONSENSE), "an action is played after the end")
        refuses(lambda: env.step(None), "an episode that is over is forfeited")
        played = PlayedEpisode(tuple(turns), env.result())
        self._check_result(task.world, played.result, gained)
        if self._info.turns and played.result.ending is Ending.FINISHED:
            fixed = f"info.turns = {self._info.turns}, but the seats had {decisions} turns"
            require(set(decisions) == {self._info.turns}, task.world, fixed)
        self._count(played)
        return played

    def check_early_ends(self, task: Task, played: PlayedEpisode) -> None:
        """Forfeit at a random turn, and stop there by the limit on turns."""
        require(bool(played.turns), task.world, "an episode is over before its first turn")
        moment = int(uniform(task.seed, "check", "moment") * len(played.turns))
        env = self._world.new_env(task, 0)
        for _, action in played.turns[:moment]:
            env.step(action)
        who = env.to_move()
        assert who is not None
        env.step(None)
        require(env.to_move() is None, task.world, "a forfeit does not end the episode")
        result = env.result()
        returns = tuple(self._info.lowest if seat == who else 0.0 for seat in range(self._info.num_seats))
        right = (result.ending, result.forfeited_by, result.returns) == (Ending.FORFEITED, who, returns)
        require(right, task.world, f"a forfeit ends as {result}, not with info.lowest for the seat and 0 for others")
        require(not result.is_success(who), task.world, "a forfeit is a success")
        refuses(lambda: env.step(played.turns[moment][1]), "an action is played after a forfeit")
        shorter = self.play(msgspec.structs.replace(task, max_turns=moment))
        require(shorter.turns == played.turns[:moment], task.world, "a limit on the turns changes the episode")
        truncated = shorter.result.ending is Ending.TRUNCATED
        require(truncated, task.world, f"a limit of {moment} turns does not stop it")

    def check_replayed_deal(self, task: Task) -> None:
        """With `replay_deal` every episode is dealt like the first."""
        again = msgspec.structs.replace(task, replay_deal=True)
        first, second = self.play(again, 0), self.play(again, 1)
        seen = [o for o, _ in second.turns]
        require(all(o.episode == 1 for o in seen), task.world, "the episode's number is wrong")
        same = [msgspec.structs.replace(o, episode=0) for o in seen] == [o for o, _ in first.turns]
        require(same and first.result == second.result, task.world, "a replayed deal differs")

    def check_interleaved(self, trials: Sequence[tuple[Task, PlayedEpisode]]) -> None:
        """Episodes that are played by turns are what they were when they were played one after the other."""
        under_way = [(self._world.new_env(task, 0), played) for task, played in trials]
        for turn in range(max(len(played.turns) for _, played in under_way)):
            for env, played in under_way:
                if turn < len(played.turns):
                    observation, action = played.turns[turn]
                    same = env.to_move() == observation.seat and env.observe(observation.seat) == observation
                    require(same, observation.text, "two trials at the same time influence each other")
                    env.step(action)
        same = all(env.to_move() is None and env.result() == played.result for env, played in under_way)
        require(same, trials[0][0].world, "two trials at the same time influence each other's results")
        self.num_episodes += len(under_way)

    def _check_offered(self, seed: int, observation: Observation) -> None:
        """Equal keys have equal actions."""
        key = observation.key
        for trial, actions in ((None, observation.ids), (seed, observation.actions)):
            offered = self._offered.setdefault((trial, observation.seat, key), actions)
            require(offered == actions, key, f"one key stands for the actions {offered} and for {actions}")

    def _check_observations(self, env: Env, mover: int, decisions: list[int]) -> Observation:
        """Every seat can observe, only the mover has actions, and observing changes nothing."""
        for seat, turn in enumerate(decisions):
            seen = env.observe(seat)
            require(env.observe(seat) == seen, seen.text, "observing twice gives two observations")
            require((seen.seat, seen.turn) == (seat, turn), seen.text, f"seat or turn is wrong for seat {seat}")
            require(len(seen.actions) == len(seen.ids), seen.text, "actions and ids are not aligned")
            if self._info.has_open_actions:
                require(not seen.actions, seen.text, f"actions are open, but seat {seat} has the list {seen.actions}")
            else:
                require(bool(seen.actions) == (seat == mover), seen.text, f"seat {seat} has actions {seen.actions}")
        observation = env.observe(mover)
        words, ids = observation.actions, observation.ids
        require(len(set(words)) == len(words), observation.text, f"two actions share a word: {words}")
        require(len(set(ids)) == len(ids), observation.text, f"two actions share an id: {ids}")
        tidy = all(word and word == " ".join(word.split()) for word in words)
        require(tidy, observation.text, f"an action is empty or has untidy spaces: {words}")
        require(bool(observation.text.strip()), observation.key, "the observation has no text")
        return _read_back(observation, "an observation")

    def _step(self, env: Env, action: str) -> tuple[float, ...]:
        try:
            gains = env.step(action)
        except MageError as error:
            why = "any text is an action" if self._info.has_open_actions else "it is listed"
            raise PlayError(f"step({action!r}) is refused although {why}: {error}") from error
        num_seats = self._info.num_seats
        require(len(gains) == num_seats, action, f"step returns {len(gains)} gains for {num_seats} seats")
        return gains

    def _check_result(self, world: str, result: Result, gained: list[float]) -> None:
        info, returns = self._info, result.returns
        require(len(returns) == len(result.outcomes) == info.num_seats, str(result), "a seat has no result")
        require(len(result.successes) in (0, info.num_seats), str(result), "successes are not one for each seat")
        require(all(told.strip() for told in result.outcomes), str(result), "a seat is told nothing at the end")
        require(is_close(returns, gained), str(returns), f"gains along the way add up to {gained}")
        for score in returns:
            check_range(world, score, info.lowest, info.highest, result.ending)
        if result.ending is Ending.FINISHED and info.constant_sum is not None:
            total = info.constant_sum
            require(is_close([sum(returns)], [total]), str(returns), f"returns do not add up to {total}")
        _read_back(result, "a result")

    def _count(self, played: PlayedEpisode) -> None:
        self.num_episodes += 1
        self.num_turns += len(played.turns)
        self.num_finished += played.result.ending is Ending.FINISHED
        self.lowest = min(self.lowest, *played.result.returns)
        self.highest = max(self.highest, *played.result.returns)

    def _choice(self, observation: Observation, variant: int, turn: int) -> str:
        choices = observation.actions or self._texts
        return choices[int(uniform(variant, "check", turn) * len(choices))]


def refuses(action: Callable[[], object], problem: str) -> None:
    """Raise a PlayError with the problem unless the action raises one."""
    try:
        action()
    except PlayError:
        return
    raise PlayError(problem)


def require(holds: bool, where: str, problem: str) -> None:
    """Raise a PlayError where something does not hold."""
    if not holds:
        raise PlayError(f"{problem} (at {where!r})")


def is_close(some: Iterable[float], others: Iterable[float]) -> bool:
    """Whether all numbers are equal up to rounding."""
    return all(abs(a - b) <= 1e-6 * max(1.0, abs(a)) for a, b in zip(some, others, strict=True))


def _read_back(said: S, what: str) -> S:
    """The value, which must read back equal from a transcript."""
    try:
        equal = msgspec.json.decode(msgspec.json.encode(said), type=type(said)) == said
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise PlayError(f"{what} cannot be written as JSON: {error} (at {str(said)!r})") from None
    require(equal, str(said), f"{what} is another one when it is read back from JSON")
    return said
