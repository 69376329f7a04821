"""CompilerGym's loop_tool environment: a pointwise computation on vectors, and the sizes of its loops."""
