"""Run directories to look at, written by the real machinery, and the viewer's app around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from mage.config.schema import Config
from mage.config.sections import TrialConfig
from mage.files import JsonLines
from mage.runs.store import RunWriter
from mage.types import Failure, Trial
from mage.view.app import build_app
from mage.view.guard import Access, new_access
from tests.recorded import betting, failure, guest_trial, make_task, model_trial

ORIGIN = "http://127.0.0.1:8765"


class Viewer:
    """The app as a page of its own sees it."""

    def __init__(self, root: Path, access: Access | None = None) -> None:
        self.root = root
        self.access = access or new_access("127.0.0.1")
        own = {"origin": ORIGIN, "x-mage-token": self.access.token}
        app = build_app(root, self.access)
        self.client = TestClient(app, base_url=ORIGIN, headers=own, raise_server_exceptions=False)

    def get(self, path: str) -> Any:
        """The JSON at a path, which must be there."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **values: object) -> Any:
        """What a request to act answers, which must be accepted."""
        answer = self.client.post(path, json=values)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def error(self, path: str, status: int) -> str:
        """The one line with which a path is refused."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        said = answer.json()
        assert list(said) == ["error"]
        assert "\n" not in said["error"]
        return str(said["error"])

    def refusal(self, path: str, **values: object) -> str:
        """The one line with which a request to act is refused."""
        answer = self.client.post(path, json=values)
        assert answer.status_code in (400, 404, 409), answer.text
        return str(answer.json()["error"])

    def id(self, name: str) -> str:
        """The id of a run by its name."""
        found = [run["id"] for run in self.get("/api/runs") if run["name"] == name]
        assert len(found) == 1, name
        return str(found[0])

    def run(self, name: str, rest: str = "") -> Any:
        """Something of a run by its name."""
        return self.get(f"/api/runs/{self.id(name)}{rest}")


def write_run(path: Path, outcomes: Sequence[Trial | Failure], kind: str = "trials", **config: Any) -> Path:
    """A run with these trials."""
    settings = Config(world="kuhn_poker", trials=max(1, len(outcomes))).model_dump(mode="json") | config
    with RunWriter.create(path, kind=kind, config=settings, seed=7) as writer:
        for outcome in outcomes:
            writer.append(outcome)
    return path


def write_lines(path: Path, lines: Sequence[Mapping[str, object]]) -> None:
    """A file of JSON lines."""
    log = JsonLines(path)
    for line in lines:
        log.append(line)
    log.close()


def write_modules(folder: Path, **files: str) -> Path:
    """Modules by name; `__` stands for a slash, and each is JavaScript."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def write_train_run(path: Path, step: int = 4, steps: int = 4, **more: Any) -> Path:
    """A train run that has come so far, with nothing but what logs hold."""
    config = Config(steps=steps, trial=TrialConfig(episodes=2)).model_dump(mode="json")
    write_run(path, [guest_trial(make_task())], "train", **(config | more))
    scores = [{"step": n, "score/episode_1": 0.0, "score/episode_2": n / 10} for n in range(1, step + 1)]
    write_lines(path / "metrics.jsonl", scores)
    return path


def write_checkpoint(run: Path, step: int) -> Path:
    """A checkpoint without weights: enough to be counted."""
    folder = run / "checkpoints" / f"step-{step:06d}"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    return folder


def some_trials() -> list[Trial | Failure]:
    """Trials of a guest in both seats, of a model that writes notes, and one that failed."""
    seats = [guest_trial(make_task(seat=seat, seed=seat + 1)) for seat in (0, 1)]
    return [*seats, model_trial(make_task(seed=5), betting()), failure("it broke")]
