"""What a world tells its agents: about the trial and reflections, open actions, and what counts as a success."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from mage.agents.briefing import Briefing, briefing_of
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings
from mage.agents.messages import asks_for_reflection, retry_message, system_message, turn_message
from mage.agents.methods.cases import Case
from mage.agents.methods.registry import METHODS, agent_class
from mage.agents.parsing import parse_open_action
from mage.checks.agents import check_agent
from mage.config.load import replaced
from mage.config.schema import Config
from mage.engines.scripted import MODELS, Answer, ScriptedEngine
from mage.errors import ConfigError, EngineError, PlayError
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.suite.metrics import trial_metrics
from mage.opponents.person import Person
from mage.protocols import Agent, AgentFactory, Engine
from mage.rollout.trial import play_trial
from mage.stats import Verdict, result_verdict
from mage.training.build import check, check_reply, language_agent_factory
from mage.types import REFLECT_REQUEST, SAME_OPPONENTS, Ending, Memory, Observation, ReplyMode, Result, Task, Trial
from mage.worlds.registry import load_world
from tests.seated import RandomEngine, agent_calls, make_settings, newest_message, prompt_text
from tests.solo_worlds import HiddenNumber, Shop

NUMBER, SHOP = "test-number", "test-shop"
CODEC = ByteFormat()
EVERY = [(method, memory) for method, kind in sorted(METHODS.items()) for memory in kind.memories]
SHOPPING = ("<action>search[red shoes]</action>", "hm. <action>buy[red shoes]</action>", "<action>dance</action>", "no")


def solo_task(world: str, **changes: Any) -> Task:
    task = Task(world, (), 0, 3, 3, replay_deal=False, early_stop=False, max_turns=12)
    return msgspec.structs.replace(task, **changes)


def factory(world: str, engine: Engine | Answer, how: AgentSettings) -> AgentFactory:
    model = ScriptedEngine(engine) if callable(engine) else engine
    return language_agent_factory(load_world(world), model, CODEC, how)


def played(task: Task, engine: Engine | Answer, how: AgentSettings) -> Trial:
    return asyncio.run(play_trial(load_world(task.world), task, 0, factory(task.world, engine, how)))


def settings(method: str = "plain", **changes: Any) -> AgentSettings:
    usual = {"method": method, "memory": agent_class(method).memories[0], "reply": ReplyMode.TEXT, "max_tokens": 400}
    return make_settings(**{**usual, **changes})


def saying(*answers: str) -> Answer:
    """A scripted model with prepared answers."""
    left = list(answers)

    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        return left.pop(0)

    return answer


def read(trial: Trial) -> str:
    """All that the model read or wrote in a trial."""
    return "\n".join(map(CODEC.transcript, trial.streams))


@pytest.mark.parametrize("game", ["rps", "kuhn_poker(players=3)", "tic_tac_toe"])
def test_worlds_with_opponents_say_what_they_always_said(game: str) -> None:
    briefing = briefing_of(load_world(game), Task(game, (), 0, 1, 3, False, False, 9))
    assert (briefing.trial, briefing.reflect, briefing.has_open_actions) == (SAME_OPPONENTS, REFLECT_REQUEST, False)
    said = system_message(briefing, 3, Memory.HISTORY, ReplyMode.CHOICE)
    assert said.split("\n")[-2:] == [
        "You play 3 episodes against the same opponents, who play in the same way. You remember what happened.",
        "Answer with one of the actions and nothing else.",
    ]


@pytest.mark.parametrize(("method", "memory"), EVERY)
@pytest.mark.parametrize("reply", ReplyMode)
def test_in_a_world_of_one_seat_no_method_speaks_of_opponents(method: str, memory: Memory, reply: ReplyMode) -> None:
    trial = played(
        solo_task(NUMBER), RandomEngine(("<action>1</action>",)), settings(method, memory=memory, reply=reply)
    )
    assert len(trial.episodes) == 3
    assert "opponent" not in read(trial).casefold()
    is_told = memory is not Memory.NONE
    assert (HiddenNumber.trial.replace("{episodes}", "3") in read(trial)) == is_told
    asked = [prompt_text(trial, turn.calls[0]) for turn in trial.reflections]
    assert bool(asked) == (memory in (Memory.REFLECTIONS, Memory.BOTH))
    assert all(HiddenNumber.reflect_request in newest_message(prompt) for prompt in asked)


def test_one_seat_games_of_openspiel_have_no_opponents_either() -> None:
    briefing = briefing_of(load_world("catch"), solo_task("catch"))
    assert "opponent" not in (briefing.trial + briefing.reflect)


def test_the_number_of_episodes_is_put_in_as_plain_text() -> None:
    briefing = Briefing("RULES", "{episodes} times {0} {x} {{y}} {episodes}!")
    said = system_message(briefing, 7, Memory.HISTORY, ReplyMode.CHOICE)
    assert said.split("\n")[1] == "7 times {0} {x} {{y}} 7! You remember what happened."


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        ("Episode 1 is over.\nYou lost.\nAny request at all?", True),
        ("Episode 1 is over.\nYou lost.\n\nEpisode 2 of 3.\nYour first guess?", False),
        ("Episode 2 of 3.\nYour first guess?", False),
        ("Your notes:\nAfter episode 1: Episode 1 is over.\n\nEpisode 2 of 3.\nGuess.", False),
        ("That answer cannot be used: it has no action.", False),
    ],
)
def test_a_request_for_a_reflection_is_known_whatever_its_words(message: str, asks: bool) -> None:
    assert asks_for_reflection(message) == asks


@pytest.mark.parametrize("reply", ReplyMode)
def test_scripted_models_play_and_reflect_in_a_world_of_one_seat(reply: ReplyMode) -> None:
    trial = played(solo_task(NUMBER), MODELS["first"], settings(reply=reply))
    assert [turn.text for turn in trial.reflections] == ["I take the first action."] * 2
    assert {turn.action for episode in trial.episodes for turn in episode.turns} == {"1"}


# Open actions


def test_an_agent_says_what_it_likes_and_the_world_answers() -> None:
    said = ("Red? <action> search[red shoes] </action>", "<action>dance</action>", "<action>buy[blue shoes]</action>")
    trial = played(solo_task(SHOP, episodes=1, level="blue"), saying(*said), settings())
    (episode,) = trial.episodes
    assert [(turn.observation.text, turn.action) for turn in episode.turns] == [
        ("What do you do?", "search[red shoes]"),
        ("There are none.", "dance"),
        ("The shop does not understand that.", "buy[blue shoes]"),
    ]
    assert (episode.result.returns, episode.result.is_success(0)) == ((1.0,), True)
    assert all(turn.observation.actions == () and turn.observation.ids == () for turn in episode.turns)


@pytest.mark.parametrize(("method", "memory"), EVERY)
def test_no_prompt_of_an_open_world_speaks_of_a_list(method: str, memory: Memory) -> None:
    trial = played(solo_task(SHOP), RandomEngine(SHOPPING), settings(method, memory=memory))
    text = read(trial)
    assert "Actions:" not in text
    assert "one of the actions" not in text
    assert "NAME" not in text
    assert "<action>TEXT</action>" in text


def test_a_begun_answer_has_its_own_sentence() -> None:
    trial = played(solo_task(SHOP), RandomEngine(("dance</action>",)), settings(prefill="<action>"))
    assert "Answer with your action as <action>TEXT</action>." in read(trial)
    assert {turn.action for episode in trial.episodes for turn in episode.turns} == {"dance"}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("dance", "it has no <action>TEXT</action>"),
        ("<action>dance", "its <action> is not closed"),
        ("<action> \n </action>", "its <action> is empty"),
        ("<action>a\nb\u2028c</action>", "its <action> has 3 lines, not one"),
        ("<think><action>dance</action></think>", "it has no <action>TEXT</action>"),
    ],
)
def test_an_answer_without_an_action_is_asked_for_again_and_then_forfeited(answer: str, problem: str) -> None:
    assert parse_open_action(answer).problem == problem
    trial = played(solo_task(SHOP, episodes=1), saying(answer, answer), settings(retries=1))
    assert trial.episodes[0].result.ending is Ending.FORFEITED
    first, again = agent_calls(trial)
    assert first.problem == again.problem == problem
    assert newest_message(prompt_text(trial, again)) == f"That answer cannot be used: {problem}."


def test_messages_without_a_list_have_no_line_for_it() -> None:
    seen = Observation(0, 0, 0, "Go.", (), (), "", {})
    assert turn_message(seen, ("left over",)) == "Go."
    assert retry_message("no", seen) == "That answer cannot be used: no."


def test_a_world_that_lists_actions_must_list_some() -> None:
    world = load_world(NUMBER)
    agent = factory(NUMBER, RandomEngine(), settings())(solo_task(NUMBER), 0)
    assert not world.info.has_open_actions
    with pytest.raises(PlayError, match="seat 0 is asked to act but has no legal action"):
        asyncio.run(agent.act(Observation(0, 0, 0, "Go.", (), (), "", {})))


@pytest.mark.parametrize(("method", "memory"), EVERY)
def test_agents_keep_their_contract_in_worlds_of_one_seat(method: str, memory: Memory) -> None:
    how = settings(method, memory=memory)
    check_agent(factory(SHOP, RandomEngine(SHOPPING), how), [solo_task(SHOP)])
    check_agent(factory(NUMBER, RandomEngine(("<action>2</action>", "?")), how), [solo_task(NUMBER)])


def open_config(**changes: object) -> Config:
    values = {"world": SHOP, "population.members": ["red"], "trial.seats": [0], "agent.model": "scripted:first"}
    return replaced(Config(), {**values, **changes}, "test")


def test_choices_are_refused_in_an_open_world_before_anything_is_loaded() -> None:
    why = "agent.reply = choice: any text is an action in this world, .*; set agent.reply = text"
    with pytest.raises(ConfigError, match=why):
        check(open_config())
    check(open_config(**{"agent.reply": "text"}))
    with pytest.raises(ConfigError, match=why):
        factory(SHOP, RandomEngine(), make_settings())
    evaluated = load_eval_agent("scripted:first")
    with pytest.raises(ConfigError, match=why):
        evaluated.make_agent(load_world(SHOP))
    with pytest.raises(ConfigError, match=why):
        evaluated.check(SHOP, (0,))
    evaluated.check(NUMBER, (0,))
    check_reply(ReplyMode.TEXT, load_world(SHOP))


def test_a_person_may_type_any_action() -> None:
    lines = ["", "?", "search[red shoes]", "3", "buy[red shoes]"]
    console = Console(file=io.StringIO(), width=100)
    world, task = load_world(SHOP), solo_task(SHOP, episodes=1, level="red")

    def ask(prompt: str) -> str:
        return lines.pop(0)

    def seat(task: Task, sibling: int) -> Agent:
        return Person(world.rules(task), task, ask, console.print)

    trial = asyncio.run(play_trial(world, task, 0, seat))
    assert [turn.action for turn in trial.episodes[0].turns] == ["search[red shoes]", "3", "buy[red shoes]"]
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert shown.count("Type what you want to do.") == 1
    assert shown.count("You are in a shop.") == 2, "? shows the rules again"


def test_a_scripted_model_says_that_it_needs_a_list() -> None:
    with pytest.raises(EngineError, match="takes actions from a list, and this world lists none"):
        played(solo_task(SHOP), MODELS["first"], settings())


# Success


def result(score: float, *successes: bool) -> Result:
    return Result((score,), ("over",), Ending.FINISHED, None, {}, successes)


@pytest.mark.parametrize(
    ("ended", "word"),
    [
        (result(0.5), Verdict.WIN),
        (result(0.0), Verdict.DRAW),
        (result(-0.5), Verdict.LOSS),
        (result(0.5, False), Verdict.LOSS),
        (result(0.0, True), Verdict.WIN),
        (Result((0.0, 1.0), ("", ""), Ending.FINISHED, None, {}, (True, False)), Verdict.WIN),
    ],
)
def test_a_win_is_a_success_where_the_world_says_what_one_is(ended: Result, word: Verdict) -> None:
    assert result_verdict(ended, 0) is word


class Picky(Shop):
    """A shop in which only blue shoes are a success, and red ones have a score above 0."""

    def score(self, hidden: str, position: tuple[str, ...]) -> float:
        return 0.5 + 0.5 * super().score(hidden, position) if self.is_over(hidden, position) else 0.0


def test_reports_count_successes_and_early_stops_wait_for_one() -> None:
    def buys(prompt: str, choices: tuple[str, ...]) -> str:
        return f"<action>buy[{'blue' if 'Episode 3 of 4' in prompt else 'red'} shoes]</action>"

    world, task = Picky(), solo_task(SHOP, episodes=4, level="blue", early_stop=True)
    make_agent = language_agent_factory(world, ScriptedEngine(buys), CODEC, settings(memory=Memory.HISTORY))
    trial = asyncio.run(play_trial(world, task, 0, make_agent))
    assert trial.scores == (0.5, 0.5, 1.0), "the third episode is the first success"
    metrics = trial_metrics([trial])
    assert [rate.win.value for rate in metrics.rates] == [0.0, 0.0, 1.0]
    assert [passed.solved.value for passed in metrics.passes] == [0.0, 0.0, 1.0]


def test_cases_are_marked_by_success_where_the_world_says_what_one_is() -> None:
    assert [Case("a", "x", score).mark for score in (0.5, 0.0, -0.5)] == ["good", "even", "bad"]
    assert [Case("a", "x", 0.5, success).mark for success in (True, False)] == ["good", "bad"]
    guesses = [f"<action>{number}</action>" for number in (1, 2, 1, 4, 4)]
    text = read(played(solo_task(NUMBER, level="4"), saying(*guesses), settings("cases")))
    assert "You chose 1. Score 0: bad." in text
    assert "You chose 1. Score +0.5: good." in text
    assert ": even." not in text
