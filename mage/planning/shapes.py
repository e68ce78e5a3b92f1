"""The shape of a model without its weights: from a name, a config.json, a GGUF file, or nano's parameters.

No weights are read, and PyTorch is not loaded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec

from mage.errors import ConfigError, library_errors, listing
from mage.files import BAD_JSON
from mage.models.load import canonical_worlds, is_gguf, is_ours, nano, nano_sizes
from mage.models.vocabulary import vocabulary
from mage.spec import check_call, parse_spec

TYPES = ("llama", "mistral", "qwen2", "qwen3")
_NANO_SPECIALS = 6
"""Tokens of nano's vocabulary that are no words: padding, unknown, the end, and three roles."""
_SMOLLM2 = "smollm2-135m"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a decoder, called as in transformers."""

    name: str = ""
    source: str = ""
    """Where the sizes come from."""
    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    tie_word_embeddings: bool
    attention_bias: bool = False
    mlp_bias: bool = False

    @property
    def query_width(self) -> int:
        """Numbers of all queries of a token in a layer."""
        return self.num_attention_heads * self.head_dim

    @property
    def key_width(self) -> int:
        """Numbers of all keys of a token in a layer, and of all values."""
        return self.num_key_value_heads * self.head_dim

    @property
    def linear_layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of the linear layers of one decoder layer, by name."""
        hidden, wide = self.hidden_size, self.intermediate_size
        return {
            "q_proj": (hidden, self.query_width),
            "k_proj": (hidden, self.key_width),
            "v_proj": (hidden, self.key_width),
            "o_proj": (self.query_width, hidden),
            "gate_proj": (hidden, wide),
            "up_proj": (hidden, wide),
            "down_proj": (wide, hidden),
        }

    @property
    def layer_parameters(self) -> int:
        """Parameters of one decoder layer."""
        layers = self.linear_layers
        num = sum(num_in * num_out for num_in, num_out in layers.values()) + 2 * self.hidden_size
        biased = ["q_proj", "k_proj", "v_proj"] if self.model_type == "qwen2" or self.attention_bias else []
        biased += ["o_proj"] if self.attention_bias and self.model_type != "qwen2" else []
        biased += ["gate_proj", "up_proj", "down_proj"] if self.mlp_bias else []
        num += sum(layers[name][1] for name in biased)
        return num + (2 * self.head_dim if self.model_type == "qwen3" else 0)

    @property
    def body_parameters(self) -> int:
        """Parameters without embeddings and head."""
        return self.num_hidden_layers * self.layer_parameters + self.hidden_size

    @property
    def embedding_parameters(self) -> int:
        """Parameters of embeddings and head."""
        return self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.body_parameters + self.embedding_parameters


def shape_of(model: str, worlds: Sequence[str] = ()) -> Shape:
    """The shape of anything that `agent.model` takes, or of a name of `shapes.toml`.

    `worlds` are those of the run, whose words are the vocabulary of `nano`.
    """
    if (Path(model) / "config.json").is_file():
        return _from_config(model)
    if is_ours(model):
        return _ours(model, worlds)
    if is_gguf(model):
        return _from_gguf(model)
    named = named_shapes().get(Path(model).name.lower())
    if named is None:
        raise ConfigError(
            f"cannot plan for the model {model!r}: there is no directory of that name with a config.json; known: nano, "
            f"smollm2, FILE.gguf, a directory in Hugging Face layout, or the name of a shape: {listing(named_shapes())}"
        )
    return named


@cache
def named_shapes() -> dict[str, Shape]:
    """The shapes that have names."""
    values = tomllib.loads((resources.files("mage") / "planning" / "shapes.toml").read_text(encoding="utf-8"))
    return {name: msgspec.convert({**found, "name": name}, Shape) for name, found in values.items()}


def _ours(model: str, worlds: Sequence[str]) -> Shape:
    """The shape of a model that has a name in mage."""
    spec = parse_spec(model)
    if spec.name == "smollm2":
        return msgspec.structs.replace(named_shapes()[_SMOLLM2], name="smollm2")
    if spec.name != "nano":
        raise ConfigError(
            f"cannot plan for the model {model!r}: a plugin makes it; give --model a directory or a shape"
        )
    check_call("model", spec, nano, 1)
    given = signature(nano).bind(None, *spec.args, **spec.named)
    given.apply_defaults()
    extra, values = given.arguments["words"], dict(given.arguments)
    sizes = nano_sizes(*(values[name] for name in ("hidden", "layers", "heads", "feedforward", "context", "rope")))
    words = vocabulary(canonical_worlds(worlds), tuple(map(str, extra)))
    return Shape(
        name=model,
        source="the parameters of nano and the words of the run's worlds",
        model_type="llama",
        vocab_size=len(words) + _NANO_SPECIALS,
        hidden_size=sizes["hidden"],
        intermediate_size=sizes["feedforward"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["heads"],
        head_dim=sizes["hidden"] // sizes["heads"],
        max_position_embeddings=sizes["context"],
        tie_word_embeddings=True,
    )


class _HFConfig(msgspec.Struct):
    """The keys of a config.json that give a shape."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int = 4096
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False


def _from_config(model: str) -> Shape:
    path = Path(model) / "config.json"
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_HFConfig)
    except (OSError, *BAD_JSON) as error:
        raise ConfigError(f"cannot plan for the model {model!r}: {path} cannot be used: {error}") from None
    heads = found.num_attention_heads
    values = msgspec.structs.asdict(found)
    values["num_key_value_heads"] = found.num_key_value_heads or heads
    values["head_dim"] = found.head_dim or found.hidden_size // max(1, heads)
    return _checked(model, str(path), values)


def _from_gguf(model: str) -> Shape:
    from importlib.util import find_spec

    if find_spec("gguf") is None:
        raise ConfigError(f"the model {model!r} needs the package gguf to be read: pip install gguf")
    if not Path(model).is_file():
        raise ConfigError(f"cannot plan for the model {model!r}: there is no such file")
    from gguf import GGUFReader

    from mage.models.gguf_fields import sizes

    with library_errors(lambda why: ConfigError(f"cannot use {model} as a model: {why}")):
        values = sizes(GGUFReader(model))
    return _checked(model, model, values)


def _checked(model: str, source: str, values: dict[str, Any]) -> Shape:
    if values["model_type"] not in TYPES:
        raise ConfigError(
            f"cannot plan for the model {model!r}: its type is {values['model_type']}; known: {listing(TYPES)}"
        )
    return Shape(name=model, source=source, **values)
