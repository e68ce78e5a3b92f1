"""Shared by all tests: no test writes outside its own folders."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import pytest

pytest.register_assert_rewrite("tests.engine_made")  # a failed comparison there shows its numbers too
os.environ["MAGE_CACHE"] = tempfile.mkdtemp(prefix="mage-cache-")
atexit.register(shutil.rmtree, os.environ["MAGE_CACHE"], ignore_errors=True)
