"""Answers that are begun for a model: what it reads, what is trained, and where it is refused."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from mage.agents.briefing import Briefing
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.agents.messages import BEGUN_ANSWER, system_message
from mage.config.load import load_config
from mage.config.sections import AgentConfig
from mage.credit.dead_groups import is_dead
from mage.credit.running_stats import EMPTY
from mage.errors import ConfigError
from mage.evaluation.eval_agent import load_eval_agent
from mage.learners.samples import to_samples
from mage.protocols import Engine
from mage.training.build import check_agent
from mage.types import Group, Memory, Observation, ReplyMode, Thoughts
from tests.seated import RandomEngine, agent_calls, agent_turns, make_settings, make_task, play, prompt_text
from tests.tiny import tiny_parts

CODEC = ByteFormat()
SEEN = Observation(0, 0, 0, "Round 1.", ("rock", "paper"), (0, 1), "key", {})


def begun(**changes: object) -> AgentSettings:
    return make_settings(reply=ReplyMode.TEXT, prefill="<action>", **changes)


def agent_of(engine: Engine, how: AgentSettings) -> LanguageAgent:
    return LanguageAgent(engine, CODEC, how, Briefing("RULES"), make_task(episodes=2), 0)


def test_the_model_goes_on_from_what_its_answer_begins_with() -> None:
    engine = RandomEngine(("rock</action>",))
    reply = asyncio.run(agent_of(engine, begun()).act(SEEN))
    assert (reply.action, reply.text) == ("rock", "<action>rock</action>")
    asked = CODEC.transcript(engine.prompts[0])
    assert asked.startswith(
        f"<|system|>\n{system_message(Briefing('RULES'), 2, Memory.BOTH, ReplyMode.TEXT, answer=BEGUN_ANSWER)}"
    )
    listed = "Actions: <action>rock</action>, <action>paper</action>"
    assert asked.endswith(f"Episode 1 of 2.\nRound 1.\n{listed}\n<|assistant|>\n<action>")
    (call,) = reply.calls
    assert CODEC.decode(call.completion.tokens) == "rock</action>", "what was begun is not sampled"
    assert call.start == len(engine.prompts[0])


def test_an_answer_that_begins_with_a_thought_is_asked_for_one() -> None:
    engine = RandomEngine((" They like rock. <action>paper</action>",))
    how = make_settings(reply=ReplyMode.TEXT, prefill="Thought:")
    reply = asyncio.run(agent_of(engine, how).act(SEEN))
    assert (reply.action, reply.text) == ("paper", "Thought: They like rock. <action>paper</action>")
    asked = CODEC.transcript(engine.prompts[0])
    assert asked.startswith(f"<|system|>\n{system_message(Briefing('RULES'), 2, Memory.BOTH, ReplyMode.TEXT)}")
    assert asked.endswith("Actions: <action>rock</action>, <action>paper</action>\n<|assistant|>\nThought:")


def test_a_second_question_and_a_move_that_is_dictated_begin_alike() -> None:
    engine = RandomEngine(("stone</action>",))
    agent = agent_of(engine, begun())
    assert asyncio.run(agent.act(SEEN)).action is None
    again = CODEC.transcript(engine.prompts[1])
    assert again.endswith(
        "That answer cannot be used: 'stone' is not one of the actions.\n"
        "Actions: <action>rock</action>, <action>paper</action>\n<|assistant|>\n<action>"
    )
    agent.force_action(SEEN, "paper")
    (stream,), _ = agent.memory()
    assert CODEC.transcript(stream).endswith("<|assistant|>\n<action>paper</action>")


@pytest.mark.parametrize("memory", list(Memory))
@pytest.mark.parametrize("thoughts", list(Thoughts))
def test_streams_hold_what_was_read_and_notes_are_not_begun(memory: Memory, thoughts: Thoughts) -> None:
    engine = RandomEngine(("rock</action>", "<think>hm</think> paper</action>", "nothing"))
    trial = play(make_task(), engine, begun(memory=memory, thoughts=thoughts))
    for turn in agent_turns(trial):
        for call in turn.calls:
            text = prompt_text(trial, call)
            assert text.endswith("<|assistant|>\n<action>" if turn.phase == "play" else "<|assistant|>\n")
            stream = trial.streams[call.stream]
            assert stream[call.start : call.start + len(call.completion.tokens)] == call.completion.tokens
    turns = agent_turns(trial)
    samples = to_samples(trial, turns, [1.0] * len(turns), [0.0] * len(turns))
    trained = sum(len(sample.positions) for sample in samples)
    assert trained == sum(len(call.completion.tokens) for call in agent_calls(trial)), "what is begun is never trained"


@pytest.mark.parametrize(
    ("prefill", "answer"),
    [("Thought:", " they like rock. <action>rock</action>"), ("<think>", "hm</think><action>rock</action>")],
)
@pytest.mark.parametrize("context", [100_000, 1000])
def test_a_stripped_thought_takes_the_start_of_its_answer_with_it(prefill: str, answer: str, context: int) -> None:
    engine = RandomEngine((answer,))
    how = make_settings(
        memory=Memory.HISTORY, reply=ReplyMode.TEXT, thoughts=Thoughts.STRIP, prefill=prefill, context=context
    )
    trial = play(make_task(episodes=4), engine, how)
    assert bool(trial.overflows) == (context == 1000)
    for prompt in map(CODEC.transcript, engine.prompts):
        assert prompt.endswith(f"<|assistant|>\n{prefill}")
        assert prompt.count(prefill) == 1, "it is in the answer that is asked for alone"
        earlier = prompt.split("<|assistant|>\n")[1:-1]
        assert all(said.startswith("<action>rock</action>\n") for said in earlier)
    assert any(prompt.count("<|assistant|>") > 2 for prompt in map(CODEC.transcript, engine.prompts))


def test_a_note_that_names_an_action_keeps_what_stands_before_it() -> None:
    said = "So: <action>paper</action>"
    engine = RandomEngine((said,))
    agent = agent_of(engine, make_settings(memory=Memory.BOTH, reply=ReplyMode.TEXT, thoughts=Thoughts.STRIP))

    async def two_episodes() -> None:
        await agent.act(SEEN)
        await agent.reflect(msgspec.structs.replace(SEEN, actions=(), ids=()))
        await agent.act(msgspec.structs.replace(SEEN, episode=1))

    asyncio.run(two_episodes())
    *_, answer, note, _ = CODEC.transcript(engine.prompts[-1]).split("<|assistant|>\n")
    assert answer.startswith("<action>paper</action>\n")
    assert note.startswith(f"{said}\n")


def test_a_full_context_keeps_how_the_answer_begins() -> None:
    engine = RandomEngine(("rock</action>",))
    trial = play(make_task(episodes=6), engine, begun(memory=Memory.HISTORY, context=1000))
    assert trial.overflows
    assert all(CODEC.transcript(prompt).endswith("<|assistant|>\n<action>") for prompt in engine.prompts)


def test_usual_prompts_stay_as_they_are() -> None:
    engine = RandomEngine(("rock</action>",))
    asyncio.run(agent_of(engine, make_settings(reply=ReplyMode.TEXT, retries=0)).act(SEEN))
    asked = CODEC.transcript(engine.prompts[0])
    assert "Think in a few words, then give your action as <action>NAME</action>." in asked
    assert asked.endswith("Round 1.\nActions: rock, paper\n<|assistant|>\n")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "only with agent.reply = text and agent.method = plain, not with choice and plain"),
        ({"reply": "text", "method": "reflexion", "memory": "reflections"}, "not with text and reflexion"),
        ({"reply": "text", "model": "remote:http://localhost/v1#m"}, "a remote model's answer cannot be begun"),
    ],
)
def test_answers_that_cannot_be_begun_are_refused(values: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        check_agent(AgentConfig.model_validate({"prefill": "<action>", **values}))
    assert "\n" not in str(caught.value)


def test_a_remote_model_that_is_judged_is_refused_too() -> None:
    with pytest.raises(ConfigError, match="a remote model's answer cannot be begun"):
        load_eval_agent("remote:http://localhost:1/v1#m", {"agent.prefill": "<action>"})


@pytest.mark.parametrize("recipe", ["rps-llm+text", "kuhn-llm+text", "tictactoe-llm+text"])
def test_text_recipes_begin_answers_and_fine_what_cannot_be_used(recipe: str) -> None:
    config = load_config(recipe, ())
    assert (config.agent.reply, config.agent.prefill) == (ReplyMode.TEXT, "<action>")
    assert 0 < config.agent.temperature <= 1
    assert config.credit.invalid_penalty > 0


@pytest.mark.parametrize(
    ("texts", "dead"),
    [(("nothing",), True), (("nothing",) * 3 + ("rock</action>",), False)],
    ids=["none", "some"],
)
def test_a_group_lives_as_soon_as_some_answers_can_be_used(texts: tuple[str, ...], dead: bool) -> None:
    parts = tiny_parts("credit.invalid_penalty=0.1")
    task, engine = make_task(opponents=("always:scissors",)), RandomEngine(texts)
    siblings = tuple(play(task, engine, begun(memory=Memory.HISTORY), sibling) for sibling in range(8))
    credited = parts.credit([Group(task, siblings, ())])
    (advantages,), _ = parts.estimator.estimate(credited, EMPTY)
    assert is_dead(advantages) is dead
    scores = [sum(trial.scores) for trial in siblings]
    if not dead:
        best, worst = scores.index(max(scores)), scores.index(min(scores))
        assert sum(advantages[best]) > 0 > sum(advantages[worst])
