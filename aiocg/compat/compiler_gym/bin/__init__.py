"""CompilerGym's programs: `python -m aiocg.compat -m compiler_gym.bin.random_search --env=llvm-ic-v0`, and so on."""
