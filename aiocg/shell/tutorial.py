"""The text of `tutorial`, in Markdown."""

__all__ = ["TUTORIAL"]

TUTORIAL = """\
# A quarter of an hour with `aiocg shell`

The shell holds one program and one compiler. You apply the compiler's actions (for LLVM: passes) to the program by
hand, see what each is worth, and go back whenever you like. Tab completes every word; `help COMMAND` tells more.

## 1. Choose a program

    list-datasets
    list-benchmarks programs-v0
    set-benchmark programs-v0/crc32

A file of your own will do as well, `set-benchmark ./program.c`. The name of a dataset stands for one of its programs at
random. The prompt says which program it is.

## 2. Choose what counts

A *reward* says what an action is worth; the shell shows it after each. `IrInstructionCountOz` counts instructions
saved, and is 1 in all when you are as good as `-Oz`. An *observation* says what the program is like.

    list-rewards
    set-default-reward IrInstructionCountOz
    list-observations
    observation IrInstructionCount
    set-default-observation IrInstructionCount

## 3. Act

    list-actions inline
    action mem2reg
    action sroa early-cse simplifycfg
    action -

The last line repeats the action before it; `action ?` takes one at random, `random 10` ten of them. `diff` shows what
the last one did to the program's text, and `observation Ir` all of that text.

## 4. Go back and forth

    stack
    undo 2
    redo
    reset

Every state is kept, so this costs nothing, however long the list is.

## 5. Search a little

    try-all-actions 10
    greedy 3
    hill-climb 20
    simplify-stack

`try-all-actions` only looks; the others apply what they find, and can be undone like anything else. What takes longer
than two seconds shows how far it is, and Ctrl-C ends it. For long searches there is `aiocg search`.

## 6. Take it with you

    reward
    commandline
    validate
    save best.json
    write best.bc

`validate` builds and runs the program, as it came and as it is, and compares. `aiocg replay best.json` comes back to
the state, as does `load best.json` here.

## When things go wrong

If the compiler crashes, hangs, or is killed, the shell says so, and the program is as it was before that action. For
what there is no command for, `python` gives you a prompt with `env`, `session` and `runtime`, where `await` works.
"""
