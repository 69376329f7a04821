"""How large anything on the wire may be, and why.

Both sides check them: the sender so that the mistake is reported where it was made, the receiver so that a
broken peer costs bounded memory and time.
"""

INLINE_BYTES = 16 * 1024
"""Arrays and byte strings from this size on are frames of their own: copying them would cost more."""

MAX_FRAME_BYTES = 512 * 1024 * 1024
"""One frame: about the bitcode of a whole browser. ZeroMQ itself disconnects a peer that sends more."""

MAX_BATCH_BYTES = 1024 * 1024 * 1024
"""All frames of one batch together: two frames of the largest size, or many small ones."""

MAX_FRAMES = 16 * 1024
"""Frames in one batch: an `expand` over every action of a large action space, several arrays for each."""

MAX_MESSAGES = 64 * 1024
"""Messages in one batch: far more than environments served by one worker, and decoded within some 10 ms."""

MAX_NESTING = 32
"""Lists and dicts inside each other in one value: far below the recursion limit of any interpreter."""

MAX_DIMENSIONS = 32
"""Dimensions of an array: what every numpy version supports."""

FULL_BATCH_BYTES = 1024 * 1024
FULL_BATCH_MESSAGES = 8 * 1024
"""From here on a sender starts another batch, so that the receiver can work on the first one meanwhile."""
