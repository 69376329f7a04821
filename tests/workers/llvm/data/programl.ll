; A program in the IR of LLVM 10, without what differs on purpose: no invoke, no unreachable block, no shufflevector.
; The graph that the authors' own builder makes of it is in programl.json: programl 0.3.2, llvm2graph-10 | graph2json.

source_filename = "programl.c"

%pair = type { i32, [2 x i16] }
%list = type { %pair, %list* }

@counter = global i32 7
@table = constant [3 x i64] [i64 1, i64 2, i64 3]
@names = external global [2 x i8*]

declare void @outside(i32, ...)
declare double @llvm.sqrt.f64(double)
declare i32 @unused(%list*)

define internal void @nothing() {
  ret void
}

define i32 @sum(%list* %list, i32 %limit) {
entry:
  %empty = icmp eq %list* %list, null
  br i1 %empty, label %end, label %loop

loop:
  %node = phi %list* [ %list, %entry ], [ %next, %more ]
  %total = phi i32 [ 0, %entry ], [ %added, %more ]
  %key.slot = getelementptr inbounds %list, %list* %node, i64 0, i32 0, i32 0
  %key = load i32, i32* %key.slot, align 4
  %twice = mul nsw i32 %key, %key
  %added = add nsw i32 %total, %twice
  %small = icmp slt i32 %added, %limit
  br i1 %small, label %more, label %end

more:
  %next.slot = getelementptr inbounds %list, %list* %node, i64 0, i32 1
  %next = load %list*, %list** %next.slot, align 8
  %last = icmp eq %list* %next, null
  br i1 %last, label %end, label %loop

end:
  %result = phi i32 [ 0, %entry ], [ %added, %loop ], [ %added, %more ]
  ret i32 %result
}

define i32 @choose(i32 %x, i32 (i32)* %handler, <4 x float> %v, %pair %p) {
  switch i32 %x, label %other [
    i32 0, label %same
    i32 1, label %same
    i32 -5, label %call
  ]

same:
  %old = load i32, i32* @counter
  %new = add i32 %old, 1
  store i32 %new, i32* @counter
  %square = mul i32 %x, %x
  ret i32 %square

call:
  %a = call i32 %handler(i32 %x)
  %b = call i32 @choose(i32 %a, i32 (i32)* %handler, <4 x float> %v, %pair %p)
  call void (i32, ...) @outside(i32 %b, double 5.000000e-01, i64* getelementptr inbounds ([3 x i64], [3 x i64]* @table, i64 0, i64 2))
  call void @nothing()
  call void asm sideeffect "nop", "r,~{memory}"(i32 %a)
  br label %other

other:
  %chosen = phi i32 [ %x, %0 ], [ %b, %call ]
  %slot = alloca [8 x %pair], align 8
  %first = getelementptr inbounds [8 x %pair], [8 x %pair]* %slot, i64 0, i64 3
  store %pair %p, %pair* %first, align 4
  %lane = extractelement <4 x float> %v, i32 %chosen
  %wide = fpext float %lane to double
  %root = call double @llvm.sqrt.f64(double %wide)
  %changed = insertvalue %pair %p, i32 %chosen, 0
  %part = extractvalue %pair %changed, 1
  %element = extractvalue [2 x i16] %part, 1
  %whole = fptosi double %root to i32
  %byte = sext i16 %element to i32
  %is = icmp ugt i32 %whole, %byte
  %picked = select i1 %is, i32 %whole, i32 undef
  ret i32 %picked
}

define void @jump(i8* %to, i8** %where) {
  store i8* %to, i8** %where, align 8
  indirectbr i8* %to, [label %one, label %two, label %one]

one:
  %n = atomicrmw add i32* @counter, i32 1 seq_cst
  fence acquire
  br label %two

two:
  %pair = cmpxchg i32* @counter, i32 1, i32 2 seq_cst seq_cst
  %slot = getelementptr [2 x i8*], [2 x i8*]* @names, i64 0, i64 1
  %name = load i8*, i8** %slot
  ret void
}
