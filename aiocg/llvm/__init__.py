"""What is particular to the LLVM environments: observations that the client derives, and making benchmarks."""
