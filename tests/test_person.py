"""A person at the table: every kind of input, and leaving at every moment."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Iterator

import pytest
from rich.console import Console

from mage.opponents.person import Person, parse_choice
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.types import AgentInfo, Memory, Observation, Reply, Task, Trial
from tests.recorded import WORLD, make_task


class Table:
    """A terminal with prepared input; it is at its end when the lines are used up."""

    def __init__(self, *lines: str) -> None:
        self._lines: Iterator[str] = iter(lines)
        self._console = Console(file=io.StringIO(), width=100)
        self.prompts: list[str] = []

    def ask(self, prompt: str) -> str:
        self.prompts.append(prompt)
        for line in self._lines:
            if line == "^C":
                raise KeyboardInterrupt
            return line
        raise EOFError

    def play(self, task: Task) -> Trial:
        def seat_person(task: Task, sibling: int) -> Agent:
            return Person(WORLD.rules(task), task, self.ask, self._console.print)

        return asyncio.run(play_trial(WORLD, task, 0, seat_person))

    @property
    def text(self) -> str:
        assert isinstance(self._console.file, io.StringIO)
        return self._console.file.getvalue()


ROCK = make_task("rps(rounds=1)", ("always:rock",), episodes=3)


def test_numbers_words_and_notes() -> None:
    table = Table("2", "rock it is", "PAPER", "", " scissors ")
    trial = table.play(ROCK)
    assert trial.agent == AgentInfo("person", Memory.BOTH, None)
    assert trial.scores == (1.0, 1.0, -1.0)
    assert [(r.observation.episode, r.action, r.text) for r in trial.reflections] == [(0, "rock it is", "rock it is")]
    assert [t.action for e in trial.episodes for t in e.turns if t.observation.seat == 0] == [
        "paper",
        "paper",
        "scissors",
    ]


def test_the_rules_come_first_and_the_moves_are_numbered() -> None:
    table = Table("1", "", "1", "", "1")
    table.play(ROCK)
    text = table.text
    assert text.index("The game is rock-paper-scissors") < text.index("Episode 1 of 3") < text.index("Episode 2 of 3")
    assert text.count("The game is rock-paper-scissors") == 1
    assert "1) rock   2) paper   3) scissors" in text
    assert "Last round: you rock, opponent rock. Your score: 0." in text


def test_bad_input_gets_one_line_and_is_asked_again() -> None:
    table = Table("stone", "", "0", "4", "99999999999999999999", "?", "rock", "", "q")
    trial = table.play(ROCK)
    assert len(trial.episodes) == 1
    for message in (
        "'stone' is not one of the moves; type a number or a word from the list.",
        "Type a number or a word from the list.",
        "There is no 0; choose 1 to 3, or a word.",
        "There is no 4; choose 1 to 3, or a word.",
    ):
        assert message in table.text
    assert table.text.count("The game is rock-paper-scissors") == 2, "? shows the rules again"


@pytest.mark.parametrize("leave", ["q", "Q", "^C", None])
def test_leaving_keeps_what_is_finished(leave: str | None) -> None:
    last = () if leave is None else (leave,)
    assert len(Table(*last).play(ROCK).episodes) == 0
    assert len(Table("1", *last).play(ROCK).episodes) == 1
    second = Table("1", "a note", *last).play(ROCK)
    assert (len(second.episodes), len(second.reflections)) == (1, 1)
    assert len(Table("1", "", "1", "", *last).play(ROCK).episodes) == 2


def test_boards_are_drawn() -> None:
    table = Table("b2", "q")
    table.play(make_task("tic_tac_toe", ("preferred(corners)",)))
    assert " O  │ b1 │ c1" in table.text
    assert " a2 │ X  │ c2" in table.text


def test_moves_that_are_numbers_are_not_numbered() -> None:
    actions = ("0", "1", "10")
    table = Table("2", "10")
    person = Person("rules", ROCK, table.ask, table._console.print)
    seen = Observation(0, 0, 0, "seen", actions, (0, 1, 10), "key", {})
    assert asyncio.run(person.act(seen)) == Reply("10", "", ())
    assert "1)" not in table.text
    assert "'2' is not one of the moves; type a word from the list." in table.text


def test_an_action_called_q_can_be_played() -> None:
    table = Table("q")
    person = Person("rules", ROCK, table.ask, table._console.print)
    seen = Observation(0, 0, 0, "seen", ("p", "q", "?"), (0, 1, 2), "key", {})
    assert asyncio.run(person.act(seen)) == Reply("q", "", ())


def test_words_that_differ_only_in_case_must_be_exact() -> None:
    assert parse_choice("A", ("a", "A"), True) == ("A", "")
    assert parse_choice("ä", ("Ä",), True) == ("Ä", "")
    assert parse_choice("x  y", ("X Y",), True) == ("X Y", "")
    assert parse_choice("AB", ("ab", "Ab"), True) == (None, "'AB' may be ab or Ab; write it exactly.")


def test_bytes_that_are_no_text_can_be_written_down() -> None:
    trial = Table("1", "caf\udce9", "q").play(ROCK)
    assert trial.reflections[0].action == "caf?"


def test_ctrl_c_while_others_think_leaves_at_the_next_move() -> None:
    table = Table("1", "", "1")
    person = Person("rules", ROCK, table.ask, table._console.print)

    def seat_person(task: Task, sibling: int) -> Agent:
        return person

    async def interrupted() -> Trial:
        os.kill(os.getpid(), signal.SIGINT)
        return await play_trial(WORLD, ROCK, 0, seat_person)

    before = signal.getsignal(signal.SIGINT)
    with person.leaving_on_interrupt():
        assert asyncio.run(interrupted()).episodes == ()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert table.prompts == []
