/* Hashing, and hash tables by address. */

/* ---- hashing ---- */

static const uint64 K1 = 0x9E3779B97F4A7C15u, K2 = 0xD6E8FEB86659FD93u;

static inline uint64 fold(uint64 a, uint64 b) { /* as in wyhash */
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64)product ^ (uint64)(product >> 64);
}

/* Hashes the waiting words in fours, in two chains; up to three words stay in the buffer. */
static __attribute__((noinline)) void absorb(struct Walk *walk) {
    struct Hash at = walk->hash;
    uint64 *word = walk->first, *rest = word;
    for (; word + 3 < walk->next; word += 4) {
        uint64 w = word[0], x = word[1], y = word[2], z = word[3];
        at.a = fold(w ^ K1, x ^ at.a), at.b = fold(x ^ K2, w ^ at.b);
        at.c = fold(y ^ K1, z ^ at.c), at.d = fold(z ^ K2, y ^ at.d);
    }
    while (word < walk->next) *rest++ = *word++;
    walk->next = rest, walk->hash = at;
}

/* Words are buffered, so that the caller does not wait for the hash of the previous one. */
static inline void mix(struct Walk *walk, uint64 word) {
    *walk->next++ = word;
    if (walk->next >= walk->end) absorb(walk);
}

static inline void mix_two(struct Walk *walk, uint64 one, uint64 other) {
    walk->next[0] = one, walk->next[1] = other, walk->next += 2;
    if (walk->next >= walk->end) absorb(walk);
}

static uint64 spread(uint64 a) { /* the end of MurmurHash3 */
    a = (a ^ (a >> 33)) * 0xFF51AFD7ED558CCDu;
    a = (a ^ (a >> 33)) * 0xC4CEB9FE1A85EC53u;
    return a ^ (a >> 33);
}

/* Reads fewer than eight bytes, big-endian. */
static inline uint64 last_bytes(const char *bytes, size length) {
    uint64 word = 0;
    uint32 half;
    uint16 quarter;
    if (length & 4) __builtin_memcpy(&half, bytes, 4), word = __builtin_bswap32(half), bytes += 4;
    if (length & 2) __builtin_memcpy(&quarter, bytes, 2), word = word << 16 | __builtin_bswap16(quarter), bytes += 2;
    return length & 1 ? word << 8 | (byte)*bytes : word;
}

static void mix_bytes(struct Walk *walk, const char *bytes, size length) {
    mix(walk, length);
    for (; bytes && length >= 8; bytes += 8, length -= 8) {
        uint64 word;
        __builtin_memcpy(&word, bytes, 8);
        mix(walk, word);
    }
    uint64 rest = 0;
    if (bytes && length) rest = last_bytes(bytes, length);
    mix(walk, rest);
}

static void mix_text(struct Walk *walk, const char *text) {
    mix_bytes(walk, text, text ? walk->llvm->strlen(text) : 0);
}

/* To hash something separately: `begin`, mix, `end`. */
struct Pause { struct Hash hash; uint64 *first; int brief; };

static struct Pause begin(struct Walk *walk, uint64 what) {
    if (walk->next >= walk->end) absorb(walk);
    struct Pause pause = {walk->hash, walk->first, walk->brief};
    if (walk->next > walk->end + SPARE - ENOUGH) walk->unknown = 1, walk->next = walk->own->words; /* too deep */
    walk->hash = (struct Hash){what, ~what, what, ~what}, walk->brief = 0, walk->first = walk->next;
    return pause;
}

/* Completes and hashes the last words, and returns two results. */
static struct Hash absorb_rest(struct Walk *walk) {
    for (unsigned i = 0; i < 3; i++) *walk->next++ = 0;
    absorb(walk);
    uint64 rest = (uint64)(walk->next - walk->first); /* depends on how many words there were */
    struct Hash at = walk->hash;
    walk->next = walk->first;
    return (struct Hash){.a = fold(at.a ^ rest ^ K1, at.c ^ K2) + at.a + K2 * at.b, .b = at.b ^ K1 * at.d};
}

static uint64 end(struct Walk *walk, struct Pause pause) {
    struct Hash at = absorb_rest(walk);
    uint64 hash = spread(at.a ^ (at.b << 1 | at.b >> 63));
    walk->hash = pause.hash, walk->first = pause.first;
    walk->was_brief = walk->brief, walk->brief |= pause.brief;
    return hash;
}

/* ---- tables ---- */

static inline struct Entry *place_of(const struct Table *table, ref key) {
    uint64 i = (((uint64)key >> 3) * K1 >> 32) & table->mask;
    while (table->entries[i].key && table->entries[i].key != key) i = (i + 1) & table->mask;
    return &table->entries[i];
}

static int resize(struct Walk *walk, struct Table *table, uint64 mask) {
    struct Table old = *table;
    struct Entry *entries = walk->llvm->calloc(mask + 1, sizeof(struct Entry));
    if (!entries) return 0;
    table->entries = entries, table->mask = mask;
    for (uint64 i = 0; old.entries && i <= old.mask; i++)
        if (old.entries[i].key) *place_of(table, old.entries[i].key) = old.entries[i];
    walk->llvm->free(old.entries);
    return 1;
}

static int enlarge(struct Walk *walk, struct Table *table) {
    if (resize(walk, table, table->entries ? 2 * table->mask + 1 : 255)) return 1;
    walk->failed = 1;
    return 0;
}

/* Makes room for one more entry. */
static inline int grow(struct Walk *walk, struct Table *table) {
    return 2 * table->count < table->mask || enlarge(walk, table); /* an empty table has mask 0 */
}

/* Empties a table. If it had few entries, only a part of it is used from now on, so that emptying stays cheap. */
static void empty(struct Table *table) {
    uint64 mask = 31;
    if (!table->entries) return;
    while (mask < 2 * table->count) mask = 2 * mask + 1;
    if (mask < table->mask) table->mask = mask;
    for (uint64 i = 0; i <= table->mask; i++) table->entries[i].key = 0;
    table->count = 0;
}

/* Returns the entry of an address, a new one with the next number if there was none; sets `is_new`. */
static inline struct Entry *entry_of(struct Walk *walk, struct Table *table, ref key, int *is_new) {
    *is_new = 0;
    if (!grow(walk, table)) {
        walk->nothing = (struct Entry){0, 0, 0};
        return &walk->nothing;
    }
    struct Entry *entry = place_of(table, key);
    if (!entry->key) entry->key = key, entry->value = ++table->count, entry->last = 0, *is_new = 1;
    return entry;
}

static inline uint64 number(struct Walk *walk, struct Table *table, ref key, int *is_new) {
    return entry_of(walk, table, key, is_new)->value;
}

static uint64 found(const struct Table *table, ref key) {
    const struct Entry *entry = table->count ? place_of(table, key) : 0;
    return entry && entry->key ? entry->value : 0;
}

static inline uint32 place_in_dense(ref key) { return (uint32)(uint64)key >> 4 ^ (uint32)(uint64)key >> 9; }

/* Returns the bucket of a value in LLVM's table, where it must be. */
static inline const void *dense(const struct Walk *walk, const void *table, size size_, ref key) {
    const struct Dense *old = table;
    const struct Linear *linear = walk->layout->since_23 ? table : 0;
    uint64 mixed = (uint64)key * 0xbf58476d1ce4e5b9; /* `llvm::densemap::detail::mix` */
    uint64 place = linear ? mixed ^ mixed >> 31 : place_in_dense(key), last = (linear ? linear->size : old->size) - 1;
    for (uint32 step = 1;; step++) {
        const byte *bucket = old->buckets + size_ * (place & last);
        if (*(const ref *)bucket == key) return bucket;
        place += linear ? 1 : step;
    }
}

static inline struct Quick *quick_of(struct Walk *walk, ref key) {
    return &walk->memo->quick[(uint64)key * K1 >> (64 - QUICK_BITS)];
}

static __attribute__((noinline)) uint64 looked_up(struct Walk *walk, ref key) {
    uint64 hash = found(&walk->memo->hashes, key);
    if (hash) {
        *quick_of(walk, key) = (struct Quick){key, hash, 0};
        return hash;
    }
    hash = found(&walk->own->brief, key);
    walk->brief |= hash != 0;
    return hash;
}

static inline uint64 remembered(struct Walk *walk, ref key) {
    const struct Quick *quick = quick_of(walk, key);
    return quick->key == key ? quick->hash : looked_up(walk, key);
}

static void forget(struct Walk *walk, ref key) {
    if (found(&walk->memo->hashes, key)) place_of(&walk->memo->hashes, key)->value = 0;
    quick_of(walk, key)->key = 0;
}

static void put(struct Walk *walk, struct Table *table, ref key, uint64 value) {
    if (!grow(walk, table)) return;
    struct Entry *entry = place_of(table, key);
    if (!entry->key) table->count++;
    entry->key = key, entry->value = value;
}

/* Stores the hash that was computed last: with the context, unless it depends on this walk. */
static uint64 remember(struct Walk *walk, ref key, uint64 hash) {
    if (!walk->unknown) put(walk, walk->was_brief ? &walk->own->brief : &walk->memo->hashes, key, hash | 1);
    return hash | 1; /* 0 means no hash */
}

/* Forgets all hashes if a type was renamed. Nothing else that the memo knows can change in place. */
static void forget_renamed(struct Memo *memo, const struct Llvm *llvm) {
    const struct Table *types = &memo->types;
    for (uint64 i = 0; types->entries && i <= types->mask; i++) {
        const struct Entry *entry = &types->entries[i];
        if (!entry->key || (uint64)llvm->LLVMGetStructName(entry->key) == entry->value) continue;
        llvm->free(memo->hashes.entries), llvm->free(memo->types.entries);
        memo->hashes = memo->types = (struct Table){0, 0, 0}, memo->renamings++;
        for (unsigned j = 0; j < 1 << QUICK_BITS; j++) memo->quick[j].key = 0;
        return;
    }
}
