"""Players that follow the exact plan against a known pool: Bayes-optimal, and best memoryless.

They update their belief from the keys of their own decisions and the text their seat is told after an episode,
compared as whole strings with those the rules can produce: nothing is parsed, and no hidden information is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from mage.errors import ConfigError, PlayError
from mage.evaluation.exact.planner import Belief, Planner, PlanObjective, normalised, posterior
from mage.evaluation.exact.pool import load_pool, normalise_members
from mage.evaluation.exact.tree import Decision, Leaf, Node, Tree
from mage.seeds import stream
from mage.types import AgentInfo, Observation, Reply, Task


class BayesPlayer:
    """A Bayes-optimal agent for one trial. Planners can be shared: they hold no state of a trial."""

    def __init__(self, planner: Planner, trees: Sequence[Tree], name: str) -> None:
        self.info = AgentInfo(name, None, None)
        self._planner = planner
        self._trees = trees
        self._belief = planner.prior
        self._next: Tree = trees[0]
        """The nodes that can come next."""

    async def act(self, observation: Observation) -> Reply:
        node = self._next_node(False, observation.key)
        assert isinstance(node, Decision)
        place = self._choose(observation.episode, node)
        self._next = node.branches[place]
        return Reply(observation.actions[observation.ids.index(node.ids[place])], "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        leaf = self._next_node(True, str(outcome.facts.get("told", outcome.text)))
        assert isinstance(leaf, Leaf)
        self._belief = self._belief_after(leaf)
        self._next = self._trees[outcome.episode + 1]
        return None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()

    def _choose(self, episode: int, node: Decision) -> int:
        return self._planner.choose(episode, node, self._belief)

    def _belief_after(self, leaf: Leaf) -> Belief:
        return normalised(posterior(leaf, self._belief))

    def _next_node(self, over: bool, what: str) -> Node:
        node = self._next.get((over, what))
        expected = () if node is None else node.reach if isinstance(node, Leaf) else node.members
        if node is None or not any(member in expected for member in self._belief):
            raise PlayError(
                f"the opponent or level is not in the pool that {self.info.name} knows: {what!r} cannot happen"
            )
        return node


class StrayingPlayer(BayesPlayer):
    """A Bayes-optimal player that draws a share of its moves at random, and goes on optimally from where they lead."""

    def __init__(self, planner: Planner, trees: Sequence[Tree], name: str, noise: float, rng: Random) -> None:
        super().__init__(planner, trees, name)
        self._noise = noise
        self._rng = rng
        self.strayed = False
        """Whether the last move was drawn at random."""

    def _choose(self, episode: int, node: Decision) -> int:
        self.strayed = self._rng.random() < self._noise
        return self._rng.randrange(len(node.ids)) if self.strayed else super()._choose(episode, node)


class MemorylessPlayer(BayesPlayer):
    """Plays every episode from the prior: the best memoryless play, and the control of the Bayes player."""

    def __init__(self, planners: Sequence[Planner], trees: Sequence[Tree], name: str) -> None:
        super().__init__(planners[0], trees, name)
        self._planners = planners

    def _choose(self, episode: int, node: Decision) -> int:
        return self._planners[episode].choose(0, node, self._belief)

    def _belief_after(self, leaf: Leaf) -> Belief:
        return self._planner.prior


class BayesAgentFactory:
    """Makes Bayes-optimal players that know `members` and their weights; trials share plans.

    With `noise` they draw that share of their moves at random.
    """

    def __init__(self, members: Sequence[tuple[str, float]], objective: PlanObjective, *, noise: float = 0.0) -> None:
        self._members = tuple(members)
        self._objective = objective
        self._noise = noise
        self._plans: dict[tuple[str, int, int], tuple[Planner, tuple[Tree, ...]]] = {}

    def __call__(self, task: Task, sibling: int) -> BayesPlayer:
        if task.replay_deal or task.early_stop:
            raise ConfigError("Bayes-optimal play needs fresh deals and whole trials: no replay_deal, no early_stop")
        key = (task.world, task.seat, task.episodes)
        if key not in self._plans:
            self._plans[key] = self._plan(*key)
        name = f"bayes-{self._objective}"
        if self._noise:
            rng = stream(task.seed, "teacher", sibling, "noise")
            return StrayingPlayer(*self._plans[key], name, self._noise, rng)
        return BayesPlayer(*self._plans[key], name)

    def _plan(self, world: str, seat: int, episodes: int) -> tuple[Planner, tuple[Tree, ...]]:
        pool = load_pool(world, normalise_members(world, self._members, seat, episodes), seat)
        trees = pool.trees(episodes)
        return Planner(trees, pool.prior, self._objective.weights(episodes)), trees


class MemorylessAgentFactory:
    """Makes memoryless players that know `members` and their weights; trials share plans."""

    def __init__(self, members: Sequence[tuple[str, float]]) -> None:
        self._members = tuple(members)
        self._plans: dict[tuple[str, int, int], tuple[tuple[Planner, ...], tuple[Tree, ...]]] = {}

    def __call__(self, task: Task, sibling: int) -> MemorylessPlayer:
        key = (task.world, task.seat, task.episodes)
        if key not in self._plans:
            pool = load_pool(
                task.world, normalise_members(task.world, self._members, task.seat, task.episodes), task.seat
            )
            trees = pool.trees(task.episodes)
            self._plans[key] = tuple(Planner([tree], pool.prior, [1.0]) for tree in trees), trees
        return MemorylessPlayer(*self._plans[key], "best-memoryless")
