"""CompilerGym's command-line programs, such as `python -m aiocg.compat -m compiler_gym.bin.validate results.csv`."""
