#!/bin/sh
# Prints a compile_commands.json: how each of some sources is compiled. The first argument is the compiler's options.
flags=$1
shift
separator='['
for source in "$@"; do
  printf '%s\n{"directory": "%s", "file": "%s", "command": "cc %s -c %s"}' "$separator" "$PWD" "$source" "$flags" "$source"
  separator=','
done
printf '\n]\n'
