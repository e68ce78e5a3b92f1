"""`FILE.gguf` as a model: converted once to Hugging Face layout, float32, in the user's cache.

Numbers that were rounded to a few bits stay what this rounding left: what the model scores is not what the published
model scores.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import msgspec
from safetensors.torch import save_file
from transformers import GenerationConfig

from mage.cache import cache_directory
from mage.errors import ConfigError, library_errors
from mage.files import BAD_JSON
from mage.models.gguf_tokenizer import build_tokenizer
from mage.models.gguf_weights import model_config, model_weights

_CONVERTER = 1
"""Version of this converter: raise it when its output changes."""
_MARKER = "converted.json"


class Conversion(msgspec.Struct, frozen=True):
    """The marker of a complete conversion, written last."""

    source: str
    sha256: str
    converter: int
    num_bytes: int


def converted_file(source: Path) -> Path:
    """The directory of a GGUF file in Hugging Face layout; converted now if its content is not in the cache."""
    need_reader(f"the model {str(source)!r}")
    sha256 = hash_of(source)
    folder = cache_directory() / "models" / f"gguf-{sha256[:16]}"
    return kept_in(folder, source.name, sha256, lambda scratch: convert(source, scratch, _card(source, sha256)))


def need_reader(what: str, install: str = "pip install gguf") -> None:
    """Raise a ConfigError where the package that reads such files is missing."""
    if find_spec("gguf") is None:
        raise ConfigError(f"{what} needs the package gguf to be read: {install}")


def hash_of(source: Path) -> str:
    """The SHA-256 of a file."""
    try:
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror or error}") from None


def kept_in(folder: Path, name: str, sha256: str, write: Callable[[Path], None]) -> Path:
    """A directory of the cache that `write` fills, once, from a file with this name and hash."""
    if is_ready(folder, sha256):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f".{folder.name}.lock")):
            if not is_ready(folder, sha256):  # another process may have made it meanwhile
                _write_in_place(folder, name, sha256, write)
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(
            f"cannot write {folder.name} to {folder}: {why}; MAGE_CACHE names another place for caches"
        ) from None
    return folder


def is_ready(folder: Path, sha256: str) -> bool:
    """Whether a directory holds a complete conversion of this file by this version of the converter."""
    try:
        marker = msgspec.json.decode((folder / _MARKER).read_bytes(), type=Conversion)
        num_bytes = (folder / "model.safetensors").stat().st_size
    except (OSError, *BAD_JSON):
        return False
    return (marker.sha256, marker.converter, marker.num_bytes) == (sha256, _CONVERTER, num_bytes)


def convert(source: Path, folder: Path, card: str) -> None:
    """Write a GGUF file to a directory in Hugging Face layout, float32; a ConfigError where it cannot be used."""
    from gguf import GGUFReader

    def refused(why: str) -> ConfigError:
        return ConfigError(f"cannot use {source} as a model: {why}")

    with library_errors(refused):
        try:
            reader = GGUFReader(str(source))
            tokenizer, end = build_tokenizer(reader)
            config = model_config(reader, end)
            weights = model_weights(reader, config)
        except ConfigError as error:
            raise refused(str(error)) from None
    config.save_pretrained(folder)
    generation = GenerationConfig(bos_token_id=config.bos_token_id, eos_token_id=end, pad_token_id=end)  # type: ignore[no-untyped-call]
    generation.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "README.md").write_text(card, encoding="utf-8")


def _card(source: Path, sha256: str) -> str:
    return (
        f"---\nlibrary_name: transformers\n---\n\n# {source.stem}\n\nConverted by mage from `{source.name}` (SHA-256 "
        f"{sha256}). Rounded weights are kept as the\nfloat32 numbers that this rounding left.\n"
    )


def _write_in_place(folder: Path, name: str, sha256: str, write: Callable[[Path], None]) -> None:
    """Write to a scratch directory and rename it to `folder`; leftovers of a killed process are removed first."""
    scratch = folder.with_name(f".{folder.name}.converting")
    for leftover in (scratch, folder):
        if leftover.exists():
            shutil.rmtree(leftover)
    scratch.mkdir()
    write(scratch)
    num_bytes = (scratch / "model.safetensors").stat().st_size
    marker = Conversion(name, sha256, _CONVERTER, num_bytes)
    (scratch / _MARKER).write_bytes(msgspec.json.encode(marker))
    scratch.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock; it is released if the process dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
