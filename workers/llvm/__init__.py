"""LLVM phase ordering on libLLVM's stable C API."""
