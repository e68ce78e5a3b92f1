"""Shared by all tests: no test writes outside its own folders."""

from __future__ import annotations

import os
import tempfile

os.environ["MAGE_CACHE"] = tempfile.mkdtemp(prefix="mage-cache-")
