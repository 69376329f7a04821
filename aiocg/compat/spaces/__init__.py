"""CompilerGym's spaces."""
