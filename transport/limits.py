"""Size limits on the wire, and their reasons.

Both sides check them: the sender, to report a mistake where it was made; the receiver, to bound the memory and time
that a broken peer can cost.
"""

INLINE_BYTES = 16 * 1024
"""Arrays and byte strings of this size or more become frames of their own, because copying them would cost more."""

MAX_FRAME_BYTES = 512 * 1024 * 1024
"""Size of a frame: about the bitcode of a whole browser. ZeroMQ itself disconnects a peer that sends more."""

MAX_BATCH_BYTES = 1024 * 1024 * 1024
"""Total size of a batch's frames: two frames of the maximum size, or many small ones."""

MAX_FRAMES = 16 * 1024
"""Frames in one batch: enough for an `expand` over a large action space with several arrays per candidate."""

MAX_MESSAGES = 64 * 1024
"""Messages in one batch: far more than one worker's environments, and decoded within some 10 ms."""

MAX_NESTING = 32
"""Depth of nested lists and dicts in one value: far below the recursion limit of any interpreter."""

MAX_DIMENSIONS = 32
"""Dimensions of an array: supported by every version of numpy."""

FULL_BATCH_BYTES = 1024 * 1024
FULL_BATCH_MESSAGES = 8 * 1024
"""A sender starts another batch at these sizes, so that the receiver can already work on the first one.

They are below the limits, so that limits are checked only where one of them is reached."""
