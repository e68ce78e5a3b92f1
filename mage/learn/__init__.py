"""Learning: samples become gradients. Torch lives here."""
