"""A generated project that is being put together."""

# ruff: noqa: E501 - tables of C
# fmt: off

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Unit:
    """A source of a project, and how it is compiled."""

    name: str
    text: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    command: str = "{cc} {options} -c -o {object} {name}"

    @property
    def object(self) -> str:
        """The name of its object."""
        return f"{self.name.rpartition('.')[0].replace('/', '_')}.o"


@dataclass(slots=True)
class Project:
    """A build that is being put together.

    Attributes:
        units: the first has `main`.
        calls: statements of `main`, which print.
        files: other files, by name.
        before, between, after: lines of the build before its units are compiled, before the link, and after it.
        link: words of the link.
        run: more commands whose output is compared.
        names: of the features.
        packed: whether units are in an archive or the like.
        first: words of the link before the objects.
    """

    random: random.Random
    units: list[Unit]
    calls: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    between: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    run: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    packed: bool = False
    first: str = ""
    number: int = 0

    def fresh(self, stem: str = "f") -> str:
        """Return a name that is not used yet."""
        self.number += 1
        return f"{stem}{self.number}"

    def unit(self) -> Unit:
        """Return one of the units, not the first."""
        return self.random.choice(self.units[1:])

    def pair(self) -> tuple[Unit, Unit]:
        """Return two different units."""
        one, other = self.random.sample(self.units, 2)
        return one, other

    def prints(self, call: str, declaration: str = "") -> None:
        """Let `main` print an int."""
        if declaration:
            self.units[0].text.append(declaration)
        self.calls.append(f'printf("%d\\n", (int)({call}));')

    def value(self, text: str, unit: Unit | None = None) -> str:
        """Define a function `int f(int x)`, whose body is given, in a unit, and let `main` print its value."""
        name = self.fresh()
        unit = unit or self.unit()
        unit.text.append(f"{LINKAGE}int {name}(int x) {{ {text} }}")
        self.prints(f"{name}(argc + {self.random.randrange(9)})", f"{LINKAGE}int {name}(int);" if unit is not self.units[0] else "")
        return name

    def c_unit(self) -> Unit:
        """Return a unit in C, not the first."""
        return self.random.choice([unit for unit in self.units[1:] if unit.name.endswith(".c")])


LINKAGE = "API "
HEAD = "#ifdef __cplusplus\n#define API extern \"C\"\n#else\n#define API extern\n#endif\n"


def filler(project: Project) -> None:
    """Code that differs in each project: loops, tables, switches, strings, calls between units."""
    draw = project.random
    for unit in project.units:
        helper = project.fresh("h")
        kind = draw.randrange(4)
        if kind == 0:
            body = f"unsigned s = x; for (int i = 0; i < {draw.randrange(3, 40)}; i++) s = s * {draw.randrange(3, 99)}u + i; return (int)(s >> 3);"
        elif kind == 1:
            cases = "".join(f"case {n}: return {draw.randrange(9999)};" for n in range(draw.randrange(3, 14)))
            body = f"switch (x & 15) {{ {cases} default: return {draw.randrange(99)}; }}"
        elif kind == 2:
            words = ", ".join(f'"{draw.choice(WORDS)}{n}"' for n in range(draw.randrange(2, 9)))
            body = f"static const char *const w[] = {{{words}}}; const char *p = w[(unsigned)x % (sizeof w / sizeof *w)]; int s = 0; while (*p) s = s * 31 + *p++; return s & 0xffff;"
        else:
            numbers = ", ".join(str(draw.randrange(1000)) for _ in range(draw.randrange(4, 30)))
            body = f"static int t[] = {{{numbers}}}; t[(unsigned)x % (sizeof t / sizeof *t)] += x; return t[(unsigned)(x + 1) % (sizeof t / sizeof *t)];"
        unit.text.append(f"static int {helper}(int x) {{ {body} }}")
        project.value(f"return {helper}(x) + {helper}(x + 1) * 3;", unit)


WORDS = ("alpha", "beta", "gamma", "delta", "level", "error: ", "x")
