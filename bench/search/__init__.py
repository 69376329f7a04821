"""How much smaller than -Oz, or faster than -O3, searches make programs: `python -m bench.search`."""
