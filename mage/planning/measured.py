"""The measured constants of `measured.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec

from mage.planning.shapes import Shape, named_shapes

GIB = 2**30


class Learning(msgspec.Struct, frozen=True):
    """Updates of one model on one card."""

    page: str
    row: str
    case: str
    shape: str
    lora_rank: int
    compiled: bool
    tokens_per_s: float
    tflops: float
    peak_gib: float
    token_budget: int
    sample_tokens: int
    """Tokens of a sample."""
    free_tokens: int
    """Those of them that are drawn from the whole vocabulary."""

    @property
    def model(self) -> Shape:
        """The shape that was measured."""
        return named_shapes()[self.shape]

    @property
    def text(self) -> str:
        """The measurement in words."""
        return f"{self.page}: {self.row}"


class Playing(msgspec.Struct, frozen=True):
    """Trials played by one model on one card."""

    page: str
    row: str
    shape: str
    lora_rank: int
    trials: int
    choice_s: float
    text_s: float

    @property
    def parameters(self) -> int:
        return named_shapes()[self.shape].parameters

    @property
    def text(self) -> str:
        """The measurement in words."""
        return f"{self.page}: trials of rps, {self.row}"


class Played(msgspec.Struct, frozen=True):
    """The tokens of the trials of `Playing`: counts for a number of trials, and answers that are texts."""

    trials: int
    choice_tokens: int
    choice_sampled: int
    text_tokens: int
    text_sampled: int
    answers: int
    """Of a trial."""
    answer_tokens: int

    def choice(self, trials: int) -> tuple[float, float]:
        """Tokens read and sampled in so many trials with choices."""
        return self._read(trials, self.choice_tokens, self.choice_sampled), trials * self.choice_sampled / self.trials

    def text(self, trials: int) -> tuple[float, float]:
        """Tokens read and sampled in so many trials with texts."""
        return self._read(trials, self.text_tokens, self.text_sampled), trials * self.answers * self.answer_tokens

    def _read(self, trials: int, tokens: int, sampled: int) -> float:
        return trials * (tokens - sampled) / self.trials


class CpuStep(msgspec.Struct, frozen=True):
    """A step of `rps` on a CPU."""

    page: str
    trials: int
    tokens: int
    play_s: float
    update_s: float


class WorkerCost(msgspec.Struct, frozen=True):
    """What a worker adds to a trial."""

    page: str
    trial_ms: float


class TextSize(msgspec.Struct, frozen=True):
    """The bytes of a trial of `rps`."""

    trial_bytes: float


class Measured(msgspec.Struct, frozen=True):
    """All constants."""

    machine: str
    cpu: str
    learning: tuple[Learning, ...]
    playing: tuple[Playing, ...]
    played: Played
    cpu_step: CpuStep
    worker: WorkerCost
    text: TextSize

    def bytes_per_token(self, *, is_nano: bool) -> float:
        """Bytes of text in one token: of nano's words, or of a pretrained model's vocabulary."""
        step = self.cpu_step
        tokens = step.tokens / step.trials if is_nano else self.played.choice_tokens / self.played.trials
        return self.text.trial_bytes / tokens


@cache
def measured() -> Measured:
    """The constants, read once."""
    text = (resources.files("mage") / "planning" / "measured.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Measured)
