"""Task sources: what every learner of a run plays next.

`PopulationTasks` draws opponents by the weights of the config, `PrioritisedTasks` by a sampler over the pay-offs of one
learner, `LeagueTasks` over those of a league. `ReplayedTasks` wraps any of them and plays some tasks again,
`VariedTasks` any of these and plays all tasks at the present values of a schedule, each in a wording of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from mage.config.schema import Config
from mage.config.wordings import drawn_wording
from mage.evaluation.config_splits import population_of
from mage.league.matches import Match, PlayedMatch, TaskOrigin, draw_matches, learning_seats
from mage.league.members import SPEC_PREFIX, Member, MemberKind, anchor
from mage.league.members import learner as learner_member
from mage.league.payoffs import EMPTY, MatchScore, Payoffs
from mage.league.samplers import MemberProbs
from mage.league.state import League
from mage.seeds import derive
from mage.training.build import draw_tasks
from mage.training.combinations import sampler_of
from mage.training.task_replay import PlayedTask, draw_replayed, update_played


class SourceState(msgspec.Struct, frozen=True):
    """What a task source remembers; stored in checkpoints."""

    played: Mapping[str, tuple[PlayedTask, ...]] = {}
    """By learner, the tasks that may be replayed."""
    payoffs: Payoffs = EMPTY
    """The pay-offs of a run without a league; those of a league are in its own state."""


class TaskSource(Protocol):
    """Says what is played next; draws depend on the seed, the step and the results of earlier steps alone."""

    def draw(self, step: int, num: Mapping[str, int]) -> list[Match]:
        """The matches of a step, so many for each learner."""
        ...

    def draw_replacements(self, step: int, num: Mapping[str, int]) -> list[Match]:
        """Further matches of a step, one for each dead group of each learner."""
        ...

    def replay(self, learner: str, entry: PlayedTask) -> Match | None:
        """A match of a task that the learner drew earlier; None where one of its opponents has left."""
        ...

    def update(self, step: int, played: Sequence[PlayedMatch]) -> None:
        """Take in the results of a step."""
        ...

    def copy(self, learner: str, parent: str) -> None:
        """Take in that a learner has copied the weights of another."""
        ...

    def state(self) -> SourceState: ...

    def restore(self, state: SourceState) -> None: ...


class HoldsLeague(Protocol):
    """Has a league, whose pay-offs a task source reads and updates."""

    league: League


class CountsTokens(Protocol):
    """Knows how many tokens were trained on."""

    @property
    def num_tokens(self) -> int: ...


class PopulationTasks:
    """Opponents drawn by the weights of the config, for one learner."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def draw(self, step: int, num: Mapping[str, int]) -> list[Match]:
        return list(self._matches(num, TaskOrigin.DRAWN, "tasks", step))

    def draw_replacements(self, step: int, num: Mapping[str, int]) -> list[Match]:
        return list(self._matches(num, TaskOrigin.REPLACEMENT, "replacements", step, 0))

    def _matches(self, num: Mapping[str, int], origin: TaskOrigin, *path: str | int) -> Iterator[Match]:
        for learner, own in num.items():
            for task in islice(draw_tasks(self._config, *path), own):
                yield Match(learner, task, (task.seat,), origin)

    def replay(self, learner: str, entry: PlayedTask) -> Match | None:
        return Match(learner, entry.task, (entry.task.seat,), TaskOrigin.REPLAYED, entry.siblings)

    def update(self, step: int, played: Sequence[PlayedMatch]) -> None:
        """Do nothing: draws do not depend on results."""

    def copy(self, learner: str, parent: str) -> None:
        """Do nothing."""

    def state(self) -> SourceState:
        return SourceState()

    def restore(self, state: SourceState) -> None:
        """Do nothing."""


class LeagueTasks:
    """Opponents drawn by a sampler over the pay-offs of a league: anchors, snapshots and learners."""

    def __init__(self, config: Config, holder: HoldsLeague, seed_names: Mapping[str, str] | None = None) -> None:
        """`seed_names` has other names of learners in the paths of random streams."""
        self._config = config
        self._holder = holder
        self._seed_names = seed_names or {}
        self._sampler = sampler_of(config)

    def draw(self, step: int, num: Mapping[str, int]) -> list[Match]:
        league = self._holder.league
        odds: dict[str, MemberProbs] = {member.id: self._odds(member) for member in league.learners}
        self._holder.league = league.with_drawn(odds)
        return [match for name, own in num.items() for match in self._matches(name, odds[name], own, "league", step)]

    def draw_replacements(self, step: int, num: Mapping[str, int]) -> list[Match]:
        path = ("league-replacements", step)
        odds = {name: self._odds(self._holder.league.member(name)) for name, own in num.items() if own}
        drawn = [match for name in odds for match in self._matches(name, odds[name], num[name], *path)]
        return [match._replace(origin=TaskOrigin.REPLACEMENT) for match in drawn]

    def _matches(self, learner: str, odds: MemberProbs, num: int, *path: str | int) -> Iterator[Match]:
        members = self._opponents(self._holder.league.member(learner))
        own_path = (*path, self._seed_names.get(learner, learner))
        return draw_matches(self._config, learner, members, odds, num, *own_path)

    def _odds(self, learner: Member) -> MemberProbs:
        """By the present pay-offs."""
        return self._sampler.odds(self._holder.league, learner.id, self._opponents(learner))

    def _opponents(self, learner: Member) -> list[Member]:
        """The possible opponents of a learner: all other members, and itself where it is the only learner."""
        league = self._config.league
        return list(self._holder.league.opponents_of(learner.id, with_itself=league.learners == 1 and league.itself))

    def replay(self, learner: str, entry: PlayedTask) -> Match | None:
        league, task = self._holder.league, entry.task
        if not {member.spec for member in league.present}.issuperset(task.opponents):
            return None
        live = [member.spec for member in league.learners] if self._config.league.both else []
        return Match(learner, task, learning_seats(task, live), TaskOrigin.REPLAYED, entry.siblings)

    def update(self, step: int, played: Sequence[PlayedMatch]) -> None:
        """Add results to the pay-offs; a match of two learners counts for both.

        Replayed tasks are left out: they were chosen because they went badly.
        """
        results = [
            MatchScore(one.learner, opponent, one.score)
            for one in played
            for opponent in one.opponents
            if one.score is not None and one.origin is not TaskOrigin.REPLAYED
        ]
        self._holder.league = self._holder.league.with_results(results, step, self._config.population.half_life)

    def copy(self, learner: str, parent: str) -> None:
        """Do nothing: the league's pay-offs are inherited there."""

    def state(self) -> SourceState:
        return SourceState()

    def restore(self, state: SourceState) -> None:
        """Do nothing: the league is restored by its holder."""


class _Table:
    """The pay-offs of one learner against the population."""

    def __init__(self, config: Config, learner: str) -> None:
        anchors = [anchor(spec, weight) for spec, weight in population_of(config)]
        own = Member(learner, MemberKind.LEARNER, SPEC_PREFIX + learner, learner)
        self.league = League((*anchors, own), EMPTY, {}, {})


class PrioritisedTasks(LeagueTasks):
    """Opponents drawn by a sampler over the pay-offs of one learner against the population.

    Draws are those of a league of one that does not play itself.
    """

    def __init__(self, config: Config, learner: str) -> None:
        self._table = _Table(config, learner)
        super().__init__(config, self._table, {learner: learner_member(0).id})

    def state(self) -> SourceState:
        return SourceState(payoffs=self._table.league.payoffs)

    def restore(self, state: SourceState) -> None:
        self._table.league = msgspec.structs.replace(self._table.league, payoffs=state.payoffs)


class ReplayedTasks:
    """Plays a share of each learner's tasks again, those that went badly more often; the rest is another source's."""

    def __init__(self, config: Config, inner: TaskSource) -> None:
        self._config = config
        self._inner = inner
        self._played: dict[str, tuple[PlayedTask, ...]] = {}

    def draw(self, step: int, num: Mapping[str, int]) -> list[Match]:
        again = {learner: self._replayed(step, learner, own) for learner, own in num.items()}
        drawn = self._inner.draw(step, {learner: own - len(again[learner]) for learner, own in num.items()})
        return [
            match for learner in num for match in (*(one for one in drawn if one.learner == learner), *again[learner])
        ]

    def _replayed(self, step: int, learner: str, num: int) -> list[Match]:
        path = (step, learner) if self._config.league.learners else (step,)
        matches = {
            entry.task.seed: (entry, match)
            for entry in self._played.get(learner, ())
            if (match := self._inner.replay(learner, entry)) is not None
        }
        seed = derive(self._config.seed, "revisits", *path)
        entries = draw_replayed([entry for entry, _ in matches.values()], int(self._config.batch.replay * num), seed)
        return [matches[entry.task.seed][1] for entry in entries]

    def draw_replacements(self, step: int, num: Mapping[str, int]) -> list[Match]:
        return self._inner.draw_replacements(step, num)

    def replay(self, learner: str, entry: PlayedTask) -> Match | None:
        return self._inner.replay(learner, entry)

    def update(self, step: int, played: Sequence[PlayedMatch]) -> None:
        for learner in dict.fromkeys(one.learner for one in played):
            groups = [one.group for one in played if one.learner == learner and one.is_drawn]
            self._played[learner] = update_played(self._played.get(learner, ()), groups, self._config.batch.size)
        self._inner.update(step, played)

    def copy(self, learner: str, parent: str) -> None:
        """The parent's scores are those of the learner's new weights."""
        self._played[learner] = self._played.get(parent, ())
        self._inner.copy(learner, parent)

    def state(self) -> SourceState:
        return msgspec.structs.replace(self._inner.state(), played=dict(self._played))

    def restore(self, state: SourceState) -> None:
        self._played = dict(state.played)
        self._inner.restore(state)


class VariedTasks:
    """Plays another source's tasks, replayed ones too, in the world that the config's schedule has at the step.

    Its words are those that the task's seed draws where the config has several wordings.
    """

    def __init__(self, config: Config, inner: TaskSource, learners: CountsTokens) -> None:
        self._config = config
        self._inner = inner
        self._learners = learners

    def draw(self, step: int, num: Mapping[str, int]) -> list[Match]:
        return self._varied(step, self._inner.draw(step, num))

    def draw_replacements(self, step: int, num: Mapping[str, int]) -> list[Match]:
        return self._varied(step, self._inner.draw_replacements(step, num))

    def _varied(self, step: int, matches: Sequence[Match]) -> list[Match]:
        world = self._config.world_at(step, self._learners.num_tokens)
        num = self._config.population.wordings
        worlds = [drawn_wording(world, num, match.task.seed) for match in matches]
        return [
            match._replace(task=msgspec.structs.replace(match.task, world=own))
            for match, own in zip(matches, worlds, strict=True)
        ]

    def replay(self, learner: str, entry: PlayedTask) -> Match | None:
        return self._inner.replay(learner, entry)

    def update(self, step: int, played: Sequence[PlayedMatch]) -> None:
        self._inner.update(step, played)

    def copy(self, learner: str, parent: str) -> None:
        self._inner.copy(learner, parent)

    def state(self) -> SourceState:
        return self._inner.state()

    def restore(self, state: SourceState) -> None:
        self._inner.restore(state)
