"""Export a run's weights to a Hugging Face directory that transformers, PEFT and vLLM load."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from safetensors import safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer

from mage.config.schema import Config
from mage.errors import ConfigError, RecordError, library_errors
from mage.extras import require
from mage.files import CHECKSUMS
from mage.learners.lora_init import ADAPTER_FILE
from mage.learners.state_files import OPTIMIZER
from mage.models.load import base_directory, describe_model, load_model
from mage.models.mistaken_paths import ADAPTER_CONFIG
from mage.training.checkpoint import AHEAD, checkpoint_path, checkpoints, read_state
from mage.training.model_card import model_card
from mage.training.resume_changes import config_of

_OURS = (OPTIMIZER, "state.json", AHEAD, CHECKSUMS, "README.md")
"""Files of a checkpoint that are not copied: the training state, and the card, which is written anew. No folder is."""

_LOAD_WHOLE = """
## Load it

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("DIRECTORY")
tokenizer = AutoTokenizer.from_pretrained("DIRECTORY")
```
"""
_LOAD_ADAPTER = """
## Load it

This is an adapter (LoRA); the model that it belongs to is {base}.

```python
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer

model = AutoPeftModelForCausalLM.from_pretrained("DIRECTORY")
tokenizer = AutoTokenizer.from_pretrained("DIRECTORY")
```
"""


def export_model(run: Path, folder: Path, *, step: int | None = None, best: bool = False, merge: bool = False) -> int:
    """Write the weights of a run to a new directory and return their step.

    By default those of the newest checkpoint, else of `step`, else of the `best` evaluation during training. For a run
    with an adapter this is the adapter, or with `merge` the model with the adapter merged into it.
    """
    config = config_of(run)
    checkpoint = _chosen(run, step, best)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise RecordError(f"{folder} is not empty; name a new directory for the model")
    scratch = folder.with_name(f".{folder.name}.writing")
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        loading = _write(config, checkpoint, scratch, folder, merge)
        found = read_state(checkpoint).step
        card = model_card(config, found, config.agent.model, merged=merge) + loading
        (scratch / "README.md").write_text(card, encoding="utf-8")
        scratch.rename(folder)
    except OSError as error:
        raise RecordError(f"cannot write to {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return found


def _chosen(run: Path, step: int | None, best: bool) -> Path:
    """The checkpoint of a step, the best, or the newest one."""
    saved = checkpoints(run / "checkpoints")
    if not saved:
        raise RecordError(f"{run} has no checkpoint yet")
    if step is not None and best:
        raise ConfigError("give a step or ask for the best, and not both")
    if best:
        found = read_state(saved[-1]).best
        if found is None:
            raise RecordError(f"{run} was never evaluated while it trained, so none is best; set evaluation.every")
        step = found[1]
    path = saved[-1] if step is None else checkpoint_path(run / "checkpoints", step)
    if path not in saved:
        steps = ", ".join(str(read_state(known).step) for known in saved)
        raise RecordError(f"{run} has no checkpoint of step {step}; it has {steps}")
    return path


def _write(config: Config, checkpoint: Path, scratch: Path, folder: Path, merge: bool) -> str:
    """Write all files but the card; return the card's section about loading."""
    if (checkpoint / ADAPTER_CONFIG).is_file() and merge:
        _write_merged(config, checkpoint, scratch)
        return _LOAD_WHOLE
    _check_readable(checkpoint)
    for path in checkpoint.iterdir():
        if path.is_file() and path.name not in _OURS:
            shutil.copyfile(path, scratch / path.name)
    if not (checkpoint / ADAPTER_CONFIG).is_file():
        return _LOAD_WHOLE
    base = _base(config, checkpoint, scratch, folder)
    settings = msgspec.json.decode((scratch / ADAPTER_CONFIG).read_bytes(), type=dict[str, Any])
    settings["base_model_name_or_path"] = base
    (scratch / ADAPTER_CONFIG).write_bytes(msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n")
    return _LOAD_ADAPTER.format(base=f"{describe_model(config.agent.model)}, expected in `{base}`")


def _check_readable(checkpoint: Path) -> None:
    """Raise a RecordError where a file to be copied is no JSON object, no tokenizer or no safetensors file."""
    for path in sorted(checkpoint.iterdir()):
        with library_errors(partial(_unreadable, path)):
            if path.name == "tokenizer.json":
                Tokenizer.from_file(str(path))
            elif path.suffix == ".json" and path.name not in _OURS:
                msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            elif path.suffix == ".safetensors" and path.name not in _OURS:
                with safe_open(path, framework="pt"):
                    pass


def _unreadable(path: Path, why: str) -> RecordError:
    return RecordError(f"{path} cannot be read: {why}")


def _base(config: Config, checkpoint: Path, scratch: Path, folder: Path) -> str:
    """The directory of an adapter's base model; randomly initialised weights are written next to the adapter."""
    found = base_directory(config.agent.model)
    if found is None:
        load_model(config.agent.model, seed=config.seed, tokenizer=checkpoint).save(scratch / "base")
        found = str(folder.resolve() / "base")
    return found


def _write_merged(config: Config, checkpoint: Path, scratch: Path) -> None:
    """Merge in float32 and round to the run's dtype, as for its engine."""
    require("lora", "merging an adapter needs")
    from peft import PeftModel

    _check_readable(checkpoint)
    with library_errors(partial(_unreadable, checkpoint / ADAPTER_FILE)):
        dtype = next(iter(load_file(checkpoint / ADAPTER_FILE).values())).dtype
        kind = str(dtype).removeprefix("torch.")
        loaded = load_model(config.agent.model, seed=config.seed, dtype=kind, tokenizer=checkpoint)
        adapted: Any = PeftModel.from_pretrained(loaded.model.float(), checkpoint)
        merged = adapted.merge_and_unload().to(dtype)
    merged.save_pretrained(scratch)
    loaded.tokenizer.save_pretrained(scratch)
