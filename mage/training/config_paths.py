"""Paths in a config, of models, adapters and splits: recorded as absolute ones, so that a run goes on from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mage.config.load import replaced
from mage.config.schema import Config
from mage.errors import ConfigError
from mage.evaluation.splits import is_path
from mage.models.load import is_gguf, is_ours

MODEL = "agent.model"


def is_model_path(name: str) -> bool:
    """Whether a model is named by a path: a GGUF file, or a directory that holds a model.

    >>> is_model_path("models/small.gguf"), is_model_path("nano"), is_model_path("org/name")
    (True, False, False)
    """
    return (Path(name) / "config.json").is_file() or (is_gguf(name) and not is_ours(name))


def model_label(name: str) -> str:
    """The name of a model in trials and tables: of a path its last part.

    >>> model_label("/models/small.gguf"), model_label("nano(heads=2)"), model_label("org/name")
    ('small.gguf', 'nano(heads=2)', 'org/name')
    """
    return Path(name).name or name if is_model_path(name) else name


def with_absolute_paths(config: Config) -> Config:
    """The config that is recorded: what it names by a path is found from any working directory.

    Links are kept: the name of the file that a link leads to may have another ending.
    """
    model, adapter = config.agent.model, config.learner.lora_init
    values = {
        MODEL: _absolute(model) if is_model_path(model) else model,
        "learner.lora_init": _absolute(adapter) if adapter else "",
        "population.split": _split(config.population.split),
        "evaluation.splits": list(map(_split, config.evaluation.splits)),
    }
    return replaced(config, values, "config")


def absolute_values(values: Mapping[str, object]) -> dict[str, object]:
    """Settings by their dotted keys, with the path of a model made absolute."""
    name = values.get(MODEL)
    return {**values, MODEL: _absolute(name)} if isinstance(name, str) and is_model_path(name) else {**values}


def is_moved(old: object, new: object) -> bool:
    """Whether a model's new name is the path of what has the old one's last name: the same model at another place.

    >>> is_moved("small.gguf", "/models/small.gguf"), is_moved("small.gguf", "/models/large.gguf")
    (True, False)
    """
    before, after = str(old), str(new)
    return Path(before).name == Path(after).name and is_model_path(after) and not is_ours(before)


def check_model_is_there(config: Config) -> None:
    """Raise a ConfigError where the file or directory of the model that a run was trained from is gone."""
    name = config.agent.model
    if (Path(name).is_absolute() or is_model_path(name)) and not Path(name).exists():
        raise ConfigError(
            f"{MODEL} = {name}: there is no such file or directory; put the model or a link to it there, or name the "
            f"place where it is now, as in {MODEL}=/models/{Path(name).name}"
        )


def _split(name: str) -> str:
    return _absolute(name) if is_path(name) else name


def _absolute(path: str) -> str:
    return str(Path(path).absolute())
