"""Credit on file: it is what the update used, it is found again by its trial, and writing it changes nothing."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import msgspec
import pytest
import torch
from rich.console import Console

from mage.cli.show import one_trial
from mage.credit.running_stats import EMPTY
from mage.credit.steps import agent_turns, trained_advantages
from mage.errors import RecordError
from mage.files import JsonLines, read_lines
from mage.runs.credit import CREDIT, CallCredit, Credit, TurnCredit, by_episode, read_credit
from mage.runs.store import RunReader
from mage.training.run import create_run_directory, train_run
from mage.training.transcripts import turn_credits
from mage.types import Phase, Trial
from tests.tiny import evaluated, play, read, sharpen, tiny_config, tiny_parts

NOTES = ("agent.memory=both", "agent.reflection_tokens=4", "checkpoint.transcripts=1", "checkpoint.every=2")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of a tiny model that writes notes."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    create_run_directory(tiny_config("steps=3", *NOTES), folder)
    train_run(folder, Console(file=StringIO()))
    return folder


def trial_of(run: Path, number: int) -> Trial:
    trial = RunReader(run).trial(number)
    assert isinstance(trial, Trial)
    return trial


def known(run: Path, number: int) -> Credit:
    credit = read_credit(run, number)
    assert credit is not None
    return credit


def test_every_kept_trial_has_its_credit_with_the_step_that_played_it(run: Path) -> None:
    numbers = [summary.number for summary in RunReader(run).summaries()]
    found = [known(run, number) for number in numbers]
    assert [credit.trial for credit in found] == numbers
    # The showcase, two siblings of each step, the showcase at the checkpoint, and at the end.
    assert [credit.step for credit in found] == [0, 0, 0, 1, 1, 2, 2, 2, 3]
    assert [credit.trained for credit in found] == [False, True, True, True, True, False, True, True, False]
    for credit in found:
        calls = [call for turn in agent_turns(trial_of(run, credit.trial)) for call in turn.calls]
        assert {call.completion.version for call in calls} == {credit.step}


def test_the_credit_of_a_step_is_what_its_update_used(run: Path) -> None:
    parts = tiny_parts("steps=3", *NOTES)
    groups = play(parts)
    credited = parts.credit(groups)
    advantages, _ = parts.estimator.estimate(credited, EMPTY)
    for sibling, number in enumerate((1, 2)):
        steps, credit = credited[0].trials[sibling], known(run, number)
        assert trial_of(run, number) == groups[0].trials[sibling]
        assert [turn.advantage for turn in credit.turns] == list(trained_advantages(steps, advantages[0][sibling]))
        assert [turn.return_ for turn in credit.turns] == [step.return_ for step in steps]
    assert any(turn.advantage for turn in known(run, 1).turns)
    assert [turn.advantage for turn in known(run, 0).turns] == [None] * len(known(run, 0).turns)


def test_tokens_have_what_the_learner_says_of_them(run: Path) -> None:
    parts = sharpen(tiny_parts(*NOTES))
    groups = play(parts)
    trial = groups[0].trials[0]
    (sample,) = evaluated(parts, groups[:1])[:1]  # a trial of one stream
    ((logprobs,), entropies) = read(parts.learner, [sample])
    steps = parts.credit(groups)[0].trials[0]
    (turns,) = turn_credits(parts.learner, [trial], [steps], [[0.0] * len(steps)])
    said = [(a, b) for turn in turns for call in turn.calls for a, b in zip(call.logprobs, call.entropies, strict=True)]
    decided = [(a, b) for a, b in said if a is not None and b is not None]
    assert [a for a, _ in decided] == pytest.approx(logprobs, abs=1e-6)
    assert [b for _, b in decided] == pytest.approx(entropies, abs=1e-6)
    assert said.count((None, None)) == len(said) - len(decided) > 0, "forced tokens are no decision"
    engine = [x for t in agent_turns(trial) for c in t.calls for x in c.completion.logprobs]
    assert [a or 0.0 for a, _ in said] == pytest.approx(engine, abs=1e-4)
    assert min(engine) < -0.5


def test_reading_leaves_the_learner_and_every_generator_as_they_were() -> None:
    parts = tiny_parts(*NOTES)
    samples = evaluated(parts, play(parts))
    before = {name: tensor.clone() for name, tensor in parts.learner.weights().merged().items()}
    generator = torch.get_rng_state()
    found = parts.learner.evaluate_tokens(samples)
    assert [len(one) for one in found] == [len(sample.positions) for sample in samples]
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(tensor, before[name]) for name, tensor in parts.learner.weights().merged().items())
    other = tiny_parts(*NOTES)
    assert parts.learner.update(samples) == other.learner.update(samples)
    assert parts.learner.evaluate_tokens([]) == []


def test_credit_lies_beside_the_turns_of_its_episode(run: Path) -> None:
    trial, credit = trial_of(run, 1), known(run, 1)
    found = by_episode(trial, credit)
    assert [(len(one.plays), len(one.reflections)) for one in found] == [(2, 1), (2, 0)]
    assert [turn for one in found for turn in (*one.plays, *one.reflections)] == list(credit.turns)
    assert [turn.phase for turn in agent_turns(trial)].count(Phase.REFLECT) == 1
    with pytest.raises(RecordError, match=r"credit\.jsonl has other turns for trial 1 than the trial itself"):
        by_episode(trial, msgspec.structs.replace(credit, turns=credit.turns[1:]))
    other = msgspec.structs.replace(credit.turns[0], calls=(CallCredit((), ()),))
    with pytest.raises(RecordError, match="has other turns"):
        by_episode(trial, msgspec.structs.replace(credit, turns=(other, *credit.turns[1:])))


def shown(run: Path, number: int) -> str:
    console = Console(file=StringIO(), width=120)
    with console.capture() as captured:
        console.print(one_trial(RunReader(run), number))
    return captured.get()


def test_show_prints_the_credit_of_each_turn(run: Path) -> None:
    credit = known(run, 1)
    lines = [line.split(maxsplit=1)[1] for line in shown(run, 1).splitlines() if line.split()[:1] == ["credit"]]
    assert len(lines) == len(credit.turns) == 5
    for line, turn in zip(lines, credit.turns, strict=True):
        assert line.startswith(f"advantage {turn.advantage:+.3f}, return {turn.return_:+.3f}, entropy ")
    assert shown(run, 0).count("not trained, return") == 5


def test_a_run_without_credit_reads_as_before(run: Path, tmp_path: Path) -> None:
    for name in ("run.json", "trials.jsonl", "index.jsonl"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    assert read_credit(tmp_path, 1) is None
    assert "advantage" not in shown(tmp_path, 1)
    assert "plays" in shown(tmp_path, 1)


def test_a_run_from_before_there_was_credit_goes_on_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    create_run_directory(tiny_config("steps=4", "checkpoint.every=1", "checkpoint.transcripts=1"), folder)
    train_run(folder, Console(file=StringIO()), max_minutes=0)
    (folder / CREDIT).unlink()
    state = folder / "checkpoints" / "step-000001" / "state.json"
    known_then = msgspec.json.decode(state.read_bytes())
    assert known_then["lines"].pop(CREDIT) == 4
    state.write_bytes(msgspec.json.encode(known_then))
    train_run(folder, Console(file=StringIO()))
    numbers = [summary.number for summary in RunReader(folder).summaries()]
    assert [number for number in numbers if read_credit(folder, number) is None] == [0, 1, 2, 3]
    assert [known(folder, number).step for number in numbers[4:]] == [1, 1, 2, 2, 2, 3, 3, 3, 4]


def written(folder: Path, numbers: list[int]) -> None:
    """Lines of very different lengths."""
    lines = JsonLines(folder / CREDIT)
    for number in numbers:
        call = CallCredit((-0.5,) * (number * number % 97), (0.5,) * (number * number % 97))
        lines.append(Credit(number, number // 2, number % 2 == 0, (TurnCredit(0.25, 1.0, (call,)),) * (number % 5)))
    lines.close()


@pytest.mark.parametrize("numbers", [[], [0], [7], list(range(0, 90, 3)), [*range(10), *range(50, 53), 1000]])
def test_the_line_of_a_trial_is_found_wherever_it_stands(numbers: list[int], tmp_path: Path) -> None:
    written(tmp_path, numbers)
    wanted = {line["trial"]: line for line in read_lines(tmp_path / CREDIT)}
    assert sorted(wanted) == numbers
    for number in range(1002):
        found = read_credit(tmp_path, number)
        assert (found is None) is (number not in wanted)
        assert found is None or found == msgspec.convert(wanted[number], Credit)


def test_a_line_that_is_still_being_written_is_not_there_yet(tmp_path: Path) -> None:
    written(tmp_path, list(range(9)))
    whole = (tmp_path / CREDIT).read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last, len(whole), 7):
        (tmp_path / CREDIT).write_bytes(whole[:end])
        assert read_credit(tmp_path, 8) is None
        assert known(tmp_path, 7).trial == 7
        assert known(tmp_path, 0).trial == 0


def test_only_a_few_lines_are_read(tmp_path: Path) -> None:
    written(tmp_path, list(range(500)))
    lines = (tmp_path / CREDIT).read_bytes().splitlines(keepends=True)
    # Most lines are no credit at all: whoever reads them all would fall over one.
    lines[251:499] = [b"{" + b" " * (len(line) - 2) + b"\n" for line in lines[251:499]]
    (tmp_path / CREDIT).write_bytes(b"".join(lines))
    assert known(tmp_path, 100).trial == 100
    with pytest.raises(
        RecordError, match=r"the credit of trial 400 in .*credit\.jsonl cannot be read; delete the file"
    ):
        read_credit(tmp_path, 400)


def test_credit_of_another_shape_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / CREDIT).write_text('{"trial":3,"step":1,"trained":true,"turns":[{"advantage":"much"}]}\n')
    with pytest.raises(RecordError, match="the credit of trial 3 in"):
        read_credit(tmp_path, 3)
