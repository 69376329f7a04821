"""How fast generated loop nests are beside what the machine can do, and beside NumPy."""
