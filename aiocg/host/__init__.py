"""Worker processes on this machine: started, watched, and cleaned up after."""
