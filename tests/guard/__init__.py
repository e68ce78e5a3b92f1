"""A guard for refactorings: the same scenarios at a base commit and in the present tree, compared bit for bit."""
