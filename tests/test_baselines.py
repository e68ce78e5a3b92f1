"""What the methods of prompting share: names, settings, contract, tokens, a context that is too small."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from mage.agents.briefing import Briefing
from mage.agents.language import LanguageAgent, Rewrite, as_written
from mage.agents.methods.cases import CasesAgent
from mage.agents.methods.registry import METHODS, agent_class, check_method
from mage.checks.agents import check_agent
from mage.config.load import load_config
from mage.engines.scripted import MODELS, ScriptedEngine, counter
from mage.errors import ConfigError
from mage.evaluation.splits import load_split
from mage.evaluation.suite.evaluate import evaluation_tasks
from mage.evaluation.suite.metrics import trial_metrics
from mage.evaluation.suite.reflections import evaluate_reflections
from mage.protocols import Agent, AgentFactory
from mage.training.build import agent_settings, check, language_agent_factory
from mage.types import Failure, Memory, Observation, Reply, ReplyMode, Task, Thoughts, Trial
from tests.prompted import BASELINES, CODEC, agent_of, decisions, how_of, played, see, told
from tests.seated import GAMES, TEXTS, WORLD, RandomEngine, agent_calls, make_settings, make_task, play_all, saying
from tests.test_streams import check_samples, check_secrets, check_structure


def test_every_method_has_a_name_and_an_agent_that_tells_it() -> None:
    assert list(METHODS) == ["plain", "react", "reflexion", "linked-notes", "cases"]
    for name, kind in METHODS.items():
        assert agent_class(name) is kind
        assert agent_of(ScriptedEngine(counter), how_of(name)).info.method == name
        assert Memory.NONE in kind.memories, "the control has no memory"
    with pytest.raises(ConfigError, match="unknown method 'cot'; known: cases, linked-notes, plain, react, reflexion"):
        agent_class("cot")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["agent.method=ReAct"], r"unknown method 'ReAct'; did you mean react\? known: cases, .*, reflexion"),
        (["agent.method=reflexion"], "agent.method = reflexion takes agent.memory = reflections or none, not both"),
        (["agent.method=linked-notes", "agent.memory=history"], "agent.memory = reflections or none, not history"),
        (["agent.method=cases", "agent.memory=reflections"], "agent.memory = history or none, not reflections"),
    ],
)
def test_a_method_that_cannot_be_used_is_refused(overrides: Sequence[str], message: str) -> None:
    config = load_config("demo", overrides)
    with pytest.raises(ConfigError, match=message):
        check(config)
    with pytest.raises(ConfigError, match=message):
        language_agent_factory(WORLD, ScriptedEngine(counter), CODEC, agent_settings(config.agent))


def test_react_takes_every_memory_and_may_strip_its_thoughts() -> None:
    for memory in Memory:
        check_method("react", memory)
    check(load_config("demo", ["agent.method=react", "agent.memory=history", "agent.thoughts=strip"]))
    with pytest.raises(ConfigError, match="holds no thoughts; they are asked for by react"):
        check(load_config("demo", ["agent.method=cases", "agent.memory=history", "agent.thoughts=strip"]))


@pytest.mark.parametrize("thoughts", Thoughts)
@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("method", BASELINES)
def test_methods_keep_the_contract_of_agents(method: str, reply: ReplyMode, thoughts: Thoughts) -> None:
    for number, game in enumerate(GAMES):
        how = how_of(method, reply=reply, thoughts=thoughts, context=(100_000, 2000)[number % 2])
        tasks = [make_task(game, seat=seat, episodes=4, seed=number) for seat in (0, 1)]
        check_agent(language_agent_factory(WORLD, RandomEngine(TEXTS), CODEC, how), tasks)


class Rewriting(CasesAgent):
    """Changes what stands in its stream."""

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        streams, overflows = super().memory()
        return tuple((sum(map(len, streams)), *stream[1:]) for stream in streams), overflows


class Misplacing(LanguageAgent):
    """Does not know where its answers stand."""

    async def act(self, observation: Observation) -> Reply:
        reply = await super().act(observation)
        return msgspec.structs.replace(reply, calls=tuple(msgspec.structs.replace(c, start=1) for c in reply.calls))


class Moody(LanguageAgent):
    """Plays otherwise each time it is seated."""

    seated = 0

    async def act(self, observation: Observation) -> Reply:
        reply = await super().act(observation)
        Moody.seated += 1
        return msgspec.structs.replace(reply, text=str(Moody.seated))


@pytest.mark.parametrize(
    ("kind", "broken"),
    [(Rewriting, "could only grow"), (Misplacing, "not where its stream"), (Moody, "another trial")],
)
def test_the_check_finds_broken_agents(kind: type[LanguageAgent], broken: str) -> None:
    def seat(task: Task, sibling: int) -> Agent:
        return kind(RandomEngine(), CODEC, how_of(kind.method), Briefing("RULES"), task, sibling)

    with pytest.raises(AssertionError, match=broken):
        check_agent(seat, [make_task()])


@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("method", ["reflexion", "linked-notes", "cases"])
def test_without_memory_a_method_that_only_remembers_is_a_plain_agent(method: str, reply: ReplyMode) -> None:
    how = how_of(method, memory=Memory.NONE, reply=reply)
    trial = played(make_task(), RandomEngine(TEXTS), how)
    plain = played(make_task(), RandomEngine(TEXTS), how_of("plain", memory=Memory.NONE, reply=reply))
    assert (trial.streams, trial.episodes, trial.reflections) == (plain.streams, plain.episodes, ())
    assert (trial.agent.method, plain.agent.method) == (method, "plain")


@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("method", BASELINES)
def test_every_token_is_counted_and_every_decision_can_be_trained(method: str, reply: ReplyMode) -> None:
    for game in GAMES:
        engine = RandomEngine(TEXTS)
        trial = played(make_task(game, episodes=4), engine, how_of(method, reply=reply))
        calls = agent_calls(trial)
        assert [trial.streams[call.stream][: call.start] for call in calls] == engine.prompts
        found = trial_metrics([trial])
        assert found.tokens_sampled == sum(len(call.completion.tokens) for call in calls)
        assert found.tokens_read == sum(map(len, trial.streams))
        check_structure(trial, CODEC)
        check_secrets(trial)
        check_samples(trial)


@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("method", BASELINES)
def test_thirty_episodes_in_a_small_context_recover(method: str, reply: ReplyMode) -> None:
    how = how_of(method, reply=reply, context=2400, reflection_tokens=80, max_tokens=150)
    trial = played(make_task(episodes=30, opponents=("cycle(step=1)",)), MODELS["counter"], how)
    assert len(trial.episodes) == 30
    assert all(len(stream) <= 2400 for stream in trial.streams)
    assert all(observation.text in message for observation, message in decisions(trial))


@pytest.mark.parametrize("method", ["linked-notes", "cases"])
def test_what_is_brought_back_goes_before_an_episode_is_given_up(method: str) -> None:
    """Whatever the context, only the first episode, in which nothing is brought back, can be too long for it."""

    def outcome(context: int) -> Trial | Failure:
        how = how_of(method, context=context, reflection_tokens=30)
        task = make_task("rps(rounds=3)", episodes=6, opponents=("always:rock",))
        (found,) = play_all([(task, 0)], language_agent_factory(WORLD, ScriptedEngine(MODELS["first"]), CODEC, how))
        return found

    outcomes = [outcome(context) for context in range(500, 2200, 25)]
    failures = [found for found in outcomes if isinstance(found, Failure)]
    trials = [found for found in outcomes if isinstance(found, Trial)]
    assert outcomes == [*failures, *trials], "a larger context never hurts"
    assert failures
    assert all("too small for episode 1 alone" in failure.message for failure in failures)
    overflows = [len(trial.overflows) for trial in trials]
    assert overflows[0] > 0 == overflows[-1]
    assert len({trial.scores for trial in trials}) == 1


@pytest.mark.parametrize("method", BASELINES)
def test_what_a_forked_agent_remembers_is_its_own(method: str) -> None:
    async def play(with_fork: bool) -> LanguageAgent:
        agent = agent_of(ScriptedEngine(saying("hm")), how_of(method), 3)
        await agent.act(see(0, 0, "At home."))
        if with_fork:
            fork = agent.fork(1)
            await fork.reflect(told(0, "All lost.", -1.0))
            await fork.act(see(1, 0, "At home."))
            await fork.act(see(1, 1, "Away."))
            await fork.reflect(told(1, "All won.", 1.0))
        await agent.reflect(told(0, "Nothing happened."))
        await agent.act(see(1, 0, "At home."))
        return agent

    assert asyncio.run(play(True)).memory() == asyncio.run(play(False)).memory()


@pytest.mark.parametrize("method", ["reflexion", "linked-notes"])
def test_what_the_reflections_of_a_method_do_can_be_judged(method: str) -> None:
    def seated(rewrite: Rewrite) -> AgentFactory:
        return language_agent_factory(WORLD, ScriptedEngine(counter), CODEC, how_of(method), rewrite)

    history = language_agent_factory(WORLD, ScriptedEngine(counter), CODEC, how_of("plain", memory=Memory.HISTORY))
    alone = seated(as_written)
    split = load_split("rps-constants")
    tasks = evaluation_tasks(split, episodes=3, seats=(0,), trials=2, seed=5)
    report = asyncio.run(evaluate_reflections(WORLD, seated, history, alone, split, tasks))
    assert report.alone is not None
    assert (report.alone.reader.value, report.alone.blank.value) == (1.0, 0.0)
    assert [e.value for e in report.kept] == [0.0, 1.0, 1.0]
    assert [e.value for e in report.removed] == [0.0, 0.0, 0.0]
    assert report.swapped[2].value < 0


def test_settings_have_a_plain_agent_unless_they_say_otherwise() -> None:
    assert make_settings().method == "plain"
    assert agent_settings(load_config("demo", ["agent.method=react"]).agent).method == "react"
