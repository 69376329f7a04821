"""The environment that loop_tool had in CompilerGym: a pointwise computation of vectors, and the sizes of its loops."""
