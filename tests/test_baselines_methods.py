"""What each method shows its model: scripted models that do well only if it shows the right thing."""

from __future__ import annotations

import asyncio
import re

import pytest

from mage.agents.methods.cases import Case
from mage.agents.methods.cases import retrieve as retrieved_cases
from mage.agents.methods.linked_notes import NOTE_REQUEST, LinkedNote, parse_note
from mage.agents.methods.linked_notes import retrieve as retrieved_notes
from mage.agents.methods.react import ACTION_REQUEST, THOUGHT_REQUEST
from mage.agents.methods.reflexion import REFLEXION_REQUEST
from mage.agents.methods.similarity import similarities
from mage.engines.scripted import MODELS, ScriptedEngine, counter
from mage.errors import PlayError
from mage.types import REFLECT_REQUEST, Memory, Observation, ReplyMode, Trial
from tests.prompted import CODEC, agent_of, decisions, how_of, lines_after, moves, played, see, told
from tests.seated import agent_turns, make_task, newest_message, prompt_text, saying

BEATS = {"rock": "paper", "paper": "scissors", "scissors": "rock"}
NOTES, CASES = "Your notes that fit:", "Similar situations in earlier episodes:"


def thinker(prompt: str, choices: tuple[str, ...]) -> str:
    """Finds out in a thought what to play next, and can act on nothing else."""
    newest = newest_message(prompt)
    *_, seen = ["", *re.findall(r"Round \d of \d\.(?: Last round: you \w+, opponent (\w+)\.)?", newest)]
    follows = BEATS.get(seen, "rock")
    if choices:
        thoughts: list[str] = re.findall(r"<\|assistant\|>\nNext comes (\w+)", prompt)
        return thoughts[-1] if thoughts and newest == ACTION_REQUEST else choices[0]
    if THOUGHT_REQUEST in newest:
        return f"Next comes {follows}, I think."
    return f"Thought: so. Action: <action>{follows if 'First write Thought:' in prompt else 'rock'}</action>"


@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("memory", Memory)
def test_react_acts_on_its_thoughts(memory: Memory, reply: ReplyMode) -> None:
    task = make_task("rps(rounds=3)", opponents=("always:rock",), episodes=2)
    trial = played(task, thinker, how_of("react", memory=memory, reply=reply))
    assert moves(trial) == [["rock", "paper", "paper"]] * 2
    assert trial.scores == pytest.approx((2 / 3, 2 / 3))
    plain = played(task, thinker, how_of("plain", memory=memory, reply=reply))
    assert moves(plain) == [["rock", "rock", "rock"]] * 2


def test_react_thinks_in_a_call_of_its_own_where_replies_are_choices() -> None:
    task = make_task("rps(rounds=2)", opponents=("always:rock",), episodes=1)
    trial = played(task, thinker, how_of("react", memory=Memory.NONE, max_tokens=16))
    for turn in agent_turns(trial):
        thought, action = turn.calls
        assert thought.completion.allowed is None
        assert action.completion.allowed is not None
        assert (thought.completion.truncated, len(thought.completion.tokens)) == (True, 16), (
            "a thought has the room of a reply"
        )
        assert turn.text == f"{CODEC.decode(thought.completion.tokens)}\n{turn.action}"
        assert newest_message(prompt_text(trial, action)) == ACTION_REQUEST
    assert CODEC.transcript(trial.streams[0]).partition("episode.\n")[2] == (
        "Before each action you are asked for a thought.\nAction: answer with one of the actions and nothing else."
        f"\n<|user|>\nRound 1 of 2.\nActions: rock, paper, scissors\n{THOUGHT_REQUEST}"
        f"\n<|assistant|>\nNext comes rock,\n<|user|>\n{ACTION_REQUEST}\n<|assistant|>\nrock"
        f"\n<|user|>\nRound 2 of 2. Last round: you rock, opponent rock.\n{THOUGHT_REQUEST}"
        f"\n<|assistant|>\nNext comes paper\n<|user|>\n{ACTION_REQUEST}\n<|assistant|>\npaper"
    )


def test_only_sampling_tells_what_react_will_do() -> None:
    assert asyncio.run(agent_of(ScriptedEngine(thinker), how_of("react")).odds(see(0, 0, "one"))) is None


def test_reflexion_remembers_its_last_three_reflections_and_nothing_else() -> None:
    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        newest = newest_message(prompt)
        over = re.match(r"Episode (\d) is over\.", newest)
        if over:
            assert newest.endswith(f"{REFLECT_REQUEST}\n{REFLEXION_REQUEST}")
            return f"Lesson {over[1]}."
        return choices[0]

    trial = played(make_task(episodes=6), answer, how_of("reflexion"))
    assert [turn.action for turn in trial.reflections] == [f"Lesson {n}." for n in range(1, 6)]
    assert len(trial.streams) == 6
    for observation, message in decisions(trial):
        if observation.turn == 0:
            newest = range(max(0, observation.episode - 3), observation.episode)
            assert lines_after("Your notes:", message) == [f"After episode {n + 1}: Lesson {n + 1}." for n in newest]
    for stream in trial.streams:
        read = CODEC.transcript(stream)
        assert "you remember only your last 3 notes." in read
        assert len(re.findall(r"Episode \d of 6", read)) == 1, "no history"


@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("method", ["reflexion", "linked-notes"])
def test_a_model_that_relies_on_its_notes_wins_from_the_second_episode_on(method: str, reply: ReplyMode) -> None:
    task = make_task("rps(rounds=3)", opponents=("cycle(step=1)",), seed=3)
    trial = played(task, MODELS["counter"], how_of(method, reply=reply))
    assert trial.scores[1:] == (1.0, 1.0)
    forgetful = played(task, MODELS["counter"], how_of(method, reply=reply, memory=Memory.NONE))
    assert forgetful.scores == (trial.scores[0],) * 3


def bettor(prompt: str, choices: tuple[str, ...]) -> str:
    """Bets at first; with a card that lost before, it passes. It notes its card, its move and the score."""
    newest = newest_message(prompt)
    card = re.findall(r"Your card: (\w+)", newest)[-1]
    if not choices:
        score = re.findall(r"Your score: ([+-]?\d)", newest)[-1]
        return f"It went {score} with it.\nKeywords: {card}\nTags: poker"
    if newest.count("So far: opponent bet") or "you pass, opponent bet" in newest:
        return "pass"
    return "pass" if re.search(rf"It went -\d with it\. Keywords: {card}", newest) else "bet"


@pytest.mark.parametrize("seed", range(4))
def test_linked_notes_bring_back_what_was_written_about_this_card(seed: int) -> None:
    """Against who always bets, a bet with the jack loses 2 and giving up loses 1: once it is noted, it is known."""
    task = make_task("kuhn_poker", opponents=("always:bet",), episodes=24, seed=seed)
    trial = played(task, bettor, how_of("linked-notes"))
    jacks = [score for score, own in zip(trial.scores, cards(trial), strict=True) if own == "jack"]
    assert len(jacks) > 3
    assert jacks == [-2.0, *[-1.0] * (len(jacks) - 1)]
    for observation, message in decisions(trial):
        found = lines_after(NOTES, message)
        card = card_of(observation)
        met = [own for own in cards(trial)[: observation.episode] if own == card]
        assert sum(f"Keywords: {card}" in note for note in found) >= min(3, len(met)) or observation.turn > 0
        assert len(found) <= 9


def card_of(observation: Observation) -> str:
    (card,) = re.findall(r"Your card: (\w+)", observation.text)
    return str(card)


def cards(trial: Trial) -> list[str]:
    return [card_of(episode.turns[0].observation) for episode in trial.episodes]


def test_a_note_that_stands_in_the_stream_is_not_told_again() -> None:
    trial = played(make_task("rps(rounds=3)"), counter, how_of("linked-notes"))
    for stream in trial.streams:
        read = CODEC.transcript(stream)
        shown = re.findall(r"^After episode \d.*$", read, re.MULTILINE)
        assert len(set(shown)) == len(shown)
    assert [len(lines_after(NOTES, m)) for o, m in decisions(trial)] == [0, 0, 0, 1, 0, 0, 2, 0, 0]


def test_a_note_brings_those_along_that_it_is_linked_with() -> None:
    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        return choices[0] if choices else next(notes)

    texts = [
        "Beware of the dog.",
        "Nothing new.",
        "All quiet here.",
        "Still silent.",
        "Void.",
        "The dog bites: beware!",
    ]
    notes = iter([f"{text} Keywords: k{n}" for n, text in enumerate(texts)])
    places = ["lake", "hill", "hill", "hill", "hill", "forest", "forest"]

    async def play() -> str:
        agent = agent_of(ScriptedEngine(answer), how_of("linked-notes"), len(places))
        for index, place in enumerate(places):
            await agent.act(see(index, 0, f"You stand by the {place}."))
            if index + 1 < len(places):
                await agent.reflect(told(index, "over"))
        return newest_message(CODEC.transcript(agent.memory()[0][-1]).rpartition("\n<|assistant|>")[0])

    found = lines_after(NOTES, asyncio.run(play()))
    assert found[:2] == [
        "After episode 6 (see also 1): The dog bites: beware! Keywords: k5.",
        "After episode 1: Beware of the dog. Keywords: k0.",
    ], "the forest is found first, and the lake comes along with it"


def test_notes_are_found_by_likeness_then_by_links() -> None:
    def note(content: str, seen: str, *links: int) -> LinkedNote:
        return LinkedNote(0, content, (), (), seen, links)

    notes = [note("x", "red"), note("y", "green"), note("y", "blue", 1), note("z", "black"), note("z", "blue red")]
    assert retrieved_notes("blue", notes) == [2, 1, 4]
    assert retrieved_notes("green", notes) == [1, 2], "links lead both ways"
    assert retrieved_notes("white", notes) == []
    hub = [note("h", "red"), *(note("s", "green", 0) for _ in range(9))]
    assert retrieved_notes("red", hub) == [0, 9, 8], "few come along, however many there are"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("They bluff. keywords : a,b;  c d .  TAGS: t", ("They bluff.", ("a", "b", "c d"), ("t",))),
        ("Just\na note", ("Just a note", (), ())),
        ("Tags: t", ("Tags: t", (), ("t",))),
        ("n\nKeywords:" + ",w" * 50, ("n", ("w",) * 8, ())),
        ("", ("", (), ())),
    ],
)
def test_notes_are_read_leniently(text: str, parts: tuple[str, tuple[str, ...], tuple[str, ...]]) -> None:
    assert parse_note(text) == parts


def test_notes_are_asked_for_with_keywords_and_an_empty_one_is_not_kept() -> None:
    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        asked.append(newest_message(prompt))
        return choices[0] if choices else "  "

    asked: list[str] = []
    played(make_task("rps(rounds=1)"), answer, how_of("linked-notes"))
    assert [NOTE_REQUEST in message for message in asked] == [False, True, False, True, False]
    assert not any(NOTES in message for message in asked)


def learner(prompt: str, choices: tuple[str, ...]) -> str:
    """Does again what went well in the same situation, and nothing that did not."""
    message = newest_message(prompt)
    *_, situation = [line for line in message.split("\n") if line.startswith("Round ")]
    known = re.findall(rf"^{re.escape(situation)} You chose (\w+)\. Score \S+: (\w+)\.$", message, re.MULTILINE)
    good = [action for action, mark in known if mark == "good"]
    untried = [action for action in choices if action not in dict(known)]
    return (good or untried or list(choices))[0]


def test_cases_show_what_went_well_and_what_did_not() -> None:
    task = make_task("rps(rounds=1)", opponents=("always:paper",), episodes=5)
    assert played(task, learner, how_of("cases")).scores == (-1.0, 0.0, 1.0, 1.0, 1.0)
    assert played(task, learner, how_of("cases", memory=Memory.NONE)).scores == (-1.0,) * 5
    (_, message) = decisions(played(task, learner, how_of("cases")))[3]
    assert lines_after(CASES, message) == [
        "Round 1 of 1. You chose scissors. Score +1: good.",
        "Round 1 of 1. You chose paper. Score 0: even.",
        "Round 1 of 1. You chose rock. Score -1: bad.",
    ]


@pytest.mark.parametrize("game", ["kuhn_poker", "rps(rounds=3)", "tic_tac_toe"])
def test_the_cases_of_the_same_situation_come_first(game: str) -> None:
    trial = played(make_task(game, episodes=12), saying(""), how_of("cases"))
    assert trial.reflections == ()
    stored: list[tuple[str, float, int]] = []
    num_same = 0
    for observation, message in decisions(trial):
        found = lines_after(CASES, message)
        situation = " / ".join(observation.text.split("\n"))
        earlier = {score for text, score, episode in stored if text == situation and episode < observation.episode}
        marks = {("bad", "even", "good")[(score > 0) - (score < 0) + 1] for score in earlier}
        same = [line for line in found if line.startswith(f"{situation} You chose")]
        assert {line.rpartition(": ")[2].rstrip(".") for line in same} >= marks if len(marks) < 3 else same
        assert found[: len(same)] == same
        assert len(found) <= 4
        num_same += len(same)
        stored.append((situation, trial.scores[observation.episode], observation.episode))
    assert num_same > 5


def test_cases_are_good_and_others_in_equal_parts_where_there_are_as_many() -> None:
    def marks(*scores: float) -> list[str]:
        cases = [Case(f"s {n}", f"a{n}", score) for n, score in enumerate(scores)]
        return [case.mark for case in retrieved_cases("s", cases)]

    assert sorted(marks(1, 1, 1, 1, -1, -1, -1)) == ["bad", "bad", "good", "good"]
    assert sorted(marks(1, -1, -1, -1, -1)) == ["bad", "bad", "bad", "good"]
    assert marks(1, 1, 1, 1, 1) == ["good"] * 4
    assert marks(-1) == ["bad"]
    assert marks() == []


def test_cases_need_the_score() -> None:
    agent = agent_of(ScriptedEngine(counter), how_of("cases"))
    outcome = Observation(0, 0, 0, "over", (), (), "reflection", {})
    with pytest.raises(PlayError, match="the cases of episode 1 need its score, not None"):
        asyncio.run(agent.reflect(outcome))


def test_odds_and_dictated_moves_see_and_make_cases() -> None:
    async def play() -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
        agent = agent_of(ScriptedEngine(learner), how_of("cases"))
        here = see(0, 0, "Round 1 of 1.")
        before = await agent.odds(here)
        agent.force_action(here, "b")
        await agent.reflect(told(0, "won", 1.0))
        return before, await agent.odds(see(1, 0, "Round 1 of 1."))

    assert asyncio.run(play()) == ((1.0, 0.0), (0.0, 1.0))


def test_likeness_is_about_order_and_rare_words() -> None:
    rounds = ["you rock, opponent paper", "you paper, opponent rock", "you rock, opponent rock"]
    assert max(range(3), key=lambda n: similarities("you paper, opponent rock", rounds)[n]) == 1
    boards = [". . x", "x . .", ". x ."]
    assert [round(s, 6) for s in similarities(". x .", boards)][2] == 1.0
    assert max(similarities(". x .", boards)[:2]) < 0.999
    assert similarities("", ["a", ""]) == [0.0, 0.0]
    common = [f"Round 1 of 3. {word}" for word in ("red", "green", "blue", "red")]
    scores = similarities("Round 1 of 3. blue", common)
    assert scores.index(max(scores)) == 2
    assert similarities("Round 9", common) == similarities("Round 9", common)
