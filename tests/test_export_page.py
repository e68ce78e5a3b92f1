"""One page of a run: it stands on its own, holds what was chosen within a bound, and no text in it is markup."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mage.cli import app
from mage.errors import ConfigError, MageError, RecordError
from mage.files import JsonLines
from mage.runs.credit import CREDIT, Credit, TurnCredit
from mage.runs.store import RunWriter
from mage.view import export
from mage.view.export import Page, export_page
from mage.view.read.folder import NotFoundError
from tests.recorded import betting, failure, guest_trial, make_task, model_trial

EVIL = "</script><script>document.title='owned'</script><!--<script><img src=x onerror=alert(1)>]]>&lt;\u2028\x00"


class Parsed(HTMLParser):
    """A page as a browser takes it apart."""

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self._inside: str | None = None
        self.feed(page.content.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in self.texts else None
        if self._inside:
            self.texts[tag].append("")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[self._inside][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.texts["script"][0])
        return found

    @property
    def answers(self) -> dict[str, Any]:
        """What the page has of its run, by the end of the path."""
        (run,) = self.data["responses"]["/api/runs"]
        start = f"/api/runs/{run['id']}"
        return {path.removeprefix(start): answer for path, answer in self.data["responses"].items()}


def made(folder: Path, num: int = 12, kind: str = "duel") -> Path:
    with RunWriter.create(folder, kind=kind, config={"world": "kuhn_poker"}, seed=0) as writer:
        writer.append(failure())
        for seed in range(num):
            writer.append(guest_trial(make_task(seed=seed)))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("runs") / "plain")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that somebody else may have written is written by somebody who means harm."""
    folder = tmp_path_factory.mktemp("runs") / "<img src=x onerror=alert(2)>"
    answer = betting(note=EVIL, says=f"{EVIL} <action>bet</action>")
    trial = model_trial(make_task(opponents=("uniform",)), answer)
    evil = msgspec.structs.replace(trial, agent=msgspec.structs.replace(trial.agent, name=EVIL))
    with RunWriter.create(folder, kind="train", config={"description": EVIL, "world": EVIL}, seed=0) as writer:
        writer.append(evil)
        writer.append(failure(EVIL))
    lines = JsonLines(folder / "events.jsonl")
    lines.append({"step": 1, "alarm": EVIL, "action": "print"})
    lines.close()
    lines = JsonLines(folder / "metrics.jsonl")
    lines.append({"step": 1, EVIL: 0.5})
    lines.close()
    (folder / "evaluations").mkdir()
    (folder / "evaluations" / "final.json").write_bytes(msgspec.json.encode({"reports": [], "command": EVIL}))
    return folder


def test_the_page_stands_on_its_own(run: Path) -> None:
    page = export_page(run)
    parsed = Parsed(page)
    links = [attrs.get(name) for _, attrs in parsed.tags for name in ("src", "href") if name in attrs]
    assert [link for link in links if link not in ("data:,", "#main")] == []
    assert [attrs.get("type") for tag, attrs in parsed.tags if tag == "script"] == ["application/json", None]
    assert [tag for tag, _ in parsed.tags].count("style") == 1
    code, look = parsed.texts["script"][1], parsed.texts["style"][0]
    assert "fetch(" in code, "the viewer's own modules are in it"
    assert not re.search(r"^(import|export)\b", code, re.MULTILINE)
    assert "url(" not in look


def test_the_policy_lets_its_own_script_run_and_nothing_else(run: Path) -> None:
    parsed = Parsed(export_page(run))
    (policy,) = [a["content"] for _, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy"]
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (parsed.texts["script"][1], parsed.texts["style"][0])
    ]
    assert policy == (
        f"default-src 'none'; script-src {hashes[0]}; style-src {hashes[1]}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    names = [(tag, attrs.get("http-equiv")) for tag, attrs in parsed.tags]
    assert names.index(("meta", "Content-Security-Policy")) < names.index(("script", None))


def test_it_answers_as_the_server_would(run: Path) -> None:
    answers = Parsed(export_page(run, trials=[3, 1])).answers
    assert sorted(answers) == ["", "/api/runs", "/metrics", "/pairs", "/trials", "/trials/1", "/trials/3"]
    assert answers[""]["name"] == "plain"
    assert answers[""]["trials"] == answers["/api/runs"][0]["trials"] == answers["/trials"]["total"] == 2
    assert [row["number"] for row in answers["/trials"]["rows"]] == [1, 3]
    assert answers["/trials/3"]["task"]["world"] == "kuhn_poker"
    assert answers["/trials/3"]["number"] == 3


def test_trials_are_chosen_from_all_over_the_run(run: Path) -> None:
    assert export_page(run, trials=[3, 1, 3]).trials == (3, 1)
    assert export_page(run).trials == tuple(range(1, 13)), "all, but no failure"
    assert export_page(run, most=4).trials == (1, 4, 8, 12)
    assert export_page(run, most=1).trials == (1,)
    assert export_page(run, most=0).trials == ()
    assert export_page(run, trials=[0]).trials == (0,), "a failure that is asked for"
    assert export_page(run).num_trials == 13
    with pytest.raises(NotFoundError, match="plain has no readable trial 99"):
        export_page(run, trials=[1, 99])


def test_the_showcase_comes_first(tmp_path: Path) -> None:
    task = make_task(seed=99)
    with RunWriter.create(tmp_path / "run", kind="train", config={}, seed=0) as writer:
        for step in range(6):
            plain = msgspec.to_builtins(model_trial(task, betting()))
            for turn in (turn for episode in plain["episodes"] for turn in episode["turns"]):
                for call in turn["calls"]:
                    call["completion"]["version"] = step
            writer.append(msgspec.convert(plain, type(model_trial(task, betting()))))
            writer.append(guest_trial(make_task(seed=step)))
    assert export_page(tmp_path / "run", most=2).trials == (0, 10), "before and after"
    page = export_page(tmp_path / "run", most=3)
    assert page.trials == (0, 2, 10)
    (pair,) = Parsed(page).answers["/pairs"]
    assert (pair["trials"], pair["steps"]) == ([0, 2, 10], [0, 1, 5])
    assert Parsed(export_page(tmp_path / "run", trials=[0, 1])).answers["/pairs"] == [], "one trial is no pair"


def test_no_text_in_it_is_markup(hostile: Path) -> None:
    page = export_page(hostile, trials=[0, 1])
    parsed = Parsed(page)
    assert [tag for tag, _ in parsed.tags].count("script") == 2
    assert "img" not in [tag for tag, _ in parsed.tags]
    (inside,) = re.findall(rb'<script type="application/json" id="mage-data">(.*?)</script>', page.content, re.DOTALL)
    assert b"<" not in inside
    answers = parsed.answers
    assert answers["/trials/0"]["agent"]["name"] == EVIL, "and nothing of it is lost"
    assert EVIL in answers["/trials/1"]["error"]
    assert answers["/evaluations/final"]["command"] == EVIL
    assert answers[""]["events"][0]["alarm"] == EVIL
    assert list(answers["/metrics"]["series"]) == [EVIL]
    assert parsed.texts["title"][0].startswith("<img src=x onerror=alert(2)> in mage")


def test_a_page_has_a_bound(run: Path, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = len(export_page(run).content)
    monkeypatch.setattr(export, "MAX_BYTES", whole - 5000)
    page = export_page(run)
    assert len(page.content) <= whole - 5000
    assert 0 < len(page.left_out) < 12
    assert len(page.trials) + len(page.left_out) == 12
    with pytest.raises(ConfigError, match=r"with trial \d+ the page would be larger than \d+ MiB; choose fewer"):
        export_page(run, trials=range(1, 13))
    monkeypatch.setattr(export, "MAX_BYTES", 10_000)
    with pytest.raises(ConfigError, match="with its curves and its config the page would be larger"):
        export_page(hostile)


def told(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["export", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit | MageError), done.exception
    return done.exit_code, str(done.exception) if isinstance(done.exception, MageError) else done.output


def test_the_command_writes_a_new_file_and_states_its_size(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    code, said = told(run, "-o", out, "--trials", "1, 2")
    size = out.stat().st_size
    assert code == 0
    assert said == f"wrote {out}: 2 of 13 trials, {size / 1024:.0f} KiB; it opens from disk in any browser\n"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert told(run, "-o", out)[1] == f"{out} exists already; name a new file for the page"


def test_what_cannot_be_exported_is_named_in_one_line(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for text in ("", "1,", "-1", "1-3", "one", "9" * 13):
        assert told(run, "-o", out, f"--trials={text}")[1].startswith(f"--trials = {text!r}: give numbers of trials")
    assert "give one of the two" in told(run, "-o", out, "--trials", "1", "--most", "2")[1]
    assert "is not a run" in told(tmp_path, "-o", out)[1]
    assert "does not exist" in told(tmp_path / "none", "-o", out)[1]
    assert "cannot write" in told(run, "-o", tmp_path / "none" / "page.html")[1]
    assert not out.exists()


def test_a_run_of_another_version_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema": 99}')
    with pytest.raises(RecordError, match="schema version 99"):
        export_page(tmp_path)


def test_neither_torch_nor_a_server_is_needed(run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mage.view.export import export_page; "
        f"export_page(Path({str(run)!r})); "
        "print([name for name in ('torch', 'transformers', 'starlette', 'uvicorn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_help_tells_a_page_from_a_model() -> None:
    shown = " ".join(CliRunner().invoke(app, ["export", "--help"]).output.split())
    assert "a single HTML file; no weights" in shown
    assert "a run's weights" in " ".join(CliRunner().invoke(app, ["export-model", "--help"]).output.split())


def test_turn_credit_travels(tmp_path: Path) -> None:
    run = made(tmp_path / "run", num=1)
    trial = msgspec.json.decode((run / "trials.jsonl").read_bytes().splitlines()[1])
    num = sum(turn["observation"]["seat"] == 0 for episode in trial["episodes"] for turn in episode["turns"])
    lines = JsonLines(run / CREDIT)
    lines.append(Credit(1, 7, True, (TurnCredit(0.25, 1.0, ()),) * num))
    lines.close()
    drawn = Parsed(export_page(run)).answers["/trials/1"]
    credits = [turn["credit"] for episode in drawn["episodes"] for turn in episode["turns"] if turn["seat"] == 0]
    assert credits == [{"advantage": 0.25, "return": 1.0}] * num
    assert drawn["step"] == 7
