"""The Explorer: sessions over HTTP (`api`), and a page on which people see what compilers do (`explorer`).

Both need the extra `web`. `tree` is pure and needs nothing.
"""
