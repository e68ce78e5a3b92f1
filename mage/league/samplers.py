"""Opponent samplers: from a league to the probabilities with which a learner draws each opponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from math import fsum
from typing import Annotated, Protocol, TypeVar, cast

import msgspec

from mage.errors import ConfigError, pick
from mage.league.members import Member, MemberKind
from mage.league.state import League
from mage.seeds import pick_index

S = TypeVar("S", bound=msgspec.Struct)
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
MemberProbs = dict[str, float]
"""Probability by member id."""


class Sampler(Protocol):
    """Gives the probabilities of a learner's opponents."""

    def odds(self, league: League, learner: str, opponents: Sequence[Member]) -> MemberProbs:
        """The probability of each of `opponents`, in their order."""
        ...


class Uniform(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Equal probabilities.

    When to use: as the control, and for a small pool in which every opponent is still informative. A growing list of
    snapshots dilutes it: after n of them the newest is drawn once in n.
    """

    def odds(self, league: League, learner: str, opponents: Sequence[Member]) -> MemberProbs:
        return _shares([(m.id, 1.0) for m in opponents], learner)


class Weighted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By the weights of the config; learners and snapshots have weight 1.

    When to use: when the important members are known beforehand, for example if those of the evaluation should be half
    of the training tasks.
    """

    def odds(self, league: League, learner: str, opponents: Sequence[Member]) -> MemberProbs:
        return _shares([(m.id, m.weight) for m in opponents], learner)


class Priority(StrEnum):
    """Which opponents are preferred."""

    HARD = "hard"
    """Those that win: (1 - p) ** power."""
    EVEN = "even"
    """Those that win about half: p (1 - p)."""


class Prioritised(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prioritised fictitious self-play: by a function of p, the share of the score range won (Vinyals et al. 2019).

    When to use: the first choice for a large or growing pool. `hard` prefers opponents that still win, for strong
    learners and the end of training; `even` is a curriculum for weak ones, which learn little from opponents that
    always win.

    Each opponent starts with `prior` observations of the p of highest priority (0 for hard, 1/2 for even), so that new
    opponents come first and one lucky result has little weight. `floor` is spread evenly, so that none is forgotten.
    """

    kind: Priority = Priority.HARD
    power: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    """How strongly hard opponents are preferred; 0 is uniform. Without effect on even."""
    floor: Share = 0.1
    """The share that is spread evenly."""
    prior: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    """Weight of the prior, in observations."""
    lowest: float = -1.0
    """The score of which p is 0."""
    highest: float = 1.0
    """The score of which p is 1."""

    def __post_init__(self) -> None:
        _refuse_range(self.lowest, self.highest)

    def odds(self, league: League, learner: str, opponents: Sequence[Member]) -> MemberProbs:
        wanted = {m.id: self._priority(self.win_share(league, learner, m.id)) for m in opponents}
        if not any(wanted.values()):
            wanted = dict.fromkeys(wanted, 1.0)
        return _mixed(_shares(list(wanted.items()), learner), self.floor)

    def win_share(self, league: League, learner: str, opponent: str) -> float:
        """The share of the score range that a learner wins, shrunk to the prior; 1/2 against itself."""
        if opponent == learner:
            return 0.5
        guess = 0.0 if self.kind is Priority.HARD else 0.5
        cell = league.payoffs.cell(learner, opponent)
        if cell is None:
            return guess
        seen = min(1.0, max(0.0, (cell.mean - self.lowest) / (self.highest - self.lowest)))
        return (cell.weight * seen + self.prior * guess) / (cell.weight + self.prior)

    def _priority(self, won: float) -> float:
        return float((1.0 - won) ** self.power) if self.kind is Priority.HARD else won * (1.0 - won)


class Psro(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The opponents' strategy in an equilibrium of the meta-game learners x opponents (Lanctot et al. 2017).

    A zero-sum matrix game of mean scores, rows are learners and columns opponents, solved by OpenSpiel's CFR+. `floor`
    is spread evenly. When to use: for cyclic games, in which there is no single hardest opponent and a learner that
    chases one forgets another; it needs few learners and full cells.

    An opponent without results against some learner keeps its probability of the uniform sampler, and the equilibrium
    is scaled to the rest. A learner against itself counts as the middle of the score range.
    """

    floor: Share = 0.2
    """The share that is spread evenly."""
    iterations: Annotated[int, msgspec.Meta(ge=1)] = 200
    """Of CFR+."""
    lowest: float = -1.0
    highest: float = 1.0

    def __post_init__(self) -> None:
        _refuse_range(self.lowest, self.highest)

    def odds(self, league: League, learner: str, opponents: Sequence[Member]) -> MemberProbs:
        evenly = Uniform().odds(league, learner, opponents)
        columns = {m.id: self._column(league, m.id) for m in opponents}
        known = {name: column for name, column in columns.items() if None not in column}
        if not known or not league.learners:
            return evenly
        rows = tuple(zip(*cast(list[tuple[float, ...]], list(known.values())), strict=True))
        meta = dict(zip(known, meta_strategy(rows, self.iterations), strict=True))
        left = len(known) / len(opponents)
        return _mixed({name: left * meta[name] if name in meta else odd for name, odd in evenly.items()}, self.floor)

    def _column(self, league: League, opponent: str) -> tuple[float | None, ...]:
        cells = league.payoffs.column(opponent)
        middle = (self.lowest + self.highest) / 2
        own = {name: cell.mean for name, cell in cells.items()} | {opponent: middle}
        return tuple(own.get(m.id) for m in league.learners)


class Anchored(msgspec.Struct, frozen=True):
    """A fixed share spread evenly over the anchors; the rest by another sampler.

    When to use: in every long run. Learners that play mostly each other drift together and forget how to beat the
    scripts they are evaluated on; a quarter of the tasks is enough to prevent it. Without anchors, or with
    anchors only, the members present get the whole probability.
    """

    share: Share
    inner: Sampler

    def odds(self, league: League, learner: str, opponents: Sequence[Member]) -> MemberProbs:
        anchors = [m for m in opponents if m.kind is MemberKind.ANCHOR]
        others = [m for m in opponents if m.kind is not MemberKind.ANCHOR]
        if not others:
            return Uniform().odds(league, learner, anchors)
        inner = self.inner.odds(league, learner, others)
        if not anchors:
            return inner
        evenly = dict.fromkeys((m.id for m in anchors), self.share / len(anchors))
        rest = {name: (1.0 - self.share) * odd for name, odd in inner.items()}
        return {m.id: (evenly | rest)[m.id] for m in opponents}


class _AnchoredOptions(msgspec.Struct, frozen=True):
    """The options of `anchored` itself; others go to the inner sampler."""

    share: Share = 0.25
    inner: str = "prioritised"


PLAIN: Mapping[str, type[msgspec.Struct]] = {
    "prioritised": Prioritised,
    "psro": Psro,
    "uniform": Uniform,
    "weighted": Weighted,
}
NAMES = ("anchored", *PLAIN)
"""All samplers."""


def make_sampler(
    name: str,
    options: Mapping[str, bool | int | float | str],
    score_range: tuple[float, float] = (-1.0, 1.0),
) -> Sampler:
    """A sampler from the plain values of a recipe; raises `ConfigError` with the options it takes.

    `score_range` is the world's; samplers that use scores take it unless `lowest` and `highest` are given.

    >>> make_sampler("anchored", {"share": 0.5, "inner": "prioritised", "kind": "even"}).inner.kind
    <Priority.EVEN: 'even'>
    """
    pick("sampler", dict.fromkeys(NAMES), name)
    if name != "anchored":
        return _plain(name, options, score_range)
    own = {key: value for key, value in options.items() if key in _AnchoredOptions.__struct_fields__}
    made = _converted(_AnchoredOptions, name, own)
    pick("inner sampler of anchored", PLAIN, made.inner)
    rest = {key: value for key, value in options.items() if key not in own}
    return Anchored(made.share, _plain(made.inner, rest, score_range))


def draw_member(odds: Mapping[str, float], point: float) -> str:
    """The member that `point` in [0, 1) selects.

    >>> [draw_member({"a": 0.25, "b": 0.75}, point) for point in (0.2, 0.3)]
    ['a', 'b']
    """
    return list(odds)[pick_index(list(odds.values()), point)]


@lru_cache(maxsize=64)
def meta_strategy(rows: tuple[tuple[float, ...], ...], iterations: int) -> tuple[float, ...]:
    """The column player's strategy in an equilibrium of a zero-sum matrix game, given the row player's scores.

    >>> [round(odd, 3) for odd in meta_strategy(((0.0, -1.0, 1.0), (1.0, 0.0, -1.0), (-1.0, 1.0, 0.0)), 10)]
    [0.333, 0.333, 0.333]
    """
    import pyspiel  # slow to import, needed here alone

    names = [[f"{side}{i}" for i in range(size)] for side, size in (("r", len(rows)), ("c", len(rows[0])))]
    losses = [[-score for score in row] for row in rows]
    game = pyspiel.create_matrix_game("league", "league", *names, [list(row) for row in rows], losses)
    turns = pyspiel.convert_to_turn_based(game)
    solver = pyspiel.CFRPlusSolver(turns)
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    state = turns.new_initial_state()
    state.apply_action(0)
    odds = dict(solver.average_policy().action_probabilities(state))
    return tuple(odds[i] for i in range(len(rows[0])))


def _plain(name: str, options: Mapping[str, bool | int | float | str], score_range: tuple[float, float]) -> Sampler:
    kind = PLAIN[name]
    ends = dict(zip(("lowest", "highest"), score_range, strict=True))
    own = {key: value for key, value in ends.items() if key in kind.__struct_fields__}
    return cast(Sampler, _converted(kind, name, {**own, **options}))


def _converted(kind: type[S], name: str, options: Mapping[str, object]) -> S:
    try:
        return msgspec.convert(options, type=kind)
    except msgspec.ValidationError as error:
        takes = ", ".join(f"{f.name}={_choices(f.default)}" for f in msgspec.structs.fields(kind)) or "no options"
        raise ConfigError(f"sampler {name!r} with {dict(options)}: {error}; it takes {takes}") from None


def _choices(default: object) -> str:
    """A default as an error message shows it: an enum with all its values."""
    return "|".join(type(default)) if isinstance(default, StrEnum) else str(default)


def _refuse_range(lowest: float, highest: float) -> None:
    if not lowest < highest:
        raise ConfigError(f"scores from {lowest} to {highest}: the lowest must be under the highest")


def _shares(weights: Sequence[tuple[str, float]], learner: str) -> MemberProbs:
    """Weights divided by their sum; raises `ConfigError` where that is 0."""
    total = fsum(weight for _, weight in weights)
    if not total > 0:
        raise ConfigError(f"{learner} has no opponents to draw: their weights are {dict(weights)}")
    return {name: weight / total for name, weight in weights}


def _mixed(odds: Mapping[str, float], floor: float) -> MemberProbs:
    """Probabilities with the share `floor` spread evenly."""
    return {name: (1.0 - floor) * odd + floor / len(odds) for name, odd in odds.items()}
