"""Errors of benchmarks and datasets."""

__all__ = ["BenchmarkInitError", "DatasetInitError"]


class BenchmarkInitError(OSError, ValueError):
    """A benchmark cannot be loaded, compiled, or run. (A ValueError too: the original raised one for bad bitcode.)"""


class DatasetInitError(OSError):
    """A dataset cannot be had."""
