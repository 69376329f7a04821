"""What the client does for GCC."""
