"""Optimisers of other libraries, and of other papers: an adapter each, over `aiocg.search.vectors`."""
