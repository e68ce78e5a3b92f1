"""Several ranks: one learner whose weights, gradients and optimizer are sharded over processes (FSDP2)."""
