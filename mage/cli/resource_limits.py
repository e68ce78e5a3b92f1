"""What a command that plays may take: trials under way at once; the patience, the budget and the key for servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress

from mage.engines.budget import Budget, spending
from mage.engines.remote import CONCURRENCY as REMOTE_CONCURRENCY
from mage.engines.remote import RetryPolicy
from mage.errors import MageError
from mage.evaluation.eval_agent import EvalAgent, load_eval_agent
from mage.evaluation.suite.evaluate import CONCURRENCY
from mage.evaluation.trial_log import TrialLog
from mage.files import JsonLines
from mage.models.address import PREFIX, key_name, read_address
from mage.opponents.registry import TALKERS
from mage.opponents.remote import url_of
from mage.runs.console import progress_bar, say
from mage.spec import parse_spec

USAGE = "usage.jsonl"


@dataclass(frozen=True)
class ResourceLimits:
    """What may be taken. Nothing that comes out depends on it."""

    concurrency: int | None = None
    """Trials under way at once; by default few where a remote model is among them, and many elsewhere."""
    max_calls: int | None = None
    max_tokens: int | None = None
    """Of remote models, read and written."""
    timeout_s: float | None = None
    """Of one remote call."""

    def eval_agent(self, agent: str, values: Mapping[str, object]) -> EvalAgent:
        """Who is judged; a remote model is asked as often at once as trials are under way."""
        patience = RetryPolicy() if self.timeout_s is None else RetryPolicy(timeout_s=self.timeout_s)
        return load_eval_agent(agent, values, patience=patience, concurrency=self.concurrency or REMOTE_CONCURRENCY)

    def spending(self) -> AbstractContextManager[None]:
        """While it lasts, remote models are asked no more than this."""
        return spending(Budget(self.max_calls, self.max_tokens))

    def num_trials(self, agents: Iterable[str]) -> int:
        """Trials under way at once, with these agents and opponents; a kill loses what remote ones were paid for."""
        return self.concurrency or (REMOTE_CONCURRENCY if any(map(_is_remote, agents)) else CONCURRENCY)


@contextmanager
def at_work(trial_log: TrialLog, means: ResourceLimits, go_on: Callable[[], str]) -> Iterator[Progress]:
    """While it lasts, outcomes go to a journal, remote calls to a budget, and a bar shows how far it is.

    Where it breaks off, what was played stays, and whoever looks is told by `go_on` how it goes on.
    """
    budget = Budget(means.max_calls, means.max_tokens)
    try:
        with trial_log, progress_bar() as bar, spending(budget):
            yield bar
    except (MageError, KeyboardInterrupt):
        if not trial_log.discard_if_empty():
            say(f"what was played is saved; go on with  {go_on()}")
        raise
    finally:
        _write_usage(trial_log.path, budget)


def say_where_the_key_goes(agents: Sequence[str]) -> None:
    """A secret leaves this machine only with a word about it."""
    urls = {
        read_address(agent).url if agent.startswith(PREFIX) else url_of(parse_spec(agent))
        for agent in agents
        if _is_remote(agent)
    }
    key = key_name(os.environ)
    if urls and key is not None:
        say(f"the key in {key} is sent to {', '.join(sorted(urls))}")


def _is_remote(agent: str) -> bool:
    """Whether a model on a server is named, by its address or as an opponent."""
    return agent.startswith((PREFIX, *(f"{name}(" for name in TALKERS)))


def _write_usage(path: Path, budget: Budget) -> None:
    """What remote models were asked by this process, on a line of its own."""
    if budget.calls and path.is_dir():
        log = JsonLines(path / USAGE)
        log.append({"calls": budget.calls, "tokens": budget.tokens})
        log.close()
