"""The card in every checkpoint: what the weights are, and how to make them again."""

from __future__ import annotations

from mage import __version__
from mage.config import to_toml
from mage.schema import Config


def model_card(config: Config, step: int, model: str) -> str:
    """A model card in Markdown, with the whole config."""
    return f"""---
library_name: transformers
tags: [mage, reinforcement-learning, games]
---

# {model}, trained by mage {__version__} on {config.game}

Weights after step {step} of {config.steps}. The agent plays trials of {config.trial.episodes} episodes against one
hidden opponent and carries memory (`{config.agent.memory}`) from episode to episode; it answers by
`{config.agent.reply}`. Prompts that differ from those of training are out of its range.

Make it again: save the following as `recipe.toml`, then `mage train recipe.toml`.

```toml
{to_toml(config)}```
"""
