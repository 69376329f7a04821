"""Generated builds, which must make programs that do the same after their images are shrunk."""
