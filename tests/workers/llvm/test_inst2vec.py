"""Statements by hand, against the published steps of preprocessing, and against the types that LLVM 14 still had."""

import re
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.observations._counts import abstract, statements

Compile = Callable[..., bytes]


# ---- values


@pytest.mark.parametrize(
    ("line", "statement"),
    [  # statements of the published dictionary, with lines that they stand for
        ("%7 = load i32, i32* %6, align 4", "<%ID> = load i32, i32* <%ID>, align 4"),
        ('store i8 -3, i8* %"a.b", align 1', "store i8 <INT>, i8* <%ID>, align 1"),
        ("%x = fmul double %3, 2.500000e-01", "<%ID> = fmul double <%ID>, <FLOAT>"),
        ("%x = fmul float %3, 0x3FB99999A0000000", "<%ID> = fmul float <%ID>, <FLOAT>"),
        ("%2 = phi i32 [ 0, %1 ], [ %5, %3 ]", "<%ID> = phi i32 [ 0, <%ID> ], [ <%ID>, <%ID> ]"),
        ("%4 = extractvalue { i64, i1 } %3, 0", "<%ID> = extractvalue { i64, i1 } <%ID>, 0"),
        ("%4 = extractelement <8 x i32> %3, i64 1", "<%ID> = extractelement <8 x i32> <%ID>, <TYP> 1"),
        ("br i1 %4, label %5, label %6", "br i1 <%ID>, label <%ID>, label <%ID>"),
        ("%5 = alloca [3 x i64], align 16", "<%ID> = alloca [3 x i64], align 16"),
        (
            '@.str = private unnamed_addr constant [5 x i8] c"a 1\\0A\\00", align 1',
            "<@ID> = private unnamed_addr constant [5 x i8]  <STRING>, align 1",
        ),
        (
            "%1 = shl <4 x i32> %0, <i32 1, i32 2, i32 30, i32 4>",
            "<%ID> = shl <4 x i32> <%ID>, <i32 <INT>, i32 <INT>, i32 <INT>, i32 <INT>>",
        ),
        (
            "%1 = call double @f(double f0x41DFFFFFFFC00000, double +inf, double -nan(0x1))",  # as LLVM 23 writes them
            "<%ID> = call double <@ID>(double <FLOAT>, double <FLOAT>, double <FLOAT>)",
        ),
    ],
)
def test_names_and_values_are_abstracted(line: str, statement: str) -> None:
    assert abstract(line) == statement


# ---- pointers


def body(*lines: str, head: str = "define void @f()", before: str = "") -> list[str]:
    """Return the statements of a function without its head, and of nothing before it."""
    text = f"{before}\n{head} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    found = statements(text)
    return found[[one.startswith("define") for one in found].index(True) + 1 :]


def test_accesses_say_what_a_pointer_leads_to() -> None:
    assert body(
        "%1 = alloca ptr, align 8",
        "%2 = load ptr, ptr %1, align 8, !tbaa !3",
        "%3 = load i32, ptr %2, align 4",
        "store i32 %3, ptr %2, align 4",
        "ret void, !dbg !4",
    ) == [
        "<%ID> = alloca i32*, align 8",
        "<%ID> = load i32*, i32** <%ID>, align 8",
        "<%ID> = load i32, i32* <%ID>, align 4",
        "store i32 <%ID>, i32* <%ID>, align 4",
        "ret void",
    ]


def test_an_index_leads_to_the_type_of_the_part() -> None:
    types = "%struct.node = type { i32, ptr, [4 x i16] }\n"
    assert body(
        "%2 = getelementptr inbounds nuw %struct.node, ptr %0, i32 0, i32 1",
        "%3 = load ptr, ptr %2, align 8",
        "%4 = getelementptr inbounds nuw %struct.node, ptr %3, i64 0, i32 2, i64 %1",
        "%5 = load i16, ptr %4, align 2",
        "%6 = icmp eq ptr %3, null",
        "%7 = getelementptr inbounds i8, ptr %0, i64 8",
        before=types,
        head="define internal void @f(ptr noundef %0, i64 noundef range(i64 0, 9) %1) unnamed_addr #0",
    ) == [
        "<%ID> = getelementptr inbounds { i32, opaque*, [4 x i16] }, { i32, opaque*, [4 x i16] }* <%ID>, "
        "i32 <INT>, i32 <INT>",
        "<%ID> = load { i32, opaque*, [4 x i16] }*, { i32, opaque*, [4 x i16] }** <%ID>, align 8",
        "<%ID> = getelementptr inbounds { i32, opaque*, [4 x i16] }, { i32, opaque*, [4 x i16] }* <%ID>, "
        "i64 <INT>, i32 <INT>, i64 <%ID>",
        "<%ID> = load i16, i16* <%ID>, align 2",
        "<%ID> = icmp eq { i32, opaque*, [4 x i16] }* <%ID>, null",
        "<%ID> = getelementptr inbounds i8, i8* <%ID>, i64 <INT>",
    ]


def test_statements_are_those_of_llvm_10_where_it_is_asked_for() -> None:
    text = """
@g = external dso_local global i32, align 4
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define dso_local double @f(ptr noundef %0, double %1, i1 %2) {
  call void @llvm.memcpy.p0.p0.i64(ptr nonnull align 8 dereferenceable(16) %0, ptr align 4 @g, i64 16, i1 false)
  br i1 %2, label %4, label %6

4:                                                ; preds = %4, %3
  %5 = fneg double %1
  br label %4

6:                                                ; No predecessors!
  ret double %1
}
"""
    assert statements(text, 10) == [
        "<@ID> = external dso_local global i32, align 4",
        "define dso_local double <@ID>(i8* <%ID>, double <%ID>, i1 <%ID>)",
        "call void <@ID>(i8* nonnull align 8 dereferenceable(16) <%ID>, i8* align 4 bitcast (i32* <@ID> to i8*), "
        "i64 <INT>, i1 false)",
        "br i1 <%ID>, label <%ID>, label <%ID>",
        "<LABEL>: ; preds = <LABEL>, <LABEL>",
        "<%ID> = fneg double <%ID>",
        "br label <%ID>",
        "<LABEL>:                                                ; No predecessors",
        "ret double <%ID>",
    ]


def test_pointers_that_join_are_of_one_type() -> None:
    assert body(
        "%3 = select i1 %2, ptr %0, ptr null",
        "br label %4",
        "%5 = phi ptr [ %3, %2 ], [ %6, %4 ]",
        "%6 = getelementptr inbounds double, ptr %5, i64 1",
        "%7 = ptrtoint ptr %6 to i64",
        "ret ptr %6",
        head="define ptr @f(ptr readonly captures(none) %0, ptr %x, i1 %2)",
    ) == [
        "<%ID> = select i1 <%ID>, double* <%ID>, double* null",
        "br label <%ID>",
        "<%ID> = phi double* [ <%ID>, <%ID> ], [ <%ID>, <%ID> ]",
        "<%ID> = getelementptr inbounds double, double* <%ID>, i64 <INT>",
        "<%ID> = ptrtoint double* <%ID> to i64",
        "ret double* <%ID>",
    ]


def test_the_head_of_a_function_has_the_types_that_its_body_and_its_callers_show() -> None:
    text = """
define dso_local ptr @g(ptr noundef readonly captures(none) %0, ptr noundef %named, i32 noundef %2) unnamed_addr #0 {
  %4 = load i64, ptr %0, align 8
  ret ptr %named
}
define void @h(ptr noalias sret(%struct.s) align 8 %0) {
  %2 = alloca float, align 4
  %3 = load ptr, ptr @p, align 8
  %4 = call ptr @g(ptr noundef nonnull %3, ptr noundef %2, i32 noundef 4) #3
  ret void
}
"""
    assert statements("%struct.s = type { i64, i64 }\n" + text) == [
        "define float* <@ID>(i64* nocapture readonly, float* <%ID>, i32) unnamed_addr",
        "<%ID> = load i64, i64* <%ID>, align 8",
        "ret float* <%ID>",
        "define void <@ID>({ i64, i64 }* noalias sret)",
        "<%ID> = alloca float, align 4",
        "<%ID> = load i64*, i64** <@ID>, align 8",
        "<%ID> = call float* <@ID>(i64* nonnull <%ID>, float* <%ID>, i32 <INT>)",
        "ret void",
    ]


def test_globals_decay_where_they_are_used() -> None:
    before = """
@.str = private unnamed_addr constant [6 x i8] c"hello\\00", align 1
@table = dso_local global { i64, [4 x i32] } zeroinitializer, align 8
@other = alias i32, ptr @table
declare i32 @printf(ptr noundef, ...) #1"""
    gep = "getelementptr inbounds ({ i64, [4 x i32] }, { i64, [4 x i32] }* <@ID>, i64 <INT>, i32 <INT>, i64 <INT>)"
    assert body(
        "%1 = tail call i32 (ptr, ...) @printf(ptr noundef nonnull dereferenceable(1) @.str, i32 noundef 7)",
        "%2 = load i64, ptr @table, align 8",
        "%3 = load i32, ptr getelementptr inbounds nuw (i8, ptr @table, i64 12), align 4",
        "store ptr @.str, ptr %3, align 8",
        "store double %1, ptr @table, align 8",
        before=before,
    ) == [
        "<%ID> = tail call i32 (i8*, ...) <@ID>(i8* nonnull getelementptr inbounds ([6 x i8], [6 x i8]* <@ID>, "
        "i64 <INT>, i64 <INT>), i32 <INT>)",
        "<%ID> = load i64, i64* getelementptr inbounds ({ i64, [4 x i32] }, { i64, [4 x i32] }* <@ID>, "
        "i64 <INT>, i32 <INT>), align 8",
        f"<%ID> = load i32, i32* {gep}, align 4",
        "store i8* getelementptr inbounds ([6 x i8], [6 x i8]* <@ID>, i64 <INT>, i64 <INT>), i8** <%ID>, align 8",
        "store double <%ID>, double* bitcast ({ i64, [4 x i32] }* <@ID> to double*), align 8",
    ]


def test_what_llvm_6_spelled_differently() -> None:
    assert body(
        "call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 8 %1, ptr align 4 %2, i64 16, i1 false)",
        "call void @llvm.lifetime.start.p0(ptr nonnull %1) #9",
        "%3 = zext nneg i32 %2 to i64",
        "%4 = or disjoint i32 %2, 1",
        "%5 = icmp samesign ult i32 %2, 3",
        "%6 = fneg double %2",
        "%7 = add <2 x i32> %2, splat (i32 1)",
        "%8 = insertelement <4 x i32> poison, i32 %2, i64 0",
        "#dbg_value(i32 0, !5, !DIExpression(), !9)",
        "call void @llvm.dbg.value(metadata i32 0, metadata !5, metadata !DIExpression()), !dbg !9",
        "unreachable",
    ) == [
        "call void <@ID>(i8* nonnull <%ID>, i8* <%ID>, i64 <INT>, i32 <INT>, i1 false)",
        "call void <@ID>(i64 <INT>, i8* nonnull <%ID>)",
        "<%ID> = zext i32 <%ID> to i64",
        "<%ID> = or i32 <%ID>, <INT>",
        "<%ID> = icmp ult i32 <%ID>, <INT>",
        "<%ID> = fsub double <FLOAT>, <%ID>",
        "<%ID> = add <2 x i32> <%ID>, <i32 <INT>, i32 <INT>>",
        "<%ID> = insertelement <4 x i32> undef, <TYP> <%ID>, <TYP> 0",
        "unreachable",
    ]


def test_pointers_inside_of_aggregates_have_a_type_too() -> None:
    assert statements(
        "define internal fastcc { i64, ptr } @f(<2 x ptr> %0) {\n  store <2 x ptr> %0, ptr @x, align 8\n"
        "  %2 = insertvalue { i64, ptr } poison, ptr %1, 1\n  ret { i64, ptr } %2\n}\n"
    ) == [
        "define internal fastcc { i64, i8* } <@ID>(<2 x i8*>)",
        "store <2 x i8*> <%ID>, <2 x i8*>* <@ID>, align 8",
        "<%ID> = insertvalue { i64, i8* } undef, i8* <%ID>, 1",
        "ret { i64, i8* } <%ID>",
    ]


def test_statements_on_several_lines_are_joined() -> None:
    assert body(
        "switch i32 %1, label %9 [",
        "  i32 0, label %2",
        "  i32 -1, label %3",
        "], !prof !3",
        "%4 = invoke ptr @g(ptr noundef %1) #2",
        "        to label %5 unwind label %6, !dbg !8",
        "%7 = landingpad { ptr, i32 }",
        "        cleanup",
        "        catch ptr null",
        "resume { ptr, i32 } %7",
    ) == [
        "switch i32 <%ID>, label <%ID> [\n i32 <INT>, label <%ID>\n i32 <INT>, label <%ID>]",
        "<%ID> = invoke i8* <@ID>(i8* <%ID>)\n to label <%ID> unwind label <%ID>",
        "<%ID> = landingpad { i8*, i32 }\n cleanup\n catch i8* null",
        "resume { i8*, i32 } <%ID>",
    ]


def test_a_list_that_links_to_itself_has_an_end() -> None:
    assert body("%2 = load ptr, ptr %1, align 8", "%3 = icmp eq ptr %2, %1") == [
        "<%ID> = load i8*, i8** <%ID>, align 8",
        "<%ID> = icmp eq i8* <%ID>, <%ID>",
    ]


# ---- against other implementations


ATTRIBUTES = re.compile(r" (?:noundef|align \d+(?=[ ,)])|writeonly|range\([^()]*\))|dso_local |dereferenceable\(\d+\) ")
REPLACED = re.compile(r"llvm\.(?:mem|lifetime|dbg)|\bfneg\b|poison|sret|byval|asm")


def published(text: str) -> list[str]:
    """Preprocess typed IR by the steps that the authors have published, one after the other."""
    structs = dict(re.findall(r"^(%[\w.]+) = type (.*)$", text, re.MULTILINE))

    def inline(match: re.Match[str], within: tuple[str, ...] = ()) -> str:
        name = match[0]
        if name not in structs:
            return name
        if name in within or structs[name] == "opaque":
            return "opaque"
        return re.sub(r"%[\w.]+", lambda inner: inline(inner, (*within, name)), structs[name])

    found: list[str] = []
    for line in text.split("\n"):
        if not re.match(r"  |@|define ", line) or re.match(r"\s+;|@\S+ = .*alias ", line):
            continue
        line = re.sub(r"(,? !.*|,? #\d.*)$", "", re.sub(r"%[\w.]+", inline, line.strip()))
        if re.match(r"to label|i\d+ -?\d+, label|cleanup$|catch ", line) and found:
            found[-1] += f"\n {line}"
        elif line == "]":
            found[-1] += line
        else:
            found.append(line)
    for pattern, mark in (
        (r'%[r"\@\d\w\.\-\_\:]+', "<%ID>"),
        (r'(?<!%")@[r"\w\d\.\-\_\$\\]+', "<@ID>"),
        (r"(?<!\w)[-]?0[xX][hklmHKLM]?[A-Fa-f0-9]+", "<FLOAT>"),
        (r"(?<!\w)[-]?[0-9]+\.[0-9]+(?:e\+?-?[0-9]+)?", "<FLOAT>"),
    ):
        found = [re.sub(pattern, mark, line) for line in found]
    kept = re.compile(r"<%ID> = (extract|insert)(element|value)")
    integer = re.compile(r"(?<!align)(?<!\[) (?<!\w)[-]?[0-9]+")
    found = [line if kept.match(line) else integer.sub(" <INT>", line) for line in found]
    found = [re.sub(r'(?<!\w)c".+"', " <STRING>", line) for line in found]
    elements = re.compile(r"<%ID> = (extract|insert)element")
    return [re.sub(r"i\d+ ", "<TYP> ", line) if elements.match(line) else line for line in found]


@pytest.fixture(scope="module")
def typed(compile_with: Compile, system_library: Callable[[int], Library]) -> Callable[..., tuple[str, bytes]]:
    """Compile with typed pointers; gives the text and the bitcode."""
    library = system_library(14)

    def build(name: str, *flags: str) -> tuple[str, bytes]:
        content = compile_with(find_clang(library), name, *flags)
        with Module.parse(library, content) as module:
            return module.to_text(), content

    return build


@pytest.mark.parametrize("name", ["calculator.c", "matrix.c", "sorting.c"])
@pytest.mark.parametrize("flags", [(), ("-O2",)])
def test_typed_ir_is_preprocessed_as_published(
    typed: Callable[..., tuple[str, bytes]], name: str, flags: tuple[str, ...]
) -> None:
    text, _ = typed(name, *flags)
    lines = [line for line in text.split("\n") if not REPLACED.search(line)]
    text = "\n".join(ATTRIBUTES.sub("", line) if re.search(r"call|define|invoke", line) else line for line in lines)
    text = re.sub(r"^(define.*) \{$", r"\1 #0 {", text, flags=re.MULTILINE)  # the published steps keep the brace
    ours = [re.sub(r"\(.*", "", one) if one.startswith("define") else one for one in statements(text)]
    theirs = [re.sub(r"\(.*", "", one) if one.startswith("define") else one for one in published(text)]
    assert ours == theirs


@pytest.mark.parametrize("name", ["calculator.c", "matrix.c", "sorting.c"])
def test_most_pointers_get_the_types_that_they_had(
    typed: Callable[..., tuple[str, bytes]], library: Library, name: str
) -> None:
    text, content = typed(name)
    with Module.parse(library, content) as module:
        untyped = module.to_text()
    assert " ptr " in untyped and " ptr " not in text
    ours, theirs = (Counter(one for one in statements(t) if "*" in one) for t in (untyped, text))
    assert (ours & theirs).total() > 0.8 * theirs.total()


@pytest.mark.sampled
@pytest.mark.few(2)
@pytest.mark.parametrize("pipeline", ["", "default<O2>", "default<Oz>"])
@pytest.mark.parametrize("name", ["calculator.c", "matrix.c", "sorting.c", "shapes.cc"])
def test_every_global_function_and_instruction_is_a_statement(
    engine: Engine, compile_program: Compile, name: str, pipeline: str
) -> None:
    state = engine.load(compile_program(name))
    state = engine.apply(state, pipeline) if pipeline else state
    text = engine.text(state)
    found = statements(text)
    globals_ = re.findall(r"^@.* = .*?(?:global|constant) ", text, re.MULTILINE)
    functions = re.findall(r"^define ", text, re.MULTILINE)
    assert len(found) == len(globals_) + len(functions) + state.instructions
    assert not [one for one in found if re.search(r'\bptr\b|(?<!<)[%@][\w."]', one.replace("%struct", "%"))]


@given(st.lists(st.text(alphabet='ptr%@=,()[]{}<>*"!#; \n01ax.i', max_size=30), max_size=10))
def test_no_text_is_too_odd(lines: list[str]) -> None:
    for start in ("  %1 = load ", "  store ", "  call void @f", "define void @f", "@x = global ", "  %2 = phi ptr "):
        statements("\n".join(start + line for line in lines))
