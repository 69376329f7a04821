"""Datasets of tensor expressions, for the compiler of loop nests."""
