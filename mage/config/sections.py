"""The sections of a config: one frozen model each, with a docstring under each key."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from mage.config.frozen_model import FrozenModel
from mage.types import (
    AlarmAction,
    DeadGroups,
    Divergence,
    Memory,
    Objective,
    ReplyMode,
    Thoughts,
    Weight,
)

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class TrialConfig(FrozenModel):
    """The trials that are played."""

    episodes: Positive = 3
    """Episodes of one trial; memory is carried between them."""
    seats: tuple[Count, ...] = (0,)
    """Seats that the agent plays; tasks take them in turn."""
    replay_deal: bool = False
    """Every episode deals the cards of the first one."""
    early_stop: bool = False
    """End a trial after its first episode with a success: a positive score where the world does not say otherwise."""
    max_turns: Positive = 1000
    """Moves after which an episode is truncated."""


class PopulationConfig(FrozenModel):
    """The opponents that tasks draw from, or the levels in a world of one seat."""

    split: str = ""
    """A split whose members are added to `members`: a shipped one, or the path of a file that ends in .json."""
    members: tuple[str, ...] = ()
    """Opponent specs. A spec without a seed or a phase is a family: each task draws a member of it. In a world of one
    seat: levels; where there are none, each task's seed draws what is hidden."""
    weights: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """Relative frequency of each member; empty: those of the split, else all equal."""
    wordings: Count = 0
    """Number of wordings of `world` that training plays: each task draws one of the seeds 1 to this of `reworded`, and
    its siblings share it. Seeds that a split holds out are refused. 0: the words of `world`; docs/environments.md."""
    sampler: str = "auto"
    """How opponents are drawn: weighted, uniform, prioritised, psro or anchored; docs/league.md compares them. auto:
    anchored in a league; without one weighted, whatever the options."""
    options: dict[str, bool | int | float | str] = Field(default={})
    """Parameters of the sampler."""
    half_life: Annotated[float, Field(gt=0)] = 50.0
    """Number of later results against the same member after which a learner's result has half its weight in the
    pay-offs that samplers use."""


class LeagueConfig(FrozenModel):
    """Several learners in one run, which play each other, their snapshots and the population."""

    learners: Count = 0
    """Number of learners, which share `batch.groups` equally. 0: one agent against the population, no league."""
    both: bool = True
    """Where two learners play each other, both learn, each from its own seat."""
    itself: bool = True
    """The only learner of a league also plays itself."""
    snapshot_every: Count = 25
    """Steps between snapshots of every learner without an alarm condition; 0: never."""
    snapshots: Count = 8
    """Most snapshots kept; the one most similar to a newer one is removed first."""
    exploit_every: Count = 0
    """Steps between exploit and explore (population-based training); 0: never."""
    explore: tuple[str, ...] = ("learner.lr", "learner.entropy_start")
    """Settings that each learner has its own value of; docs/league.md lists those that can be explored."""
    factor: Annotated[float, Field(gt=1)] = 1.25
    """Exploring multiplies or divides a setting by this."""
    nashconv_every: Count = 0
    """Steps between computations of each learner's NashConv without memory, for small two-player worlds; 0: never."""


class AgentConfig(FrozenModel):
    """The language model that plays, and how it is prompted."""

    model: str = "scripted:counter"
    """A model name or path, or `scripted:NAME` for an engine that answers from a Python function. A run records a path
    as an absolute one."""
    method: str = "plain"
    """How the model is prompted: plain, react, reflexion, linked-notes or cases. docs/baselines.md says what each adds
    and which memory it takes."""
    memory: Memory = Memory.BOTH
    """What crosses an episode boundary: none, history, reflections or both."""
    reply: ReplyMode = ReplyMode.CHOICE
    """`choice`: constrained to the legal actions. `text`: free reasoning, then a tagged action."""
    temperature: Annotated[float, Field(ge=0, le=10)] = 1.0
    """Sampling temperature. There is no top-p or top-k: they bias importance ratios."""
    prefill: str = ""
    """Text that answers in `text` mode begin with; the prompt then shows actions in tags. `<action>` is for models too
    small to write the tag by themselves, which are then asked for no thought; `Thought:` is for those that give a bare
    action otherwise. Remote models do not support it."""
    max_tokens: Positive = 128
    """Longest answer in `text` mode, and longest thought of the method react."""
    reflection_tokens: Positive = 64
    """Longest reflection."""
    tutor: str = ""
    """A regular expression with one group. In the first `tutor_steps` steps, its match in an episode's outcome is
    stored in place of the agent's reflection, which gets no advantage then: the agent first learns to use memory."""
    tutor_steps: Count = 0
    """Steps in which all tasks are tutored."""
    tutor_fade: Count = 0
    """Further steps over which the share of tutored tasks falls to zero."""
    thoughts: Thoughts = Thoughts.KEEP
    """Thoughts in the history, which are text between think tags and what stands before an action: `keep` them as
    sampled, or `strip` them. Stripping begins a new stream after each answer with a thought, so the cost of playing and
    training grows with the square of the number of turns."""
    retries: Count = 1
    """How often an invalid answer is asked for again before the episode is forfeited."""
    context: Positive = 4096
    """Most tokens that a prompt and its answer may have together."""
    slots: Count = 0
    """Calls that the engine runs in one batch; each reserves the memory of a full context. 0: as many as fit into a
    share of the free GPU memory, or into 1 GiB on a CPU, at most 1,024. Changes results by rounding only."""
    server: tuple[str, ...] = ()
    """The addresses of running vLLM servers on this machine that share the play, for `engine = "vllm"`; one may stand
    without brackets: http://127.0.0.1:8000. Empty: vLLM runs in this process. docs/scaling.md has the command that
    starts one."""

    @field_validator("server", mode="before")
    @classmethod
    def _with_one_address(cls, given: object) -> object:
        """A text is one address, or none where it is empty."""
        return ((given,) if given else ()) if isinstance(given, str) else given


class RolloutConfig(FrozenModel):
    """Where the trials of training are played; docs/scaling.md."""

    workers: Count = 0
    """Processes with a world and an engine each, run by Ray, that play the trials of training. 0: they are played in
    this process."""
    address: str = ""
    """The Ray cluster that runs the workers, as `ray.init` takes it: host:port, or `auto` on one of its machines.
    Empty: a Ray on this machine, which the run starts and stops."""
    cpus: Positive = 1
    """CPUs of each worker, and the threads of its engine."""
    gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of each worker; below 1 where workers share one."""
    lag: Count = 0
    """Updates that play may be ahead of learning: the trials of a step are played with the weights of so many updates
    before it, so that workers play while the learner learns. 0: with the newest weights."""
    chunk: Positive = 64
    """Trials that are given to a worker at once. A chunk is played alone, from an empty prefix cache, so that a trial
    is the same with any number of workers; a larger one fills a large engine better."""

    def gpu_of(self, number: int) -> int:
        """The first GPU of a worker, both counted from 0 on one machine; workers with shares are not split over two.

        >>> [RolloutConfig(gpus=0.4).gpu_of(number) for number in range(3)], RolloutConfig(gpus=2).gpu_of(1)
        ([0, 0, 1], 2)
        """
        return number * int(self.gpus) if self.gpus >= 1 else number // self.workers_of(1)

    def workers_of(self, num_gpus: int) -> int:
        """Workers that so many GPUs of one machine are enough for; Ray gives out shares in parts of 10,000."""
        return num_gpus // int(self.gpus) if self.gpus >= 1 else num_gpus * (10_000 // round(10_000 * self.gpus))


class BatchConfig(FrozenModel):
    """The trials of one training step."""

    groups: Positive = 32
    """Tasks per step."""
    size: Annotated[int, Field(ge=2)] = 8
    """Sibling trials per task, which are compared with each other."""
    dead: DeadGroups = DeadGroups.RESAMPLE
    """Dead groups, whose siblings all scored alike. `drop`: leave them out; `keep`: train on them without advantages
    but with the entropy bonus, which can undo a collapsed policy; `resample`: leave them out and play as many new
    tasks, once a step."""
    replay: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of a step's tasks that are replayed: drawn from earlier tasks, more often the further their scores
    are below the best of their kind (task_replay.py)."""


class CreditConfig(FrozenModel):
    """Returns and advantages."""

    objective: Objective = Objective.CUMULATIVE
    """single, cumulative (LaMer), cumulative-paper, differential (MAGE) or final."""
    turn: Share = 1.0
    """Discount between turns of one episode."""
    episode: Share = 1.0
    """Discount across an episode boundary."""
    to_go: bool = False
    """Leave out of a turn's return what was decided before the turn: the same gradient in expectation, whatever the
    discounts and the lengths of episodes, and less noise. Matters for differential and final only."""
    estimator: str = "agent-specific"
    """agent-specific, grpo, rloo, reinforce, gigpo, ppo or cloning."""
    options: dict[str, bool | int | float | str] = Field(default={})
    """Parameters of the estimator."""
    invalid_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Subtracted from a turn's reward for every invalid reply."""
    truncated_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Subtracted from a turn's reward for every reply that reached the token limit."""
    length_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Subtracted for every token of a `text` answer or a reflection beyond `length_free`; 0: off."""
    length_free: Count = 0
    """Tokens of a `text` answer or a reflection without penalty, its end token counted."""


class LearnerConfig(FrozenModel):
    """The update of the weights."""

    kind: str = "local"
    """What updates the weights: `local`, in this process, or a name that a plugin registered; docs/models.md."""
    ranks: Positive = 1
    """Processes that share the work and the memory of learning, each with a GPU of its own where there are; see
    docs/scaling.md."""
    lr: Annotated[float, Field(gt=0)] = 1e-3
    """Learning rate of AdamW."""
    warmup: Count = 0
    """Updates over which the learning rate rises linearly."""
    decay: bool = False
    """Decay the learning rate linearly to zero over the run."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Weight decay of AdamW."""
    grad_clip: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of the gradient."""
    epochs: Positive = 1
    """Passes over each batch."""
    minibatches: Positive = 1
    """Optimizer steps per pass."""
    token_budget: Literal["auto"] | Positive = 16384
    """Positions per micro-batch, padding included; changes memory use, not results. Halved when memory runs out. auto:
    on a GPU it follows the memory that is free, on a CPU it is 4096."""
    gradient_checkpointing: bool = False
    """Keep only each layer's input and recompute the rest for the gradient: a third more compute, far less memory."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the decoder layers: true, false, or auto (true on CUDA, false on a CPU)."""
    lora_rank: Count = 0
    """Rank of a LoRA adapter, which alone is trained; 0 trains all weights."""
    lora_alpha: Count = 0
    """The adapter is scaled by `lora_alpha / lora_rank`; 0: twice the rank."""
    lora_targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layers that get an adapter: `all-linear` for all but the head, or a list of names such as q_proj."""
    lora_init: str = ""
    """Directory of an adapter to begin with, as `mage export-model` writes one, of the same base, rank, scale and
    layers; empty: a new adapter, which changes nothing at first."""
    weight: Weight = Weight.TURN
    """What has equal weight in the loss: turn, token or sequence."""
    clip_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """The ratio is clipped at 1 minus this."""
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    """The ratio is clipped at 1 plus this."""
    dual_clip: Annotated[float, Field(gt=1)] = 3.0
    """Bound of the ratio where the advantage is negative (dual-clip PPO)."""
    divergence: Divergence = Divergence.NONE
    """Estimator of the KL divergence from the initial weights, a penalty: none, k1, k2 or k3. docs/method.md says what
    each is the gradient of; that of k1 is zero, so it can only be measured, with a weight of 0."""
    divergence_weight: Annotated[float, Field(ge=0)] = 0.0
    """Coefficient of that penalty."""
    entropy_start: Annotated[float, Field(ge=0)] = 0.0
    """Entropy bonus at the first step."""
    entropy_end: Annotated[float, Field(ge=0)] = 0.0
    """Entropy bonus at the last step."""
    entropy_reflect: Annotated[float, Field(ge=0)] = 0.0
    """Weight of a reflection's entropy in the bonus, relative to that of play turns."""
    entropy_even: Annotated[float, Field(ge=0)] = 0.0
    """Weight in the bonus of -KL(uniform || policy) over the allowed ids, relative to entropy. Where one move has
    nearly all the probability the gradient of entropy vanishes; that of this term does not: no move dies out."""
    entropy_floor: Share = 0.0
    """The bonus is raised while the normalised entropy of play turns is below this; 0: off."""
    prediction_weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the next-token loss on what the agent reads; teaches a random model the language of the world."""
    value_weight: Annotated[float, Field(ge=0)] = 0.5
    """Weight of the value loss, for ppo."""
    max_skips: Count = 3
    """Consecutive updates that may be skipped because the loss or gradient was not finite, before the run stops."""


class EvaluationConfig(FrozenModel):
    """Evaluation while a run trains and when it ends."""

    every: Count = 0
    """Steps between evaluations; 0: only at the end."""
    splits: tuple[str, ...] = ()
    """Splits to evaluate on: shipped ones, paths of .json files, or `population`: the members that are trained on."""
    trials: Positive = 4
    """Trials per member and seat in evaluations while training."""
    final_trials: Positive = 20
    """Trials per member and seat at the end."""
    seed: Count = 1_000_003
    """Seed of the evaluation tasks: the same for every method, at every evaluation."""


class AlarmConfig(FrozenModel):
    """Detection of collapse, and what to do then."""

    entropy: Share = 0.02
    """Alarm when the normalised entropy of play turns is below this."""
    invalid: Share = 0.5
    """Alarm when more than this share of replies is invalid."""
    dead: Share = 0.9
    """Alarm when more than this share of groups is dead."""
    distinct: Share = 0.1
    """Alarm when the first texts of siblings differ less than this: 0 is all the same, 1 is no two."""
    asymmetry: Annotated[float, Field(gt=0)] = 10.0
    """Alarm when the mean scores of two seats differ by more than this."""
    drop: Annotated[float, Field(gt=0)] = 10.0
    """Alarm when the last episode's score on a split falls more than this below its best."""
    gap: Annotated[float, Field(gt=0)] = 0.05
    """Alarm when the mean absolute difference of engine and learner log-probabilities is above this."""
    ratios: Share = 0.01
    """Alarm when more than this share of tokens has a learner-to-engine probability ratio outside 0.8 to 1.25."""
    truncated: Share = 0.05
    """With `rollout.lag`, in place of the two before: alarm when more than this share of importance weights is
    truncated."""
    patience: Positive = 5
    """Consecutive bad steps before an alarm is raised; a fallen evaluation score raises it at once."""
    action: AlarmAction = AlarmAction.PRINT
    """print, stop, or rollback to the last healthy checkpoint."""


class CheckpointConfig(FrozenModel):
    """Checkpoints and transcripts."""

    every: Positive = 50
    """Steps between checkpoints."""
    keep: Positive = 2
    """Number of newest checkpoints to keep; the best one is kept as well."""
    transcripts: Count = 25
    """Steps between transcripts that are written; 0: none."""
