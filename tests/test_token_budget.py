"""`learner.token_budget = "auto"`: a fixed number on a CPU, and on a GPU the one that the free memory has room for.

The arithmetic of the GPU is tested with a memory that is computed; tests/gpu/test_learner_gpu.py has a real one.
"""

from __future__ import annotations

import pytest
import torch

from mage.config.load import load_config
from mage.errors import ConfigError
from mage.learners.local import LocalLearner
from mage.learners.settings import AUTO_BUDGET
from mage.learners.token_budget import BudgetTuner, TokenBudget
from mage.training.combinations import check_combinations
from tests.made import made_model, made_samples, made_settings

CPU = torch.device("cpu")


class ComputedMemory:
    """A card of `total` bytes in which an update takes `fixed` bytes and `each` for every position."""

    def __init__(self, total: int, kept: int, fixed: int, each: int) -> None:
        self.total, self.kept, self.fixed, self.each = total, kept, fixed, each
        self._peak = 0

    def free(self) -> int:
        return self.total - self.kept

    def allocated(self) -> int:
        return self.kept

    def peak(self) -> int:
        return self._peak

    def reset_peak(self) -> None:
        self._peak = self.kept

    def update(self, positions: int) -> bool:
        """The memory of an update; false where it does not fit."""
        taken = self.kept + self.fixed + self.each * positions
        self._peak = max(self._peak, min(taken, self.total))
        return taken <= self.total


def tuned(memory: ComputedMemory) -> TokenBudget:
    budget = TokenBudget("auto", CPU)
    budget.tuner = BudgetTuner(memory)
    return budget


def values_over(memory: ComputedMemory, num: int, samples: int = 10**9) -> list[int]:
    """The budgets of some updates, of batches with so many positions."""
    budget = tuned(memory)
    found = []
    for _ in range(num):
        budget.begin()
        positions = min(budget.value, samples)
        budget.note(positions)
        if not memory.update(positions):
            with pytest.warns(UserWarning, match="out of memory"):
                budget.halve(positions)
            budget.note(budget.value)
            assert memory.update(budget.value)
        found.append(budget.value)
        budget.end()
    return found


def test_the_budget_grows_until_an_update_takes_the_share_of_what_is_free() -> None:
    memory = ComputedMemory(total=80_000_000, kept=20_000_000, fixed=3_000_000, each=1000)
    found = values_over(memory, 8)
    assert found[:3] == [AUTO_BUDGET, AUTO_BUDGET, 4 * AUTO_BUDGET], "nothing is concluded from the first update"
    assert found == sorted(found)
    assert found[-1] == found[-2], "it stays where it is"
    taken = 3_000_000 + 1000 * found[-1]
    assert 0.8 * 60_000_000 / 1.25 <= taken <= 0.8 * 60_000_000


def test_where_little_is_free_the_budget_falls() -> None:
    memory = ComputedMemory(total=80_000_000, kept=75_500_000, fixed=100_000, each=1000)
    found = values_over(memory, 4)
    assert found[0] == AUTO_BUDGET
    assert 100_000 + 1000 * found[-1] <= 0.9 * 4_500_000


def test_it_follows_memory_that_others_take_and_give_back() -> None:
    memory = ComputedMemory(total=80_000_000, kept=20_000_000, fixed=0, each=1000)
    budget = tuned(memory)

    def update() -> int:
        budget.begin()
        budget.note(budget.value)
        assert memory.update(budget.value)
        budget.end()
        return budget.value

    high = [update() for _ in range(6)][-1]
    memory.total -= 10_000_000
    low = [update() for _ in range(3)][-1]
    memory.total += 20_000_000
    assert (high, low) == (48_000, 40_000)
    assert [update() for _ in range(3)][-1] == 56_000


def test_small_batches_say_nothing() -> None:
    memory = ComputedMemory(total=80_000_000, kept=20_000_000, fixed=3_000_000, each=1000)
    assert values_over(memory, 6, samples=1500) == [AUTO_BUDGET] * 6


def test_after_memory_ran_out_the_budget_stays_below_what_was_tried() -> None:
    """What is free is not all that can be used, as with fragments: an update fails long before."""

    class Fragmented(ComputedMemory):
        def free(self) -> int:
            return 4 * (self.total - self.kept)

    memory = Fragmented(total=80_000_000, kept=20_000_000, fixed=0, each=1000)
    found = values_over(memory, 12)
    assert found[2:5] == [16_384, 32_768, 32_768 * 3 // 2], "65,536 was tried, and half of it was taken"
    assert set(found[5:]) == {65_536 * 3 // 4}


def test_on_a_cpu_auto_is_4096_to_the_bit() -> None:
    samples = made_samples(30, 180)
    assert sum(len(s.tokens) for s in samples) > 5000
    auto, fixed = (
        LocalLearner(made_model(), made_settings("learner.lr=0.01", f"learner.token_budget={budget}"))
        for budget in ("auto", AUTO_BUDGET)
    )
    for _ in range(2):
        report, expected = auto.update(samples), fixed.update(samples)
        assert report.pop("learner/token_budget") == AUTO_BUDGET == 4096
        assert report == expected
    for name, tensor in fixed.weights().merged().items():
        assert torch.equal(auto.weights().merged()[name], tensor), name
    assert auto._budget.tuner is None


def test_a_learner_measures_its_own_micro_batches_and_reports_the_number_of_each_update() -> None:
    samples = made_samples(120, 180)  # about 36,000 positions
    learner = LocalLearner(made_model(), made_settings("learner.lr=0.01", "learner.token_budget=auto"))
    memory = ComputedMemory(total=13_000_000, kept=1_000_000, fixed=0, each=1000)
    learner._budget.tuner = BudgetTuner(memory)
    largest: list[int] = []

    def passed(module: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        largest[-1] = max(largest[-1], kwargs["input_ids"].numel())
        assert memory.update(largest[-1])

    learner.model.model.register_forward_pre_hook(passed, with_kwargs=True)
    reported = []
    for _ in range(4):
        largest.append(0)
        reported.append(learner.update(samples)["learner/token_budget"])
    assert reported[:2] == [4096, 4096]
    assert reported[3] == reported[2] == pytest.approx(0.8 * 12_000_000 / 1000, rel=0.05)
    for positions, budget in zip(largest, reported, strict=True):
        assert 0.9 * budget < positions <= budget


def test_the_number_that_was_found_is_part_of_the_state_unless_the_setting_changes() -> None:
    budget = TokenBudget("auto", CPU)
    budget.value = 30_000
    kept = budget.numbers()
    for setting, value in (("auto", 30_000), (512, 512)):
        other = TokenBudget(setting, CPU)  # type: ignore[arg-type]
        other.restore(kept, setting)  # type: ignore[arg-type]
        assert other.value == value
    halved = TokenBudget(1000, CPU)
    with pytest.warns(UserWarning, match="out of memory"):
        halved.halve(900)
    for setting, value in ((1000, 450), (2000, 2000)):
        other = TokenBudget(setting, CPU)
        other.restore(halved.numbers(), setting)
        assert other.value == value
    old = TokenBudget(1000, CPU)
    old.restore({"token_budget": 450}, 1000)
    assert old.value == 450, "earlier versions did not write the setting"


def test_several_ranks_need_a_number() -> None:
    config = load_config("rps", ["learner.ranks=2", "learner.token_budget=auto"])
    with pytest.raises(ConfigError, match=r"learner\.ranks = 2: learner\.token_budget = auto is for one process"):
        check_combinations(config)


@pytest.mark.parametrize("value", ["0", "many", "3.5"])
def test_other_values_are_refused_in_a_line_that_names_both_kinds(value: str) -> None:
    with pytest.raises(ConfigError, match=r"learner\.token_budget = .*'auto' or input should be"):
        load_config("rps", [f"learner.token_budget={value}"])
