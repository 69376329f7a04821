"""Peephole optimisation of programs for a stack machine: `session` runs in workers, `environment` in the client."""
