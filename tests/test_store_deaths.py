"""A process that dies, or finds no room, while it writes a run: at most the line being written is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from mage.runs.index import TRIALS
from mage.runs.store import RunReader, RunWriter
from tests.recorded import failure

ROOT = Path(__file__).parent.parent

_CHILD = """
import sys
from pathlib import Path
from mage.runs.store import RunWriter
from mage.types import Failure, Task
task = Task("kuhn_poker", ("uniform",), 0, 0, 1, False, False, 10)
writer = RunWriter.create(Path(sys.argv[1]), kind="test", config={}, seed=0)
for n in range(10**9):
    writer.append(Failure(task, n, "PlayError", "x" * 300_000))
    print(n, flush=True)
"""


def test_sigkill_in_mid_write_loses_at_most_the_line_being_written(tmp_path: Path) -> None:
    for n in range(3):
        path = tmp_path / str(n)
        child = subprocess.Popen([sys.executable, "-c", _CHILD, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.05 + 0.013 * n)
        child.send_signal(signal.SIGKILL)
        acknowledged = [0, *(int(line) for line in child.stdout.read().split())]
        child.wait()
        reader = RunReader(path)
        kept = [outcome.sibling for outcome in reader.trials()]
        assert kept == list(range(len(kept)))
        assert len(kept) in (len(acknowledged), len(acknowledged) + 1)
        with RunWriter.reopen(path) as writer:
            assert writer.append(failure()) == len(kept)
            assert bool(writer.repairs) == bool(reader.damage)
        assert RunReader(path).damage == ()


_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from mage.errors import RecordError
from mage.runs.store import RunWriter
from tests.recorded import failure
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL if sys.argv[2] == "dies" else signal.SIG_IGN)
writer = RunWriter.create(Path(sys.argv[1]), kind="test", config={}, seed=0)
writer.append(failure())
try:
    writer.append(failure("x" * 3000))
except RecordError as error:
    print(error)
    writer.append(failure("short"))
    writer.close()
"""


def test_a_process_that_dies_in_the_middle_of_a_line_leaves_the_rest_readable(tmp_path: Path) -> None:
    """The system takes a part of the line and kills the process at the next byte."""
    child = subprocess.run([sys.executable, "-c", _FULL_DISK, str(tmp_path / "run"), "dies"], check=False, cwd=ROOT)
    assert child.returncode == -signal.SIGXFSZ
    assert (tmp_path / "run" / TRIALS).stat().st_size == 1500
    reader = RunReader(tmp_path / "run")
    assert list(reader.trials()) == [failure()]
    assert len(reader.damage) == 1
    assert "incomplete" in reader.damage[0]


def test_a_full_disk_is_one_line_and_leaves_no_broken_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FULL_DISK, str(tmp_path / "run"), "lives"]
    child = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert child.stdout.startswith(f"cannot write to {tmp_path / 'run'}: ")
    reader = RunReader(tmp_path / "run")
    assert (list(reader.trials()), reader.damage) == ([failure(), failure("short")], ())
