"""The tiny model: its words, its weights, and the door all models come through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mage.agents.briefing import Briefing
from mage.agents.chat_format import TemplateFormat
from mage.agents.messages import episode_heading, outcome_message, reflect_message, system_message, turn_message
from mage.checks.engines import LOOKALIKES
from mage.errors import ConfigError
from mage.models.load import MODELS, load_model
from mage.models.nano import WORLDS_KEY, build_tokenizer
from mage.models.vocabulary import actions_of, vocabulary, words_of
from mage.seeds import stream
from mage.types import REFLECT_REQUEST, Memory, Observation, ReplyMode, Task
from mage.worlds.openspiel.game import OpenSpielEnv, load_game
from mage.worlds.openspiel.words.base import NEUTRAL
from mage.worlds.registry import load_world
from tests.solo_worlds import HiddenNumber, Shop

GAMES = (
    "rps(rounds=7)",
    "rps(reworded=11)",
    "pd",
    "pennies(reworded=3)",
    "matrix([[2,0],[0,1]],columns=[[1,0],[0,2]],rounds=2)",
    "kuhn_poker",
    "kuhn_poker(players=3)",
    "kuhn_poker(reworded=9)",
    "tic_tac_toe",
    "tic_tac_toe(reworded=4)",
)


def told(spec: str, play: int) -> list[tuple[str, tuple[str, ...]]]:
    """All that is said in one game of random moves, with the actions that may be answered."""
    game = load_game(spec)
    task = Task(spec, ("uniform",) * (game.num_seats - 1), 0, play, 12, False, False, 1000)
    env, rng = OpenSpielEnv(game, task, 11), stream(play, "test", spec)
    said: list[tuple[str, tuple[str, ...]]] = []
    for memory in Memory:
        system = system_message(Briefing(game.words.rules(play % game.num_seats)), 12, memory, ReplyMode.CHOICE)
        said += [(system, ()), (episode_heading(11, 12, memory), ())]
    while (seat := env.to_move()) is not None:
        observation = env.observe(seat)
        said.append((turn_message(observation, ()), observation.actions))
        env.step(rng.choice(observation.actions))
    for seat, text in enumerate(env.result().outcomes):
        outcome = Observation(seat, 11, 0, text, (), (), "", {})
        said += [(outcome_message(outcome), ()), (reflect_message(outcome, REFLECT_REQUEST), ())]
    return said


@pytest.mark.parametrize("spec", GAMES)
def test_nano_knows_every_word_of_the_games(spec: str) -> None:
    tokenizer = build_tokenizer((spec,))
    chat_format = TemplateFormat(tokenizer)
    for play in range(20):
        for text, actions in told(spec, play):
            assert tokenizer.unk_token_id not in chat_format.user(text), text
            for action in actions:
                ids = chat_format.choice(action)
                assert len(ids) == 2, f"{action!r} should be one token"
                assert chat_format.decode(ids) == action


def test_the_vocabulary_is_sorted_and_the_same_every_time() -> None:
    words = vocabulary(("rps",))
    vocabulary.cache_clear()
    assert vocabulary(("rps",)) == words == tuple(sorted(set(words)))
    assert {*"0123456789", "+", "-", "<action>", "</action>", "rock", "Round"} <= set(words)
    assert not {"bet", "king", "X", *NEUTRAL} & set(words)
    assert len(words) < 200
    assert {*words} < {*vocabulary(("kuhn_poker", "rps"))}


def test_the_vocabulary_is_the_same_in_every_process() -> None:
    code = """
from mage.models.vocabulary import actions_of, vocabulary, words_of
from tests.solo_worlds import HiddenNumber
print(hash("a"))
print(*vocabulary(("kuhn_poker", "rps(reworded=3)", "test-number", "test-shop")))
"""
    said = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        said.append(done.stdout.splitlines())
    assert said[0][0] != said[1][0], "texts are hashed otherwise"
    assert said[0][1] == said[1][1]


def test_a_world_of_any_kind_gives_its_words_and_its_own_sentences() -> None:
    for spec, kind in (("test-number", HiddenNumber), ("test-shop", Shop)):
        info = load_world(spec).info
        known = set(vocabulary((spec,)))
        assert {*words_of(info.trial.replace("{episodes}", "3")), *words_of(info.reflect)} <= known
        assert {*words_of(kind().explain())} <= known
    assert set(actions_of("test-number")) <= set(vocabulary(("test-number",)))
    assert actions_of("test-shop") == []


def test_numbers_are_one_token_where_games_say_them_and_digits_elsewhere() -> None:
    chat_format = TemplateFormat(build_tokenizer(("rps",)))
    read = [chat_format.decode((token,)) for token in chat_format.user("+0.33 -1 +0.77 12 0.")[1:-1]]
    assert read == ["+0.33", "-1", "+", "0", ".", "7", "7", "1", "2", "0"]


def test_marks_that_close_a_clause_cost_nothing_and_empty_cells_are_kept() -> None:
    chat_format = TemplateFormat(build_tokenizer(("rps", "tic_tac_toe")))
    assert chat_format.user("You won: +1.\n\nRound 2, of 3.") == chat_format.user("You won +1 Round 2 of 3")
    board = chat_format.user("  a b c\n1 . X .\n2 . . .\n3 O . .")
    assert len(board) == 2 + 3 + 12


def test_a_tagged_action_can_be_written() -> None:
    chat_format = TemplateFormat(build_tokenizer(("rps",)))
    assert chat_format.decode(chat_format.user("Think. <action>rock</action>")) == "Think <action> rock </action>"


def test_no_text_becomes_a_control_token_and_words_read_back() -> None:
    tokenizer = build_tokenizer(("rps", "kuhn_poker", "tic_tac_toe"))
    control = [i for i in tokenizer.added_tokens_decoder if i != tokenizer.unk_token_id]
    chat_format = TemplateFormat(tokenizer)
    for text in LOOKALIKES:
        assert not {*control} & {*chat_format.user(text)[1:-1]}, f"{text!r} opens or ends a turn"
    for text in ("rock", "bet 2", "tic-tac-toe", "+0.33", "you play rock"):
        assert chat_format.decode(chat_format.choice(text)) == text


def test_extra_words_can_be_given() -> None:
    chat_format = load_model("nano(hidden=16,heads=2,words=[hawk,20])", worlds=["kuhn_poker"]).chat_format
    for action in ("hawk", "bet 20"):
        assert chat_format.decode(chat_format.choice(action)) == action


def test_the_seed_alone_fixes_the_weights() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, two, other = (load_model("nano", seed=seed, worlds=["rps"]).model.state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before), "the process's own generator was used"
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_sizes_are_parameters() -> None:
    sizes = "nano(hidden=32,layers=1,heads=2,context=256)"
    default, small = (load_model(name, worlds=["rps"]) for name in ("nano", sizes))
    assert 80_000 < default.model.num_parameters() < 130_000
    assert small.model.num_parameters() < 30_000
    assert small.model.config.max_position_embeddings == 256
    assert default.model.get_input_embeddings().weight is default.model.get_output_embeddings().weight


def test_the_first_policy_is_close_to_uniform() -> None:
    loaded = load_model("nano", seed=3, worlds=["rps"])
    ids = torch.tensor(
        [loaded.chat_format.opening("The game is rock-paper-scissors.") + loaded.chat_format.user("Round 1 of 3.")]
    )
    with torch.no_grad():
        logits = loaded.model(ids).logits[0, -1]
    assert float(logits.softmax(-1).max()) < 3 / len(loaded.tokenizer)


def test_a_saved_model_comes_back_through_the_same_door(tmp_path: Path) -> None:
    loaded = load_model("nano(hidden=32,heads=2)", seed=4, worlds=["rps", "kuhn_poker"])
    loaded.save(tmp_path)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in tmp_path.iterdir()}
    again = load_model(str(tmp_path), seed=99)
    for name, weight in loaded.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weight)
    text = "Round 2 of 3. Last round: you rock, opponent paper."
    assert again.chat_format.user(text) == loaded.chat_format.user(text)
    assert again.chat_format.opening("The game is Kuhn poker.") == loaded.chat_format.opening("The game is Kuhn poker.")
    assert (again.tokenizer.get_vocab(), again.tokenizer.init_kwargs[WORLDS_KEY]) == (
        loaded.tokenizer.get_vocab(),
        ["kuhn_poker", "rps"],
    )
    assert (again.chat_format.end, again.chat_format.close) == (loaded.chat_format.end, loaded.chat_format.close)


def test_in_bfloat16_far_positions_are_turned_as_far_as_in_float32() -> None:
    found, expected = (load_model("nano", dtype=dtype, worlds=("rps",)).model for dtype in ("bfloat16", "float32"))
    assert {parameter.dtype for parameter in found.parameters()} == {torch.bfloat16}
    assert found.lm_head.weight is found.model.embed_tokens.weight, "tied weights stay one"
    positions, given = torch.arange(1000)[None], torch.zeros(1, 1000, 1)
    for one, other in zip(
        found.model.rotary_emb(given, positions), expected.model.rotary_emb(given, positions), strict=True
    ):
        assert torch.equal(one, other)


def test_models_have_a_description() -> None:
    assert all(make.__doc__ for make in MODELS.values())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nano(hiden=3)", "unknown parameter 'hiden'"),
        ("nano(hidden=30)", "even multiple of heads"),
        ("nano(layers=0)", "layers must be a whole number"),
        ("nano(words=hawk)", "must be a list"),
        ("no such model", "unknown model 'no such model'; known: nano"),
        ("nanoo", r"cannot load the model 'nanoo': the hub cannot be reached; did you mean nano\? known: nano"),
        ("nobody/no-such-model", "cannot load the model 'nobody/no-such-model': the hub cannot be reached"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")) as caught:
        load_model(name)
    assert "\n" not in str(caught.value)


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        load_model(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("adapter_config.json", "an adapter and no model; .* learner.lora_init={}, .*--merge"),
        ("checkpoints/step-000012/adapter_config.json", "learner.lora_init={}/checkpoints/step-000012, or name"),
        ("checkpoints/step-000012/config.json", "name one, such as {}/checkpoints/step-000012$"),
    ],
)
def test_what_holds_no_model_says_what_to_name(file: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(ConfigError, match=f"^the directory '{tmp_path}' holds .*{message.format(tmp_path)}"):
        load_model(str(tmp_path))


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.extras.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"needs the extra train: pip install .*\[train\]'"):
        load_model("nano")
