/* Cuts textual IR into tokens, as the lexer of LLVM's own parser does (llvm/lib/AsmParser/LLLexer.cpp).

   The kinds of tokens and their numbers are those of LLVM 10, which CompilerGym uses. Kinds that later releases added
   come after them, and kinds that they removed stay, so that one numbering serves all releases. */

typedef __INT32_TYPE__ int32;
typedef __INT64_TYPE__ int64;
typedef __UINT16_TYPE__ uint16;
typedef __UINT32_TYPE__ uint32;

#define EXPORT __attribute__((visibility("default")))

#define KEYWORDS_OF_LLVM_10(K) \
    K(vscale) K(x) K(true) K(false) K(declare) K(define) K(global) K(constant) K(dso_local) K(dso_preemptable) \
    K(private) K(internal) K(linkonce) K(linkonce_odr) K(weak) K(weak_odr) K(appending) K(dllimport) K(dllexport) \
    K(common) K(available_externally) K(default) K(hidden) K(protected) K(unnamed_addr) K(local_unnamed_addr) \
    K(externally_initialized) K(extern_weak) K(external) K(thread_local) K(localdynamic) K(initialexec) \
    K(localexec) K(zeroinitializer) K(undef) K(null) K(none) K(to) K(caller) K(within) K(from) K(tail) K(musttail) \
    K(notail) K(target) K(triple) K(source_filename) K(unwind) K(deplibs) K(datalayout) K(volatile) K(atomic) \
    K(unordered) K(monotonic) K(acquire) K(release) K(acq_rel) K(seq_cst) K(syncscope) K(nnan) K(ninf) K(nsz) \
    K(arcp) K(contract) K(reassoc) K(afn) K(fast) K(nuw) K(nsw) K(exact) K(inbounds) K(inrange) K(align) \
    K(addrspace) K(section) K(partition) K(alias) K(ifunc) K(module) K(asm) K(sideeffect) K(alignstack) \
    K(inteldialect) K(gc) K(prefix) K(prologue) K(c) K(cc) K(ccc) K(fastcc) K(coldcc) K(intel_ocl_bicc) \
    K(cfguard_checkcc) K(x86_stdcallcc) K(x86_fastcallcc) K(x86_thiscallcc) K(x86_vectorcallcc) K(x86_regcallcc) \
    K(arm_apcscc) K(arm_aapcscc) K(arm_aapcs_vfpcc) K(aarch64_vector_pcs) K(aarch64_sve_vector_pcs) \
    K(msp430_intrcc) K(avr_intrcc) K(avr_signalcc) K(ptx_kernel) K(ptx_device) K(spir_kernel) K(spir_func) \
    K(x86_64_sysvcc) K(win64cc) K(webkit_jscc) K(anyregcc) K(swiftcc) K(preserve_mostcc) K(preserve_allcc) K(ghccc) \
    K(x86_intrcc) K(hhvmcc) K(hhvm_ccc) K(cxx_fast_tlscc) K(amdgpu_vs) K(amdgpu_ls) K(amdgpu_hs) K(amdgpu_es) \
    K(amdgpu_gs) K(amdgpu_ps) K(amdgpu_cs) K(amdgpu_kernel) K(tailcc) K(attributes) K(allocsize) K(alwaysinline) \
    K(argmemonly) K(sanitize_address) K(sanitize_hwaddress) K(sanitize_memtag) K(builtin) K(byval) K(inalloca) \
    K(cold) K(convergent) K(dereferenceable) K(dereferenceable_or_null) K(inaccessiblememonly) \
    K(inaccessiblemem_or_argmemonly) K(inlinehint) K(inreg) K(jumptable) K(minsize) K(naked) K(nest) K(noalias) \
    K(nobuiltin) K(nocapture) K(noduplicate) K(nofree) K(noimplicitfloat) K(noinline) K(norecurse) K(nonlazybind) \
    K(nonnull) K(noredzone) K(noreturn) K(nosync) K(nocf_check) K(nounwind) K(optforfuzzing) K(optnone) K(optsize) \
    K(readnone) K(readonly) K(returned) K(returns_twice) K(signext) K(speculatable) K(ssp) K(sspreq) K(sspstrong) \
    K(safestack) K(shadowcallstack) K(sret) K(sanitize_thread) K(sanitize_memory) K(speculative_load_hardening) \
    K(strictfp) K(swifterror) K(swiftself) K(uwtable) K(willreturn) K(writeonly) K(zeroext) K(immarg) K(type) \
    K(opaque) K(comdat) K(any) K(exactmatch) K(largest) K(noduplicates) K(samesize) K(eq) K(ne) K(slt) K(sgt) \
    K(sle) K(sge) K(ult) K(ugt) K(ule) K(uge) K(oeq) K(one) K(olt) K(ogt) K(ole) K(oge) K(ord) K(uno) K(ueq) K(une) \
    K(xchg) K(nand) K(max) K(min) K(umax) K(umin) K(fneg) K(add) K(fadd) K(sub) K(fsub) K(mul) K(fmul) K(udiv) \
    K(sdiv) K(fdiv) K(urem) K(srem) K(frem) K(shl) K(lshr) K(ashr) K(and) K(or) K(xor) K(icmp) K(fcmp) K(phi) \
    K(call) K(trunc) K(zext) K(sext) K(fptrunc) K(fpext) K(uitofp) K(sitofp) K(fptoui) K(fptosi) K(inttoptr) \
    K(ptrtoint) K(bitcast) K(addrspacecast) K(select) K(va_arg) K(landingpad) K(personality) K(cleanup) K(catch) \
    K(filter) K(ret) K(br) K(switch) K(indirectbr) K(invoke) K(resume) K(unreachable) K(cleanupret) K(catchswitch) \
    K(catchret) K(catchpad) K(cleanuppad) K(callbr) K(alloca) K(load) K(store) K(fence) K(cmpxchg) K(atomicrmw) \
    K(getelementptr) K(extractelement) K(insertelement) K(shufflevector) K(extractvalue) K(insertvalue) \
    K(blockaddress) K(freeze) K(distinct) K(uselistorder) K(uselistorder_bb) K(path) K(hash) K(gv) K(guid) K(name) \
    K(summaries) K(flags) K(linkage) K(notEligibleToImport) K(live) K(dsoLocal) K(canAutoHide) K(function) K(insts) \
    K(funcFlags) K(readNone) K(readOnly) K(noRecurse) K(returnDoesNotAlias) K(noInline) K(alwaysInline) K(calls) \
    K(callee) K(hotness) K(unknown) K(hot) K(critical) K(relbf) K(variable) K(vTableFuncs) K(virtFunc) K(aliasee) \
    K(refs) K(typeIdInfo) K(typeTests) K(typeTestAssumeVCalls) K(typeCheckedLoadVCalls) \
    K(typeTestAssumeConstVCalls) K(typeCheckedLoadConstVCalls) K(vFuncId) K(offset) K(args) K(typeid) \
    K(typeidCompatibleVTable) K(summary) K(typeTestRes) K(kind) K(unsat) K(byteArray) K(inline) K(single) \
    K(allOnes) K(sizeM1BitWidth) K(alignLog2) K(sizeM1) K(bitMask) K(inlineBits) K(wpdResolutions) K(wpdRes) \
    K(indir) K(singleImpl) K(branchFunnel) K(singleImplName) K(resByArg) K(byArg) K(uniformRetVal) K(uniqueRetVal) \
    K(virtualConstProp) K(info) K(byte) K(bit) K(varFlags)

#define KEYWORDS_SINCE(K) \
    K(poison) K(swifttailcc) K(amdgpu_gfx) K(disable_sanitizer_instrumentation) K(elementtype) K(noundef) \
    K(nocallback) K(nomerge) K(noprofile) K(nosanitize_coverage) K(null_pointer_is_valid) K(preallocated) \
    K(swiftasync) K(vscale_range) K(byref) K(mustprogress) K(nodeduplicate) K(dso_local_equivalent) K(no_cfi) \
    K(blockcount) K(visibility) K(noUnwind) K(mayThrow) K(hasUnknownCall) K(mustBeUnreachable) K(params) K(param) \
    K(vcall_visibility) K(aarch64_sme_preservemost_from_x0) K(aarch64_sme_preservemost_from_x1) \
    K(aarch64_sme_preservemost_from_x2) K(address) K(address_is_null) K(all) K(allocalign) K(allockind) K(allocptr) \
    K(allocs) K(amdgpu_cs_chain) K(amdgpu_cs_chain_preserve) K(amdgpu_gfx_whole_wave) K(argmem) K(async) \
    K(callsites) K(captures) K(clones) K(code_model) K(coro_elide_safe) K(coro_only_destroy_when_complete) \
    K(dead_on_return) K(dead_on_unwind) K(declaration) K(definition) K(disjoint) K(errnomem) K(fmax) K(fmaximum) \
    K(fmin) K(fminimum) K(fn_ret_thunk_extern) K(graalcc) K(hybrid_patchable) K(importType) K(inaccessiblemem) \
    K(inf) K(initializes) K(m68k_rtdcc) K(memProf) K(memory) K(nan) K(nneg) K(nnorm) K(no_sanitize_address) \
    K(no_sanitize_hwaddress) K(nocreateundeforpoison) K(nodivergencesource) K(noext) K(nofpclass) K(norm) \
    K(nosanitize_bounds) K(notcold) K(nsub) K(nusw) K(nzero) K(optdebug) K(pinf) K(pnorm) K(preserve_nonecc) \
    K(presplitcoroutine) K(provenance) K(psub) K(ptrauth) K(ptrtoaddr) K(pzero) K(qnan) K(range) K(read) \
    K(read_provenance) K(readwrite) K(riscv_vector_cc) K(riscv_vls_cc) K(samesign) K(sanitize_address_dyninit) \
    K(sanitize_alloc_token) K(sanitize_numerical_stability) K(sanitize_realtime) K(sanitize_realtime_blocking) \
    K(sanitize_type) K(skipprofile) K(snan) K(splat) K(stackIds) K(sync) K(udec_wrap) K(uinc_wrap) K(usub_cond) \
    K(usub_sat) K(versions) K(writable) K(write) K(zero)

#define PUNCTUATION(P) \
    P(dotdotdot) P(equal) P(comma) P(star) P(lsquare) P(rsquare) P(lbrace) P(rbrace) P(less) P(greater) P(lparen) \
    P(rparen) P(exclaim) P(bar) P(colon)
#define VALUED_OF_LLVM_10(V) \
    V(uintval, LabelID) V(uintval, GlobalID) V(uintval, LocalVarID) V(uintval, AttrGrpID) V(uintval, SummaryID) \
    V(strval, LabelStr) V(strval, GlobalVar) V(strval, ComdatVar) V(strval, LocalVar) V(strval, MetadataVar) \
    V(strval, StringConstant) V(strval, DwarfTag) V(strval, DwarfAttEncoding) V(strval, DwarfVirtuality) \
    V(strval, DwarfLang) V(strval, DwarfCC) V(strval, EmissionKind) V(strval, NameTableKind) V(strval, DwarfOp) \
    V(strval, DIFlag) V(strval, DISPFlag) V(strval, DwarfMacinfo) V(strval, ChecksumKind) V(type, Type) \
    V(apfloat, APFloat) V(apsint, APSInt)
#define VALUED_SINCE(V) \
    V(strval, DwarfMSpaceLLVM) V(strval, FixedPointKind) V(strval, DbgRecordType) V(strval, DwarfEnumKind)

#define PLAIN(name) name,
#define KEYWORD(word) kw_##word,
#define VALUED(category, name) name,
enum Kind {
    Eof, Error,
    PUNCTUATION(PLAIN) KEYWORDS_OF_LLVM_10(KEYWORD) VALUED_OF_LLVM_10(VALUED)
    hash, KEYWORDS_SINCE(KEYWORD) VALUED_SINCE(VALUED)
    KINDS
};

/* "category:kind", in the order of the numbers. */
#define PLAIN_TEXT(name) "keyword:" #name " "
#define KEYWORD_TEXT(word) "keyword:kw_" #word " "
#define VALUED_TEXT(category, name) #category ":" #name " "
EXPORT const char aiocg_token_kinds[] =
    "marker:Eof marker:Error "
    PUNCTUATION(PLAIN_TEXT) KEYWORDS_OF_LLVM_10(KEYWORD_TEXT) VALUED_OF_LLVM_10(VALUED_TEXT)
    "keyword:hash " KEYWORDS_SINCE(KEYWORD_TEXT) VALUED_SINCE(VALUED_TEXT);

struct Word {
    const char *text;
    enum Kind kind;
};

#define WORD(word) {#word, kw_##word},
static const struct Word WORDS[] = {
    KEYWORDS_OF_LLVM_10(WORD) KEYWORDS_SINCE(WORD)
    {"void", Type}, {"half", Type}, {"bfloat", Type}, {"float", Type}, {"double", Type}, {"x86_fp80", Type},
    {"fp128", Type}, {"ppc_fp128", Type}, {"label", Type}, {"metadata", Type}, {"x86_mmx", Type}, {"x86_amx", Type},
    {"token", Type}, {"ptr", Type},
    {"dbg_value", DbgRecordType}, {"dbg_declare", DbgRecordType}, {"dbg_assign", DbgRecordType},
    {"dbg_label", DbgRecordType}, {"dbg_declare_value", DbgRecordType},
    {"NoDebug", EmissionKind}, {"FullDebug", EmissionKind}, {"LineTablesOnly", EmissionKind},
    {"DebugDirectivesOnly", EmissionKind},
    {"GNU", NameTableKind}, {"Apple", NameTableKind}, {"None", NameTableKind}, {"Default", NameTableKind},
    {"Binary", FixedPointKind}, {"Decimal", FixedPointKind}, {"Rational", FixedPointKind},
};
static const struct Word PREFIXES[] = {
    {"DW_TAG_", DwarfTag}, {"DW_ATE_", DwarfAttEncoding}, {"DW_VIRTUALITY_", DwarfVirtuality},
    {"DW_LANG_", DwarfLang}, {"DW_CC_", DwarfCC}, {"DW_OP_", DwarfOp}, {"DW_MACINFO_", DwarfMacinfo},
    {"DW_MSPACE_LLVM_", DwarfMSpaceLLVM}, {"DW_APPLE_ENUM_KIND_", DwarfEnumKind}, {"DIFlag", DIFlag},
    {"DISPFlag", DISPFlag}, {"CSK_", ChecksumKind},
};

enum { COUNT = sizeof WORDS / sizeof *WORDS, SLOTS = 2048 };

static uint32 hash_of(const char *text, int64 length) {
    uint32 hash = 2166136261u;
    for (int64 i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static int64 length_of(const char *text) {
    int64 length = 0;
    while (text[length]) length++;
    return length;
}

static int starts_with(const char *text, const char *prefix) {
    while (*prefix && *text == *prefix) text++, prefix++;
    return !*prefix;
}

/* Fills the caller's table of SLOTS entries: hash -> 1 + index in WORDS, or 0. */
EXPORT void aiocg_lexer_table(uint16 *table) {
    for (int i = 0; i < SLOTS; i++) table[i] = 0;
    for (int i = 0; i < COUNT; i++) {
        uint32 slot = hash_of(WORDS[i].text, length_of(WORDS[i].text)) % SLOTS;
        while (table[slot]) slot = (slot + 1) % SLOTS;
        table[slot] = (uint16)(i + 1);
    }
}

static enum Kind find_word(const uint16 *table, const char *text, int64 length) {
    for (uint32 slot = hash_of(text, length) % SLOTS; table[slot]; slot = (slot + 1) % SLOTS) {
        const struct Word *word = &WORDS[table[slot] - 1];
        if (starts_with(text, word->text) && !word->text[length]) return word->kind;
    }
    return Error;
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static int is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static int is_name_start(char c) { return is_alpha(c) || c == '-' || c == '$' || c == '.' || c == '_'; }
static int is_label(char c) { return is_name_start(c) || is_digit(c); }

/* A token: its end, and the part of the text that is its value. The text ends with a NUL, so the character after any
   other may be read. */
struct Token {
    enum Kind kind;
    const char *end, *value, *value_end;
};

static struct Token valued(enum Kind kind, const char *value, const char *value_end, const char *end) {
    return (struct Token){kind, end, value, value_end};
}

static struct Token plain(enum Kind kind, const char *end) { return (struct Token){kind, end, end, end}; }

static struct Token error(const char *start, const char *end) { return valued(Error, start, end, end); }

static const char *skip_digits(const char *p) {
    while (is_digit(*p)) p++;
    return p;
}

static const char *skip_label(const char *p) {
    while (is_label(*p)) p++;
    return p;
}

/* `"..."` at p; the value is the text between the quotes, with escapes unchanged. */
static struct Token quoted(enum Kind kind, const char *start, const char *p) {
    const char *end = p + 1;
    while (*end && *end != '"') end++;
    return *end ? valued(kind, p + 1, end, end + 1) : error(start, end);
}

/* After a sigil: "...", a name or digits. */
static struct Token variable(enum Kind named, enum Kind numbered, const char *start) {
    const char *p = start + 1;
    if (*p == '"') return quoted(named, start, p);
    if (is_name_start(*p)) return valued(named, p, skip_label(p), skip_label(p));
    if (numbered != Error && is_digit(*p)) return valued(numbered, p, skip_digits(p), skip_digits(p));
    return error(start, p);
}

static struct Token metadata(const char *start) {
    const char *p = start + 1;
    if (!is_name_start(*p) && *p != '\\') return plain(exclaim, p);
    while (is_label(*p) || *p == '\\') p++;
    return valued(MetadataVar, start + 1, p, p);
}

/* After the digits of a number: [.][0-9]*([eE][-+]?[0-9]+)? */
static struct Token fraction(const char *start, const char *point) {
    const char *p = skip_digits(point + 1);
    if (*p == 'e' || *p == 'E') {
        const char *exponent = p + 1 + (p[1] == '-' || p[1] == '+');
        if (is_digit(*exponent)) p = skip_digits(exponent);
    }
    return valued(APFloat, start, p, p);
}

static struct Token hexadecimal_float(const char *start) {
    const char *p = start + 2;
    if ((*p >= 'K' && *p <= 'M') || *p == 'H' || *p == 'R') p++;
    if (!is_hex(*p)) return error(start, start + 1);
    while (is_hex(*p)) p++;
    return valued(APFloat, start, p, p);
}

static struct Token number(const char *start) {
    const char *label = skip_label(start);
    if (*start == '-' && !is_digit(start[1]))
        return *label == ':' ? valued(LabelStr, start, label, label + 1) : error(start, start + 1);
    const char *p = skip_digits(start + 1);
    if (is_digit(*start) && *p == ':') return valued(LabelID, start, p, p + 1);
    if (*label == ':') return valued(LabelStr, start, label, label + 1);
    if (*p == '.') return fraction(start, p);
    if (start[0] == '0' && start[1] == 'x') return hexadecimal_float(start);
    return valued(APSInt, start, p, p);
}

static struct Token positive(const char *start) {
    const char *p = skip_digits(start + 1);
    return p > start + 1 && *p == '.' ? fraction(start, p) : error(start, start + 1);
}

static int has_value(enum Kind kind) { return (kind >= LabelID && kind <= APSInt) || kind >= DwarfMSpaceLLVM; }

static struct Token identifier(const uint16 *table, const char *start) {
    const char *label = skip_label(start);
    if (*label == ':') return valued(LabelStr, start, label, label + 1);
    if (*start == 'i' && is_digit(start[1])) {
        const char *end = skip_digits(start + 1);
        return valued(Type, start, end, end);
    }
    const char *end = start;
    while (is_alpha(*end) || is_digit(*end) || *end == '_') end++;
    enum Kind kind = find_word(table, start, end - start);
    if (kind != Error) return has_value(kind) ? valued(kind, start, end, end) : plain(kind, end);
    for (unsigned i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++)
        if (starts_with(start, PREFIXES[i].text)) return valued(PREFIXES[i].kind, start, end, end);
    if ((*start == 'u' || *start == 's') && start[1] == '0' && start[2] == 'x' && is_hex(start[3])) {
        const char *digit = start + 3;
        while (is_hex(*digit)) digit++;
        return digit == end ? valued(APSInt, start, end, end) : error(start, end);
    }
    if (start[0] == 'c' && start[1] == 'c') return plain(kw_cc, start + 2);
    return error(start, end);
}

static const char *skip_comment(const char *p) {
    if (*p == ';') {
        while (*p && *p != '\n' && *p != '\r') p++;
        return p;
    }
    if (p[1] != '*') return p + 1; /* LLVM skips a lone slash */
    int64 depth = 1;
    for (p += 2; *p && depth; p++) {
        if (p[0] == '*' && p[1] == '/') depth--, p++;
        else if (p[0] == '/' && p[1] == '*') depth++, p++;
    }
    return p;
}

static struct Token next(const uint16 *table, const char *p) {
    if (is_alpha(*p) || *p == '_') return identifier(table, p);
    if (is_digit(*p) || *p == '-') return number(p);
    switch (*p) {
    case '%': return variable(LocalVar, LocalVarID, p);
    case '@': return variable(GlobalVar, GlobalID, p);
    case '^': return is_digit(p[1]) ? variable(Error, SummaryID, p) : error(p, p + 1);
    case '#': return is_digit(p[1]) ? variable(Error, AttrGrpID, p) : plain(hash, p + 1);
    case '!': return metadata(p);
    case '+': return positive(p);
    case '$': {
        const char *label = skip_label(p);
        return *label == ':' ? valued(LabelStr, p, label, label + 1) : variable(ComdatVar, Error, p);
    }
    case '"': {
        struct Token token = quoted(StringConstant, p, p);
        if (token.kind == StringConstant && *token.end == ':') token.kind = LabelStr, token.end++;
        return token;
    }
    case '.': {
        const char *label = skip_label(p);
        if (*label == ':') return valued(LabelStr, p, label, label + 1);
        return p[1] == '.' && p[2] == '.' ? plain(dotdotdot, p + 3) : error(p, p + 1);
    }
    case '=': return plain(equal, p + 1);
    case ',': return plain(comma, p + 1);
    case '*': return plain(star, p + 1);
    case '[': return plain(lsquare, p + 1);
    case ']': return plain(rsquare, p + 1);
    case '{': return plain(lbrace, p + 1);
    case '}': return plain(rbrace, p + 1);
    case '<': return plain(less, p + 1);
    case '>': return plain(greater, p + 1);
    case '(': return plain(lparen, p + 1);
    case ')': return plain(rparen, p + 1);
    case '|': return plain(bar, p + 1);
    case ':': return plain(colon, p + 1);
    }
    const char *end = p + 1;
    while ((unsigned char)*p >= 0x80 && (unsigned char)*end >= 0x80) end++;
    return error(p, end);
}

/* Splits `text`, which is `size` bytes and a NUL, into tokens and returns their number. Writes the kind of each token
   to `kinds` and its value, followed by a NUL, to `values`, which has room for `size + capacity` bytes; sets
   `values_size` to the bytes used. Tokens after the first `capacity` are only counted. */
EXPORT int64 aiocg_lex(const uint16 *table, const char *text, int64 size, int32 *kinds, char *values, int64 capacity,
                       int64 *values_size) {
    int64 count = 0;
    char *out = values;
    for (const char *p = text; p < text + size;) {
        if (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r' || !*p) {
            p++;
            continue;
        }
        if (*p == ';' || *p == '/') {
            p = skip_comment(p);
            continue;
        }
        struct Token token = next(table, p);
        p = token.end;
        if (count++ >= capacity) continue;
        *kinds++ = (int32)token.kind;
        while (token.value < token.value_end) *out++ = *token.value++;
        *out++ = 0;
    }
    *values_size = out - values;
    return count;
}
