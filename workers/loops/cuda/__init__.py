"""The back end for NVIDIA GPUs: nests become CUDA C, which CuPy compiles and runs."""
