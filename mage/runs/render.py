"""Transcripts of trials as terminal output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from mage.runs.credit import Credit, EpisodeCredit, TurnCredit, by_episode
from mage.runs.drawings import Drawing, seat_style, shown
from mage.runs.recorded_drawing import RecordedDrawing
from mage.runs.wording import carried_memory, seat_names
from mage.stats import Verdict, result_verdict
from mage.types import Call, Ending, Episode, Failure, Task, Trial, Turn
from mage.worlds.openspiel.words.base import signed

_VERDICT_STYLES = {Verdict.WIN: "green", Verdict.DRAW: "yellow", Verdict.LOSS: "red"}


def transcript(outcome: Trial | Failure, title: str, rules: str | None, credit: Credit | None = None) -> RenderableType:
    """A whole trial: players, every turn of every seat, memory carried between episodes, scores.

    With `credit` the agent's turns show advantage and return.
    """
    names = seat_names(outcome)
    if isinstance(outcome, Failure):
        error = Text.assemble(("failed  ", "bold red"), shown(f"{outcome.error}: {outcome.message}"))
        return Group(_rule(title, "bold"), _header(outcome.task, outcome.sibling, names, None, rules), Text(), error)
    parts: list[RenderableType] = [
        _rule(title, "bold"),
        _header(outcome.task, outcome.sibling, names, outcome, rules),
    ]
    drawing = RecordedDrawing(outcome.task.world)
    nothing = EpisodeCredit((), ())
    earned = [nothing] * len(outcome.episodes) if credit is None else by_episode(outcome, credit)
    for index, (episode, credits) in enumerate(zip(outcome.episodes, earned, strict=True)):
        parts += [Text(), _rule(f"Episode {index + 1} of {outcome.task.episodes}", "bold blue")]
        if index in outcome.overflows:
            parts.append(Text("The context was full in this episode: the oldest memory was dropped.", "yellow"))
        parts += _opening(episode)
        plays = iter(credits.plays)
        for turn in episode.turns:
            own = next(plays, None) if turn.observation.seat == outcome.task.seat else None
            parts.append(_turn(turn, names, drawing, outcome.task.seat, own))
        parts.append(_ending(episode, names, drawing))
        if index + 1 < len(outcome.episodes) or any(r.observation.episode == index for r in outcome.reflections):
            parts.append(_between(outcome, index, credits.reflections))
    return Group(*parts, Text(), _rule("Scores by episode", "bold"), scores_table(outcome))


def scores_table(trial: Trial) -> RenderableType:
    """The score of every seat in every episode, with win, draw or loss of the task's seat."""
    if not trial.episodes:
        return Text("No episode was finished.", "dim")
    names = seat_names(trial)
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for index in range(len(trial.episodes)):
        table.add_column(f"episode {index + 1}", justify="right")
    for seat, name in enumerate(names):
        scores = [Text(signed(e.result.returns[seat])) for e in trial.episodes]
        table.add_row(_who(seat, name, None), *scores)
    table.add_row(
        Text(f"for seat {trial.task.seat}", "dim"), *(_result_word(e, trial.task.seat) for e in trial.episodes)
    )
    return table


def _header(task: Task, sibling: int, names: tuple[str, ...], trial: Trial | None, rules: str | None) -> Table:
    grid = _grid()
    grid.add_row("world", shown(task.world))
    if task.level:
        grid.add_row("level", shown(task.level))
    for seat, name in enumerate(names):
        grid.add_row("agent" if seat == task.seat else "opponent", _who(seat, name, None))
    played = f"{len(trial.episodes)} played of {task.episodes}" if trial else f"{task.episodes}"
    deals = "the first deal every time" if task.replay_deal else "fresh deals"
    grid.add_row("episodes", f"{played}, {deals}" + (", ends with the first win" if task.early_stop else ""))
    grid.add_row("seed", f"{task.seed}, sibling {sibling}")
    if trial and trial.agent.method not in (None, "plain"):
        grid.add_row("method", shown(trial.agent.method))
    if trial and trial.agent.memory:
        grid.add_row("memory", f"{trial.agent.memory}: to the next episode crosses {carried_memory(trial.agent)}")
    if trial and trial.agent.reply:
        grid.add_row("replies", trial.agent.reply)
    if rules:
        grid.add_row("rules", shown(rules, "italic"))
    return grid


def _turn(
    turn: Turn, names: tuple[str, ...], drawing: Drawing, agent_seat: int, credit: TurnCredit | None
) -> RenderableType:
    seen = turn.observation
    grid = _grid()
    if private := drawing.private(seen):
        grid.add_row("private", shown(private, "bold"))
    if (position := drawing.position(seen)) is not None:
        grid.add_row("board", position)
    if position is None or (seen.seat == agent_seat and turn.calls):
        grid.add_row("sees", shown(seen.text))
    if seen.actions:
        grid.add_row("may play", Text(" · ").join(shown(action) for action in seen.actions))
    _add_reply(grid, turn)
    played = Text("nothing: it gives the episode up", "bold red") if turn.action is None else shown(turn.action, "bold")
    grid.add_row("plays", played)
    if turn.reward:
        grid.add_row("gains", Text(signed(turn.reward), "dim"))
    _add_credit(grid, credit)
    return Group(Text(), _who(seen.seat, names[seen.seat], agent_seat), _indented(grid))


def _opening(episode: Episode) -> Iterator[Text]:
    """The drawn first moves of an episode."""
    try:
        drawn = msgspec.convert(episode.result.facts.get("opening", ()), tuple[tuple[int, str], ...])
    except msgspec.ValidationError:
        return  # not a fact of this game; it is shown at the end
    for seat, action in drawn:
        yield Text.assemble("drawn for ", (f"seat {seat}", f"bold {seat_style(seat)}"), ": ", shown(action, "bold"))


def _ending(episode: Episode, names: tuple[str, ...], drawing: Drawing) -> RenderableType:
    result = episode.result
    table = Table(box=None, padding=(0, 2), show_header=False)
    for seat, name in enumerate(names):
        score = Text(signed(result.returns[seat]), "bold")
        told = shown(result.outcomes[seat])
        table.add_row(_who(seat, name, None), score, _result_word(episode, seat), told)
    grid = _grid()
    grid.add_row("revealed", drawing.revealed(episode))
    how = "" if result.ending is Ending.FINISHED else f" ({result.ending})"
    return Group(Text(), Text(f"The end{how}, as each seat sees it", "bold"), _indented(table), _indented(grid))


def _between(trial: Trial, index: int, credits: Sequence[TurnCredit]) -> RenderableType:
    """The agent's reflections after an episode, and the memory carried to the next."""
    grid = _grid()
    earned = iter(credits)
    for note in (r for r in trial.reflections if r.observation.episode == index):
        _add_reply(grid, note)
        grid.add_row("writes", shown(note.action or "(nothing)", "bold"))
        _add_credit(grid, next(earned, None))
    grid.add_row("crosses", carried_memory(trial.agent))
    for line in _stream_lines(trial, index):
        grid.add_row("tokens", line)
    return Group(Text(), _rule(f"between episodes {index + 1} and {index + 2}", "dim"), _indented(grid))


def _stream_lines(trial: Trial, index: int) -> Iterator[str]:
    """Whether the agent's token stream continues after episode `index`."""
    before = _agent_calls(trial, index)
    after = _agent_calls(trial, index + 1)
    if not before or not after:
        return
    first = after[0]
    if first.stream == before[-1].stream:
        yield f"stream {first.stream} goes on; the next answer has {first.start} tokens before it"
    else:
        yield f"stream {first.stream} begins: memory is rewritten, {first.start} tokens stand before the next answer"


def _agent_calls(trial: Trial, index: int) -> list[Call]:
    if index >= len(trial.episodes):
        return []
    turns = [t for t in trial.episodes[index].turns if t.observation.seat == trial.task.seat]
    return [call for turn in turns for call in turn.calls]


def _add_reply(grid: Table, turn: Turn) -> None:
    """The reply, and its model calls with their problems."""
    if turn.text and turn.text != turn.action:
        grid.add_row("says", shown(turn.text))
    for number, call in enumerate(turn.calls):
        cost = f"{len(call.completion.tokens)} tokens, log-probability {sum(call.completion.logprobs):.2f}"
        line = Text(f"{cost}, weights {call.completion.version}", "dim")
        if call.completion.truncated:
            line.append(", cut short", "yellow")
        if call.problem:
            line.append_text(shown(f"; cannot be used: {call.problem}", "red"))
        grid.add_row(f"call {number + 1}" if len(turn.calls) > 1 else "call", line)


def _add_credit(grid: Table, credit: TurnCredit | None) -> None:
    """Advantage, return and entropy of a turn."""
    if credit is None:
        return
    said = f"advantage {credit.advantage:+.3f}" if credit.advantage is not None else "not trained"
    entropies = [entropy for call in credit.calls for entropy in call.entropies if entropy is not None]
    unsure = f", entropy {sum(entropies) / len(entropies):.2f}" if entropies else ""
    grid.add_row("credit", Text(f"{said}, return {credit.return_:+.3f}{unsure}", "dim"))


def _result_word(episode: Episode, seat: int) -> Text:
    """Win, draw or loss; the ending where the episode was not finished."""
    result = episode.result
    if result.ending is Ending.FINISHED:
        word = result_verdict(result, seat)
        return Text(word, _VERDICT_STYLES[word])
    return Text("gave up" if result.forfeited_by == seat else result.ending, "red")


def _who(seat: int, name: str, agent_seat: int | None) -> Text:
    who = Text.assemble((f"seat {seat}", f"bold {seat_style(seat)}"), (" · ", "dim"), shown(name, seat_style(seat)))
    if seat == agent_seat:
        who.append(" (the agent)", "dim")
    return who


def _rule(title: str, style: str) -> Rule:
    return Rule(shown(title, style), align="left", style="dim")


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", min_width=8)
    grid.add_column(overflow="fold")
    return grid


def _indented(content: RenderableType) -> Padding:
    return Padding(content, (0, 0, 0, 2))
