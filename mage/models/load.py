"""Loads models: `nano` and `smollm2` by name, a directory in Hugging Face layout, or a name on the hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mage.agents.chat_format import TemplateFormat
from mage.errors import ConfigError, listing
from mage.extras import require
from mage.models import SMOLLM2
from mage.models.address import refuse_remote
from mage.spec import call_with, parse_spec, whole

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    Built = tuple[Any, PreTrainedTokenizerFast]

DTYPES = ("float32", "bfloat16", "float16")
_HUB_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?\Z")
_HUB_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model, ready to be trained or served."""

    name: str
    model: Any
    """A causal language model of transformers, in evaluation mode."""
    tokenizer: PreTrainedTokenizerFast
    chat_format: TemplateFormat

    def save(self, folder: Path) -> None:
        """Write model, tokenizer and chat template in Hugging Face layout."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def nano(
    seed: int,
    hidden: int = 64,
    layers: int = 2,
    heads: int = 4,
    feedforward: int | None = None,
    context: int = 1024,
    words: tuple[object, ...] = (),
    rope: int = 10000,
) -> Built:
    """A tiny Llama (0.1M parameters) that knows the words of the games; random weights fixed by the seed."""
    from mage.models.nano import build_model, build_tokenizer

    if not isinstance(words, tuple):
        raise ConfigError(f"words of nano must be a list, such as [hawk,dove], not {words}")
    sizes = {
        "hidden": whole("hidden", hidden, 2, 4096),
        "layers": whole("layers", layers, 1, 64),
        "heads": whole("heads", heads, 1, 64),
        "feedforward": whole("feedforward", 2 * hidden if feedforward is None else feedforward, 1, 16384),
        "context": whole("context", context, 16, 65536),
        "rope": whole("rope", rope, 2, 1_000_000),
    }
    tokenizer = build_tokenizer(tuple(map(str, words)))
    return build_model(tokenizer, seed=seed, **sizes), tokenizer


def smollm2(seed: int) -> Built:
    """SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1); the extra smollm2 has the weights."""
    from mage.models.smollm2 import converted

    return _read(str(converted()))


MODELS: Mapping[str, Callable[..., Built]] = {"nano": nano, "smollm2": smollm2}
"""Models of our own, by name. Parameters after the seed may be given in a spec."""
_RANDOM = frozenset({"nano"})


def load_model(name: str, *, seed: int = 0, dtype: str = "float32", device: str = "cpu") -> LoadedModel:
    """Load a model by name. `seed` is for models with random weights."""
    refuse_remote(name)
    require("train", f"the model {name!r} needs")
    if dtype not in DTYPES:
        raise ConfigError(f"unknown dtype {dtype!r}; known: {listing(DTYPES)}")
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model, tokenizer = _built(name, seed)
    model = model.to(dtype=getattr(torch, dtype), device=torch.device(device)).eval()
    return LoadedModel(name, model, tokenizer, TemplateFormat(tokenizer))


def describe_model(name: str) -> str:
    """The name of a model with what it is, for tables and model cards.

    >>> describe_model("smollm2"), describe_model("nano(hidden=32)")
    ('smollm2 (SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1))', 'nano(hidden=32)')
    """
    return f"smollm2 ({SMOLLM2})" if is_ours(name) and parse_spec(name).name == "smollm2" else name


def is_ours(name: str) -> bool:
    """Whether a model is one of `MODELS`, rather than a directory or a name on the hub."""
    return not (Path(name) / "config.json").is_file() and re.split(r"[(:]", name.strip(), maxsplit=1)[0] in MODELS


def is_random(name: str) -> bool:
    """Whether a model starts from random weights, fixed by the seed."""
    return is_ours(name) and parse_spec(name).name in _RANDOM


def base_directory(name: str) -> str | None:
    """The directory or hub name of a model's initial weights; None if they are random."""
    if is_random(name):
        return None
    if is_ours(name):
        from mage.models.smollm2 import converted

        return str(converted().resolve())
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def _built(name: str, seed: int) -> Built:
    if (Path(name) / "config.json").is_file():
        return _read(name)
    if is_ours(name):
        spec = parse_spec(name)
        built: Built = call_with("model", spec, MODELS[spec.name], seed)
        return built
    if Path(name).is_dir():
        raise ConfigError(f"the directory {name!r} holds no model: it has no config.json")
    if not _HUB_NAME.match(name):
        raise ConfigError(f"unknown model {name!r}; {_KNOWN}")
    return _read(name)


_KNOWN = f"known: {listing(MODELS)}, a directory in Hugging Face layout, or a name on the hub such as org/name"


def _read(name: str) -> Built:
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    is_local = Path(name).is_dir() or not _hub_answers()
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name, local_files_only=is_local)
        model: Any = AutoModelForCausalLM.from_pretrained(name, dtype="float32", local_files_only=is_local)
    except (OSError, ValueError) as error:
        why = "the hub cannot be reached" if is_local and not Path(name).is_dir() else _first_line(error)
        raise ConfigError(f"cannot load the model {name!r}: {why}; {_KNOWN}") from None
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ConfigError(f"the model {name!r} has no fast tokenizer (tokenizer.json), which mage needs")
    return model, tokenizer


def _hub_answers() -> bool:
    """Whether the hub is reachable. One request: transformers would retry for a minute. If not, its cache is used."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        with urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=_HUB_TIMEOUT_S):
            return True
    except HTTPError:
        return True
    except OSError:
        return False


def _first_line(error: Exception) -> str:
    """The first line of an error of transformers."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".:")
