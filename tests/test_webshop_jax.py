"""WebShop's search leaves JAX alone, which takes most of a GPU's memory as soon as it computes anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
{before}
from mage.worlds.webshop.catalogue import Product
from mage.worlds.webshop.search import Search
product = Product("B1", "Red shoes", "shoes", ("a", "b", "c"), 1.0, (), (), "", ())
assert Search([product]).find("red shoes") == ("B1",)
import bm25s.selection
assert not bm25s.selection.JAX_IS_AVAILABLE
import jax.lax
print(jax.lax.sorted_times)
"""


def run_with_fake_jax(folder: Path, before: str) -> str:
    (folder / "jax").mkdir()
    (folder / "jax" / "__init__.py").write_text("")
    (folder / "jax" / "lax.py").write_text(
        "sorted_times = 0\ndef top_k(scores, k):\n    global sorted_times\n    sorted_times += 1\n"
    )
    paths = os.pathsep.join([str(folder), str(Path(__file__).parent.parent)])
    script = SCRIPT.format(before=before)
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_search_does_not_compute_with_jax_and_jax_can_be_imported_after_it(tmp_path: Path) -> None:
    assert run_with_fake_jax(tmp_path, "") == "0"


def test_a_jax_that_was_imported_before_is_still_there(tmp_path: Path) -> None:
    assert run_with_fake_jax(tmp_path, "import jax; jax.mine = True") == "0"
