"""The recorder of a run: logs, checkpoints, alarms, and when to evaluate and stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import quote

from mage.credit.group_baselines import TrialAdvantages
from mage.credit.running_stats import EMPTY, Stats
from mage.credit.steps import CreditGroup
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import evaluation_report, to_json
from mage.files import closing_on_error, write_atomically
from mage.league.matches import PlayedMatch
from mage.league.payoffs import Payoffs
from mage.learners.state_files import numbers_of
from mage.runs.store import RUN, Change
from mage.runs.tracker import Trackers
from mage.training.alarms import MAX_ROLLBACKS, NO_ALARMS, AlarmState, watch_score, watch_step
from mage.training.checkpoint import (
    CHECKPOINTS,
    TrainState,
    checkpoint_path,
    load_checkpoint,
    newest_checkpoint,
    note_saved,
    prune,
    save_checkpoint,
)
from mage.training.event_log import Display, EventLog
from mage.training.league_metrics import league_metrics
from mage.training.model_card import model_card
from mage.training.parts import LEARNER
from mage.training.resume_changes import change_text
from mage.training.run_logs import cut_back_logs, log_lengths, lost_lines
from mage.training.setup import Setup
from mage.training.step_metrics import evaluation_metrics
from mage.training.step_timings import StepTimings
from mage.training.task_sources import SourceState
from mage.training.transcripts import Transcripts
from mage.types import AlarmAction, Failure, Group, Trial


class RunRecorder:
    """Keeps the state of a run in its directory."""

    def __init__(self, setup: Setup, folder: Path, display: Display, max_minutes: float | None) -> None:
        self._config = setup.parts.config
        self.folder = folder
        self._parts = setup.parts
        self._learners = setup.learners
        self._source = setup.source
        self._members = setup.members
        self.display = display
        self._ahead = setup.ahead
        self._max_s = None if max_minutes is None else 60 * max_minutes
        self.step = 0
        self.stats: Stats = EMPTY
        self._watch: AlarmState = NO_ALARMS
        self._best: tuple[float, int] | None = None
        """The best mean score of the last episode over all splits, and its step."""
        self._healthy: int | None = None
        """The step of the newest scheduled checkpoint that was saved while no metric was bad."""
        self._rollbacks = 0
        self.is_stopped = False
        self.is_interrupted = False
        self._trials = Transcripts(folder, self._parts)  # First: it takes the lock, and the rest truncates logs.
        with closing_on_error(self._trials):
            lost = self._restore()
        self._trackers = Trackers(folder, self._config.trackers)
        self._events = EventLog(folder, display)
        self._timings = StepTimings(folder, self._parts.resources)
        for text in lost:
            self.warn(text)

    def record_changes(self, changes: Sequence[Change]) -> None:
        """Print and record changed settings; where evaluation tasks changed, forget the best scores."""
        for change in [change for change in changes if change.key == RUN or not self._is_done]:
            event = {"step": self.step, "changed": change.key, "old": change.old, "new": change.new}
            self._record(f"from step {self.step} on: {change_text(change)}", event)
            if change.key in ("evaluation.splits", "evaluation.seed"):
                self._best, self._watch = None, AlarmState(self._watch.streaks, {})

    def warn(self, text: str) -> None:
        """Print and record a warning."""
        self._record(text, {"step": self.step, "warning": text})

    def _record(self, text: str, event: Mapping[str, object]) -> None:
        """Print and record; a run that is done stays as it is, so there it is only printed."""
        if self._is_done:
            self.display.say(text)
        else:
            self._events.record(text, event)

    def record_divergence(self, text: str) -> None:
        """Print and record that training diverged in the step after the last one completed."""
        event = {"step": self.step, "alarm": text, "action": AlarmAction.STOP}
        self._events.record(f"alarm in step {self.step + 1}: {text}", event)

    @property
    def transcribed_learner(self) -> str:
        """The learner whose trials are written at this step, if any are; learners take turns."""
        names, every = self._learners.names, max(1, self._config.checkpoint.transcripts)
        return names[self.step // every % len(names)]

    def transcribe_if_due(
        self, group: Group, credited: CreditGroup, advantages: TrialAdvantages, is_trained: bool, is_tutored: bool
    ) -> None:
        """Write some trials of a group with their credit; call before the update, with the weights that played."""
        every = self._config.checkpoint.transcripts
        if every and self.step % every == 0:
            self._trials.write_credited(
                self.step, group, credited, advantages, is_trained=is_trained, is_tutored=is_tutored
            )

    def complete_step(
        self, stats: Stats, metrics: Mapping[str, Mapping[str, float]], played: Sequence[PlayedMatch]
    ) -> None:
        """Record a completed step with metrics by learner; alarms may roll a learner back or stop the run."""
        for failure in (failure for one in played for failure in one.group.failures):
            self._trials.write_uncredited(self.step, failure)
        self.step += 1
        self.stats = stats
        logged = metrics[LEARNER] if self._members is None else league_metrics(self._members.league, metrics, played)
        self._trackers.log(self.step, logged)
        self.display.step(self.step, logged, self._timings.record(self.step, logged))
        for name, own in metrics.items():
            self._check_alarms(name, own)

    def _check_alarms(self, learner: str, metrics: Mapping[str, float]) -> None:
        """Raise alarms for metrics of a learner that have been bad for too many steps."""
        if self._members is None:
            self._watch, alarms = watch_step(self._config.alarms, self._watch, metrics, self._ahead.lag)
            self._raise_alarms(alarms, self._config.alarms.action, self._healthy)
            return
        reason = self._members.check_alarms(learner, metrics, self.step, self._events)
        if reason is not None:
            self.stop(reason)

    async def update_members(self) -> None:
        """In a league take snapshots, evict the least useful ones, and let learners copy others, when due."""
        if self._members is None:
            return
        for learner, parent in await self._members.update(self.step, self._events, is_finished=self.is_finished):
            self._source.copy(learner, parent)

    @property
    def is_showcase_due(self) -> bool:
        """Whether to play the showcase now: with each checkpoint or evaluation, if transcripts are written at all."""
        is_saved = self.step % self._config.checkpoint.every == 0
        is_kept = self._config.checkpoint.transcripts > 0
        return is_kept and (is_saved or self.is_evaluation_due) and not self.is_finished

    @property
    def is_evaluation_due(self) -> bool:
        """Whether to evaluate now; the evaluation at the end of the run is separate."""
        every = self._config.evaluation.every
        return every > 0 and self.step % every == 0 and not self.is_finished

    def record_evaluation(self, reports: Sequence[SplitReport]) -> None:
        """Record an evaluation, save the best weights, and raise an alarm when a score fell."""
        self._timings.note_evaluation()
        if not reports:
            return
        alarms = self._log_evaluation(reports)
        # Evaluations are rare: of the checkpoints since the best one, it is unknown which are good.
        healthy = self._healthy if self._best is None else self._best[1]
        self._raise_alarms(alarms, self._config.alarms.action, healthy)
        overall = sum(report.agent.scores[-1].value for report in reports) / len(reports)
        if not alarms and (self._best is None or overall > self._best[0]):
            self._best = (overall, self.step)
            self._save(is_scheduled=True)

    def _log_evaluation(self, reports: Sequence[SplitReport]) -> list[str]:
        self._trackers.log(self.step, evaluation_metrics(reports))
        self.display.show_evaluation(reports)
        alarms: list[str] = []
        for report in reports:
            last = report.agent.scores[-1].value
            self._watch, fell = watch_score(self._config.alarms, self._watch, report.split, last)
            alarms += fell
        return alarms

    def save_if_due(self) -> None:
        """Save on schedule, and before stopping for any reason."""
        if self._is_out_of_time and not self.is_stopped and not self.is_finished:
            self.stop(f"stopped after {self._timings.elapsed_s:.0f} seconds: the time limit")
        if self.is_save_due:
            self._save(is_scheduled=self._is_save_scheduled)

    def save_before_end(self, error: str) -> None:
        """Save the last completed step and record the error that ends the run while the next one is played."""
        if self.step > 0 and self._ahead.lag == 0:  # with a lag, weights that played the next step are gone
            self._save(is_scheduled=False)
            way_out = f"mage train --resume {quote(str(self.folder))}"
            self._record(f"saved after step {self.step}; go on with  {way_out}", {"step": self.step, "error": error})

    @property
    def is_save_due(self) -> bool:
        """Whether to save now; what is being played must be finished first."""
        return self._is_save_scheduled or self.is_stopped or self._is_out_of_time

    @property
    def _is_save_scheduled(self) -> bool:
        return self.step % self._config.checkpoint.every == 0 or self.is_finished

    @property
    def _is_out_of_time(self) -> bool:
        return self._max_s is not None and self._timings.elapsed_s > self._max_s

    def record_final_evaluation(self, reports: Sequence[SplitReport]) -> None:
        """Record the evaluation at the end; its alarms are only printed."""
        if reports:
            self._raise_alarms(self._log_evaluation(reports), AlarmAction.PRINT, None)
        self._final_report.parent.mkdir(exist_ok=True)
        write_atomically(self._final_report, to_json(evaluation_report(reports, self._config, self.step)))

    @property
    def is_finished(self) -> bool:
        """Whether all steps or all tokens of training are done."""
        return self._config.is_over(self.step, self._learners.num_tokens)

    @property
    def is_evaluated(self) -> bool:
        """Whether the evaluation at the end was recorded."""
        return self._final_report.exists()

    @property
    def _is_done(self) -> bool:
        return self.is_finished and self.is_evaluated

    @property
    def _final_report(self) -> Path:
        return self.folder / "evaluations" / "final.json"

    def record_trial(self, outcome: Trial | Failure) -> None:
        """Write a trial that is not trained on."""
        self._trials.write_uncredited(self.step, outcome)

    def stop(self, why: str) -> None:
        """Stop after the step in progress."""
        self.is_stopped = True
        self.display.say(why)

    def interrupt(self) -> None:
        """Stop after the step in progress, on the user's interrupt."""
        self.is_interrupted = True
        self.stop("finishing this step; interrupt again to stop at once")

    def close(self) -> None:
        """Close all logs and force them to the disk; an error of one does not keep the others open."""
        with ExitStack() as logs:
            for log in (self._timings, self._events, self._trackers, self._trials):
                logs.callback(log.close)

    def _raise_alarms(self, alarms: Sequence[str], action: AlarmAction, healthy: int | None) -> None:
        """Print and record alarms, and act on them; `healthy` is the step of the checkpoint to roll back to.

        In a league alarms are those of the leader's scores. It is not rolled back: other learners may be healthy.
        """
        if self._members is not None and action is AlarmAction.ROLLBACK:
            action = AlarmAction.PRINT
        for alarm in alarms:
            event = {"step": self.step, "alarm": alarm, "action": action}
            self._events.record(f"alarm at step {self.step}: {alarm}", event)
        if not alarms or action is AlarmAction.PRINT:
            return
        if action is AlarmAction.STOP:
            self.stop("stopped by an alarm; resumed, the run goes on until the next one")
        elif healthy is None:
            self.stop("stopped by an alarm: there is no healthy checkpoint to go back to yet")
        elif self._rollbacks == MAX_ROLLBACKS:
            self.stop(f"stopped by an alarm: the run has gone back {MAX_ROLLBACKS} times already")
        else:
            self._roll_back(healthy)

    def _roll_back(self, healthy: int) -> None:
        """Load the weights, optimizer and statistics of a checkpoint; step numbers and their draws continue."""
        state = load_checkpoint(checkpoint_path(self.folder / CHECKPOINTS, healthy), self._parts.learner)
        self.stats = state.stats
        self._ahead.drop()
        self._watch = AlarmState({}, self._watch.best)
        self._healthy = healthy
        self._rollbacks += 1
        self._events.record(f"rolled back to the weights of step {healthy}", {"step": self.step, "rollback": healthy})

    def _save(self, *, is_scheduled: bool) -> None:
        """Save a checkpoint, unless this step has one. Only a scheduled one becomes the target of rollbacks, which must
        not depend on interrupts.
        """
        self._learners.activate(self._learners.leader)
        if not checkpoint_path(self.folder / CHECKPOINTS, self.step).exists():
            if is_scheduled and self._watch.is_healthy:
                self._healthy = self.step
            loaded, state = self._parts.loaded, self._state()
            card = model_card(self._config, self.step, loaded.name)
            save_checkpoint(self.folder / CHECKPOINTS, loaded, self._parts.learner, state, card, self._save_more)
            self._prune()
        if self._members is not None:
            self._members.delete_unneeded()

    def _state(self) -> TrainState:
        tasks = self._source.state()
        return TrainState(
            step=self.step,
            stats=self.stats,
            learner=numbers_of(self._parts.learner),
            lines=log_lengths(self.folder),
            best=self._best,
            healthy=self._healthy,
            watch=self._watch,
            rollbacks=self._rollbacks,
            played_tasks=tasks.played.get(LEARNER, ()),
            learners_played_tasks={name: played for name, played in tasks.played.items() if name != LEARNER},
            payoffs=tasks.payoffs.cells,
        )

    def _save_more(self, checkpoint: Path) -> None:
        self._ahead.save(checkpoint)
        if self._members is not None:
            self._members.save(checkpoint, self.step)

    def _prune(self) -> None:
        note_saved(self.folder, self.step)  # again: a kill may have come before
        needed = (self._healthy, self._best[1] if self._best else None)
        prune(self.folder / CHECKPOINTS, self._config.checkpoint.keep, needed)

    def _restore(self) -> list[str]:
        """Continue from the newest checkpoint; later lines of the logs are moved aside. Returns what they have lost."""
        saved = newest_checkpoint(self.folder)
        lines: Mapping[str, int] = {}
        if saved is not None:
            state = load_checkpoint(saved, self._parts.learner)
            self.step, self.stats, self._watch, lines = state.step, state.stats, state.watch, state.lines
            self._best, self._healthy, self._rollbacks = state.best, state.healthy, state.rollbacks
            played = {**state.learners_played_tasks, **({LEARNER: state.played_tasks} if state.played_tasks else {})}
            self._source.restore(SourceState(played, Payoffs(state.payoffs)))
            self._ahead.load(saved)
            if self._members is not None:
                self._members.load(saved)
        self._prune()
        if self.is_evaluated and not self.is_finished:  # The run was extended.
            self._final_report.rename(self._final_report.with_name(f"final-{self.step:06d}.json"))
        lost = lost_lines(self.folder, lines, self.step)
        if not self._is_done:
            cut_back_logs(self.folder, lines, self._trials)
        return lost
