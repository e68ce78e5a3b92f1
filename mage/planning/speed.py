"""Speed of a step: tokens a second of reading, generation and learning, and the seconds that follow from them."""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

from mage.config.schema import Config
from mage.planning.cards import Planned
from mage.planning.engine_memory import num_slots, server_slots
from mage.planning.figures import Basis, Rate
from mage.planning.learner_memory import is_compiled, nearest
from mage.planning.measured import Playing, measured
from mage.planning.shapes import Shape, shape_of
from mage.planning.trial_tokens import TrialTokens
from mage.types import DeadGroups, Divergence

_TERA = 1e12
_ALIKE = 0.1
"""Samples whose lengths differ by less than this are alike."""


class PlaySpeed(NamedTuple):
    """Tokens a second of one engine, its host included."""

    reading: float
    generation: float
    basis: Basis
    source: str


def step_rates(plan: Planned, tokens: TrialTokens) -> list[Rate]:
    """Speeds by part, and the seconds of a step."""
    config = plan.config
    trials = config.batch.groups * config.batch.size
    engines, workers = plan.num_engines, config.rollout.workers
    play, learn = play_speed(plan, trials), learn_speed(plan, tokens)
    learned = trials * tokens.total * config.learner.epochs
    play_s = trials * (tokens.read / play.reading + tokens.sampled / play.generation) / engines
    if workers:
        play_s += trials * measured().worker.trial_ms / 1000 / engines
    learn_s = learned / learn.value
    many = f" of {engines} engines" if engines > 1 else ""
    resampled = "; dead groups that are played again come on top" if config.batch.dead is DeadGroups.RESAMPLE else ""
    by = f"{workers} workers, {measured().worker.page}" if workers else f"{engines} servers, as if each were alone"
    shared = play.source + (f"; shared by {by}" if engines > 1 else "")
    return [
        Rate("reading" + many, play.reading * engines, "tokens/s", play.basis, shared),
        Rate("generation" + many, play.generation * engines, "tokens/s", play.basis, shared),
        learn,
        Rate("playing", play_s, "s a step", Basis.EXTRAPOLATED, f"{trials} trials at these speeds{resampled}"),
        Rate("learning", learn_s, "s a step", Basis.EXTRAPOLATED, f"{learned:,.0f} tokens at this speed"),
        Rate("step", play_s + learn_s, "s", Basis.EXTRAPOLATED, "both; evaluations and checkpoints come on top"),
    ]


def play_speed(plan: Planned, trials: int) -> PlaySpeed:
    """The speed of one engine of a run."""
    if not plan.where.is_cuda:
        return _cpu_play(plan)
    num = plan.shape.parameters
    small, *_, large = measured().playing
    speeds = [(one.parameters, *solved(one)) for one in (small, large)]
    if num == small.parameters:
        basis, source = Basis.MEASURED, small.text
    elif num < small.parameters:
        basis, source = Basis.EXTRAPOLATED, f"no faster than {small.text}"
    elif num <= large.parameters:
        basis, source = Basis.EXTRAPOLATED, f"between {small.text} and {large.row}"
    else:
        basis, source = Basis.EXTRAPOLATED, f"{large.text}, slower in proportion to the parameters"
    reading, generation = (_at(num, [(speed[0], speed[at]) for speed in speeds]) for at in (1, 2))
    rows, full = _rows(plan, trials), measured().played.trials
    if rows < full:
        # A pass reads all weights, however few rows it has.
        generation *= rows / full
        basis, source = Basis.EXTRAPOLATED, f"{source}; a pass of {rows} rows is taken to last as long as one of {full}"
    return PlaySpeed(reading, generation, basis, source)


def _rows(plan: Planned, trials: int) -> int:
    """Trials that an engine plays at once."""
    config, machine = plan.config, plan.machine
    has_workers = config.rollout.workers > 0
    if config.agent.server:
        return min(server_slots(config), -(-trials // plan.num_engines))
    slots = num_slots(plan.shape, config, plan.where, machine.card_bytes, is_trained=not has_workers)
    return min(slots, min(trials, config.rollout.chunk) if has_workers else trials)


def solved(one: Playing) -> tuple[float, float]:
    """Tokens read and tokens sampled a second, from the two rollouts of a measurement.

    Both have times that are a sum of a part for every token read and one for every token sampled.
    """
    played = measured().played
    read_1, read_2 = played.choice_tokens - played.choice_sampled, played.text_tokens - played.text_sampled
    determinant = read_1 * played.text_sampled - read_2 * played.choice_sampled
    read_s = (one.choice_s * played.text_sampled - one.text_s * played.choice_sampled) / determinant
    sampled_s = (read_1 * one.text_s - read_2 * one.choice_s) / determinant
    return 1 / read_s, 1 / sampled_s


def _at(num: int, points: list[tuple[int, float]]) -> float:
    """A speed at a number of parameters: a power law between two points, constant below, in proportion above."""
    (low, slow), (high, fast) = points[0], points[-1]
    if num <= low:
        return slow
    if num >= high:
        return fast * high / num
    share = log(num / low) / log(high / low)
    return exp(log(slow) + share * (log(fast) - log(slow)))


def _cpu_play(plan: Planned) -> PlaySpeed:
    step = measured().cpu_step
    slower, basis = _than_nano(plan.shape)
    speed = step.tokens / step.play_s / slower
    source = f"{step.page}: a step of rps with nano, {measured().cpu}; reading and generation are not told apart"
    return PlaySpeed(speed, speed, basis, source)


def _than_nano(shape: Shape) -> tuple[float, Basis]:
    """How much slower a model is on a CPU than nano, by its parameters without embeddings."""
    nano = shape_of("nano").body_parameters
    is_same = shape.body_parameters == nano
    return max(1.0, shape.body_parameters / nano), Basis.MEASURED if is_same else Basis.EXTRAPOLATED


def learn_speed(plan: Planned, tokens: TrialTokens) -> Rate:
    """Tokens a second of the learner, all ranks together."""
    config = plan.config.learner
    if not plan.where.is_cuda:
        step = measured().cpu_step
        slower, basis = _than_nano(plan.shape)
        source = f"{step.page}: an update of nano, {measured().cpu}, seconds of the processor"
        return Rate("learning", step.tokens / step.update_s / slower, "tokens/s", basis, source)
    one, is_same = nearest(plan.shape, config, plan.where)
    speed = one.tflops * _TERA / operations(plan.shape, plan.config, tokens) * config.ranks
    notes = [f"{one.tflops:g} TFLOP/s of {one.text}"]
    if one.compiled is not is_compiled(config, plan.where):
        notes.append("which is eager, not compiled" if not one.compiled else "which is compiled, not eager")
    if config.ranks > 1:
        notes.append(f"times {config.ranks} ranks: traffic between cards was not measured and is not counted")
    # Longer samples have more attention, and free text more rows of the head.
    is_same &= abs(tokens.total / one.sample_tokens - 1) < _ALIKE
    is_same &= abs(tokens.free - one.free_tokens) <= _ALIKE * one.free_tokens
    return Rate("learning", speed, "tokens/s", Basis.MEASURED if is_same else Basis.EXTRAPOLATED, ", ".join(notes))


def operations(shape: Shape, config: Config, tokens: TrialTokens) -> float:
    """Floating-point operations of the learner for one token, as benchmarks/learner_speed.py counts them."""
    learner = config.learner
    passes = 4 if learner.lora_rank else 6
    attention = 6.0 * shape.num_hidden_layers * shape.query_width * tokens.total
    head = passes * shape.hidden_size * shape.vocab_size * tokens.free / tokens.total
    extra = 2 * (learner.gradient_checkpointing + (learner.divergence is not Divergence.NONE))
    return (passes + extra) * shape.body_parameters + attention + head
