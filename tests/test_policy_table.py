"""What an agent would do, read without changing it; and walks on which its moves are dictated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mage.agents.briefing import briefing_of
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.agents.methods.registry import METHODS
from mage.checks.policy_tables import check_inspectable_agent
from mage.engines.local.engine import LocalEngine
from mage.engines.scripted import ScriptedEngine, first
from mage.errors import ConfigError
from mage.evaluation.exploitability.policy_table import (
    ActionProbs,
    InspectableAgent,
    information_states,
    read_action_probs,
    read_policy,
)
from mage.models.load import load_model
from mage.opponents.policy import PolicyAgent, PolicyPlayer, evenly
from mage.opponents.registry import make_player
from mage.protocols import Agent, Engine
from mage.rollout.trial import play_trial
from mage.types import Memory, Observation, Reply, ReplyMode, Task
from mage.worlds.openspiel.game import load_game
from tests.open_engines import WeighingEngine, constantly, kuhn_equilibrium, kuhn_place
from tests.seated import WORLD, RandomEngine, make_settings, make_task, newest_message, play

KUHN = load_game("kuhn_poker")


def fresh(engine: Engine, how: AgentSettings, task: Task) -> LanguageAgent:
    return LanguageAgent(engine, ByteFormat(), how, briefing_of(WORLD, task), task, 0)


def kuhn_agent(engine: Engine, seat: int = 0, **changes: object) -> LanguageAgent:
    return fresh(engine, make_settings(**changes), make_task("kuhn_poker", seat=seat))


def test_kuhn_has_six_information_states_in_each_seat_and_they_say_how_one_comes_there() -> None:
    first, second = information_states(KUHN)
    assert [place.key for place in first if place.before is None] == ["2", "1", "0"]
    assert {place.key: place.before for place in first if place.before} == {
        f"{c}pb": (str(c), "pass") for c in range(3)
    }
    assert all(place.before is None for place in second)
    assert len(second) == 6
    assert {place.observation.turn for place in first} == {0, 1}


def test_information_states_are_of_the_episode_that_is_asked_for() -> None:
    assert {place.observation.episode for seat in information_states(KUHN, 2) for place in seat} == {2}


def test_simultaneous_games_have_information_states_too() -> None:
    first, second = information_states(load_game("rps(rounds=2)"))
    assert len(first) == len(second) == 1 + 9


def test_games_without_information_states_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"2048\(\) has no information states"):
        information_states(load_game("2048"))


def test_games_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.evaluation.exploitability.policy_table.MAX_STATES", 57)
    with pytest.raises(ConfigError, match="over 57 states; responders find a lower bound"):
        information_states(KUHN)
    monkeypatch.setattr("mage.evaluation.exploitability.policy_table.MAX_STATES", 58)
    assert len(information_states(KUHN)) == 2


def test_odds_are_those_of_the_engine_and_leave_the_agent_as_it_was() -> None:
    engine = WeighingEngine(kuhn_equilibrium(0.2))
    agent = kuhn_agent(engine)
    place = information_states(KUHN)[0][0]
    before = agent.memory()
    odds = asyncio.run(read_action_probs(agent, place.observation, num_samples=1))
    again = asyncio.run(read_action_probs(agent, place.observation, num_samples=1))
    assert place.key == "2"
    assert odds == again == ActionProbs((pytest.approx(0.4), pytest.approx(0.6)), 0, 0)  # type: ignore[arg-type]
    assert agent.memory() == before
    assert engine.prompts[0] == engine.prompts[1]


def test_the_policy_of_a_seat_is_read_with_the_history_that_would_really_stand_there() -> None:
    engine = WeighingEngine(kuhn_equilibrium(0.2))
    policy = asyncio.run(read_policy(kuhn_agent(engine), information_states(KUHN)[0], 1))
    bets = {key: odds.probabilities[1] for key, odds in policy.items()}
    expected = {"0": 0.2, "1": 0.0, "2": 0.6, "0pb": 0.0, "1pb": 0.2 + 1 / 3, "2pb": 1.0}
    assert bets == pytest.approx(expected)
    second = [prompt for prompt in engine.prompts if kuhn_place(newest_message(prompt))[1] == "pb"]
    assert len(second) == 3
    for prompt in second:
        card = kuhn_place(newest_message(prompt))[0]
        assert f"Your card: {card}.\nNobody has acted yet.\nActions: pass, bet\n<|assistant|>\npass\n<|user|>" in prompt


@pytest.mark.parametrize(
    ("method", "memory"),
    [(method, memory) for method, kind in METHODS.items() if method != "react" for memory in kind.memories],
)
def test_a_dictated_move_leaves_the_same_tokens_as_a_sampled_one(method: str, memory: Memory) -> None:
    kind = METHODS[method]
    for reply in ReplyMode:
        how = make_settings(memory=memory, reply=reply, method=method)
        assert streams_of(kind, how, is_dictated=True) == streams_of(kind, how, is_dictated=False)


class Dictated:
    """An agent that always bets, because it is told to."""

    def __init__(self, agent: InspectableAgent) -> None:
        self.info = agent.info
        self._agent = agent

    async def act(self, observation: Observation) -> Reply:
        self._agent.force_action(observation, "bet")
        return Reply("bet", "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        return await self._agent.reflect(outcome)

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._agent.memory()


def streams_of(kind: type[LanguageAgent], how: AgentSettings, *, is_dictated: bool) -> object:
    """The streams of a trial in which the agent always bets: because it wants to, or because it is told to."""
    engine = WeighingEngine(constantly(1.0, 0.0) if is_dictated else constantly(0.0, 1.0))

    def seat(task: Task, sibling: int) -> Agent:
        agent = kind(engine, ByteFormat(), how, briefing_of(WORLD, task), task, sibling)
        return Dictated(agent) if is_dictated else agent

    trial = asyncio.run(play_trial(WORLD, make_task("kuhn_poker", opponents=("always:pass",)), 0, seat))
    assert {turn.action for episode in trial.episodes for turn in episode.turns[::2]} == {"bet"}
    return trial.streams


def test_where_the_engine_does_not_say_replies_are_sampled_and_counted() -> None:
    agent = kuhn_agent(RandomEngine())
    odds = asyncio.run(read_action_probs(agent, information_states(KUHN)[0][0].observation, num_samples=400))
    assert (odds.num_samples, odds.forfeits) == (400, 0)
    assert 0.4 < odds.probabilities[0] < 0.6
    assert agent.memory() == ((), ())


def test_text_replies_are_sampled_and_answers_without_an_action_are_counted_apart() -> None:
    engine = WeighingEngine(constantly(0.3, 0.1))
    agent = kuhn_agent(engine, reply=ReplyMode.TEXT, retries=0)
    odds = asyncio.run(read_action_probs(agent, information_states(KUHN)[0][0].observation, num_samples=2000))
    assert odds.forfeits == pytest.approx(1200, abs=100)
    assert odds.probabilities == pytest.approx((0.75, 0.25), abs=0.05)
    assert sum(odds.probabilities) == pytest.approx(1.0)


def test_where_all_give_up_the_odds_are_even_and_it_shows() -> None:
    agent = kuhn_agent(WeighingEngine(constantly(0.0, 0.0)), reply=ReplyMode.TEXT)
    odds = asyncio.run(read_action_probs(agent, information_states(KUHN)[0][0].observation, num_samples=5))
    assert odds == ActionProbs((0.5, 0.5), 5, 5)


def test_without_an_answer_nothing_is_known() -> None:
    with pytest.raises(ConfigError, match="at least 1 reply"):
        asyncio.run(
            read_action_probs(kuhn_agent(RandomEngine()), information_states(KUHN)[0][0].observation, num_samples=0)
        )


def test_sampled_words_lead_to_later_places_in_their_true_proportions() -> None:
    """Who said "low" passes later and who said "high" bets later: a third of those who passed first said "low"."""

    def weigh(prompt: str, actions: tuple[str, ...]) -> Sequence[float]:
        if kuhn_place(newest_message(prompt))[1] == "":
            return (1.0, 0.0)
        return (1.0, 0.0) if "low" in prompt else (0.0, 1.0)

    agent = kuhn_agent(WeighingEngine(weigh, words=("low ", "high ", "high ")), reply=ReplyMode.TEXT)
    policy = asyncio.run(read_policy(agent, information_states(KUHN)[0], 600))
    assert policy["0"].probabilities == (1.0, 0.0)
    assert policy["0pb"].probabilities[0] == pytest.approx(1 / 3, abs=0.06)


def test_places_that_nobody_samples_a_way_to_are_reached_by_dictation() -> None:
    agent = kuhn_agent(WeighingEngine(constantly(0.0, 1.0)), reply=ReplyMode.TEXT)
    policy = asyncio.run(read_policy(agent, information_states(KUHN)[0], 3))
    assert set(policy) == {"0", "1", "2", "0pb", "1pb", "2pb"}
    assert all(odds == ActionProbs((0.0, 1.0), 3, 0) for odds in policy.values())


def test_at_temperature_zero_a_choice_is_certain() -> None:
    agent = kuhn_agent(WeighingEngine(constantly(0.0, 1.0)), temperature=0.0)
    observation = information_states(KUHN)[0][0].observation
    assert asyncio.run(read_action_probs(agent, observation, num_samples=9)) == ActionProbs((0.0, 1.0), 0, 0)


def test_scripted_models_are_certain_of_their_answers() -> None:
    trial = play(make_task("kuhn_poker"), ScriptedEngine(first), make_settings())
    agent = kuhn_agent(ScriptedEngine(first))
    observation = information_states(KUHN)[0][0].observation
    assert trial.episodes[0].turns[0].action == "pass"
    assert asyncio.run(agent.odds(observation)) == (1.0, 0.0)


def test_a_thought_before_the_action_can_only_be_sampled() -> None:
    task = make_task("kuhn_poker")
    engine = WeighingEngine(constantly(0.0, 1.0))
    how = make_settings(method="react")
    agent = METHODS["react"](engine, ByteFormat(), how, briefing_of(WORLD, task), task, 0)
    observation = information_states(KUHN)[0][0].observation
    assert asyncio.run(read_action_probs(agent, observation, num_samples=7)) == ActionProbs((0.0, 1.0), 7, 0)


def test_players_without_a_model_can_be_asked_too() -> None:
    policy_agent = PolicyAgent(PolicyPlayer(evenly, 0), "uniform")
    assert isinstance(policy_agent, InspectableAgent)
    policy = asyncio.run(read_policy(policy_agent, information_states(KUHN)[1], 1))
    assert set(policy.values()) == {ActionProbs((0.5, 0.5), 0, 0)}


def test_copies_draw_otherwise_than_each_other_and_than_the_agent() -> None:
    engine = RandomEngine()
    agent = kuhn_agent(engine)
    observation = information_states(KUHN)[0][0].observation

    async def acts(agents: Sequence[LanguageAgent]) -> list[str | None]:
        return [(await each.act(observation)).action for each in agents]

    forks = asyncio.run(acts([agent.fork(number) for number in range(40)]))
    again = asyncio.run(acts([agent.fork(number) for number in range(40)]))
    assert forks == again
    assert 10 < forks.count("bet") < 30
    nested = asyncio.run(acts([agent.fork(0).fork(number) for number in range(40)]))
    assert nested != forks


def test_a_copy_remembers_what_the_agent_did_and_goes_its_own_way() -> None:
    task = make_task("kuhn_poker")
    agent = fresh(RandomEngine(), make_settings(), task)
    first, second = (place.observation for place in information_states(KUHN)[0] if place.key in ("0", "0pb"))
    agent.force_action(first, "pass")
    before = agent.memory()
    fork = agent.fork(1)
    assert fork.memory() == before
    fork.force_action(second, "bet")
    assert agent.memory() == before
    assert fork.memory()[0][0][: len(before[0][0])] == before[0][0]
    assert len(fork.memory()[0][0]) > len(before[0][0])


def walk() -> list[Observation]:
    """What the first player of Kuhn poker sees with a jack when it passes and the other bets."""
    return [place.observation for place in information_states(KUHN, 1)[0] if place.key in ("0", "0pb")]


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("reply", list(ReplyMode))
def test_agents_of_every_method_keep_the_contract(method: str, reply: ReplyMode) -> None:
    kind = METHODS[method]
    how = make_settings(method=method, memory=kind.memories[0], reply=reply)
    task = make_task("kuhn_poker")
    engine = WeighingEngine(constantly(0.6, 0.4))
    check_inspectable_agent(lambda: kind(engine, ByteFormat(), how, briefing_of(WORLD, task), task, 0), walk(), 40)


def test_a_real_model_keeps_the_contract() -> None:
    loaded = load_model("nano(hidden=16,layers=1,heads=2,context=512)", seed=3, worlds=["kuhn_poker"])
    engine = LocalEngine(loaded)
    how = make_settings(memory=Memory.HISTORY, context=512, temperature=0.7)
    task = make_task("kuhn_poker")
    check_inspectable_agent(
        lambda: LanguageAgent(engine, loaded.chat_format, how, briefing_of(WORLD, task), task, 0), walk(), 60
    )


def test_players_keep_the_contract() -> None:
    check_inspectable_agent(lambda: PolicyAgent(make_player("uniform", KUHN, 0, 0), "uniform"), walk(), 1)


class Forgetful(LanguageAgent):
    """Is changed by being asked."""

    async def odds(self, observation: Observation) -> tuple[float, ...] | None:
        self.force_action(observation, observation.actions[0])
        return None


class Boastful(LanguageAgent):
    """Does not do what it says."""

    async def odds(self, observation: Observation) -> tuple[float, ...] | None:
        return (0.0, 1.0)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Forgetful, "reading changes the memory"), (Boastful, "more or less often than its probability says")],
)
def test_agents_that_break_the_contract_are_found(kind: type[LanguageAgent], reason: str) -> None:
    task = make_task("kuhn_poker")
    engine = WeighingEngine(constantly(0.5, 0.5))
    with pytest.raises(AssertionError, match=reason):
        check_inspectable_agent(
            lambda: kind(engine, ByteFormat(), make_settings(), briefing_of(WORLD, task), task, 0), walk()
        )
