"""CompilerGym's environments, implemented with those of `aiocg.gym`."""
