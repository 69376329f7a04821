"""Command line flags that CompilerGym's programs share; importing a module defines its flags."""
