; Every instruction of LLVM 10 that a program can hold, once each, but ret, invoke and callbr.

declare i32 @personality(...)
declare void @may_throw()

define i32 @arithmetic(i32 %a, float %x) {
  %fneg = fneg float %x
  %add = add i32 %a, %a
  %fadd = fadd float %x, %x
  %sub = sub i32 %a, %a
  %fsub = fsub float %x, %x
  %mul = mul i32 %a, %a
  %fmul = fmul float %x, %x
  %udiv = udiv i32 %a, %a
  %sdiv = sdiv i32 %a, %a
  %fdiv = fdiv float %x, %x
  %urem = urem i32 %a, %a
  %srem = srem i32 %a, %a
  %frem = frem float %x, %x
  %shl = shl i32 %a, %a
  %lshr = lshr i32 %a, %a
  %ashr = ashr i32 %a, %a
  %and = and i32 %a, %a
  %or = or i32 %a, %a
  %xor = xor i32 %a, %a
  %trunc = trunc i32 %a to i8
  %zext = zext i8 %trunc to i32
  %sext = sext i8 %trunc to i32
  %fptoui = fptoui float %x to i32
  %fptosi = fptosi float %x to i32
  %uitofp = uitofp i32 %a to float
  %sitofp = sitofp i32 %a to float
  %fpext = fpext float %x to double
  %fptrunc = fptrunc double %fpext to float
  %bitcast = bitcast float %x to i32
  %icmp = icmp ult i32 %a, %bitcast
  %fcmp = fcmp olt float %x, %fadd
  %select = select i1 %icmp, i32 %a, i32 %bitcast
  %freeze = freeze i32 %select
  ret i32 %freeze
}

define i64 @memory(i64 %n) {
  %slot = alloca i64
  store i64 %n, i64* %slot
  %load = load i64, i64* %slot
  %gep = getelementptr i64, i64* %slot, i64 %n
  fence seq_cst
  %cmpxchg = cmpxchg i64* %slot, i64 %n, i64 %load seq_cst seq_cst
  %atomicrmw = atomicrmw add i64* %slot, i64 %n seq_cst
  %ptrtoint = ptrtoint i64* %gep to i64
  %inttoptr = inttoptr i64 %ptrtoint to i8*
  %space = addrspacecast i8* %inttoptr to i8 addrspace(1)*
  %vaarg = va_arg i8* %inttoptr, i64
  ret i64 %vaarg
}

define i32 @vectors(<2 x i32> %v, {i32, i32} %s, i32 %i) {
  %extractelement = extractelement <2 x i32> %v, i32 %i
  %insertelement = insertelement <2 x i32> %v, i32 %i, i32 %i
  %shuffle = shufflevector <2 x i32> %v, <2 x i32> %v, <2 x i32> <i32 1, i32 0>
  %insertvalue = insertvalue {i32, i32} %s, i32 %i, 1
  %extractvalue = extractvalue {i32, i32} %insertvalue, 0
  ret i32 %extractvalue
}

define void @control(i32 %n) {
  br label %choose
choose:
  %phi = phi i32 [ %n, %0 ]
  call void @may_throw()
  switch i32 %phi, label %never [ i32 1, label %jump ]
jump:
  indirectbr i8* blockaddress(@control, %never), [label %never]
never:
  unreachable
}

define void @exceptions() personality i32 (...)* @personality {
  invoke void @may_throw() to label %good unwind label %bad
good:
  ret void
bad:
  %pad = landingpad {i32, i32} cleanup
  resume {i32, i32} %pad
}

define void @caught() personality i32 (...)* @__CxxFrameHandler3 {
  invoke void @may_throw() to label %good unwind label %dispatch
dispatch:
  %switch = catchswitch within none [label %handler] unwind to caller
handler:
  %pad = catchpad within %switch [i8* null, i32 64, i8* null]
  catchret from %pad to label %good
good:
  ret void
}

define void @cleaned() personality i32 (...)* @__CxxFrameHandler3 {
  invoke void @may_throw() to label %good unwind label %cleanup
good:
  ret void
cleanup:
  %pad = cleanuppad within none []
  cleanupret from %pad unwind to caller
}

declare i32 @__CxxFrameHandler3(...)
