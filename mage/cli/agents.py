"""The agents that a command names: who they are, checked against a game, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.cli.resource_limits import ResourceLimits, say_where_the_key_goes
from mage.evaluation.eval_agent import BAYES, EvalAgent, OpponentEvalAgent
from mage.evaluation.exploitability.nashconv import NamedAgent
from mage.opponents.registry import OPPONENTS, TALKERS, check_opponent
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.world import OpenSpielWorld


def subjects_of(
    agents: Sequence[str], values: Mapping[str, object], game: Game, means: ResourceLimits
) -> list[EvalAgent]:
    """Who is named, checked against the game; settings of models are kept from players, who have none."""
    say_where_the_key_goes(agents)
    eval_agents = []
    for agent in agents:
        own = {key: v for key, v in values.items() if not (_is_player(agent) and key.startswith("agent."))}
        eval_agent = means.eval_agent(agent, own)
        if isinstance(eval_agent, OpponentEvalAgent):
            for seat in range(game.num_seats):
                check_opponent(eval_agent.name, game, seat)
        eval_agents.append(eval_agent)
    return eval_agents


def named(texts: Sequence[str], eval_agents: Sequence[EvalAgent]) -> list[NamedAgent]:
    """Agents by their names, or as they were given where two have the same."""
    world = OpenSpielWorld()
    names = [eval_agent.name for eval_agent in eval_agents]
    shown_names = [t if names.count(name) > 1 else name for t, name in zip(texts, names, strict=True)]
    return [(name, eval_agent.make_agent(world)) for name, eval_agent in zip(shown_names, eval_agents, strict=True)]


def _is_player(agent: str) -> bool:
    """Whether it is a player without a model, as far as its name says."""
    names = {BAYES, *OPPONENTS} - set(TALKERS)
    return any(agent == name or agent.startswith((f"{name}:", f"{name}(")) for name in names)
