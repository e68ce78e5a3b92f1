"""Methods of prompting: agents whose model learns nothing, to compare training with."""
