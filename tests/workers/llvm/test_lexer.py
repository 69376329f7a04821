"""The lexer in C against LLVM, and against a second one written from the grammar in the comments of its LLLexer.cpp."""

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.llvm._lexed_ir import LexedToken, unlex
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.observations._lexed_ir import KIND_COUNT, Lexer

Compile = Callable[..., bytes]

MARKS = {
    **{"=": "equal", ",": "comma", "*": "star", "[": "lsquare", "]": "rsquare", "{": "lbrace", "}": "rbrace"},
    **{"<": "less", ">": "greater", "(": "lparen", ")": "rparen", "!": "exclaim", "|": "bar", ":": "colon"},
    **{"#": "hash", "...": "dotdotdot"},
}
NAME = r"[-a-zA-Z$._][-a-zA-Z$._0-9]*"
FLOAT = r"[-+]?[0-9]+[.][0-9]*(?:[eE][-+]?[0-9]+)?|0x[KLMHR]?[0-9A-Fa-f]+"
TYPES = [
    "void",
    "half",
    "bfloat",
    "float",
    "double",
    "x86_fp80",
    "fp128",
    "ppc_fp128",
    "label",
    "metadata",
    "x86_mmx",
    "x86_amx",
    "token",
    "ptr",
]
WORDS = {
    **dict.fromkeys(TYPES, "Type"),
    **dict.fromkeys(["NoDebug", "FullDebug", "LineTablesOnly", "DebugDirectivesOnly"], "EmissionKind"),
    **dict.fromkeys(["GNU", "Apple", "None", "Default"], "NameTableKind"),
    **dict.fromkeys(["Binary", "Decimal", "Rational"], "FixedPointKind"),
    **{f"dbg_{what}": "DbgRecordType" for what in ("value", "declare", "assign", "label", "declare_value")},
}
PREFIXES = {
    **{"DW_TAG_": "DwarfTag", "DW_ATE_": "DwarfAttEncoding", "DW_VIRTUALITY_": "DwarfVirtuality"},
    **{"DW_LANG_": "DwarfLang", "DW_CC_": "DwarfCC", "DW_OP_": "DwarfOp", "DW_MACINFO_": "DwarfMacinfo"},
    **{"DW_MSPACE_LLVM_": "DwarfMSpaceLLVM", "DW_APPLE_ENUM_KIND_": "DwarfEnumKind", "DIFlag": "DIFlag"},
    **{"DISPFlag": "DISPFlag", "CSK_": "ChecksumKind"},
}
GRAMMAR = [  # the first that matches; the group is the value
    ("LabelID", r"([0-9]+):"),
    ("LabelStr", r"([-a-zA-Z$._0-9]+):"),
    ("LabelStr", r'"([^"]*)":'),
    ("StringConstant", r'"([^"]*)"'),
    *[
        (kind, sigil + value)
        for kind, sigil in (("GlobalVar", "@"), ("LocalVar", "%"), ("ComdatVar", "[$]"))
        for value in ('"([^"]*)"', f"({NAME})")
    ],
    ("GlobalID", r"@([0-9]+)"),
    ("LocalVarID", r"%([0-9]+)"),
    ("SummaryID", r"\^([0-9]+)"),
    ("AttrGrpID", r"#([0-9]+)"),
    ("MetadataVar", r"!([-a-zA-Z$._\\][-a-zA-Z$._0-9\\]*)"),
    ("Error", r'([@%$]?"[^"]*)\Z'),  # a string that does not end
    ("Type", r"(i[0-9]+)"),
    ("APFloat", rf"({FLOAT})"),
    ("Error", r"(0)x"),
    ("APSInt", r"(-?[0-9]+)"),
    ("word", r"([a-zA-Z_][a-zA-Z0-9_]*)"),
    ("mark", r"([.]{3}|[=,*\[\]{}<>()!|:#])"),
    ("Error", "([^\x00-\x7f]+|.)"),
]


RULES = [(kind, re.compile(pattern, re.ASCII | re.DOTALL)) for kind, pattern in GRAMMAR]


def reference(text: str, keywords: set[str]) -> list[tuple[str, str]]:
    """Return kinds and values of the tokens, found one rule after the other."""
    found, place = [], 0
    while place < len(text):
        if blank := re.compile(r"[ \t\r\n]+|;[^\r\n]*").match(text, place):
            place = blank.end()
        elif text[place] == "/":
            place = after_comment(text, place)
        else:
            kind, match = next((kind, match) for kind, rule in RULES if (match := rule.match(text, place)))
            value, place = match[1], match.end()
            if match[0] == "0x":
                place -= 1
            if kind == "word":
                kind, value, back = word(value, keywords)
                place -= back
            found.append((MARKS[value], "") if kind == "mark" else (kind, value))
    return found


def word(text: str, keywords: set[str]) -> tuple[str, str, int]:
    """Return kind and value of a word, and how many of its characters are not part of it."""
    if text in keywords:
        return f"kw_{text}", "", 0
    if text in WORDS:
        return WORDS[text], text, 0
    for prefix, kind in PREFIXES.items():
        if text.startswith(prefix):
            return kind, text, 0
    if re.fullmatch("[us]0x[0-9A-Fa-f]+", text):
        return "APSInt", text, 0
    if text.startswith("cc"):
        return "kw_cc", "", len(text) - 2
    return "Error", text, 0


def after_comment(text: str, place: int) -> int:
    if not text.startswith("/*", place):
        return place + 1
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, place):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


@pytest.fixture(scope="module")
def lexer(natives: NativeLibraries) -> Lexer:
    return Lexer(natives.load("lexer"))


@pytest.fixture(scope="module")
def keywords(lexer: Lexer) -> set[str]:
    return {kind[3:] for kind in lexer.kinds if kind.startswith("kw_")}


def lex(lexer: Lexer, text: str) -> list[LexedToken]:
    """Lex, and check that the columns fit together."""
    found = lexer.lex(text)
    ids = struct.unpack(f"<{len(found.ids) // 4}i", found.ids)
    assert found.kinds == [lexer.kinds[i] for i in ids] and found.categories == [lexer.categories[i] for i in ids]
    return [LexedToken(*token) for token in zip(ids, found.kinds, found.categories, found.values, strict=True)]


def pairs(lexer: Lexer, text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.value) for token in lex(lexer, text)]


def test_kinds_have_the_numbers_of_llvm_10(lexer: Lexer) -> None:
    wanted = {"Eof": 0, "Error": 1, "dotdotdot": 2, "colon": 16, "kw_vscale": 17, "kw_define": 22, "kw_global": 23}
    wanted |= {"LabelID": 390, "GlobalID": 391, "LabelStr": 395, "Type": 413, "APFloat": 414, "APSInt": 415}
    assert {kind: lexer.kinds.index(kind) for kind in wanted} == wanted
    assert len(lexer.kinds) == len(set(lexer.kinds)) == KIND_COUNT == len(lexer.categories)
    assert set(lexer.categories) == {"marker", "keyword", "uintval", "strval", "type", "apfloat", "apsint"}


@pytest.mark.parametrize("major", [14, 19])
def test_no_kind_of_a_token_of_llvm_is_missing(lexer: Lexer, keywords: set[str], major: int) -> None:
    include = Path(f"/usr/include/llvm-{major}/llvm")
    if not include.exists():
        pytest.skip(f"no headers of LLVM {major} (apt install llvm-{major}-dev)")
    body = re.search(r"enum Kind \{(.*?)\n\};", (include / "AsmParser/LLToken.h").read_text(), re.DOTALL)
    assert body
    kinds = set(re.findall(r"\b(\w+),", re.sub("//.*|#.*|/[*].*?[*]/", "", body[1]))) - {"DISPLAY_NAME"}
    assert len(kinds) > 400 and kinds <= set(lexer.kinds)
    attributes = re.findall(r"ATTRIBUTE_ENUM\(\w+,\s*([a-z]\w*)\)", (include / "IR/Attributes.inc").read_text())
    assert len(attributes) > 50 and set(attributes) <= keywords


def test_a_function_by_hand(lexer: Lexer) -> None:
    text = (
        'define i32 @f(ptr %p) #3 { ; one\n"a b":\n  store float -1.5e-3, ptr %p, align 4, !tbaa !7\n ret i32 %"0x"\n}'
    )
    assert pairs(lexer, text) == [
        *[("kw_define", ""), ("Type", "i32"), ("GlobalVar", "f"), ("lparen", ""), ("Type", "ptr"), ("LocalVar", "p")],
        *[("rparen", ""), ("AttrGrpID", "3"), ("lbrace", ""), ("LabelStr", "a b"), ("kw_store", ""), ("Type", "float")],
        *[("APFloat", "-1.5e-3"), ("comma", ""), ("Type", "ptr"), ("LocalVar", "p"), ("comma", ""), ("kw_align", "")],
        *[("APSInt", "4"), ("comma", ""), ("MetadataVar", "tbaa"), ("exclaim", ""), ("APSInt", "7"), ("kw_ret", "")],
        *[("Type", "i32"), ("LocalVar", "0x"), ("rbrace", "")],
    ]


@pytest.mark.parametrize(
    "text",
    [
        '@.str = constant [3 x i8] c"a\\00b"',
        "#dbg_value(i32 0, !5, !DIExpression(DW_OP_plus_uconst, 4), !9)",
        '!DIFile(filename: "a", checksumkind: CSK_MD5, flags: DIFlagPublic | DIFlagArtificial, x: u0xFF)',
        "0x3FF0000000000000 0xK4000C8F5C28F5C28F5C3 0xH3C00 0x 1. 1.e 1.5e+7 -3 -a: -3: 3: 3a: -",
        'cc10 cc ccc fastcc u0xz u0x1g s0x1 i32x i x i1: a-b foo.bar x86_fp80 $a $"q" $: ^1 ^a #1 # @ % @1 %2',
        "/* a /* b */ c */ x / y /* open",
        '"open',
        '%"open',
        "... .. .a: \\ ` é 'ü",
        "",
    ],
)
def test_odd_texts_agree_with_the_grammar(lexer: Lexer, keywords: set[str], text: str) -> None:
    assert pairs(lexer, text) == reference(text, keywords)


def test_a_nul_is_a_blank_and_ends_no_text(lexer: Lexer) -> None:
    assert pairs(lexer, "i1\0i2") == [("Type", "i1"), ("Type", "i2")]
    assert pairs(lexer, '"a\0b" i2\0')[-1] == ("Error", '" i2')


PIECES = (
    'define i32 @main %x %12 %"a" !dbg !0 !{ } ( ) [ ] < > = , * ... #0 # ^1 $c c"hi\\0A" label: 7: "q": 1.5e3 0x1F '
    "0xK0F u0xAB -7 cc9 DW_TAG_x DIFlagX CSK_MD5 dbg_value ptr x86_fp80 i i8x i64 /* */ ; \n | : + +1 +1.0 GNU None"
)
FRAGMENT = st.one_of(
    st.sampled_from(PIECES.split(" ")),
    st.text(alphabet=st.characters(codec="ascii", exclude_characters="\0"), max_size=6),
    st.text(alphabet='abcixu0123.-$_:"\\%@!#^=e+x', max_size=8),
    st.text(max_size=3).filter(lambda text: "\0" not in text),
)


@settings(max_examples=400)
@given(fragments=st.lists(st.tuples(FRAGMENT, st.sampled_from(["", "", " ", "\n"])), max_size=20))
def test_any_text_agrees_with_the_grammar(lexer: Lexer, keywords: set[str], fragments: list[tuple[str, str]]) -> None:
    text = "".join(fragment + gap for fragment, gap in fragments)
    assert pairs(lexer, text) == reference(text, keywords)
    tokens = lex(lexer, text)
    if not any(token.kind == "Error" for token in tokens):
        assert lex(lexer, unlex(tokens)) == tokens


@pytest.mark.few(4)
@pytest.mark.parametrize("major", [None, 14, 19])
@pytest.mark.parametrize(
    ("name", "flags"),
    [("calculator.c", ()), ("shapes.cc", ("-g", "-fexceptions")), ("matrix.c", ("-O2", "-march=haswell"))],
)
def test_real_programs_come_back(
    lexer: Lexer,
    keywords: set[str],
    library: Library,
    system_library: Callable[[int], Library],
    compile_with: Compile,
    major: int | None,
    name: str,
    flags: tuple[str, ...],
) -> None:
    used = library if major is None else system_library(major)
    content = compile_with(find_clang(used), name, *flags)
    with Module.parse(used, content) as module:
        text = module.to_text()
    tokens = lex(lexer, text)
    assert "Error" not in {token.kind for token in tokens}
    assert [(token.kind, token.value) for token in tokens] == reference(text, keywords)
    with Module.parse(used, unlex(tokens).encode()) as module:
        assert module.to_text() == text


def test_a_text_of_short_tokens_is_lexed_whole(lexer: Lexer) -> None:
    assert [token.kind for token in lex(lexer, "(" * 1000)] == ["lparen"] * 1000
