"""The Explorer: sessions over HTTP (`api`), and a page (`explorer`).

Both need the extra `web`. `tree` is pure and needs nothing.
"""
