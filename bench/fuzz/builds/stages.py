"""Features of generated builds: sources, objects and archives that take several steps."""

# ruff: noqa: E501 - tables of commands
# fmt: off

from bench.fuzz.builds.project import Project, Unit

PLAIN = Unit("").command


def _plain(project: Project) -> list[Unit]:
    return [unit for unit in project.units[1:] if unit.command == PLAIN]


def staged(project: Project) -> None:
    """A unit that is compiled by another command than `cc -c -o u.o u.c`."""
    if not (units := _plain(project)):
        return
    unit = project.random.choice(units)
    unit.command = project.random.choice(
        [
            "{cc} {options} -E -o {object}.i {name} && {cc} {options} -c -o {object} {object}.i",
            "{cc} {options} -E -P -o {object}.i {name} && {cc} {options} -c -o {object} {object}.i",
            "{cc} {options} -S -o {object}.s {name} && {cc} -c -o {object} {object}.s",
            "{cc} {options} -S -o {object}.s {name} && as -o {object} {object}.s",
            "{cc} {options} -E {name} | {cc} {options} -x cpp-output -c -o {object} -",
            "cp {name} {object}.inc && {cc} {options} -x c -c -o {object} {object}.inc",
            "{cc} {options} -x c -c -o {object} {name} -x none",
            "{cc} {options} -c -o {object}.tmp {name} && mv {object}.tmp {object}",
            "{cc} {options} -c -o{object} {name}",
            "{cc} {options} -c {name} -o ./{object}",
            "{cc} {options} -c {name}",
            "{cc} {options} -c -o $PWD/{object} $PWD/{name}",
            "mkdir -p .libs && {cc} {options} -fPIC -DPIC -c -o .libs/{object} {name} && {cc} {options} -c -o {object} {name}",
            "{cc} {options} -c -o {object} {name} && cp -p {object} keep.o && rm {object} && mv keep.o {object}",
            "env ANY=1 nice {cc} {options} -c -o {object} {name}",
            "ccache {cc} {options} -c -o {object} {name}",
            "{cxx} {options} -c -o {object} {name}",
            "{cc} {options} -x c++ -fno-exceptions -c -o {object} {name}",
            "ln -sf {name} link_{name} && {cc} {options} -c -o {object} link_{name}",
            "mkdir -p 'a folder' && cp {name} 'a folder/a {name}' && {cc} {options} -c -o {object} 'a folder/a {name}'",
            "mkdir -p over && cp {name} over/{name} && {cc} {options} -c -o {object} over/../over/{name}",
            "{cc} {options} -DTWICE -c -o {object} {name} && {cc} {options} -c -o {object} {name}",
            "{cc} {options} -Wp,-MMD,{object}.d -c -o {object} {name} && cat {object}.d",
            "DEPENDENCIES_OUTPUT={object}.d {cc} {options} -c -o {object} {name}",
            "{cc} {options} -c -o {object} {name} & wait",
            "echo '{options} -c -o {object}' > {object}.rsp && {cc} @{object}.rsp {name}",
            "{cc} {options} -c -o {object} {name} && rm {name}",
            "sed s/nothing_of_it/x/ {name} > made_{name} && {cc} {options} -c -o {object} made_{name} && rm made_{name}",
        ]
    )
    project.run.append(f"cat {unit.object}.d 2> /dev/null; true")


def several_sources(project: Project) -> None:
    """Units that are compiled by one command."""
    units = _plain(project)
    if len(units) > 1:
        one, *others = project.random.sample(units, project.random.randrange(2, len(units) + 1))
        one.command = f"{{cc}} {{options}} -c {{name}} {' '.join(other.name for other in others)}"
        for other in others:
            other.command = ":"


def compiled_twice(project: Project) -> None:
    """One source that is compiled twice with other options, of which GCC may be needed for one."""
    name, draw = project.fresh("part"), project.random
    gnu = draw.choice(["", "int inner(int y) { return y + x; } return inner(NUMBER);", "return x + __GNUC__;"])
    project.files[f"{name}.c"] = f"#define NAMED_(n) {name}_ ## n\n#define NAMED(n) NAMED_(n)\nstatic int state = NUMBER; int NAMED(NUMBER)(int x) {{\n#if NUMBER == 2\n{gnu}\n#endif\nreturn x * NUMBER + state++; }}\n"
    for number in (1, 2):
        project.before.append(f"gcc -O2 {draw.choice(['', '-fwrapv', '-fno-strict-aliasing'])} -DNUMBER={number} -c -o {name}_{number}.o {name}.c")
        project.link.append(f"{name}_{number}.o")
        project.prints(f"{name}_{number}(argc + 3)", f"API int {name}_{number}(int);")


def second_program(project: Project) -> None:
    """A second program that shares an object with the first one."""
    name, draw = project.fresh("both"), project.random
    text = draw.choice(["return x * 3 + NAME_state++;", "int inner(int y) { return y + x; } return inner(NAME_state);", "return x + __GNUC__ + NAME_state;"]).replace("NAME", name)
    project.files[f"{name}.c"] = f"int {name}_state = 4; int {name}(int x) {{ {text} }} int {name}_unused(int x) {{ return {name}(x) + 1; }}\n"
    project.files[f"{name}_main.c"] = f"#include <stdio.h>\nint {name}(int); extern int {name}_state; int main(int argc, char **argv) {{ (void)argv; {name}_state += argc; printf(\"%d\\n\", {name}(argc)); return 0; }}\n"
    project.before.append(f"gcc {draw.choice(['-O2', '-O0', '-Os'])} -c {name}.c && gcc -O2 -c {name}_main.c && gcc {draw.choice(['', '-no-pie', '-static', '-Wl,--wrap=none'])} -o second_{name} {name}_main.o {name}.o")
    project.link.append(f"{name}.o")
    project.prints(f"{name}(argc + 2)", f"API int {name}(int);")
    project.run.append(f"./second_{name}")


def archives(project: Project) -> None:
    """Archives that are made of archives, that need each other, or that define the same, weakly or not."""
    name, draw = project.fresh("ar"), project.random
    how = draw.randrange(9)
    weak = "__attribute__((weak)) " if how in (3, 4) else ""
    project.files[f"{name}_a.c"] = f"int {name}_b(int); int {name}_again(int x) {{ return x + 40; }} {weak}int {name}_shared(int x) {{ return x + 1; }} int {name}_a(int x) {{ return x > 2 ? {name}_b(x - 1) + {name}_shared(x) : x; }}\n"
    second = f"int {name}_shared(int x) {{ return x + 2; }} " if how in (3, 4) else ""
    project.files[f"{name}_b.c"] = f"int {name}_again(int); {second}int {name}_b(int x) {{ return {name}_again(x) * 2; }}\n"
    project.before.append(f"for n in a b; do gcc {draw.choice(['-O2', '-O0', '-Os -fPIC'])} -c {name}_$n.c; ar rcs lib{name}_$n.a {name}_$n.o; done")
    both = f"-L. -l{name}_a -l{name}_b"
    words = f"-L. -l{name}"
    if how == 0:
        project.before.append(f"printf 'create lib{name}.a\\naddlib lib{name}_a.a\\naddlib lib{name}_b.a\\nsave\\nend\\n' | ar -M")
    elif how == 1:
        project.before.append(f"ar rcsT lib{name}.a lib{name}_a.a lib{name}_b.a")
    elif how == 2:
        project.before.append(f"rm -rf {name} lib{name}.a && mkdir {name} && (cd {name} && ar x ../lib{name}_a.a && ar x ../lib{name}_b.a) && ar rcs lib{name}.a {name}/*.o")
    elif how == 3:
        words = f"{both} -l{name}_a"
    elif how == 4:
        words = f"-Wl,--start-group {both} -Wl,--end-group"
    elif how == 5:
        project.before.append(f"rm -rf {name} lib{name}.a && mkdir {name} && cp {name}_b.o {name}/{name}_a.o && ar rcs lib{name}.a {name}_a.o && ar q lib{name}.a {name}/{name}_a.o && ranlib lib{name}.a")
    elif how == 6:
        project.files[f"lib{name}.so"] = draw.choice([f"INPUT({name}_a.o {name}_b.o)\n", f"GROUP(lib{name}_a.a lib{name}_b.a)\n", f"INPUT(-l{name}_a -l{name}_b)\n"])
    elif how == 7:
        project.before.append(f"echo '{name}_a.o {name}_b.o' > {name}.rsp")
        words = draw.choice(["@{0}.rsp", "-Wl,@{0}.rsp"]).format(name)
    else:
        project.before.append(f"gcc -shared -o lib{name}_b.so -Wl,--unresolved-symbols=ignore-all -fPIC {name}_b.c && rm lib{name}_b.a")
        words = f"-Wl,--push-state,--no-as-needed -L. -l{name}_a -l{name}_b -Wl,--pop-state -Wl,-rpath,'$ORIGIN' -rdynamic"
    project.link.append(words)
    project.prints(f"{name}_a(argc + 3)", f"API int {name}_a(int);")


def exported(project: Project) -> None:
    """A library of several units, whose link says what it exports."""
    name, draw = project.fresh("lib"), project.random
    options = draw.choice(["-O2", "-O2 -fvisibility=hidden", "-O0", "-Os -fno-semantic-interposition"])
    shown = '__attribute__((visibility("default"))) ' if "hidden" in options else ""
    project.files[f"{name}_a.c"] = f"int {name}_inner(int); {shown}int {name}_state = 3; {shown}int {name}_one(int x) {{ return {name}_inner(x) + {name}_state; }}\n"
    project.files[f"{name}_b.c"] = f"extern int {name}_state; {shown}int {name}_two(int x) {{ return x + 7; }} int {name}_inner(int x) {{ return {name}_two(x) * 3 + {name}_state++; }}\n"
    project.files[f"{name}.map"] = draw.choice([f"{{ global: {name}_*; local: *; }};\n", f"V1 {{ global: {name}_one; {name}_state; local: *; }};\n", f"V1 {{ global: {name}_one; {name}_state; }}; V2 {{ global: {name}_two; }} V1;\n"])
    project.files[f"{name}.list"] = f"{{ {name}_state; }};\n"
    words = draw.choice([f"-Wl,--version-script={name}.map", f"-Wl,--version-script={name}.map -Wl,-Bsymbolic", f"-Wl,--dynamic-list={name}.list", f"-Wl,-soname,lib{name}.so.1", "-Wl,-Bsymbolic-functions", "-Wl,-z,nodelete,-z,now", "-nostdlib", "-Wl,-init," + name + "_two", ""])
    linker = "ld -shared" if "-Wl" not in words and draw.random() < 0.4 else "gcc -shared"
    project.before.append(f"for n in a b; do gcc {options} -fPIC -c {name}_$n.c; done; {linker} {words} -o lib{name}.so {name}_a.o {name}_b.o; ln -sf lib{name}.so lib{name}.so.1")
    project.link.append(f"-L. -l{name} -Wl,-rpath,'$ORIGIN'")
    if draw.random() < 0.3:
        project.units[0].text.append(f"API int {name}_two(int x) {{ return x + 1000; }}")
    project.units[0].text.append(f"extern int {name}_state;")
    project.prints(f"{name}_one(argc + 3) * 10 + {name}_state", f"API int {name}_one(int);")


def precompiled(project: Project) -> None:
    """A header that is precompiled, with or without its text."""
    unit, name = project.c_unit(), project.fresh("pre")
    level = next((one for one in unit.options if one.startswith("-O")), "")
    project.files[f"{name}.h"] = f"#define {name} 11\nstatic int in_{name}(int x) {{ return x + {name}; }}\n"
    project.before.append(f"gcc {level} -x c-header -o {name}.h.gch {name}.h && {project.random.choice(['true', f'echo error > {name}.h', f'rm {name}.h'])}")
    unit.options.append(f"-include {name}.h")
    project.value(f"return in_{name}(x) * 2;", unit)


def own_start(project: Project) -> None:
    """A program with an entry of its own."""
    name, draw = project.fresh("begin"), project.random
    start = draw.choice(["_start", name])
    text = f".globl {start}\\n.type {start},@function\\n{start}: xor %ebp,%ebp\\nmov (%rsp),%edi\\nlea 8(%rsp),%rsi\\nand $-16,%rsp\\ncall {name}_c\\nhlt\\n"
    project.files[f"{name}.c"] = f'#include <stdlib.h>\nint main(int, char **); __asm__(".text\\n{text}.previous\\n"); __attribute__((used)) void {name}_c(int argc, char **argv) {{ exit(main(argc, argv) + 10); }}\n'
    project.before.append(f"gcc -O2 -c {name}.c")
    project.link.append(f"{name}.o -nostartfiles" + (f" -Wl,-e,{start}" if start != "_start" else ""))
