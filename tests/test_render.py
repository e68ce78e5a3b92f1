"""Transcripts: everything is there, nothing is interpreted."""

from __future__ import annotations

import io
from typing import Literal

import msgspec
import pytest
from rich.console import Console, RenderableType

from mage.runs.drawings import DRAWINGS, drawing_of, shown
from mage.runs.render import transcript
from mage.types import Memory, Phase, Trial
from tests.recorded import betting, failure, guest_trial, make_task, model_trial


def printed(what: RenderableType, width: int = 88, terminal: bool = False) -> str:
    """What a console shows, without trailing spaces. Markup is on here: it must not matter."""
    colours: Literal["standard"] | None = "standard" if terminal else None
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=colours)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


KUHN = """\
Trial 0 of here ────────────────────────────────────────────────────────────────────────
world     kuhn_poker
agent     seat 0 · scripted:test
opponent  seat 1 · conservative
episodes  2 played of 2, fresh deals
seed      3, sibling 0
memory    reflections: to the next episode crosses its notes, and nothing else
replies   text

Episode 1 of 2 ─────────────────────────────────────────────────────────────────────────

seat 0 · scripted:test (the agent)
  private   card jack
  sees      Your card: jack.
            Nobody has acted yet.
  may play  pass · bet
  says      I bet. <action>bet</action>
  call      28 tokens, log-probability 0.00, weights 0
  plays     bet
  gains     -2

seat 1 · conservative
  private   card king
  sees      Your card: king.
            So far: opponent bet.
  may play  pass · bet
  plays     bet
  gains     +2

The end, as each seat sees it
    seat 0 · scripted:test    -2    loss    Your card: jack.
                                            Play: you bet, opponent bet.
                                            Shown: you jack, opponent king.
                                            Your score: -2.
    seat 1 · conservative     +2    win     Your card: king.
                                            Play: opponent bet, you bet.
                                            Shown: opponent jack, you king.
                                            Your score: +2.
  revealed  cards: seat 0 jack, seat 1 king
            play: seat 0 bet, seat 1 bet

between episodes 1 and 2 ───────────────────────────────────────────────────────────────
  call      21 tokens, log-probability 0.00, weights 0
  writes    They fold too often.
  crosses   its notes, and nothing else
  tokens    stream 1 begins: memory is rewritten, START tokens stand before the next
            answer
"""


def test_a_kuhn_transcript_reads_like_this() -> None:
    trial = model_trial(make_task(opponents=("conservative",), episodes=2, seed=3), betting(), Memory.REFLECTIONS)
    text = printed(transcript(trial, "Trial 0 of here", None))
    start = trial.episodes[1].turns[0].calls[0].start
    assert text.startswith(KUHN.replace("START", str(start)))
    assert text.endswith(
        """\
                            episode 1    episode 2
  seat 0 · scripted:test           -2           +1
  seat 1 · conservative            +2           -1
  for seat 0                     loss          win"""
    )


@pytest.mark.parametrize(
    ("method", "memory", "crosses"),
    [
        ("plain", Memory.HISTORY, "all that happened"),
        ("cases", Memory.HISTORY, "its decisions, of which those that fit are brought back"),
        ("linked-notes", Memory.REFLECTIONS, "its notes, of which those that fit are brought back"),
        ("reflexion", Memory.REFLECTIONS, "its last three notes, and nothing else"),
        ("reflexion", Memory.NONE, "nothing"),
    ],
)
def test_what_crosses_depends_on_the_method_too(method: str, memory: Memory, crosses: str) -> None:
    trial = model_trial(make_task(), betting(), memory)
    told = msgspec.structs.replace(trial, agent=msgspec.structs.replace(trial.agent, method=method))
    lines = printed(transcript(told, "x", None), width=200).splitlines()
    assert f"memory    {memory}: to the next episode crosses {crosses}" in lines
    assert f"  crosses   {crosses}" in lines


def test_every_turn_of_every_seat_is_there() -> None:
    trial = guest_trial(make_task("kuhn_poker(players=3)", ("uniform", "aggressive"), seat=1))
    text = printed(transcript(trial, "x", "THE RULES"))
    assert text.count("  plays  ") == sum(len(e.turns) for e in trial.episodes)
    assert text.count("(the agent)") == sum(t.observation.seat == 1 for e in trial.episodes for t in e.turns)
    assert "seat 2 · aggressive" in text
    assert "THE RULES" in text


def test_boards_are_drawn_from_facts_in_the_games_own_words() -> None:
    plain = guest_trial(make_task("tic_tac_toe", seed=2, episodes=1))
    text = printed(transcript(plain, "x", None))
    assert " a1 │ b1 │ c1\n            ────┼────┼────\n             a2 │" in text
    last = [line.strip() for line in text.split("revealed", 1)[1].splitlines()[:5:2]]
    board = plain.episodes[0].result.facts["board"]
    assert isinstance(board, tuple)
    for line, row in zip(last, board, strict=True):
        assert isinstance(row, tuple)
        cells = [cell.strip() for cell in line.split("│")]
        assert [c in "XO" for c in cells] == [mark is not None for mark in row]
    reworded = printed(transcript(guest_trial(make_task("tic_tac_toe(reworded=4)", episodes=1)), "x", None))
    assert " # " in reworded
    assert " X " not in reworded


def test_rounds_of_matrix_games_are_revealed_in_words() -> None:
    trial = guest_trial(make_task("rps", ("always:paper",), seat=1, episodes=1))
    text = printed(transcript(trial, "x", None))
    lines = text.split("revealed", 1)[1].splitlines()
    for number, turn in enumerate(t for t in trial.episodes[0].turns if t.observation.seat == 1):
        assert lines[number].split() == ["round", str(number + 1), "seat", "0", "paper", "seat", "1", turn.action]


def test_a_game_without_a_drawing_shows_its_text_and_facts() -> None:
    trial = guest_trial(make_task("leduc_poker", seed=4, episodes=1))
    text = printed(transcript(trial, "x", None), width=200)
    for line in trial.episodes[0].turns[-1].observation.text.splitlines():
        assert line in text
    assert "revealed  state:" in text
    assert "Round 1 sequence" in text.split("revealed")[1]


@pytest.mark.parametrize(
    "nasty",
    [
        "[bold red]x[/bold red]",
        "[/]",
        "[link=http://x]y",
        "\x1b[2J\x1b]0;title\x07",
        "\x9b31m",
        ":smiley:",
        "\u202eabc",
    ],
)
def test_the_words_of_models_are_never_interpreted(nasty: str) -> None:
    says = f"{nasty} <action>bet</action>"
    trial = model_trial(make_task(episodes=2), betting(note=f"note {nasty}", says=says))
    text = printed(transcript(trial, f"{nasty}", f"rules {nasty}"), width=200)
    safe = shown(nasty).plain
    assert f"says      {safe} <action>bet</action>" in text
    assert f"writes    note {safe}" in text
    assert f"rules {safe}" in text
    assert not any(c in text for c in "\x1b\x07\x9b\u202e")
    assert f"PlayError: {safe}" in printed(transcript(failure(nasty), "x", None), width=200)


def test_seats_have_their_colours() -> None:
    text = printed(transcript(guest_trial(make_task(episodes=1)), "x", None), terminal=True)
    assert "\x1b[1;36mseat 0\x1b[0m" in text
    assert "\x1b[1;35mseat 1\x1b[0m" in text


def test_problems_with_replies_are_shown() -> None:
    trial = model_trial(make_task(episodes=1), betting(says="I <action>fly</action> away" + "!" * 200))
    text = printed(transcript(trial, "x", None), width=200)
    assert "call 1    128 tokens, log-probability 0.00, weights 0, cut short; cannot be used: 'fly' is not one" in text
    assert "call 2  " in text
    assert "plays     nothing: it gives the episode up" in text
    assert "The end (forfeited)" in text
    assert "gave up" in text


def test_streams_and_overflows_are_told() -> None:
    task = make_task(episodes=3, opponents=("aggressive",))
    history = printed(transcript(model_trial(task, betting(), Memory.HISTORY), "x", None))
    assert "stream 0 goes on" in history
    assert "begins" not in history
    full = model_trial(task, betting(), Memory.BOTH, context=1100)
    assert full.overflows, "the case must be one"
    assert printed(transcript(full, "x", None)).count("The context was full") == len(full.overflows)


def test_a_trial_left_after_a_note_shows_the_note() -> None:
    whole = model_trial(make_task(episodes=2), betting(note="left with this"))
    left = Trial(whole.task, 0, whole.agent, whole.episodes[:1], whole.reflections, whole.streams, ())
    assert left.reflections[0].phase is Phase.REFLECT
    text = printed(transcript(left, "x", None))
    assert "left with this" in text
    assert "1 played of 2" in text


def test_every_drawing_names_a_known_game() -> None:
    from mage.worlds.openspiel.game_builders import GAMES
    from mage.worlds.registry import WORLDS

    assert set(GAMES) <= set(DRAWINGS) <= {*GAMES, *WORLDS}
    for name in DRAWINGS:
        assert drawing_of(name) is not None


def test_control_characters_are_made_visible() -> None:
    assert shown("a\tb\r\nc\x00").plain == "a   b\\r\nc\\x00"
    assert shown("näh 🂡 ─").plain == "näh 🂡 ─"
