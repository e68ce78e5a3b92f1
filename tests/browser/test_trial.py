"""A trial in the browser: stepped through, seen with other eyes, read token by token, and harmless whatever it says."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import msgspec
import pytest

from benchmarks.view_speed import Server
from mage.types import Memory, Trial
from tests.browser.opened import Opened
from tests.browser.scenes import EVIL, NOTE
from tests.recorded import betting, failure, make_task, model_trial
from tests.viewed import write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, learned_run: Path, played_run: Path) -> Path:
    root = tmp_path_factory.mktemp("runs")
    copytree(played_run, root / "played")
    copytree(learned_run, root / "learned")
    write_run(root / "rewritten", [model_trial(make_task(), betting(), Memory.REFLECTIONS)])
    write_run(root / "<b>hostile", [hostile(), failure(EVIL)], description=EVIL)
    return root


def hostile() -> Trial:
    """A trial in which everything that can be a text is an attack."""
    trial = model_trial(make_task(), betting(note=EVIL, says=f"{EVIL} <action>bet</action>"))
    task = msgspec.structs.replace(trial.task, opponents=(EVIL,))
    agent = msgspec.structs.replace(trial.agent, name=EVIL)
    results = [msgspec.structs.replace(e.result, outcomes=(EVIL, EVIL)) for e in trial.episodes]
    episodes = [msgspec.structs.replace(e, result=r) for e, r in zip(trial.episodes, results, strict=True)]
    return msgspec.structs.replace(trial, task=task, agent=agent, episodes=tuple(episodes))


def trial(server: Server, run: str, number: int, query: str = "") -> str:
    identity = next(each["id"] for each in server.json("/api/runs") if each["name"] == run)
    return f"/#/runs/{identity}/trials/{number}{query}"


def heading(opened: Opened) -> str:
    return opened.find(".stage h2").inner_text()


def test_keys_step_through_a_trial_and_the_address_names_the_moment(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 0))
    assert heading(opened) == "Episode 1 of 3, move 1 of 6"
    opened.press("ArrowRight", "ArrowRight")
    assert heading(opened) == "Episode 1 of 3, move 3 of 6"
    assert "at=1.3" in opened.hash()
    assert opened.find(".moment.now").get_attribute("data-at") == "1.3"
    opened.press("ArrowLeft", "]")
    assert heading(opened) == "Episode 2 of 3, move 1 of 6"
    opened.press("End")
    assert heading(opened) == "Episode 3 of 3: the end"
    opened.press("ArrowRight")
    assert heading(opened) == "Episode 3 of 3: the end", "there is nothing after it"
    opened.press("Home", "[")
    assert heading(opened) == "Episode 1 of 3, move 1 of 6"


def test_a_link_leads_to_the_moment(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 0, "?at=2.notes&seen=agent"))
    assert heading(opened) == "After episode 2"
    assert opened.find("button[data-value=agent]").get_attribute("aria-pressed") == "true"
    opened.find(".moment[data-at='3.1'] .pick").click()
    assert heading(opened).startswith("Episode 3 of 3, move 1")
    link = opened.find("a:has-text('Link to this moment')").get_attribute("href")
    assert link is not None
    assert "at=3.1" in link
    assert "seen=agent" in link


def test_what_the_agent_wrote_and_carries_on_stands_between_the_episodes(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 0, "?at=1.notes"))
    assert opened.find(".stage .note").inner_text() == NOTE
    assert "all that happened, and its notes" in opened.text()
    assert "Episode 2 of 3" in opened.find(".stage .diff .new").inner_text(), "what is new in its context"


def test_where_memory_is_rewritten_one_sees_what_came_and_what_went(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "rewritten", 0, "?at=2.notes"))
    assert "a new stream begins" in opened.find(".stage").inner_text()
    assert "After episode 2: They fold too often." in " ".join(opened.find(".stage .diff .new").all_inner_texts())
    assert "Episode 2 of 3." in " ".join(opened.find(".stage .diff .gone").all_inner_texts())


def test_seen_with_the_agents_eyes_nothing_hidden_is_shown(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 1))
    assert opened.find(".stage .card-face").count() == 2, "both cards"
    assert "uniform" in opened.find(".transcript").inner_text()
    opened.press("a")
    assert opened.find(".stage .card-face").count() == 1
    assert opened.find(".stage .card-back").count() == 1
    moves = opened.find(".moment.turn")
    assert opened.find(".moment.turn .seat-0").count() == moves.count() > 0, "only its own moves"
    opened.press("a")
    assert opened.find(".stage .card-back").count() == 0


def test_a_move_of_this_round_stays_hidden_until_both_have_chosen(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 0, "?at=1.2"))
    assert opened.find(".stage .drawing .chosen").count() == 2, "all seats: both moves"
    opened.go(trial(server, "played", 0, "?at=1.1&seen=agent"))
    assert opened.find(".stage .drawing .chosen").count() == 1
    assert "cycle" not in opened.find(".trial").inner_text(), "an agent is never told who sits opposite"


def test_episodes_side_by_side_each_have_a_picture(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 2))
    assert opened.find(".stage .drawing").count() == 1
    opened.press("s")
    assert opened.find(".transcript.columns .episode .drawing").count() == 3
    assert opened.find(".stage .drawing").count() == 0
    assert "layout=columns" in opened.hash()


def test_the_keyboard_stays_where_it_is_when_something_is_chosen(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "learned", 1))
    for value in ("columns", "agent", "entropy"):
        opened.find(f"button[data-value={value}]").focus()
        opened.press("Enter")
        assert opened.page.evaluate("document.activeElement.dataset.value") == value


def test_a_game_that_nobody_drew_is_shown_in_its_own_words(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 3))
    assert "[Observer: 0]" in opened.find(".stage .plain-facts pre").inner_text()
    opened.press("End")
    assert opened.find(".stage .plain-facts").inner_text().startswith("state")


def test_every_token_has_its_colour_and_its_numbers(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "learned", 1))
    pressed = opened.find("button[data-value=advantage]").get_attribute("aria-pressed")
    assert pressed == "true", "a trial that was learned from shows advantages first"
    colours = set()
    for colour in ("advantage", "logprob", "entropy"):
        opened.find(f"button[data-value={colour}]").click()
        token = opened.find(".transcript .token:not(.forced)").first
        colours.add(token.evaluate("each => getComputedStyle(each).backgroundColor"))
        token.hover()
        said = opened.find(".hover").inner_text()
        assert "log-probability −" in said
        assert "entropy" in said
        assert "advantage" in said
    assert len(colours) == 3
    opened.find(".stage summary:has-text('Numbers')").click()
    assert opened.find(".stage .numbers tbody tr").count() == 2
    assert "forced" in opened.find(".stage .numbers").inner_text()


def test_all_that_the_model_read_is_there(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 0))
    opened.find("summary:has-text('Everything the model read')").click()
    assert "The game is rock-paper-scissors" in opened.find(".stream").inner_text()
    assert NOTE in " ".join(opened.find(".stream .written").all_inner_texts())


def test_a_hostile_trial_is_text_and_does_nothing(opened: Opened, server: Server) -> None:
    first = trial(server, "<b>hostile", 0)
    run = first.partition("/trials")[0]
    for where in (run, f"{run}/trials", first, trial(server, "<b>hostile", 1), "/#/runs"):
        opened.go(where)
        foreign = "document.querySelectorAll('main script, main img, main b, header script, header b').length"
        assert opened.page.evaluate(foreign) == 0, where
    opened.go(first)
    for _ in range(12):
        opened.press("ArrowRight")
        assert EVIL in opened.text()
    for token in opened.find(".stage .token").all()[:3]:
        token.hover()
    assert opened.page.evaluate("window.owned === undefined")
    assert all(url.startswith((server.url, "data:", "about:")) for url in opened.requests)


def test_text_cannot_turn_around_what_follows_it(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 0))
    shown = opened.page.evaluate("import('/static/dom.js').then(({h}) => h('p', {}, 'a\\u202eb\\u0000').textContent)")
    assert shown == "a\\u202eb\\u0000"


def test_a_trial_that_failed_says_why(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "<b>hostile", 1))
    assert "This trial could not be played" in opened.text()
    assert f"PlayError: {EVIL}" in opened.text()


def test_the_scores_of_a_model_that_counts_rise(opened: Opened, server: Server) -> None:
    opened.go(trial(server, "played", 0, "?layout=columns"))
    assert opened.find(".episode .verdict").all_inner_texts() == ["0 draw", "+1 win", "+1 win"]
