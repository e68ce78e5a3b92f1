"""Where Ray does not start or cannot be joined, the run ends in one line. No Ray is needed: `ray.init` raises."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mage.config.sections import RolloutConfig
from mage.errors import ConfigError, EngineError
from mage.training.workers.ray_cluster import _join

TIMED_OUT = "The current node timed out during startup"
WHY = ". This could happen because some of the raylet failed to startup or the GCS has become overloaded."


class RayError(Exception):
    """As Ray's own errors, of which none is a built-in one."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Exception(TIMED_OUT + WHY), TIMED_OUT),
        (RuntimeError("Ray is there.\nCall shutdown."), "Ray is there"),
        (OSError(28, "No space left on device"), r"\[Errno 28\] No space left on device"),
        (RayError("the raylet ended"), "RayError: the raylet ended"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_every_error_of_starting_ray_is_one_line(error: Exception, said: str) -> None:
    def init(**_: object) -> None:
        raise error

    ray = SimpleNamespace(init=init)
    with pytest.raises(EngineError, match=rf"^Ray cannot be started on this machine: {said}$"):
        _join(ray, RolloutConfig(workers=2))
    with pytest.raises(ConfigError, match=rf"^rollout.address = 'a:1': Ray does not join it: {said}$"):
        _join(ray, RolloutConfig(workers=2, address="a:1"))
