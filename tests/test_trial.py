"""Whole trials: what crosses an episode boundary, how episodes end, what siblings share."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.agents.briefing import briefing_of
from mage.agents.byte_format import ByteFormat
from mage.agents.language import LanguageAgent
from mage.engines.scripted import MODELS, ScriptedEngine
from mage.protocols import Player
from mage.rollout.trial import play_trial
from mage.types import Ending, Memory, Phase, ReplyMode, Task, Trial
from tests.seated import (
    GAMES,
    HOSTILE,
    TEXTS,
    WORLD,
    RandomEngine,
    agent_calls,
    agent_turns,
    make_settings,
    make_task,
    newest_message,
    play,
    play_scripted,
    prompt_text,
    saying,
    seat_engine,
)
from tests.worlds import AnyWorld

CODEC = ByteFormat()


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("memory", Memory)
def test_the_current_observation_is_in_every_prompt(memory: Memory, reply: ReplyMode, game: str, seat: int) -> None:
    trial = play_scripted(make_task(game, seat=seat), MODELS["first"], make_settings(memory=memory, reply=reply))
    played = [turn for turn in agent_turns(trial) if turn.phase is Phase.PLAY]
    assert {turn.observation.episode for turn in played} == {0, 1, 2}
    for turn in played:
        (call,) = turn.calls
        prompt = prompt_text(trial, call)
        assert turn.observation.text in newest_message(prompt)
        assert f"Actions: {', '.join(turn.observation.actions)}" in prompt
    for turn in trial.reflections:
        (call,) = turn.calls
        assert turn.observation.text in newest_message(prompt_text(trial, call))


@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("memory", Memory)
def test_what_crosses_an_episode_boundary(memory: Memory, reply: ReplyMode) -> None:
    how = make_settings(memory=memory, reply=reply)
    trial = play_scripted(make_task(), saying("<action>paper</action>", note="Beware of the dog."), how)
    keeps_history, keeps_notes = memory in ("history", "both"), memory in ("reflections", "both")
    assert len(trial.reflections) == (2 if keeps_notes else 0)
    assert [turn.action for turn in trial.reflections] == ["Beware of the dog."] * len(trial.reflections)
    assert len(trial.streams) == (1 if keeps_history else 3)
    for turn in agent_turns(trial):
        if turn.phase is Phase.REFLECT or turn.observation.turn:
            continue
        prompt, episode = prompt_text(trial, turn.calls[0]), turn.observation.episode
        assert prompt.count("Beware of the dog.") == (episode if keeps_notes else 0)
        assert prompt.count("is over.\nLast round:") == (episode if keeps_history else 0)
        assert prompt.count("Round 2 of 2.") == (episode if keeps_history else 0)
        assert prompt.count("Episode") == ((episode + 1) + episode if keeps_history else memory != "none")


@pytest.mark.parametrize(("game", "lowest"), [("rps(rounds=2)", -1.0), ("kuhn_poker", -2.0), ("tic_tac_toe", -1.0)])
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: repr(text[:16]))
def test_a_model_that_cannot_answer_forfeits_each_episode(game: str, lowest: float, seat: int, hostile: str) -> None:
    how = make_settings(reply=ReplyMode.TEXT, retries=2)
    trial = play_scripted(make_task(game, seat=seat), saying(hostile, note=hostile), how)
    assert len(trial.episodes) == 3
    for episode in trial.episodes:
        assert (episode.result.ending, episode.result.forfeited_by) == (Ending.FORFEITED, seat)
        assert episode.result.returns[seat] == lowest
        assert episode.result.returns[1 - seat] == 0.0
        (turn,) = [turn for turn in episode.turns if turn.observation.seat == seat]
        assert turn.action is None
        assert len(turn.calls) == 3
        assert all(call.problem for call in turn.calls)


def test_text_replies_from_end_to_end() -> None:
    says = iter(["<action>bet", "hm </think><action> BET </action>", "<action>fold</action>", "<action>pass</action>"])

    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        return next(says)

    task = make_task("kuhn_poker", opponents=("always(pass)",), episodes=2)
    trial = play_scripted(task, answer, make_settings(memory=Memory.HISTORY, reply=ReplyMode.TEXT))
    turns = agent_turns(trial)
    assert [(turn.action, turn.text) for turn in turns] == [
        ("bet", "hm </think><action> BET </action>"),
        ("pass", "<action>pass</action>"),
    ]
    assert [call.problem for call in agent_calls(trial)] == [
        "its <action> is not closed",
        None,
        "'fold' is not one of the actions",
        None,
    ]
    assert trial.scores[0] == 1.0


def test_early_stop_ends_the_trial_after_the_first_win() -> None:
    def played(opponent: str, early_stop: bool) -> tuple[float, ...]:
        task = make_task("rps(rounds=1)", opponents=(opponent,), early_stop=early_stop, episodes=4)
        return play_scripted(task, MODELS["counter"], make_settings(memory=Memory.HISTORY)).scores

    assert played("always(paper)", early_stop=False) == (-1.0, 1.0, 1.0, 1.0)
    assert played("always(paper)", early_stop=True) == (-1.0, 1.0)
    assert played("always(scissors)", early_stop=True) == (1.0,)
    assert played("always(rock)", early_stop=True) == (0.0, 1.0)


def test_early_stop_looks_at_the_score_of_the_agents_seat() -> None:
    task = make_task("pennies(rounds=1)", opponents=("always(heads)",), early_stop=True, seat=1)
    assert play_scripted(task, MODELS["first"], make_settings()).scores == (-1.0, -1.0, -1.0)


def test_an_early_stop_keeps_its_outcome_out_of_the_stream() -> None:
    task = make_task("rps(rounds=1)", opponents=("always(scissors)",), early_stop=True)
    trial = play_scripted(task, MODELS["counter"], make_settings())
    assert trial.reflections == ()
    assert "is over" not in CODEC.transcript(trial.streams[0])


def cards(trial: Trial) -> list[object]:
    return [episode.result.facts["cards"] for episode in trial.episodes]


def test_deals_are_fresh_unless_they_are_replayed() -> None:
    for seed in range(10):
        task = make_task("kuhn_poker", seed=seed, replay_deal=True, episodes=4)
        assert len(set(cards(play_scripted(task, MODELS["first"], make_settings())))) == 1
    fresh = [
        cards(play_scripted(make_task("kuhn_poker", seed=seed), MODELS["first"], make_settings())) for seed in range(10)
    ]
    assert sum(len(set(dealt)) > 1 for dealt in fresh) >= 8
    assert len({dealt[0] for dealt in fresh}) > 2, "other seeds deal other cards"


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("game", ["kuhn_poker", "rps(rounds=3)"])
def test_siblings_who_act_alike_meet_the_same_deals_and_replies(game: str, seat: int) -> None:
    task = make_task(game, seat=seat, episodes=4)
    trials = [play(task, ScriptedEngine(MODELS["first"]), make_settings(), sibling=s) for s in range(3)]
    assert len({msgspec.json.encode(trial.episodes) for trial in trials}) == 1
    other = play(make_task(game, seat=seat, episodes=4, seed=2), ScriptedEngine(MODELS["first"]), make_settings())
    assert other.episodes != trials[0].episodes


def test_siblings_differ_in_what_they_sample_and_in_nothing_else() -> None:
    task = make_task("kuhn_poker", episodes=8)
    trials = [play(task, RandomEngine(), make_settings(), sibling=s) for s in range(8)]
    assert len({tuple(cards(trial)) for trial in trials}) == 1
    assert len({tuple(turn.action for turn in agent_turns(trial)) for trial in trials}) > 4
    replies: dict[tuple[int, int, str], set[str | None]] = {}
    for trial in trials:
        for episode in trial.episodes:
            for turn in episode.turns:
                if turn.observation.seat == 1:
                    seen = turn.observation
                    replies.setdefault((seen.episode, seen.turn, seen.key), set()).add(turn.action)
    assert all(len(actions) == 1 for actions in replies.values()), "the same place gets the same reply"
    assert len(replies) > 8


@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("memory", Memory)
def test_the_same_seed_gives_the_same_trial(memory: Memory, reply: ReplyMode) -> None:
    how = make_settings(memory=memory, reply=reply, context=2500)
    task = make_task("kuhn_poker", episodes=6)
    once, again = (msgspec.json.encode(play(task, RandomEngine(TEXTS), how, sibling=1)) for _ in range(2))
    assert once == again
    assert msgspec.json.decode(once, type=Trial) == play(task, RandomEngine(TEXTS), how, sibling=1)


@settings(max_examples=100, deadline=None)
@given(
    game=st.sampled_from(["rps(rounds=4)", "pd(rounds=3)", "kuhn_poker", "tic_tac_toe"]),
    reply=st.sampled_from(ReplyMode),
    seat=st.sampled_from([0, 1]),
    seed=st.integers(0, 2**32),
    max_turns=st.integers(1, 9),
)
def test_the_rewards_of_a_seat_add_up_to_its_return(
    game: str, reply: ReplyMode, seat: int, seed: int, max_turns: int
) -> None:
    texts = ("<action>rock</action>", "<action>defect</action>", "<action>bet</action>", "<action>b2</action>", "")
    task = make_task(game, seat=seat, seed=seed, max_turns=max_turns)
    trial = play(task, RandomEngine(texts), make_settings(reply=reply, memory=Memory.NONE))
    for episode in trial.episodes:
        for player in (0, 1):
            rewards = [turn.reward for turn in episode.turns if turn.observation.seat == player]
            if rewards:
                assert sum(rewards) == pytest.approx(episode.result.returns[player])


def test_repeated_games_pay_by_the_round() -> None:
    task = make_task("rps(rounds=8)", episodes=1)
    trial = play_scripted(task, MODELS["first"], make_settings())
    played = [turn.action for turn in trial.episodes[0].turns if turn.observation.seat == 1]
    value = {"rock": 0.0, "scissors": 1 / 8, "paper": -1 / 8}
    assert [turn.reward for turn in agent_turns(trial)] == pytest.approx([value[str(move)] for move in played])
    assert len(set(played)) > 1


class TwoModels(AnyWorld):
    """A world in which the opponent is a language model with a memory too."""

    def __init__(self) -> None:
        self.seated: list[LanguageAgent] = []

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        theirs = msgspec.structs.replace(task, seat=1 - task.seat)
        engine, how = ScriptedEngine(MODELS["first"]), make_settings(name="other")
        self.seated.append(LanguageAgent(engine, CODEC, how, briefing_of(self, theirs), theirs, 0))
        return self.seated[-1]


@pytest.mark.parametrize("seat", [0, 1])
def test_an_opponent_that_remembers_is_told_outcomes_too(seat: int) -> None:
    world = TwoModels()
    how = make_settings(memory=Memory.HISTORY)
    task = make_task("rps(rounds=1)", seat=seat)
    trial = asyncio.run(play_trial(world, task, 0, seat_engine(ScriptedEngine(MODELS["counter"]), how)))
    assert trial.scores == (0.0, 1.0, 1.0)
    assert trial.reflections == (), "the transcript keeps the reflections of the task's seat"
    ((stream,), _) = world.seated[0].memory()
    read = CODEC.transcript(stream)
    assert read.count("I take the first action.") == 2
    assert [f"Episode {e} is over.\nLast round: you rock" in read for e in (1, 2, 3)] == [True, True, False]
    assert "Your score: -1." in read


def test_either_seat_reads_its_own_rules() -> None:
    prompts = [
        CODEC.transcript(play_scripted(make_task("pennies", seat=s), MODELS["first"], make_settings()).streams[0])
        for s in (0, 1)
    ]
    for seat, prompt in enumerate(prompts):
        assert prompt.startswith(f"<|system|>\n{WORLD.rules(make_task('pennies', seat=seat))}\n")
    assert prompts[0] != prompts[1]
