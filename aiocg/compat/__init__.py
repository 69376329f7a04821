"""CompilerGym 0.2.5's interface over aiocg's runtime, so that scripts written for it run unchanged.

::

    python -m aiocg.compat old_script.py --its --arguments

or, in a program, before anything imports `compiler_gym` or `gym`::

    import aiocg.compat

    aiocg.compat.install()

After that, `compiler_gym` is the package `aiocg.compat.compiler_gym`, and `gym` is `aiocg.compat.gym`, which has the
parts of Gym 0.21 that CompilerGym uses; `names` maps their contents to our modules. Arguments have the same meaning as
in CompilerGym, except where docstrings say otherwise. New code should use `aiocg` or `aiocg.gym`.
"""

from aiocg.compat._finder import install, installed, uninstall

__all__ = ["install", "installed", "uninstall"]
