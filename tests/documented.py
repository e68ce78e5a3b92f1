"""What the pages say: keys of files, code blocks, and commands, which are parsed and whose names are resolved."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer.main
from typer.core import TyperGroup

from mage.cli import app
from mage.config.load import load_config, parse_override, replaced
from mage.config.schema import Config
from mage.config.vary import parse_vary
from mage.engines.scripted import MODELS
from mage.evaluation.splits import check_split, is_path, load_split, split_names
from mage.evaluation.value.dial import parse_variation
from mage.evaluation.value.pool_members import pool_members
from mage.models.address import PREFIX, read_address
from mage.opponents.agent_seat import check_seat_agent, has_player
from mage.opponents.registry import OPPONENTS, check_opponent
from mage.spec import parse_spec, with_parameters
from mage.training.build import check, check_splits
from mage.training.sweep import plan_sweep
from mage.training.without_effect import refuse_without_effect
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world

METRICS = Path(__file__).parents[1] / "docs" / "metrics.md"
_OVERRIDE = re.compile(r"[a-z_]+(\.[a-z_]+)*=")
_PLACEHOLDER = re.compile(r"…|(?<![\w/.#])[A-Z]{3,}(?![\w/.])|\b[AB]\b")
"""What stands for a name in a sentence: RUN, SPLIT, runs/…"""


class Block(NamedTuple):
    """A fenced block: its info string and what is in it."""

    info: str
    text: str


def documented(section: str) -> list[str]:
    """The keys that docs/metrics.md defines for a file."""
    text = METRICS.read_text(encoding="utf-8")
    (found,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    keys = re.findall(r"^\| `([^`]+)` \|", found, re.MULTILINE)
    assert keys
    return keys


def fits(pattern: str, key: str) -> bool:
    """Whether a key is what a documented one, with names in angle brackets, stands for."""
    pieces = [re.escape(p) for p in re.split(r"<\w+>", pattern)]
    return re.fullmatch(".+".join(pieces), key) is not None


def blocks_in(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def lines_of(block: Block) -> list[list[str]]:
    """The commands of a block, without comments; a backslash at the end of a line joins it with the next."""
    joined = block.text.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := words_of(line))]


def words_of(line: str) -> list[str]:
    """A line as a shell splits it: a comment begins with a # that begins a word.

    >>> words_of("mage evaluate remote:URL#model  # a comment")
    ['mage', 'evaluate', 'remote:URL#model']
    """
    return shlex.split(re.sub(r"(^|\s)#.*$", "", line))


def mentioned(page: Path, program: str) -> Iterator[str]:
    """Commands of a program in a page's sentences and in blocks that are not checked as commands."""
    text = page.read_text(encoding="utf-8")
    for block in blocks_in(page):
        if not block.info.startswith("sh"):
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.removeprefix("$ ").startswith(f"{program} "):
                    yield line.removeprefix("$ ")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`]+)`", prose):
        if span.startswith(f"{program} "):
            yield " ".join(span.split())


class CommandError(Exception):
    """A command that the command line refuses."""


class IncompleteError(CommandError):
    """A command without an argument or an option that it needs: a sentence may name one like that."""


class Parsed(NamedTuple):
    """A command as the command line understands it."""

    verb: str
    words: list[str]
    """Its arguments in order, overrides apart."""
    overrides: list[str]
    options: dict[str, Any]
    """Its options by their first name, such as --world."""

    @property
    def values(self) -> dict[str, object]:
        """What its overrides say."""
        return dict(map(parse_override, self.overrides))


def parsed(arguments: Sequence[str]) -> Parsed:
    """Parse a command of mage, types and required options included; `CommandError` says what is wrong."""
    verb, *rest = arguments
    if verb == "--help":
        return Parsed(verb, [], [], {})
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    if verb not in group.commands:
        raise CommandError(f"unknown command {verb!r}")
    above = group.make_context("mage", [], resilient_parsing=True)
    _, command, _ = group.resolve_command(above, [verb])
    assert command is not None
    try:
        context = command.make_context(verb, list(rest))
    except Exception as error:  # Of the command line's own parser, which typer brings with it or not.
        kind = IncompleteError if type(error).__name__ == "MissingParameter" else CommandError
        raise kind(f"mage {' '.join(arguments)}: {error}") from error
    words: list[str] = []
    options: dict[str, Any] = {}
    for parameter in command.params:
        value = context.params.get(str(parameter.name))
        if parameter.param_type_name == "option":
            options[parameter.opts[0]] = value
        elif value is not None:
            words += [str(word) for word in (value if isinstance(value, list | tuple) else [value])]
    overrides = [word for word in words if _OVERRIDE.match(word) and verb != "compare"]
    return Parsed(verb, [word for word in words if word not in overrides], overrides, options)


def resolve(command: Parsed) -> None:
    """Look up every recipe, world, opponent, split and setting that a command names; raise what is wrong with one."""
    if command.verb in _RESOLVE:
        _RESOLVE[command.verb](command)


def is_placeholder(text: str) -> bool:
    """Whether a command in a sentence has a place for a name in it, so that nothing can be looked up."""
    return _PLACEHOLDER.search(text) is not None


def _recipes(command: Parsed) -> None:
    if command.options.get("--resume") is not None:
        replaced(Config(), command.values, "a resumed run")
        return
    assert command.words, "a recipe is named"
    for recipe in command.words:
        config = load_config(recipe, command.overrides)
        check(config)
        if command.options.get("--vary") is not None:
            plan_sweep([(recipe, config)], 1, None, parse_vary(command.options["--vary"]))
        elif command.verb in ("train", "sweep"):
            refuse_without_effect(config)
        if not any(map(is_path, config.evaluation.splits)):
            check_splits(config)


def _seated(world: str, specs: Sequence[str], own: int | None = None) -> None:
    """Specs in the other seats of a world: one for all of them or one for each; `own` seat, or every seat in turn."""
    game = load_game(world)
    assert len(specs) in ((0,) if game.num_seats == 1 else (1, game.num_seats - 1)), (world, specs)
    for seat in range(game.num_seats) if own is None else [own]:
        others = [other for other in range(game.num_seats) if other != seat]
        for other, spec in zip(others, list(specs) * (len(others) if len(specs) == 1 else 1), strict=True):
            check_opponent(spec, game, other)


def _play(command: Parsed) -> None:
    if load_world(command.words[0]).info.num_seats > 1:
        _seated(command.words[0], command.options["--against"] or [], command.options["--seat"])


def _value(command: Parsed) -> None:
    options = command.options
    pool_members(command.words[0], options["--opponents"] or [], options["--seat"], options["--episodes"])
    if options["--vary"] is not None:
        variation = parse_variation(options["--vary"])
        load_world(with_parameters(command.words[0], {variation.parameter: variation.low}))


def _duel(command: Parsed) -> None:
    player, *others = command.words
    _seated(command.options["--world"], others)
    for seat in range(load_game(command.options["--world"]).num_seats):
        check_opponent(player, load_game(command.options["--world"]), seat)


def _evaluate(command: Parsed) -> None:
    world, opponents = command.options["--world"], command.options["--opponents"] or []
    replaced(Config(), command.values, "an evaluation")
    specs = [name for name in opponents if not is_path(name) and name not in split_names()]
    for name in set(opponents) - set(specs):
        if not is_path(name):
            split = load_split(name)
            assert world in (None, split.world, split.world.partition("(")[0]), (world, split.world)
            check_split(split, range(load_world(split.world).info.num_seats))
    for agent in command.words:
        _agent(agent, world or next((load_split(name).world for name in opponents if name in split_names()), None))
        is_solo = world is not None and load_world(world).info.num_seats == 1
        assert opponents or _is_run(agent) or is_solo, "opponents are named, or a run has its own, or there are none"
    for spec in specs:
        opponent = str(read_address(spec).spec) if spec.startswith(PREFIX) else spec
        assert parse_spec(opponent).name in OPPONENTS, f"{spec} is neither a split nor an opponent"
        if world is not None:
            for seat in range(load_game(world).num_seats):
                check_opponent(opponent, load_game(world), seat)
        assert world is not None or all(map(_is_run, command.words)), f"the world of {spec} is named"


def _agents(command: Parsed) -> None:
    world = command.options["--world"]
    replaced(Config(), command.values, "a command")
    more = [*(command.options.get("--responder") or []), *filter(None, [command.options.get("--after")])]
    for agent in (*command.words, *more):
        _agent(agent, world)


def _agent(agent: str, world: str | None) -> None:
    """Something that can be evaluated: a run or model by its path, a name that is known, or an opponent that plays."""
    name = re.split(r"[(:]", agent, maxsplit=1)[0]
    if agent.startswith(PREFIX):
        read_address(agent)
    elif agent.startswith("scripted:"):
        assert agent.removeprefix("scripted:") in MODELS, agent
    elif world is not None and (name in OPPONENTS or has_player(load_world(world), agent)):
        for seat in range(load_world(world).info.num_seats):
            check_seat_agent(load_world(world), agent, seat)
    else:
        assert _is_run(agent) or name in ("nano", "smollm2", "bayes-optimal", *OPPONENTS), f"what is {agent}?"


def _is_run(agent: str) -> bool:
    return agent.startswith("runs/") or re.fullmatch(r"[a-z]", agent) is not None


def _split(command: Parsed) -> None:
    file, *members = command.words
    assert file.endswith(".json"), file
    game = load_game(command.options["--world"])
    for member in members:
        for seat in range(game.num_seats):
            check_opponent(member, game, seat)


def _world(command: Parsed) -> None:
    (spec,) = command.words
    load_world(spec)


_RESOLVE: Mapping[str, Callable[[Parsed], None]] = {
    "train": _recipes,
    "sweep": _recipes,
    "trials": _recipes,
    "plan": _recipes,
    "play": _play,
    "duel": _duel,
    "evaluate": _evaluate,
    "cross-play": _agents,
    "nashconv": _agents,
    "split": _split,
    "value": _value,
    "check-world": _world,
}
