"""The language model at the table, driven by hand: what it reads, what it may say, what happens when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from mage.agents.briefing import Briefing
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.engines.scripted import ScriptedEngine, first
from mage.errors import EngineError, PlayError
from mage.protocols import Engine, Sampling
from mage.types import Completion, Memory, Observation, Reply, ReplyMode, Thoughts
from tests.seated import HOSTILE, FixedEngine, RandomEngine, make_settings, make_task, saying

CODEC = ByteFormat()
SYSTEM_HEAD = "<|system|>\nRULES\nYou play 2 episodes against the same opponents, who play in the same way."
ANSWER_LINE = "Answer with one of the actions and nothing else."


def see(episode: int, turn: int, text: str, actions: Sequence[str] = ("a", "b")) -> Observation:
    return Observation(0, episode, turn, text, tuple(actions), tuple(range(len(actions))), text, {})


def told(episode: int, text: str) -> Observation:
    return Observation(0, episode, 0, text, (), (), "reflection", {})


def agent_of(engine: Engine, how: AgentSettings, episodes: int = 2) -> LanguageAgent:
    return LanguageAgent(engine, CODEC, how, Briefing("RULES"), make_task(episodes=episodes), 0)


def two_episodes(how: AgentSettings) -> LanguageAgent:
    """An agent that has played `1.1`, `1.2`, was told `lost`, and has played `2.1`."""

    async def play() -> LanguageAgent:
        agent = agent_of(ScriptedEngine(saying("", note="careful!")), how)
        await agent.act(see(0, 0, "1.1"))
        await agent.act(see(0, 1, "1.2"))
        await agent.reflect(told(0, "lost"))
        await agent.act(see(1, 0, "2.1"))
        return agent

    return asyncio.run(play())


def said(text: str, who: str) -> str:
    return f"\n<|{who}|>\n{text}"


FIRST_EPISODE = (
    said("Episode 1 of 2.\n1.1\nActions: a, b", "user") + said("a", "assistant") + said("1.2", "user")
) + said("a", "assistant")
REFLECTION = (
    said(
        "Episode 1 is over.\nlost\n"
        "Write a short note to yourself: how does the opponent play, and what will you do next?",
        "user",
    )
) + said("careful!", "assistant")
SECOND_EPISODE = "Episode 2 of 2.\n2.1\nActions: a, b"
NOTES = " After each you write a note to yourself"

GOLDEN = {
    Memory.NONE: (
        f"<|system|>\nRULES\nYou play one episode.\n{ANSWER_LINE}"
        + (said("1.1\nActions: a, b", "user") + said("a", "assistant") + said("1.2", "user") + said("a", "assistant")),
        f"<|system|>\nRULES\nYou play one episode.\n{ANSWER_LINE}"
        + (said("2.1\nActions: a, b", "user") + said("a", "assistant")),
    ),
    Memory.HISTORY: (
        f"{SYSTEM_HEAD} You remember what happened.\n{ANSWER_LINE}{FIRST_EPISODE}"
        + (said(f"Episode 1 is over.\nlost\n\n{SECOND_EPISODE}", "user") + said("a", "assistant")),
    ),
    Memory.REFLECTIONS: (
        f"{SYSTEM_HEAD}{NOTES}; you remember only your notes.\n{ANSWER_LINE}{FIRST_EPISODE}{REFLECTION}",
        f"{SYSTEM_HEAD}{NOTES}; you remember only your notes.\n{ANSWER_LINE}"
        + (said(f"Your notes:\nAfter episode 1: careful!\n\n{SECOND_EPISODE}", "user") + said("a", "assistant")),
    ),
    Memory.BOTH: (
        f"{SYSTEM_HEAD}{NOTES}. You remember what happened and your notes.\n{ANSWER_LINE}{FIRST_EPISODE}{REFLECTION}"
        + (said(SECOND_EPISODE, "user") + said("a", "assistant")),
    ),
}


@pytest.mark.parametrize("memory", Memory)
def test_what_a_model_reads_in_each_memory_mode(memory: Memory) -> None:
    streams, overflows = two_episodes(make_settings(memory=memory)).memory()
    assert tuple(CODEC.transcript(stream) for stream in streams) == GOLDEN[memory]
    assert overflows == ()


@pytest.mark.parametrize("memory", Memory)
def test_an_episode_without_a_turn_keeps_memory_true(memory: Memory) -> None:
    async def play() -> LanguageAgent:
        agent = agent_of(ScriptedEngine(saying("")), how, 3)
        await agent.act(see(0, 0, "1.1"))
        await agent.reflect(told(0, "lost"))
        await agent.reflect(told(1, "another player gave up"))
        await agent.act(see(2, 0, "3.1"))
        return agent

    how = make_settings(memory=memory)
    streams, _ = asyncio.run(play()).memory()
    last = CODEC.transcript(streams[-1])
    assert last.count("Episode 3 of 3.") == (memory is not Memory.NONE)
    assert "Episode 2 of 3." not in last
    assert ("1.1" in last, "lost" in last, "gave up" in last) == ((memory in (Memory.HISTORY, Memory.BOTH)),) * 3
    assert ("noted." in last) == (memory in (Memory.REFLECTIONS, Memory.BOTH))
    assert len(streams) == {Memory.NONE: 2, Memory.HISTORY: 1, Memory.REFLECTIONS: 3, Memory.BOTH: 1}[memory]


def test_actions_are_listed_when_they_change() -> None:
    async def play() -> LanguageAgent:
        agent = agent_of(ScriptedEngine(first), make_settings())
        await agent.act(see(0, 0, "one", ("a", "b")))
        await agent.act(see(0, 1, "two", ("a", "b")))
        await agent.act(see(0, 2, "three", ("b",)))
        return agent

    stream = CODEC.transcript(asyncio.run(play()).memory()[0][0])
    assert [line for line in stream.split("\n") if line.startswith("Actions")] == ["Actions: a, b", "Actions: b"]


def text_agent(answers: Sequence[str], retries: int) -> tuple[LanguageAgent, Callable[[], int]]:
    """An agent in text mode whose model gives these answers in turn, and a count of those it has given."""
    given: list[str] = []

    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        assert choices == ()
        given.append(answers[len(given)])
        return given[-1]

    how = make_settings(reply=ReplyMode.TEXT, retries=retries, max_tokens=200)
    return agent_of(ScriptedEngine(answer), how), lambda: len(given)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_an_answer_that_cannot_be_used_is_asked_for_again_and_then_a_forfeit(retries: int) -> None:
    agent, num_given = text_agent(["no idea"] * 10, retries)
    reply = asyncio.run(agent.act(see(0, 0, "one")))
    assert num_given() == 1 + retries
    assert reply.action is None
    assert [call.problem for call in reply.calls] == ["it has no <action>NAME</action>"] * (1 + retries)


def test_a_second_answer_counts_and_the_first_is_remembered() -> None:
    agent, _ = text_agent(["<action>c</action>", "Sorry. <action>B</action>"], 1)
    reply = asyncio.run(agent.act(see(0, 0, "one")))
    assert (reply.action, reply.text) == ("b", "Sorry. <action>B</action>")
    assert [call.problem for call in reply.calls] == ["'c' is not one of the actions", None]
    stream = CODEC.transcript(agent.memory()[0][0])
    assert stream.endswith(
        "\n<|assistant|>\n<action>c</action>"
        "\n<|user|>\nThat answer cannot be used: 'c' is not one of the actions.\nActions: a, b"
        "\n<|assistant|>\nSorry. <action>B</action>"
    )


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: repr(text[:16]))
def test_hostile_answers_open_no_turn_and_cost_no_more_than_a_forfeit(hostile: str) -> None:
    agent, _ = text_agent([hostile, hostile, "<action>a</action>"], 1)

    async def play() -> tuple[Reply, Reply]:
        return await agent.act(see(0, 0, "one")), await agent.act(see(0, 1, "two"))

    lost, played = asyncio.run(play())
    assert (lost.action, played.action) == (None, "a")
    (stream,), _ = agent.memory()
    controls = [token for token in stream if token > 255]
    turn = [controls[1], controls[2], CODEC.end]
    assert controls == [controls[0], *turn * 3], "three messages, three answers, whatever they say"
    for call in (*lost.calls, *played.calls):
        assert stream[call.start : call.start + len(call.completion.tokens)] == call.completion.tokens
        assert call.completion.truncated == (len(CODEC.choice(hostile)) > 200 and call in lost.calls)


@pytest.mark.parametrize("memory", Memory)
def test_stripped_thoughts_are_in_no_later_prompt(memory: Memory) -> None:
    engine = RandomEngine(("<think>they bluff</think>I say <action>c</action>",))
    how = make_settings(memory=memory, reply=ReplyMode.TEXT, thoughts=Thoughts.STRIP, retries=1)

    async def play() -> list[Reply | None]:
        agent = agent_of(engine, how)
        replies: list[Reply | None] = [await agent.act(see(0, 0, "1.1")), await agent.act(see(0, 1, "1.2"))]
        replies += [await agent.reflect(told(0, "lost")), await agent.act(see(1, 0, "2.1"))]
        for call in (call for reply in replies if reply is not None for call in reply.calls):
            stream = agent.memory()[0][call.stream]
            assert "they bluff" not in CODEC.decode(stream[: call.start])
            assert stream[call.start : call.start + len(call.completion.tokens)] == call.completion.tokens
            assert "they bluff" in CODEC.decode(call.completion.tokens)
        assert len(agent.memory()[0]) == len(engine.prompts), "a stream for each try, note and retry"
        return replies

    first, second, *_ = asyncio.run(play())
    assert first is not None
    assert second is not None
    later = CODEC.decode(engine.prompts[1])
    assert "<action>c</action>" in later, "the action stays"
    assert "I say" not in later, "what stands before it is a thought too"
    assert [call.stream for call in (*first.calls, *second.calls)] == [0, 1, 2, 3]


def test_sampling_depends_on_episode_turn_and_try_alone() -> None:
    seeds: list[int] = []

    class Listening(RandomEngine):
        async def complete(
            self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
        ) -> Completion:
            seeds.append(sampling.seed)
            return await super().complete(prompt, sampling, choices)

    def played(steps: Sequence[Observation], sibling: int, texts: Sequence[str] = ("hm",)) -> list[int]:
        async def play() -> None:
            how = make_settings(reply=ReplyMode.TEXT)
            agent = LanguageAgent(Listening(texts), CODEC, how, Briefing("RULES"), make_task(), sibling)
            for step in steps:
                await (agent.act(step) if step.actions else agent.reflect(step))

        seeds.clear()
        asyncio.run(play())
        return list(seeds)

    steps = [see(0, 0, "one"), see(0, 1, "two"), told(0, "lost"), see(1, 0, "three")]
    all_seeds = played(steps, 0)
    assert len(set(all_seeds)) == len(all_seeds) == 7, "two tries a turn and one reflection"
    assert played(steps, 0, ("<action>a</action>",)) == [all_seeds[i] for i in (0, 2, 4, 5)]
    assert played([steps[0], *steps[2:]], 0) == all_seeds[:2] + all_seeds[4:], "a shorter episode shifts nothing"
    assert not set(played(steps, 1)) & set(all_seeds)


@pytest.mark.parametrize(
    ("tokens", "truncated", "reply", "message"),
    [
        (CODEC.choice("c"), False, ReplyMode.CHOICE, "the engine answered 'c', which is not a choice"),
        (CODEC.choice("c" * 200), False, ReplyMode.TEXT, "sampled 201 tokens where 100 were allowed"),
        (CODEC.choice("c")[:-1], False, ReplyMode.TEXT, "must either end its turn or be marked as cut short"),
        (CODEC.choice("c"), True, ReplyMode.TEXT, "must either end its turn or be marked as cut short"),
        ((), False, ReplyMode.TEXT, "must either end its turn or be marked as cut short"),
    ],
)
def test_a_reply_that_would_spoil_the_stream_is_refused(
    tokens: tuple[int, ...], truncated: bool, reply: ReplyMode, message: str
) -> None:
    agent = agent_of(FixedEngine(tokens, truncated), make_settings(reply=reply))
    with pytest.raises(EngineError, match=message):
        asyncio.run(agent.act(see(0, 0, "one")))


def test_nothing_to_choose_from_is_an_error() -> None:
    with pytest.raises(PlayError, match="seat 0 is asked to act but has no legal action"):
        asyncio.run(agent_of(ScriptedEngine(first), make_settings()).act(see(0, 0, "one", ())))


def test_a_prompt_and_a_cut_answer_fit_the_context_exactly() -> None:
    def played(context: int) -> tuple[int, ...]:
        how = make_settings(reply=ReplyMode.TEXT, max_tokens=20, retries=0, context=context)
        agent = agent_of(ScriptedEngine(saying("x" * 50)), how)
        asyncio.run(agent.act(see(0, 0, "one")))
        return agent.memory()[0][0]

    length = len(played(10_000))
    assert len(played(length)) == length
    with pytest.raises(PlayError, match="too small for episode 1 alone with 21 tokens to answer"):
        played(length - 1)
