"""A search that optimises each function separately: one evaluation tests new passes for every function."""

from aiocg.search.functionwise.search import functionwise

__all__ = ["functionwise"]
