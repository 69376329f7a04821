"""Flags of a build that lower a cost: found by search, and written down as flags that work without aiocg."""
