"""Limits of what an evaluation may use: trials at once, and the timeout and budget of remote models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress

from mage.engines.remote import CONCURRENCY as REMOTE_CONCURRENCY
from mage.engines.remote import RetryPolicy
from mage.engines.remote_budget import Budget, use_budget
from mage.errors import MageError
from mage.evaluation.eval_agent import EvalAgent, load_eval_agent
from mage.evaluation.suite.evaluate import CONCURRENCY
from mage.evaluation.trial_log import TrialLog
from mage.files import JsonLines
from mage.models.address import PREFIX, read_address
from mage.models.hosts import key_variable, withheld_key
from mage.opponents.registry import MODEL_OPPONENTS
from mage.opponents.remote import address_of
from mage.runs.console import progress_bar, say
from mage.shortage import ShortagesAsErrors
from mage.spec import parse_spec

USAGE = "usage.jsonl"


@dataclass(frozen=True)
class ResourceLimits:
    """What an evaluation may use. Results do not depend on it."""

    concurrency: int | None = None
    """Trials under way at once; by default few where a remote model is among them, and many elsewhere."""
    max_calls: int | None = None
    max_tokens: int | None = None
    """Of remote models, read and written."""
    timeout_s: float | None = None
    """Of one remote call."""

    def eval_agent(
        self, agent: str, values: Mapping[str, object], worlds: Sequence[str], tokenizer: Path | None = None
    ) -> EvalAgent:
        """Load the agent; a remote model gets as many requests at once as trials are under way.

        `worlds` are those that it will play, `tokenizer` the directory of one that was made for them.
        """
        patience = RetryPolicy() if self.timeout_s is None else RetryPolicy(timeout_s=self.timeout_s)
        return load_eval_agent(
            agent,
            values,
            patience=patience,
            concurrency=self.concurrency or REMOTE_CONCURRENCY,
            worlds=worlds,
            tokenizer=tokenizer,
        )

    def spending(self) -> AbstractContextManager[None]:
        """A context in which remote models are asked at most this often."""
        return use_budget(Budget(self.max_calls, self.max_tokens))

    def num_trials(self, agents: Iterable[str]) -> int:
        """Trials under way at once; fewer with remote models, because a kill loses the calls of unfinished trials."""
        return self.concurrency or (REMOTE_CONCURRENCY if any(map(_is_remote, agents)) else CONCURRENCY)


@contextmanager
def at_work(trial_log: TrialLog, limits: ResourceLimits, go_on: Callable[[], str]) -> Iterator[Progress]:
    """A context with the log open, the budget of remote calls in force and a progress bar.

    On an error or interrupt, what was played stays and the command of `go_on`, which resumes it, is printed.
    """
    budget = Budget(limits.max_calls, limits.max_tokens)
    try:
        with ShortagesAsErrors(), trial_log, progress_bar() as bar, use_budget(budget):
            yield bar
    except (MageError, KeyboardInterrupt):
        if not trial_log.discard_if_empty():
            say(f"what was played is saved; go on with  {go_on()}")
        raise
    finally:
        _write_usage(trial_log.path, budget)


def say_where_the_key_goes(agents: Sequence[str]) -> None:
    """Print to which servers an API key is sent, and to which on this machine it is not."""
    addresses = [
        read_address(agent) if agent.startswith(PREFIX) else address_of(parse_spec(agent))
        for agent in agents
        if _is_remote(agent)
    ]
    by_url = {address.url: address for address in addresses}
    keys: dict[str, list[str]] = {}
    for url, address in sorted(by_url.items()):
        key = key_variable(address)
        if key is not None:
            keys.setdefault(key, []).append(url)
        elif withheld := withheld_key(address):
            say(f"{url}: {withheld}")
    for key, urls in keys.items():
        say(f"the key in {key} is sent to {', '.join(urls)}")


def _is_remote(agent: str) -> bool:
    """Whether a model on a server is named, by its address or as an opponent."""
    return agent.startswith((PREFIX, *(f"{name}(" for name in MODEL_OPPONENTS)))


def _write_usage(path: Path, budget: Budget) -> None:
    """Append calls and tokens of remote models in this process to the usage log."""
    if budget.calls and path.is_dir():
        log = JsonLines(path / USAGE)
        log.append({"calls": budget.calls, "tokens": budget.tokens})
        log.close()
