"""Train language-model agents that learn while they play.

import mage
run = mage.train("rps", {"learner.lr": 1e-3})
report = mage.evaluate(run)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from mage.version import __version__

if TYPE_CHECKING:
    from mage.api import (
        allow_hosts,
        compare,
        cross_play,
        evaluate,
        export_model,
        nashconv,
        open_run,
        open_sweep,
        register_engine,
        register_estimator,
        register_game,
        register_learner,
        register_method,
        register_model,
        register_opponent,
        register_world,
        sweep,
        train,
        value,
        write_split,
    )
    from mage.checks.worlds import check_world
    from mage.planning.plan import plan
    from mage.worlds.solo import SoloWorld

__all__ = [
    "SoloWorld",
    "__version__",
    "allow_hosts",
    "check_world",
    "compare",
    "cross_play",
    "evaluate",
    "export_model",
    "nashconv",
    "open_run",
    "open_sweep",
    "plan",
    "register_engine",
    "register_estimator",
    "register_game",
    "register_learner",
    "register_method",
    "register_model",
    "register_opponent",
    "register_world",
    "sweep",
    "train",
    "value",
    "write_split",
]


_ELSEWHERE = {"SoloWorld": "mage.worlds.solo", "check_world": "mage.checks.worlds", "plan": "mage.planning.plan"}
"""Names that are not in `mage.api`, and their modules."""

if not TYPE_CHECKING:  # so that type checkers know all names and refuse others

    def __getattr__(name: str) -> object:
        """Import a name's module when the name is first used, so that `import mage` is instant."""
        if name not in __all__:
            raise AttributeError(f"module 'mage' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(_ELSEWHERE.get(name, "mage.api")), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
