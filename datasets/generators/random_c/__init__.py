"""`generator://aiocg-v0`: C programs of our own making, one for each seed, of the size that is asked for.

A program is built bottom up. `values` has expressions that know their type and their range, and so are never computed
in a way that C leaves undefined; `expressions`, `statements` and `functions` draw random code from them. The modules of
`idioms` have what real code is full of, with the details left to chance. `program` puts functions together until the
size is reached, as `cost` estimates it.
"""
