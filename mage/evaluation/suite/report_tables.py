"""Tables of an evaluation: scores by episode with control and references, results, cost and invalid replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from mage.evaluation.exact import fraction_text
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.metrics import OutcomeRates
from mage.evaluation.suite.reflections import ReflectionReport
from mage.evaluation.suite.regret import ScoreParts, TaskValue, mean_over_seats
from mage.evaluation.suite.switch_recovery import Recovery
from mage.grouped import Units
from mage.numbers import plain, signed
from mage.stats import ROUNDING, Estimate

_SCORES = (
    "Fixed tasks, 95 % intervals. Adaptation: last minus first score; over control: minus that without memory. Exact "
    "bounds know the members; myopic Bayes remembers, and plays each episode for itself (ties worst to best). Their "
    "gaps are the values of memory and exploration. Regret: limit minus last score. Exploitation: share of the best "
    "response's gain."
)
_RESULTS = (
    "Shares with exact 95 % intervals, over members or trials as above. pass@k: won at least once in the first k "
    "episodes. If independent: as many repetitions of the first episode, opponent by opponent; it needs k trials of "
    "each in each seat. Without memory: the control."
)
_SWITCHED = (
    "Opponents switch at an episode that is not announced. Recovery: episodes until the mean score is back at 90 % of "
    "what it was, with its interval; an agent that never adapts loses nothing."
)
_COST = "Per trial, with memory; tokens read are counted once. Health: counts over all trials with memory."
WIDTH = 80
"""Columns of a terminal; splits that do not fit go to another table."""
_NAMES, _CELLS, _GAP = 25, 16, 2
_MOST_EPISODES = 8
"""Longer trials show the first episodes and a few others."""

Rows = Sequence[tuple[str, Sequence[str]]]
"""Name and cells of each row, one cell per split."""
Seconds = Mapping[str, Mapping[str, float]]
"""Seconds by split and arm."""


def evaluation_table(reports: Sequence[SplitReport], seconds: Seconds | None = None) -> Group:
    """All metrics, one column per split: scores, results, recovery, cost and invalid replies."""
    sections = [summary_table(reports), _results(reports)]
    if any(report.agent.recovery for report in reports):
        sections.append(_recoveries([report for report in reports if report.agent.recovery]))
    sections.append(_costs(reports, seconds or {}))
    return Group(*(part for section in sections for part in (section, Text())))


def summary_table(reports: Sequence[SplitReport]) -> Group:
    """Scores by episode with control and exact references; those about opponents only where there are some."""
    has_opponents = not all(report.has_levels for report in reports)
    against = [
        ("equilibrium", [exact(mean_over_seats(report.references, "equilibrium")) for report in reports]),
        ("exploitation", [interval(report.exploitation) for report in reports]),
    ]
    rows = [
        ("trials", [str(report.num_trials) for report in reports]),
        ("intervals over", [_over(report) for report in reports]),
        *(
            (f"score, episode {k + 1}", [_score_cell(report.agent.scores, k) for report in reports])
            for k in _shown_episodes(reports)
        ),
        ("adaptation", [interval(report.agent.adaptation) for report in reports]),
        ("last score without memory", [interval(report.control.scores[-1]) for report in reports]),
        ("adaptation over control", [interval(report.over_control) for report in reports]),
        *(against[:1] if has_opponents else ()),
        *limit_rows(reports),
        ("best response", [exact(mean_over_seats(report.references, "best_response_mean")) for report in reports]),
        *_parts(reports),
        ("regret", [interval(report.regret) for report in reports]),
        *(against[1:] if has_opponents else ()),
    ]
    return split_tables("Scores", _SCORES, [report.split for report in reports], rows)


def limit_rows(reports: Sequence[SplitReport] | Sequence[ReflectionReport]) -> Rows:
    """What can be reached without memory, with memory alone, and at all."""
    found = [report.references for report in reports]
    myopic = [[mean_over_seats(exact_values, f"myopic.{end}") for end in ("low", "high")] for exact_values in found]
    return (
        ("best memoryless", [exact(mean_over_seats(exact_values, "memoryless")) for exact_values in found]),
        ("myopic Bayes", [exact_range(low, high) for low, high in myopic]),
        ("limit", [exact(mean_over_seats(exact_values, "bayes_last")) for exact_values in found]),
    )


def _parts(reports: Sequence[SplitReport]) -> Rows:
    """What memory and exploration are worth, and what they gave; rows without a value are left out."""
    rows = (
        ("value of memory/explore", [_value_cell(report.task_value) for report in reports]),
        ("memoryless+memory+explore", [_parts_cell(report.parts) for report in reports]),
    )
    return [row for row in rows if set(row[1]) != {"–"}]


def _value_cell(value: TaskValue | None) -> str:
    """What memory and exploration are worth.

    >>> _value_cell(TaskValue(0.6508, 0.0)), _value_cell(TaskValue(0.5, None)), _value_cell(None)
    ('0.651/0', '0.500/–', '–')
    """
    if value is None:
        return "–"
    return f"{plain(value.memory)}/" + ("–" if value.exploration is None else plain(value.exploration))


def _parts_cell(parts: ScoreParts | None) -> str:
    """The parts of a score as a sum.

    >>> _parts_cell(ScoreParts(0.349, 0.5, 0.0)), _parts_cell(None)
    ('0.35+0.50+0', '–')
    """
    if parts is None:
        return "–"
    return "+".join(plain(part, 2) for part in (parts.memoryless, parts.memory, parts.exploration))


def _results(reports: Sequence[SplitReport]) -> Group:
    episodes = _shown_episodes(reports)
    rows: list[tuple[str, list[str]]] = [
        (f"win/draw/loss, episode {k + 1}", [_rates_cell(report.agent.rates, k) for report in reports])
        for k in episodes
    ]
    for k in sorted({1, 2, *_last_episodes(reports)} & set(episodes)):  # pass@1 is the share of wins
        played = [report if k < report.episodes else None for report in reports]
        rows += [
            (f"pass@{k + 1} (%)", [percent(r.agent.passes[k].solved) if r else "" for r in played]),
            ("  if independent", [percent(r.agent.passes[k].independent) if r else "" for r in played]),
            ("  without memory", [percent(r.control.passes[k].solved) if r else "" for r in played]),
        ]
    return split_tables("Results and second chances", _RESULTS, [report.split for report in reports], rows)


def _recoveries(reports: Sequence[SplitReport]) -> Group:
    found = [(report.agent.recovery, report.split) for report in reports]
    known = [recovery for recovery, _ in found if recovery is not None]
    rows = [
        ("last score before", [interval(recovery.before) for recovery in known]),
        *(
            (f"episode {k + 1} after", [_score_cell(recovery.after, k) for recovery in known])
            for k in range(max(len(recovery.after) for recovery in known))
        ),
        ("recovery", [_recovery_cell(recovery) for recovery in known]),
    ]
    return split_tables("After a switch", _SWITCHED, [split for _, split in found], rows)


def _costs(reports: Sequence[SplitReport], seconds: Seconds) -> Group:
    agents = [report.agent for report in reports]
    is_model = any(agent.replies for agent in agents)
    tokens = [
        ("tokens sampled", [_per_trial(r.agent.tokens_sampled, r) for r in reports]),
        ("tokens read", [_per_trial(r.agent.tokens_read, r) for r in reports]),
    ]
    replies = [
        ("invalid/cut replies", [f"{a.invalid}/{a.truncated} of {a.replies}" for a in agents]),
        ("forfeits/full contexts", [f"{a.forfeits}/{a.overflows}" for a in agents]),
    ]
    rows = [
        *(tokens if is_model else ()),
        ("seconds", [_seconds(r, seconds) for r in reports]),
        *(replies if is_model else ()),
        ("failed trials", [str(report.failures) for report in reports]),
    ]
    return split_tables("Cost and health", _COST, [report.split for report in reports], rows)


def split_tables(title: str, caption: str, splits: Sequence[str], rows: Rows) -> Group:
    """Tables of as many splits as fit the width."""
    tables: list[Table] = []
    start = 0
    while start < len(splits):
        stop, width = start, _NAMES
        while stop < len(splits) and (stop == start or width + _column(splits[stop]) <= WIDTH):
            width += _column(splits[stop])
            stop += 1
        tables.append(_table(title if not start else None, splits[start:stop], [(n, c[start:stop]) for n, c in rows]))
        start = stop
    return Group(*tables, Text(caption, "italic dim"))


def _table(title: str | None, splits: Sequence[str], rows: Rows) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column("", no_wrap=True, min_width=_NAMES)
    for split in splits:
        table.add_column(split, justify="right", no_wrap=True)
    for name, cells in rows:
        if any(cells):
            table.add_row(name, *cells)
    return table


def _column(split: str) -> int:
    """Width of a split's column with its gap."""
    return max(len(split), _CELLS) + _GAP


def _over(report: SplitReport) -> str:
    """What the intervals of a report are over."""
    return f"{len(report.by_member)} members" if report.units is Units.MEMBERS else report.units.value


def _score_cell(scores: Sequence[Estimate], k: int) -> str:
    return interval(scores[k]) if k < len(scores) else ""


def _shown_episodes(reports: Sequence[SplitReport]) -> list[int]:
    """Episodes to show, from 0: all of short trials, some of long ones, and every report's last."""
    num = max(report.episodes for report in reports)
    if num <= _MOST_EPISODES:
        return list(range(num))
    return sorted({0, 1, 2, *(num * part // 5 - 1 for part in range(1, 6)), *_last_episodes(reports)})


def _last_episodes(reports: Sequence[SplitReport]) -> set[int]:
    return {report.episodes - 1 for report in reports}


def _rates_cell(rates: Sequence[OutcomeRates], k: int) -> str:
    if k >= len(rates):
        return ""
    shares = (rates[k].win, rates[k].draw, rates[k].loss)
    return "/".join(f"{100 * share.value:.0f}" for share in shares) + " %"


def _per_trial(total: float, report: SplitReport) -> str:
    """A total divided by the number of trials."""
    share = total / report.num_trials
    return f"{share:,.0f}" if share >= 100 else f"{share:.3g}"


def _seconds(report: SplitReport, seconds: Seconds) -> str:
    taken = seconds.get(report.split, {}).get("agent")
    return "–" if taken is None else _per_trial(taken, report)


def _recovery_cell(recovery: Recovery) -> str:
    """Episodes until recovery, with the interval.

    >>> half = Estimate(0.5, 0.4, 0.6)
    >>> _recovery_cell(Recovery(half, (half,), 0, 0, None))
    '0 (0 to >0)'
    """
    earliest, num, latest = (
        f">{len(recovery.after) - 1}" if episodes is None else str(episodes)
        for episodes in (recovery.recovered_earliest, recovery.recovered, recovery.recovered_latest)
    )
    return f"{num} ({earliest} to {latest})"


def percent(estimate: Estimate | None) -> str:
    """A share in percent with both ends of its interval, which is not symmetric.

    >>> percent(Estimate(1.0, 0.912, 1.0)), percent(Estimate(1.0, None, None)), percent(None)
    ('100 (91.2–100)', '100 (n/a)', '–')
    """
    if estimate is None:
        return "–"
    known = [value for value in (estimate.value, estimate.low, estimate.high) if value is not None]
    share, *ends = (f"{100 * value:.1f}".replace("100.0", "100") for value in known)
    return f"{share} ({'–'.join(ends) or 'n/a'})"


def interval(estimate: Estimate | None) -> str:
    """A value and how far its interval reaches, to the farther side where it is not symmetric; a dash for None.

    >>> interval(Estimate(0.5, 0.4, 0.6)), interval(Estimate(0.5, None, None)), interval(None)
    ('+0.500 ±0.100', '+0.500 ±n/a', '–')
    """
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{signed(estimate.value)} ±n/a"
    return f"{signed(estimate.value)} ±{plain(max(estimate.high - estimate.value, estimate.value - estimate.low))}"


def setup_text(game: str, episodes: int, seats: Sequence[int]) -> str:
    """World, episodes and seats as text.

    >>> setup_text("kuhn_poker", 3, (0, 1)), setup_text("rps", 1, (0,))
    ('kuhn_poker, 3 episodes, seats 0, 1', 'rps, 1 episode, seat 0')
    """
    length = "1 episode" if episodes == 1 else f"{episodes} episodes"
    return f"{game}, {length}, seat{'s' if len(seats) > 1 else ''} {', '.join(map(str, seats))}"


def exact(value: float | None) -> str:
    """An exact value, as a fraction where it is one; a dash for None.

    >>> exact(1 / 9), exact(1.0), exact(None)
    ('1/9 = 0.111', '1', '–')
    """
    if value is None:
        return "–"
    written = fraction_text(value)
    return f"{written} = {value:.3f}" if "/" in written else written


def exact_range(low: float | None, high: float | None) -> str:
    """An exact value, or both ends where they differ; a dash for None.

    >>> exact_range(1 / 9, 1 / 9), exact_range(94 / 105, 33 / 35), exact_range(None, None)
    ('1/9 = 0.111', '0.895 to 0.943', '–')
    """
    if low is None or high is None or high - low < ROUNDING:
        return exact(high)
    return f"{plain(low)} to {plain(high)}"
