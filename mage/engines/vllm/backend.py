"""The protocol of vLLM's two forms, in this process and behind HTTP: requests, and loading weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from mage.engines.vllm.requests import VllmAnswer, VllmRequest
from mage.weights import Tensor


class LoadedAdapter(NamedTuple):
    """An adapter (LoRA) as it was published once; another publication of the same policy is another one."""

    name: str
    folder: Path
    """Its files, which stay while it is served: vLLM may read them again."""


class Backend(Protocol):
    """A running vLLM."""

    @property
    def length(self) -> int:
        """Most tokens of a prompt with its answer."""

    async def generate(self, request: VllmRequest) -> VllmAnswer: ...

    async def generate_on_each(self, request: VllmRequest) -> Mapping[str, VllmAnswer]:
        """The answer of each vLLM there is, by what it is called: a publication is checked on all of them."""

    async def load_model(self, weights: Mapping[str, Tensor]) -> None:
        """Replace all weights of the model; no request is in flight."""

    async def load_adapter(self, adapter: LoadedAdapter) -> None: ...

    async def drop_adapter(self, adapter: LoadedAdapter) -> None: ...
