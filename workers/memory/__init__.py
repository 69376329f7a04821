"""A memory of transitions that workers, runs and machines share; what it has is computed by nobody again."""
