"""Replaces itself by aiocg's `gym` when it is imported under that name."""

import importlib
import sys

if __name__ == "gym":
    import aiocg.compat

    aiocg.compat.install()
    sys.modules[__name__] = importlib.import_module("aiocg.compat.gym")
