"""Datasets of programs that are generated on demand from seeds."""
