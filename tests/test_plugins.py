"""Plugins: files and modules that register names, recorded in runs and imported again when a run is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import mage
from mage.config.compose import resolved
from mage.config.load import load_config
from mage.config.schema import Config
from mage.errors import ConfigError, RecordError
from mage.plugins import Plugin, import_plugins, import_recorded
from mage.runs.run_plugins import check_plugins_of, import_plugins_of
from mage.runs.store import RunWriter, read_info
from mage.view.play.seats import Models, SeatChoice
from mage.view.read.folder import Folder
from mage.worlds.registry import WORLDS, load_world
from tests.processes import Mage
from tests.registered import forget_names

pytestmark = pytest.mark.usefixtures("own_names")

ROOT = Path(mage.__file__).parents[1]
NUMBER = '''
"""A hidden number, and a game of two seats."""
import mage
from mage.worlds.openspiel.game_builders import rps

class HiddenNumber(mage.SoloWorld[int, tuple[str, ...]]):
    """Guess a hidden number."""

    def __init__(self, largest: int = 2) -> None:
        self.largest = largest
    def explain(self):
        return "A number is hidden. You have one guess."
    def hidden(self):
        return {number: 1.0 for number in range(self.largest + 1)}
    def start(self, hidden):
        return ()
    def actions(self, hidden, position):
        return () if position else [str(number) for number in range(self.largest + 1)]
    def after(self, hidden, position, action):
        return (action,)
    def tell(self, hidden, position):
        return "Guess." if not position else "Right." if position == (str(hidden),) else "Wrong."
    def score(self, hidden, position):
        return float(position == (str(hidden),))

def short_rps():
    """Rock-paper-scissors, one round."""
    return rps(1)

mage.register_world("hidden_number", HiddenNumber)
mage.register_game("short_rps", short_rps)
'''
TINY = """
steps = 3
agent.model = "nano(hidden=16,layers=1,heads=2,context=512,words=[hidden,number,guess])"
agent.memory = "history"
agent.context = 512
batch.groups = 2
batch.size = 2
checkpoint.every = 1
checkpoint.transcripts = 1
"""
PLAIN = f"""
world = "hidden_number"
population.members = ["0", "1"]
{TINY}
"""
RECIPE = f'plugins = ["number.py"]\n{PLAIN}'


@pytest.fixture
def number(tmp_path: Path) -> Path:
    """The file of a plugin, with a recipe beside it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "number.toml").write_text(RECIPE)
    (folder / "plain.toml").write_text(PLAIN)
    path = folder / "number.py"
    path.write_text(NUMBER)
    return path


@pytest.fixture
def fork(request: pytest.FixtureRequest) -> Mage:
    """The fixture `mage`, which has the name of the package: commands that train, in processes of their own."""
    found: Mage = request.getfixturevalue("mage")
    return found


def run_mage(cwd: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_python(cwd, "-c", "from mage.cli import main; main()", *arguments, stdin=stdin)


def run_python(cwd: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, input=stdin, capture_output=True, text=True, env=environment, check=False
    )


def made_run(folder: Path) -> Path:
    """A run without trials, with the plugins of this process."""
    RunWriter.create(folder, kind="test", config={}, seed=0).close()
    return folder


def test_a_world_of_a_file_is_trained_resumed_evaluated_and_shown_though_its_file_changed_or_is_gone(
    fork: Mage, number: Path, tmp_path: Path
) -> None:
    run = mage.train(str(number.with_suffix(".toml")), folder=tmp_path / "run", max_minutes=0, quiet=True)
    assert run.step == 1
    number.write_text(NUMBER.replace("one guess", "no guess"))
    resumed = fork("train", "--resume", "run", cwd=tmp_path, err=tmp_path / "err.txt")
    assert resumed.code == 0, (tmp_path / "err.txt").read_text()
    assert "step 3/3" in resumed.said
    assert f"run: {number} has changed; the run's copy of it is used" in (tmp_path / "err.txt").read_text()
    evaluated = fork("evaluate", "run", "--opponents", "0", "--trials", "2", "--out", "evaluated", cwd=tmp_path)
    assert evaluated.code == 0, evaluated.said
    assert read_info(tmp_path / "evaluated").plugins == read_info(tmp_path / "run").plugins
    number.unlink()
    shown = run_mage(tmp_path, "show", "run", "0")
    assert shown.returncode == 0, shown.stderr
    assert "A number is hidden. You have one guess." in shown.stdout
    assert f"{number} is gone; the run's copy of it is used" in shown.stderr


def test_the_world_of_a_cross_play_may_come_from_the_plugins_of_an_agent(
    fork: Mage, number: Path, tmp_path: Path
) -> None:
    given = {"world": "short_rps", "population.members": ["uniform"], "steps": 1}
    mage.train(str(number.with_suffix(".toml")), given, folder=tmp_path / "run", quiet=True)
    crossed = fork("cross-play", "run", "uniform", "--world", "short_rps", "--trials", "2", cwd=tmp_path)
    assert crossed.code == 0, crossed.said


def test_the_option_stands_before_or_after_the_command_and_is_recorded(number: Path, tmp_path: Path) -> None:
    listed = run_mage(tmp_path, "list", "worlds", "--import", "mine/number.py")
    assert "hidden_number  largest=2" in listed.stdout
    play = ("play", "hidden_number(largest=1)", "--episodes", "1", "--run", "run")
    played = run_mage(tmp_path, "--import", "mine/number.py", *play, stdin="0\n")
    assert (played.returncode, played.stderr) == (0, "")
    shown = run_mage(number.parent, "show", "../run", "0")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "You have one guess." in shown.stdout
    unknown = run_mage(tmp_path, *play[:-1], "other")
    assert unknown.returncode == 2
    assert "unknown world 'hidden_number'" in unknown.stderr
    assert "--import FILE adds your own" in unknown.stderr


def test_what_a_script_registers_is_recorded_in_the_runs_it_makes(number: Path, tmp_path: Path) -> None:
    trained = 'mage.train("plain.toml", {"steps": 1}, folder="run", quiet=True)\n'
    script = number.with_name("script.py")
    script.write_text(f'{NUMBER}if __name__ == "__main__":\n    {trained}')
    made = run_python(number.parent, "script.py")
    assert made.returncode == 0, made.stderr
    shown = run_mage(tmp_path, "show", "mine/run", "0")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "A number is hidden." in shown.stdout
    script.write_text(NUMBER + trained)
    refused = run_mage(tmp_path, "show", "mine/run", "--import", "mine/script.py")
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert "it calls mage.train when it is imported; put what a script does under if __name__" in refused.stderr


def test_a_sweep_goes_on_with_its_plugins(fork: Mage, number: Path, tmp_path: Path) -> None:
    from mage.training.sweep import begin_sweep

    config = load_config(str(number.with_suffix(".toml")), ["steps=1"])
    sweep = begin_sweep([("number.toml", config)], 1, tmp_path / "sweep", None)
    number.unlink()
    done = fork("sweep", "--resume", sweep, cwd=tmp_path, err=tmp_path / "err.txt")
    assert done.code == 0, (tmp_path / "err.txt").read_text()
    assert f"{number} is gone; the run's copy of it is used" in (tmp_path / "err.txt").read_text()


def test_paths_in_a_recipe_are_relative_to_it_else_to_the_working_directory(
    number: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.py").write_text("")
    more = tmp_path / "mine" / "more.toml"
    more.write_text('extends = "mine/number.toml"\nplugins = ["here.py", "json"]\n')
    found = load_config(str(more))
    assert found.plugins == (str(number), str(tmp_path / "here.py"), "json")
    assert "hidden_number" in WORLDS
    assert load_config(str(more), {"plugins": ["here.py"]}).plugins == (str(tmp_path / "here.py"),)
    assert resolved("mine/number.toml")["plugins"] == [str(number)]


def test_configs_and_runs_without_plugins_are_written_as_before(number: Path, tmp_path: Path) -> None:
    assert "plugins" not in Config().model_dump(mode="json")
    assert "plugins" not in msgspec.json.decode((made_run(tmp_path / "plain") / "run.json").read_bytes())
    import_plugins([str(number)])
    run = made_run(tmp_path / "run")
    (plugin,) = read_info(run).plugins or ()
    assert (plugin.name, (run / plugin.copy).read_text()) == (str(number), NUMBER)
    empty = RunWriter.create(tmp_path / "empty", kind="test", config={}, seed=0)
    empty.discard_if_empty()
    assert not (tmp_path / "empty").exists()


def test_a_plugin_is_imported_once_and_a_file_name_stands_for_one_content(number: Path, tmp_path: Path) -> None:
    import_plugins([str(number)])
    world = WORLDS["hidden_number"]
    import_plugins([str(number)])
    assert WORLDS["hidden_number"] is world
    twin = tmp_path / "number.py"
    twin.write_text(NUMBER)
    import_plugins([str(twin)])
    assert WORLDS["hidden_number"] is world
    renamed = tmp_path / "renamed.py"
    renamed.write_text(NUMBER)
    import_plugins([str(renamed)])  # run again under another name: the same definitions
    assert WORLDS["hidden_number"] is world
    twin.write_text(NUMBER + "# changed\n")
    with pytest.raises(ConfigError, match=r"one process has one file of a name$"):
        import_plugins([str(twin)])
    other = tmp_path / "other.py"
    other.write_text(NUMBER + "# changed\n")
    with pytest.raises(ConfigError, match=r"other.py' cannot be imported: the world 'hidden_number' is registered"):
        import_plugins([str(other)])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("raise KeyError('one\\ntwo')", "KeyError: 'one.*two'"),
        ("def broken(:", "SyntaxError: "),
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import mage; mage.register_world('rps', dict)", "the world 'rps' comes with mage"),
        ("import mage; mage.train('rps')", "it calls mage.train when it is imported"),
    ],
)
def test_an_error_in_a_plugin_is_one_line_that_names_it(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(content)
    with pytest.raises(ConfigError, match=rf"^the plugin '{path}' cannot be imported: {why}") as caught:
        import_plugins([str(path)])
    assert "\n" not in str(caught.value)
    assert "mage_plugin_broken" not in sys.modules


def test_a_plugin_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the plugin 'gone.py' cannot be read: No such file"):
        import_plugins(["gone.py"])
    with pytest.raises(ConfigError, match=r"'gone.away' of somewhere cannot be imported: ModuleNotFoundError"):
        import_recorded(Path("somewhere"), [Plugin("gone.away")], print)


def test_what_the_user_names_takes_precedence_over_what_a_run_records(
    number: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_plugins([str(number)])
    run = made_run(tmp_path / "run")
    forget_names(monkeypatch)
    changed = tmp_path / "number.py"
    changed.write_text(NUMBER.replace("one guess", "two guesses"))
    import_plugins([str(changed)])
    import_plugins_of(run)
    assert f"{run} was made with another number.py than {changed}, which is used" in " ".join(
        capsys.readouterr().err.split()
    )
    other = made_run(tmp_path / "other")
    forget_names(monkeypatch)
    import_plugins_of(run)
    with pytest.raises(ConfigError, match=f"^{other} was made with another number.py than {run}; .*--import$"):
        import_plugins_of(other)


def test_a_copy_that_was_changed_is_not_executed(number: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_plugins([str(number)])
    run = made_run(tmp_path / "run")
    forget_names(monkeypatch)
    number.unlink()
    (copy,) = (run / "plugins").iterdir()
    copy.write_text("raise SystemExit('executed')")
    with pytest.raises(
        RecordError, match=f"^{run} needs the plugin {number}; .* is gone or changed: give --import FILE$"
    ):
        import_plugins_of(run)


def test_readers_of_a_folder_execute_no_code_of_its_runs(
    number: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_plugins([str(number)])
    run = made_run(tmp_path / "run")
    check_plugins_of(run)
    forget_names(monkeypatch)
    with pytest.raises(ConfigError, match=f"start again with --import {number}$"):
        check_plugins_of(run)
    assert "hidden_number" not in WORLDS


def test_the_viewer_plays_no_checkpoint_whose_plugins_it_was_not_given(
    number: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mage.train(str(number.with_suffix(".toml")), {"steps": 1}, folder=tmp_path / "runs" / "mine", quiet=True)
    forget_names(monkeypatch)
    folder = Folder(tmp_path / "runs")
    (place,) = folder.places()
    choice = SeatChoice("mine", f"checkpoint:{place.id}/1", place.name, 1)
    models = Models(folder)
    with pytest.raises(ConfigError, match=f"executed here only when named: start again with --import {number}$"):
        models.make_agent(choice, load_world("rps"))
    assert "hidden_number" not in WORLDS
    import_plugins([str(number)])
    assert models.make_agent(choice, load_world("hidden_number"))
