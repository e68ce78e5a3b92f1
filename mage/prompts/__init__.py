"""From observations to tokens and back."""
