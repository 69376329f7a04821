"""Replacements for `compiler_gym.util`."""
