"""CompilerGym's environment wrappers."""
