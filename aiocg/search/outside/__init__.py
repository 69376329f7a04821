"""Optimisers of other libraries: an adapter each, over `aiocg.search.vectors`."""
