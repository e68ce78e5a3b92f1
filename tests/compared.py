"""Reports and runs made by hand, to be compared. `python -m tests.compared` writes the golden tables anew."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, RenderableType

from mage.config.schema import Config
from mage.evaluation.compare.comparison import Comparison, compare
from mage.evaluation.compare.markup import latex, markdown, terminal_tables
from mage.evaluation.compare.sources import read_inputs
from mage.evaluation.compare.tables import all_tables, as_csv, notes
from mage.evaluation.exact import MyopicScores, References
from mage.evaluation.splits import SplitKind
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.metrics import TrialMetrics
from mage.evaluation.suite.report import EvaluationReport, to_json
from mage.runs.store import RunWriter
from mage.stats import Estimate, mean

GOLDEN = Path(__file__).parent / "golden_tables"
WIDTH = 100
"""Of the terminal of the golden table."""
GAME = "rps(rounds=3)"
MEMBERS = ("always(rock)", "copy")
Scores = Sequence[Sequence[float]]
"""By trial, then by episode."""


def made_figures(scores: Scores, tokens: int = 100) -> TrialMetrics:
    """What was measured on trials with these scores."""
    return TrialMetrics(
        scores=tuple(mean(list(episode)) for episode in zip(*scores, strict=True)),
        scores_by_trial=tuple(map(tuple, scores)),
        adaptation=mean([trial[-1] - trial[0] for trial in scores]),
        rates=(),
        passes=(),
        recovery=None,
        replies=0,
        invalid=0,
        truncated=0,
        forfeits=0,
        overflows=0,
        tokens_sampled=tokens,
        tokens_read=tokens * len(scores),
    )


def made_split(
    scores: Scores,
    controls: Scores | None = None,
    *,
    split: str = "two",
    sha256: str = "a" * 64,
    limit: float | None = 1.0,
    memoryless: float | None = 0.25,
    myopic: MyopicScores | None = None,
    exploitation: Mapping[str, float | None] | None = None,
    seats: tuple[int, ...] = (0,),
) -> SplitReport:
    """An agent judged on a split; without memory it scores nothing unless told."""
    controls = [[0.0] * len(trial) for trial in scores] if controls is None else controls
    pairs = list(zip(scores, controls, strict=True))
    references = References({}, 0.0, memoryless, limit, None, None, tuple((m, 0.5) for m in MEMBERS), {}, myopic)
    found = exploitation if exploitation is not None else dict.fromkeys(MEMBERS)
    return SplitReport(
        split=split,
        kind=SplitKind.SEEN,
        sha256=sha256,
        world=GAME,
        members=MEMBERS,
        episodes=len(scores[0]),
        seats=seats,
        num_trials=len(scores),
        tasks=tuple((number % 2, 0, number // 2) for number in range(len(scores))),
        failures=0,
        agent=made_figures(scores),
        control=made_figures(controls),
        over_control=mean([(a[-1] - a[0]) - (c[-1] - c[0]) for a, c in pairs]),
        by_member=(),
        exploitation=None,
        exploitation_by_member=tuple(
            (member, None if value is None else Estimate(value, None, None)) for member, value in found.items()
        ),
        regret=None if limit is None else mean([limit - trial[-1] for trial in scores]),
        references=tuple((seat, references) for seat in seats),
    )


def made_report(
    *splits: SplitReport, name: str = "someone", kind: str = "player", step: int = 0, config: Config | None = None
) -> EvaluationReport[SplitReport]:
    """A report as it would be written."""
    return EvaluationReport(
        reports=splits,
        command=f"mage evaluate {name}",
        config=(config or Config()).model_dump(mode="json"),
        step=step,
        eval_agent={"name": name, "kind": kind, "method": "plain", "memory": "both"} if kind else {"name": name},
        seed=7,
        seconds={split.split: {"agent": 0.5 * split.num_trials} for split in splits} if kind else {},
        versions={"mage": "0.1.0", "commit": "abc1234"},
        machine="a machine",
    )


def written(path: Path, *splits: SplitReport, **changes: Any) -> str:
    """The path of a report on file, as it is given on the command line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_json(made_report(*splits, **changes)))
    return str(path)


def made_run(
    path: Path,
    *splits: SplitReport,
    config: Config | None = None,
    curves: Mapping[str, Sequence[tuple[int, float]]] | None = None,
    training: Sequence[float] = (),
    num_tokens: float = 1000.0,
    step_s: float = 2.0,
    evaluation_s: float = 1.0,
) -> str:
    """A train run on file: `curves` are evaluations of the last of three episodes by step, one second of each step."""
    config = config or Config()
    RunWriter.create(path, kind="train", config=config.model_dump(mode="json"), seed=config.seed).close()
    lines: list[Mapping[str, float]] = []
    steps = range(1, config.steps + 1)
    for step in steps:
        scores = {"score/episode_1": 0.0, "score/episode_3": training[step - 1]} if training else {}
        lines.append({"step": step, "play/tokens_in_streams": num_tokens, **scores})
        for split, points in (curves or {}).items():
            lines += [
                {
                    "step": s,
                    f"eval/{split}/score_1": 9.0,
                    f"eval/{split}/score_3": score,
                    f"eval/{split}/control_3": 9.0,
                }
                for s, score in points
                if s == step
            ]
    timings = [{"step": step, "step_s": step_s, "evaluation_s": evaluation_s} for step in steps]
    for name, content in (("metrics.jsonl", lines), ("timings.jsonl", timings)):
        (path / name).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in content))
    if splits:
        written(path / "evaluations" / "final.json", *splits, name="nano", kind="", step=config.steps, config=config)
    return str(path)


def printed(what: RenderableType, width: int) -> list[str]:
    """The lines that a terminal without colours shows."""
    console = Console(width=width, force_terminal=False, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(what)
    return [line.rstrip() for line in captured.get().splitlines()]


def scores(last: float, spread: float = 0.5, num: int = 8) -> list[list[float]]:
    """Trials whose last episode scatters evenly around a mean; the first scores nothing."""
    return [[0.0, last / 2, last + (spread if number % 2 else -spread)] for number in range(num)]


def recipe(number: int, seed: int = 0, steps: int = 10) -> Config:
    """Configs that differ by their number are different recipes."""
    config = Config(seed=seed, steps=steps)
    return config.model_copy(update={"learner": config.learner.model_copy(update={"lr": 0.001 * number})})


def made_inputs(folder: Path) -> list[str]:
    """Two trained methods, two fixed ones, names that LaTeX and Markdown trip over, and a split without references."""
    odd = {"split": "odd_split", "limit": None, "memoryless": None}
    easy, hard = (made_split(scores(last), **odd) for last in (0.25, 0.5))  # type: ignore[arg-type]
    copy = written(folder / "reports" / "a.json", made_split(scores(0.7)), easy, name="copy")
    uniform = written(folder / "reports" / "b.json", made_split(scores(0.3)), hard, name="uniform")
    return [
        *_seeds(folder / "runs", "mage", 1, (0.9, 0.92, 0.91)),
        *_seeds(folder / "runs", "grpo", 2, (0.3, 0.5, 0.1)),
        copy,
        f"50% of_{{a&b}}|#1 \\ $={uniform}",
    ]


def _seeds(folder: Path, name: str, number: int, lasts: Sequence[float]) -> list[str]:
    """Runs of one recipe, each with its evaluations on the way."""
    return [
        made_run(
            folder / f"{name}-seed{seed}",
            made_split(scores(last)),
            config=recipe(number, seed),
            curves={"two": [(2, last / 4), (6, last / 2), (10, last)]},
            num_tokens=1000.0 * number,
        )
        for seed, last in enumerate(lasts)
    ]


def compared(*arguments: str) -> Comparison:
    """What the command line would compare."""
    return compare(read_inputs(arguments).entries)


def golden_tables(arguments: Sequence[str]) -> dict[str, str]:
    """A comparison in every format, by file name."""
    comparison = compared(*arguments)
    sheets = all_tables(comparison, ())
    lines = [line for sheet in sheets for line in (*printed(terminal_tables(sheet, WIDTH), WIDTH), "")]
    return {
        "table.txt": "\n".join([*lines, *notes(comparison), ""]),
        "table.md": "\n".join(map(markdown, sheets)),
        "table.tex": "\n".join(map(latex, sheets)),
        "table.csv": as_csv(comparison, ()),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for file, content in golden_tables(made_inputs(Path(scratch))).items():
            (GOLDEN / file).write_text(content, encoding="utf-8")
