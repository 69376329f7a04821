"""Builds that are repeated with other compilers or other options."""
