"""Canonical order and fingerprints of modules: one change, another fingerprint; the same program, the same one."""

import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, byref, c_char_p, c_size_t, c_void_p, cast, string_at

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.workers.llvm._canonical import Facts, Surveyor
from aiocg.workers.llvm._layout import Layout, find_layout
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm.module import Context, LlvmError, Module, TargetMachine
from aiocg.workers.llvm.native_code import NativeLibraries

Compile = Callable[..., bytes]

# ---- what to tell apart ----

# Each table has templates behind their names, to be put where the table's frame says HERE. Between slashes are the
# variants of a program; several such places vary together. A number with a name is the first release that reads them.

INSTRUCTIONS_FRAME = """
%node = type { i32, ptr }
@v = global i32 0
@w = global i32 0
declare void @callee(i32, ptr)
declare void @other(i32, ptr)
declare void @varargs(...)
declare i32 @function()
declare float @number(float)
declare void @llvm.assume(i1)
declare i32 @llvm.read_register.i32(metadata)
define void @f(i32 %x, i32 %y, i64 %l, i128 %h, float %a, float %b, ptr %p, ptr %q, i1 %c, <4 x i32> %s, <4 x i32> %t,
               { i32, { i32, i32 } } %z) {
  HERE
  ret void
}
!0 = !{}
!1 = !{!"one", i32 1}
!2 = !{!"two", i32 1}
!3 = !{i32 0, i32 5}
!4 = !{i32 0, i32 6}
!5 = !{!"branch_weights", i32 1, i32 2}
!6 = !{!"branch_weights", i32 2, i32 1}
!7 = distinct !{}
!8 = distinct !{}
!9 = !{!7}
!10 = !{!8}
!11 = !{ptr @v}
!12 = !{ptr @w}
!13 = !{!"rax"}
!14 = !{!"rbx"}
!15 = !{null}
!16 = !{!"one", i64 1}
!17 = !{!"one", <2 x i32> <i32 1, i32 2>}
!18 = !{!"one", i32 poison}
!19 = !{!2}
!20 = !{i32 1}
"""

INSTRUCTIONS = r"""
opcode: %r = /add|sub|mul|udiv|sdiv|urem|srem|shl|lshr|ashr|and|or|xor/ i32 %x, %y
opcode of floats: %r = /fadd|fsub|fmul|fdiv|frem/ float %a, %b
type of operands: %r = add /i32 %x, %x|i64 %l, %l|i128 %h, %h|<4 x i32> %s, %s/
which argument: %r = add i32 %x, /%x|%y/
order of arguments: %r = sub i32 /%x, %y|%y, %x/
which instruction:
  %m = mul i32 %x, %y
  %n = mul i32 %x, %y
  %r = add i32 /%m, %m|%m, %n|%n, %m|%n, %n/
order of instructions:
  /%m|%n/ = mul i32 %x, %x
  /%n|%m/ = mul i32 %y, %y
  %r = sub i32 %m, %n
another instruction:
  %m = mul i32 %x, %x
  /|%n = mul i32 %x, %x/
wrapping of add: %r = add /|nuw|nsw|nuw nsw/ i32 %x, %y
wrapping of sub: %r = sub /|nuw|nsw|nuw nsw/ i32 %x, %y
wrapping of mul: %r = mul /|nuw|nsw|nuw nsw/ i32 %x, %y
wrapping of shl: %r = shl /|nuw|nsw|nuw nsw/ i32 %x, %y
wrapping of trunc: %r = trunc /|nuw|nsw|nuw nsw/ i64 %l to i32
exact: %r = udiv /|exact/ i32 %x, %y
exact shift: %r = ashr /|exact/ i32 %x, %y
disjoint: %r = or /|disjoint/ i32 %x, %y
nneg: %r = zext /|nneg/ i32 %x to i64
nneg of a float: %r = uitofp /|nneg/ i32 %x to float
same sign (20): %r = icmp /|samesign/ ult i32 %x, %y
predicate: %r = icmp /eq|ne|ugt|uge|ult|ule|sgt|sge|slt|sle/ i32 %x, %y
predicate of floats: %r = fcmp /false|oeq|ogt|oge|olt|ole|one|ord|ueq|ugt|uge|ult|ule|une|uno|true/ float %a, %b
fast arithmetic: %r = fadd /|nnan|ninf|nsz|arcp|contract|afn|reassoc|fast/ float %a, %b
fast comparison: %r = fcmp /|nnan|ninf|nsz|fast/ oeq float %a, %b
fast negation: %r = fneg /|nnan|nsz|fast/ float %a
fast selection: %r = select /|nnan|nsz|fast/ i1 %c, float %a, float %b
fast call: %r = call /|nnan|ninf|nsz|arcp|contract|afn|reassoc|fast/ float @number(float %a)
fast cast (20): %r = fpext /|nnan|ninf|fast/ float %a to double
extension: %r = /zext|sext/ i32 %x to i64
width of a cast: %r = trunc i64 %l to /i32|i16|i8|i1/
cast to a float: %r = /sitofp|uitofp/ i32 %x to float
cast of a float: %r = /fptosi|fptoui/ float %a to i32
cast of a pointer (22): %r = /ptrtoint|ptrtoaddr/ ptr %p to i64
address space of a cast: %r = addrspacecast ptr %p to ptr addrspace(/1|2/)
freezing: %r = freeze i32 /%x|%y|undef|poison|0/
selection: %r = select i1 %c, i32 /%x, i32 %y|%y, i32 %x/
variable arguments: %r = va_arg ptr %p, /i32|i64|ptr/
flags of an address: %r = getelementptr /|inbounds|nusw|nuw|nusw nuw|inbounds nuw/ i8, ptr %p, i64 %l
type of an address: %r = getelementptr /i8|i16|i32|i64|ptr|[4 x i8]|{ i8 }|<{ i8 }>|%node|<4 x i8>/, ptr %p, i64 %l
index: %r = getelementptr %node, ptr %p, i64 0, i32 /0|1/
type of an index: %r = getelementptr i8, ptr %p, /i32 1|i64 1|i8 1/
number of indices: %r = getelementptr [2 x [2 x i8]], ptr %p, i64 0/|, i64 0|, i64 0, i64 0/
alignment of a load: %r = load i32, ptr %p, align /1|2|4|16|4294967296/
alignment of a store: store i32 %x, ptr %p, align /1|2|4|16/
alignment of a slot: %r = alloca i32, align /1|2|4|16/
type of a slot: %r = alloca /i32|i64|[4 x i8]|%node|{ i32, ptr }/, align 8
kind of a slot: %r = alloca /|inalloca|swifterror/ ptr, align 8
number of slots: %r = alloca i32, /i32 1|i32 2|i64 1|i32 %x/, align 4
address space of a slot: %r = alloca i32, align 4, addrspace(/1|2/)
volatile load: %r = load /|volatile/ i32, ptr %p
volatile store: store /|volatile/ i32 %x, ptr %p
type of a load: %r = load /i32|float|<4 x i8>|{ i32 }/, ptr %p, align 4
order of a load: %r = load /|atomic/ i32, ptr %p /|unordered/, align 4
order of an atomic load: %r = load atomic i32, ptr %p /unordered|monotonic|acquire|seq_cst/, align 4
order of an atomic store: store atomic i32 %x, ptr %p /unordered|monotonic|release|seq_cst/, align 4
order of a fence: fence /acquire|release|acq_rel|seq_cst/
order of a change: %r = atomicrmw add ptr %p, i32 %x /monotonic|acquire|release|acq_rel|seq_cst/
order of an exchange: %r = cmpxchg ptr %p, i32 %x, i32 %y /monotonic|acquire|release|acq_rel|seq_cst/ monotonic
order of a failure: %r = cmpxchg ptr %p, i32 %x, i32 %y seq_cst /monotonic|acquire|seq_cst/
weak exchange: %r = cmpxchg /|weak|volatile|weak volatile/ ptr %p, i32 %x, i32 %y seq_cst seq_cst
alignment of an exchange: %r = cmpxchg ptr %p, i32 %x, i32 %y seq_cst seq_cst, align /4|8/
atomic change: %r = atomicrmw /xchg|add|sub|and|nand|or|xor|max|min|umax|umin|uinc_wrap|udec_wrap/ ptr %p,
  i32 %x seq_cst
newer atomic change (20): %r = atomicrmw /usub_cond|usub_sat/ ptr %p, i32 %x seq_cst
atomic change of floats: %r = atomicrmw /fadd|fsub|fmax|fmin/ ptr %p, float %a seq_cst
volatile atomic change: %r = atomicrmw /|volatile/ add ptr %p, i32 %x seq_cst
alignment of a change: %r = atomicrmw add ptr %p, i32 %x seq_cst, align /4|8/
scope of a fence: fence /|syncscope("singlethread")|syncscope("agent")|syncscope("group")/ acquire
scope of a load: load atomic i32, ptr %p /|syncscope("singlethread")|syncscope("agent")/ acquire, align 4
scope of a store: store atomic i32 0, ptr %p /|syncscope("singlethread")|syncscope("agent")/ release, align 4
scope of a change: atomicrmw add ptr %p, i32 1 /|syncscope("singlethread")|syncscope("agent")/ acquire
scope of an exchange: cmpxchg ptr %p, i32 0, i32 1 /|syncscope("singlethread")|syncscope("agent")/ acquire acquire
kind of a tail call: /|tail|notail/ call void @callee(i32 %x, ptr %p)
convention of a call: call /ccc|fastcc|coldcc|preserve_mostcc|cc 10|cc 1023/ void @callee(i32 %x, ptr %p)
callee: call void /@callee|@other|%p|%q|null/(i32 %x, ptr %p)
argument: call void @callee(i32 /%x|%y|1|undef/, ptr %p)
order of variable arguments: call void (...) @varargs(/i32 %x, i32 %y|i32 %y, i32 %x|i32 %x, i32 %x/)
type of a call: call void /(...)|(i32, ...)|(i32)/ @varargs(i32 %x)
attribute of a call: call void @callee(i32 %x, ptr %p) /|nounwind|cold|willreturn|nounwind willreturn|convergent/
memory of a call: call void @callee(i32 %x, ptr %p) memory(/none|read|argmem: read|argmem: write/)
text at a call: call void @callee(i32 %x, ptr %p) /"a"|"b"|"a"="b"|"a"="c"|"a" "b"|"ab"/
attribute of an argument: call void @callee(i32 %x, ptr /|noundef|nonnull|noalias|readonly|nofree/ %p)
attribute of which argument: call void @callee(i32 /noundef|/ %x, ptr /|noundef/ %p)
number in an attribute: call void @callee(i32 %x, ptr /align 4|align 8|dereferenceable(4)|dereferenceable(8)|
  dereferenceable_or_null(4)/ %p)
type in an attribute: call void @callee(i32 %x, ptr /sret(i32)|sret(i64)|byval(i32)|byval(%node)|inalloca(i32)/ %p)
attribute of a result: %r = call /|noundef|signext|zeroext|inreg/ i32 @function()
range of a result: %r = call /|range(i32 0, 5)|range(i32 0, 6)|range(i32 1, 5)/ i32 @function()
class of floats: %r = call nofpclass(/nan|inf|zero/) float @number(float %a)
bundles: call void @callee(i32 %x, ptr %p) /|["a"()]|["b"()]|["a"(i32 %x)]|["a"(i32 %y)]|["a"(i32 %x, i32 %y)]|
  ["a"(i32 %x), "a"(i32 %y)]/
where a bundle ends: call void @callee(i32 %x, ptr %p) /["a"(i32 %x), "b"(i32 %y)]|["a"(i32 %x, i32 %y), "b"()]/
assumption: call void @llvm.assume(i1 true) /["align"(ptr %p, i64 8)]|["align"(ptr %p, i64 4)]|["nonnull"(ptr %p)]/
assembly: call void asm sideeffect "/nop|ret|nop\0Anop|\00a|\00b/", "~{memory}"()
constraints: call void asm sideeffect "nop", "/|~{memory}|~{cc}|~{memory},~{cc}/"()
flags of assembly: call void asm /|sideeffect|alignstack|inteldialect|unwind|sideeffect alignstack/ "nop", ""()
operand of assembly: %r = call i32 asm "nop", "=r,r"(i32 /%x|%y|1/)
element: %r = extractelement <4 x i32> %s, /i32 0|i32 1|i64 1|i32 %x/
new element: %r = insertelement <4 x i32> %s, i32 %x, i32 /0|1/
mask: %r = shufflevector <4 x i32> %s, <4 x i32> %t, <2 x i32> /<i32 0, i32 1>|<i32 1, i32 0>|<i32 0, i32 5>|<i32 0,
  i32 poison>|zeroinitializer|poison/
length of a mask: %r = shufflevector <4 x i32> %s, <4 x i32> %t, /<2 x i32>|<3 x i32>/ zeroinitializer
path into a value: %r = extractvalue { i32, { i32, i32 } } %z, /0|1|1, 0|1, 1/
path of a new value: %r = insertvalue { i32, { i32, i32 } } %z, i32 %x, /0|1, 0|1, 1/
scalable: %r = load /<2 x i32>|<4 x i32>|<vscale x 2 x i32>|<vscale x 4 x i32>/, ptr %p, align 4
kind of metadata: %r = load i32, ptr %p/|, !range !3|, !noundef !0|, !nontemporal !20|, !own !0|, !other !0/
range: %r = load i32, ptr %p, !range !/3|4/
two kinds of metadata: %r = load ptr, ptr %p/, !nonnull !0|, !noundef !0|, !nonnull !0, !noundef !0/
names of foreign kinds: ret void/, !aa !1, !ab !2|, !aa !2, !ab !1|, !aa !1, !ac !2|, !aa !1|, !aa !1, !ab !1/
weights: %r = select i1 %c, i32 %x, i32 %y, !prof !/5|6/
content of metadata: ret void, !own !/0|1|2|3|7|9|11|12|15|16|17|18|19/
which distinct node:
  fence acquire, !own !7
  fence acquire, !own !8
  ret void, !own !/7|8|9|10/
metadata as an operand: %r = call i32 @llvm.read_register.i32(metadata !/13|14/)
"""

CONSTANTS_FRAME = """
%small = type { i8, i32 }
%large = type { i8, i32 }
@a = global i32 0
@b = global i32 0
@far = addrspace(1) global i32 0
@alias = alias i32, ptr @a
define void @store() {
  store HERE, ptr @b
  ret void
}
define void @f(ptr %p) {
  indirectbr ptr %p, [label %one, label %two]
one:
  ret void
two:
  ret void
}
define void @g(ptr %p) {
  indirectbr ptr %p, [label %one, label %two]
one:
  ret void
two:
  ret void
}
"""

CONSTANTS = r"""
bit: i1 /0|1|undef|poison/
number: i32 /0|1|2|-1|2147483647|-2147483648|undef|poison/
number of 65 bits: i65 /0|1|18446744073709551615|-18446744073709551616|18446744073709551614/
number of 128 bits: i128 /0|1|18446744073709551616|18446744073709551617|36893488147419103232|-1/
number of 300 bits: i300 /1|18446744073709551617|340282366920938463463374607431768211457/
float: float /0.0|-0.0|1.0|2.0|0x36A0000000000000|0x7FF0000000000000|0xFFF0000000000000|undef|poison/
float that is no number:
  float /0x7FF8000000000000|0xFFF8000000000000|0x7FF8000020000000|0x7FF4000000000000|0x7FF0000020000000/
double: double /0.0|-0.0|1.0|0x3FF0000000000001|0x7FF8000000000000|0x7FF8000000000001|0x7FF4000000000000/
half: half /0xH0000|0xH8000|0xH3C00|0xH3C01|0xH7E00|0xH7D00/
bfloat: bfloat /0xR0000|0xR8000|0xR3F80|0xR3F81|0xR7FC0/
fp128: fp128 /0xL00000000000000003FFF000000000000|0xL00000000000000013FFF000000000000|
  0xL00000000000000004000000000000000/
x86_fp80: x86_fp80 /0xK3FFF8000000000000000|0xK3FFF8000000000000001|0xK40008000000000000000/
ppc_fp128: ppc_fp128 /0xM3FF00000000000000000000000000000|0xM3FF00000000000000000000000000001/
type of nothing: /i8 0|i16 0|i32 0|i64 0|half 0.0|bfloat 0.0|float 0.0|double 0.0|ptr null|ptr addrspace(1) null|
  [1 x i8] zeroinitializer|<1 x i8> zeroinitializer|{ i8 } zeroinitializer|<{ i8 }> zeroinitializer|
  %small zeroinitializer|%large zeroinitializer|[0 x i8] zeroinitializer|{} zeroinitializer|
  <vscale x 1 x i8> zeroinitializer/
pointer: ptr /null|@a|@b|undef|poison|@f|@alias/
bytes: [4 x i8] /c"abcd"|c"abce"|c"dcba"|c"abc\00"|c"ab\00d"|zeroinitializer|undef|poison/
data: [2 x i32] /[i32 1, i32 2]|[i32 2, i32 1]|[i32 1, i32 1]|zeroinitializer|[i32 undef, i32 1]|[i32 poison,
  i32 1]|undef/
floats: [2 x float] /[float 1.0, float 2.0]|[float 0.0, float -0.0]|[float -0.0, float 0.0]|zeroinitializer/
vector: <2 x i32> /<i32 1, i32 2>|<i32 2, i32 1>|<i32 1, i32 1>|<i32 2, i32 2>|zeroinitializer|<i32 undef, i32 1>|
  <i32 poison, i32 1>|undef|poison/
vector of bits: <2 x i1> /<i1 0, i1 1>|<i1 1, i1 0>|<i1 1, i1 1>|zeroinitializer/
vector of pointers: <2 x ptr> /<ptr @a, ptr @b>|<ptr @b, ptr @a>|<ptr @a, ptr @a>|<ptr @a, ptr null>|<ptr null, ptr @a>|
  zeroinitializer/
array of pointers: [2 x ptr] /[ptr @a, ptr @b]|[ptr @b, ptr @a]|[ptr @a, ptr @a]|[ptr @a, ptr null]|[ptr @a, ptr undef]|
  [ptr null, ptr @a]/
struct: { i32, ptr } /{ i32 1, ptr @a }|{ i32 2, ptr @a }|{ i32 1, ptr @b }|{ i32 1, ptr null }|zeroinitializer|undef|
  poison/
type of a struct:
  /{ i8, i32 } { i8 1, i32 2 }|<{ i8, i32 }> <{ i8 1, i32 2 }>|%small { i8 1, i32 2 }|%large { i8 1, i32 2 }/
struct of structs: { { i8 }, { i8 } } /{ { i8 } { i8 1 }, { i8 } { i8 2 } }|{ { i8 } { i8 2 }, { i8 } { i8 1 } }|
  { { i8 } { i8 1 }, { i8 } { i8 1 } }/
flags of an address: ptr getelementptr /|inbounds|nusw|nuw|nusw nuw|inbounds nuw/ (i8, ptr @a, i64 1)
address: ptr getelementptr (i8, ptr /@a, i64 1|@b, i64 1|@a, i64 2|@a, i32 1|@a, i64 -1/)
type of an address: ptr getelementptr (/i8|i16|%small|%large|[1 x i8]|<{ i8 }>/, ptr @a, i64 1)
range of an address:
  ptr getelementptr /|inrange(0, 4)|inrange(0, 5)|inrange(-1, 4)|inbounds inrange(0, 4)/ ([4 x i32], ptr @a, i8 0, i8 1)
address as a number: i64 /ptrtoint (ptr @a to i64)|ptrtoint (ptr @b to i64)|
  ptrtoint (ptr addrspacecast (ptr addrspace(1) @far to ptr) to i64)|0/
sum of addresses: i64 /add|sub|xor/ (i64 ptrtoint (ptr @a to i64), i64 5)
flags of a sum: i64 add /|nuw|nsw|nuw nsw/ (i64 ptrtoint (ptr @a to i64), i64 5)
difference of addresses: i64 sub (i64 ptrtoint (ptr /@a|@b/ to i64), i64 ptrtoint (ptr /@b|@a/ to i64))
number as an address: ptr inttoptr (/i64 1|i64 2|i32 1|i64 ptrtoint (ptr @a to i64)/ to ptr)
truncated address: /i32 trunc (i64 ptrtoint (ptr @a to i64) to i32)|i16 trunc (i64 ptrtoint (ptr @a to i64) to i16)/
block: ptr blockaddress(/@f, %one|@f, %two|@g, %one|@g, %two/)
blocks: [2 x ptr] [ptr blockaddress(@f, %/one|two/), ptr blockaddress(@f, %/two|one/)]
"""

VARIABLES_FRAME = """
$any = comdat any
$other = comdat any
$exact = comdat exactmatch
$same = comdat samesize
$largest = comdat largest
$no = comdat nodeduplicate
%node = type { i32, i32 }
%opaque = type opaque
%empty = type {}
%none = type <{}>
@h = global i32 0
@g = HERE
!0 = !{i64 0, !"a"}
!1 = !{i64 0, !"b"}
!2 = !{i64 8, !"a"}
!3 = !{i64 0, !7}
!4 = !{ptr @h}
!5 = !{i64 0, i64 256}
!6 = !{i64 0, i64 255}
!7 = distinct !{}
"""

VARIABLES = r"""
linkage: /|private|internal|weak|weak_odr|linkonce|linkonce_odr|common/ global i32 0
linkage of a declaration: /external|extern_weak/ global i32
visibility: /|hidden|protected/ global i32 0
storage: external /|dllimport|dllexport/ global i32
whether it is local: external /|dso_local/ global i32
threads: /|thread_local|thread_local(localdynamic)|thread_local(initialexec)|thread_local(localexec)/ global i32 0
address that does not matter: /|local_unnamed_addr|unnamed_addr/ global i32 0
constant: /global|constant/ i32 0
from elsewhere: /|externally_initialized/ global i32 0
section: global i32 0/|, section "a"|, section "b"|, section "ab"/
partition: global i32 0/|, partition "a"|, partition "b"/
alignment: global i32 0/|, align 1|, align 4|, align 16/
code model: global i32 0/|, code_model "small"|, code_model "medium"|, code_model "large"/
sanitisers: global i32 0/|, no_sanitize_address|, no_sanitize_hwaddress|, sanitize_memtag|, sanitize_address_dyninit|,
  no_sanitize_address, no_sanitize_hwaddress/
comdat: global i32 0/|, comdat($any)|, comdat($other)|, comdat($exact)|, comdat($same)|, comdat($largest)|,
  comdat($no)/
content: global /i32 0|i32 1|i64 0|float 0.0|ptr null|ptr @h|[1 x i32] zeroinitializer|%node zeroinitializer/
declaration: /global i32 0|external global i32/
type of a declaration: external global /i32|i64|ptr|%node|%opaque|%empty|%none|{}|<{}>|[2 x i32]|[3 x i32]|<2 x i32>|
  <3 x i32>/
address space: /|addrspace(1)|addrspace(2)/ global i32 0
metadata: global i32 0, !type /!0|!1|!2|!3/
order of metadata: global i32 0, !type /!0, !type !1|!1, !type !0|!0|!1/
kind of metadata: global i32 0, !/type|associated|own|other/ !4
absolute symbol: external global i8, !absolute_symbol /!5|!6/
"""

FUNCTIONS_FRAME = """
$any = comdat any
$other = comdat any
$exact = comdat exactmatch
$no = comdat nodeduplicate
%node = type { i32 }
declare i32 @one(...)
declare i32 @two(...)
define HERE {
  unreachable
}
!0 = !{!"function_entry_count", i64 1}
!1 = !{!"function_entry_count", i64 2}
!2 = !{i64 0, !"a"}
!3 = !{i64 0, !"b"}
"""

FUNCTIONS = r"""
linkage: /|private|internal|weak|weak_odr|linkonce|linkonce_odr|available_externally/ void @f()
visibility: /|hidden|protected/ void @f()
storage: /|dllexport/ void @f()
whether it is local: /|dso_local/ void @f()
convention: /|fastcc|coldcc|preserve_mostcc|cc 10|cc 1023/ void @f()
name: void @/f|g|"f g"|0/()
parameters: void @f(/|i32|i64|i32, i32|ptr|...|i32, .../)
attribute of the result: /|noundef|signext|zeroext|inreg/ i32 @f()
range of the result: /|range(i32 0, 5)|range(i32 0, 6)/ i32 @f()
attribute of a parameter: void @f(ptr /|noundef|nonnull|noalias|readonly|nest/)
attribute of which parameter: void @f(i32 /noundef|/, i32 /|noundef/)
number in an attribute: void @f(ptr /align 4|align 8|dereferenceable(4)|dereferenceable(8)|
  dereferenceable_or_null(4)/)
type in an attribute: void @f(ptr /sret(i32)|sret(i64)|byval(i32)|byval(%node)|byref(i32)|preallocated(i32)|
  inalloca(i32)/)
what a parameter captures (21): void @f(ptr captures(/none|address|address_is_null|ret: address, provenance/))
what is initialised: void @f(ptr initializes(/(0, 4)|(0, 8)|(0, 4), (8, 12)/))
address that does not matter: void @f() /|local_unnamed_addr|unnamed_addr/
address space: void @f() /|addrspace(1)/
attribute: void @f() /|nounwind|cold|hot|willreturn|nounwind willreturn|noinline|alwaysinline|optsize|minsize optsize/
text: void @f() /"a"|"b"|"a"="b"|"a"="c"|"a" "b"|"ab"/
memory: void @f() memory(/none|read|write|argmem: read|inaccessiblemem: read|argmem: read, inaccessiblemem: write/)
kind of allocation: ptr @f() allockind("/alloc|realloc|free|alloc,zeroed|alloc,uninitialized/")
size of an allocation: ptr @f(i32, i32) allocsize(/0|1|0, 1|1, 0/)
scale of vectors: void @f() vscale_range(/1,1|1,2|2,2/)
tables for unwinding: void @f() /|uwtable|uwtable(sync)/
alignment of a stack: void @f() alignstack(/4|8/)
section: void @f() /|section "a"|section "b"/
partition: void @f() /|partition "a"|partition "b"/
comdat: void @f() /|comdat($any)|comdat($other)|comdat($exact)|comdat($no)/
alignment: void @f() align /1|2|16/
collector: void @f() /|gc "a"|gc "b"/
data around it: void @f() /|prefix i32 1|prefix i32 2|prefix i64 1|prologue i32 1|prefix i32 1 prologue i32 2|
  prefix i32 2 prologue i32 1|personality ptr @one|personality ptr @two|prefix ptr @one|prologue ptr @one/
metadata: void @f() /|!prof !0|!prof !1|!own !0|!other !0|!type !2|!type !2 !type !3|!type !3 !type !2/
"""

MODULES_FRAME = """
HERE
@a = global [2 x i32] zeroinitializer
@b = global i32 0
define ptr @one() {
  ret ptr @a
}
define ptr @two() {
  ret ptr @a
}
"""

MODULES = r"""
linkage of an alias: @g = /|private|internal|weak|linkonce_odr/ alias i32, ptr @a
visibility of an alias: @g = /|hidden/ alias i32, ptr @a
threads of an alias: @g = /|thread_local|thread_local(localexec)/ alias i32, ptr @a
address of an alias: @g = /|unnamed_addr/ alias i32, ptr @a
type of an alias: @g = alias /i32|i64|[2 x i32]|[1 x i32]/, ptr @a
what an alias is of: @g = alias i32, ptr /@a|@b|@one|getelementptr (i8, ptr @a, i64 4)|getelementptr (i8, ptr @a,
  i64 8)/
partition of an alias: @g = alias i32, ptr @a/|, partition "a"|, partition "b"/
name of an alias: @/g|h/ = alias i32, ptr @a
kind of symbol: /@g = global ptr @one|@g = constant ptr @one|@g = alias ptr, ptr @one|@g = ifunc void (), ptr @one/
what resolves: @g = ifunc void (), ptr /@one|@two/
linkage of what is resolved: @g = /|internal|weak/ ifunc void (), ptr @one
type of what is resolved: @g = ifunc /void ()|void (i32)/, ptr @one
partition of what is resolved: @g = ifunc void (), ptr @one/|, partition "a"|, partition "b"/
order of variables:
  /@c|@d/ = global i32 0
  /@d|@c/ = global i32 0
order of aliases:
  /@c|@d/ = alias i32, ptr @a
  /@d|@c/ = alias i32, ptr @a
order of functions:
  declare void /@c|@d/()
  declare void /@d|@c/()
number of functions:
  declare void @c()
  /|declare void @d()/
bodies:
  define i32 @c() {
    ret i32 /0|1/
  }
  define i32 @d() {
    ret i32 /1|0/
  }
assembly: module asm "/nop|ret|nop\00a|nop\00b/"
more assembly:
  module asm "a"
  module asm "/b|c/"
triple: target triple = "/|x86_64-unknown-linux-gnu|x86_64-pc-linux-gnu|aarch64-unknown-linux-gnu/"
layout of data: target datalayout = "/|e|e-i64:64|e-i64:32|E/"
file: source_filename = "/a|b|a\00b|a\00c/"
name of named metadata:
  !/own|other/ = !{!0}
  !0 = !{}
order of named metadata:
  !/own|other/ = !{!0}
  !/other|own/ = !{!0}
  !0 = !{}
named metadata:
  !own = !{/|!0|!1|!0, !1|!1, !0|!0, !0/}
  !0 = !{}
  !1 = !{!"a"}
flags:
  !llvm.module.flags = !{!0}
  !0 = !{i32 /1|7/, !"/wchar_size|PIC Level/", i32 /4|2/}
distinct metadata:
  !own = !{!0}
  !0 = /|distinct/ !{null}
metadata that is shared:
  !own = !{!0, !/0|1/}
  !0 = distinct !{}
  !1 = distinct !{}
metadata in metadata:
  !own = !{!0}
  !0 = !{null, /null|!1|!2|ptr @a|ptr @b|i32 0|i64 0|!{!1}|!{!1, null}|!{!{!1}}|!""|!"a"/}
  !1 = distinct !{}
  !2 = distinct !{!2}
metadata that refers back:
  !own = !{!0, !1, !2}
  !0 = distinct !{!/0|1|2/}
  !1 = distinct !{}
  !2 = distinct !{}
nothing or the sixth:
  !own = !{!0, !1, !2, !3, !4, !5, !6}
  !6 = !{/!5|null|!4/}
  !0 = distinct !{}
  !1 = distinct !{}
  !2 = distinct !{}
  !3 = distinct !{}
  !4 = distinct !{}
  !5 = distinct !{}
text in metadata:
  !own = !{!0}
  !0 = !{!"/a|b|ab|a\00|a\00b|/"}
how text is divided:
  !own = !{!0}
  !0 = !{!"/a|ab|/", !"/bc|c|abc/"}
name of a type:
  %/node|edge/ = type { i32 }
  @g = external global %/node|edge/
content of a type:
  %node = type /{ i32 }|<{ i32 }>|{ i64 }|{ i32, i32 }|{ [1 x i32] }|{ { i32 } }|{}|opaque|{ ptr }/
  @g = external global %node
literal type:
  %node = type { i32 }
  %0 = type { i32 }
  @g = external global /{ i32 }|%node|%0/
which type without a name:
  %0 = type { i32 }
  %1 = type { i32 }
  @c = external global %0
  @d = external global /%0|%1|{ %0 }|{ %1 }|[2 x %0]|[2 x %1]/
constant without a name:
  %0 = type { i32 }
  %1 = type { i32 }
  @c = external global %0
  define void @f() {
    store /%0|%1/ zeroinitializer, ptr @c
    ret void
  }
attribute without a name:
  %0 = type { i32 }
  %1 = type { i32 }
  @c = external global %0
  declare void @f(ptr sret(/%0|%1/))
type of the target: declare void @f(target("spirv./Image", 0|Image", 1|Sampler"/))
attributes of an intrinsic: declare /void @llvm.assume(i1)|void @llvm.donothing()/
metadata of what is resolved (21): @g = ifunc void (), ptr @one, !own /!{i32 1}|!{i32 2}/
"""

FLOW_FRAME = """
declare void @may()
declare i32 @one(...)
declare i32 @two(...)
define i32 @f(i32 %x, i1 %c, ptr %p) personality ptr @one {
  HERE
}
"""

FLOW = r"""
branch:
  br i1 %c, label /%a, label %b|%b, label %a|%a, label %a/
  a: ret i32 1
  b: ret i32 2
order of blocks:
  br i1 %c, label %a, label %b
  /a: ret i32 1
  b: ret i32 2|b: ret i32 2
  a: ret i32 1/
block of an instruction:
  br i1 %c, label %a, label %b
  a: /%s = mul i32 %x, %x|/
  br label %b
  b: /|%s = mul i32 %x, %x/
  ret i32 0
order of loops:
  br label %/a|b/
  a: br label %/b|a/
  b: br label %/a|b/
values of phi:
  br i1 %c, label %a, label %b
  a: br label %b
  b: %r = phi i32 [ /0|1|%x/, %0 ], [ 1, %a ]
  ret i32 %r
blocks of phi:
  br i1 %c, label %a, label %b
  a: br label %b
  b: %r = phi i32 [ 0, /%0|%a/ ], [ 1, /%a|%0/ ]
  ret i32 %r
order of phi:
  br i1 %c, label %a, label %b
  a: br label %b
  b: %r = phi i32 /[ 0, %0 ], [ 1, %a ]|[ 1, %a ], [ 0, %0 ]/
  ret i32 %r
flags of phi:
  br label %a
  a: %r = phi /|nnan|nsz/ float [ 0.0, %0 ]
  ret i32 0
later value of phi:
  br label %a
  a: %r = phi i32 [ 0, %0 ], [ /%s|%t/, %a ]
  %s = add i32 %r, 1
  %t = add i32 %r, 1
  br label %a
cases:
  switch i32 %x, label %a [ i32 /1|2/, label %a ]
  a: ret i32 0
wide cases:
  %w = zext i32 %x to i128
  switch i128 %w, label %a [ i128 /18446744073709551616|0/, label %a ]
  a: ret i32 0
order of cases:
  switch i32 %x, label %a [ i32 /1|2/, label %a i32 /2|1/, label %a ]
  a: ret i32 0
number of cases:
  switch i32 %x, label %a [/| i32 1, label %a| i32 1, label %a i32 2, label %a/ ]
  a: ret i32 0
what a case leads to:
  switch i32 %x, label %/a|b/ [ i32 1, label %/b|a/ ]
  a: ret i32 0
  b: ret i32 1
order of targets:
  indirectbr ptr %p, [label /%a, label %b|%b, label %a|%a|%a, label %a/]
  a: ret i32 0
  b: ret i32 1
loop:
  br label %a
  a: br label %a, !llvm.loop !0
  }
  !0 = distinct !{!0, !1}
  !1 = !{!"llvm.loop./mustprogress|unroll.disable/"}
  define void @g() {
  ret void
same loop:
  br label %a
  a: br i1 %c, label %b, label %a, !llvm.loop !0
  b: br label %b, !llvm.loop !/0|2/
  }
  !0 = distinct !{!0, !1}
  !1 = !{!"own"}
  !2 = distinct !{!2, !1}
  define void @g() {
  ret void
invoke:
  invoke void @may() to label %/a|b/ unwind label %pad
  a: ret i32 0
  b: ret i32 1
  pad: %l = landingpad { ptr, i32 } cleanup
  ret i32 0
clauses:
  invoke void @may() to label %on unwind label %pad
  on: ret i32 0
  pad: %l = landingpad { ptr, i32 } /cleanup|catch ptr null|catch ptr @one|cleanup catch ptr null|
  filter [0 x ptr] zeroinitializer|filter [1 x ptr] [ptr null]|catch ptr @one catch ptr @two|
  catch ptr @two catch ptr @one/
  ret i32 1
end of a cleanup:
  invoke void @may() to label %on unwind label %pad
  on: ret i32 0
  pad: %l = landingpad { ptr, i32 } cleanup
  /resume { ptr, i32 } %l|resume { ptr, i32 } zeroinitializer|unreachable/
assembly that jumps:
  callbr void asm "", "/!i,!i|!i|/"() to label %a [/label %b, label %d|label %b|/]
  a: ret i32 0
  b: ret i32 1
  d: ret i32 2
targets of assembly:
  callbr void asm "", "!i,!i"() to label %a [label /%b, label %d|%d, label %b/]
  a: ret i32 0
  b: ret i32 1
  d: ret i32 2
tail call:
  %r = /|tail|notail|musttail/ call i32 @f(i32 %x, i1 %c, ptr %p)
  ret i32 %r
result: ret i32 /0|1|%x|undef|poison/
"""


def templates(kind: str, frame: str, table: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield names, with the first release that reads a template, and the template in its frame."""
    for entry in re.findall(r"^\S.*(?:\n .*)*", table, re.MULTILINE):
        name, _, template = entry.partition(":")
        name, _, since = name.rstrip(")").partition(" (")
        yield f"{kind}: {name}", (int(since or 0), frame.replace("HERE", template))


TEMPLATES = {
    **dict(templates("instructions", INSTRUCTIONS_FRAME, INSTRUCTIONS)),
    **dict(templates("constants", CONSTANTS_FRAME, CONSTANTS)),
    **dict(templates("variables", VARIABLES_FRAME, VARIABLES)),
    **dict(templates("functions", FUNCTIONS_FRAME, FUNCTIONS)),
    **dict(templates("modules", MODULES_FRAME, MODULES)),
    **dict(templates("flow", FLOW_FRAME, FLOW)),
}


def variants(template: str) -> list[str]:
    """Return the programs that a template stands for."""
    parts = template.split("/")
    places = zip(*(part.split("|") for part in parts[1::2]), strict=True)
    return ["".join([parts[0], *map("".join, zip(chosen, parts[2::2], strict=True))]) for chosen in places]


# ---- what is not understood ----


def nested(depth: int) -> str:
    """Return a constant of structs in structs."""
    kind, value = "i8", "i8 1"
    for _ in range(depth):
        value, kind = f"{{ ptr, {kind} }} {{ ptr @g, {value} }}", f"{{ ptr, {kind} }}"
    return value


UNKNOWN = {
    "a type of great depth": f"@g = external global {'[1 x ' * 1500}i8{']' * 1500}",
    "debug information": """
define void @f() !dbg !3 {
  ret void, !dbg !5
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1)
!1 = !DIFile(filename: "a", directory: "b")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "f", file: !1, unit: !0, type: !4)
!4 = !DISubroutineType(types: !{})
!5 = !DILocation(line: 1, scope: !3)
""",
    "debug information elsewhere": 'define void @f() {\n  ret void, !own !DIFile(filename: "a", directory: "b")\n}',
    "funclets": """
declare i32 @__CxxFrameHandler3(...)
declare void @may()
define void @f() personality ptr @__CxxFrameHandler3 {
  invoke void @may() to label %on unwind label %pad
on:
  ret void
pad:
  %k = cleanuppad within none []
  cleanupret from %k unwind to caller
}
""",
    "use of what is resolved": """
@i = ifunc void (), ptr @f
define ptr @f() {
  call void @i()
  ret ptr null
}
""",
    "function without checks": "@g = global ptr no_cfi @f\ndeclare void @f()",
    "local equivalent": "@g = global ptr dso_local_equivalent @f\ndeclare void @f()",
    "signed pointer": "@g = global ptr ptrauth (ptr @g, i32 0)",
    "nothing of a target's type": 'define target("spirv.Event") @f() {\n  ret target("spirv.Event") zeroinitializer\n}',
    "type with types": 'declare void @f(target("own", i32))',
    "attributes of a variable": '@g = global i32 0 #0\nattributes #0 = { "bss-section"="a" }',
    "hundreds of attributes": "declare void @f() " + " ".join(f'"{number}"' for number in range(200)),
    "expression in metadata": """
@g = global i32 0
define void @f() {
  fence acquire, !own !{ptr getelementptr (i8, ptr @g, i64 1), i64 0}
  fence acquire, !own !0
  ret void
}
!0 = !{[2 x ptr] [ptr getelementptr (i8, ptr @g, i64 2), ptr null]}
""",
    "number as an operand": """
declare i32 @llvm.read_register.i32(metadata)
define void @f() {
  %r = call i32 @llvm.read_register.i32(metadata i32 1)
  ret void
}
""",
    "value as an operand": """
declare void @llvm.x86.own(metadata)
define void @f(i32 %x) {
  call void @llvm.x86.own(metadata i32 %x)
  ret void
}
""",
    "node with one number in a node": "!own = !{!0}\n!0 = !{!1}\n!1 = !{i32 1}",
    "empty node in a node": "!own = !{!0}\n!0 = !{!1}\n!1 = !{}",
    "deep metadata": "!own = !{!0}\n" + "\n".join(f"!{i} = !{{null, !{i + 1}}}" for i in range(80)) + '\n!80 = !{!"a"}',
    "deep constant": "@g = global i8 0\n@d = global " + nested(80),
}  # fmt: skip


# ---- LLVM ----


class Release:
    """A loaded LLVM with its surveyor."""

    def __init__(self, library: Library, natives: NativeLibraries) -> None:
        found = Surveyor.find(natives)
        assert found is not None
        self.library, self.surveyor, self.clang = library, found, natives.clang

    def bitcode(self, text: str) -> bytes:
        with Module.parse(self.library, text.encode()) as module:
            if problem := module.verify():
                raise LlvmError(problem)
            return module.write_bitcode()

    def read(self, program: str | bytes) -> Module:
        """Parse bitcode, or textual IR, without names of values."""
        content = self.bitcode(program) if isinstance(program, str) else program
        return Module.parse(self.library, content, names=False)

    def survey(self, program: str | bytes) -> Facts:
        with self.read(program) as module:
            return self.surveyor.survey(module)

    def show(self, program: str | bytes) -> tuple[int, str]:
        """Return the fingerprint and the text of a program in order."""
        with self.read(program) as module:
            return self.see(module)

    def see(self, module: Module) -> tuple[int, str]:
        facts = self.surveyor.survey(module)
        assert not facts.unknown
        return facts.fingerprint, module.to_text()

    def call(self, name: str, *arguments: int | bytes | None) -> int:
        """Call a function of the C API that returns a reference; numbers are 64-bit words."""
        kinds = [c_char_p if isinstance(one, bytes) else c_void_p for one in arguments]
        function = CFUNCTYPE(c_void_p, *kinds)(cast(getattr(self.library.c, name), c_void_p).value or 0)
        return int(function(*arguments) or 0)

    def chain(self, what: str, owner: int, before: str = "First", step: str = "Next") -> list[int]:
        """Return all that an owner has, such as the `BasicBlock`s of a function."""
        one, found = self.call(f"LLVMGet{before}{what}", owner), []
        while one:
            found.append(one)
            one = self.call(f"LLVMGet{step}{what}", one)
        return found

    def name(self, value: int) -> bytes:
        length = c_size_t()
        return string_at(self.library.c.LLVMGetValueName2(value, byref(length)), length.value)

    def number(self, module: Module, value: int) -> int:
        return self.call("LLVMConstInt", self.call("LLVMInt64TypeInContext", module.context.pointer), value, 0)


class Uses:
    """The use-lists of a module: of globals, parameters, blocks and instructions, and of the constants they use."""

    def __init__(self, release: Release, module: Module) -> None:
        self.release = release
        functions = release.chain("Function", module.pointer)
        values = [one for kind in ("Global", "GlobalAlias") for one in release.chain(kind, module.pointer)]
        for function in functions:
            values.append(function)
            for block in release.chain("BasicBlock", function):
                values.append(release.call("LLVMBasicBlockAsValue", block))
                values += release.chain("Instruction", block)
            if release.call("LLVMGetFirstBasicBlock", function):
                values += release.chain("Param", function)
        self.numbers = {value: number for number, value in enumerate(values)}
        self.uses = {value: release.chain("Use", value) for value in values}
        for value in values:
            self._add_constants(value)

    def _add_constants(self, value: int) -> None:
        for use in self.uses[value]:
            user = self.release.call("LLVMGetUser", use)
            if user not in self.uses:
                self.uses[user] = self.release.chain("Use", user)
                self._add_constants(user)

    def lists(self) -> dict[str, list[str]]:
        """Return each list, with texts for addresses."""
        return {self._show(value): [self._show_use(use) for use in uses] for value, uses in self.uses.items()}

    def shuffle(self, chance: random.Random) -> None:
        """Change the order of all lists."""
        call = self.release.call
        places = [(user, number) for user in self.uses for number in range(self._operands(user))]
        chance.shuffle(places)
        for user, number in places:
            call("LLVMSetOperand", user, number, call("LLVMGetOperand", user, number))

    def _operands(self, user: int) -> int:
        is_user = self.release.call("LLVMIsAUser", user)  # blocks and parameters are none
        return self.release.call("LLVMGetNumOperands", user) & 0xFFFFFFFF if is_user else 0

    def _show(self, value: int) -> str:
        number = self.numbers.get(value)
        printed = self.release.library.c.LLVMPrintValueToString
        return str(number) if number is not None else self.release.library.take_string(printed(value))

    def _show_use(self, use: int) -> str:
        user = self.release.call("LLVMGetUser", use)
        places = range(self._operands(user))
        place = next(i for i in places if self.release.call("LLVMGetOperandUse", user, i) == use)
        return f"{self._show(user)}, {place}"


@pytest.fixture(scope="session", params=["bundled", pytest.param("19", marks=pytest.mark.slow)])
def release(
    request: pytest.FixtureRequest, library: Library, natives: NativeLibraries, system_library: Callable[[int], Library]
) -> Release:
    if request.param == "bundled":
        return Release(library, natives)
    older = system_library(int(request.param))
    return Release(older, NativeLibraries(older, find_clang(older), natives.folder.parent))


# ---- one change, another fingerprint ----


def test_one_change_gives_another_fingerprint(release: Release) -> None:
    for name, (since, template) in TEMPLATES.items():
        if release.library.version[0] < since:
            continue  # it cannot be read
        seen = [release.show(text) for text in variants(template)]
        assert len({text for _, text in seen}) == len(seen), name
        assert len({fingerprint for fingerprint, _ in seen}) == len(seen), name


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_understood_is_unknown_each_time_and_stays_as_it_is(release: Release, name: str) -> None:
    with release.read(UNKNOWN[name]) as module:
        before = module.to_text()
        assert release.surveyor.survey(module).unknown
        assert release.surveyor.survey(module).unknown
        assert module.to_text() == before


SPECIMEN = """
%pair = type { i32, i64 }
@a = internal global i32 7, align 4
@b = internal constant [2 x ptr] [ptr @a, ptr null]
declare i32 @callee(i32, ptr) nounwind
define internal i32 @f(i32 %x, i32 %y, ptr %p) {
  %s = add nsw i32 %x, %y
  %t = mul i32 %s, 3
  %q = getelementptr %pair, ptr %p, i32 0, i32 1
  %u = load i32, ptr %q, align 4
  %c = icmp ult i32 %t, %u
  br i1 %c, label %one, label %two
one:
  %v = call i32 @callee(i32 %t, ptr @b) nounwind
  store i32 %v, ptr @a, align 4
  br label %two
two:
  %w = phi i32 [ %s, %0 ], [ %v, %one ]
  switch i32 %w, label %one [ i32 5, label %end i32 7, label %end ]
end:
  ret i32 %w
}
"""
WORDS = (
    ("add", "sub", "mul", "or", "xor", "udiv", "shl"),
    ("nsw", "nuw", "exact", "nuw nsw", ""),
    ("i32", "i64", "ptr", "i8"),
    ("%x", "%y", "%s", "%t", "%u", "%v", "%w", "3", "5", "7", "0", "1", "undef", "poison"),
    ("%p", "%q", "@a", "@b", "null"),
    ("%one", "%two", "%end", "%0"),
    ("internal", "private", "weak", "hidden", "linkonce_odr", ""),
    ("global", "constant"),
    ("ult", "ule", "slt", "eq"),
    ("4", "8", "1"),
    ("nounwind", "cold", "willreturn", '"own"', ""),
    ("load", "load volatile"),
    ("store", "store volatile"),
    ("call", "tail call", "notail call"),
    ("getelementptr", "getelementptr inbounds", "getelementptr nuw"),
)
CHOICES = {
    word: sorted({other for group in WORDS if word in group for other in group}) for group in WORDS for word in group
}
TOKENS = re.split(r"([%@]?\w+)", SPECIMEN)
PLACES = [number for number, token in enumerate(TOKENS) if token and token in CHOICES]


@pytest.mark.slow
def test_fingerprints_differ_as_texts_do(release: Release) -> None:
    seen: dict[str, int] = {}

    @settings(max_examples=500, deadline=None, derandomize=True, database=None)
    @given(edits=st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, 50)), min_size=1, max_size=2))
    def edit(edits: list[tuple[int, int]]) -> None:
        tokens = TOKENS.copy()
        for place, choice in edits:
            choices = CHOICES[TOKENS[place]]
            tokens[place] = choices[choice % len(choices)]
        try:
            fingerprint, text = release.show("".join(tokens))
        except LlvmError:
            return
        assert seen.setdefault(text, fingerprint) == fingerprint
        assert len(set(seen.values())) == len(seen)

    edit()
    assert len(seen) > 60


# ---- the same program, the same fingerprint ----

PROGRAMS = (("sorting.c",), ("matrix.c",), ("calculator.c",), ("shapes.cc",), ("shapes.cc", "-fexceptions"))
RICH = """
%pair = type { i32, ptr }
$set = comdat any
@g = global i32 7
@h = global [2 x ptr] [ptr getelementptr (i8, ptr @g, i64 4), ptr @f], comdat($set)
@p = global ptr getelementptr (i8, ptr @g, i64 4)
@where = global [3 x ptr] [ptr blockaddress(@f, %one), ptr blockaddress(@f, %two), ptr blockaddress(@f, %one)]
@alias = alias i32, ptr @g
@other = alias i32, ptr getelementptr (i8, ptr @g, i64 4)
declare void @callee(ptr, i32)
declare void @llvm.assume(i1)
define i32 @f(i32 %x, i32 %y, ptr %q) {
  %s = add i32 %x, %y
  %t = mul i32 %s, %s
  %u = sub i32 %x, %s
  call void @callee(ptr getelementptr (i8, ptr @g, i64 4), i32 %t), !own !0
  call void @callee(ptr @alias, i32 %t) [ "own"(i32 %x, ptr @alias) ]
  call void @callee(ptr @alias, i32 7), !other !1
  %c = icmp ult i32 %t, %u
  call void @llvm.assume(i1 %c)
  br i1 %c, label %one, label %two
one:
  %v = load atomic i32, ptr @g syncscope("agent") acquire, align 4
  fence syncscope("group") acquire
  indirectbr ptr %q, [label %one, label %two]
two:
  %w = phi i32 [ %s, %0 ], [ %v, %one ]
  switch i32 %w, label %two.half [ i32 5, label %one i32 6, label %end ]
two.half:
  br label %two.more
two.more:
  %z = phi i32 [ %x, %two.half ], [ %t, %two.more ]
  br i1 %c, label %two.more, label %end, !llvm.loop !2
end:
  ret i32 7
}
!own = !{!0, !1}
!0 = !{!"a", ptr @g}
!1 = !{!"b", !2}
!2 = distinct !{!2}
"""


def assert_same(release: Release, module: Module, program: str | bytes) -> None:
    """Assert that a module is in order after a survey, as a parse is."""
    with release.read(program) as fresh:
        expected = release.see(fresh), Uses(release, fresh).lists()
        assert (release.see(module), Uses(release, module).lists()) == expected
    assert release.show(module.write_bitcode()) == expected[0]


@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_compiled_program_is_the_same_however_it_came_into_memory(
    release: Release, compile_with: Compile, program: tuple[str, ...]
) -> None:
    content = compile_with(release.clang, *program)
    with release.read(content) as module:
        facts = release.surveyor.survey(module)
        assert not facts.unknown
        assert bytes(release.surveyor.survey(module)) == bytes(facts)
        assert_same(release, module, content)
        with module.clone() as clone:
            assert_same(release, clone, content)
            assert_same(release, module, content)
        Uses(release, module).shuffle(random.Random(1))
        assert_same(release, module, content)
    with Module.parse(release.library, content) as named:
        assert release.surveyor.survey(named).fingerprint == facts.fingerprint


def test_order_of_uses_is_no_part_of_a_program(release: Release) -> None:
    for seed in range(20):
        with release.read(RICH) as module:
            before = Uses(release, module).lists()
            Uses(release, module).shuffle(random.Random(seed))
            assert Uses(release, module).lists() != before
            assert_same(release, module, RICH)
            Uses(release, module).shuffle(random.Random(-seed))
            assert_same(release, module, RICH)


def test_order_of_uses_that_a_text_gives_is_none_either(release: Release) -> None:
    text = """
@g = global i32 0
define i32 @f(i32 %x) {
  %a = add i32 %x, 1
  %b = add i32 %x, 2
  store i32 %a, ptr @g
  store i32 %b, ptr @g
  br label %next
next:
  ret i32 %x
UNORDERED
}
"""
    orders = "  uselistorder i32 %x, { 1, 2, 0 }\n  uselistorder ptr @g, { 1, 0 }"
    texts = [text.replace("UNORDERED", one).encode() for one in ("", orders)]
    with Module.parse(release.library, texts[0]) as plain, Module.parse(release.library, texts[1]) as other:
        assert Uses(release, plain).lists() != Uses(release, other).lists()
        assert release.see(plain) == release.see(other)
        assert Uses(release, plain).lists() == Uses(release, other).lists()


def test_blocks_come_before_others_in_an_order_that_is_always_the_same(release: Release) -> None:
    """The comments with predecessors show it."""
    with release.read(RICH) as module, release.read(RICH) as other:
        Uses(release, other).shuffle(random.Random(3))
        assert module.to_text() != other.to_text()
        assert release.see(module)[1] == release.see(other)[1]
        assert "; preds = " in module.to_text()


def test_another_context_with_other_names_makes_no_difference(release: Release) -> None:
    others = """
define void @f() {
  fence syncscope("group") acquire, !kind !0
  fence syncscope("agent") acquire, !other !0
  call void @f() [ "bundle"() ]
  call void @f() [ "own"() ], !own !0
  ret void
}
!0 = !{}
"""
    context = Context(release.library, names=False)
    with context.parse(release.bitcode(others)), context.parse(release.bitcode(RICH)) as module:
        assert release.surveyor.survey(module).fingerprint == release.show(RICH)[0]


def test_names_of_values_are_no_part_of_a_program(release: Release) -> None:
    renamed = RICH.replace("two", "zwei").replace("%x", "%ex").replace("%end", "%fin").replace("end:", "fin:")
    assert release.show(renamed) == release.show(RICH)


def dead_number(release: Release, module: Module) -> None:
    g = release.call("LLVMGetNamedGlobal", module.pointer, b"g")
    release.call("LLVMConstPtrToInt", g, release.call("LLVMInt64TypeInContext", module.context.pointer))


def dead_address_of_an_alias(release: Release, module: Module) -> None:
    alias = release.call("LLVMGetNamedGlobalAlias", module.pointer, b"alias", 5)
    release.call("LLVMConstPtrToInt", alias, release.call("LLVMInt64TypeInContext", module.context.pointer))


def dead_user_of_a_constant(release: Release, module: Module) -> None:
    """It hangs behind a use that is not dead."""
    p = release.call("LLVMGetNamedGlobal", module.pointer, b"p")
    address = release.call("LLVMGetInitializer", p)
    release.call("LLVMConstPtrToInt", address, release.call("LLVMInt64TypeInContext", module.context.pointer))
    release.call("LLVMSetInitializer", p, address)


def dead_array(release: Release, module: Module) -> None:
    f = release.call("LLVMGetNamedFunction", module.pointer, b"f")
    array = (c_void_p * 2)(f, f)
    kind = release.call("LLVMTypeOf", f)
    release.call("LLVMConstArray", kind, cast(array, c_void_p).value, 2)


def dead_address_of_a_block(release: Release, module: Module) -> None:
    f = release.call("LLVMGetNamedFunction", module.pointer, b"f")
    release.call("LLVMBlockAddress", f, release.call("LLVMGetLastBasicBlock", f))


def taken_names(release: Release, module: Module) -> None:
    kind = release.call("LLVMGlobalGetValueType", release.call("LLVMGetNamedFunction", module.pointer, b"f"))
    for _ in range(3):
        release.call("LLVMDeleteFunction", release.call("LLVMAddFunction", module.pointer, b"f", kind))


def attributes_of_an_intrinsic(release: Release, module: Module) -> None:
    function = release.call("LLVMGetNamedFunction", module.pointer, b"llvm.assume")
    for name in (b"cold", b"noinline"):
        kind = release.call("LLVMGetEnumAttributeKindForName", name, len(name)) & 0xFFFFFFFF
        attribute = release.call("LLVMCreateEnumAttribute", module.context.pointer, kind, 0)
        release.call("LLVMAddAttributeAtIndex", function, 0xFFFFFFFF, attribute)


def personality_that_is_none_any_more(release: Release, module: Module) -> None:
    function = release.call("LLVMGetNamedFunction", module.pointer, b"f")
    release.call("LLVMSetPersonalityFn", function, release.call("LLVMGetNamedFunction", module.pointer, b"callee"))
    assert release.show(module.write_bitcode())[0] != release.show(RICH)[0]
    release.call("LLVMSetPersonalityFn", function, None)


def parameters_that_were_made(release: Release, module: Module) -> None:
    release.call("LLVMGetFirstParam", release.call("LLVMGetNamedFunction", module.pointer, b"callee"))


def kinds_that_nothing_has(release: Release, module: Module) -> None:
    release.call("LLVMGetMDKindIDInContext", module.context.pointer, b"never.heard.of", 14)


LEFT = (
    dead_number, dead_address_of_an_alias, dead_user_of_a_constant, dead_array, dead_address_of_a_block, taken_names,
    attributes_of_an_intrinsic, personality_that_is_none_any_more, parameters_that_were_made, kinds_that_nothing_has,
)  # fmt: skip


@pytest.mark.parametrize("leave", LEFT)
def test_what_passes_leave_behind_is_gone(release: Release, leave: Callable[[Release, Module], None]) -> None:
    with release.read(RICH) as module:
        leave(release, module)
        assert_same(release, module, RICH)
        leave(release, module)
        assert_same(release, module, RICH)


ZEROS = """
define void @f(ptr %p) {
  store double 0.0, ptr %p, align 8
  %q = getelementptr i8, ptr %p, i64 8
  store double 0.0, ptr %q, align 8
  ret void
}
"""


def test_vectors_of_zeros_that_a_pass_makes_are_those_that_are_read(release: Release) -> None:
    with release.read(ZEROS) as module:
        machine = TargetMachine.create(release.library, release.library.default_triple())
        assert machine is not None
        module.run_passes("function(slp-vectorizer)", machine)
        machine.close()
        assert "store <2 x double> zeroinitializer" in module.to_text()
        assert_same(release, module, module.write_bitcode())


def test_name_that_is_taken_gets_the_number_that_it_gets_in_a_parse(release: Release) -> None:
    with release.read(RICH) as module, release.read(RICH) as fresh:
        names = []
        taken_names(release, module)
        release.surveyor.survey(module)
        for one in (module, fresh):
            kind = release.call("LLVMGlobalGetValueType", release.call("LLVMGetNamedFunction", one.pointer, b"f"))
            names.append(release.name(release.call("LLVMAddFunction", one.pointer, b"f", kind)))
        assert names[0] == names[1] != b"f"


def test_flags_of_a_module_are_changed_in_place(release: Release) -> None:
    text = '!llvm.module.flags = !{!0}\n!0 = !{i32 7, !"PIC Level", i64 1}'
    with release.read(text) as module:
        before = release.see(module)
        flags = (c_void_p * 1)()
        release.call("LLVMGetNamedMetadataOperands", module.pointer, b"llvm.module.flags", cast(flags, c_void_p).value)
        two = release.call("LLVMValueAsMetadata", release.number(module, 2))
        release.call("LLVMReplaceMDNodeOperandWith", flags[0], 2, two)
        after = release.see(module)
        assert after[0] != before[0]
        assert after == release.show(text.replace("i64 1", "i64 2"))


# ---- types, debug information, and what else the facts say ----


def test_types_that_lost_their_names_are_those_of_what_is_written(release: Release) -> None:
    text = """
%pair = type { i32, ptr }
%twin = type { i32, ptr }
%list = type { %pair, [2 x %twin] }
define void @f(ptr sret(%pair) %p) {
  %l = alloca %list, align 8
  %q = getelementptr %twin, ptr %p, i64 1
  store %pair zeroinitializer, ptr %q, align 8
  ret void
}
"""
    with release.read(text) as module:
        before, facts = release.see(module), release.surveyor.survey(module)
        assert (facts.types, facts.renamings) == (3, 0)
        module.run_passes("strip", None)
        after, facts = release.see(module), release.surveyor.survey(module)
        assert (facts.types, facts.renamings) == (3, 1)
        assert after[0] != before[0]
        assert after == release.see(module) == release.show(module.write_bitcode())
        with module.clone() as clone:
            assert release.see(clone) == after


def test_compiled_program_without_names_of_types_is_what_is_written(release: Release, compile_with: Compile) -> None:
    with release.read(compile_with(release.clang, "shapes.cc")) as module:
        before = release.see(module)
        module.run_passes("strip", None)
        assert release.see(module)[0] != before[0]
        assert_same(release, module, module.write_bitcode())


def test_debug_information_is_unknown_until_it_is_gone(release: Release, compile_with: Compile) -> None:
    with release.read(compile_with(release.clang, "calculator.c", "-g")) as module:
        assert release.surveyor.survey(module).unknown
        module.run_passes("strip", None)
        assert_same(release, module, module.write_bitcode())


@pytest.mark.parametrize(
    ("constant", "shared"),
    [
        ("i32 7", 0),
        ("[2 x i32] [i32 1, i32 2]", 0),
        ("{ i32, ptr } { i32 1, ptr @h }", 0),
        ("{ i8, i32 } { i8 1, i32 2 }", 1),
        ("<2 x i32> <i32 undef, i32 1>", 1),
        ("ptr inttoptr (i64 1 to ptr)", 1),
        ("{ ptr, { i8 } } { ptr @h, { i8 } { i8 1 } }", 1),
    ],
)
def test_constants_that_modules_of_a_context_share_are_told(release: Release, constant: str, shared: int) -> None:
    assert release.survey(f"@h = global i8 0\n@g = global {constant}").shared == shared


def test_instructions_are_counted(release: Release) -> None:
    assert release.survey(RICH).instructions == 18
    assert release.survey("").instructions == 0


# ---- size ----


def lines(line: str, count: int) -> str:
    """Return so many lines, with numbers for NOW and NEXT."""
    return "\n".join(line.replace("NOW", str(i)).replace("NEXT", str(i + 1)) for i in range(count)) + "\n"


LARGE = {
    "nothing": "",
    "long function": "define i32 @f(i32 %v0) {\n" + lines("%vNEXT = add i32 %vNOW, NOW", 5000) + "ret i32 %v5000\n}",
    "large constant": "@g = global i8 0\n@a = global [3000 x { i32, ptr }] ["
    + lines("{ i32, ptr } { i32 NOW, ptr @g },", 2999) + "{ i32, ptr } { i32 -1, ptr @a }]",
    "deep constant": "@g = global i8 0\n@d = global " + nested(64),
    "large node": "!own = !{!0}\n!0 = !{" + lines("i32 NOW,", 4000) + "null}",
    "many nodes": "!own = !{" + lines("!NOW,", 3999) + "!3999}\n" + lines("!NOW = distinct !{null, i32 NOW}", 4000),
    "deep metadata": "!own = !{!0}\n" + lines("!NOW = !{null, !NEXT}", 60) + '!60 = !{!"a"}',
    "metadata with 2^50 paths": "!own = !{!0}\n" + lines("!NOW = !{!NEXT, !NEXT}", 50) + "!50 = distinct !{}",
    "circles of metadata": "!own = !{!0, !2}\n!0 = distinct !{!0, !1}\n!1 = !{!0, !2}\n!2 = distinct !{!1}",
    "many kinds": "define void @f() {\nret void" + lines(", !kind.NOW !0", 1500) + "}\n!0 = !{}",
    "many types": lines("%tNOW = type { i32, [NOW x i8] }\n@gNOW = external global %tNOW", 500),
    "deep type": lines("%tNOW = type { %tNEXT, %tNEXT }", 50) + "%t50 = type {}\n@g = external global %t0",
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_large_programs_are_understood(release: Release, name: str) -> None:
    with release.read(LARGE[name]) as module:
        assert release.see(module) == release.see(module) == release.show(module.write_bitcode())
        with module.clone() as clone:
            assert release.see(clone) == release.see(module)


@pytest.mark.slow
def test_surveys_leak_no_memory(release: Release) -> None:
    kinds = "".join(f", !kind.{i} !0" for i in range(3000))
    content = release.bitcode(RICH.replace("ret i32 7", "ret i32 7" + kinds))
    with release.read(content) as module:
        before, process = release.see(module), psutil.Process()
        used = process.memory_info().rss
        for _ in range(300):
            release.surveyor.survey(module)
        assert process.memory_info().rss - used < 8 << 20
        assert release.see(module) == before


# ---- where LLVM keeps what it has ----


def test_layout_is_found_and_always_the_same(release: Release) -> None:
    kept, chance, found = [], random.Random(7), Counter[bytes]()
    for _ in range(5):
        layout = find_layout(release.library)
        assert isinstance(layout, Layout), layout
        found[bytes(layout)] += 1
        kept.append(bytearray(chance.randrange(1, 3000)))  # what memory looks like changes
    assert list(found.values()) == [5]


def test_layout_that_is_not_known_is_no_surveyor_and_a_line_in_the_log(
    library_14: Library, natives: NativeLibraries, caplog: pytest.LogCaptureFixture
) -> None:
    assert re.fullmatch(r"\w.* (is|are) not as expected", str(find_layout(library_14)))
    with caplog.at_level(logging.INFO):
        assert Surveyor.find(NativeLibraries(library_14, find_clang(library_14), natives.folder.parent)) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.records[0].getMessage().startswith("LLVM 14")


def test_layout_is_looked_at_only_where_all_functions_are_there(
    library: Library, natives: NativeLibraries, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("aiocg.workers.llvm._canonical._RENUMBER", "renumber")
    monkeypatch.setattr("aiocg.workers.llvm._canonical._BLOCKS_HAVE_NUMBERS", 14)
    assert Surveyor.find(natives) is None
    assert caplog.messages[0].endswith("it does not export renumber")
