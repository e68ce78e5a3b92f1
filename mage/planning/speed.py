"""Speed of a step: tokens a second of reading, generation and learning, and the seconds that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

from mage.config.schema import Config
from mage.planning.cards import Planned
from mage.planning.engine_memory import num_slots, server_slots
from mage.planning.figures import Basis, Rate
from mage.planning.learner_memory import FLOAT32, is_compiled, nearest
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
    num, rows = plan.shape.parameters, _rows(plan, trials)
    whole = [one for one in measured().playing if not one.lora_rank]
    used, source = _around(num, whole)
    is_same = [one.parameters for one in used] == [num] and plan.config.engine != "vllm" and plan.num_engines == 1
    reading, generation = (_at(num, [(one.parameters, _with_rows(one, rows)[at]) for one in used]) for at in (0, 1))
    rank, is_rounded = plan.config.learner.lora_rank, plan.where.number_bytes < FLOAT32
    if rank and is_rounded:  # in float32 an adapter is merged into the weights
        adapted, slower = _with_adapter()
        reading, generation = reading * slower[0], generation * slower[1]
        is_its_size = num == adapted.parameters
        is_same &= is_its_size and rank == adapted.lora_rank
        source = adapted.text if is_its_size else f"{source}; as much slower with adapters as {adapted.row}"
        source += f", of rank {adapted.lora_rank}" if rank != adapted.lora_rank else ""
    if not is_rounded:
        source += ", in bfloat16"
    if any(one.trials > rows for one in used):
        source += f"; a pass of {rows} rows is taken to last as long as one of {max(one.trials for one in used)}"
    elif any(one.trials < rows for one in used):
        source += f"; with {rows} rows a pass is taken to be no faster for each"
    is_same &= is_rounded and all(one.trials == rows for one in used)
    return PlaySpeed(reading, generation, Basis.MEASURED if is_same else Basis.EXTRAPOLATED, source)


def _around(num: int, ones: Sequence[Playing]) -> tuple[list[Playing], str]:
    """The measurements of the sizes next to a number of parameters, and what is made of them."""
    small, *_, large = ones
    for one in ones:
        if one.parameters == num:
            return [one], one.text
    if num < small.parameters:
        return [small], f"no faster than {small.text}"
    if num > large.parameters:
        return [large], f"{large.text}, slower in proportion to the parameters"
    below = max((one for one in ones if one.parameters < num), key=lambda one: one.parameters)
    above = min((one for one in ones if one.parameters > num), key=lambda one: one.parameters)
    return [below, above], f"between {below.text} and {above.row}"


def _with_adapter() -> tuple[Playing, tuple[float, float]]:
    """The measurement with an adapter, and its speeds as shares of those of the same model without one."""
    (adapted,) = (one for one in measured().playing if one.lora_rank)
    (plain,) = (one for one in measured().playing if one.shape == adapted.shape and not one.lora_rank)
    (reading, generation), (plain_reading, plain_generation) = solved(adapted), solved(plain)
    return adapted, (reading / plain_reading, generation / plain_generation)


def _with_rows(one: Playing, rows: int) -> tuple[float, float]:
    """Tokens read and sampled a second with so many rows to a pass; however few they are, it reads all weights."""
    reading, generation = solved(one)
    return reading, generation * min(1.0, rows / one.trials)


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
    (read_1, sampled_1), (read_2, sampled_2) = played.choice(one.trials), played.text(one.trials)
    determinant = read_1 * sampled_2 - read_2 * sampled_1
    read_s = (one.choice_s * sampled_2 - one.text_s * sampled_1) / determinant
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
    return PlaySpeed(speed, speed, Basis.EXTRAPOLATED if plan.config.engine == "vllm" else basis, source)


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
