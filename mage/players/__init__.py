"""Who may sit at the table: scripts, families, search, solvers, agents and people."""
