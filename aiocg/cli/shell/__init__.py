"""`aiocg shell`: one environment, and commands to try things on it.

The parts can be used one by one: `session` is the environment with its history (no text, no terminal), `commands` are
the table of commands, `interpreter` carries out lines, `prompt` is what a terminal adds to that.
"""
