"""Loads models: `nano`, `smollm2` and registered ones by name, FILE.gguf, a Hugging Face directory, or a hub name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mage.agents.chat_format import TemplateFormat
from mage.errors import ConfigError, did_you_mean, library_errors, listing
from mage.extras import require
from mage.models import SMOLLM2
from mage.models.address import refuse_remote
from mage.models.device import with_dtype
from mage.models.mistaken_paths import held_instead
from mage.models.vocabulary import actions_of
from mage.plugin_errors import plugin_errors
from mage.registry import Registry
from mage.spec import call_with, parse_spec, whole
from mage.worlds.registry import normal_world

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    Built = tuple[Any, PreTrainedTokenizerFast]

DTYPES = ("float32", "bfloat16", "float16")
_HUB_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?\Z")
_HUB_TIMEOUT_S = 10.0
_SHOWN = 4
"""Unknown words that an error names."""


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


class ModelRequest(NamedTuple):
    """What a model is loaded for; the first argument of every loader."""

    seed: int = 0
    """For models with random weights."""
    dtype: str = "float32"
    device: str = "cpu"
    worlds: tuple[str, ...] = ()
    """Specs of the worlds that will be played, for models whose vocabulary is made from their words."""
    tokenizer: Path | None = None
    """The directory of a tokenizer to use in place of a new one: that of a run that goes on."""


def nano_sizes(
    hidden: int, layers: int, heads: int, feedforward: int | None, context: int, rope: int
) -> dict[str, int]:
    """The sizes of a `nano`, or a ConfigError for one that cannot be."""
    return {
        "hidden": whole("hidden", hidden, 2, 4096),
        "layers": whole("layers", layers, 1, 64),
        "heads": whole("heads", heads, 1, 64),
        "feedforward": whole("feedforward", 2 * hidden if feedforward is None else feedforward, 1, 16384),
        "context": whole("context", context, 16, 65536),
        "rope": whole("rope", rope, 2, 1_000_000),
    }


def nano(
    request: ModelRequest,
    hidden: int = 64,
    layers: int = 2,
    heads: int = 4,
    feedforward: int | None = None,
    context: int = 1024,
    words: tuple[object, ...] = (),
    rope: int = 10000,
) -> Built:
    """A tiny Llama (0.1M parameters) that knows the words of the run's worlds; random weights fixed by the seed."""
    from mage.models.nano import build_model, build_tokenizer, read_tokenizer

    if not isinstance(words, tuple):
        raise ConfigError(f"words of nano must be a list, such as [hawk,dove], not {words}")
    sizes = nano_sizes(hidden, layers, heads, feedforward, context, rope)
    stored = request.tokenizer
    tokenizer = build_tokenizer(request.worlds, tuple(map(str, words))) if stored is None else read_tokenizer(stored)
    return build_model(tokenizer, seed=request.seed, **sizes), tokenizer


def smollm2(request: ModelRequest) -> Built:
    """SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1); the extra smollm2 has the weights."""
    from mage.models.smollm2 import converted

    return _read(str(converted()))


Loader: TypeAlias = "Callable[..., Built | LoadedModel]"
"""`loader(request, …parameters)` returns a model and its tokenizer, or a `LoadedModel`. A spec gives the parameters."""


def _loader(given: object) -> Loader:
    if not callable(given):
        raise TypeError(f"a model is registered by a function loader(request, …), not by {given!r}")
    return given


MODELS: Registry[Loader] = Registry("model", {"nano": nano, "smollm2": smollm2}, _loader, lambda _: False)
"""Loaders of models by name, plugins included."""


def load_model(
    name: str,
    *,
    seed: int = 0,
    dtype: str = "float32",
    device: str = "cpu",
    worlds: Sequence[str] = (),
    tokenizer: Path | None = None,
) -> LoadedModel:
    """Load a model by name, in evaluation mode.

    `seed` is for models with random weights. `worlds` are those that will be played: the vocabulary of `nano` has their
    words, unless a stored `tokenizer` is given.
    """
    refuse_remote(name)
    require("train", f"the model {name!r} needs")
    if dtype not in DTYPES:
        raise ConfigError(f"unknown dtype {dtype!r}; known: {listing(DTYPES)}")
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    built = _built(name, ModelRequest(seed, dtype, device, canonical_worlds(worlds), tokenizer))
    if not isinstance(built, LoadedModel):
        model, own = built
        built = LoadedModel(name, model, own, _chat_format(name, own))
    placed = with_dtype(built.model, getattr(torch, dtype)).to(device=torch.device(device)).eval()
    return replace(built, name=name, model=placed)


def _chat_format(name: str, tokenizer: PreTrainedTokenizerFast) -> TemplateFormat:
    """The chat format of a tokenizer, or a ConfigError that names the model."""
    with library_errors(lambda why: ConfigError(f"{name}: the tokenizer cannot be used: {why}")):
        try:
            return TemplateFormat(tokenizer)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None


def canonical_worlds(worlds: Iterable[str]) -> tuple[str, ...]:
    """World specs as they are compared: in canonical form, sorted and each once.

    >>> canonical_worlds(["rps( rounds=3 )", "pd", "pd"])
    ('pd', 'rps(rounds=3)')
    """
    return tuple(sorted({str(parse_spec(world)) for world in worlds}))


def check_words(loaded: LoadedModel, world: str) -> None:
    """Raise a ConfigError where a model whose words were taken from other worlds cannot name the actions of a world.

    Other words that it does not know are read as unknown.
    """
    from mage.models.nano import WORLDS_KEY

    known = loaded.tokenizer.init_kwargs.get(WORLDS_KEY)
    if not isinstance(known, list) or normal_world(world) in map(normal_world, map(str, known)):
        return
    unknown = [
        action
        for action in actions_of(world)
        if loaded.tokenizer.unk_token_id in loaded.tokenizer.encode(action, add_special_tokens=False)
    ]
    if unknown:
        shown = ", ".join(map(repr, unknown[:_SHOWN])) + (", …" if len(unknown) > _SHOWN else "")
        given = ", ".join([*_given_words(loaded.name), *unknown[:_SHOWN]]) + (", …" if len(unknown) > _SHOWN else "")
        raise ConfigError(
            f"{loaded.name} has no words for {shown}, which are actions of {world}: it was made for "
            f"{', '.join(map(str, known)) or 'no world'}. Words are given when it is trained: with {world} as world or "
            f"in a split, or by name, as in 'agent.model={parse_spec(loaded.name).name}(words=[{given}])'"
        )


def _given_words(model: str) -> list[str]:
    """The words in a model's spec; none where its name is a path."""
    try:
        return [str(word) for word in parse_spec(model).named.get("words", ())]
    except ConfigError:
        return []


def describe_model(name: str) -> str:
    """The name of a model with what it is, for tables and model cards.

    >>> describe_model("smollm2"), describe_model("nano(hidden=32)")
    ('smollm2 (SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1))', 'nano(hidden=32)')
    """
    return f"smollm2 ({SMOLLM2})" if is_ours(name) and parse_spec(name).name == "smollm2" else name


def is_ours(name: str) -> bool:
    """Whether a model is one of `MODELS` by name, rather than a directory or a name on the hub."""
    return not (Path(name) / "config.json").is_file() and re.split(r"[(:]", name.strip(), maxsplit=1)[0] in MODELS


def is_random(name: str) -> bool:
    """Whether a model's weights are made anew in each process and may depend on the seed."""
    return is_ours(name) and parse_spec(name).name != "smollm2"


def base_directory(name: str) -> str | None:
    """The directory or hub name of a model's initial weights; None if they are made anew in each process."""
    if is_random(name):
        return None
    if is_ours(name):
        from mage.models.smollm2 import converted

        return str(converted().resolve())
    if is_gguf(name):
        from mage.models.gguf_file import converted_file

        return str(converted_file(Path(name)).resolve())
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def is_gguf(name: str) -> bool:
    """Whether a model is named by a GGUF file."""
    return name.endswith(".gguf")


def _built(name: str, request: ModelRequest) -> Built | LoadedModel:
    if (Path(name) / "config.json").is_file():
        return _read(name)
    if is_ours(name):
        spec = parse_spec(name)
        with plugin_errors(f"the loader of model {spec.name!r}", ConfigError):
            return _checked(spec.name, call_with("model", spec, MODELS[spec.name], request))
    if is_gguf(name):
        directory = base_directory(name)
        assert directory is not None
        return _read(directory)
    if Path(name).is_dir():
        raise ConfigError(f"the directory {name!r} holds {held_instead(Path(name))}")
    if not _HUB_NAME.match(name):
        raise ConfigError(f"unknown model {name!r}; {_known(name)}")
    return _read(name)


def _checked(name: str, built: object) -> Built | LoadedModel:
    """What a loader returned, or a ConfigError where it is neither a model with a tokenizer nor a LoadedModel."""
    from transformers import PreTrainedTokenizerFast

    if isinstance(built, LoadedModel):
        return built
    if not (isinstance(built, tuple) and len(built) == 2 and isinstance(built[1], PreTrainedTokenizerFast)):
        raise ConfigError(f"the loader of the model {name!r} must return (model, fast tokenizer) or a LoadedModel")
    return built


def _known(name: str) -> str:
    others = "FILE.gguf, a directory in Hugging Face layout, or a name on the hub such as org/name"
    return f"{did_you_mean(name, MODELS)}known: {listing(MODELS)}, {others}"


def _read(name: str) -> Built:
    """Load from a directory or the hub. No code that comes with a model is run, and nothing is unpickled."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    is_local = Path(name).is_dir() or not _hub_answers()
    safe: dict[str, Any] = {"local_files_only": is_local, "trust_remote_code": False}

    def refused(why: str) -> ConfigError:
        said = "the hub cannot be reached" if is_local and not Path(name).is_dir() else why
        return ConfigError(f"cannot load the model {name!r}: {said}; {_known(name)}")

    with library_errors(refused), _silence():
        if Path(name).is_dir():
            _check_layers(Path(name))
        tokenizer: Any = AutoTokenizer.from_pretrained(name, **safe)
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise ConfigError(f"the model {name!r} has no fast tokenizer (tokenizer.json), which mage needs")
        options: dict[str, Any] = {
            "use_safetensors": True,
            "output_loading_info": True,
            "ignore_mismatched_sizes": True,  # refused below, in a line
        }
        loaded: Any = AutoModelForCausalLM.from_pretrained(name, dtype="float32", **options, **safe)
        model, found = loaded
        if found["missing_keys"] or found["mismatched_keys"]:
            first = min([*found["missing_keys"], *(key for key, *_ in found["mismatched_keys"])])
            raise refused(f"the weights {first} are missing or have another shape than config.json says")
        num_ids, num_rows = max(tokenizer.get_vocab().values()) + 1, model.get_input_embeddings().num_embeddings
        if num_ids > num_rows:
            raise refused(f"its tokenizer has {num_ids} ids and its weights have {num_rows}")
    return model, tokenizer


@contextmanager
def _silence() -> Iterator[None]:
    """Keep transformers from printing a table about weights that do not fit: an error says it in a line."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _check_layers(folder: Path) -> None:
    """Raise a ConfigError where a config has more layers than there are weights, before transformers makes them."""
    from safetensors import safe_open
    from transformers import AutoConfig

    num = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            num += len(file.keys())
    layers = getattr(AutoConfig.from_pretrained(folder, trust_remote_code=False), "num_hidden_layers", 0)
    if num and layers > num:
        raise ConfigError(f"cannot load the model {str(folder)!r}: config.json has {layers} layers and {num} weights")


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
