"""MineSweeper: the world, its boards, what can be inferred about them, and scripted players."""
