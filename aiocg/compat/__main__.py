"""`python -m aiocg.compat script.py`: run a program that was written for CompilerGym."""

from aiocg.compat._command import main

if __name__ == "__main__":
    main()
