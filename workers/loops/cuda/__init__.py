"""The back end for NVIDIA GPUs: nests are lowered to CUDA C, which CuPy compiles and runs."""
