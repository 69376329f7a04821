"""A memory of transitions that workers, runs and machines share."""
