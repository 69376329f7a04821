"""Decisions that LLVM asks for while it compiles: which call to inline, what to evict from a register."""
