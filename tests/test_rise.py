"""A finished run ends on the trial of its final evaluation that rises most, and says that it was chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from mage.cli.train import finished_step, print_results, short_trial
from mage.runs.console import as_text, plain_console
from mage.training.rise import CHOSEN_TRIAL, RisingTrials, read_chosen
from mage.training.run import create_run, train_run
from mage.types import Trial
from tests.recorded import guest_trial, make_task
from tests.tiny import tiny_config

_ROCKS = "memory-one(first=0,map=[0,0,0],on=them)"


def scores(trial: Trial) -> list[float]:
    return list(trial.scores)


def test_the_trial_that_rises_with_each_episode_is_chosen_and_the_others_are_counted(tmp_path: Path) -> None:
    trials = [guest_trial(make_task("rps", (_ROCKS,), seed=seed)) for seed in range(60)]
    rising = RisingTrials()
    rising.add(trials[:30])
    rising.add(trials[30:])
    rising.write(tmp_path)
    chosen = read_chosen(tmp_path)
    assert chosen is not None
    first, second, last = scores(chosen.trial)
    assert first < second < last
    assert all(scores(t)[2] - scores(t)[0] <= last - first for t in trials if scores(t) == sorted(set(scores(t))))
    assert chosen.num_rising == sum(scores(trial)[2] > scores(trial)[0] for trial in trials)
    assert chosen.num_trials == 60


def test_nothing_is_chosen_where_nothing_rises(tmp_path: Path) -> None:
    (tmp_path / CHOSEN_TRIAL).write_bytes(b"that of an earlier end")
    rising = RisingTrials()
    rising.add([guest_trial(make_task("rps", (_ROCKS,), episodes=1))])
    rising.write(tmp_path)
    assert not (tmp_path / CHOSEN_TRIAL).exists()


def test_the_opponent_is_told_in_words() -> None:
    trial = guest_trial(make_task("rps", (_ROCKS,)))
    assert "Begins with rock; then always rock." in as_text(short_trial(trial, "A trial"))
    trial = guest_trial(make_task("rps", ("always(scissors)",)))
    assert "The opponent: Always scissors." in as_text(short_trial(trial, "A trial"))


def test_a_run_ends_with_the_chosen_trial_and_how_to_look_at_it(tmp_path: Path) -> None:
    overrides = ('evaluation.splits=["rps-seven"]', "evaluation.final_trials=4", "steps=1")
    path, parts = create_run(tiny_config(*overrides), tmp_path / "run", "rps")
    train_run(path, plain_console(quiet=True), parts=parts)
    chosen, console = read_chosen(path), plain_console()
    assert chosen is not None
    assert chosen.num_trials == 28
    with console.capture() as captured:
        print_results(path, 1, console)
    said = " ".join(captured.get().split())
    assert "chosen for that" in said
    assert f"{chosen.num_rising} of 28 score more" in said
    assert said.rstrip().endswith(f"mage view {tmp_path}")


@pytest.mark.parametrize("last", [CHOSEN_TRIAL, "final.json"])
def test_a_run_that_ends_while_it_writes_its_last_files_has_them_all_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    overrides = ('evaluation.splits=["rps-seven"]', "evaluation.final_trials=1", "steps=1")
    path, parts = create_run(tiny_config(*overrides), tmp_path / "run", "rps")

    def ended(file: Path, target: Path) -> Path:
        if target.name == last:
            raise KeyboardInterrupt
        return replace(file, target)

    replace = Path.replace
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", ended)
        with pytest.raises(KeyboardInterrupt):
            train_run(path, plain_console(quiet=True), parts=parts)
    assert finished_step(path) is None
    train_run(path, plain_console(quiet=True))
    assert finished_step(path) == 1
    assert read_chosen(path) is not None
