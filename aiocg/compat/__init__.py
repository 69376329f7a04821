"""CompilerGym 0.2.5's interface over aiocg's runtime, so that scripts written for it run unchanged.

::

    python -m aiocg.compat old_script.py --its --arguments

or, in a program, before anything imports `compiler_gym` or `gym`::

    import aiocg.compat

    aiocg.compat.install()

`aiocg.compat.compiler_gym` is the package that `compiler_gym` then means, and `aiocg.compat.gym` has the parts of Gym
0.21 that it used. Whoever writes something new uses `aiocg` or `aiocg.gym`.
"""

from aiocg.compat.finder import install, installed, uninstall

__all__ = ["install", "installed", "uninstall"]
