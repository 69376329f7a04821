"""aiocg beside the original, CompilerGym 0.2.5: `python -m bench.versus_compiler_gym`."""
