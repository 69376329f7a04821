"""What CompilerGym took from others: names of features, inst2vec, and the programs of LLVM."""
