"""Environments in which LLVM stops at each decision and asks: the client's side."""
