"""The model card in checkpoints and exports."""

from __future__ import annotations

import json

from mage.config.load import to_toml
from mage.config.schema import Config
from mage.models.load import describe_model
from mage.version import __version__


def model_card(config: Config, step: int, model: str, *, merged: bool = False) -> str:
    """A model card in Markdown with the whole config; `merged` says that an adapter was merged into the model."""
    is_adapter = config.learner.lora_rank > 0 and not merged
    store = f"peft\nbase_model: {json.dumps(model)}" if is_adapter else "transformers"
    return f"""---
library_name: {store}
tags: [mage, reinforcement-learning, games]
---

# {describe_model(model)}, trained by mage {__version__} on {config.world}

Weights after step {step} of {config.steps}. The agent plays trials of {config.trial.episodes} episodes against one
hidden opponent and carries memory (`{config.agent.memory}`) from episode to episode; it answers by
`{config.agent.reply}`. Prompts that differ from those of training are out of its range.

Make it again: save the following as `recipe.toml`, then `mage train recipe.toml`.

```toml
{to_toml(config)}```
"""
