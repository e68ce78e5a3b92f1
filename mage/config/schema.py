"""The keys of a recipe, one frozen model per section, a docstring under each key."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from mage.types import (
    AlarmAction,
    DeadGroups,
    Device,
    Divergence,
    Dtype,
    Memory,
    Objective,
    ReplyMode,
    Thoughts,
    Weight,
)

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class FrozenModel(BaseModel):
    """Base of all sections: immutable, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class TrialConfig(FrozenModel):
    """What a trial is."""

    episodes: Positive = 3
    """Episodes of one trial; memory is carried between them."""
    seats: tuple[Count, ...] = (0,)
    """Seats the agent plays; tasks take them in turn."""
    replay_deal: bool = False
    """Deal the cards of the first episode again in every episode."""
    early_stop: bool = False
    """End a trial after its first episode with a positive score."""
    max_turns: Positive = 1000
    """Moves after which an episode is truncated."""


class PopulationConfig(FrozenModel):
    """Who may sit opposite."""

    split: str = ""
    """A split whose members are drawn, besides `members`: a shipped one, or the path of a file that ends in .json."""
    members: tuple[str, ...] = ()
    """Opponent specs. A spec without a seed or a phase is a family: each task draws its own member."""
    weights: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """How often each member is drawn; equal when empty."""


class LeagueConfig(FrozenModel):
    """Several agents that learn in one run, and meet each other, their past and the population."""

    learners: Count = 0
    """How many learn. 0 trains one agent against the population alone; `batch.groups` is shared out among them."""
    sampler: str = "anchored"
    """Whom a learner meets: anchored, prioritised, psro, uniform or weighted. docs/league.md says when to use which."""
    options: dict[str, bool | int | float | str] = {}
    """The sampler's own parameters."""
    both: bool = True
    """Where two learners meet, both learn, each from its own seat."""
    itself: bool = True
    """The only learner of a league meets itself too."""
    snapshot_every: Count = 25
    """Steps between snapshots of every learner that is well; 0 takes none on schedule."""
    snapshots: Count = 8
    """Most snapshots that stay; the one that is most like a newer one leaves first."""
    half_life: Annotated[float, Field(gt=0)] = 50.0
    """Results of a learner count half after so many further ones against the same member."""
    exploit_every: Count = 0
    """Steps between exploit and explore; 0 is never."""
    explore: tuple[str, ...] = ("learner.lr", "learner.entropy_start")
    """Settings that learners differ in; docs/league.md lists those that can be explored."""
    factor: Annotated[float, Field(gt=1)] = 1.25
    """What exploring multiplies or divides a setting by."""
    nashconv_every: Count = 0
    """Steps between computations of each learner's NashConv without memory, for small two-player games; 0 is never."""


class AgentConfig(FrozenModel):
    """The language model at the table."""

    model: str = "scripted:counter"
    """A model name, or `scripted:NAME` for an engine that answers from a Python function."""
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
    """How answers in `text` mode begin, such as `<action>`: the model goes on from there, and is shown the actions in
    tags. For models too small to come to a tag by themselves; a remote model cannot be begun for."""
    max_tokens: Positive = 128
    """Longest answer in `text` mode, and longest thought of the method react."""
    reflection_tokens: Positive = 64
    """Longest reflection."""
    tutor: str = ""
    """A regular expression with one group. In the first `tutor_steps` steps, what it finds in the outcome of an episode
    is remembered in place of the agent's own note, which is not trained then: the agent learns to read first."""
    tutor_steps: Count = 0
    """How many steps the tutor stays in all tasks."""
    tutor_fade: Count = 0
    """Over how many further steps it leaves, task by task."""
    thoughts: Thoughts = Thoughts.KEEP
    """What becomes of thoughts in the history: `keep` them as sampled, or `strip` them, which begins a new stream after
    each answer that holds one, so that reading and learning cost the square."""
    retries: Count = 1
    """How often an answer that cannot be used is asked for again before it is a forfeit."""
    context: Positive = 4096
    """Most tokens that a prompt and its answer may have together."""
    slots: Count = 0
    """How many calls the engine runs together, each of which takes the memory of a full context. 0 is as many as there
    is room for in a share of what is free on a GPU, or 1 GiB on a CPU, 1,024 at most. Fewer leave room for others on
    the same card, and change nothing but rounding."""


class BatchConfig(FrozenModel):
    """What one step plays."""

    groups: Positive = 32
    """Tasks per step."""
    size: Annotated[int, Field(ge=2)] = 8
    """Sibling trials per task: they are compared with each other."""
    dead: DeadGroups = DeadGroups.RESAMPLE
    """Dead groups, whose siblings all scored alike: `drop` leaves them out; `keep` trains on them, where they carry no
    advantage, but the entropy bonus, without which a policy that has become sure of everything stays so; `resample`
    leaves them out and plays as many new tasks, once a step."""
    replay: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of a step's tasks that were played before: those that went worse than others of their kind."""


class CreditConfig(FrozenModel):
    """Who is paid for what."""

    objective: Objective = Objective.CUMULATIVE
    """single, cumulative (LaMer), cumulative-paper, differential (MAGE) or final."""
    turn: Share = 1.0
    """Discount between turns of one episode."""
    episode: Share = 1.0
    """Discount across an episode boundary."""
    to_go: bool = False
    """Leave out of a turn's return what was settled before it: the gradient is the same on average, and less noisy.
    Only differential and final pay for such things."""
    estimator: str = "agent-specific"
    """agent-specific, grpo, rloo, reinforce, gigpo, ppo or cloning."""
    options: dict[str, bool | int | float | str] = {}
    """The estimator's own parameters."""
    invalid_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Subtracted from a turn's reward for every reply that could not be used."""
    truncated_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Subtracted from a turn's reward for every reply that was cut short."""
    length_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Subtracted for every token of a free reply, a `text` answer or a reflection, beyond `length_free`; 0 is off."""
    length_free: Count = 0
    """How many tokens of a free reply cost nothing, its end counted."""


class LearnerConfig(FrozenModel):
    """How the weights change."""

    lr: Annotated[float, Field(gt=0)] = 1e-3
    """Learning rate of AdamW."""
    warmup: Count = 0
    """Updates over which the learning rate rises."""
    decay: bool = False
    """Let the learning rate fall to zero over the run."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    grad_clip: Annotated[float, Field(gt=0)] = 1.0
    epochs: Positive = 1
    """Passes over each batch."""
    minibatches: Positive = 1
    """Optimizer steps per pass."""
    token_budget: Positive = 16384
    """Positions per micro-batch; memory, not results, depends on it. Halved when memory runs out."""
    gradient_checkpointing: bool = False
    """Keep only what goes into each layer and compute the rest again for the gradient: a third more work, far less
    memory."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the decoder layers: true, false, or auto for yes on CUDA and no on a CPU."""
    lora_rank: Count = 0
    """Rank of a low-rank adapter (LoRA), the only thing trained then; 0 trains all weights."""
    lora_alpha: Count = 0
    """The adapter is scaled by this over its rank; 0 is twice the rank."""
    lora_targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layers that get an adapter: `all-linear` for all but the head, or a list of names such as q_proj."""
    weight: Weight = Weight.TURN
    """What counts equally: turn, token or sequence."""
    clip_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    dual_clip: Annotated[float, Field(gt=1)] = 3.0
    divergence: Divergence = Divergence.NONE
    """Penalty for leaving the initial weights: none, k1, k2 or k3."""
    divergence_weight: Annotated[float, Field(ge=0)] = 0.0
    entropy_start: Annotated[float, Field(ge=0)] = 0.0
    """Entropy bonus at the first step."""
    entropy_end: Annotated[float, Field(ge=0)] = 0.0
    """Entropy bonus at the last step."""
    entropy_reflect: Annotated[float, Field(ge=0)] = 0.0
    """What the entropy of a reflection's tokens counts for, relative to that of play turns."""
    entropy_even: Annotated[float, Field(ge=0)] = 0.0
    """What evenness counts for beside entropy in the bonus, for choices: minus the divergence of an even choice from
    the policy. Entropy hardly pulls where one move has all the probability; evenness pulls there as hard as anywhere,
    so that every move goes on being tried now and then."""
    entropy_floor: Share = 0.0
    """The bonus is raised while the normalised entropy of play turns is under this; 0 is off."""
    prediction_weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight of predicting what is read, next token by next token; teaches a random model the game's language."""
    value_weight: Annotated[float, Field(ge=0)] = 0.5
    """Weight of the value loss, for ppo."""
    max_skips: Count = 3
    """Updates in a row that may be skipped because something was not finite, before the run stops."""


class EvaluationConfig(FrozenModel):
    """How a run is judged while it trains and when it ends."""

    every: Count = 0
    """Steps between evaluations; 0 judges only at the end."""
    splits: tuple[str, ...] = ()
    """Splits to judge by: shipped ones, or paths of files that end in .json."""
    trials: Positive = 4
    """Trials per member and seat in evaluations while training."""
    final_trials: Positive = 20
    """Trials per member and seat at the end."""
    seed: Count = 1_000_003
    """Fixes the evaluation tasks; they are the same for every method, every time."""


class AlarmConfig(FrozenModel):
    """When a run counts as collapsing, and what to do then."""

    entropy: Share = 0.02
    """Alarm when the normalised entropy of play turns is under this."""
    invalid: Share = 0.5
    """Alarm when more than this share of replies cannot be used."""
    dead: Share = 0.9
    """Alarm when more than this share of groups is dead."""
    asymmetry: Annotated[float, Field(gt=0)] = 10.0
    """Alarm when the mean scores of two seats differ by more than this."""
    drop: Annotated[float, Field(gt=0)] = 10.0
    """Alarm when the last episode's score on a split falls by more than this under its best."""
    gap: Annotated[float, Field(gt=0)] = 0.05
    """Alarm when engine and learner differ by more than this in their log-probabilities, on average."""
    ratios: Share = 0.01
    """Alarm when more than this share of tokens has a ratio of learner to engine outside 0.8 to 1.25."""
    patience: Positive = 5
    """Steps in a row before an alarm sounds; evaluations sound at once."""
    action: AlarmAction = AlarmAction.PRINT
    """print, stop or rollback to the last healthy checkpoint."""


class CheckpointConfig(FrozenModel):
    """What is kept."""

    every: Positive = 50
    """Steps between checkpoints."""
    keep: Positive = 2
    """Newest checkpoints kept; the best one is kept besides."""
    transcripts: Count = 25
    """Steps between kept transcripts; 0 keeps none."""


class Config(FrozenModel):
    """Everything a run depends on."""

    description: str = ""
    """One line for `mage list recipes`."""
    seed: Count = 0
    """Fixes every draw of the run."""
    steps: Positive = 100
    """Updates of the weights."""
    tokens: Count = 0
    """Tokens put through the learner after which the run ends, though steps are left; schedules then follow tokens, not
    steps. So methods whose trials differ in length train on equally much. 0 is no limit."""
    world: str = "rps"
    """A game spec."""
    trials: Positive = 8
    """How many trials `mage trials` plays."""
    threads: Positive = 1
    """CPU threads; results are bit-identical only for the same number."""
    device: Device = Device.CPU
    """Where the model runs: cpu, cuda, or auto for CUDA where there is a device and the CPU elsewhere."""
    dtype: Dtype = Dtype.AUTO
    """What the model computes with: float32, bfloat16, or auto for bfloat16 on CUDA and float32 on a CPU."""
    trackers: tuple[str, ...] = ()
    """Where metrics go besides the run directory: tensorboard, wandb, trackio."""
    trial: TrialConfig = TrialConfig()
    population: PopulationConfig = PopulationConfig()
    league: LeagueConfig = LeagueConfig()
    agent: AgentConfig = AgentConfig()
    batch: BatchConfig = BatchConfig()
    credit: CreditConfig = CreditConfig()
    learner: LearnerConfig = LearnerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    alarms: AlarmConfig = AlarmConfig()

    def is_over(self, step: int, num_tokens: int) -> bool:
        """Whether a run that has come so far has come to its end.

        >>> [Config(steps=9, tokens=50).is_over(*done) for done in ((8, 49), (9, 49), (8, 50))]
        [False, True, True]
        """
        return step >= self.steps or 0 < self.tokens <= num_tokens
