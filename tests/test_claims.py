"""docs/claims.md is true: its commands print what it says, and its exact figures come out of play that misses nothing.

The scripts and the seven do the same whenever a trial begins alike, so to play every deal against every realisation
of a member is to know what happens.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, product
from math import comb, sqrt
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from typer.testing import CliRunner

from mage.cli import app
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.plan import split_of_opponents
from mage.evaluation.splits import Split, load_split
from mage.evaluation.suite.evaluate import SplitReport, play_all
from mage.evaluation.suite.report import read_report
from mage.opponents.enumerate import enumerate_policies
from mage.opponents.policy import Policy
from mage.protocols import Agent
from mage.types import Memory, Observation, Task, Trial
from mage.worlds.openspiel.game import Game, load_game
from mage.worlds.openspiel.words.base import State
from tests.exhaustive import expected_returns
from tests.opponents import policy_of
from tests.seated import WORLD
from tests.test_docs import DOCS, commands

EPISODES = 3
PAGE = (DOCS / "claims.md").read_text(encoding="utf-8")
SCRIPTS, SEVEN = load_split("kuhn-scripts"), load_split("rps-seven")
PAPER = split_of_opponents("kuhn_poker", ["mixture(conservative,aggressive,intermediate,weights=[3,3,4],each=trial)"])
NUM_TRIALS = 128
"""Of MAGE's evaluations."""


class Exact(NamedTuple):
    """What a player expects on a split, both seats alike, by episode."""

    scores: list[Fraction]
    wins: list[Fraction]
    passes: list[Fraction]
    independent: list[Fraction]


def deals(state: State, odds: Fraction = Fraction(1)) -> Iterator[tuple[Fraction, State]]:
    """Every state that chance can begin with, and its probability."""
    if not state.is_chance_node():
        yield odds, state
        return
    for action, chance in state.chance_outcomes():
        yield from deals(state.child(action), odds * Fraction(chance).limit_denominator(100))


async def play_out(game: Game, dealt: State, agent: Agent, opponent: Policy, seat: int, episode: int) -> Fraction:
    """The agent's score in one episode against a deterministic opponent; it is told the outcome as in a trial."""
    state, turns = dealt.clone(), [0, 0]
    while not state.is_terminal():
        mover = state.current_player()
        observation = game.observe(state, mover, episode, turns[mover])
        turns[mover] += 1
        if mover == seat:
            action = (await agent.act(observation)).action
            assert action is not None
            state.apply_action(observation.ids[observation.actions.index(action)])
        else:
            state.apply_action(observation.ids[list(opponent(observation)).index(1.0)])
    told = msgspec.structs.replace(
        game.observe(state, seat, episode, turns[seat]), text=game.words.outcome(state, seat)
    )
    if episode + 1 < EPISODES:
        await agent.reflect(told)
    return Fraction(game.scores(state)[seat]).limit_denominator(100)


async def every_trial(agent: str, split: Split, memory: Memory | None) -> list[tuple[str, Fraction, list[Fraction]]]:
    """All trials that can happen: which opponent and seat, how likely there, and the score of each episode."""
    game = load_game(split.world)
    make_agent = load_eval_agent(agent).for_split(split).make_agent(WORLD, memory)
    found: list[tuple[str, Fraction, list[Fraction]]] = []
    for seat, member in product(range(2), split.members):
        task = Task(split.world, (member,), seat, 0, EPISODES, replay_deal=False, early_stop=False, max_turns=100)
        for chance, opponent in enumerate_policies(member, game, 1 - seat):
            for dealt in product(list(deals(game.start(0))), repeat=EPISODES):
                odds, who = Fraction(chance).limit_denominator(100), make_agent(task, 0)
                scores = [await play_out(game, state, who, opponent, seat, k) for k, (_, state) in enumerate(dealt)]
                for share, _ in dealt:
                    odds *= share
                found.append((f"{member} {seat}", odds, scores))
    return found


@cache
def exact(agent: str, split: Split, memory: Memory | None = None) -> Exact:
    """What a deterministic player expects against deterministic members that count the same."""
    trials = asyncio.run(every_trial(agent, split, memory))
    cells = sorted({cell for cell, _, _ in trials})

    def expected(of: Sequence[Fraction | bool]) -> Fraction:
        return sum((odds * value for (_, odds, _), value in zip(trials, of, strict=True)), Fraction(0)) / len(cells)

    first = {c: sum(odds for cell, odds, scores in trials if cell == c and scores[0] > 0) for c in cells}
    lost = [1 - Fraction(won) for won in first.values()]
    return Exact(
        scores=[expected([scores[k] for _, _, scores in trials]) for k in range(EPISODES)],
        wins=[expected([scores[k] > 0 for _, _, scores in trials]) for k in range(EPISODES)],
        passes=[expected([max(scores[: k + 1]) > 0 for _, _, scores in trials]) for k in range(EPISODES)],
        independent=[sum((1 - q ** (k + 1) for q in lost), Fraction(0)) / len(cells) for k in range(EPISODES)],
    )


def says(*metrics: Fraction | int) -> None:
    """These values stand on the page, as fractions, one after the other."""
    assert ", ".join(map(str, metrics)) in PAGE, metrics


def says_percent(metrics: Sequence[Fraction]) -> None:
    """These shares stand on the page in a row, as percentages."""
    shown = [f"{100 * float(figure):.1f}".replace("100.0", "100") for figure in metrics]
    assert f"{', '.join(shown)} %" in PAGE, shown


def test_the_commands_print_what_their_section_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [how for how, _ in commands("claims.md")] == ["run"] * 8
    num_metrics = num_shares = num_ranges = 0
    for section in PAGE.split("\n## ")[1:]:
        printed = "\n".join(_run(line) for line in re.findall(r"^mage .*$", section, re.MULTILINE))
        if "`benchmarks/explore.md`" in section:
            measured = (DOCS.parent / "benchmarks" / f"{name}.md" for name in ("explore", "minesweeper"))
            printed = "\n".join(page.read_text(encoding="utf-8") for page in measured)
        metrics = re.findall(r"(?:[+-]?\d+\.\d+|\b0) ±\d+\.\d+(?: %)?", section)
        ranges = re.findall(r"\((-?\d+\.\d+(?: %)?), (-?\d+\.\d+(?: %)? to -?\d+\.\d+(?: %)?)\)", section)
        shares = re.findall(r"\((\d+(?:\.\d)?), (\d+(?:\.\d)?–\d+(?:\.\d)?)\)", section)
        assert [figure for figure in metrics if f" {figure}" not in printed] == []
        assert [share for share, ends in shares if f" {share} ({ends})" not in printed] == []
        assert [pair for pair in ranges if " ".join(pair) not in printed] == []
        num_metrics += len(metrics)
        num_shares += len(shares)
        num_ranges += len(ranges)
    assert (num_metrics, num_shares, num_ranges) == (19, 11, 4)
    (paper,) = read_report(Path("bayes-paper") / "report.json", SplitReport).reports
    bounds = [(exact.memoryless, exact.bayes_last, exact.best_response_mean) for _, exact in paper.references]
    means = [sum(value for value in values if value is not None) / 2 for values in zip(*bounds, strict=True)]
    assert means == pytest.approx([1 / 8, 257 / 1080, 11 / 40])
    assert "11/40 = 0.275" in PAGE


@pytest.mark.parametrize(
    ("page", "row"),
    [
        ("minesweeper", "| **trained, unseen** |"),
        ("sokoban", "| `sokoban-unseen`, trained |"),
        ("sokoban", "| **one box, trained** |"),
    ],
)
def test_our_rows_beside_the_papers_are_those_of_the_benchmarks(page: str, row: str) -> None:
    lines = (DOCS.parent / "benchmarks" / f"{page}.md").read_text(encoding="utf-8").splitlines()
    (measured,) = [line for line in lines if line.startswith(row)]
    first = f"{100 * float(measured.split('|')[2].split()[0]):.1f}"
    passed, without = re.findall(r"(\d+\.\d) %", measured)
    assert re.search(
        rf"MAGE's credit, \d+ steps(, which add nothing [^|]+)? \| {first} → {passed} \| {without} \|", PAGE
    )


def _run(line: str) -> str:
    """What a command prints, on one line."""
    program, *arguments = shlex.split(line)
    assert program == "mage"
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, (arguments, done.output)
    return " ".join(done.output.split())


def test_repetition_alone_on_the_seven() -> None:
    won = Fraction(sum(sum(rounds) > 0 for rounds in product((-1, 0, 1), repeat=3)), 27)
    even = [1 - (1 - won) ** k for k in (1, 2, 3)]
    says_percent(even)
    says(even[2])
    best, forgetful = exact("bayes-optimal", SEVEN), exact("bayes-optimal", SEVEN, Memory.NONE)
    says(*best.scores)
    says_percent(best.passes)
    says(best.independent[2])
    assert forgetful.passes == [Fraction(5, 7)] * 3, "the same in every episode: no second chance"
    says(forgetful.passes[2])
    assert best.scores[2] - best.scores[0] == Fraction(2, 3)


def test_always_bet_wins_every_deal_that_can_be_won() -> None:
    game = load_game("kuhn_poker")
    for seat, member in product(range(2), SCRIPTS.members):
        opponent = policy_of(member, game, 1 - seat)
        for _, state in deals(game.start(0)):
            won = {
                moves: chance_to_win(game, state, line(moves), opponent, seat) for moves in product((0, 1), repeat=2)
            }
            assert won[1, 1] == max(won.values()), (member, seat, str(state))


def line(moves: Sequence[int]) -> Policy:
    """Makes these moves whatever it sees: 0 is to pass, 1 to bet."""

    def policy(observation: Observation) -> Sequence[float]:
        betting = observation.facts["betting"]
        assert isinstance(betting, tuple)
        return (0.0, 1.0) if moves[len(betting) // 2] else (1.0, 0.0)

    return policy


def chance_to_win(game: Game, state: State, player: Policy, opponent: Policy, seat: int) -> float:
    """How often the player wins at Kuhn poker from here on."""
    if state.is_terminal():
        return float(game.scores(state)[seat] > 0)
    mover = state.current_player()
    if state.is_chance_node():
        moves = state.chance_outcomes()
    else:
        observation = game.observe(state, mover, 0, 0)
        moves = list(zip(observation.ids, (player if mover == seat else opponent)(observation), strict=True))
    return float(sum(odds * chance_to_win(game, state.child(move), player, opponent, seat) for move, odds in moves))


def test_with_the_same_cards_every_episode_of_always_bet_is_the_same() -> None:
    tasks = [
        Task("kuhn_poker", (member,), seat, seed, EPISODES, replay_deal=True, early_stop=False, max_turns=100)
        for seat, member, seed in product(range(2), SCRIPTS.members, range(10))
    ]
    played = asyncio.run(
        play_all("agent", WORLD, [(task, 0) for task in tasks], load_eval_agent("always:bet").make_agent(WORLD))
    )
    results = [trial.scores for trial in played if isinstance(trial, Trial)]
    assert len(results) == len(tasks)
    assert all(len(set(scores)) == 1 for scores in results)
    assert len(set(results)) > 1


def test_always_bet_with_the_weights_of_the_paper() -> None:
    bet, best = exact("always:bet", PAPER), exact("bayes-optimal", PAPER)
    forgetful = exact("bayes-optimal", PAPER, Memory.NONE)
    assert "7/12 = 58.3 %" in PAGE
    assert "-7/60 = -0.117" in PAGE
    assert (bet.wins, bet.scores) == ([Fraction(7, 12)] * 3, [Fraction(-7, 60)] * 3)
    assert (forgetful.wins[0], forgetful.scores[0]) == (Fraction(8, 15), Fraction(1, 8))
    says(forgetful.wins[0])
    says(best.wins[2])
    assert f"{best.scores[2]} = 0.238" in PAGE


def test_always_bet_against_an_equilibrium() -> None:
    game = load_game("kuhn_poker")
    bet, chips, wins = line((1, 1)), 0.0, 0.0
    for seat in range(2):
        opponent = policy_of("cfr", game, 1 - seat)
        chips += expected_returns(game, [bet, opponent] if seat == 0 else [opponent, bet])[seat] / 2
        wins += chance_to_win(game, game.start(0), bet, opponent, seat) / 2
    assert f"{100 * wins:.1f} % (59.1" in PAGE
    assert f"{-chips:.3f} chips" in " ".join(PAGE.split())


def test_what_cumulative_success_hides() -> None:
    bet, best = exact("always:bet", SCRIPTS), exact("bayes-optimal", SCRIPTS)
    forgetful = exact("bayes-optimal", SCRIPTS, Memory.NONE)
    for player in (bet, best, forgetful):
        says(*player.scores)
        says_percent(player.passes)
        says(player.passes[2])
    assert bet.independent == bet.passes
    assert forgetful.independent == forgetful.passes
    says(best.independent[2])
    says(best.scores[2] - forgetful.scores[2])
    assert bet.passes[2] > best.passes[2] > forgetful.passes[2]
    rises = [round(100 * float(player.passes[2] - player.passes[0])) for player in (bet, forgetful)]
    assert f"{rises[0]} and {rises[1]} points" in PAGE


def test_the_arithmetic_about_the_papers() -> None:
    cells = re.findall(r"(\d+\.\d) → (\d+\.\d) \((\d+\.\d)\)", PAGE)
    assert len(cells) == 21
    for first, third, most in ((float(a), float(b), float(c)) for a, b, c in cells):
        assert round(100 * (1 - (1 - first / 100) ** 3), 1) == most
        assert first <= third <= most
    assert round(22.3**2 / 44.1, 1) == 11.3 > 74.4 - 66.4, "LaMer at MineSweeper"
    drawn = 1 - (1 - 0.812) ** 3
    assert (round(100 * drawn, 1), round(100 * drawn**NUM_TRIALS)) == (99.3, 43)
    chances = [comb(NUM_TRIALS, k) * (7 / 12) ** k * (5 / 12) ** (NUM_TRIALS - k) for k in range(NUM_TRIALS + 1)]
    below = list(accumulate(chances))
    low, high = (next(k for k, share in enumerate(below) if share >= edge) for edge in (0.025, 0.975))
    assert (low, high) == (64, 85)
    ours, theirs = 84 / NUM_TRIALS, 76 / NUM_TRIALS
    reach = 1.96 * sqrt((ours * (1 - ours) + theirs * (1 - theirs)) / NUM_TRIALS)
    assert f"{ours - theirs:.2f} ±{reach:.2f}".replace("0.", ".") in PAGE
