/* The functions of LLVM that `canonical.c` calls, LLVM's memory layout, and the data structures of the walk. */

typedef __SIZE_TYPE__ size;
typedef __UINT32_TYPE__ uint32;
typedef __UINT16_TYPE__ uint16;
typedef unsigned char byte;

struct Text { const char *text; size length; };                                      /* `llvm::StringRef` */
struct Names { struct Text *begin; uint32 count, capacity; struct Text own[1024]; }; /* an `llvm::SmallVector` of it */

#define LLVM_FUNCTIONS(X)                                                                                     \
    X(ref, calloc, (size, size), "?")                                                                        \
    X(ref, realloc, (ref, size), "?")                                                                        \
    X(void, free, (void *), "?")                                                                             \
    X(size, strlen, (const char *), "?")                                                                     \
    X(ref, LLVMRunPasses, (ref, const char *, ref, ref), "")                                                 \
    X(ref, LLVMRunPassesOnFunction, (ref, const char *, ref, ref), "?")                                      \
    X(const char *, LLVMGetSourceFileName, (ref, size *), "")                                                \
    X(ref, LLVMGetModuleContext, (ref), "")                                                                  \
    X(ref, LLVMConstNull, (ref), "")                                                                         \
    X(const char *, LLVMGetTarget, (ref), "")                                                                \
    X(const char *, LLVMGetDataLayoutStr, (ref), "")                                                         \
    X(const char *, LLVMGetModuleInlineAsm, (ref, size *), "")                                               \
    X(ref, LLVMGetFirstNamedMetadata, (ref), "")                                                             \
    X(ref, LLVMGetNextNamedMetadata, (ref), "")                                                              \
    X(const char *, LLVMGetNamedMetadataName, (ref, size *), "")                                             \
    X(ref, LLVMGetLastFunction, (ref), "")                                                                   \
    X(ref, LLVMGetPreviousFunction, (ref), "")                                                               \
    X(ref, LLVMGetLastGlobal, (ref), "")                                                                     \
    X(ref, LLVMGetPreviousGlobal, (ref), "")                                                                 \
    X(ref, LLVMGetLastGlobalAlias, (ref), "")                                                                \
    X(ref, LLVMGetPreviousGlobalAlias, (ref), "")                                                            \
    X(ref, LLVMGetLastGlobalIFunc, (ref), "")                                                                \
    X(ref, LLVMGetPreviousGlobalIFunc, (ref), "")                                                            \
    X(ref, LLVMValueAsBasicBlock, (ref), "")                                                                 \
    X(ref, LLVMGetBasicBlockParent, (ref), "")                                                               \
    X(ref, LLVMBasicBlockAsValue, (ref), "")                                                                 \
    X(ref, LLVMGetLastBasicBlock, (ref), "")                                                                 \
    X(ref, LLVMGetPreviousBasicBlock, (ref), "")                                                             \
    X(ref, LLVMIsATerminatorInst, (ref), "")                                                                 \
    X(int, LLVMIsNull, (ref), "")                                                                            \
    X(ref, LLVMTypeOf, (ref), "")                                                                            \
    X(unsigned, LLVMGetIntTypeWidth, (ref), "")                                                              \
    X(uint64, LLVMConstIntGetZExtValue, (ref), "")                                                           \
    X(ref, LLVMConstInt, (ref, uint64, int), "")                                                             \
    X(ref, LLVMGetReturnType, (ref), "")                                                                     \
    X(ref, LLVMGetLastInstruction, (ref), "")                                                                \
    X(ref, LLVMGetPreviousInstruction, (ref), "")                                                            \
    X(const char *, LLVMGetSection, (ref), "")                                                               \
    X(const char *, LLVMGetGC, (ref), "")                                                                    \
    X(unsigned, LLVMGetAlignment, (ref), "")                                                                 \
    X(int, LLVMIsGlobalConstant, (ref), "")                                                                  \
    X(int, LLVMIsExternallyInitialized, (ref), "")                                                           \
    X(ref, LLVMGetComdat, (ref), "")                                                                         \
    X(int, LLVMGetComdatSelectionKind, (ref), "")                                                            \
    X(unsigned, LLVMGetIntrinsicID, (ref), "")                                                               \
    X(ref, LLVMGetFirstParam, (ref), "")                                                                     \
    X(ref, LLVMGetNextParam, (ref), "")                                                                      \
    X(ref, LLVMGlobalGetValueType, (ref), "")                                                                \
    X(unsigned, LLVMCountParams, (ref), "")                                                                  \
    X(unsigned, LLVMGetNumArgOperands, (ref), "")                                                            \
    X(unsigned, LLVMGetAttributeCountAtIndex, (ref, unsigned), "")                                           \
    X(void, LLVMGetAttributesAtIndex, (ref, unsigned, ref *), "")                                            \
    X(unsigned, LLVMGetCallSiteAttributeCount, (ref, unsigned), "")                                          \
    X(void, LLVMGetCallSiteAttributes, (ref, unsigned, ref *), "")                                           \
    X(int, LLVMIsEnumAttribute, (ref), "")                                                                   \
    X(int, LLVMIsTypeAttribute, (ref), "")                                                                   \
    X(ref, LLVMGetTypeAttributeValue, (ref), "")                                                             \
    X(int, LLVMIsStringAttribute, (ref), "")                                                                 \
    X(unsigned, LLVMGetEnumAttributeKind, (ref), "")                                                         \
    X(uint64, LLVMGetEnumAttributeValue, (ref), "")                                                          \
    X(const char *, LLVMGetStringAttributeKind, (ref, unsigned *), "")                                       \
    X(const char *, LLVMGetStringAttributeValue, (ref, unsigned *), "")                                      \
    X(ref, LLVMModuleCreateWithNameInContext, (const char *, ref), "")                                       \
    X(void, LLVMDisposeModule, (ref), "")                                                                    \
    X(ref, LLVMVoidTypeInContext, (ref), "")                                                                 \
    X(ref, LLVMFunctionType, (ref, ref *, unsigned, int), "")                                                \
    X(ref, LLVMAddFunction, (ref, const char *, ref), "")                                                    \
    X(void, LLVMAddAttributeAtIndex, (ref, unsigned, ref), "")                                               \
    X(char *, LLVMPrintValueToString, (ref), "")                                                             \
    X(char *, LLVMPrintTypeToString, (ref), "")                                                              \
    X(void, LLVMDisposeMessage, (char *), "")                                                                \
    X(int, LLVMGetTypeKind, (ref), "")                                                                       \
    X(unsigned, LLVMGetNumContainedTypes, (ref), "")                                                         \
    X(void, LLVMGetSubtypes, (ref, ref *), "")                                                               \
    X(uint64, LLVMGetArrayLength2, (ref), "?")                                                               \
    X(unsigned, LLVMGetVectorSize, (ref), "")                                                                \
    X(int, LLVMIsFunctionVarArg, (ref), "")                                                                  \
    X(int, LLVMIsPackedStruct, (ref), "")                                                                    \
    X(int, LLVMIsOpaqueStruct, (ref), "")                                                                    \
    X(int, LLVMIsLiteralStruct, (ref), "")                                                                   \
    X(const char *, LLVMGetStructName, (ref), "")                                                            \
    X(const char *, LLVMGetAsString, (ref, size *), "")                                                      \
    X(unsigned, LLVMGetMetadataKind, (ref), "")                                                              \
    X(ref, LLVMMetadataAsValue, (ref, ref), "")                                                              \
    X(ref, LLVMValueAsMetadata, (ref), "")                                                                   \
    X(const char *, LLVMGetMDString, (ref, unsigned *), "")                                                  \
    X(unsigned, LLVMGetMDNodeNumOperands, (ref), "")                                                         \
    X(void, LLVMGetMDNodeOperands, (ref, ref *), "")                                                         \
    X(ref, LLVMGetAllocatedType, (ref), "")                                                                  \
    X(ref, LLVMGetGEPSourceElementType, (ref), "")                                                           \
    X(ref, LLVMGetIncomingBlock, (ref, unsigned), "")                                                        \
    X(unsigned, LLVMGetNumMaskElements, (ref), "")                                                           \
    X(int, LLVMGetMaskValue, (ref, unsigned), "")                                                            \
    X(unsigned, LLVMGetNumIndices, (ref), "")                                                                \
    X(const unsigned *, LLVMGetIndices, (ref), "")                                                           \
    X(ref, LLVMGetSwitchCaseValue, (ref, unsigned), "?")                                                     \
    X(ref, LLVMGetBlockAddressBasicBlock, (ref), "?")                                                        \
    X(int, LLVMCanValueUseFastMathFlags, (ref), "?")                                                         \
    X(unsigned, LLVMGetFastMathFlags, (ref), "?")                                                            \
    X(unsigned, LLVMGetNumOperandBundles, (ref), "?")                                                        \
    X(ref, LLVMGetOperandBundleAtIndex, (ref, unsigned), "?")                                                \
    X(const char *, LLVMGetOperandBundleTag, (ref, size *), "?")                                             \
    X(unsigned, LLVMGetNumOperandBundleArgs, (ref), "?")                                                     \
    X(void, LLVMDisposeOperandBundle, (ref), "?")                                                            \
    X(int, LLVMGetConstOpcode, (ref), "")                                                                    \
    X(struct Text, _ZNK4llvm6Comdat7getNameEv, (ref), "?")                                                   \
    X(struct Text, _ZNK4llvm11GlobalValue12getPartitionEv, (ref), "?")                                       \
    X(const uint32 *, _ZNK4llvm11GlobalValue20getSanitizerMetadataEv, (ref), "?")                            \
    X(void, _ZNK4llvm11LLVMContext14getMDKindNamesERNS_15SmallVectorImplINS_9StringRefEEE,                   \
      (ref, struct Names *), "?")                                                                            \
    X(void, _ZNK4llvm11LLVMContext17getSyncScopeNamesERNS_15SmallVectorImplINS_9StringRefEEE,                \
      (ref, struct Names *), "?")                                                                            \
    X(unsigned, _ZNK4llvm11NamedMDNode14getNumOperandsEv, (ref), "?")                                        \
    X(ref, _ZNK4llvm11NamedMDNode10getOperandEj, (ref, unsigned), "?")                                       \
    X(void, _ZNK4llvm8Constant23removeDeadConstantUsersEv, (ref), "?")                                       \
    X(void, _ZN4llvm8Function14renumberBlocksEv, (ref), "?")                                                 \
    X(ref, _ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEj, (ref, unsigned), "?")                      \
    X(ref, _ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEjPNS_12FunctionTypeE, (ref, unsigned, ref), "?")

#include "llvm.h"

/* LLVMValueKind: values that the C API promises not to change. */
enum Kind {
    Argument = 0, Block = 1, AFunction = 5, Alias = 6, Ifunc = 7, Variable = 8, BlockAddress = 9, Expression = 10,
    ConstArray = 11, ConstStruct = 12, ConstVector = 13, Undef = 14, Zero = 15, DataArray = 16, DataVector = 17,
    Int = 18, Float = 19, Null = 20, NoToken = 21, MetadataValue = 22, Asm = 23, Instruction = 24, Poison = 25, Nothing = 254
};
enum { FUNCTION_TYPE = 9, STRUCT_TYPE = 10, ARRAY_TYPE = 11, VECTOR_TYPE = 13, SCALABLE_TYPE = 17 }; /* LLVMTypeKind */
enum { MD_STRING = 0, MD_TUPLE = 4 };              /* LLVMMetadataKind */
enum { UNIQUED = 0, DISTINCT = 1 };                /* `llvm::Metadata::StorageType` */
enum { OWN_SCOPES = 2 }; /* one thread, and the system */
enum { MOST_ATTRIBUTES = 128, MOST_DEPTH = 64 };
static const unsigned OF_FUNCTION = 0xFFFFFFFF; /* index of a function's own attributes; 0 is its result */

/* What differs between releases. Words and bytes count from the start of an object.

   `kinds` maps the class byte of a value to its `Kind`, or to 255. */
struct Layout {
    uint32 function_attributes, call_attributes; /* word of the attribute list */
    uint32 variable_attributes;                  /* word of a global variable's attributes */
    uint32 order;                                /* byte of an instruction's number within its block */
    uint32 scope;                                /* byte of the synchronisation scope of an atomic instruction */
    uint32 source_type;                          /* word of a constant getelementptr; 0: it cannot have a range */
    uint32 attachments, names;                   /* words of a context's tables of them */
    uint32 first_attachment;                     /* byte of a value's first attachment; 0: they are in a `Dense` */
    uint32 named;                                /* bit of `more` of values that have a name */
    uint32 since_23;                             /* whether tables are `Linear`, and fast-math flags apart */
    uint32 module_names, counter;                /* word of a module's table of names, and its counter's byte */
    uint32 first_kind;                           /* number of the first metadata kind that is not predefined */
    uint32 block_list, node;                     /* word of a block's list of instructions, and of its node in one */
    uint32 plain_uses;                           /* whether constants without operands have use-lists */
    byte kinds[256];
};

/* The first words of `llvm::Value`. For an instruction they hold the opcode, all flags, alignment, orderings,
   predicate, calling convention, and the number of operands. */
struct Value {
    byte class_, flags;
    uint16 data;
    uint32 more;
    ref type;
    struct Use *uses;
};
struct Use { struct Value *value; struct Use *next, **previous; ref user; };

enum { OPERANDS_BEHIND = 1u << 30, HAS_BUNDLES = 1u << 31, HAS_METADATA = 1u << 29, MANY = (1u << 27) - 1 };

/* An `llvm::DenseMap` from values before LLVM 23 and since, and its buckets in a context: what is attached to a value,
   and its name. Since LLVM 23, attachments are in one array, each with the index of the next one of its value. */
struct Dense { const byte *buckets; uint32 count, removed, size; };
struct Linear { const byte *buckets; const void *used; uint32 count, size; };
struct Attached { ref value; const struct Attachment { unsigned kind; void *node; } *nodes; uint32 count, own[5]; };
struct Linked { uint32 next; unsigned kind; void *node; };
struct Named { ref value; const struct Name { size length; ref value; char text[]; } *name; };

/* A hash table from addresses to numbers, with open addressing; for values also the use that was met last. */
struct Entry { ref key; uint64 value; struct Use *last; };
struct Table { struct Entry *entries; uint64 mask, count; };

/* A cache of recent hashes, with the traits of an integer (`counts.h`); 0 if these are not known yet. */
struct Quick { ref key; uint64 hash; unsigned traits; };
enum { QUICK_BITS = 8, KNOWN = 1u << 31, INTEGERS = 16, WORDS = 1024, SPARE = 512, ENOUGH = 8, FAR = 16 };

/* What is remembered for a context: hashes of permanent objects, and the addresses of its types' names. */
struct Memo {
    struct Table hashes, types;
    struct Quick quick[1 << QUICK_BITS];
    uint64 renamings; /* how often types were found renamed */
    ref *body;        /* the instructions of the module walked last, with a 0 before each block */
    uint64 room;      /* capacity of `body`, less FAR */
};

/* What all walks over modules of one library share, with working memory. */
struct Surveyor {
    const struct Llvm *llvm;
    const struct Layout *layout;
    struct Table locals, globals; /* numbers of values: parameters and blocks of a function; values of the module */
    struct Table constants;       /* those of `globals` that are constants with operands */
    struct Table brief;           /* hashes that depend on these numbers and so hold for one walk */
    uint64 words[WORDS];          /* waiting to be hashed */
    byte opcodes[256];            /* by class byte; 0: not known yet */
    byte terminators[256];        /* by class byte; 0: not known yet, 1: no, 2: yes */
    uint32 integers[INTEGERS];    /* counts of integers, by their traits */
    uint32 counts[2][OPCODES];    /* of instructions without and with constants, by opcode; 0: unknown */
};

struct Hash { uint64 a, b, c, d; };

struct Walk {
    const struct Llvm *llvm;
    const struct Layout *layout;
    struct Surveyor *own;
    struct Memo *memo;
    ref context;
    const void *attachments, *names; /* the context's tables */
    struct Hash hash; /* the fingerprint so far */
    uint64 listed; /* how much of the memo's `body` is in use */
    uint64 *first, *next, *end; /* words waiting to be hashed, and the end of their buffer, less SPARE */
    int unknown; /* the module contains something that is not supported */
    int shared;  /* there are constants with use-lists that other modules of the context may use too */
    int failed;  /* memory ran out */
    int addressed; /* addresses of blocks are taken, perhaps by dead constants */
    int brief, was_brief; /* whether the current hash and the last one depend on this walk's numbers */
    struct Entry nothing; /* returned as an entry when memory runs out */
};

/* The results for Python. */
struct Facts {
    uint64 fingerprint[2], instructions, types, renamings, unknown, shared;
    int64 inst_count[70], autophase[56];
};

#define FOR_ALL_BACKWARDS(kind, one, all) \
    for (ref one = llvm->LLVMGetLast##kind(all); one; one = llvm->LLVMGetPrevious##kind(one))
