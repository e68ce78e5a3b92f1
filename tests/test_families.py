"""Reactive rules, memory-one players, automata and behavioural strategies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from mage.opponents.behaviours import behaviours
from mage.opponents.matrix_games import memory_one_members
from mage.opponents.policy import Policy
from mage.opponents.registry import make_policy
from mage.seeds import stream
from mage.spec import parse_spec
from mage.types import Observation
from mage.worlds.openspiel.game import load_game
from tests.memory_one import distinct_members

ROCK, PAPER, SCISSORS = 0, 1, 2
COOPERATE, DEFECT = 0, 1
NUM_SEEDS = 300

Rounds = Sequence[tuple[int, int]]


def policy_of(spec: str, name: str = "rps(rounds=4)", seat: int = 0, seed: int = 0) -> Policy:
    return make_policy(parse_spec(spec), load_game(name), seat, stream(seed, "member"))


def asked(rounds: Rounds, num_moves: int = 3, key: str = "", episode: int = 0) -> Observation:
    """A decision after these rounds, each (own move, other's move)."""
    words = tuple(f"move{i}" for i in range(num_moves))
    return Observation(0, episode, len(rounds), "", words, tuple(range(num_moves)), key, {"rounds": tuple(rounds)})


def plays(policy: Policy, theirs: Sequence[int], num_moves: int = 3) -> list[int]:
    """What a deterministic policy plays, round by round, and once more after the last."""
    rounds: list[tuple[int, int]] = []
    for reply in theirs:
        rounds.append((list(policy(asked(rounds, num_moves))).index(1.0), reply))
    return [mine for mine, _ in rounds] + [list(policy(asked(rounds, num_moves))).index(1.0)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("copy(first=scissors)", [SCISSORS, ROCK, ROCK, PAPER]),
        ("beat-last(first=rock)", [ROCK, PAPER, PAPER, SCISSORS]),
        ("lose-to-last(first=0)", [ROCK, SCISSORS, SCISSORS, ROCK]),
        # a draw keeps rock, a draw keeps rock, a loss to paper shifts to the next
        ("win-stay-lose-shift(first=rock)", [ROCK, ROCK, ROCK, PAPER]),
        # a win over rock keeps paper twice, a draw as well
        ("win-stay-lose-shift(first=paper)", [PAPER, PAPER, PAPER, PAPER]),
        # a loss to rock shifts on to rock, past the end
        ("win-stay-lose-shift(first=scissors)", [SCISSORS, ROCK, ROCK, PAPER]),
        ("cycle(phase=paper)", [PAPER, SCISSORS, ROCK, PAPER]),
        ("cycle(step=2, phase=paper)", [PAPER, ROCK, SCISSORS, PAPER]),
        ("memory-one(first=paper, on=them, map=[scissors, rock, rock])", [PAPER, SCISSORS, SCISSORS, ROCK]),
        ("memory-one(first=paper, on=me, map=[0, 2, 0])", [PAPER, SCISSORS, ROCK, ROCK]),
    ],
)
def test_rules_in_rock_paper_scissors(spec: str, expected: list[int]) -> None:
    assert plays(policy_of(spec), [ROCK, ROCK, PAPER]) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("copy(first=cooperate)", [COOPERATE, DEFECT, COOPERATE, DEFECT]),
        ("beat-last(first=cooperate)", [COOPERATE, DEFECT, DEFECT, DEFECT]),
        ("lose-to-last(first=defect)", [DEFECT, COOPERATE, COOPERATE, COOPERATE]),
        # betrayed: shift; 5 points: stay; both defect: shift
        ("win-stay-lose-shift(first=cooperate)", [COOPERATE, DEFECT, DEFECT, COOPERATE]),
        ("grim", [COOPERATE, DEFECT, DEFECT, DEFECT]),
        # its own move first: after cooperate and defect defect, after defect and cooperate cooperate, after both defect
        ("memory-one(first=cooperate, on=both, map=[0, 1, 0, 1])", [COOPERATE, DEFECT, COOPERATE, DEFECT]),
    ],
)
def test_rules_in_the_prisoners_dilemma(spec: str, expected: list[int]) -> None:
    assert plays(policy_of(spec, "pd"), [DEFECT, COOPERATE, DEFECT], num_moves=2) == expected


def test_rules_follow_the_pay_offs_of_their_own_seat() -> None:
    matcher, differer = (policy_of("beat-last(first=0)", "pennies", seat) for seat in (0, 1))
    assert plays(matcher, [0, 1], num_moves=2) == [0, 0, 1]
    assert plays(differer, [0, 1], num_moves=2) == [0, 1, 0]


@pytest.mark.parametrize(
    ("spec", "table"),
    [
        ("copy(first=cooperate)", "[0,1,0,1]"),
        ("win-stay-lose-shift(first=cooperate)", "[0,1,1,0]"),
        ("grim", "[0,1,1,1]"),
        ("always:cooperate", "[0,0,0,0]"),
        ("memory-one(first=cooperate,map=[1,0],on=me)", "[1,1,0,0]"),
    ],
)
def test_rules_of_the_dilemma_are_maps_of_both_last_moves(spec: str, table: str) -> None:
    game, joint = load_game("pd(rounds=4)"), f"memory-one(first=cooperate,map={table},on=both)"
    for seat in (0, 1):
        assert behaviours(spec, game, seat) == behaviours(joint, game, seat)
        assert behaviours(spec, game, seat) != behaviours(joint.replace("cooperate", "defect"), game, seat)


def test_joint_players_heed_both_moves() -> None:
    """Of 16 maps for a first move, the 4 that never leave it are one player: 2 x 13 behaviours."""
    game = load_game("pd(rounds=4)")
    maps = [f"memory-one(first={first},map={list(table)},on=both)" for first, *table in product((0, 1), repeat=5)]
    joint = {behaviours(spec, game, 1) for spec in maps}
    assert len(joint) == 26
    single = {behaviours(str(spec), game, 1) for spec in memory_one_members(2)}
    assert len(single) == 10
    assert single < joint


def test_grim_finds_its_moves_by_what_they_pay() -> None:
    """Stags are hunted together; hare is what holds the other to 3. The moves may stand in any order."""
    hunt = "matrix(payoffs=[[3,3],[0,4]],columns=[[3,0],[3,4]],moves=[hare,stag],rounds=4)"
    for seat in (0, 1):
        assert plays(policy_of("grim", hunt, seat), [1, 0, 1], num_moves=2) == [1, 1, 0, 0]


def test_first_moves_and_phases_are_drawn_for_the_trial() -> None:
    for spec in ("copy", "beat-last", "lose-to-last", "win-stay-lose-shift", "cycle", "memory-one(map=[0,1,2])"):
        drawn = [list(policy_of(spec, seed=seed)(asked([]))).index(1.0) for seed in range(NUM_SEEDS)]
        assert min(drawn.count(move) for move in range(3)) > NUM_SEEDS / 5
        policy = policy_of(spec)
        assert policy(asked([], episode=0)) == policy(asked([], episode=2))


def test_there_are_162_memory_one_players_and_105_behaviours() -> None:
    """The count over four rounds, by playing them, agrees with their behaviours."""
    sequences = list(product(range(3), repeat=3))

    def signature(spec: str) -> tuple[tuple[int, ...], ...]:
        policy = policy_of(spec)
        return tuple(tuple(plays(policy, theirs)) for theirs in sequences)

    members = [str(spec) for spec in memory_one_members(3)]
    assert len(set(members)) == 162
    by_signature: dict[object, str] = {}
    for member in members:
        by_signature.setdefault(signature(member), member)
    assert list(distinct_members()) == list(by_signature.values())
    assert len(by_signature) == 105


def test_two_moves_have_ten_behaviours() -> None:
    # who heeds the other: 2 first moves x (4 - 2) maps; who does not: 2 first moves x (stays, changes once, alternates)
    assert len(memory_one_members(2)) == 16
    assert len(distinct_members("pennies(rounds=4)")) == 10


def test_members_have_one_spelling() -> None:
    assert str(memory_one_members(3)[0]) == "memory-one(first=0,map=[0,0,0],on=them)"
    assert all(parse_spec(str(spec)) == spec for spec in memory_one_members(3))


def all_rounds(length: int) -> list[Rounds]:
    return [list(zip(m, t, strict=True)) for m in [(0, 1, 2)[:length]] for t in product(range(3), repeat=length)]


def test_automata_are_fixed_by_their_seed() -> None:
    tables = set()
    for seed in range(30):
        spec = f"automaton(states=4, seed={seed})"
        table = [tuple(policy_of(spec)(asked(r))) for r in all_rounds(3)]
        assert table == [tuple(policy_of(spec, seed=9)(asked(r))) for r in all_rounds(3)]
        assert all(sorted(odds) == [0.0, 0.0, 1.0] for odds in table)
        tables.add(tuple(table))
    assert len(tables) > 20


def test_automata_heed_the_other_only() -> None:
    policy = policy_of("automaton(states=5, seed=3)")
    for theirs in product(range(3), repeat=3):
        odds = {tuple(policy(asked(list(zip(mine, theirs, strict=True))))) for mine in product(range(3), repeat=3)}
        assert len(odds) == 1


def test_an_automaton_with_one_state_never_changes() -> None:
    policy = policy_of("automaton(states=1, seed=5)")
    assert len({tuple(policy(asked(r))) for length in range(4) for r in all_rounds(length)}) == 1


def test_an_automaton_without_a_seed_draws_one_for_the_trial() -> None:
    tables = [tuple(tuple(policy_of("automaton", seed=s)(asked(r))) for r in all_rounds(2)) for s in range(20)]
    assert len(set(tables)) > 10
    assert tables[7] == tuple(tuple(policy_of("automaton", seed=7)(asked(r))) for r in all_rounds(2))


def test_noise_is_a_share_of_uniform_play() -> None:
    for rounds in all_rounds(2):
        clean = policy_of("automaton(states=3, seed=2)")(asked(rounds))
        noisy = policy_of("automaton(states=3, noise=0.3, seed=2)")(asked(rounds))
        assert list(noisy) == pytest.approx([0.7 * p + 0.1 for p in clean])
    assert list(policy_of("automaton(noise=1, seed=2)")(asked([]))) == pytest.approx([1 / 3] * 3)


def test_behavioural_strategies_are_distributions_fixed_by_seed_and_key() -> None:
    odds = {}
    for seed, key in product(range(10), ("a", "b")):
        drawn = tuple(policy_of(f"behaviour(seed={seed})")(asked([], key=key)))
        assert min(drawn) > 0
        assert sum(drawn) == pytest.approx(1)
        assert drawn == tuple(policy_of(f"behaviour(seed={seed})", seed=5)(asked([], key=key)))
        odds[seed, key] = drawn
    assert len(set(odds.values())) == 20


def test_flat_strategies_have_the_moments_of_a_flat_dirichlet() -> None:
    """Each probability has mean 1/3 and variance (1/3)(2/3)/4 = 1/18."""
    rows = [policy_of(f"behaviour(seed={seed})")(asked([])) for seed in range(2000)]
    for i in range(3):
        column = [row[i] for row in rows]
        mean = sum(column) / len(column)
        assert mean == pytest.approx(1 / 3, abs=0.02)
        assert sum((p - mean) ** 2 for p in column) / len(column) == pytest.approx(1 / 18, abs=0.006)


def test_concentration_goes_from_one_action_to_uniform() -> None:
    for seed in range(20):
        sharp = policy_of(f"behaviour(concentration=0.001, seed={seed})")(asked([]))
        flat = policy_of(f"behaviour(concentration=100000, seed={seed})")(asked([]))
        tiny = policy_of(f"behaviour(concentration=1e-9, seed={seed})")(asked([]))
        assert max(sharp) > 0.9
        assert list(flat) == pytest.approx([1 / 3] * 3, abs=0.02)
        assert sorted(tiny) == pytest.approx([0, 0, 1])


def test_without_a_seed_a_strategy_is_drawn_for_the_trial() -> None:
    assert len({tuple(policy_of("behaviour", seed=s)(asked([]))) for s in range(10)}) == 10
    assert policy_of("behaviour", seed=3)(asked([])) == policy_of("behaviour", seed=3)(asked([], episode=2))
