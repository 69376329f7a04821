"""CompilerGym's helpers."""
