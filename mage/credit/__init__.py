"""Credit: from what was played to how much better each turn was than expected. Plain numbers, no tensors."""
