"""Workers on the page of a run: what each does, a death while it is open, and nothing where there are none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.view_speed import Server
from mage.config.schema import Config
from mage.config.sections import RolloutConfig
from mage.files import JsonLines
from mage.runs.store import RunWriter
from tests.browser.opened import Opened
from tests.browser.scenes import EVIL
from tests.viewed import write_lines, write_train_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_train_run(root / "alone")
    done = write_train_run(root / "done", rollout={"workers": 3})
    write_lines(done / "workers.jsonl", [line(number, "built") for number in (1, 2, 3)])
    write_lines(done / "workers.jsonl", [line(2, "died", error=EVIL, trials=16), line(2, "built")])
    write_lines(done / "workers.jsonl", [line(3, "broken", error="CUDA error", trials=4), line(3, "built")])
    write_lines(done / "timings.jsonl", [timings(1, 0.1, 0.1, 0.35), timings(2, 0.1, 0.1, 0.35)])
    broken = write_train_run(root / "broken", rollout={"workers": 1})
    (broken / "workers.jsonl").write_text("what?\n")
    return root


def line(worker: int, what: str, **more: object) -> dict[str, object]:
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return {"time": time, "step": 1, "worker": worker, "what": what, "host": "somewhere", "pid": 70 + worker, **more}


def timings(step: int, *trial_s: float) -> dict[str, object]:
    found: dict[str, object] = {"step": step, "trials_per_s": 12.0}
    for number, seconds in enumerate(trial_s, start=1):
        found |= {f"worker_{number}/trials": 8, f"worker_{number}/busy_share": 0.5, f"worker_{number}/host_gib": 1.25}
        found |= {f"worker_{number}/trial_s": seconds}
    return found


def open_run(opened: Opened, server: Server, name: str) -> None:
    found = next(run["id"] for run in server.json("/api/runs") if run["name"] == name)
    opened.go(f"/#/runs/{found}")
    opened.wait(".tabs a:has-text('Overview')")


def test_a_run_that_is_over_shows_what_its_workers_did(opened: Opened, server: Server) -> None:
    open_run(opened, server, "done")
    opened.wait("h2:has-text('Workers')")
    text = opened.text()
    assert "It had 3 workers; 1 death, 1 broken, 20 trials replayed; 12 trials a second in the last step." in text
    rows = [row.split() for row in opened.find(".workers tbody tr").all_inner_texts()]
    assert [row[:2] for row in rows] == [["worker", "1"], ["worker", "2"], ["worker", "3"]]
    assert all("ended" in row for row in rows)
    assert opened.find(".workers tr:has-text('worker 3') .warn").inner_text().strip() == "0.35 s ▲ 3.5 times the others"
    assert opened.find(".workers .warn").count() == 1
    assert [row[-2:] for row in rows] == [["0", "0"], ["1", "0"], ["0", "1"]], "deaths, and how often broken"
    assert [opened.find(f".workers tr:has-text('worker {number}') .bad").count() for number in (1, 2, 3)] == [0, 1, 1]
    assert "worker 3 was broken; 4 trials replayed: CUDA error" in text
    assert EVIL in opened.find(".incidents").inner_text()
    assert opened.find(".workers .spark").count() == 3


def test_what_is_shown_already_is_not_fetched_and_drawn_again(opened: Opened, server: Server) -> None:
    """Else what was marked on the page would be gone a moment after it was opened."""
    with opened.page.expect_response(lambda response: "/api/live" in response.url):
        open_run(opened, server, "done")
    opened.page.wait_for_timeout(1500)  # the first event comes with the answer
    assert sum(address.endswith("/workers") for address in opened.requests) == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_it_can_be_read_in_any_window(opened: Opened, server: Server, width: int) -> None:
    opened.resize(width, 900)
    open_run(opened, server, "done")
    opened.wait("h2:has-text('Workers')")
    assert opened.overhang() <= 0
    assert opened.too_faint() == []


def test_a_run_without_workers_has_no_such_section(opened: Opened, server: Server) -> None:
    open_run(opened, server, "alone")
    assert opened.find("h2:has-text('Workers')").count() == 0


def test_files_that_cannot_be_read_are_said_and_the_rest_is_shown(opened: Opened, server: Server) -> None:
    open_run(opened, server, "broken")
    opened.wait("h2:has-text('Workers')")
    assert "workers.jsonl of broken cannot be read" in opened.text()
    assert opened.find(".chart .curve").count() > 0
    opened.troubles.clear()  # the browser logs the status of the answer


def test_a_death_is_seen_while_one_looks(opened: Opened, server: Server, runs: Path) -> None:
    config = Config(steps=9, rollout=RolloutConfig(workers=2)).model_dump(mode="json")
    with RunWriter.create(runs / "training", kind="train", config=config, seed=0):
        log = JsonLines(runs / "training" / "workers.jsonl")
        open_run(opened, server, "training")
        opened.wait("section:has-text('No worker has been built yet')")
        for number in (1, 2):
            log.append(line(number, "built"))
        opened.wait("section:has-text('2 of 2 workers are alive; none has died')")
        log.append(line(2, "died", error="out of memory", trials=4))
        opened.wait(".workers tr:has-text('worker 2') .chip.crashed")
        assert "1 of 2 workers is alive; 1 death, 4 trials replayed" in opened.text()
        assert "worker 2 died; 4 trials replayed: out of memory" in opened.text()
        log.append(line(1, "broken", error="CUDA error", trials=4))
        opened.wait(".workers tr:has-text('worker 1') .chip:has-text('is broken')")
        assert "0 of 2 workers are alive; 1 death, 1 broken, 8 trials replayed" in opened.text()
        log.close()
