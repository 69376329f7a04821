"""Replaces itself by aiocg's `compiler_gym` when it is imported under that name."""

import importlib
import sys

if __name__ == "compiler_gym":
    import aiocg.compat

    aiocg.compat.install()
    sys.modules[__name__] = importlib.import_module("aiocg.compat.compiler_gym")
