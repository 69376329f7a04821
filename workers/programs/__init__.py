"""Programs that can be linked and run, whichever compiler has made their machine code."""
