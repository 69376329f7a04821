"""The environment: one program, its episode, and the observations and rewards of steps."""
