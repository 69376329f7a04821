"""Programs that evaluate an agent on a benchmark suite."""
