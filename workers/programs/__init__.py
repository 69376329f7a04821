"""Linking and running programs, for all compilers."""
