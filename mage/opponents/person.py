"""A person who plays in a terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from rich.columns import Columns
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from mage.rollout.trial import PlayerLeftError
from mage.runs.drawings import drawing_of, shown
from mage.types import AgentInfo, Memory, Observation, Reply, Task

Ask = Callable[[str], str]
"""Shows a prompt and returns a line; raises EOFError or KeyboardInterrupt when the person leaves."""
Say = Callable[[RenderableType], None]

LEAVE = "q"
RULES = "?"


class Person:
    """Shows the observations and asks for moves and notes. It sees what an agent in its seat would see."""

    def __init__(self, rules: str, task: Task, ask: Ask, say: Say) -> None:
        self.info = AgentInfo("person", Memory.BOTH, None)
        self._rules = rules
        self._episodes = task.episodes
        self._drawing = drawing_of(task.world)
        self._ask_line = ask
        self._say = say
        self._episode: int | None = None
        self._asking = False
        self._leaving = False

    async def act(self, observation: Observation) -> Reply:
        self._announce(observation.episode)
        self._say(Text())
        self._show(observation)
        is_open = not observation.actions
        hint = self._drawing.menu(observation)
        numbered = not hint and not any(action.strip().isdecimal() for action in observation.actions)
        menu = shown(hint, "dim") if hint else _menu(observation.actions, numbered)
        self._say(Text() if is_open else Padding(menu, (1, 0, 0, 2)))
        while True:
            line = self._ask(f"Your move ({RULES} rules, {LEAVE} leaves): ", observation.actions)
            if line == RULES and RULES not in observation.actions:
                self._say(shown(self._rules, "italic"))
                continue
            action, problem = parse_text(line) if is_open else parse_choice(line, observation.actions, numbered)
            if action is not None:
                return Reply(action, "", ())
            self._say(shown(f"{line!r} is not one of the moves. {hint}" if hint else problem, "yellow"))

    async def reflect(self, outcome: Observation) -> Reply | None:
        self.tell(outcome.text)
        note = self._ask(f"A note to yourself for the next episode (Enter skips, {LEAVE} leaves): ", ())
        return Reply(note, note, ()) if note else None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()

    def tell(self, outcome: str) -> None:
        """Show how an episode ended."""
        self._say(Text())
        self._say(Padding(shown(outcome, "bold"), (0, 0, 0, 2)))

    @contextmanager
    def leaving_on_interrupt(self) -> Iterator[None]:
        """Make Ctrl-C mean "leave at the next move" also while a model computes; a second one stops the process."""
        before = signal.signal(signal.SIGINT, self._interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._asking or self._leaving:
            raise KeyboardInterrupt
        self._leaving = True

    def _announce(self, episode: int) -> None:
        if self._episode is None:
            self._say(shown(self._rules, "italic"))
        if episode != self._episode:
            self._episode = episode
            self._say(Text())
            self._say(Text(f"Episode {episode + 1} of {self._episodes}", "bold blue"))

    def _show(self, observation: Observation) -> None:
        position = self._drawing.position(observation)
        self._say(Padding(shown(observation.text) if position is None else position, (0, 0, 0, 2)))

    def _ask(self, prompt: str, actions: Sequence[str]) -> str:
        """A trimmed line of valid text."""
        if self._leaving:
            raise PlayerLeftError("the person left the table")
        self._asking = True
        try:
            line = self._ask_line(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            self._say(Text())
            raise PlayerLeftError("the person left the table") from None
        finally:
            self._asking = False
        if line.casefold() == LEAVE and line not in actions:
            raise PlayerLeftError("the person left the table")
        # A terminal may return bytes that are not valid UTF-8.
        return line.encode("utf-8", "replace").decode()


def parse_text(line: str) -> tuple[str | None, str]:
    """The line as an action of a world in which any text is one; else None and the problem.

    >>> parse_text("search shoes"), parse_text("")
    (('search shoes', ''), (None, 'Type what you want to do.'))
    """
    return (line, "") if line else (None, "Type what you want to do.")


def parse_choice(line: str, actions: Sequence[str], numbered: bool) -> tuple[str | None, str]:
    """The action a line names by number, if they are numbered, by word, by its brackets or by initials; else a problem.

    >>> parse_choice("2", ["pass", "bet"], True), parse_choice("BET", ["pass", "bet"], True)
    (('bet', ''), ('bet', ''))
    >>> parse_choice("uul", ["up", "up up left"], True)
    ('up up left', '')
    >>> parse_choice("buy now", ["click[features]", "click[buy now]"], True)
    ('click[buy now]', '')
    >>> parse_choice("3", ["pass", "bet"], True)[1]
    'There is no 3; choose 1 to 2, or a word.'
    """
    if line in actions:
        return line, ""
    if numbered and line.isascii() and line.isdecimal():
        if 1 <= int(line) <= len(actions):
            return actions[int(line) - 1], ""
        return None, f"There is no {line}; choose 1 to {len(actions)}, or a word."
    wanted = " ".join(line.split()).casefold()
    matches = [a for a in actions if " ".join(a.split()).casefold() == wanted]
    matches = matches or [a for a in actions if wanted and _in_brackets(a) == wanted]
    matches = matches or [a for a in actions if wanted and _initials(a) == wanted]
    if len(matches) == 1:
        return matches[0], ""
    if matches:
        return None, f"{line!r} may be {' or '.join(matches)}; write it exactly."
    how = ("a number or a word" if numbered else "a word") + (" or initials" if any(" " in a for a in actions) else "")
    return (
        None,
        f"{line!r} is not one of the moves; type {how} from the list." if line else f"Type {how} from the list.",
    )


def _in_brackets(action: str) -> str:
    """The words between the brackets of an action such as search[red shoes]; empty where there are none."""
    before, _, inner = " ".join(action.casefold().split()).partition("[")
    return inner.removesuffix("]") if before and inner.endswith("]") else ""


def _initials(action: str) -> str:
    return "".join(word[0] for word in action.casefold().split())


def _menu(actions: Sequence[str], numbered: bool) -> Columns:
    """The legal actions, with numbers unless the actions themselves are numbers."""
    labels = [f"{n}) " if numbered else "" for n in range(1, len(actions) + 1)]
    entries = [Text.assemble((n, "dim"), shown(a, "bold")) for n, a in zip(labels, actions, strict=True)]
    return Columns(entries, padding=(0, 3))
