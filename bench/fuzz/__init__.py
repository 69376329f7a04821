"""Fuzzing: everything that reads what others have written, with inputs that nobody would write."""
