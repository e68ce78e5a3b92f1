"""Who can be judged: runs, checkpoints, models, scripts, remote models and players, each by its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from mage.agents.language import LanguageAgent
from mage.engines.remote import RemoteEngine
from mage.errors import ConfigError, RecordError
from mage.evaluation.eval_agent import BayesEvalAgent, EvalAgent, load_eval_agent
from mage.evaluation.exact import PlanObjective
from mage.evaluation.splits import load_split, write_split
from mage.evaluation.suite.reflections import drop_reflection
from mage.training.run import create_run_directory, train_run
from mage.types import Failure, Memory, ReplyMode, Trial
from tests.seated import WORLD, agent_calls, make_task, play_all
from tests.tiny import MODEL, tiny_config

SEVEN = load_split("rps-seven")
GAME = "rps(rounds=3)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("subject") / "run"
    create_run_directory(tiny_config("steps=2", "checkpoint.every=1", "checkpoint.keep=2", "learner.lr=0.05"), folder)
    train_run(folder, Console(quiet=True))
    return folder


def played(eval_agent: EvalAgent, memory: Memory | None = None, opponent: str = "copy", num: int = 3) -> list[Trial]:
    jobs = [(make_task(GAME, opponents=(opponent,), seed=seed), 0) for seed in range(num)]
    outcomes = play_all(jobs, eval_agent.make_agent(WORLD, memory))
    assert not [o for o in outcomes if isinstance(o, Failure)]
    return [o for o in outcomes if isinstance(o, Trial)]


def test_a_run_is_its_newest_weights(run: Path) -> None:
    eval_agent = load_eval_agent(str(run), {"agent.memory": "both", "agent.reflection_tokens": 4})
    assert (eval_agent.name, eval_agent.kind, eval_agent.step, eval_agent.run) == ("run", "run", 2, run)
    assert eval_agent.is_model
    assert eval_agent.agent == str(run / "checkpoints" / "step-000002")
    assert eval_agent.settings is not None
    assert (eval_agent.settings.memory, eval_agent.settings.reply) == (Memory.BOTH, ReplyMode.CHOICE)
    assert eval_agent.describe()["memory"] == "both"


def test_a_run_may_be_judged_at_temperature_0(run: Path) -> None:
    certain, usual = load_eval_agent(str(run), {"agent.temperature": 0}), load_eval_agent(str(run))
    assert certain.settings is not None
    assert certain.settings.temperature == 0.0
    task = make_task(GAME, opponents=("copy",), seed=3)
    siblings = play_all([(task, number) for number in range(6)], certain.make_agent(WORLD))
    others = play_all([(task, number) for number in range(6)], usual.make_agent(WORLD))
    assert len({moves(trial) for trial in siblings}) == 1
    assert len({moves(trial) for trial in others}) > 1, "at the run's own temperature siblings differ"


def moves(outcome: Trial | Failure) -> tuple[str | None, ...]:
    assert isinstance(outcome, Trial)
    return tuple(turn.action for episode in outcome.episodes for turn in episode.turns)


def test_a_checkpoint_is_its_own_weights(run: Path) -> None:
    older = load_eval_agent(str(run / "checkpoints" / "step-000001"))
    assert (older.name, older.step, older.run) == ("run/step-000001", 1, run), "mage compare tells it from its run"
    again = load_eval_agent(older.agent)
    assert (again.name, again.step, again.config) == (older.name, older.step, older.config)


def test_settings_that_a_run_cannot_have_are_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"agent\.context = 4096: .* has room for 512 tokens"):
        load_eval_agent(str(run), {"agent.context": 4096})
    with pytest.raises(ConfigError, match=r"unknown key 'agent\.nothing'"):
        load_eval_agent(str(run), {"agent.nothing": 1})


def test_a_run_without_weights_and_a_run_of_another_kind_are_refused(tmp_path: Path) -> None:
    create_run_directory(tiny_config(), tmp_path / "new")
    with pytest.raises(RecordError, match="has no checkpoint yet"):
        load_eval_agent(str(tmp_path / "new"))
    (tmp_path / "new" / "run.json").write_text(
        (tmp_path / "new" / "run.json").read_text().replace('"kind": "train"', '"kind": "duel"')
    )
    with pytest.raises(RecordError, match="is a duel run; only train runs have weights"):
        load_eval_agent(str(tmp_path / "new"))


def test_a_model_has_the_context_that_it_has_room_for() -> None:
    eval_agent = load_eval_agent(MODEL)
    assert (eval_agent.kind, eval_agent.name, eval_agent.run, eval_agent.step) == ("model", MODEL, None, 0)
    assert eval_agent.settings is not None
    assert eval_agent.settings.context == 512
    assert load_eval_agent(MODEL, {"agent.context": 300}).config.agent.context == 300
    with pytest.raises(ConfigError, match=r"agent\.context = 513: .* has room for 512 tokens"):
        load_eval_agent(MODEL, {"agent.context": 513})


def test_a_model_in_a_directory_is_that_model(run: Path, tmp_path: Path) -> None:
    from mage.training.export import export_model

    export_model(run, tmp_path / "model")
    eval_agent = load_eval_agent(str(tmp_path / "model"), {"agent.memory": "history"})
    assert eval_agent.kind == "model"
    own, exported, older = (
        [p for trial in played(who) for call in agent_calls(trial) for p in call.completion.logprobs]
        for who in (load_eval_agent(str(run)), eval_agent, load_eval_agent(str(run / "checkpoints" / "step-000001")))
    )
    assert exported == pytest.approx(own, abs=1e-5)
    assert older != pytest.approx(own, abs=1e-2)


def test_a_scripted_model_plays() -> None:
    eval_agent = load_eval_agent("scripted:counter", {"agent.memory": "history", "agent.reply": "text"})
    (trial, *_) = played(eval_agent, opponent="always:rock")
    assert trial.scores == (0.0, 1.0, 1.0)
    (control, *_) = played(eval_agent, Memory.NONE, opponent="always:rock")
    assert control.scores == (0.0, 0.0, 0.0)
    with pytest.raises(ConfigError, match="unknown scripted model 'nothing'"):
        load_eval_agent("scripted:nothing")


@pytest.mark.parametrize("method", ["plain", "react", "reflexion", "linked-notes", "cases"])
def test_every_method_has_a_control(method: str) -> None:
    memory = {"cases": "history"}.get(method, "reflections")
    eval_agent = load_eval_agent("scripted:counter", {"agent.method": method, "agent.memory": memory})
    agent = eval_agent.make_agent(WORLD, Memory.NONE)(make_task(), 0)
    assert isinstance(agent, LanguageAgent)
    assert agent.info.memory is Memory.NONE
    history = eval_agent.make_agent(WORLD, Memory.HISTORY)(make_task(), 0)
    assert history.info.memory is Memory.HISTORY


def test_a_remote_model_answers_in_text_with_room_in_bytes() -> None:
    eval_agent = load_eval_agent("remote:http://localhost:1/v1/#toy", concurrency=3)
    assert eval_agent.name == eval_agent.agent == "remote:http://localhost:1/v1#toy"
    assert isinstance(eval_agent.engine, RemoteEngine)
    assert eval_agent.settings is not None
    assert (eval_agent.settings.reply, eval_agent.settings.max_tokens, eval_agent.settings.context) == (
        "text",
        2048,
        65536,
    )
    assert load_eval_agent(eval_agent.agent, {"agent.max_tokens": 99}).config.agent.max_tokens == 99
    with pytest.raises(
        ConfigError, match=r"agent\.reply = choice: a remote model cannot be held to a choice; use text"
    ):
        load_eval_agent("remote:http://localhost:1/v1#toy", {"agent.reply": "choice"})
    with pytest.raises(ConfigError, match="remote:URL#model"):
        load_eval_agent('remote(url="http://localhost:1/v1")')


def test_a_player_is_judged_in_the_agent_s_place() -> None:
    eval_agent = load_eval_agent("best-response: conservative")
    assert (eval_agent.name, eval_agent.kind, eval_agent.is_model) == ("best-response(conservative)", "player", False)
    assert (eval_agent.engine, eval_agent.chat_format, eval_agent.settings) == (None, None, None)
    assert eval_agent.describe() == {"name": "best-response(conservative)", "kind": "player"}
    rock = load_eval_agent("always:rock")
    assert [t.scores for t in played(rock)] == [t.scores for t in played(rock, Memory.NONE)]


def test_a_player_has_no_settings_of_a_model() -> None:
    with pytest.raises(ConfigError, match=r"agent\.memory is for models; 'copy' is a player without one"):
        load_eval_agent("copy", {"agent.memory": "both"})
    with pytest.raises(ConfigError, match="copy is a player without a model: it has no history to remember"):
        load_eval_agent("copy").make_agent(WORLD, Memory.HISTORY)
    with pytest.raises(ConfigError, match="it has no reflections to remember"):
        load_eval_agent("copy").make_agent(WORLD, rewrite=drop_reflection)


def test_bayes_optimal_play_expects_the_members_of_the_split() -> None:
    eval_agent = load_eval_agent("bayes-optimal(objective=sum)")
    assert isinstance(eval_agent, BayesEvalAgent)
    assert (eval_agent.objective, eval_agent.pool, eval_agent.members) == (PlanObjective.SUM, "", None)
    with pytest.raises(ConfigError, match=r"needs a pool of opponents; name a split"):
        eval_agent.make_agent(WORLD)
    told = eval_agent.for_split(load_split("rps-held-out"))
    assert isinstance(told, BayesEvalAgent)
    assert told.members == tuple((member, 1) for member in load_split("rps-held-out").members)
    knows = load_eval_agent("bayes-optimal(pool=rps-seven)")
    assert knows.for_split(load_split("rps-held-out")) is knows
    assert {t.scores[2] for t in played(knows)} == {1.0}
    assert knows.describe() == {
        "name": "bayes-optimal(pool=rps-seven)",
        "kind": "player",
        "objective": "last",
        "pool": "rps-seven",
    }


def test_a_pool_may_be_a_file(tmp_path: Path) -> None:
    write_split(tmp_path / "mine.json", GAME, ["copy"])
    eval_agent = load_eval_agent(f'bayes-optimal(pool="{tmp_path / "mine.json"}")')
    assert isinstance(eval_agent, BayesEvalAgent)
    assert eval_agent.members == (("copy", 1),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("unifrom", "'unifrom' cannot be evaluated; did you mean uniform? name a train run"),
        ("bayes-optimal(objective=most)", "objective of bayes-optimal must be last or sum, not 'most'"),
        ("bayes-optimal(pool=nothing)", "unknown split 'nothing'"),
        ("bayes-optimal(3, 4, 5)", "too many values"),
        ("copy(", "cannot read the spec"),
    ],
)
def test_nobody_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_eval_agent(text)
    assert why in str(raised.value)


def test_a_directory_without_anybody_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run, no checkpoint and no model"):
        load_eval_agent(str(tmp_path))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"holds an adapter and no model; name the run that it is from, .* --merge"):
        load_eval_agent(str(tmp_path))


def test_a_checkpoint_that_is_there_is_named(run: Path) -> None:
    newest = max((run / "checkpoints").iterdir())
    with pytest.raises(ConfigError, match=f"name a checkpoint in it, such as {newest}$"):
        load_eval_agent(str(run / "checkpoints"))
    with pytest.raises(ConfigError, match=f"cannot be evaluated; did you mean {newest.parent}/step-"):
        load_eval_agent(str(run / "checkpoints" / "step-000099"))


def test_a_path_beside_others_is_not_looked_for_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="'runs/rsp' cannot be evaluated; name"):
        load_eval_agent("runs/rsp")
    (tmp_path / "runs" / "rps").mkdir()
    (tmp_path / "runs" / "rps" / "run.json").touch()
    with pytest.raises(ConfigError, match="'runs/rsp' cannot be evaluated; did you mean runs/rps"):
        load_eval_agent("runs/rsp")


def test_a_directory_does_not_hide_a_player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "copy").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_eval_agent("copy").kind == "player"


def test_without_torch_models_say_what_to_install(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        assert name == "torch"

    monkeypatch.setattr("mage.extras.find_spec", missing)
    for text in (str(run), "nano", "org/name"):
        with pytest.raises(ConfigError, match=r"needs the extra train: pip install .*\[train\]'"):
            load_eval_agent(text)
