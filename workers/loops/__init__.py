"""The compiler of loop nests: tensor expressions, schedules for them, and code for processors and GPUs."""
