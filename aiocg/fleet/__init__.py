"""Worker slots: processes, sessions, requests, and recovery from deaths."""
