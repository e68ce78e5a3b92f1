"""Where a run stands: what is written down after each step, when it saves, when it stops."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from mage.alarms import NOTHING_SEEN, Watch, watch_score, watch_step
from mage.credit.stats import EMPTY, Stats
from mage.evaluate.suite import SplitReport
from mage.learn.card import model_card
from mage.learn.checkpoint import TrainState, checkpoints, load_checkpoint, prune, save_checkpoint
from mage.learn.parts import Parts
from mage.record.files import JsonLines, count_lines, cut_lines, write_atomically
from mage.record.store import RunWriter
from mage.record.tracker import Trackers
from mage.schema import Config
from mage.types import AlarmAction, Failure, Group, Trial

LOGS = ("metrics.jsonl", "events.jsonl", "trials.jsonl")
"""Written anew from the checkpoint on when a run is resumed."""


class Display(Protocol):
    """Shows a run to whoever watches it."""

    def step(self, step: int, figures: Mapping[str, float], timings: Mapping[str, float]) -> None: ...

    def say(self, text: str) -> None: ...

    def judged(self, reports: Sequence[SplitReport]) -> None: ...


class Progress:
    """The state of a run, kept in its directory."""

    def __init__(self, config: Config, folder: Path, parts: Parts, display: Display, max_minutes: float | None) -> None:
        self._config = config
        self._folder = folder
        self._parts = parts
        self._display = display
        self._started = self._stepped = time.perf_counter()
        self._max_s = None if max_minutes is None else 60 * max_minutes
        self.step = 0
        self.stats: Stats = EMPTY
        self._watch: Watch = NOTHING_SEEN
        self._best: tuple[float, int] | None = None
        """The best mean score of the last episode over all splits, and its step."""
        self._rollbacks = 0
        self._steps_done = 0
        self.is_stopped = False
        self._restore()
        self._trials = RunWriter.reopen(folder)
        self._trackers = Trackers(folder, config.trackers)
        self._events = JsonLines(folder / "events.jsonl")
        self._timings = JsonLines(folder / "timings.jsonl")

    def complete(self, stats: Stats, figures: Mapping[str, float], groups: Sequence[Group]) -> None:
        """Write down a step that is done."""
        transcripts = self._config.checkpoint.transcripts
        if transcripts and self.step % transcripts == 0 and groups:
            for trial in groups[0].trials[:2]:
                self._trials.append(trial)
        for failure in (failure for group in groups for failure in group.failures):
            self._trials.append(failure)
        self.step += 1
        self.stats = stats
        self._trackers.log(self.step, figures)
        self._watch, alarms = watch_step(self._config.alarms, self._watch, figures)
        timings = self._time(figures)
        self._display.step(self.step, figures, timings)
        self._sound(alarms)

    @property
    def is_evaluation_due(self) -> bool:
        """Whether the splits are to be judged now; the end of the run has an evaluation of its own."""
        every = self._config.evaluation.every
        return every > 0 and self.step % every == 0 and self.step < self._config.steps

    def judged(self, reports: Sequence[SplitReport]) -> None:
        """Write down an evaluation, keep the best weights, and sound an alarm when a score fell."""
        if not reports:
            return
        figures: dict[str, float] = {}
        for report in reports:
            for k, (score, control) in enumerate(zip(report.agent.scores, report.control.scores, strict=True)):
                figures[f"eval/{report.split}/score_{k + 1}"] = score.value
                figures[f"eval/{report.split}/control_{k + 1}"] = control.value
            figures[f"eval/{report.split}/over_control"] = report.over_control.value
        self._trackers.log(self.step, figures)
        self._display.judged(reports)
        alarms: list[str] = []
        for report in reports:
            last = report.agent.scores[-1].value
            self._watch, fell = watch_score(self._config.alarms, self._watch, report.split, last)
            alarms += fell
        self._sound(alarms)
        overall = sum(report.agent.scores[-1].value for report in reports) / len(reports)
        if not alarms and (self._best is None or overall > self._best[0]):
            self._best = (overall, self.step)
            self._save()

    def save_if_due(self) -> None:
        """Save on schedule, and before stopping for whatever reason."""
        if self._max_s is not None and time.perf_counter() - self._started > self._max_s and not self.is_stopped:
            self.stop(f"stopped after {self._max_s / 60:g} minutes")
        if self.step % self._config.checkpoint.every == 0 or self.is_stopped or self.step == self._config.steps:
            self._save()

    def finish(self, reports: Sequence[SplitReport]) -> None:
        """Write the last evaluation down."""
        self.judged(reports)
        content = msgspec.json.format(msgspec.json.encode(reports), indent=1)
        self._final.parent.mkdir(exist_ok=True)
        write_atomically(self._final, content)

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self._config.steps

    @property
    def is_judged(self) -> bool:
        """Whether the last evaluation was written down."""
        return self._final.exists()

    @property
    def _final(self) -> Path:
        return self._folder / "evaluations" / "final.json"

    def keep(self, trial: Trial | Failure) -> None:
        """Write one trial down."""
        self._trials.append(trial)

    def stop(self, why: str) -> None:
        """Stop after the step in progress."""
        self.is_stopped = True
        self._display.say(why)

    def close(self) -> None:
        """Force everything to the disk."""
        for log in (self._trials, self._trackers, self._events, self._timings):
            log.close()

    def _sound(self, alarms: Sequence[str]) -> None:
        for alarm in alarms:
            self._display.say(f"alarm at step {self.step}: {alarm}")
            self._events.append({"step": self.step, "alarm": alarm, "action": self._config.alarms.action})
        if alarms and self._config.alarms.action is AlarmAction.STOP:
            self.stop("stopped by an alarm; alarms.action=print goes on regardless")
        elif alarms and self._config.alarms.action is AlarmAction.ROLLBACK:
            self._roll_back()

    def _roll_back(self) -> None:
        """Take the weights, optimizer and statistics of the last checkpoint; steps and their draws go on."""
        saved = checkpoints(self._folder / "checkpoints")
        self._rollbacks += 1
        if not saved or self._rollbacks > 3:
            self.stop(
                "stopped by an alarm: " + ("rolled back three times already" if saved else "nothing to go back to")
            )
            return
        state = load_checkpoint(saved[-1], self._parts.learner)
        self.stats = state.stats
        self._watch = Watch({}, self._watch.best)
        self._display.say(f"rolled back to the weights of step {state.step}")
        self._events.append({"step": self.step, "rollback": state.step})

    def _save(self) -> None:
        folder = self._folder / "checkpoints"
        if any(path.name.endswith(f"{self.step:06d}") for path in checkpoints(folder)):
            return
        state = TrainState(
            step=self.step,
            stats=self.stats,
            learner=self._parts.learner.state()[1],
            lines={name: count_lines(self._folder / name) for name in LOGS},
            best=self._best,
            watch=self._watch,
            rollbacks=self._rollbacks,
        )
        loaded = self._parts.loaded
        card = model_card(self._config, self.step, loaded.name)
        save_checkpoint(folder, self._parts.learner.model, loaded.tokenizer, self._parts.learner, state, card)
        best = None if self._best is None else folder / f"step-{self._best[1]:06d}"
        prune(folder, self._config.checkpoint.keep, best)

    def _restore(self) -> None:
        """Go on from the newest checkpoint; what the logs have beyond it is set aside and written anew."""
        saved = checkpoints(self._folder / "checkpoints")
        lines: Mapping[str, int] = {}
        if saved:
            state = load_checkpoint(saved[-1], self._parts.learner)
            self.step, self.stats, self._watch = state.step, state.stats, state.watch
            self._best, self._rollbacks, lines = state.best, state.rollbacks, state.lines
        for name in LOGS:
            cut_lines(self._folder / name, lines.get(name, 0), "superseded")

    def _time(self, figures: Mapping[str, float]) -> dict[str, float]:
        now = time.perf_counter()
        seconds = now - self._stepped
        self._stepped = now
        tokens = figures.get("learner/tokens", 0.0)
        self._steps_done += 1
        timings = {
            "steps_done": self._steps_done,
            "step_s": seconds,
            "elapsed_s": now - self._started,
            "tokens_per_s": tokens / max(seconds, 1e-9),
        }
        self._timings.append({"step": self.step, **timings})
        return timings
