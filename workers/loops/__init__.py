"""The loop nest compiler: tensor expressions, their schedules, and code for CPUs and GPUs."""
