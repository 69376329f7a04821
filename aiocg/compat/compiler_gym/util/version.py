"""The version of CompilerGym whose names these are."""

__all__ = ["__version__"]

__version__ = "0.2.5"
