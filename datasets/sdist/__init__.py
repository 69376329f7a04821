"""`sdist-v0`: C and C++ files from source distributions of Python packages."""

from aiocg.datasets.sdist._dataset import SdistDataset

__all__ = ["SdistDataset"]
