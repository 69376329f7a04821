"""Loop nests on the processor: LLVM IR is made of them, compiled in this process, and run by a few threads."""
