/* Common definitions of the C files here. They are freestanding (no other header, no libc, not linked against libLLVM),
   so that clang alone can build them.

   A C file defines LLVM_FUNCTIONS(X), with X(result, name, parameters, prefix) for every function of LLVM's C API that
   it calls besides COMMON_FUNCTIONS, and then includes this file. The caller resolves the functions named in
   `aiocg_llvm_functions`, in that order, into a `struct Llvm`. A function with prefix "?" may be missing in the loaded
   libLLVM, and is then a null pointer. There is no global state: one build serves any number of libLLVMs, modules and
   threads. */

typedef __INT64_TYPE__ int64;
typedef __UINT64_TYPE__ uint64;
typedef void *ref; /* any LLVM...Ref */

/* The functions that `opcode_of` and walks over a module call. */
#define COMMON_FUNCTIONS(X)                        \
    X(int, LLVMGetInstructionOpcode, (ref), "")    \
    X(ref, LLVMIsACondBrInst, (ref), "?")          \
    X(ref, LLVMIsAUncondBrInst, (ref), "?")        \
    X(ref, LLVMGetFirstFunction, (ref), "")        \
    X(ref, LLVMGetNextFunction, (ref), "")         \
    X(ref, LLVMGetFirstBasicBlock, (ref), "")      \
    X(ref, LLVMGetNextBasicBlock, (ref), "")       \
    X(ref, LLVMGetFirstInstruction, (ref), "")     \
    X(ref, LLVMGetNextInstruction, (ref), "")      \
    X(ref, LLVMGetBasicBlockTerminator, (ref), "") \
    X(unsigned, LLVMGetNumSuccessors, (ref), "")   \
    X(ref, LLVMGetSuccessor, (ref, unsigned), "")

struct Llvm {
#define X(result, name, parameters, prefix) result(*name) parameters;
    COMMON_FUNCTIONS(X)
    LLVM_FUNCTIONS(X)
#undef X
};

#define EXPORT __attribute__((visibility("default")))
#define ALWAYS_INLINE inline __attribute__((always_inline))

EXPORT const char aiocg_llvm_functions[] =
#define X(result, name, parameters, prefix) prefix #name " "
    COMMON_FUNCTIONS(X) LLVM_FUNCTIONS(X);
#undef X

/* LLVMOpcode: values that the C API promises not to change. */
enum Opcode {
    Ret = 1, Br = 2, Switch = 3, IndirectBr = 4, Invoke = 5, Unreachable = 7, Add = 8, FAdd = 9, Sub = 10,
    FSub = 11, Mul = 12, FMul = 13, UDiv = 14, SDiv = 15, FDiv = 16, URem = 17, SRem = 18, FRem = 19,
    Shl = 20, LShr = 21, AShr = 22, And = 23, Or = 24, Xor = 25, Alloca = 26, Load = 27, Store = 28,
    GetElementPtr = 29, Trunc = 30, ZExt = 31, SExt = 32, FPToUI = 33, FPToSI = 34, UIToFP = 35,
    SIToFP = 36, FPTrunc = 37, FPExt = 38, PtrToInt = 39, IntToPtr = 40, BitCast = 41, ICmp = 42,
    FCmp = 43, PHI = 44, Call = 45, Select = 46, UserOp1 = 47, UserOp2 = 48, VAArg = 49,
    ExtractElement = 50, InsertElement = 51, ShuffleVector = 52, ExtractValue = 53, InsertValue = 54,
    Fence = 55, AtomicCmpXchg = 56, AtomicRMW = 57, Resume = 58, LandingPad = 59, AddrSpaceCast = 60,
    CleanupRet = 61, CatchRet = 62, CatchPad = 63, CleanupPad = 64, CatchSwitch = 65, FNeg = 66,
    CallBr = 67, Freeze = 68, PtrToAddr = 69, OPCODES = 70
};

/* LLVM 23 replaces `br` by two opcodes; both are `Br` here, as in textual IR. */
static inline unsigned opcode_of(const struct Llvm *llvm, ref instruction) {
    unsigned opcode = (unsigned)llvm->LLVMGetInstructionOpcode(instruction);
    if (opcode < OPCODES) return opcode;
    if (llvm->LLVMIsACondBrInst && llvm->LLVMIsACondBrInst(instruction)) return Br;
    if (llvm->LLVMIsAUncondBrInst && llvm->LLVMIsAUncondBrInst(instruction)) return Br;
    return opcode;
}

#define FOR_FUNCTIONS(f, module) \
    for (ref f = llvm->LLVMGetFirstFunction(module); f; f = llvm->LLVMGetNextFunction(f))
#define FOR_BLOCKS(b, f) for (ref b = llvm->LLVMGetFirstBasicBlock(f); b; b = llvm->LLVMGetNextBasicBlock(b))
#define FOR_INSTRUCTIONS(i, b) \
    for (ref i = llvm->LLVMGetFirstInstruction(b); i; i = llvm->LLVMGetNextInstruction(i))
