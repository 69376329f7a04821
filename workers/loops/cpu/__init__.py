"""Loop nests on the CPU: they are lowered to LLVM IR, compiled in this process, and run by several threads."""
