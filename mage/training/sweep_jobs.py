"""Runs of a sweep side by side, each in a process: python -m mage.training.sweep_jobs SWEEP RUN THREADS PLUGIN…

The processes are in sessions of their own, so an interrupt in the terminal reaches them once, through this one. Each
ends at once when this process is gone. What a process reports at its end is one JSON value on its standard output.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from rich.console import Console

from mage.errors import ConfigError, MageError
from mage.models.device import num_cores
from mage.models.hosts import HOSTS, allowed_entries
from mage.plugins import import_plugins, import_recorded, named_plugins
from mage.runs.console import plain_console, say
from mage.runs.drawings import shown
from mage.runs.sweep_plan import read_plan
from mage.training.model_cache import ModelCache
from mage.training.run import interruptible
from mage.training.sweep_run import Outcome, log_path, run_or_record_failure
from mage.training.sweep_summary import RunEnd, RunState

_POLL_S = 0.05


class _Report(msgspec.Struct, frozen=True):
    ended: RunEnd | None = None
    refused: str = ""
    """A setting that cannot be used, which ends the sweep."""


class _Job:
    """A process that makes one run."""

    def __init__(self, folder: Path, name: str, threads: int) -> None:
        self.name = name
        self._log = log_path(folder, name)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __spec__.name, str(folder), name, str(threads), *named_plugins()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), HOSTS: allowed_entries()},
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def report(self) -> _Report:
        """What it reported, once it has ended; a crash is the failure of its run."""
        assert self._process.stdout is not None
        reported = self._process.stdout.read()
        if self._process.returncode == 0 and reported:
            return msgspec.json.decode(reported, type=_Report)
        why = f"its process ended with code {self._process.returncode}; {self._log} has what it said"
        return _Report(RunEnd(self.name, RunState.FAILED, 0, why))

    def close(self) -> None:
        """End the process where it has not ended, and release its pipes."""
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout):
            if file is not None:
                file.close()


def run_side_by_side(folder: Path, titles: Mapping[str, str], num_jobs: int, console: Console) -> Iterator[Outcome]:
    """Make runs, by name with a title for each, `num_jobs` at a time; outcomes come as the runs end.

    The first interrupt lets all runs under way finish their step and save; after the second they are killed. A
    `ConfigError` in one of them ends the others like a first interrupt.
    """
    waiting, running = list(titles), list[_Job]()
    threads = max(1, num_cores() // num_jobs)
    is_interrupted, refused = False, ""

    def interrupt() -> None:
        nonlocal is_interrupted
        is_interrupted = True
        for job in running:
            job.interrupt()

    def announce_interrupt() -> None:
        console.print("finishing the steps under way; interrupt again to stop at once")
        interrupt()

    try:
        with interruptible(announce_interrupt):
            while running or (waiting and not is_interrupted):
                if waiting and len(running) < num_jobs and not is_interrupted:
                    console.print(shown(titles[waiting[0]], "bold"))
                    running.append(_Job(folder, waiting.pop(0), threads))
                    continue
                job = next((job for job in running if job.has_ended), None)
                if job is None:
                    time.sleep(_POLL_S)
                    continue
                running.remove(job)
                report = job.report()
                job.close()
                if report.refused and not refused:
                    refused = report.refused
                    interrupt()
                ended = report.ended
                if ended is not None and is_interrupted and ended.state is RunState.FAILED:
                    ended = None  # it was interrupted before it could save
                if ended is not None:
                    console.print(shown(_ending(ended), "red" if ended.error else "dim"), soft_wrap=True)
                yield Outcome(ended, is_interrupted)
    finally:
        for job in running:
            job.close()
    if refused:
        raise ConfigError(refused)


def _ending(ended: RunEnd) -> str:
    return f"{ended.name} {ended.state}{f': {ended.error}' if ended.error else f' at step {ended.step}'}"


def _exit_with_parent() -> None:
    """End this process when the one that started it is gone: its end of the pipe closes then."""
    os.read(0, 1)  # not by sys.stdin, whose lock would be held when Python shuts down
    os._exit(1)


def _make(folder: Path, name: str, threads: int) -> _Report:
    plan = read_plan(folder)
    import_recorded(folder, plan.plugins or (), say)
    (planned,) = [run for run in plan.runs if run.name == name]
    config = {**planned.config, "threads": planned.config.get("threads") or threads}
    planned = msgspec.structs.replace(planned, config=config)
    quiet = plain_console(quiet=True)
    return _Report(run_or_record_failure(folder / name, planned, plan.max_minutes, ModelCache(), quiet).ended)


def main(folder: str, name: str, threads: str, *plugins: str) -> None:
    """Make one run of a sweep, with so many threads where its recipe has no number, and report how it ended."""
    reported = os.dup(1)
    os.dup2(2, 1)  # whatever a plugin prints is no report
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        import_plugins(plugins)
        report = _make(Path(folder), name, int(threads))
    except KeyboardInterrupt:
        report = _Report()
    except MageError as error:
        report = _Report(refused=" ".join(str(error).split()))
    os.write(reported, msgspec.json.encode(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
