"""Which environments there are."""

enable_llvm_env = True
enable_mlir_env = False
