"""`sdist-v0`: C and C++ out of the source distributions that Python packages are published as."""

from aiocg.datasets.sdist.dataset import SdistDataset

__all__ = ["SdistDataset"]
