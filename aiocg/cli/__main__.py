"""`python -P -m aiocg.cli`: the command line for an interpreter that has no `aiocg` beside it."""

from aiocg.cli import main

if __name__ == "__main__":
    main()
