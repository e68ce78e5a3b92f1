"""A comparison as printed tables and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from mage.evaluation.compare.columns import Column, columns
from mage.evaluation.compare.comparison import Comparison, Costs, MethodRow, SplitTable
from mage.evaluation.compare.cost import WINDOW, Level, Reached, levels
from mage.evaluation.compare.markup import Cell, MarkedTable, amount, metric_cell, note, terminal_tables
from mage.evaluation.compare.significance import Rank
from mage.evaluation.compare.sources import ComparisonInputs
from mage.evaluation.crossplay import CrossPlayReport
from mage.evaluation.game_tables import cross_play_table
from mage.evaluation.suite.report_tables import exact_range, setup_text
from mage.grouped import Units
from mage.plot_style import BOUND, LIMIT, MYOPIC
from mage.stats import Estimate

FIELDS = (
    "split",
    "episodes",
    "method",
    "figure",
    "value",
    "low",
    "high",
    "interval",
    "seeds",
    "trials",
    "mark",
    "behind",
    "p_value",
    "pairing",
)
"""The columns of the CSV: one line per metric, method and split."""


def score_tables(comparison: Comparison) -> list[MarkedTable]:
    """Scores of the methods, one table per split."""
    return [_score_table(table) for table in comparison.tables]


def cost_tables(comparison: Comparison) -> list[MarkedTable]:
    """Training costs, one table per split that has learning curves."""
    return [_cost_table(table) for table in comparison.tables if table.costs]


def payoff_tables(crossplays: Sequence[CrossPlayReport]) -> list[MarkedTable]:
    """Pay-off matrices, one table per cross-play report."""
    return [_payoff_table(number, report) for number, report in enumerate(crossplays, start=1)]


def notes(comparison: Comparison) -> list[str]:
    """Explanations printed below the tables."""
    if not comparison.tables:
        return []
    rows = [row for table in comparison.tables for row in table.rows]
    single = list(dict.fromkeys(row.method for row in rows if len(row.seeds) < 2))
    task_seeds = {evaluated.task_seed for entry in comparison.entries for evaluated in entry.evaluated}
    shared = (
        "the same for every method" if len(task_seeds) == 1 else "but of several evaluation seeds, so not all alike"
    )
    found = [f"Fixed tasks, {shared}. No memory: the same weights on the same tasks with memory off."]
    if any(len(row.seeds) > 1 for row in rows):
        found.append("Several seeds: means over training seeds with 95 % intervals over them (Student's t).")
    if single:
        found.append(f"One seed or none ({', '.join(single)}): 95 % intervals over trials, about these weights alone.")
    sampled = [table.name for table in comparison.tables if any(row.units is Units.MEMBERS for row in table.rows)]
    if sampled:
        found.append(
            f"Members not met in training ({', '.join(sampled)}): intervals and tests are over members, not over "
            "trials, and of several seeds over seeds and members."
        )
    if len(comparison.methods) > 1:
        found.append(
            "* or bold: the best of a column. =: not significantly worse than it at 5 %, paired where tasks, seeds or "
            "members are shared, corrected for all pairs of methods, since the best is picked from the same data."
        )
    found.append("Tokens and seconds of a score: per trial; tokens of its streams, seconds by the clock, many at once.")
    if any(table.costs for table in comparison.tables):
        found.append(
            "Reached: the first evaluation while training at or over the level that the next one confirms; without "
            f"evaluations, the mean training score of {WINDOW} steps. Seconds leave evaluations out."
        )
    return found


def comparison_table(comparison: Comparison, inputs: ComparisonInputs, width: int) -> RenderableType:
    """Scores, costs, cross-play and notes, for a terminal of `width` columns."""
    parts: list[RenderableType] = []
    for table in (*score_tables(comparison), *cost_tables(comparison)):
        parts += [terminal_tables(table, width), Text()]
    parts += [part for report in inputs.crossplays for part in (cross_play_table(report), Text())]
    told = notes(comparison) + [f"Not evaluated yet and left out: {path}." for path in inputs.left_out]
    return Group(*parts, *(note(text) for text in told))


def all_tables(comparison: Comparison, crossplays: Sequence[CrossPlayReport]) -> list[MarkedTable]:
    """Everything in tables."""
    return [*score_tables(comparison), *cost_tables(comparison), *payoff_tables(crossplays)]


def as_csv(comparison: Comparison, crossplays: Sequence[CrossPlayReport]) -> str:
    """All metrics, one per line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    for table in comparison.tables:
        for values in _lines(table):
            writer.writerow({"split": table.name, "episodes": table.episodes, **values})
    for report in crossplays:
        for cell in report.cells:
            if cell.score is not None:
                values = {"figure": f"score against {cell.column}", **_values(cell.score), "interval": "trials"}
                writer.writerow({"episodes": report.episodes, "method": cell.row, **values})
    return out.getvalue()


def _score_table(table: SplitTable) -> MarkedTable:
    printed = [column for column in columns(table.episodes) if column.is_printed]
    is_timed = any(row.seconds is not None for row in table.rows)
    costs = ("tokens", "seconds") if is_timed else ("tokens",)
    head = ("method", "seeds", *(column.title for column in printed), *costs)
    rows = [_score_row(row, printed)[: len(head)] for row in table.rows]
    references = [_reference_row(name, ends, table, printed)[: len(head)] for name, ends in _references(table).items()]
    title = f"{table.name}: {setup_text(table.world, table.episodes, table.seats)}"
    return MarkedTable(f"scores-{table.name}", title, head, (*rows, *references), len(references))


def _score_row(row: MethodRow, printed: Sequence[Column]) -> tuple[Cell, ...]:
    found = [row.metrics.get(column.key) for column in printed]
    cells = [metric_cell(None) if f is None else metric_cell(f.estimate, f.standing.mark) for f in found]
    seconds = "–" if row.seconds is None else amount(row.seconds)
    return (Cell(row.method), Cell(_seeds(row)), *cells, Cell(amount(row.tokens)), Cell(seconds))


def _references(table: SplitTable) -> dict[str, tuple[float, float]]:
    """Lowest and highest value of each exact reference, by name; they differ only where ties matter."""
    myopic = (table.myopic.low, table.myopic.high) if table.myopic is not None else (None, None)
    found = {BOUND: (table.memoryless,) * 2, MYOPIC: myopic, LIMIT: (table.limit,) * 2}
    return {name: (low, high) for name, (low, high) in found.items() if low is not None and high is not None}


def _reference_row(
    name: str, ends: tuple[float, float], table: SplitTable, printed: Sequence[Column]
) -> tuple[Cell, ...]:
    """An exact value in the column of the last episode, and its distance to the limit under regret."""
    low, high = ends
    texts = {f"score_{table.episodes}": exact_range(low, high)}
    if table.limit is not None:
        texts["regret"] = exact_range(table.limit - high, table.limit - low)
    return (Cell(name), Cell(), *(Cell(texts.get(column.key, "")) for column in printed), Cell(), Cell())


def _cost_table(table: SplitTable) -> MarkedTable:
    targets = levels(table.memoryless, table.limit)
    head = ("method", "seeds", "in all", *(f"to {level} ({value:.3f})" for level, value in targets.items()))
    rows = [
        (
            Cell(cost.method),
            Cell(str(cost.num_seeds)),
            Cell(_cost_text(cost.tokens, cost.seconds)),
            *(Cell(_reached(cost.reached[level])) for level in targets),
        )
        for cost in table.costs
    ]
    title = f"{table.name}: tokens and seconds of training to reach a level"
    return MarkedTable(f"cost-{table.name}", title, head, tuple(rows))


def _reached(found: Reached) -> str:
    if not found.of:
        return "not followed"
    if found.tokens is None or found.seconds is None:
        return "not reached"
    some = "" if found.num == found.of else f" ({found.num} of {found.of} seeds)"
    return _cost_text(found.tokens, found.seconds) + some


def _payoff_table(number: int, report: CrossPlayReport) -> MarkedTable:
    scores = {(cell.row, cell.column): cell.score for cell in report.cells}
    rows = [(Cell(row), *(metric_cell(scores.get((row, column))) for column in report.agents)) for row in report.agents]
    title = f"{report.world}, {report.episodes} episodes: score of the row against the column"
    return MarkedTable(f"payoffs-{number}", title, ("", *report.agents), tuple(rows))


def _cost_text(tokens: Estimate, seconds: Estimate) -> str:
    return f"{_amount_text(tokens)}, {_amount_text(seconds)} s"


def _amount_text(estimate: Estimate) -> str:
    """A cost with half of its interval's width, if it has one."""
    if estimate.low is None or estimate.high is None:
        return amount(estimate.value)
    return f"{amount(estimate.value)} ±{amount((estimate.high - estimate.low) / 2)}"


def _seeds(row: MethodRow) -> str:
    return str(len(row.seeds)) if row.seeds else "–"


def _lines(table: SplitTable) -> Iterator[dict[str, object]]:
    for row in table.rows:
        seeds = " ".join(map(str, row.seeds))
        over = row.over
        base = {"method": row.method, "seeds": seeds, "trials": row.num_trials}
        for key, found in row.metrics.items():
            if key == "control":
                continue  # it is the last of the controls below
            yield {**base, "figure": key, **_values(found.estimate), "interval": over, **_standing(found.standing)}
        for k, control in enumerate(row.controls):
            yield {**base, "figure": f"control_{k + 1}", **_values(control), "interval": over}
        for opponent, value in row.exploitation.items():
            if value is not None:
                yield {**base, "figure": f"exploitation of {opponent}", "value": _short(value)}
        yield {**base, "figure": "tokens_per_trial", "value": _short(row.tokens)}
        if row.seconds is not None:
            yield {**base, "figure": "seconds_per_trial", "value": _short(row.seconds)}
    for name, (_, value) in _references(table).items():
        line: dict[str, object] = {"method": name, "figure": f"score_{table.episodes}", "value": _short(value)}
        if name == MYOPIC and (ends := table.myopic) is not None:
            line |= {**_values(Estimate(ends.even, ends.low, ends.high)), "interval": "ties"}
        yield line
    for cost in table.costs:
        yield from _cost_lines(cost)


def _cost_lines(cost: Costs) -> Iterator[dict[str, object]]:
    base = {"method": cost.method, "interval": "seeds"}
    for unit in ("tokens", "seconds"):
        yield {**base, "figure": f"training_{unit}", **_values(getattr(cost, unit))}
    for level, found in cost.reached.items():
        name = {Level.MEMORYLESS: "memoryless", Level.MOST: "most"}[level]
        yield {"method": cost.method, "figure": f"seeds_followed_to_{name}", "value": found.of}
        yield {"method": cost.method, "figure": f"seeds_that_reached_{name}", "value": found.num}
        for unit in ("steps", "tokens", "seconds"):
            estimate: Estimate | None = getattr(found, unit)
            if estimate is not None:
                yield {**base, "figure": f"{unit}_to_{name}", **_values(estimate)}


def _values(estimate: Estimate) -> dict[str, object]:
    return {"value": _short(estimate.value), "low": _short(estimate.low), "high": _short(estimate.high)}


def _short(value: float | None) -> float | None:
    """Rounded to ten digits, so that files are equal on all machines."""
    return None if value is None else float(f"{value:.10g}") + 0.0


def _standing(standing: Rank) -> dict[str, object]:
    if standing.behind is None:
        return {"mark": standing.mark.value}
    behind = standing.behind
    return {
        "mark": standing.mark.value,
        "behind": _short(behind.estimate.value),
        "p_value": float(f"{standing.p_value:.4g}"),
        "pairing": standing.pairing.value,
    }
