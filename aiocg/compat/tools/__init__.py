"""What CompilerGym's scripts import from `compiler_gym.util`."""
