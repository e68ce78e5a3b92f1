"""`mage.plan`: what a recipe needs and how fast it goes on a number of cards, before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from numbers import Real
from types import UnionType

from mage.arguments import check_kind, wrong_kind
from mage.config.load import load_config
from mage.config.schema import Config
from mage.engines.vllm.availability import check_named_once
from mage.errors import ConfigError
from mage.models.load import is_ours
from mage.planning.cards import Machine, Planned, cards_of, check_machine
from mage.planning.figures import Basis, Card, PlanReport, Rate
from mage.planning.fit import too_large, verdict
from mage.planning.learner_memory import BFLOAT16, FLOAT32, Placement, trained_parameters
from mage.planning.measured import measured
from mage.planning.plan_tables import plan_table
from mage.planning.shapes import shape_of
from mage.planning.speed import step_rates
from mage.planning.trial_tokens import TrialTokens, count_trial_tokens
from mage.runs.console import as_text
from mage.spec import parse_spec
from mage.training.build import check, worlds_of
from mage.training.combinations import check_combinations
from mage.types import Device, Dtype

CARD_GIB = 80.0
PER_NODE = 8
_WHOLE, _ANY = "a whole number", "a number"
_NUMBERS: dict[str, tuple[type | UnionType, str, float, float]] = {
    "gpus": (int | None, _WHOLE, 0, 100_000),
    "gib": (Real, _ANY, 1, inf),
    "per_node": (int, _WHOLE, 1, inf),
    "trial_tokens": (Real | None, _ANY, 1, inf),
}
"""Arguments of `plan`: of which types they are, what to call them, and from where to where they go."""


class Plan(PlanReport, frozen=True):
    """A plan that prints as tables."""

    def __str__(self) -> str:
        return as_text(plan_table(self))


def plan(
    recipe: str,
    overrides: Mapping[str, object] | Sequence[str] | None = None,
    *,
    model: str | None = None,
    gpus: int | None = None,
    gib: float = CARD_GIB,
    per_node: int = PER_NODE,
    trial_tokens: int | None = None,
) -> Plan:
    """What a recipe needs of each card, and how fast a step is, from sizes and measured constants; nothing is loaded.

    `model` replaces the recipe's: anything that `agent.model` takes, or the name of a shape such as `qwen3-4b`, `7b` or
    `70b`. `gpus` is the number of cards, 0 for a CPU; by default 1, or 0 where the recipe's device is `cpu`. Each has
    `gib` GiB of memory; a machine has `per_node` of them. Tokens of a trial are counted in trials that are played at
    random, where `trial_tokens` does not say how many there are.
    """
    _check_numbers({"gpus": gpus, "gib": gib, "per_node": per_node, "trial_tokens": trial_tokens})
    config = load_config(recipe, overrides)
    check_kind("model", model, str | None, "a text: a model, or the name of a shape such as '7b'")
    check(config)
    check_combinations(config)
    check_named_once(config.agent.server)
    if config.league.learners:
        raise ConfigError(f"league.learners = {config.league.learners}: a league is not planned for; set it to 0")
    if config.agent.model.startswith("scripted:") and model is None:
        raise ConfigError(f"agent.model = {config.agent.model}: a script needs no plan; give --model")
    num = gpus if gpus is not None else 0 if config.device is Device.CPU else 1
    machine = Machine(num, gib if num else 0.0, per_node)
    check_machine(config, machine)
    name = config.agent.model if model is None else model
    shape = shape_of(name, worlds_of(config))
    planned = Planned(shape, config, _placement(config, num), machine)
    cards = cards_of(planned)
    tokens, counted = _tokens(config, name, trial_tokens)
    return Plan(
        recipe,
        shape,
        shape.parameters,
        trained_parameters(shape, config.learner),
        "bfloat16" if planned.where.number_bytes == BFLOAT16 else "float32",
        num,
        machine.gib,
        tuple(cards),
        (counted, *step_rates(planned, tokens)),
        not too_large(cards, machine),
        verdict(planned, cards),
        tuple(_notes(planned, cards)),
    )


def _check_numbers(given: Mapping[str, float | None]) -> None:
    """Raise a ConfigError for numbers that no cards and no trial have."""
    for name, value in given.items():
        kinds, called, least, most = _NUMBERS[name]
        allowed = f"{called} from {least} " + ("up" if most == inf else f"to {most}")
        check_kind(name, value, kinds, allowed)
        if value is not None and not (least <= value <= most and value < inf):
            raise wrong_kind(name, value, allowed)


def _placement(config: Config, gpus: int) -> Placement:
    """On which device and in which numbers a config computes there."""
    is_rounded = config.dtype is Dtype.BFLOAT16 or (config.dtype is Dtype.AUTO and gpus > 0)
    return Placement(gpus > 0, BFLOAT16 if is_rounded else FLOAT32)


def _tokens(config: Config, model: str, given: int | None) -> tuple[TrialTokens, Rate]:
    """The tokens of a trial, counted or given, and how they are known."""
    is_nano = is_ours(model) and parse_spec(model).name == "nano"
    found = count_trial_tokens(config, measured().bytes_per_token(is_nano=is_nano))
    if given is None:
        source = "trials played at random, bytes by those of a token of rps; free text at its full length"
    else:
        found = found._replace(read=max(1.0, given - found.answers))
        source = "given"
    return found, Rate("trial", found.total, "tokens", Basis.EXTRAPOLATED if given is None else Basis.COMPUTED, source)


def _notes(plan: Planned, cards: Sequence[Card]) -> list[str]:
    """What the tables do not say."""
    config, ranks = plan.config, plan.config.learner.ranks
    notes = []
    if plan.machine.gpus:
        notes.append(f"Speeds are those of {measured().machine}; other cards were not measured.")
    per_node, whole = plan.machine.per_node, plan.where.number_bytes * plan.shape.parameters / 1e9
    if plan.machine.gpus and ranks > per_node:
        notes.append(f"{ranks} ranks are on {-(-ranks // per_node)} machines, where torchrun starts them.")
    num_hosts = len({card // per_node for card in plan.worker_cards})
    if num_hosts > 1:
        notes.append(
            f"{config.rollout.workers} workers are on {num_hosts} machines; the run joins their Ray by rollout.address."
        )
    if ranks > 1:
        trained = plan.where.number_bytes * trained_parameters(plan.shape, config.learner) / 1e9
        notes.append(
            f"Rank 0 gathers the trained weights of a checkpoint in the memory of its host: {trained:,.0f} GB."
        )
    if config.engine == "vllm" and plan.machine.gpus:
        each = " for each server" if plan.serving and plan.num_engines > 1 else ""
        slower = "vLLM was 1.3 to 9.7 times slower on one card (benchmarks/speed.md)"
        several = ", and was not measured on several" if plan.serving else ""
        notes.append(f"The speed of play is that of our engine on one card{each}; {slower}{several}.")
    elif config.engine == "vllm":
        notes.append("The speed of play is that of our engine; vLLM was not measured on a CPU.")
    if plan.serving and ranks > 1:
        loaded = FLOAT32 * plan.shape.parameters / 1e9
        notes.append(
            f"The model is loaded on rank 0's host, {loaded:,.0f} GB in float32 at first; {whole:,.0f} GB are there "
            "again for each publication, which is checked there."
        )
    unused = sum(card.count for card in cards if not card.parts)
    if unused:
        others = ", rollout.workers with rollout.gpus play on others"
        if plan.serving:
            others = ""
        elif config.rollout.workers and config.rollout.gpus > 1:
            others = f", and a worker plays on the first of its {config.rollout.gpus:g} alone"
        notes.append(
            f"{unused} of {plan.machine.gpus} cards are not used: learner.ranks shards the learner over up to "
            f"{plan.machine.gpus}{others}."
        )
    if not config.agent.slots and plan.machine.gpus and config.engine != "vllm":
        notes.append(
            "agent.slots = 0: as many as fit when the engine is made, before the learner is; a number is surer."
        )
    return notes
