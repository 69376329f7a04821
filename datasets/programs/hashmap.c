// hashmap: counts words with an open-addressing robin hood map and a chained map, over interned strings
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL) {
        puts("out of memory");
        exit(1);
    }
    return memory;
}

static uint32_t hash_bytes(const char *bytes, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t k = 0; k < length; k++)
        hash = (hash ^ (unsigned char)bytes[k]) * 16777619u;
    return hash;
}

static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

// ---- String interning: one id for each distinct string, bytes kept in an arena ------------------------------------

typedef struct {
    const char *bytes;
    uint32_t length;
    uint32_t hash;
} Name;

typedef struct Chunk {
    struct Chunk *next;
    size_t used, capacity;
    char bytes[];
} Chunk;

typedef struct {
    Name *names;
    uint32_t count, capacity;
    uint32_t *slots; // id + 1, or 0
    uint32_t slot_count;
    Chunk *chunks;
} Interner;

static void interner_init(Interner *interner) {
    interner->count = 0;
    interner->capacity = 16;
    interner->slot_count = 32;
    interner->names = allocate(interner->capacity, sizeof *interner->names);
    interner->slots = allocate(interner->slot_count, sizeof *interner->slots);
    interner->chunks = NULL;
}

static void interner_free(Interner *interner) {
    free(interner->names);
    free(interner->slots);
    while (interner->chunks != NULL) {
        Chunk *next = interner->chunks->next;
        free(interner->chunks);
        interner->chunks = next;
    }
}

static const char *keep_bytes(Interner *interner, const char *bytes, size_t length) {
    Chunk *chunk = interner->chunks;
    if (chunk == NULL || chunk->capacity - chunk->used < length + 1) {
        size_t capacity = length + 1 > 1000 ? length + 1 : 1000;
        chunk = allocate(1, sizeof *chunk + capacity);
        chunk->capacity = capacity;
        chunk->next = interner->chunks;
        interner->chunks = chunk;
    }
    char *kept = chunk->bytes + chunk->used;
    memcpy(kept, bytes, length);
    kept[length] = '\0';
    chunk->used += length + 1;
    return kept;
}

static uint32_t *interner_slot(Interner *interner, const char *bytes, size_t length, uint32_t hash) {
    uint32_t mask = interner->slot_count - 1;
    for (uint32_t at = hash & mask;; at = (at + 1) & mask) {
        uint32_t id = interner->slots[at];
        if (id == 0)
            return &interner->slots[at];
        const Name *name = &interner->names[id - 1];
        if (name->hash == hash && name->length == length && memcmp(name->bytes, bytes, length) == 0)
            return &interner->slots[at];
    }
}

static void interner_grow(Interner *interner) {
    free(interner->slots);
    interner->slot_count *= 2;
    interner->slots = allocate(interner->slot_count, sizeof *interner->slots);
    for (uint32_t id = 0; id < interner->count; id++) {
        const Name *name = &interner->names[id];
        *interner_slot(interner, name->bytes, name->length, name->hash) = id + 1;
    }
    interner->capacity *= 2;
    interner->names = realloc(interner->names, interner->capacity * sizeof *interner->names);
    if (interner->names == NULL)
        exit(1);
}

static uint32_t intern(Interner *interner, const char *bytes, size_t length) {
    uint32_t hash = hash_bytes(bytes, length);
    uint32_t *slot = interner_slot(interner, bytes, length, hash);
    if (*slot != 0)
        return *slot - 1;
    if (interner->count == interner->capacity) {
        interner_grow(interner);
        slot = interner_slot(interner, bytes, length, hash);
    }
    interner->names[interner->count] = (Name){keep_bytes(interner, bytes, length), (uint32_t)length, hash};
    *slot = ++interner->count;
    return interner->count - 1;
}

// ---- Open addressing: whoever is further from home keeps the slot -------------------------------------------------

typedef struct {
    uint32_t key;
    uint32_t distance; // from the home slot, plus one; 0 is an empty slot
    int64_t value;
} Slot;

typedef struct {
    Slot *slots;
    uint32_t capacity, count;
    long moves;
} RobinMap;

static void robin_init(RobinMap *map) {
    map->capacity = 16;
    map->count = 0;
    map->moves = 0;
    map->slots = allocate(map->capacity, sizeof *map->slots);
}

static Slot *robin_find(const RobinMap *map, uint32_t key) {
    uint32_t mask = map->capacity - 1, at = mix(key) & mask;
    for (uint32_t distance = 1; map->slots[at].distance >= distance; distance++) {
        if (map->slots[at].key == key)
            return &map->slots[at];
        at = (at + 1) & mask;
    }
    return NULL;
}

static void robin_place(RobinMap *map, Slot incoming) {
    uint32_t mask = map->capacity - 1, at = mix(incoming.key) & mask;
    incoming.distance = 1;
    while (map->slots[at].distance != 0) {
        if (map->slots[at].distance < incoming.distance) {
            Slot richer = map->slots[at];
            map->slots[at] = incoming;
            incoming = richer;
            map->moves++;
        }
        at = (at + 1) & mask;
        incoming.distance++;
    }
    map->slots[at] = incoming;
}

static int64_t *robin_at(RobinMap *map, uint32_t key) {
    Slot *slot = robin_find(map, key);
    if (slot != NULL)
        return &slot->value;
    if (map->count * 8 >= map->capacity * 7) {
        Slot *old = map->slots;
        uint32_t old_capacity = map->capacity;
        map->capacity *= 2;
        map->slots = allocate(map->capacity, sizeof *map->slots);
        for (uint32_t k = 0; k < old_capacity; k++)
            if (old[k].distance != 0)
                robin_place(map, old[k]);
        free(old);
    }
    robin_place(map, (Slot){key, 1, 0});
    map->count++;
    return &robin_find(map, key)->value;
}

// Closes the gap by moving the rest of the run one slot towards home.
static bool robin_remove(RobinMap *map, uint32_t key) {
    Slot *slot = robin_find(map, key);
    if (slot == NULL)
        return false;
    uint32_t mask = map->capacity - 1, at = (uint32_t)(slot - map->slots);
    for (uint32_t next = (at + 1) & mask; map->slots[next].distance > 1; next = (next + 1) & mask) {
        map->slots[at] = map->slots[next];
        map->slots[at].distance--;
        at = next;
    }
    map->slots[at].distance = 0;
    map->count--;
    return true;
}

// ---- Chaining: buckets of linked entries, with a free list ---------------------------------------------------------

typedef struct Entry {
    struct Entry *next;
    uint32_t key;
    int64_t value;
} Entry;

typedef struct {
    Entry **buckets;
    uint32_t bucket_count, count;
    Entry *unused;
} ChainMap;

static void chain_init(ChainMap *map) {
    map->bucket_count = 16;
    map->count = 0;
    map->unused = NULL;
    map->buckets = allocate(map->bucket_count, sizeof *map->buckets);
}

static Entry **chain_link(ChainMap *map, uint32_t key) {
    Entry **link = &map->buckets[mix(key) & (map->bucket_count - 1)];
    while (*link != NULL && (*link)->key != key)
        link = &(*link)->next;
    return link;
}

static void chain_grow(ChainMap *map) {
    Entry **old = map->buckets;
    uint32_t old_count = map->bucket_count;
    map->bucket_count *= 2;
    map->buckets = allocate(map->bucket_count, sizeof *map->buckets);
    for (uint32_t k = 0; k < old_count; k++) {
        for (Entry *entry = old[k], *next; entry != NULL; entry = next) {
            next = entry->next;
            Entry **bucket = &map->buckets[mix(entry->key) & (map->bucket_count - 1)];
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    free(old);
}

static int64_t *chain_at(ChainMap *map, uint32_t key) {
    Entry **link = chain_link(map, key);
    if (*link != NULL)
        return &(*link)->value;
    if (map->count >= map->bucket_count) {
        chain_grow(map);
        link = chain_link(map, key);
    }
    Entry *entry = map->unused;
    if (entry != NULL)
        map->unused = entry->next;
    else
        entry = allocate(1, sizeof *entry);
    *entry = (Entry){NULL, key, 0};
    *link = entry;
    map->count++;
    return &entry->value;
}

static bool chain_remove(ChainMap *map, uint32_t key) {
    Entry **link = chain_link(map, key);
    Entry *entry = *link;
    if (entry == NULL)
        return false;
    *link = entry->next;
    entry->next = map->unused;
    map->unused = entry;
    map->count--;
    return true;
}

static void free_entries(Entry *entry) {
    while (entry != NULL) {
        Entry *next = entry->next;
        free(entry);
        entry = next;
    }
}

static void chain_free(ChainMap *map) {
    for (uint32_t k = 0; k < map->bucket_count; k++)
        free_entries(map->buckets[k]);
    free_entries(map->unused);
    free(map->buckets);
}

// ---- The words ------------------------------------------------------------------------------------------------------

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t bound) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % bound;
}

// Below the bound, and more often near 0.
static uint32_t random_early(uint32_t bound) {
    uint32_t limit = random_below(bound) + 1;
    return random_below(limit);
}

// Short words are much more frequent than long ones, as in real text.
static size_t random_word(char *word) {
    static const char consonants[] = "tnshrdlcmwfgypbvk", vowels[] = "eaoiu";
    size_t syllables = 1, length = 0;
    while (syllables < 5 && random_below(3) != 0)
        syllables++;
    for (size_t k = 0; k < syllables; k++) {
        word[length++] = consonants[random_early(17)];
        word[length++] = vowels[random_early(5)];
    }
    if (random_below(4) == 0)
        word[length++] = 's';
    return length;
}

typedef struct {
    const Interner *interner;
    uint32_t id;
    int64_t count;
} Ranked;

static int compare_ranked(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->interner->names[x->id].bytes, y->interner->names[y->id].bytes);
}

static void print_most_frequent(const Interner *interner, const RobinMap *counts) {
    Ranked *ranked = allocate(counts->count, sizeof *ranked);
    uint32_t used = 0;
    for (uint32_t k = 0; k < counts->capacity; k++)
        if (counts->slots[k].distance != 0)
            ranked[used++] = (Ranked){interner, counts->slots[k].key, counts->slots[k].value};
    qsort(ranked, used, sizeof *ranked, compare_ranked);
    for (uint32_t k = 0; k < 5 && k < used; k++)
        printf("%s %lld\n", interner->names[ranked[k].id].bytes, (long long)ranked[k].count);
    free(ranked);
}

static uint32_t longest_probe(const RobinMap *map) {
    uint32_t longest = 0;
    for (uint32_t k = 0; k < map->capacity; k++)
        if (map->slots[k].distance > longest)
            longest = map->slots[k].distance;
    return longest;
}

static long count_disagreements(const RobinMap *robin, ChainMap *chain) {
    long disagreements = robin->count != chain->count;
    for (uint32_t k = 0; k < chain->bucket_count; k++)
        for (const Entry *entry = chain->buckets[k]; entry != NULL; entry = entry->next) {
            const Slot *slot = robin_find(robin, entry->key);
            disagreements += slot == NULL || slot->value != entry->value;
        }
    return disagreements;
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int words = strcmp(size, "large") == 0 ? 600000 : strcmp(size, "medium") == 0 ? 100000 : 6000;
    Interner interner;
    RobinMap robin;
    ChainMap chain;
    interner_init(&interner);
    robin_init(&robin);
    chain_init(&chain);

    char word[16];
    uint64_t checksum = 0;
    for (int k = 0; k < words; k++) {
        size_t length = random_word(word);
        uint32_t id = intern(&interner, word, length);
        int64_t seen = ++*robin_at(&robin, id);
        ++*chain_at(&chain, id);
        checksum = checksum * 31 + (uint64_t)seen * (id + 1);
    }
    printf("words %d distinct %u checksum %016llx\n", words, (unsigned)interner.count, (unsigned long long)checksum);
    print_most_frequent(&interner, &robin);
    printf("robin capacity %u longest probe %u moves %ld, chain buckets %u\n", (unsigned)robin.capacity,
           (unsigned)longest_probe(&robin), robin.moves, (unsigned)chain.bucket_count);

    int removed = 0, differing = 0;
    for (uint32_t id = 0; id < interner.count; id++) {
        if (interner.names[id].hash % 3 == 0)
            continue;
        bool from_robin = robin_remove(&robin, id), from_chain = chain_remove(&chain, id);
        removed += from_robin;
        differing += from_robin != from_chain;
    }
    for (int k = 0; k < words / 4; k++) {
        uint32_t id = random_below(interner.count * 2);
        *robin_at(&robin, id) += k;
        *chain_at(&chain, id) += k;
    }
    printf("removed %d differing %d left %u disagreements %ld longest probe %u\n", removed, differing,
           (unsigned)robin.count, count_disagreements(&robin, &chain), (unsigned)longest_probe(&robin));
    interner_free(&interner);
    free(robin.slots);
    chain_free(&chain);
    return 0;
}
