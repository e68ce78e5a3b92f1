"""Credit assignment: returns and advantages of the agent's turns. Plain numbers, no tensors."""
