"""Do notes name the opponent: the phrases one by one, and shares worked by hand beside those of chance."""

from __future__ import annotations

import msgspec
import pytest

from mage.evaluation.splits import load_split, split_names
from mage.evaluation.suite.opponent_naming import PHRASES, Naming, measure_naming, names_family, opponent_family
from mage.opponents.registry import OPPONENTS
from mage.stats import clustered_proportion, mean
from mage.types import Trial
from tests.paid import INFO, TASK, ended, note


def noted(*notes: str, opponent: str) -> Trial:
    """A trial with these reflections."""
    task = msgspec.structs.replace(TASK, opponents=(opponent,), episodes=len(notes) + 1)
    turns = tuple(msgspec.structs.replace(note(k), action=text) for k, text in enumerate(notes))
    return Trial(task, 0, INFO, tuple(ended([], 0.0) for _ in range(len(notes) + 1)), turns, (), ())


SAID = {
    "aggressive": ("The opponent is very aggressive.", "It bets often and bluffs."),
    "always": ("They ALWAYS play rock", "it only plays paper", "Keeps choosing\nscissors", "rock every time"),
    "automaton": ("it seems to be a state machine",),
    "beat-last": ("They play what beats my last move.", "it counters my previous choice", "beats what I just played"),
    "cfr": ("This looks like a Nash equilibrium.", "perfectly balanced betting"),
    "conservative": ("A cautious, tight player.", "It only bets with the king.", "folds unless it has the king"),
    "copy": ("It copies me.", "They mirrored my move", "plays my last move", "tit-for-tat"),
    "cycle": ("cycling through the moves", "rock, paper, scissors in order", "they rotate"),
    "grim": ("a grim trigger", "It never forgives a defection.", "unforgiving once betrayed"),
    "intermediate": ("a moderate player",),
    "lose-to-last": ("plays what loses to my last move",),
    "mcts": ("looks ahead a few moves",),
    "memory-one": ("It reacts to my last move.", "their play depends on my previous move", "responds to me"),
    "minimax": ("plays perfectly", "The opponent never loses."),
    "mixture": ("mixes rock and paper", "sometimes rock"),
    "preferred": ("prefers the corners", "takes the centre first", "the first free cell"),
    "uniform": ("random", "There is no pattern."),
    "win-stay-lose-shift": ("win-stay, lose-shift", "keeps its move after it wins", "changes when it loses"),
}


@pytest.mark.parametrize("family", sorted(SAID))
def test_a_family_is_named_by_what_people_call_it(family: str) -> None:
    for text in SAID[family]:
        assert names_family(text, family), text
    assert not names_family("", family)
    assert not names_family("They play rock, so I play paper.", family)


def test_every_family_with_phrases_has_an_example_and_exists() -> None:
    assert set(SAID) == set(PHRASES)
    assert set(PHRASES) <= set(OPPONENTS)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("It copies me.", "cycle"),
        ("A recycled idea", "cycle"),
        ("It is not a statement", "automaton"),
        ("always bets", "copy"),
        ("The maximum", "mixture"),
        ("I always play paper, they cycle", "copy"),
        ("tightens", "conservative"),
    ],
)
def test_other_families_and_parts_of_words_do_not_count(text: str, family: str) -> None:
    assert not names_family(text, family)


def test_the_family_is_that_of_who_plays_in_the_episode() -> None:
    task = msgspec.structs.replace(TASK, opponents=("switch(copy,always(rock),at=2)",))
    assert [opponent_family(task, episode) for episode in range(4)] == ["copy", "copy", "always", "always"]
    assert opponent_family(msgspec.structs.replace(TASK, opponents=("behaviour(seed=1)",)), 0) is None
    assert opponent_family(msgspec.structs.replace(TASK, opponents=("copy", "copy")), 0) is None


def test_shares_by_hand_and_by_chance() -> None:
    found = measure_naming(
        [
            noted("It copies me.", "It always copies.", opponent="copy"),  # 1 and 1
            noted("always rock", "no idea", opponent="always(rock)"),  # 1 and 0
            noted("it cycles", "it cycles", opponent="always(paper)"),  # 0 and 0
            noted("anything", "goes", opponent="behaviour(seed=1)"),  # cannot be named
        ]
    )
    # By chance, against the other two: the first names neither, then both; the second one of them (paper), then none;
    # the third none.
    assert found == Naming(
        num_reflections=6,
        named=clustered_proportion([1.0, 0.5, 0.0], 6),
        by_chance=mean([0.5, 0.25, 0.0]),
        over_chance=mean([0.5, 0.25, 0.0]),
    )
    assert found.named.value == 0.5


def test_a_note_that_says_everything_says_nothing() -> None:
    everything = "It always copies, cycles, mixes or plays at random."
    found = measure_naming([noted(everything, opponent=spec) for spec in ("copy", "cycle", "uniform", "always(rock)")])
    assert found is not None
    assert (found.named.value, found.by_chance.value) == (1.0, 1.0)
    assert found.over_chance.holds(0.0)


def test_where_there_is_nothing_to_name_or_nobody_to_compare_with() -> None:
    assert measure_naming([]) is None
    assert measure_naming([noted("it copies", opponent="copy")]) is None
    assert (
        measure_naming([noted("odd", opponent="behaviour(seed=1)"), noted("odd", opponent="behaviour(seed=2)")]) is None
    )
    assert measure_naming([noted(opponent="copy"), noted(opponent="cycle")]) is None, "no reflections"


def test_the_scripts_of_the_shipped_splits_can_be_named() -> None:
    for name in ("rps-seven", "kuhn-scripts", "tictactoe-weak", "kuhn-switching", "rps-held-out"):
        assert name in split_names()
        for member in load_split(name).members:
            assert opponent_family(msgspec.structs.replace(TASK, opponents=(member,)), 0) is not None
