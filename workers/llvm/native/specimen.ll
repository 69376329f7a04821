; What `layout` measures: values of every kind whose parts it knows.
@g = global i8 1
@h = dso_local global i8 1
@sanitised = global i8 1, no_sanitize_address
@v = global i8 1 #0
@w = global i8 1 #0
@x = global i8 1 #1
@y = global i8 1 #0
@z = global i8 1 #1
@alias = alias i8, ptr @g
@offset = global ptr getelementptr (i8, ptr @g, i64 1)
@array = global [2 x ptr] [ptr @g, ptr null]
@struct = global { ptr, i32 } { ptr @g, i32 1 }
@vector = global <2 x ptr> <ptr @g, ptr null>
@address = global ptr blockaddress(@f, %again)
declare void @a() nounwind willreturn
declare void @b() nounwind willreturn
declare void @c() cold
declare void @d()
declare void @e() cold
declare void @l() nounwind willreturn
declare void @m()
declare i64 @llvm.read_register.i64(metadata)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i32 @f(ptr %p, i32 %x, float %y) {
entry:
  call void @llvm.memset.p0.i64(ptr %p, i8 7, i64 4, i1 false)
  call void @a() nounwind willreturn
  call void @a() nounwind willreturn
  call void @a() cold
  call void @a()
  call void @a() cold
  call void @a() nounwind willreturn
  call void @a()
  call void asm sideeffect "", ""()
  %register = call i64 @llvm.read_register.i64(metadata !0)
  %a = insertvalue [2 x i32] zeroinitializer, i32 undef, 0
  %b = insertvalue [2 x i8] c"ab", i8 poison, 0
  %v = insertelement <2 x i32> <i32 1, i32 2>, i32 poison, i32 0
  %o = fadd float %y, 1.0
  store i8 7, ptr null
  store i8 7, ptr @alias
  fence acquire
  fence syncscope("singlethread") acquire
  fence syncscope("aiocg") acquire
  load atomic i8, ptr %p acquire, align 1
  load atomic i8, ptr %p syncscope("singlethread") acquire, align 1
  load atomic i8, ptr %p syncscope("aiocg") acquire, align 1
  store atomic i8 0, ptr %p release, align 1
  store atomic i8 0, ptr %p syncscope("singlethread") release, align 1
  store atomic i8 0, ptr %p syncscope("aiocg") release, align 1
  atomicrmw add ptr %p, i8 1 acquire
  atomicrmw add ptr %p, i8 1 syncscope("singlethread") acquire
  atomicrmw add ptr %p, i8 1 syncscope("aiocg") acquire
  cmpxchg ptr %p, i8 0, i8 1 acquire acquire
  cmpxchg ptr %p, i8 0, i8 1 syncscope("singlethread") acquire acquire
  cmpxchg ptr %p, i8 0, i8 1 syncscope("aiocg") acquire acquire
  %less = icmp ult i32 %x, 5
  br i1 %less, label %again, label %end
again:
  %i = phi i32 [ %x, %entry ], [ %j, %again ]
  %j = mul i32 %i, %i
  %more = icmp ult i32 %j, 9
  br i1 %more, label %again, label %end, !llvm.loop !1
end:
  %r = phi i32 [ 0, %entry ], [ %j, %again ]
  ret i32 %r
}
attributes #0 = { "one" }
attributes #1 = { "other" }
!0 = !{!"rsp"}
!1 = distinct !{!1, !0}
