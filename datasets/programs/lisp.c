// lisp: a Scheme with a bytecode compiler, a virtual machine, mark-sweep collection, bignums, rationals and macros
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ==== Values ==========================================================================================================
//
// A value is one word. Low bit 1: a fixnum. Low bits 10: an immediate constant or a character. Low bits 00: an object.

typedef uintptr_t Value;

#define SPECIAL(n) (((Value)(n) << 4) | 2)
#define NIL SPECIAL(0)
#define FALSE SPECIAL(1)
#define TRUE SPECIAL(2)
#define UNSPECIFIED SPECIAL(3)
#define UNBOUND SPECIAL(4)
#define END_OF_INPUT SPECIAL(5)

#define FIXNUM_MAX ((int64_t)1 << 61)

typedef enum {
    PAIR,
    SYMBOL,
    STRING,
    VECTOR,
    FLONUM,
    BIGNUM,
    RATIO,
    BOX,
    BUILTIN,
    CODE,
    CLOSURE,
    CONTINUATION,
    PROMISE,
    TABLE,
    RECORD,
    CONDITION,
    PORT,
    RULES
} Type;

typedef struct Object {
    struct Object *next; // of all objects
    unsigned char type;
    unsigned char marked;
} Object;

typedef struct {
    Object object;
    Value car, cdr;
} Pair;
typedef struct {
    Object object;
    size_t length;
    char bytes[];
} String;
typedef struct {
    Object object;
    size_t length;
    Value items[];
} Vector;
typedef struct {
    Object object;
    double number;
} Flonum;
typedef struct {
    Object object;
    Value top, bottom;
} Ratio;
typedef struct {
    Object object;
    Value content;
} Box;
typedef struct {
    Object object;
    bool forced;
    Value value;
} Promise; // the value, or the thunk
typedef struct {
    Object object;
    Value message, irritants;
} Condition;
typedef struct {
    Object object;
    Value type;
    size_t length;
    Value fields[];
} Record;
typedef struct {
    Object object;
    Value literals, clauses;
} Rules;

typedef struct {
    Object object;
    bool negative;
    int length; // in limbs; the highest is not 0
    uint32_t limbs[];
} Bignum;

typedef struct Analysis Analysis;
typedef struct Node Node;
typedef Node *SpecialForm(Analysis *analysis, Value form);

typedef struct Symbol {
    Object object;
    struct Symbol *next_symbol; // in its bucket
    Value value;
    Value macro;
    struct Symbol *alias_of; // of a symbol renamed by a macro
    SpecialForm *special;
    int opcode; // of an integrated procedure, while it is not redefined
    size_t length;
    char name[];
} Symbol;

typedef struct {
    Object object;
    int *code;
    int length, capacity;
    Value *constants;
    int constant_count, constant_capacity;
    int parameters;
    bool rest;
    Value name;
} Code;

typedef struct {
    Object object;
    Code *code;
    int count;
    Value free[];
} Closure;

typedef struct {
    Closure *closure;
    int pc;
    int base;
} Frame;

typedef struct {
    Value procedure;
    int frame_count, stack_count;
} Handler;

typedef struct {
    Object object;
    int stack_count, frame_count, handler_count;
    Value *stack;
    Frame *frames;
    Handler *handlers;
} Continuation;

typedef struct TableEntry {
    struct TableEntry *next;
    Value key, value;
} TableEntry;

typedef struct {
    Object object;
    TableEntry **buckets;
    size_t bucket_count, count;
} Table;

typedef struct {
    Object object;
    char *bytes;
    size_t length, capacity;
} Port;

typedef Value Function(int count, Value *arguments);

// What the machine itself has to do for a builtin, because it changes the control flow.
typedef enum { PLAIN, APPLY, CALL_CC, TRY, EVAL } Control;

typedef struct {
    Object object;
    const char *name;
    int least, most; // arguments; most is -1 without a bound
    Function *function;
    Control control;
} Builtin;

static bool is_fixnum(Value value) { return value & 1; }
static bool is_object(Value value) { return (value & 3) == 0; }
static bool is_char(Value value) { return (value & 15) == 6; }
static bool is_true(Value value) { return value != FALSE; }
static Value boolean(bool condition) { return condition ? TRUE : FALSE; }
static int64_t fixnum_value(Value value) { return (int64_t)value >> 1; }
static Value make_fixnum(int64_t number) { return ((Value)number << 1) | 1; }
static Value make_char(unsigned char c) { return ((Value)c << 4) | 6; }
static unsigned char char_value(Value value) { return (unsigned char)(value >> 4); }
static bool has_type(Value value, Type type) { return is_object(value) && ((Object *)value)->type == type; }

static bool is_pair(Value value) { return has_type(value, PAIR); }
static bool is_symbol(Value value) { return has_type(value, SYMBOL); }
static bool is_string(Value value) { return has_type(value, STRING); }

static Value car(Value pair) { return ((Pair *)pair)->car; }
static Value cdr(Value pair) { return ((Pair *)pair)->cdr; }
static Value cadr(Value pair) { return car(cdr(pair)); }
static Value cddr(Value pair) { return cdr(cdr(pair)); }
static Symbol *as_symbol(Value value) { return (Symbol *)value; }
static String *as_string(Value value) { return (String *)value; }
static Vector *as_vector(Value value) { return (Vector *)value; }

// ==== Heap ============================================================================================================
//
// Collection happens only between two instructions of the machine, when every live value is on the stack, in a frame, in
// a handler or in a symbol. So C code may hold values in locals freely, as long as it does not run the machine.

#define SYMBOL_BUCKETS 512
#define STACK_LIMIT 100000
#define FRAME_LIMIT 20000
#define HANDLER_LIMIT 200

static struct {
    Object *objects;
    size_t count, threshold;
    Object **grey;
    size_t grey_count, grey_capacity;
    Symbol *symbols[SYMBOL_BUCKETS];
    int collections;
    size_t collected;
} heap;

static struct {
    Value *stack;
    int stack_count;
    Frame *frames;
    int frame_count;
    Handler *handlers;
    int handler_count;
    Value failure;   // UNBOUND, or what was raised by the running instruction
    int in_compiler; // then C code holds values, and nothing is collected
    long instructions;
} machine;

static void *check_memory(void *memory) {
    if (memory == NULL) {
        puts("out of memory");
        exit(1);
    }
    return memory;
}

static void *allocate(Type type, size_t size) {
    Object *object = check_memory(malloc(size));
    memset(object, 0, size);
    object->type = (unsigned char)type;
    object->next = heap.objects;
    heap.objects = object;
    heap.count++;
    return object;
}

static Value cons(Value head, Value tail) {
    Pair *pair = allocate(PAIR, sizeof *pair);
    pair->car = head;
    pair->cdr = tail;
    return (Value)pair;
}

static Value list2(Value a, Value b) { return cons(a, cons(b, NIL)); }
static Value list3(Value a, Value b, Value c) { return cons(a, list2(b, c)); }
static Value list4(Value a, Value b, Value c, Value d) { return cons(a, list3(b, c, d)); }

static Value make_string(const char *bytes, size_t length) {
    String *string = allocate(STRING, sizeof *string + length + 1);
    string->length = length;
    if (bytes != NULL)
        memcpy(string->bytes, bytes, length);
    return (Value)string;
}

static Value make_text(const char *text) { return make_string(text, strlen(text)); }

static Value make_vector(size_t length, Value fill) {
    Vector *vector = allocate(VECTOR, sizeof *vector + length * sizeof(Value));
    vector->length = length;
    for (size_t k = 0; k < length; k++)
        vector->items[k] = fill;
    return (Value)vector;
}

static Value make_flonum(double number) {
    Flonum *flonum = allocate(FLONUM, sizeof *flonum);
    flonum->number = number;
    return (Value)flonum;
}

static Value make_box(Value content) {
    Box *box = allocate(BOX, sizeof *box);
    box->content = content;
    return (Value)box;
}

static Value make_condition(const char *message, Value irritants) {
    Condition *condition = allocate(CONDITION, sizeof *condition);
    condition->message = make_text(message);
    condition->irritants = irritants;
    return (Value)condition;
}

static Value new_symbol(const char *name, size_t length) {
    Symbol *symbol = allocate(SYMBOL, sizeof *symbol + length + 1);
    symbol->value = UNBOUND;
    symbol->macro = UNBOUND;
    symbol->opcode = -1;
    symbol->length = length;
    memcpy(symbol->name, name, length);
    return (Value)symbol;
}

static uint32_t hash_bytes(const char *bytes, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t k = 0; k < length; k++)
        hash = (hash ^ (unsigned char)bytes[k]) * 16777619u;
    return hash;
}

static Value intern_bytes(const char *name, size_t length) {
    Symbol **bucket = &heap.symbols[hash_bytes(name, length) % SYMBOL_BUCKETS];
    for (Symbol *symbol = *bucket; symbol != NULL; symbol = symbol->next_symbol)
        if (symbol->length == length && memcmp(symbol->name, name, length) == 0)
            return (Value)symbol;
    Symbol *symbol = (Symbol *)new_symbol(name, length);
    symbol->next_symbol = *bucket;
    *bucket = symbol;
    return (Value)symbol;
}

static Value intern(const char *name) { return intern_bytes(name, strlen(name)); }

// Records an error for the machine to raise after the present instruction.
static Value fail(const char *message, Value irritants) {
    if (machine.failure == UNBOUND)
        machine.failure = make_condition(message, irritants);
    return UNSPECIFIED;
}

static Value fail_type(const char *expected, Value got) {
    char message[80];
    snprintf(message, sizeof message, "expected %s, got", expected);
    return fail(message, cons(got, NIL));
}

static void mark(Value value) {
    if (!is_object(value) || value == 0)
        return;
    Object *object = (Object *)value;
    if (object->marked)
        return;
    object->marked = 1;
    if (heap.grey_count == heap.grey_capacity) {
        heap.grey_capacity = heap.grey_capacity == 0 ? 256 : heap.grey_capacity * 2;
        heap.grey = check_memory(realloc(heap.grey, heap.grey_capacity * sizeof heap.grey[0]));
    }
    heap.grey[heap.grey_count++] = object;
}

static void mark_values(const Value *values, size_t count) {
    for (size_t k = 0; k < count; k++)
        mark(values[k]);
}

static void mark_control(const Frame *frames, int frame_count, const Handler *handlers, int handler_count) {
    for (int k = 0; k < frame_count; k++)
        mark((Value)frames[k].closure);
    for (int k = 0; k < handler_count; k++)
        mark(handlers[k].procedure);
}

static void mark_children(Object *object) {
    switch ((Type)object->type) {
    case PAIR:
        mark(((Pair *)object)->car);
        mark(((Pair *)object)->cdr);
        break;
    case SYMBOL:
        mark(((Symbol *)object)->value);
        mark(((Symbol *)object)->macro);
        mark((Value)((Symbol *)object)->alias_of);
        break;
    case VECTOR: mark_values(((Vector *)object)->items, ((Vector *)object)->length); break;
    case RATIO:
        mark(((Ratio *)object)->top);
        mark(((Ratio *)object)->bottom);
        break;
    case BOX: mark(((Box *)object)->content); break;
    case CODE:
        mark_values(((Code *)object)->constants, (size_t)((Code *)object)->constant_count);
        mark(((Code *)object)->name);
        break;
    case CLOSURE:
        mark((Value)((Closure *)object)->code);
        mark_values(((Closure *)object)->free, (size_t)((Closure *)object)->count);
        break;
    case CONTINUATION: {
        Continuation *saved = (Continuation *)object;
        mark_values(saved->stack, (size_t)saved->stack_count);
        mark_control(saved->frames, saved->frame_count, saved->handlers, saved->handler_count);
        break;
    }
    case PROMISE: mark(((Promise *)object)->value); break;
    case TABLE:
        for (size_t k = 0; k < ((Table *)object)->bucket_count; k++)
            for (TableEntry *entry = ((Table *)object)->buckets[k]; entry != NULL; entry = entry->next) {
                mark(entry->key);
                mark(entry->value);
            }
        break;
    case RECORD:
        mark(((Record *)object)->type);
        mark_values(((Record *)object)->fields, ((Record *)object)->length);
        break;
    case CONDITION:
        mark(((Condition *)object)->message);
        mark(((Condition *)object)->irritants);
        break;
    case RULES:
        mark(((Rules *)object)->literals);
        mark(((Rules *)object)->clauses);
        break;
    case STRING:
    case FLONUM:
    case BIGNUM:
    case BUILTIN:
    case PORT: break;
    }
}

static void free_object(Object *object) {
    switch ((Type)object->type) {
    case CODE:
        free(((Code *)object)->code);
        free(((Code *)object)->constants);
        break;
    case CONTINUATION:
        free(((Continuation *)object)->stack);
        free(((Continuation *)object)->frames);
        free(((Continuation *)object)->handlers);
        break;
    case TABLE: {
        Table *table = (Table *)object;
        for (size_t k = 0; k < table->bucket_count; k++)
            for (TableEntry *entry = table->buckets[k], *next; entry != NULL; entry = next) {
                next = entry->next;
                free(entry);
            }
        free(table->buckets);
        break;
    }
    case PORT: free(((Port *)object)->bytes); break;
    default: break;
    }
    free(object);
}

static void sweep(void) {
    Object **link = &heap.objects;
    while (*link != NULL) {
        Object *object = *link;
        if (object->marked) {
            object->marked = 0;
            link = &object->next;
        } else {
            *link = object->next;
            free_object(object);
            heap.count--;
            heap.collected++;
        }
    }
}

static void collect(void) {
    for (int k = 0; k < SYMBOL_BUCKETS; k++)
        for (Symbol *symbol = heap.symbols[k]; symbol != NULL; symbol = symbol->next_symbol)
            mark((Value)symbol);
    mark_values(machine.stack, (size_t)machine.stack_count);
    mark_control(machine.frames, machine.frame_count, machine.handlers, machine.handler_count);
    mark(machine.failure);
    while (heap.grey_count > 0)
        mark_children(heap.grey[--heap.grey_count]);
    sweep();
    heap.collections++;
    heap.threshold = heap.count * 2 < 20000 ? 20000 : heap.count * 2;
}

// ==== Integers ========================================================================================================

// An integer of either kind, seen as sign and limbs.
typedef struct {
    bool negative;
    int length;
    const uint32_t *limbs;
    uint32_t own[2];
} Integer;

static bool is_bignum(Value value) { return has_type(value, BIGNUM); }
static bool is_integer(Value value) { return is_fixnum(value) || is_bignum(value); }

static void view_integer(Integer *view, Value value) {
    if (is_fixnum(value)) {
        int64_t number = fixnum_value(value);
        uint64_t size = number < 0 ? (uint64_t)-number : (uint64_t)number;
        view->negative = number < 0;
        view->own[0] = (uint32_t)size;
        view->own[1] = (uint32_t)(size >> 32);
        view->length = size == 0 ? 0 : size >> 32 != 0 ? 2 : 1;
        view->limbs = view->own;
    } else {
        Bignum *bignum = (Bignum *)value;
        view->negative = bignum->negative;
        view->length = bignum->length;
        view->limbs = bignum->limbs;
    }
}

static Bignum *new_bignum(int length) {
    Bignum *bignum = allocate(BIGNUM, sizeof *bignum + (size_t)length * sizeof(uint32_t));
    bignum->length = length;
    return bignum;
}

// Drops leading zeros, and turns what is small enough into a fixnum.
static Value normalise(Bignum *bignum) {
    while (bignum->length > 0 && bignum->limbs[bignum->length - 1] == 0)
        bignum->length--;
    if (bignum->length > 2)
        return (Value)bignum;
    uint64_t size = bignum->length > 0 ? bignum->limbs[0] : 0;
    if (bignum->length == 2)
        size |= (uint64_t)bignum->limbs[1] << 32;
    if (size >= (uint64_t)FIXNUM_MAX)
        return (Value)bignum;
    return make_fixnum(bignum->negative ? -(int64_t)size : (int64_t)size);
}

static Value make_integer(int64_t number) {
    if (number > -FIXNUM_MAX && number < FIXNUM_MAX)
        return make_fixnum(number);
    Bignum *bignum = new_bignum(2);
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    bignum->negative = number < 0;
    bignum->limbs[0] = (uint32_t)size;
    bignum->limbs[1] = (uint32_t)(size >> 32);
    return (Value)bignum;
}

static int compare_limbs(const Integer *a, const Integer *b) {
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    for (int k = a->length - 1; k >= 0; k--)
        if (a->limbs[k] != b->limbs[k])
            return a->limbs[k] < b->limbs[k] ? -1 : 1;
    return 0;
}

static Value add_limbs(const Integer *a, const Integer *b, bool negative) {
    if (a->length < b->length) {
        const Integer *swap = a;
        a = b;
        b = swap;
    }
    Bignum *sum = new_bignum(a->length + 1);
    uint64_t carry = 0;
    for (int k = 0; k < a->length; k++) {
        carry += (uint64_t)a->limbs[k] + (k < b->length ? b->limbs[k] : 0);
        sum->limbs[k] = (uint32_t)carry;
        carry >>= 32;
    }
    sum->limbs[a->length] = (uint32_t)carry;
    sum->negative = negative;
    return normalise(sum);
}

// a - b, where a has the greater size.
static Value subtract_limbs(const Integer *a, const Integer *b, bool negative) {
    Bignum *difference = new_bignum(a->length);
    uint64_t borrow = 0;
    for (int k = 0; k < a->length; k++) {
        uint64_t step = (uint64_t)a->limbs[k] - (k < b->length ? b->limbs[k] : 0) - borrow;
        difference->limbs[k] = (uint32_t)step;
        borrow = step >> 63;
    }
    difference->negative = negative;
    return normalise(difference);
}

static Value integer_add(Value left, Value right, bool subtract) {
    if (is_fixnum(left) && is_fixnum(right)) {
        int64_t a = fixnum_value(left), b = fixnum_value(right);
        return make_integer(subtract ? a - b : a + b);
    }
    Integer a, b;
    view_integer(&a, left);
    view_integer(&b, right);
    b.negative ^= subtract;
    if (a.negative == b.negative)
        return add_limbs(&a, &b, a.negative);
    return compare_limbs(&a, &b) >= 0 ? subtract_limbs(&a, &b, a.negative) : subtract_limbs(&b, &a, b.negative);
}

static Value integer_multiply(Value left, Value right) {
    if (is_fixnum(left) && is_fixnum(right)) {
        int64_t a = fixnum_value(left), b = fixnum_value(right);
        int64_t limit = (int64_t)1 << 31;
        if (a > -limit && a < limit && b > -limit && b < limit)
            return make_integer(a * b);
    }
    Integer a, b;
    view_integer(&a, left);
    view_integer(&b, right);
    Bignum *product = new_bignum(a.length + b.length);
    for (int i = 0; i < a.length; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < b.length; j++) {
            carry += (uint64_t)a.limbs[i] * b.limbs[j] + product->limbs[i + j];
            product->limbs[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product->limbs[i + b.length] = (uint32_t)carry;
    }
    product->negative = a.negative != b.negative;
    return normalise(product);
}

static uint32_t divide_by_limb(uint32_t *quotient, const uint32_t *limbs, int length, uint32_t divisor) {
    uint64_t rest = 0;
    for (int k = length - 1; k >= 0; k--) {
        rest = rest << 32 | limbs[k];
        quotient[k] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    return (uint32_t)rest;
}

// Knuth's algorithm D on limbs shifted so that the divisor's top bit is set. `a` has room for one more limb.
static void divide_shifted(uint32_t *quotient, uint32_t *a, int a_length, const uint32_t *b, int b_length) {
    for (int k = a_length - b_length; k >= 0; k--) {
        uint64_t top = (uint64_t)a[k + b_length] << 32 | a[k + b_length - 1];
        uint64_t guess = top / b[b_length - 1], rest = top % b[b_length - 1];
        while (guess >> 32 != 0 || guess * b[b_length - 2] > (rest << 32 | a[k + b_length - 2])) {
            guess--;
            rest += b[b_length - 1];
            if (rest >> 32 != 0)
                break;
        }
        uint64_t borrow = 0, carry = 0;
        for (int j = 0; j < b_length; j++) {
            carry += guess * b[j];
            uint64_t step = (uint64_t)a[k + j] - (uint32_t)carry - borrow;
            a[k + j] = (uint32_t)step;
            borrow = step >> 63;
            carry >>= 32;
        }
        uint64_t step = (uint64_t)a[k + b_length] - carry - borrow;
        a[k + b_length] = (uint32_t)step;
        if (step >> 63 != 0) { // one too many: add the divisor back
            guess--;
            carry = 0;
            for (int j = 0; j < b_length; j++) {
                carry += (uint64_t)a[k + j] + b[j];
                a[k + j] = (uint32_t)carry;
                carry >>= 32;
            }
            a[k + b_length] += (uint32_t)carry;
        }
        quotient[k] = (uint32_t)guess;
    }
}

static void shift_left(uint32_t *out, const uint32_t *limbs, int length, int shift) {
    uint32_t carry = 0;
    for (int k = 0; k < length; k++) {
        out[k] = limbs[k] << shift | carry;
        carry = shift == 0 ? 0 : limbs[k] >> (32 - shift);
    }
    out[length] = carry;
}

// Quotient towards zero and remainder with the sign of the dividend. The divisor is not 0.
static void integer_divide(Value left, Value right, Value *quotient, Value *remainder) {
    if (is_fixnum(left) && is_fixnum(right)) {
        *quotient = make_integer(fixnum_value(left) / fixnum_value(right));
        *remainder = make_fixnum(fixnum_value(left) % fixnum_value(right));
        return;
    }
    Integer a, b;
    view_integer(&a, left);
    view_integer(&b, right);
    if (compare_limbs(&a, &b) < 0) {
        *quotient = make_fixnum(0);
        *remainder = left;
        return;
    }
    Bignum *whole = new_bignum(a.length - b.length + 1), *rest;
    if (b.length == 1) {
        rest = new_bignum(1);
        rest->limbs[0] = divide_by_limb(whole->limbs, a.limbs, a.length, b.limbs[0]);
    } else {
        int shift = 0;
        while (!(b.limbs[b.length - 1] << shift & 0x80000000u))
            shift++;
        Bignum *divisor = new_bignum(b.length + 1);
        rest = new_bignum(a.length + 1);
        shift_left(rest->limbs, a.limbs, a.length, shift);
        shift_left(divisor->limbs, b.limbs, b.length, shift);
        divide_shifted(whole->limbs, rest->limbs, a.length, divisor->limbs, b.length);
        for (int k = 0; k < a.length; k++)
            rest->limbs[k] = shift == 0 ? rest->limbs[k] : rest->limbs[k] >> shift | rest->limbs[k + 1] << (32 - shift);
        rest->limbs[a.length] = 0;
    }
    whole->negative = a.negative != b.negative;
    rest->negative = a.negative;
    *quotient = normalise(whole);
    *remainder = normalise(rest);
}

static int integer_sign(Value value) {
    if (is_fixnum(value))
        return fixnum_value(value) < 0 ? -1 : fixnum_value(value) > 0;
    return ((Bignum *)value)->negative ? -1 : 1;
}

static int integer_compare(Value left, Value right) {
    if (is_fixnum(left) && is_fixnum(right)) {
        int64_t a = fixnum_value(left), b = fixnum_value(right);
        return a < b ? -1 : a > b;
    }
    Integer a, b;
    view_integer(&a, left);
    view_integer(&b, right);
    if (a.negative != b.negative)
        return a.negative ? -1 : 1;
    int order = compare_limbs(&a, &b);
    return a.negative ? -order : order;
}

static Value integer_negate(Value value) { return integer_add(make_fixnum(0), value, true); }
static Value integer_abs(Value value) { return integer_sign(value) < 0 ? integer_negate(value) : value; }

static Value integer_gcd(Value a, Value b) {
    while (b != make_fixnum(0)) {
        Value quotient, remainder;
        integer_divide(a, b, &quotient, &remainder);
        a = b;
        b = remainder;
    }
    return integer_abs(a);
}

static double integer_to_double(Value value) {
    Integer view;
    view_integer(&view, value);
    double number = 0;
    for (int k = view.length - 1; k >= 0; k--)
        number = number * 4294967296.0 + view.limbs[k];
    return view.negative ? -number : number;
}

// The truncated value of a finite number.
static Value double_to_integer(double number) {
    bool negative = number < 0;
    number = floor(fabs(number));
    if (number < 1e18)
        return make_integer(negative ? -(int64_t)number : (int64_t)number);
    int length = 0;
    for (double left = number; left >= 1; left = floor(left / 4294967296.0))
        length++;
    Bignum *bignum = new_bignum(length);
    for (int k = 0; k < length; k++) {
        double higher = floor(number / 4294967296.0);
        bignum->limbs[k] = (uint32_t)(number - higher * 4294967296.0);
        number = higher;
    }
    bignum->negative = negative;
    return normalise(bignum);
}

// Writes the digits backwards from the end of a buffer that it makes; the caller frees *buffer.
static char *integer_to_text(Value value, int radix, char **buffer) {
    Integer view;
    view_integer(&view, value);
    size_t capacity = (size_t)view.length * 32 + 3;
    uint32_t *limbs = check_memory(malloc(((size_t)view.length + 1) * sizeof *limbs));
    memcpy(limbs, view.limbs, (size_t)view.length * sizeof *limbs);
    *buffer = check_memory(malloc(capacity));
    char *at = *buffer + capacity - 1;
    *at = '\0';
    int length = view.length;
    do {
        uint32_t digit = divide_by_limb(limbs, limbs, length, (uint32_t)radix);
        *--at = "0123456789abcdefghijklmnopqrstuvwxyz"[digit];
        while (length > 0 && limbs[length - 1] == 0)
            length--;
    } while (length > 0);
    if (view.negative)
        *--at = '-';
    free(limbs);
    return at;
}

// ==== The numeric tower ===============================================================================================

static bool is_flonum(Value value) { return has_type(value, FLONUM); }
static bool is_ratio(Value value) { return has_type(value, RATIO); }
static bool is_exact(Value value) { return is_integer(value) || is_ratio(value); }
static bool is_number(Value value) { return is_exact(value) || is_flonum(value); }

static Value numerator(Value value) { return is_ratio(value) ? ((Ratio *)value)->top : value; }
static Value denominator(Value value) { return is_ratio(value) ? ((Ratio *)value)->bottom : make_fixnum(1); }

static Value make_ratio(Value top, Value bottom) {
    if (integer_sign(bottom) < 0) {
        top = integer_negate(top);
        bottom = integer_negate(bottom);
    }
    Value common = integer_gcd(top, bottom), rest;
    if (common != make_fixnum(1)) {
        integer_divide(top, common, &top, &rest);
        integer_divide(bottom, common, &bottom, &rest);
    }
    if (bottom == make_fixnum(1))
        return top;
    Ratio *ratio = allocate(RATIO, sizeof *ratio);
    ratio->top = top;
    ratio->bottom = bottom;
    return (Value)ratio;
}

static double to_double(Value value) {
    if (is_flonum(value))
        return ((Flonum *)value)->number;
    if (is_ratio(value))
        return integer_to_double(numerator(value)) / integer_to_double(denominator(value));
    return integer_to_double(value);
}

typedef enum { ADD, SUBTRACT, MULTIPLY, DIVIDE } Operation;

static Value combine_doubles(Operation operation, double a, double b) {
    switch (operation) {
    case ADD: return make_flonum(a + b);
    case SUBTRACT: return make_flonum(a - b);
    case MULTIPLY: return make_flonum(a * b);
    default: return make_flonum(a / b);
    }
}

static Value combine_ratios(Operation operation, Value a, Value b) {
    Value a_top = numerator(a), a_bottom = denominator(a), b_top = numerator(b), b_bottom = denominator(b);
    if (operation == MULTIPLY)
        return make_ratio(integer_multiply(a_top, b_top), integer_multiply(a_bottom, b_bottom));
    if (operation == DIVIDE)
        return make_ratio(integer_multiply(a_top, b_bottom), integer_multiply(a_bottom, b_top));
    Value top =
        integer_add(integer_multiply(a_top, b_bottom), integer_multiply(b_top, a_bottom), operation == SUBTRACT);
    return make_ratio(top, integer_multiply(a_bottom, b_bottom));
}

static Value combine(Operation operation, Value a, Value b) {
    if (!is_number(a) || !is_number(b))
        return fail_type("a number", is_number(a) ? b : a);
    if (is_flonum(a) || is_flonum(b))
        return combine_doubles(operation, to_double(a), to_double(b));
    if (operation == DIVIDE && b == make_fixnum(0))
        return fail("division by zero", cons(a, NIL));
    if (is_ratio(a) || is_ratio(b) || operation == DIVIDE)
        return combine_ratios(operation, a, b);
    return operation == MULTIPLY ? integer_multiply(a, b) : integer_add(a, b, operation == SUBTRACT);
}

static int compare_numbers(Value a, Value b) {
    if (!is_number(a) || !is_number(b)) {
        fail_type("a number", is_number(a) ? b : a);
        return 0;
    }
    if (is_flonum(a) || is_flonum(b)) {
        double x = to_double(a), y = to_double(b);
        return x < y ? -1 : x > y;
    }
    if (is_ratio(a) || is_ratio(b))
        return integer_compare(integer_multiply(numerator(a), denominator(b)),
                               integer_multiply(numerator(b), denominator(a)));
    return integer_compare(a, b);
}

static int number_sign(Value value) {
    if (is_flonum(value))
        return ((Flonum *)value)->number < 0 ? -1 : ((Flonum *)value)->number > 0;
    return integer_sign(numerator(value));
}

static bool is_whole(Value value) {
    if (is_flonum(value))
        return floor(((Flonum *)value)->number) == ((Flonum *)value)->number;
    return is_integer(value);
}

static Value to_exact(Value value) {
    if (!is_flonum(value))
        return value;
    double number = ((Flonum *)value)->number;
    if (number != number || fabs(number) > 1e300)
        return fail("no exact value", cons(value, NIL));
    Value bottom = make_fixnum(1);
    for (int k = 0; k < 1100 && floor(number) != number; k++) {
        number *= 2;
        bottom = integer_multiply(bottom, make_fixnum(2));
    }
    return make_ratio(double_to_integer(number), bottom);
}

typedef enum { QUOTIENT, REMAINDER, MODULO } Division;

static Value divide_whole(Division division, Value a, Value b) {
    if (!is_number(a) || !is_number(b) || !is_whole(a) || !is_whole(b))
        return fail_type("an integer", is_number(a) && is_whole(a) ? b : a);
    bool inexact = is_flonum(a) || is_flonum(b);
    a = to_exact(a);
    b = to_exact(b);
    if (b == make_fixnum(0))
        return fail("division by zero", cons(a, NIL));
    Value quotient, remainder;
    integer_divide(a, b, &quotient, &remainder);
    if (division == MODULO && integer_sign(remainder) * integer_sign(b) < 0)
        remainder = integer_add(remainder, b, false);
    Value result = division == QUOTIENT ? quotient : remainder;
    return inexact ? make_flonum(integer_to_double(result)) : result;
}

static Value integer_power(Value base, uint64_t exponent) {
    Value result = make_fixnum(1);
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result = combine(MULTIPLY, result, base);
        if (exponent > 1)
            base = combine(MULTIPLY, base, base);
    }
    return result;
}

// Newton's iteration from above.
static Value integer_root(Value value) {
    if (value == make_fixnum(0))
        return value;
    Integer view;
    view_integer(&view, value);
    Value guess = integer_power(make_fixnum(2), (uint64_t)view.length * 16 + 1), rest;
    for (;;) {
        Value next;
        integer_divide(value, guess, &next, &rest);
        integer_divide(integer_add(guess, next, false), make_fixnum(2), &next, &rest);
        if (integer_compare(next, guess) >= 0)
            return guess;
        guess = next;
    }
}

// Reads an exact integer, a ratio or a decimal; UNBOUND when the text is something else.
static Value parse_number(const char *text, size_t length, int radix) {
    size_t at = 0;
    bool negative = false, digits = false, decimal = false;
    if (length > 0 && (text[0] == '-' || text[0] == '+')) {
        negative = text[0] == '-';
        at = 1;
    }
    Value number = make_fixnum(0), top = UNBOUND;
    for (; at < length; at++) {
        char c = (char)tolower((unsigned char)text[at]);
        int digit = isdigit((unsigned char)c) ? c - '0' : isalpha((unsigned char)c) ? c - 'a' + 10 : 99;
        if (digit < radix) {
            number = integer_add(integer_multiply(number, make_fixnum(radix)), make_fixnum(digit), false);
            digits = true;
        } else if (c == '/' && digits && top == UNBOUND) {
            top = number;
            number = make_fixnum(0);
            digits = false;
        } else if (radix == 10 && top == UNBOUND && (c == '.' || (c == 'e' && digits))) {
            decimal = true;
            break;
        } else {
            return UNBOUND;
        }
    }
    if (decimal) {
        char buffer[64], *end;
        if (length >= sizeof buffer || length < 2 ||
            (!digits && (at + 1 >= length || !isdigit((unsigned char)text[at + 1]))))
            return UNBOUND;
        memcpy(buffer, text, length);
        buffer[length] = '\0';
        double value = strtod(buffer, &end);
        return *end == '\0' ? make_flonum(value) : UNBOUND;
    }
    if (!digits || (top != UNBOUND && number == make_fixnum(0)))
        return UNBOUND;
    if (top != UNBOUND)
        number = make_ratio(top, number);
    return negative ? combine(SUBTRACT, make_fixnum(0), number) : number;
}

// ==== Printer =========================================================================================================

static Port *output; // where text goes: a string being built, or NULL for the terminal

static void write_bytes(const char *bytes, size_t length) {
    if (output == NULL) {
        for (size_t k = 0; k < length; k++)
            putchar((unsigned char)bytes[k]);
        return;
    }
    if (output->length + length > output->capacity) {
        output->capacity = (output->length + length) * 2;
        output->bytes = check_memory(realloc(output->bytes, output->capacity));
    }
    memcpy(output->bytes + output->length, bytes, length);
    output->length += length;
}

static void write_text(const char *text) { write_bytes(text, strlen(text)); }
static void write_byte(char c) { write_bytes(&c, 1); }

static void write_flonum(double number) {
    char text[40];
    if (number != number) {
        write_text("+nan.0");
        return;
    }
    if (fabs(number) > 1e300) {
        write_text(number < 0 ? "-inf.0" : "+inf.0");
        return;
    }
    snprintf(text, sizeof text, "%.7g", number);
    write_text(text);
    if (strchr(text, '.') == NULL && strchr(text, 'e') == NULL)
        write_byte('.');
}

static void write_number(Value value, int radix) {
    char *buffer;
    if (is_flonum(value)) {
        write_flonum(((Flonum *)value)->number);
        return;
    }
    write_text(integer_to_text(numerator(value), radix, &buffer));
    free(buffer);
    if (is_ratio(value)) {
        write_byte('/');
        write_text(integer_to_text(denominator(value), radix, &buffer));
        free(buffer);
    }
}

static void write_quoted(const String *string) {
    write_byte('"');
    for (size_t k = 0; k < string->length; k++) {
        char c = string->bytes[k];
        if (c == '"' || c == '\\')
            write_byte('\\');
        if (c == '\n')
            write_text("\\n");
        else
            write_byte(c);
    }
    write_byte('"');
}

static const struct {
    const char *name;
    char c;
} char_names[] = {{"space", ' '}, {"newline", '\n'}, {"tab", '\t'}, {"nul", '\0'}};

static void write_char(unsigned char c) {
    write_text("#\\");
    for (size_t k = 0; k < sizeof char_names / sizeof char_names[0]; k++)
        if (char_names[k].c == (char)c) {
            write_text(char_names[k].name);
            return;
        }
    write_byte((char)c);
}

static void write_value(Value value, bool quoted);

static const char *quote_prefix(Value pair) {
    static const char *const prefixes[][2] = {
        {"quote", "'"}, {"quasiquote", "`"}, {"unquote", ","}, {"unquote-splicing", ",@"}};
    if (!is_symbol(car(pair)) || !is_pair(cdr(pair)) || cddr(pair) != NIL)
        return NULL;
    for (size_t k = 0; k < 4; k++)
        if (strcmp(as_symbol(car(pair))->name, prefixes[k][0]) == 0)
            return prefixes[k][1];
    return NULL;
}

static void write_pair(Value pair, bool quoted) {
    const char *prefix = quote_prefix(pair);
    if (prefix != NULL) {
        write_text(prefix);
        write_value(cadr(pair), quoted);
        return;
    }
    write_byte('(');
    write_value(car(pair), quoted);
    for (pair = cdr(pair); is_pair(pair); pair = cdr(pair)) {
        write_byte(' ');
        write_value(car(pair), quoted);
    }
    if (pair != NIL) {
        write_text(" . ");
        write_value(pair, quoted);
    }
    write_byte(')');
}

static void write_items(const char *open, const Value *items, size_t count, bool quoted) {
    write_text(open);
    for (size_t k = 0; k < count; k++) {
        if (k > 0)
            write_byte(' ');
        write_value(items[k], quoted);
    }
    write_byte(')');
}

static void write_named(const char *kind, Value name) {
    write_text("#<");
    write_text(kind);
    if (is_symbol(name)) {
        write_byte(' ');
        write_text(as_symbol(name)->name);
    }
    write_byte('>');
}

static void write_object(Object *object, bool quoted) {
    Value value = (Value)object;
    switch ((Type)object->type) {
    case PAIR: write_pair(value, quoted); break;
    case SYMBOL: write_bytes(as_symbol(value)->name, as_symbol(value)->length); break;
    case STRING:
        if (quoted)
            write_quoted(as_string(value));
        else
            write_bytes(as_string(value)->bytes, as_string(value)->length);
        break;
    case VECTOR: write_items("#(", as_vector(value)->items, as_vector(value)->length, quoted); break;
    case FLONUM:
    case BIGNUM:
    case RATIO: write_number(value, 10); break;
    case CLOSURE: write_named("procedure", ((Closure *)value)->code->name); break;
    case BUILTIN: write_named("procedure", intern(((Builtin *)value)->name)); break;
    case RECORD:
        write_text("#<");
        write_value(((Record *)value)->type, false);
        write_items(" (", ((Record *)value)->fields, ((Record *)value)->length, quoted);
        write_byte('>');
        break;
    case CONDITION:
        write_text("error: ");
        write_value(((Condition *)value)->message, false);
        for (Value rest = ((Condition *)value)->irritants; is_pair(rest); rest = cdr(rest)) {
            write_byte(' ');
            write_value(car(rest), true);
        }
        break;
    case BOX: write_text("#<box>"); break;
    case CODE: write_text("#<code>"); break;
    case CONTINUATION: write_text("#<continuation>"); break;
    case PROMISE: write_text("#<promise>"); break;
    case TABLE: write_text("#<table>"); break;
    case PORT: write_text("#<port>"); break;
    case RULES: write_text("#<syntax-rules>"); break;
    }
}

static void write_value(Value value, bool quoted) {
    if (is_fixnum(value)) {
        write_number(value, 10);
    } else if (is_object(value)) {
        write_object((Object *)value, quoted);
    } else if (is_char(value)) {
        if (quoted)
            write_char(char_value(value));
        else
            write_byte((char)char_value(value));
    } else {
        write_text(value == NIL            ? "()"
                   : value == TRUE         ? "#t"
                   : value == FALSE        ? "#f"
                   : value == END_OF_INPUT ? "#<eof>"
                                           : "#<unspecified>");
    }
}

// ==== Reader ==========================================================================================================

typedef struct {
    const char *at, *end;
} Reader;

static Value read_value(Reader *reader);

static void skip_blanks(Reader *reader) {
    while (reader->at < reader->end) {
        if (*reader->at == ';')
            while (reader->at < reader->end && *reader->at != '\n')
                reader->at++;
        else if (isspace((unsigned char)*reader->at))
            reader->at++;
        else
            return;
    }
}

static bool is_delimiter(char c) { return isspace((unsigned char)c) || strchr("()\";'`,", c) != NULL; }

static Value read_list(Reader *reader) {
    Value head = NIL, last = NIL;
    for (;;) {
        skip_blanks(reader);
        if (reader->at == reader->end)
            return fail("unfinished list", NIL);
        if (*reader->at == ')') {
            reader->at++;
            return head;
        }
        if (*reader->at == '.' && reader->at + 1 < reader->end && is_delimiter(reader->at[1]) && last != NIL) {
            reader->at++;
            ((Pair *)last)->cdr = read_value(reader);
            skip_blanks(reader);
            if (reader->at == reader->end || *reader->at != ')')
                return fail("expected one value after the dot", NIL);
            reader->at++;
            return head;
        }
        Value next = cons(read_value(reader), NIL);
        if (machine.failure != UNBOUND)
            return NIL;
        if (last == NIL)
            head = next;
        else
            ((Pair *)last)->cdr = next;
        last = next;
    }
}

static Value read_string(Reader *reader) {
    const char *start = reader->at;
    size_t length = 0;
    for (const char *at = start; at < reader->end && *at != '"'; at++, length++)
        if (*at == '\\')
            at++;
    Value value = make_string(NULL, length);
    for (size_t k = 0; k < length; k++) {
        char c = *reader->at++;
        if (c == '\\' && reader->at < reader->end) {
            c = *reader->at++;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        as_string(value)->bytes[k] = c;
    }
    if (reader->at >= reader->end)
        return fail("unfinished string", NIL);
    reader->at++;
    return value;
}

static Value list_to_vector(Value list) {
    size_t length = 0;
    for (Value rest = list; is_pair(rest); rest = cdr(rest))
        length++;
    Value vector = make_vector(length, NIL);
    for (size_t k = 0; k < length; k++, list = cdr(list))
        as_vector(vector)->items[k] = car(list);
    return vector;
}

static Value read_hash(Reader *reader) {
    if (reader->at == reader->end)
        return fail("unfinished #", NIL);
    char c = *reader->at++;
    if (c == '(')
        return list_to_vector(read_list(reader));
    const char *start = reader->at;
    if (c == '\\' && reader->at < reader->end)
        reader->at++;
    while (reader->at < reader->end && !is_delimiter(*reader->at))
        reader->at++;
    size_t length = (size_t)(reader->at - start);
    if (c == 't' || c == 'f')
        return boolean(c == 't');
    if (c == 'x' || c == 'b') {
        Value number = parse_number(start, length, c == 'x' ? 16 : 2);
        return number == UNBOUND ? fail("not a number", NIL) : number;
    }
    if (c != '\\' || length == 0)
        return fail("unknown # syntax", cons(make_char((unsigned char)c), NIL));
    for (size_t k = 0; k < sizeof char_names / sizeof char_names[0]; k++)
        if (strlen(char_names[k].name) == length && memcmp(char_names[k].name, start, length) == 0)
            return make_char((unsigned char)char_names[k].c);
    return make_char((unsigned char)*start);
}

static Value read_value(Reader *reader) {
    skip_blanks(reader);
    if (reader->at == reader->end)
        return END_OF_INPUT;
    const char *start = reader->at;
    switch (*reader->at++) {
    case '(': return read_list(reader);
    case ')': return fail("unexpected )", NIL);
    case '"': return read_string(reader);
    case '#': return read_hash(reader);
    case '\'': return list2(intern("quote"), read_value(reader));
    case '`': return list2(intern("quasiquote"), read_value(reader));
    case ',':
        if (reader->at < reader->end && *reader->at == '@') {
            reader->at++;
            return list2(intern("unquote-splicing"), read_value(reader));
        }
        return list2(intern("unquote"), read_value(reader));
    default: break;
    }
    while (reader->at < reader->end && !is_delimiter(*reader->at))
        reader->at++;
    size_t length = (size_t)(reader->at - start);
    Value number = parse_number(start, length, 10);
    return number != UNBOUND ? number : intern_bytes(start, length);
}

// ==== Analysis: from forms to trees ===================================================================================

typedef struct Lambda Lambda;

typedef struct Variable {
    struct Variable *outer; // the next one in scope
    Value name;
    Lambda *owner;
    bool mutated; // then it lives in a box
    int slot;     // on the stack, from the base of the frame
} Variable;

typedef enum { CONSTANT, REFERENCE, GLOBAL, SET, SET_GLOBAL, DEFINE, IF, LAMBDA, SEQUENCE, CALL, LET } NodeKind;

struct Node {
    NodeKind kind;
    Value value; // the constant, or the global symbol
    Variable *variable;
    Lambda *lambda;
    Variable **variables; // of LET
    Node **children;
    int count;
};

struct Lambda {
    Lambda *outer;
    Value name;
    Variable **parameters;
    int parameter_count;
    bool rest;
    Variable **free;
    int free_count, free_capacity;
    Node *body;
};

typedef struct ArenaBlock {
    struct ArenaBlock *next;
    size_t used, capacity;
    char bytes[];
} ArenaBlock;

struct Analysis {
    Variable *scope;
    Lambda *lambda;
    ArenaBlock *blocks;
};

static void *arena_allocate(Analysis *analysis, size_t size) {
    size = (size + 7) / 8 * 8;
    if (analysis->blocks == NULL || analysis->blocks->used + size > analysis->blocks->capacity) {
        size_t capacity = size > 8000 ? size : 8000;
        ArenaBlock *block = check_memory(malloc(sizeof *block + capacity));
        block->next = analysis->blocks;
        block->used = 0;
        block->capacity = capacity;
        analysis->blocks = block;
    }
    void *memory = analysis->blocks->bytes + analysis->blocks->used;
    analysis->blocks->used += size;
    memset(memory, 0, size);
    return memory;
}

static void arena_free(Analysis *analysis) {
    while (analysis->blocks != NULL) {
        ArenaBlock *next = analysis->blocks->next;
        free(analysis->blocks);
        analysis->blocks = next;
    }
}

#define MAX_FORMS 400 // in one list of code

static Node *new_node(Analysis *analysis, NodeKind kind, int count) {
    Node *node = arena_allocate(analysis, sizeof *node);
    node->kind = kind;
    node->count = count;
    node->children = count > 0 ? arena_allocate(analysis, (size_t)count * sizeof(Node *)) : NULL;
    return node;
}

static Node *constant_node(Analysis *analysis, Value value) {
    Node *node = new_node(analysis, CONSTANT, 0);
    node->value = value;
    return node;
}

static Node *syntax_error(Analysis *analysis, const char *message, Value form) {
    fail(message, cons(form, NIL));
    return constant_node(analysis, UNSPECIFIED);
}

// The length of a proper list, or -1; also -1 when it is too long to be code.
static int count_forms(Value list) {
    int count = 0;
    for (; is_pair(list); list = cdr(list))
        count++;
    return list == NIL && count <= MAX_FORMS ? count : -1;
}

static Variable *find_variable(const Analysis *analysis, Value name) {
    for (Variable *variable = analysis->scope; variable != NULL; variable = variable->outer)
        if (variable->name == name)
            return variable;
    return NULL;
}

// A symbol renamed by a macro means its original, unless the macro also bound it.
static Value resolve_name(const Analysis *analysis, Value name) {
    while (as_symbol(name)->alias_of != NULL && find_variable(analysis, name) == NULL)
        name = (Value)as_symbol(name)->alias_of;
    return name;
}

static Value strip_aliases(Value value) {
    if (is_pair(value)) {
        Value head = strip_aliases(car(value)), tail = strip_aliases(cdr(value));
        return head == car(value) && tail == cdr(value) ? value : cons(head, tail);
    }
    while (is_symbol(value) && as_symbol(value)->alias_of != NULL)
        value = (Value)as_symbol(value)->alias_of;
    return value;
}

static Variable *bind(Analysis *analysis, Value name) {
    Variable *variable = arena_allocate(analysis, sizeof *variable);
    variable->outer = analysis->scope;
    variable->name = name;
    variable->owner = analysis->lambda;
    analysis->scope = variable;
    return variable;
}

static int free_index(Lambda *lambda, const Variable *variable) {
    for (int k = 0; k < lambda->free_count; k++)
        if (lambda->free[k] == variable)
            return k;
    return -1;
}

// Makes the variable reach every lambda between its owner and the present one.
static void capture(Analysis *analysis, Variable *variable) {
    for (Lambda *lambda = analysis->lambda; lambda != variable->owner; lambda = lambda->outer) {
        if (free_index(lambda, variable) >= 0)
            return;
        if (lambda->free_count == lambda->free_capacity) {
            int capacity = lambda->free_capacity == 0 ? 4 : lambda->free_capacity * 2;
            Variable **larger = arena_allocate(analysis, (size_t)capacity * sizeof(Variable *));
            if (lambda->free_count > 0)
                memcpy(larger, lambda->free, (size_t)lambda->free_count * sizeof(Variable *));
            lambda->free = larger;
            lambda->free_capacity = capacity;
        }
        lambda->free[lambda->free_count++] = variable;
    }
}

static Node *analyse(Analysis *analysis, Value form);
static Node *analyse_body(Analysis *analysis, Value forms);
static bool expand_macro(Analysis *analysis, Value form, Value *expansion);

static Node *analyse_symbol(Analysis *analysis, Value name) {
    name = resolve_name(analysis, name);
    Variable *variable = find_variable(analysis, name);
    Node *node = new_node(analysis, variable != NULL ? REFERENCE : GLOBAL, 0);
    node->value = name;
    node->variable = variable;
    if (variable != NULL)
        capture(analysis, variable);
    else if (as_symbol(name)->special != NULL || as_symbol(name)->macro != UNBOUND)
        return syntax_error(analysis, "syntax used as a variable", name);
    return node;
}

static Node *analyse_forms(Analysis *analysis, NodeKind kind, Value forms) {
    int count = count_forms(forms);
    if (count < 0)
        return syntax_error(analysis, "bad list of forms", forms);
    Node *node = new_node(analysis, kind, count);
    for (int k = 0; k < count; k++, forms = cdr(forms))
        node->children[k] = analyse(analysis, car(forms));
    return node;
}

static Node *analyse_lambda(Analysis *analysis, Value name, Value parameters, Value body) {
    Lambda *lambda = arena_allocate(analysis, sizeof *lambda);
    Variable *scope = analysis->scope;
    int count = 0;
    Value rest = parameters;
    for (; is_pair(rest); rest = cdr(rest))
        count++;
    lambda->rest = rest != NIL;
    lambda->parameter_count = count + lambda->rest;
    if (lambda->parameter_count > MAX_FORMS || (lambda->rest && !is_symbol(rest)))
        return syntax_error(analysis, "bad parameters", parameters);
    lambda->outer = analysis->lambda;
    lambda->name = name;
    lambda->parameters = arena_allocate(analysis, (size_t)lambda->parameter_count * sizeof(Variable *));
    analysis->lambda = lambda;
    for (int k = 0; k < lambda->parameter_count; k++) {
        Value parameter = k < count ? car(parameters) : rest;
        if (!is_symbol(parameter))
            fail("bad parameter", cons(parameter, NIL));
        lambda->parameters[k] = bind(analysis, parameter);
        lambda->parameters[k]->slot = k;
        if (k < count)
            parameters = cdr(parameters);
    }
    lambda->body = analyse_body(analysis, body);
    analysis->lambda = lambda->outer;
    analysis->scope = scope;
    Node *node = new_node(analysis, LAMBDA, 0);
    node->lambda = lambda;
    return node;
}

static Node *analyse(Analysis *analysis, Value form) {
    if (machine.failure != UNBOUND)
        return constant_node(analysis, UNSPECIFIED);
    if (is_symbol(form))
        return analyse_symbol(analysis, form);
    if (!is_pair(form))
        return form == NIL ? syntax_error(analysis, "empty call", form) : constant_node(analysis, form);
    if (is_symbol(car(form))) {
        Value name = resolve_name(analysis, car(form)), expansion;
        if (find_variable(analysis, name) == NULL) {
            if (as_symbol(name)->special != NULL)
                return as_symbol(name)->special(analysis, form);
            if (as_symbol(name)->macro != UNBOUND)
                return expand_macro(analysis, form, &expansion) ? analyse(analysis, expansion)
                                                                : constant_node(analysis, UNSPECIFIED);
        }
    }
    return analyse_forms(analysis, CALL, form);
}

static bool names_special(const Analysis *analysis, Value form, const char *special) {
    if (!is_pair(form) || !is_symbol(car(form)))
        return false;
    Value name = resolve_name(analysis, car(form));
    return name == intern(special) && find_variable(analysis, name) == NULL;
}

// The name in "(define (name . parameters) body...)", "(define ((name a) b) body...)" or "(define name value)".
static Value defined_name(Value form) {
    Value target = is_pair(cdr(form)) ? cadr(form) : NIL;
    while (is_pair(target))
        target = car(target);
    return target;
}

static Node *analyse_definition(Analysis *analysis, Value form) {
    Value target = cadr(form);
    if (!is_pair(target)) {
        if (!is_pair(cddr(form)))
            return constant_node(analysis, UNSPECIFIED);
        Value value = car(cddr(form));
        if (names_special(analysis, value, "lambda") && count_forms(value) >= 3)
            return analyse_lambda(analysis, strip_aliases(target), cadr(value), cddr(value));
        return analyse(analysis, value);
    }
    if (is_pair(car(target))) // (define ((curried a) b) ...)
        return analyse_definition(analysis,
                                  list3(car(form), car(target), cons(intern("lambda"), cons(cdr(target), cddr(form)))));
    return analyse_lambda(analysis, strip_aliases(car(target)), cdr(target), cddr(form));
}

// Macro uses at the head of a body may turn out to be definitions, and (begin ...) holds more of them.
static Value flatten_body(Analysis *analysis, Value forms) {
    Value head = NIL, *link = &head;
    while (is_pair(forms) && machine.failure == UNBOUND) {
        Value form = car(forms), expansion;
        forms = cdr(forms);
        while (is_pair(form) && is_symbol(car(form))) {
            Value name = resolve_name(analysis, car(form));
            if (find_variable(analysis, name) != NULL || as_symbol(name)->macro == UNBOUND ||
                !expand_macro(analysis, form, &expansion))
                break;
            form = expansion;
        }
        if (names_special(analysis, form, "begin")) {
            Value inner = flatten_body(analysis, cdr(form));
            for (; is_pair(inner); inner = cdr(inner)) {
                *link = cons(car(inner), NIL);
                link = &((Pair *)*link)->cdr;
            }
            continue;
        }
        *link = cons(form, NIL);
        link = &((Pair *)*link)->cdr;
    }
    return head;
}

// Internal definitions are variables in boxes, filled in order.
static Node *analyse_body(Analysis *analysis, Value forms) {
    Variable *scope = analysis->scope;
    forms = flatten_body(analysis, forms);
    int count = count_forms(forms), defined = 0;
    if (count <= 0)
        return syntax_error(analysis, "empty or bad body", forms);
    for (Value rest = forms; is_pair(rest); rest = cdr(rest))
        defined += names_special(analysis, car(rest), "define");
    if (defined == 0)
        return analyse_forms(analysis, SEQUENCE, forms);
    Node *let = new_node(analysis, LET, defined + 1);
    let->variables = arena_allocate(analysis, (size_t)defined * sizeof(Variable *));
    int at = 0;
    bool *is_definition = arena_allocate(analysis, (size_t)count * sizeof(bool));
    Value rest = forms;
    for (int k = 0; k < count; k++, rest = cdr(rest)) {
        is_definition[k] = names_special(analysis, car(rest), "define");
        if (!is_definition[k])
            continue;
        let->children[at] = constant_node(analysis, UNSPECIFIED);
        let->variables[at] = bind(analysis, defined_name(car(rest)));
        let->variables[at++]->mutated = true;
    }
    Node *body = new_node(analysis, SEQUENCE, count);
    rest = forms;
    for (int k = 0, variable = 0; k < count; k++, rest = cdr(rest)) {
        if (!is_definition[k]) {
            body->children[k] = analyse(analysis, car(rest));
            continue;
        }
        Node *set = new_node(analysis, SET, 1);
        set->variable = let->variables[variable++];
        set->children[0] = analyse_definition(analysis, car(rest));
        body->children[k] = set;
    }
    let->children[defined] = body;
    analysis->scope = scope;
    return let;
}

// ---- Special forms ---------------------------------------------------------------------------------------------------

static Node *special_quote(Analysis *analysis, Value form) {
    if (count_forms(form) != 2)
        return syntax_error(analysis, "bad quote", form);
    return constant_node(analysis, strip_aliases(cadr(form)));
}

static Node *special_if(Analysis *analysis, Value form) {
    int count = count_forms(form);
    if (count != 3 && count != 4)
        return syntax_error(analysis, "bad if", form);
    Node *node = new_node(analysis, IF, 3);
    node->children[0] = analyse(analysis, cadr(form));
    node->children[1] = analyse(analysis, car(cddr(form)));
    node->children[2] = count == 4 ? analyse(analysis, cadr(cddr(form))) : constant_node(analysis, UNSPECIFIED);
    return node;
}

static Node *special_define(Analysis *analysis, Value form) {
    Value name = strip_aliases(defined_name(form));
    if (count_forms(form) < 2 || !is_symbol(name))
        return syntax_error(analysis, "bad define", form);
    if (analysis->lambda->outer != NULL || analysis->scope != NULL)
        return syntax_error(analysis, "define in the wrong place", form);
    Node *node = new_node(analysis, DEFINE, 1);
    node->value = name;
    as_symbol(name)->opcode = -1;
    as_symbol(name)->macro = UNBOUND;
    node->children[0] = analyse_definition(analysis, form);
    return node;
}

static Node *special_set(Analysis *analysis, Value form) {
    if (count_forms(form) != 3 || !is_symbol(cadr(form)))
        return syntax_error(analysis, "bad set!", form);
    Value name = resolve_name(analysis, cadr(form));
    Variable *variable = find_variable(analysis, name);
    Node *node = new_node(analysis, variable != NULL ? SET : SET_GLOBAL, 1);
    node->value = name;
    node->variable = variable;
    if (variable != NULL) {
        variable->mutated = true;
        capture(analysis, variable);
    } else {
        as_symbol(name)->opcode = -1;
    }
    node->children[0] = analyse(analysis, car(cddr(form)));
    return node;
}

static Node *special_lambda(Analysis *analysis, Value form) {
    if (count_forms(form) < 3)
        return syntax_error(analysis, "bad lambda", form);
    return analyse_lambda(analysis, NIL, cadr(form), cddr(form));
}

static Node *special_begin(Analysis *analysis, Value form) {
    return cdr(form) == NIL ? constant_node(analysis, UNSPECIFIED) : analyse_forms(analysis, SEQUENCE, cdr(form));
}

static bool are_bindings(Value bindings) {
    if (count_forms(bindings) < 0)
        return false;
    for (; is_pair(bindings); bindings = cdr(bindings))
        if (count_forms(car(bindings)) < 1 || !is_symbol(car(car(bindings))))
            return false;
    return true;
}

static Value binding_value(Value binding) { return is_pair(cdr(binding)) ? cadr(binding) : UNSPECIFIED; }

static Value binding_names(Value bindings) {
    return is_pair(bindings) ? cons(car(car(bindings)), binding_names(cdr(bindings))) : NIL;
}

static Value binding_values(Value bindings) {
    return is_pair(bindings) ? cons(binding_value(car(bindings)), binding_values(cdr(bindings))) : NIL;
}

// (let loop ((x a)) body...) is ((letrec ((loop (lambda (x) body...))) loop) a).
static Value named_let(Value form) {
    Value name = cadr(form), bindings = car(cddr(form)), body = cdr(cddr(form));
    Value lambda = cons(intern("lambda"), cons(binding_names(bindings), body));
    Value letrec = list3(intern("letrec"), cons(list2(name, lambda), NIL), name);
    return cons(letrec, binding_values(bindings));
}

static Node *special_let(Analysis *analysis, Value form) {
    int count = count_forms(form);
    bool named = count >= 4 && is_symbol(cadr(form));
    if (count < 3 || !are_bindings(named ? car(cddr(form)) : cadr(form)))
        return syntax_error(analysis, "bad let", form);
    if (named)
        return analyse(analysis, named_let(form));
    Value bindings = cadr(form);
    int bound = count_forms(bindings);
    Variable *scope = analysis->scope;
    Node *node = new_node(analysis, LET, bound + 1);
    node->variables = arena_allocate(analysis, (size_t)bound * sizeof(Variable *));
    Value rest = bindings;
    for (int k = 0; k < bound; k++, rest = cdr(rest))
        node->children[k] = analyse(analysis, binding_value(car(rest)));
    rest = bindings;
    for (int k = 0; k < bound; k++, rest = cdr(rest))
        node->variables[k] = bind(analysis, car(car(rest)));
    node->children[bound] = analyse_body(analysis, cddr(form));
    analysis->scope = scope;
    return node;
}

static Node *special_let_star(Analysis *analysis, Value form) {
    if (count_forms(form) < 3 || !are_bindings(cadr(form)))
        return syntax_error(analysis, "bad let*", form);
    Value bindings = cadr(form), let = intern("let");
    if (bindings == NIL || cdr(bindings) == NIL)
        return analyse(analysis, cons(let, cons(bindings, cddr(form))));
    Value inner = cons(intern("let*"), cons(cdr(bindings), cddr(form)));
    return analyse(analysis, list3(let, cons(car(bindings), NIL), inner));
}

static Node *special_letrec(Analysis *analysis, Value form) {
    if (count_forms(form) < 3 || !are_bindings(cadr(form)))
        return syntax_error(analysis, "bad letrec", form);
    Value body = cons(cons(intern("let"), cons(NIL, cddr(form))), NIL), definitions = NIL;
    for (Value rest = cadr(form); is_pair(rest); rest = cdr(rest))
        definitions = cons(list3(intern("define"), car(car(rest)), binding_value(car(rest))), definitions);
    for (; is_pair(definitions); definitions = cdr(definitions))
        body = cons(car(definitions), body);
    return analyse(analysis, cons(intern("let"), cons(NIL, body)));
}

static Value begin_of(Value forms) {
    return is_pair(forms) && cdr(forms) == NIL ? car(forms) : cons(intern("begin"), forms);
}

static Value cond_clauses(const Analysis *analysis, Value clauses) {
    if (!is_pair(clauses))
        return UNSPECIFIED;
    Value clause = car(clauses), rest = cdr(clauses);
    if (!is_pair(clause)) {
        fail("bad cond clause", cons(clause, NIL));
        return UNSPECIFIED;
    }
    if (is_symbol(car(clause)) && resolve_name(analysis, car(clause)) == intern("else"))
        return begin_of(cdr(clause));
    if (cdr(clause) == NIL)
        return list3(intern("or"), car(clause), cond_clauses(analysis, rest));
    if (is_pair(cdr(clause)) && is_symbol(cadr(clause)) && resolve_name(analysis, cadr(clause)) == intern("=>")) {
        Value found = new_symbol("found", 5);
        Value call = list2(car(cddr(clause)), found);
        Value test = list4(intern("if"), found, call, cond_clauses(analysis, rest));
        return list3(intern("let"), cons(list2(found, car(clause)), NIL), test);
    }
    return list4(intern("if"), car(clause), begin_of(cdr(clause)), cond_clauses(analysis, rest));
}

static Node *special_cond(Analysis *analysis, Value form) {
    return analyse(analysis, cond_clauses(analysis, cdr(form)));
}

static Value case_clauses(const Analysis *analysis, Value key, Value clauses) {
    if (!is_pair(clauses))
        return UNSPECIFIED;
    Value clause = car(clauses);
    if (!is_pair(clause)) {
        fail("bad case clause", cons(clause, NIL));
        return UNSPECIFIED;
    }
    if (is_symbol(car(clause)) && resolve_name(analysis, car(clause)) == intern("else"))
        return begin_of(cdr(clause));
    Value test = list3(intern("memv"), key, list2(intern("quote"), car(clause)));
    return list4(intern("if"), test, begin_of(cdr(clause)), case_clauses(analysis, key, cdr(clauses)));
}

static Node *special_case(Analysis *analysis, Value form) {
    if (count_forms(form) < 3)
        return syntax_error(analysis, "bad case", form);
    Value key = new_symbol("key", 3);
    Value clauses = case_clauses(analysis, key, cddr(form));
    return analyse(analysis, list3(intern("let"), cons(list2(key, cadr(form)), NIL), clauses));
}

static Node *special_and(Analysis *analysis, Value form) {
    if (cdr(form) == NIL)
        return constant_node(analysis, TRUE);
    if (cddr(form) == NIL)
        return analyse(analysis, cadr(form));
    return analyse(analysis, list4(intern("if"), cadr(form), cons(intern("and"), cddr(form)), FALSE));
}

static Node *special_or(Analysis *analysis, Value form) {
    if (cdr(form) == NIL)
        return constant_node(analysis, FALSE);
    if (cddr(form) == NIL)
        return analyse(analysis, cadr(form));
    Value first = new_symbol("first", 5);
    Value test = list4(intern("if"), first, first, cons(intern("or"), cddr(form)));
    return analyse(analysis, list3(intern("let"), cons(list2(first, cadr(form)), NIL), test));
}

static Node *special_when(Analysis *analysis, Value form) {
    if (count_forms(form) < 3)
        return syntax_error(analysis, "bad when or unless", form);
    Value body = begin_of(cddr(form));
    if (resolve_name(analysis, car(form)) == intern("when"))
        return analyse(analysis, list3(intern("if"), cadr(form), body));
    return analyse(analysis, list4(intern("if"), cadr(form), UNSPECIFIED, body));
}

// (do ((x start step)...) (end result...) body...)
static Node *special_do(Analysis *analysis, Value form) {
    if (count_forms(form) < 3 || !are_bindings(cadr(form)) || count_forms(car(cddr(form))) < 1)
        return syntax_error(analysis, "bad do", form);
    Value loop = new_symbol("loop", 4), steps = NIL, *link = &steps, bindings = NIL, *bound = &bindings;
    for (Value rest = cadr(form); is_pair(rest); rest = cdr(rest)) {
        Value binding = car(rest);
        bool stepped = count_forms(binding) == 3;
        *link = cons(stepped ? car(cddr(binding)) : car(binding), NIL);
        link = &((Pair *)*link)->cdr;
        *bound = cons(list2(car(binding), binding_value(binding)), NIL);
        bound = &((Pair *)*bound)->cdr;
    }
    Value end = car(cddr(form)), body = cdr(cddr(form));
    Value next = cons(loop, steps);
    Value again = body == NIL ? next : list3(intern("begin"), begin_of(body), next);
    Value result = cdr(end) == NIL ? UNSPECIFIED : begin_of(cdr(end));
    Value test = list4(intern("if"), car(end), result, again);
    return analyse(analysis, list4(intern("let"), loop, bindings, test));
}

static Value quasi(const Analysis *analysis, Value template, int depth) {
    if (!is_pair(template))
        return list2(intern("quote"), template);
    if (names_special(analysis, template, "unquote")) {
        if (depth == 1)
            return cadr(template);
        return list3(intern("list"), list2(intern("quote"), intern("unquote")),
                     quasi(analysis, cadr(template), depth - 1));
    }
    if (names_special(analysis, template, "quasiquote"))
        return list3(intern("list"), list2(intern("quote"), intern("quasiquote")),
                     quasi(analysis, cadr(template), depth + 1));
    Value rest = quasi(analysis, cdr(template), depth);
    if (names_special(analysis, car(template), "unquote-splicing") && depth == 1)
        return list3(intern("append"), cadr(car(template)), rest);
    return list3(intern("cons"), quasi(analysis, car(template), depth), rest);
}

static Node *special_quasiquote(Analysis *analysis, Value form) {
    if (count_forms(form) != 2)
        return syntax_error(analysis, "bad quasiquote", form);
    return analyse(analysis, quasi(analysis, cadr(form), 1));
}

static Node *special_delay(Analysis *analysis, Value form) {
    Value thunk = cons(intern("lambda"), cons(NIL, cdr(form)));
    if (resolve_name(analysis, car(form)) == intern("delay"))
        return analyse(analysis, list2(intern("make-promise"), thunk));
    return analyse(analysis, list3(intern("cons"), cadr(form),
                                   list2(intern("make-promise"), cons(intern("lambda"), cons(NIL, cddr(form))))));
}

// (define-record-type point (make-point x y) point? (x point-x set-point-x!) ...)
static Node *special_record(Analysis *analysis, Value form) {
    if (count_forms(form) < 4 || !is_pair(car(cddr(form))))
        return syntax_error(analysis, "bad record type", form);
    Value type = list2(intern("quote"), cadr(form)), maker = car(cddr(form));
    Value fields = cdr(cdr(cddr(form))), parts = NIL, values = NIL;
    for (Value rest = fields; is_pair(rest); rest = cdr(rest)) {
        Value field = car(rest);
        int index = count_forms(fields) - count_forms(rest);
        bool given = false;
        if (count_forms(field) < 2)
            return syntax_error(analysis, "bad record field", field);
        for (Value name = cdr(maker); is_pair(name); name = cdr(name))
            given = given || car(name) == car(field);
        values = cons(given ? car(field) : FALSE, values);
        Value get = list4(intern("record-ref"), type, intern("r"), make_fixnum(index));
        parts = cons(list3(intern("define"), list2(cadr(field), intern("r")), get), parts);
        if (count_forms(field) == 3) {
            Value set = cons(intern("record-set!"), list4(type, intern("r"), make_fixnum(index), intern("v")));
            parts = cons(list3(intern("define"), list3(car(cddr(field)), intern("r"), intern("v")), set), parts);
        }
    }
    Value ordered = NIL;
    for (; is_pair(values); values = cdr(values))
        ordered = cons(car(values), ordered);
    parts = cons(list3(intern("define"), maker, cons(intern("make-record"), cons(type, ordered))), parts);
    Value test = list3(intern("record-is?"), type, intern("r"));
    parts = cons(list3(intern("define"), list2(cadr(cddr(form)), intern("r")), test), parts);
    return analyse(analysis, cons(intern("begin"), parts));
}

// ==== Macros ==========================================================================================================

typedef struct {
    const Analysis *analysis;
    Value literals;
    Value bound;   // association list: pattern variable, what it matched (a list of matches below an ellipsis)
    Value renamed; // association list: template symbol, its alias in this expansion
} Expansion;

static bool is_ellipsis(Value value) { return is_symbol(value) && strip_aliases(value) == intern("..."); }

static Value associate(Value list, Value key) {
    for (; is_pair(list); list = cdr(list))
        if (car(car(list)) == key)
            return car(list);
    return FALSE;
}

static bool has_member(Value list, Value item) {
    while (is_pair(list) && car(list) != item)
        list = cdr(list);
    return is_pair(list);
}

static bool equal_values(Value a, Value b);

static Value pattern_variables(const Expansion *expansion, Value pattern, Value names) {
    if (is_pair(pattern))
        return pattern_variables(expansion, car(pattern), pattern_variables(expansion, cdr(pattern), names));
    if (is_symbol(pattern) && !is_ellipsis(pattern) && !has_member(expansion->literals, pattern))
        return cons(pattern, names);
    return names;
}

static int pair_count(Value list) {
    int count = 0;
    for (; is_pair(list); list = cdr(list))
        count++;
    return count;
}

static bool match(Expansion *expansion, Value pattern, Value form);

// Matches as many forms as leave enough for the patterns behind the ellipsis.
static bool match_ellipsis(Expansion *expansion, Value pattern, Value form) {
    int repeats = pair_count(form) - pair_count(cddr(pattern));
    if (repeats < 0)
        return false;
    Value outer = expansion->bound, names = pattern_variables(expansion, car(pattern), NIL), collected = NIL;
    for (Value name = names; is_pair(name); name = cdr(name))
        collected = cons(cons(car(name), NIL), collected);
    for (int k = 0; k < repeats; k++, form = cdr(form)) {
        expansion->bound = NIL;
        if (!match(expansion, car(pattern), car(form)))
            return false;
        for (Value entry = collected; is_pair(entry); entry = cdr(entry)) {
            Pair *pair = (Pair *)car(entry);
            pair->cdr = cons(cdr(associate(expansion->bound, pair->car)), pair->cdr);
        }
    }
    expansion->bound = outer;
    for (; is_pair(collected); collected = cdr(collected)) {
        Value ordered = NIL;
        for (Value rest = cdr(car(collected)); is_pair(rest); rest = cdr(rest))
            ordered = cons(car(rest), ordered);
        expansion->bound = cons(cons(car(car(collected)), ordered), expansion->bound);
    }
    return match(expansion, cddr(pattern), form);
}

static bool match(Expansion *expansion, Value pattern, Value form) {
    if (is_symbol(pattern)) {
        if (has_member(expansion->literals, pattern))
            return is_symbol(form) && resolve_name(expansion->analysis, form) == strip_aliases(pattern);
        expansion->bound = cons(cons(pattern, form), expansion->bound);
        return true;
    }
    if (is_pair(pattern) && is_pair(cdr(pattern)) && is_ellipsis(cadr(pattern)))
        return match_ellipsis(expansion, pattern, form);
    if (is_pair(pattern))
        return is_pair(form) && match(expansion, car(pattern), car(form)) && match(expansion, cdr(pattern), cdr(form));
    return equal_values(pattern, form);
}

static Value instantiate(Expansion *expansion, Value template);

static Value instantiate_symbol(Expansion *expansion, Value symbol) {
    Value entry = associate(expansion->bound, symbol);
    if (entry != FALSE)
        return cdr(entry);
    entry = associate(expansion->renamed, symbol);
    if (entry != FALSE)
        return cdr(entry);
    Value alias = new_symbol(as_symbol(symbol)->name, as_symbol(symbol)->length);
    as_symbol(alias)->alias_of = as_symbol(symbol);
    expansion->renamed = cons(cons(symbol, alias), expansion->renamed);
    return alias;
}

// The template before an ellipsis, once for each match of the variables in it.
static Value instantiate_ellipsis(Expansion *expansion, Value template, Value rest) {
    Value outer = expansion->bound, names = pattern_variables(expansion, template, NIL), results = NIL;
    int repeats = -1;
    for (Value name = names; is_pair(name); name = cdr(name)) {
        Value entry = associate(outer, car(name));
        if (entry != FALSE && (cdr(entry) == NIL || is_pair(cdr(entry)))) {
            int count = pair_count(cdr(entry));
            repeats = count > repeats ? count : repeats;
        }
    }
    for (int k = repeats - 1; k >= 0; k--) {
        expansion->bound = outer;
        for (Value name = names; is_pair(name); name = cdr(name)) {
            Value entry = associate(outer, car(name)), matches = entry == FALSE ? NIL : cdr(entry);
            if (pair_count(matches) != repeats)
                continue; // it belongs to an outer level
            for (int skip = 0; skip < k; skip++)
                matches = cdr(matches);
            expansion->bound = cons(cons(car(name), car(matches)), expansion->bound);
        }
        results = cons(instantiate(expansion, template), results);
    }
    expansion->bound = outer;
    Value all = instantiate(expansion, rest), reversed = NIL;
    for (; is_pair(results); results = cdr(results))
        reversed = cons(car(results), reversed);
    for (; is_pair(reversed); reversed = cdr(reversed))
        all = cons(car(reversed), all);
    return all;
}

static Value instantiate(Expansion *expansion, Value template) {
    if (is_symbol(template))
        return instantiate_symbol(expansion, template);
    if (!is_pair(template))
        return template;
    if (is_pair(cdr(template)) && is_ellipsis(cadr(template)))
        return instantiate_ellipsis(expansion, car(template), cddr(template));
    return cons(instantiate(expansion, car(template)), instantiate(expansion, cdr(template)));
}

static bool run_procedure(Value procedure, Value arguments, Value *result);

static bool expand_macro(Analysis *analysis, Value form, Value *expansion) {
    Value name = resolve_name(analysis, car(form)), macro = as_symbol(name)->macro;
    if (!has_type(macro, RULES)) {
        machine.in_compiler++;
        bool done = run_procedure(macro, cdr(form), expansion);
        machine.in_compiler--;
        return done;
    }
    Rules *rules = (Rules *)macro;
    for (Value clause = rules->clauses; is_pair(clause); clause = cdr(clause)) {
        Expansion attempt = {analysis, rules->literals, NIL, NIL};
        if (match(&attempt, cdr(car(car(clause))), cdr(form))) {
            *expansion = instantiate(&attempt, cadr(car(clause)));
            return true;
        }
    }
    fail("no macro clause matches", cons(form, NIL));
    return false;
}

// (define-syntax name (syntax-rules (literals...) (pattern template)...))
static Node *special_define_syntax(Analysis *analysis, Value form) {
    Value rules_form = count_forms(form) == 3 ? car(cddr(form)) : NIL;
    if (!names_special(analysis, rules_form, "syntax-rules") || count_forms(rules_form) < 2)
        return syntax_error(analysis, "bad define-syntax", form);
    for (Value clause = cddr(rules_form); is_pair(clause); clause = cdr(clause))
        if (count_forms(car(clause)) != 2 || !is_pair(car(car(clause))))
            return syntax_error(analysis, "bad syntax-rules clause", car(clause));
    Rules *rules = allocate(RULES, sizeof *rules);
    rules->literals = cadr(rules_form);
    rules->clauses = cddr(rules_form);
    as_symbol(strip_aliases(cadr(form)))->macro = (Value)rules;
    return constant_node(analysis, UNSPECIFIED);
}

static bool evaluate(Value form, Value *result);

// (define-macro (name . parameters) body...): a procedure from forms to a form.
static Node *special_define_macro(Analysis *analysis, Value form) {
    if (count_forms(form) < 3 || !is_pair(cadr(form)) || !is_symbol(car(cadr(form))))
        return syntax_error(analysis, "bad define-macro", form);
    Value procedure;
    machine.in_compiler++;
    if (evaluate(cons(intern("lambda"), cons(cdr(cadr(form)), cddr(form))), &procedure))
        as_symbol(car(cadr(form)))->macro = procedure;
    machine.in_compiler--;
    return constant_node(analysis, UNSPECIFIED);
}

// ==== Code generation =================================================================================================

typedef enum {
    OP_CONSTANT,
    OP_LOCAL,
    OP_LOCAL_BOX,
    OP_FREE,
    OP_FREE_BOX,
    OP_GLOBAL,
    OP_SET_LOCAL,
    OP_SET_FREE,
    OP_SET_GLOBAL,
    OP_DEFINE,
    OP_BOX,
    OP_BOX_PARAMETER,
    OP_POP,
    OP_SLIDE,
    OP_JUMP,
    OP_JUMP_IF_FALSE,
    OP_CLOSURE,
    OP_CALL,
    OP_TAIL_CALL,
    OP_RETURN,
    // Integrated procedures
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_EQUAL,
    OP_LESS,
    OP_GREATER,
    OP_LESS_EQUAL,
    OP_GREATER_EQUAL,
    OP_EQ,
    OP_CONS,
    OP_CAR,
    OP_CDR,
    OP_IS_NULL,
    OP_IS_PAIR,
    OP_NOT,
    OP_VECTOR_REF
} Opcode;

static const struct {
    const char *name;
    Opcode opcode;
    int arguments;
} integrated[] = {
    {"+", OP_ADD, 2},         {"-", OP_SUBTRACT, 2},    {"*", OP_MULTIPLY, 2},    {"=", OP_EQUAL, 2},
    {"<", OP_LESS, 2},        {">", OP_GREATER, 2},     {"<=", OP_LESS_EQUAL, 2}, {">=", OP_GREATER_EQUAL, 2},
    {"eq?", OP_EQ, 2},        {"cons", OP_CONS, 2},     {"car", OP_CAR, 1},       {"cdr", OP_CDR, 1},
    {"null?", OP_IS_NULL, 1}, {"pair?", OP_IS_PAIR, 1}, {"not", OP_NOT, 1},       {"vector-ref", OP_VECTOR_REF, 2},
};

typedef struct {
    Code *code;
    Lambda *lambda;
    int depth; // values on the stack above the base of the frame
} Emitter;

static int emit(Emitter *emitter, int word) {
    Code *code = emitter->code;
    if (code->length == code->capacity) {
        code->capacity = code->capacity == 0 ? 16 : code->capacity * 2;
        code->code = check_memory(realloc(code->code, (size_t)code->capacity * sizeof(int)));
    }
    code->code[code->length] = word;
    return code->length++;
}

static int emit_with(Emitter *emitter, Opcode opcode, int operand) {
    emit(emitter, (int)opcode);
    return emit(emitter, operand);
}

static int constant_index(Emitter *emitter, Value value) {
    Code *code = emitter->code;
    for (int k = 0; k < code->constant_count; k++)
        if (code->constants[k] == value)
            return k;
    if (code->constant_count == code->constant_capacity) {
        code->constant_capacity = code->constant_capacity == 0 ? 8 : code->constant_capacity * 2;
        code->constants = check_memory(realloc(code->constants, (size_t)code->constant_capacity * sizeof(Value)));
    }
    code->constants[code->constant_count] = value;
    return code->constant_count++;
}

static void emit_node(Emitter *emitter, const Node *node, bool tail);

static void emit_reference(Emitter *emitter, const Variable *variable) {
    if (variable->owner == emitter->lambda)
        emit_with(emitter, variable->mutated ? OP_LOCAL_BOX : OP_LOCAL, variable->slot);
    else
        emit_with(emitter, variable->mutated ? OP_FREE_BOX : OP_FREE, free_index(emitter->lambda, variable));
}

static void emit_if(Emitter *emitter, const Node *node, bool tail) {
    emit_node(emitter, node->children[0], false);
    int to_else = emit_with(emitter, OP_JUMP_IF_FALSE, 0), to_end = 0;
    int depth = --emitter->depth;
    emit_node(emitter, node->children[1], tail);
    if (!tail)
        to_end = emit_with(emitter, OP_JUMP, 0);
    emitter->code->code[to_else] = emitter->code->length;
    emitter->depth = depth;
    emit_node(emitter, node->children[2], tail);
    if (!tail)
        emitter->code->code[to_end] = emitter->code->length;
}

static void emit_let(Emitter *emitter, const Node *node, bool tail) {
    int bound = node->count - 1;
    for (int k = 0; k < bound; k++) {
        node->variables[k]->slot = emitter->depth;
        emit_node(emitter, node->children[k], false);
        if (node->variables[k]->mutated)
            emit(emitter, OP_BOX);
    }
    emit_node(emitter, node->children[bound], tail);
    emitter->depth -= bound;
    if (!tail && bound > 0)
        emit_with(emitter, OP_SLIDE, bound);
}

// Emits an operation in place of a call to a global procedure that is known; false when it has to be called.
static bool emit_integrated(Emitter *emitter, const Node *node) {
    const Node *callee = node->children[0];
    if (callee->kind != GLOBAL || as_symbol(callee->value)->opcode < 0)
        return false;
    int index = as_symbol(callee->value)->opcode, count = node->count - 1;
    if (integrated[index].arguments != count)
        return false;
    for (int k = 1; k <= count; k++)
        emit_node(emitter, node->children[k], false);
    emit(emitter, (int)integrated[index].opcode);
    emitter->depth -= count - 1;
    return true;
}

static Code *generate(Lambda *lambda) {
    Code *code = allocate(CODE, sizeof *code);
    Emitter emitter = {code, lambda, lambda->parameter_count};
    code->parameters = lambda->parameter_count - lambda->rest;
    code->rest = lambda->rest;
    code->name = lambda->name;
    for (int k = 0; k < lambda->parameter_count; k++)
        if (lambda->parameters[k]->mutated)
            emit_with(&emitter, OP_BOX_PARAMETER, k);
    emit_node(&emitter, lambda->body, true);
    return code;
}

static void emit_lambda(Emitter *emitter, Lambda *lambda) {
    Code *code = generate(lambda);
    emit_with(emitter, OP_CLOSURE, constant_index(emitter, (Value)code));
    emit(emitter, lambda->free_count);
    for (int k = 0; k < lambda->free_count; k++) {
        const Variable *variable = lambda->free[k];
        bool local = variable->owner == emitter->lambda;
        emit(emitter, local);
        emit(emitter, local ? variable->slot : free_index(emitter->lambda, variable));
    }
}

static void emit_sequence(Emitter *emitter, const Node *node, bool tail) {
    for (int k = 0; k < node->count; k++) {
        bool last = k == node->count - 1;
        emit_node(emitter, node->children[k], tail && last);
        if (!last) {
            emit(emitter, OP_POP);
            emitter->depth--;
        }
    }
}

// Emits code that leaves one value on the stack, or in tail position returns it.
static void emit_node(Emitter *emitter, const Node *node, bool tail) {
    switch (node->kind) {
    case IF: emit_if(emitter, node, tail); return;
    case LET: emit_let(emitter, node, tail); return;
    case SEQUENCE: emit_sequence(emitter, node, tail); return;
    case CALL:
        if (!emit_integrated(emitter, node)) {
            for (int k = 0; k < node->count; k++)
                emit_node(emitter, node->children[k], false);
            emit_with(emitter, tail ? OP_TAIL_CALL : OP_CALL, node->count - 1);
            emitter->depth -= node->count - 1;
        }
        break;
    case CONSTANT:
        emit_with(emitter, OP_CONSTANT, constant_index(emitter, node->value));
        emitter->depth++;
        break;
    case REFERENCE:
        emit_reference(emitter, node->variable);
        emitter->depth++;
        break;
    case GLOBAL:
        emit_with(emitter, OP_GLOBAL, constant_index(emitter, node->value));
        emitter->depth++;
        break;
    case SET: {
        bool local = node->variable->owner == emitter->lambda;
        emit_node(emitter, node->children[0], false);
        emit_with(emitter, local ? OP_SET_LOCAL : OP_SET_FREE,
                  local ? node->variable->slot : free_index(emitter->lambda, node->variable));
        break;
    }
    case SET_GLOBAL:
    case DEFINE:
        emit_node(emitter, node->children[0], false);
        emit_with(emitter, node->kind == DEFINE ? OP_DEFINE : OP_SET_GLOBAL, constant_index(emitter, node->value));
        break;
    case LAMBDA:
        emit_lambda(emitter, node->lambda);
        emitter->depth++;
        break;
    }
    if (tail)
        emit(emitter, OP_RETURN);
}

// Compiles a form to a procedure without parameters; UNBOUND when it is wrong, with the failure recorded.
static Value compile(Value form) {
    Analysis analysis = {NULL, NULL, NULL};
    Lambda *lambda = arena_allocate(&analysis, sizeof *lambda);
    lambda->name = NIL;
    analysis.lambda = lambda;
    lambda->body = analyse(&analysis, form);
    Value procedure = UNBOUND;
    if (machine.failure == UNBOUND) {
        Closure *closure = allocate(CLOSURE, sizeof *closure);
        closure->code = generate(lambda);
        procedure = (Value)closure;
    }
    arena_free(&analysis);
    return procedure;
}

// ==== The machine =====================================================================================================

static void push(Value value) { machine.stack[machine.stack_count++] = value; }
static Value pop(void) { return machine.stack[--machine.stack_count]; }

static bool equal_values(Value a, Value b);
static void call_procedure(int count, bool tail);

static void fail_arguments(Value procedure, int count) {
    fail("wrong number of arguments", list2(procedure, make_fixnum(count)));
}

static void enter_closure(Closure *closure, int count, bool tail) {
    const Code *code = closure->code;
    if (count < code->parameters || (count > code->parameters && !code->rest)) {
        fail_arguments((Value)closure, count);
        return;
    }
    if (code->rest) {
        Value rest = NIL;
        for (; count > code->parameters; count--)
            rest = cons(pop(), rest);
        push(rest);
        count++;
    }
    int base = machine.stack_count - count;
    if (tail) {
        Frame *frame = &machine.frames[machine.frame_count - 1];
        memmove(&machine.stack[frame->base - 1], &machine.stack[base - 1], ((size_t)count + 1) * sizeof(Value));
        machine.stack_count = frame->base + count;
        frame->closure = closure;
        frame->pc = 0;
        return;
    }
    if (machine.frame_count == FRAME_LIMIT || machine.stack_count > STACK_LIMIT - 4 * MAX_FORMS) {
        fail("recursion too deep", NIL);
        return;
    }
    machine.frames[machine.frame_count++] = (Frame){closure, 0, base};
}

static Continuation *capture_continuation(int stack_count) {
    Continuation *saved = allocate(CONTINUATION, sizeof *saved);
    saved->stack_count = stack_count;
    saved->frame_count = machine.frame_count;
    saved->handler_count = machine.handler_count;
    size_t stack_size = (size_t)stack_count * sizeof(Value), frames_size = (size_t)machine.frame_count * sizeof(Frame);
    size_t handlers_size = (size_t)machine.handler_count * sizeof(Handler);
    saved->stack = check_memory(malloc(stack_size + 1));
    saved->frames = check_memory(malloc(frames_size + 1));
    saved->handlers = check_memory(malloc(handlers_size + 1));
    memcpy(saved->stack, machine.stack, stack_size);
    memcpy(saved->frames, machine.frames, frames_size);
    memcpy(saved->handlers, machine.handlers, handlers_size);
    return saved;
}

static void resume(const Continuation *saved, Value value) {
    if (machine.in_compiler > 0) {
        fail("a macro cannot leave its expansion", NIL);
        return;
    }
    memcpy(machine.stack, saved->stack, (size_t)saved->stack_count * sizeof(Value));
    memcpy(machine.frames, saved->frames, (size_t)saved->frame_count * sizeof(Frame));
    memcpy(machine.handlers, saved->handlers, (size_t)saved->handler_count * sizeof(Handler));
    machine.stack_count = saved->stack_count;
    machine.frame_count = saved->frame_count;
    machine.handler_count = saved->handler_count;
    push(value);
}

// (apply f a... list): f and all arguments take the place of the call.
static void apply(int count, bool tail) {
    Value list = pop();
    Value *arguments = &machine.stack[machine.stack_count - (count - 1)];
    memmove(arguments - 1, arguments, (size_t)(count - 1) * sizeof(Value));
    machine.stack_count--;
    int given = count - 2;
    for (; is_pair(list); list = cdr(list), given++) {
        if (machine.stack_count > STACK_LIMIT - 8 * MAX_FORMS) {
            fail("too many arguments", NIL);
            return;
        }
        push(car(list));
    }
    call_procedure(given, tail);
}

// (call-with-handler handler thunk)
static void try_call(void) {
    Value thunk = pop(), handler = pop();
    pop();
    if (!has_type(thunk, CLOSURE) || machine.handler_count == HANDLER_LIMIT) {
        fail("no procedure to try, or too many handlers", cons(thunk, NIL));
        return;
    }
    machine.handlers[machine.handler_count++] = (Handler){handler, machine.frame_count, machine.stack_count};
    push(thunk);
    call_procedure(0, false);
}

static void call_builtin(Builtin *builtin, int count, bool tail) {
    Value *arguments = &machine.stack[machine.stack_count - count];
    if (count < builtin->least || (builtin->most >= 0 && count > builtin->most)) {
        fail_arguments((Value)builtin, count);
        return;
    }
    switch (builtin->control) {
    case PLAIN: {
        Value result = builtin->function(count, arguments);
        machine.stack_count -= count + 1;
        push(result);
        break;
    }
    case APPLY: apply(count, tail); break;
    case CALL_CC:
        arguments[-1] = arguments[0];
        arguments[0] = (Value)capture_continuation(machine.stack_count - 2);
        call_procedure(1, tail);
        break;
    case TRY: try_call(); break;
    case EVAL: {
        Value procedure = compile(arguments[0]);
        if (procedure == UNBOUND)
            break;
        pop();
        machine.stack[machine.stack_count - 1] = procedure;
        call_procedure(0, tail);
        break;
    }
    }
}

// The stack holds the procedure and its arguments. A builtin leaves its result there; a tail call is followed by a return.
static void call_procedure(int count, bool tail) {
    Value callee = machine.stack[machine.stack_count - count - 1];
    if (has_type(callee, CLOSURE))
        enter_closure((Closure *)callee, count, tail);
    else if (has_type(callee, BUILTIN))
        call_builtin((Builtin *)callee, count, tail);
    else if (has_type(callee, CONTINUATION))
        resume((Continuation *)callee, count > 0 ? machine.stack[machine.stack_count - 1] : UNSPECIFIED);
    else
        fail("not a procedure", cons(callee, NIL));
}

static void make_closure(Frame *frame) {
    const int *operands = &frame->closure->code->code[frame->pc];
    int count = operands[1];
    Closure *closure = allocate(CLOSURE, sizeof *closure + (size_t)count * sizeof(Value));
    closure->code = (Code *)frame->closure->code->constants[operands[0]];
    closure->count = count;
    for (int k = 0; k < count; k++) {
        int index = operands[3 + 2 * k];
        closure->free[k] = operands[2 + 2 * k] ? machine.stack[frame->base + index] : frame->closure->free[index];
    }
    frame->pc += 2 + 2 * count;
    push((Value)closure);
}

static void return_value(void) {
    Value value = pop();
    machine.stack_count = machine.frames[--machine.frame_count].base - 1;
    while (machine.handler_count > 0 && machine.handlers[machine.handler_count - 1].frame_count >= machine.frame_count)
        machine.handler_count--;
    push(value);
}

static void run_arithmetic(Opcode opcode) {
    Value right = pop(), left = pop();
    if (is_fixnum(left) && is_fixnum(right)) {
        int64_t a = fixnum_value(left), b = fixnum_value(right);
        switch (opcode) {
        case OP_ADD: push(make_integer(a + b)); return;
        case OP_SUBTRACT: push(make_integer(a - b)); return;
        case OP_EQUAL: push(boolean(a == b)); return;
        case OP_LESS: push(boolean(a < b)); return;
        case OP_GREATER: push(boolean(a > b)); return;
        case OP_LESS_EQUAL: push(boolean(a <= b)); return;
        case OP_GREATER_EQUAL: push(boolean(a >= b)); return;
        default: push(integer_multiply(left, right)); return;
        }
    }
    switch (opcode) {
    case OP_ADD: push(combine(ADD, left, right)); break;
    case OP_SUBTRACT: push(combine(SUBTRACT, left, right)); break;
    case OP_MULTIPLY: push(combine(MULTIPLY, left, right)); break;
    case OP_EQUAL: push(boolean(compare_numbers(left, right) == 0)); break;
    case OP_LESS: push(boolean(compare_numbers(left, right) < 0)); break;
    case OP_GREATER: push(boolean(compare_numbers(left, right) > 0)); break;
    case OP_LESS_EQUAL: push(boolean(compare_numbers(left, right) <= 0)); break;
    default: push(boolean(compare_numbers(left, right) >= 0)); break;
    }
}

static Value vector_ref(Value vector, Value index) {
    if (!has_type(vector, VECTOR))
        return fail_type("a vector", vector);
    if (!is_fixnum(index) || fixnum_value(index) < 0 || (uint64_t)fixnum_value(index) >= as_vector(vector)->length)
        return fail("index out of range", cons(index, NIL));
    return as_vector(vector)->items[fixnum_value(index)];
}

static void run_integrated(Opcode opcode) {
    Value top = pop();
    switch (opcode) {
    case OP_EQ: push(boolean(pop() == top)); break;
    case OP_CONS: push(cons(pop(), top)); break;
    case OP_CAR: push(is_pair(top) ? car(top) : fail_type("a pair", top)); break;
    case OP_CDR: push(is_pair(top) ? cdr(top) : fail_type("a pair", top)); break;
    case OP_IS_NULL: push(boolean(top == NIL)); break;
    case OP_IS_PAIR: push(boolean(is_pair(top))); break;
    case OP_NOT: push(boolean(top == FALSE)); break;
    default: push(vector_ref(pop(), top)); break;
    }
}

static void run_instruction(void) {
    Frame *frame = &machine.frames[machine.frame_count - 1];
    const Code *code = frame->closure->code;
    Opcode opcode = (Opcode)code->code[frame->pc++];
    int operand = opcode < OP_RETURN && opcode != OP_BOX && opcode != OP_POP ? code->code[frame->pc] : 0;
    Value *top = &machine.stack[machine.stack_count - 1];
    switch (opcode) {
    case OP_CONSTANT: push(code->constants[operand]); break;
    case OP_LOCAL: push(machine.stack[frame->base + operand]); break;
    case OP_LOCAL_BOX: push(((Box *)machine.stack[frame->base + operand])->content); break;
    case OP_FREE: push(frame->closure->free[operand]); break;
    case OP_FREE_BOX: push(((Box *)frame->closure->free[operand])->content); break;
    case OP_GLOBAL: {
        Value symbol = code->constants[operand], value = as_symbol(symbol)->value;
        push(value != UNBOUND ? value : fail("unbound variable", cons(strip_aliases(symbol), NIL)));
        break;
    }
    case OP_SET_LOCAL:
        ((Box *)machine.stack[frame->base + operand])->content = *top;
        *top = UNSPECIFIED;
        break;
    case OP_SET_FREE:
        ((Box *)frame->closure->free[operand])->content = *top;
        *top = UNSPECIFIED;
        break;
    case OP_SET_GLOBAL:
        if (as_symbol(code->constants[operand])->value == UNBOUND)
            fail("unbound variable", cons(code->constants[operand], NIL));
        as_symbol(code->constants[operand])->value = *top;
        *top = UNSPECIFIED;
        break;
    case OP_DEFINE:
        as_symbol(code->constants[operand])->value = *top;
        *top = code->constants[operand];
        break;
    case OP_BOX: *top = make_box(*top); return;
    case OP_BOX_PARAMETER: machine.stack[frame->base + operand] = make_box(machine.stack[frame->base + operand]); break;
    case OP_POP: pop(); return;
    case OP_SLIDE:
        top[-operand] = *top;
        machine.stack_count -= operand;
        break;
    case OP_JUMP: frame->pc = operand; return;
    case OP_JUMP_IF_FALSE:
        if (!is_true(pop())) {
            frame->pc = operand;
            return;
        }
        break;
    case OP_CLOSURE: make_closure(frame); return;
    case OP_CALL:
    case OP_TAIL_CALL:
        frame->pc++;
        call_procedure(operand, opcode == OP_TAIL_CALL);
        return;
    case OP_RETURN: return_value(); return;
    default:
        if (opcode <= OP_GREATER_EQUAL)
            run_arithmetic(opcode);
        else
            run_integrated(opcode);
        return;
    }
    frame->pc++;
}

// Gives what was raised to the innermost handler above `handlers`; false when there is none.
static bool handle_failure(int handlers) {
    if (machine.handler_count <= handlers)
        return false;
    Handler handler = machine.handlers[--machine.handler_count];
    machine.frame_count = handler.frame_count;
    machine.stack_count = handler.stack_count;
    push(handler.procedure);
    push(machine.failure);
    machine.failure = UNBOUND;
    call_procedure(1, false);
    return true;
}

// Calls a procedure from C and runs until it returns; false with the failure recorded when it raised.
static bool run_procedure(Value procedure, Value arguments, Value *result) {
    int frames = machine.frame_count, stack = machine.stack_count, handlers = machine.handler_count, count = 0;
    push(procedure);
    for (; is_pair(arguments); arguments = cdr(arguments), count++)
        push(car(arguments));
    call_procedure(count, false);
    for (;;) {
        if (machine.failure != UNBOUND && !handle_failure(handlers)) {
            machine.frame_count = frames;
            machine.stack_count = stack;
            machine.handler_count = handlers;
            return false;
        }
        if (machine.frame_count <= frames && machine.failure == UNBOUND)
            break;
        if (heap.count > heap.threshold && machine.in_compiler == 0 && machine.failure == UNBOUND)
            collect();
        if (machine.failure == UNBOUND) {
            machine.instructions++;
            run_instruction();
        }
    }
    *result = pop();
    return true;
}

static bool evaluate(Value form, Value *result) {
    Value procedure = compile(form);
    return procedure != UNBOUND && run_procedure(procedure, NIL, result);
}

// ==== Builtins ========================================================================================================

static bool eqv_values(Value a, Value b) {
    if (a == b)
        return true;
    if (is_number(a) && is_number(b) && is_flonum(a) == is_flonum(b))
        return compare_numbers(a, b) == 0;
    return false;
}

static bool equal_values(Value a, Value b) {
    while (is_pair(a) && is_pair(b)) {
        if (!equal_values(car(a), car(b)))
            return false;
        a = cdr(a);
        b = cdr(b);
    }
    if (is_string(a) && is_string(b))
        return as_string(a)->length == as_string(b)->length &&
               memcmp(as_string(a)->bytes, as_string(b)->bytes, as_string(a)->length) == 0;
    if (has_type(a, VECTOR) && has_type(b, VECTOR)) {
        if (as_vector(a)->length != as_vector(b)->length)
            return false;
        for (size_t k = 0; k < as_vector(a)->length; k++)
            if (!equal_values(as_vector(a)->items[k], as_vector(b)->items[k]))
                return false;
        return true;
    }
    return eqv_values(a, b);
}

// ---- Numbers ---------------------------------------------------------------------------------------------------------

static Value builtin_add(int count, Value *arguments) {
    Value sum = make_fixnum(0);
    for (int k = 0; k < count; k++)
        sum = combine(ADD, sum, arguments[k]);
    return sum;
}

static Value builtin_multiply(int count, Value *arguments) {
    Value product = make_fixnum(1);
    for (int k = 0; k < count; k++)
        product = combine(MULTIPLY, product, arguments[k]);
    return product;
}

static Value builtin_subtract(int count, Value *arguments) {
    if (count == 1)
        return combine(SUBTRACT, make_fixnum(0), arguments[0]);
    Value difference = arguments[0];
    for (int k = 1; k < count; k++)
        difference = combine(SUBTRACT, difference, arguments[k]);
    return difference;
}

static Value builtin_divide(int count, Value *arguments) {
    if (count == 1)
        return combine(DIVIDE, make_fixnum(1), arguments[0]);
    Value quotient = arguments[0];
    for (int k = 1; k < count; k++)
        quotient = combine(DIVIDE, quotient, arguments[k]);
    return quotient;
}

// Whether each neighbouring pair compares as one of the two orders given.
static Value ordered(int count, Value *arguments, int order, int other) {
    bool holds = true;
    for (int k = 0; k + 1 < count; k++) {
        int found = compare_numbers(arguments[k], arguments[k + 1]);
        holds = holds && (found == order || found == other);
    }
    return boolean(holds);
}

static Value builtin_equal_numbers(int count, Value *arguments) { return ordered(count, arguments, 0, 0); }
static Value builtin_less(int count, Value *arguments) { return ordered(count, arguments, -1, -1); }
static Value builtin_greater(int count, Value *arguments) { return ordered(count, arguments, 1, 1); }
static Value builtin_less_equal(int count, Value *arguments) { return ordered(count, arguments, -1, 0); }
static Value builtin_greater_equal(int count, Value *arguments) { return ordered(count, arguments, 1, 0); }

static Value builtin_quotient(int count, Value *arguments) {
    (void)count;
    return divide_whole(QUOTIENT, arguments[0], arguments[1]);
}

static Value builtin_remainder(int count, Value *arguments) {
    (void)count;
    return divide_whole(REMAINDER, arguments[0], arguments[1]);
}

static Value builtin_modulo(int count, Value *arguments) {
    (void)count;
    return divide_whole(MODULO, arguments[0], arguments[1]);
}

static Value builtin_gcd(int count, Value *arguments) {
    Value result = make_fixnum(0);
    for (int k = 0; k < count; k++) {
        if (!is_integer(arguments[k]))
            return fail_type("an exact integer", arguments[k]);
        result = integer_gcd(result, arguments[k]);
    }
    return result;
}

static Value extreme(int count, Value *arguments, int order) {
    Value best = arguments[0];
    bool inexact = is_flonum(best);
    for (int k = 1; k < count; k++) {
        inexact = inexact || is_flonum(arguments[k]);
        if (compare_numbers(arguments[k], best) == order)
            best = arguments[k];
    }
    return inexact && is_exact(best) ? make_flonum(to_double(best)) : best;
}

static Value builtin_min(int count, Value *arguments) { return extreme(count, arguments, -1); }
static Value builtin_max(int count, Value *arguments) { return extreme(count, arguments, 1); }

static Value builtin_abs(int count, Value *arguments) {
    (void)count;
    if (!is_number(arguments[0]))
        return fail_type("a number", arguments[0]);
    return number_sign(arguments[0]) < 0 ? combine(SUBTRACT, make_fixnum(0), arguments[0]) : arguments[0];
}

typedef enum { FLOOR, CEILING, TRUNCATE, ROUND } Rounding;

static double round_double(Rounding rounding, double number) {
    double low = floor(number), above = number - low;
    switch (rounding) {
    case FLOOR: return low;
    case CEILING: return above > 0 ? low + 1 : low;
    case TRUNCATE: return number < 0 && above > 0 ? low + 1 : low;
    default:
        if (above == 0.5)
            return floor(low / 2) * 2 == low ? low : low + 1;
        return above > 0.5 ? low + 1 : low;
    }
}

static Value round_number(Rounding rounding, Value value) {
    if (is_flonum(value))
        return make_flonum(round_double(rounding, ((Flonum *)value)->number));
    if (!is_ratio(value))
        return is_integer(value) ? value : fail_type("a number", value);
    Value top = numerator(value), bottom = denominator(value);
    Value low = divide_whole(QUOTIENT, combine(SUBTRACT, top, divide_whole(MODULO, top, bottom)), bottom);
    Value high = integer_add(low, make_fixnum(1), false);
    switch (rounding) {
    case FLOOR: return low;
    case CEILING: return high;
    case TRUNCATE: return number_sign(value) < 0 ? high : low;
    default: {
        Value twice = combine(MULTIPLY, combine(SUBTRACT, value, low), make_fixnum(2));
        int order = compare_numbers(twice, make_fixnum(1));
        if (order == 0)
            return divide_whole(MODULO, low, make_fixnum(2)) == make_fixnum(0) ? low : high;
        return order < 0 ? low : high;
    }
    }
}

static Value builtin_floor(int count, Value *arguments) { return (void)count, round_number(FLOOR, arguments[0]); }
static Value builtin_ceiling(int count, Value *arguments) { return (void)count, round_number(CEILING, arguments[0]); }
static Value builtin_truncate(int count, Value *arguments) { return (void)count, round_number(TRUNCATE, arguments[0]); }
static Value builtin_round(int count, Value *arguments) { return (void)count, round_number(ROUND, arguments[0]); }

static Value builtin_expt(int count, Value *arguments) {
    (void)count;
    Value base = arguments[0], exponent = arguments[1];
    if (!is_number(base) || !is_number(exponent))
        return fail_type("a number", is_number(base) ? exponent : base);
    if (is_fixnum(exponent)) {
        int64_t power = fixnum_value(exponent);
        if (power < -100000 || power > 100000)
            return fail("exponent too large", cons(exponent, NIL));
        Value result = integer_power(base, (uint64_t)(power < 0 ? -power : power));
        return power < 0 ? combine(DIVIDE, make_fixnum(1), result) : result;
    }
    return make_flonum(pow(to_double(base), to_double(exponent)));
}

static Value builtin_sqrt(int count, Value *arguments) {
    (void)count;
    Value value = arguments[0];
    if (!is_number(value) || number_sign(value) < 0)
        return fail_type("a number that is not negative", value);
    if (is_exact(value)) {
        Value top = integer_root(numerator(value)), bottom = integer_root(denominator(value));
        if (integer_compare(integer_multiply(top, top), numerator(value)) == 0 &&
            integer_compare(integer_multiply(bottom, bottom), denominator(value)) == 0)
            return make_ratio(top, bottom);
    }
    return make_flonum(sqrt(to_double(value)));
}

static Value builtin_integer_sqrt(int count, Value *arguments) {
    (void)count;
    if (!is_integer(arguments[0]) || integer_sign(arguments[0]) < 0)
        return fail_type("an exact integer that is not negative", arguments[0]);
    return integer_root(arguments[0]);
}

static Value transcendental(Value value, double function(double)) {
    return is_number(value) ? make_flonum(function(to_double(value))) : fail_type("a number", value);
}

static Value builtin_sin(int count, Value *arguments) { return (void)count, transcendental(arguments[0], sin); }
static Value builtin_cos(int count, Value *arguments) { return (void)count, transcendental(arguments[0], cos); }
static Value builtin_atan(int count, Value *arguments) { return (void)count, transcendental(arguments[0], atan); }
static Value builtin_exp(int count, Value *arguments) { return (void)count, transcendental(arguments[0], exp); }
static Value builtin_log(int count, Value *arguments) { return (void)count, transcendental(arguments[0], log); }

static Value builtin_numerator(int count, Value *arguments) {
    (void)count;
    return is_exact(arguments[0]) ? numerator(arguments[0]) : fail_type("an exact number", arguments[0]);
}

static Value builtin_denominator(int count, Value *arguments) {
    (void)count;
    return is_exact(arguments[0]) ? denominator(arguments[0]) : fail_type("an exact number", arguments[0]);
}

static Value builtin_exact(int count, Value *arguments) {
    (void)count;
    return is_number(arguments[0]) ? to_exact(arguments[0]) : fail_type("a number", arguments[0]);
}

static Value builtin_inexact(int count, Value *arguments) {
    (void)count;
    return is_number(arguments[0]) ? make_flonum(to_double(arguments[0])) : fail_type("a number", arguments[0]);
}

static Value builtin_is_number(int count, Value *arguments) { return (void)count, boolean(is_number(arguments[0])); }
static Value builtin_is_exact(int count, Value *arguments) { return (void)count, boolean(is_exact(arguments[0])); }
static Value builtin_is_rational(int count, Value *arguments) { return builtin_is_exact(count, arguments); }

static Value builtin_is_integer(int count, Value *arguments) {
    (void)count;
    return boolean(is_number(arguments[0]) && is_whole(arguments[0]));
}

static int radix_of(int count, Value *arguments) {
    if (count < 2)
        return 10;
    int64_t radix = is_fixnum(arguments[1]) ? fixnum_value(arguments[1]) : 0;
    if (radix < 2 || radix > 36) {
        fail_type("a radix from 2 to 36", arguments[1]);
        return 10;
    }
    return (int)radix;
}

static Port *new_port(void) { return allocate(PORT, sizeof(Port)); }

static Value port_text(const Port *port) { return make_string(port->bytes, port->length); }

static Value builtin_number_to_string(int count, Value *arguments) {
    if (!is_number(arguments[0]))
        return fail_type("a number", arguments[0]);
    Port *saved = output, *port = new_port();
    output = port;
    write_number(arguments[0], radix_of(count, arguments));
    output = saved;
    return port_text(port);
}

static Value builtin_string_to_number(int count, Value *arguments) {
    if (!is_string(arguments[0]))
        return fail_type("a string", arguments[0]);
    Value number =
        parse_number(as_string(arguments[0])->bytes, as_string(arguments[0])->length, radix_of(count, arguments));
    return number == UNBOUND ? FALSE : number;
}

// ---- Pairs and lists -------------------------------------------------------------------------------------------------

static Value builtin_cons(int count, Value *arguments) { return (void)count, cons(arguments[0], arguments[1]); }

static Value builtin_car(int count, Value *arguments) {
    (void)count;
    return is_pair(arguments[0]) ? car(arguments[0]) : fail_type("a pair", arguments[0]);
}

static Value builtin_cdr(int count, Value *arguments) {
    (void)count;
    return is_pair(arguments[0]) ? cdr(arguments[0]) : fail_type("a pair", arguments[0]);
}

static Value builtin_set_car(int count, Value *arguments) {
    (void)count;
    if (!is_pair(arguments[0]))
        return fail_type("a pair", arguments[0]);
    ((Pair *)arguments[0])->car = arguments[1];
    return UNSPECIFIED;
}

static Value builtin_set_cdr(int count, Value *arguments) {
    (void)count;
    if (!is_pair(arguments[0]))
        return fail_type("a pair", arguments[0]);
    ((Pair *)arguments[0])->cdr = arguments[1];
    return UNSPECIFIED;
}

static Value builtin_list(int count, Value *arguments) {
    Value list = NIL;
    while (count > 0)
        list = cons(arguments[--count], list);
    return list;
}

static Value builtin_length(int count, Value *arguments) {
    (void)count;
    int64_t length = 0;
    Value rest = arguments[0];
    for (; is_pair(rest); rest = cdr(rest))
        length++;
    return rest == NIL ? make_fixnum(length) : fail_type("a list", arguments[0]);
}

static Value append_two(Value front, Value back) {
    Value head = back, *link = &head;
    for (; is_pair(front); front = cdr(front)) {
        *link = cons(car(front), back);
        link = &((Pair *)*link)->cdr;
    }
    return front == NIL ? head : fail_type("a list", front);
}

static Value builtin_append(int count, Value *arguments) {
    Value list = count > 0 ? arguments[count - 1] : NIL;
    for (int k = count - 2; k >= 0; k--)
        list = append_two(arguments[k], list);
    return list;
}

static Value builtin_reverse(int count, Value *arguments) {
    (void)count;
    Value reversed = NIL, rest = arguments[0];
    for (; is_pair(rest); rest = cdr(rest))
        reversed = cons(car(rest), reversed);
    return rest == NIL ? reversed : fail_type("a list", arguments[0]);
}

static Value builtin_list_tail(int count, Value *arguments) {
    (void)count;
    Value rest = arguments[0];
    int64_t skip = is_fixnum(arguments[1]) ? fixnum_value(arguments[1]) : -1;
    for (; skip > 0 && is_pair(rest); skip--)
        rest = cdr(rest);
    return skip == 0 ? rest : fail("index out of range", cons(arguments[1], NIL));
}

static Value find_member(Value item, Value list, bool same(Value, Value)) {
    while (is_pair(list) && !same(car(list), item))
        list = cdr(list);
    return is_pair(list) ? list : FALSE;
}

static Value find_association(Value key, Value list, bool same(Value, Value)) {
    for (; is_pair(list); list = cdr(list)) {
        if (!is_pair(car(list)))
            return fail_type("a pair", car(list));
        if (same(car(car(list)), key))
            return car(list);
    }
    return FALSE;
}

static Value builtin_memv(int count, Value *arguments) {
    return (void)count, find_member(arguments[0], arguments[1], eqv_values);
}

static Value builtin_member(int count, Value *arguments) {
    return (void)count, find_member(arguments[0], arguments[1], equal_values);
}

static Value builtin_assv(int count, Value *arguments) {
    return (void)count, find_association(arguments[0], arguments[1], eqv_values);
}

static Value builtin_assoc(int count, Value *arguments) {
    return (void)count, find_association(arguments[0], arguments[1], equal_values);
}

// ---- Predicates ------------------------------------------------------------------------------------------------------

static Value builtin_is_eq(int count, Value *arguments) { return (void)count, boolean(arguments[0] == arguments[1]); }
static Value builtin_is_eqv(int count, Value *arguments) {
    return (void)count, boolean(eqv_values(arguments[0], arguments[1]));
}
static Value builtin_is_equal(int count, Value *arguments) {
    return (void)count, boolean(equal_values(arguments[0], arguments[1]));
}
static Value builtin_is_null(int count, Value *arguments) { return (void)count, boolean(arguments[0] == NIL); }
static Value builtin_is_pair(int count, Value *arguments) { return (void)count, boolean(is_pair(arguments[0])); }
static Value builtin_not(int count, Value *arguments) { return (void)count, boolean(arguments[0] == FALSE); }
static Value builtin_is_symbol(int count, Value *arguments) { return (void)count, boolean(is_symbol(arguments[0])); }
static Value builtin_is_string(int count, Value *arguments) { return (void)count, boolean(is_string(arguments[0])); }
static Value builtin_is_char(int count, Value *arguments) { return (void)count, boolean(is_char(arguments[0])); }
static Value builtin_is_vector(int count, Value *arguments) {
    return (void)count, boolean(has_type(arguments[0], VECTOR));
}

static Value builtin_is_boolean(int count, Value *arguments) {
    return (void)count, boolean(arguments[0] == TRUE || arguments[0] == FALSE);
}

static Value builtin_is_procedure(int count, Value *arguments) {
    (void)count;
    return boolean(has_type(arguments[0], CLOSURE) || has_type(arguments[0], BUILTIN) ||
                   has_type(arguments[0], CONTINUATION));
}

// ---- Characters, strings and symbols ---------------------------------------------------------------------------------

static bool check_string(Value value) {
    if (!is_string(value))
        fail_type("a string", value);
    return is_string(value);
}

// An index from 0 to `limit`, or -1 with a failure.
static int64_t check_index(Value value, size_t limit) {
    if (is_fixnum(value) && fixnum_value(value) >= 0 && (uint64_t)fixnum_value(value) <= limit)
        return fixnum_value(value);
    fail("index out of range", cons(value, NIL));
    return -1;
}

static Value builtin_char_to_integer(int count, Value *arguments) {
    (void)count;
    return is_char(arguments[0]) ? make_fixnum(char_value(arguments[0])) : fail_type("a character", arguments[0]);
}

static Value builtin_integer_to_char(int count, Value *arguments) {
    (void)count;
    int64_t code = check_index(arguments[0], 255);
    return code < 0 ? UNSPECIFIED : make_char((unsigned char)code);
}

static Value classify_char(Value value, int predicate(int)) {
    return is_char(value) ? boolean(predicate(char_value(value)) != 0) : fail_type("a character", value);
}

static Value builtin_is_alphabetic(int count, Value *arguments) {
    return (void)count, classify_char(arguments[0], isalpha);
}
static Value builtin_is_numeric(int count, Value *arguments) {
    return (void)count, classify_char(arguments[0], isdigit);
}
static Value builtin_is_whitespace(int count, Value *arguments) {
    return (void)count, classify_char(arguments[0], isspace);
}

static Value builtin_char_upcase(int count, Value *arguments) {
    (void)count;
    return is_char(arguments[0]) ? make_char((unsigned char)toupper(char_value(arguments[0])))
                                 : fail_type("a character", arguments[0]);
}

static Value builtin_string_length(int count, Value *arguments) {
    (void)count;
    return check_string(arguments[0]) ? make_fixnum((int64_t)as_string(arguments[0])->length) : UNSPECIFIED;
}

static Value builtin_string_ref(int count, Value *arguments) {
    (void)count;
    if (!check_string(arguments[0]))
        return UNSPECIFIED;
    String *string = as_string(arguments[0]);
    int64_t index = string->length == 0 ? -1 : check_index(arguments[1], string->length - 1);
    if (index < 0)
        return fail("index out of range", cons(arguments[1], NIL));
    return make_char((unsigned char)string->bytes[index]);
}

static Value builtin_substring(int count, Value *arguments) {
    if (!check_string(arguments[0]))
        return UNSPECIFIED;
    String *string = as_string(arguments[0]);
    int64_t end = count == 3 ? check_index(arguments[2], string->length) : (int64_t)string->length;
    int64_t start = end < 0 ? -1 : check_index(arguments[1], (size_t)end);
    return start < 0 ? UNSPECIFIED : make_string(string->bytes + start, (size_t)(end - start));
}

static Value builtin_string_append(int count, Value *arguments) {
    size_t length = 0;
    for (int k = 0; k < count; k++) {
        if (!check_string(arguments[k]))
            return UNSPECIFIED;
        length += as_string(arguments[k])->length;
    }
    Value result = make_string(NULL, length);
    char *at = as_string(result)->bytes;
    for (int k = 0; k < count; k++) {
        memcpy(at, as_string(arguments[k])->bytes, as_string(arguments[k])->length);
        at += as_string(arguments[k])->length;
    }
    return result;
}

static Value builtin_string_less(int count, Value *arguments) {
    (void)count;
    if (!check_string(arguments[0]) || !check_string(arguments[1]))
        return UNSPECIFIED;
    return boolean(strcmp(as_string(arguments[0])->bytes, as_string(arguments[1])->bytes) < 0);
}

static Value builtin_string_to_symbol(int count, Value *arguments) {
    (void)count;
    return check_string(arguments[0]) ? intern_bytes(as_string(arguments[0])->bytes, as_string(arguments[0])->length)
                                      : UNSPECIFIED;
}

static Value builtin_symbol_to_string(int count, Value *arguments) {
    (void)count;
    if (!is_symbol(arguments[0]))
        return fail_type("a symbol", arguments[0]);
    return make_string(as_symbol(arguments[0])->name, as_symbol(arguments[0])->length);
}

static Value builtin_string_to_list(int count, Value *arguments) {
    (void)count;
    if (!check_string(arguments[0]))
        return UNSPECIFIED;
    Value list = NIL;
    for (size_t k = as_string(arguments[0])->length; k > 0; k--)
        list = cons(make_char((unsigned char)as_string(arguments[0])->bytes[k - 1]), list);
    return list;
}

static Value builtin_list_to_string(int count, Value *arguments) {
    (void)count;
    Port *port = new_port(), *saved = output;
    output = port;
    for (Value rest = arguments[0]; is_pair(rest); rest = cdr(rest)) {
        if (!is_char(car(rest)))
            fail_type("a character", car(rest));
        write_byte((char)char_value(car(rest)));
    }
    output = saved;
    return port_text(port);
}

static Value builtin_string_search(int count, Value *arguments) {
    (void)count;
    if (!check_string(arguments[0]) || !check_string(arguments[1]))
        return UNSPECIFIED;
    const String *needle = as_string(arguments[0]), *text = as_string(arguments[1]);
    for (size_t at = 0; at + needle->length <= text->length; at++)
        if (memcmp(text->bytes + at, needle->bytes, needle->length) == 0)
            return make_fixnum((int64_t)at);
    return FALSE;
}

static Value builtin_gensym(int count, Value *arguments) {
    (void)count, (void)arguments;
    return new_symbol("g", 1);
}

// ---- Vectors and tables ----------------------------------------------------------------------------------------------

static Value builtin_make_vector(int count, Value *arguments) {
    int64_t length = check_index(arguments[0], 10000000);
    return length < 0 ? UNSPECIFIED : make_vector((size_t)length, count == 2 ? arguments[1] : make_fixnum(0));
}

static Value builtin_vector(int count, Value *arguments) {
    Value vector = make_vector((size_t)count, NIL);
    for (int k = 0; k < count; k++)
        as_vector(vector)->items[k] = arguments[k];
    return vector;
}

static Value builtin_vector_length(int count, Value *arguments) {
    (void)count;
    if (!has_type(arguments[0], VECTOR))
        return fail_type("a vector", arguments[0]);
    return make_fixnum((int64_t)as_vector(arguments[0])->length);
}

static Value builtin_vector_ref(int count, Value *arguments) {
    return (void)count, vector_ref(arguments[0], arguments[1]);
}

static Value builtin_vector_set(int count, Value *arguments) {
    (void)count;
    vector_ref(arguments[0], arguments[1]);
    if (machine.failure == UNBOUND)
        as_vector(arguments[0])->items[fixnum_value(arguments[1])] = arguments[2];
    return UNSPECIFIED;
}

static Value builtin_vector_to_list(int count, Value *arguments) {
    (void)count;
    if (!has_type(arguments[0], VECTOR))
        return fail_type("a vector", arguments[0]);
    Value list = NIL;
    for (size_t k = as_vector(arguments[0])->length; k > 0; k--)
        list = cons(as_vector(arguments[0])->items[k - 1], list);
    return list;
}

static Value builtin_list_to_vector(int count, Value *arguments) { return (void)count, list_to_vector(arguments[0]); }

// Depends on contents and never on addresses, so that tables are listed in the same order in every run.
static uint32_t hash_value(Value value) {
    if (is_fixnum(value))
        return (uint32_t)fixnum_value(value) * 2654435761u;
    if (is_symbol(value))
        return hash_bytes(as_symbol(value)->name, as_symbol(value)->length);
    if (is_string(value))
        return hash_bytes(as_string(value)->bytes, as_string(value)->length) + 1;
    if (is_pair(value)) {
        uint32_t hash = 17;
        for (; is_pair(value); value = cdr(value))
            hash = hash * 31 + hash_value(car(value));
        return hash;
    }
    if (is_number(value))
        return (uint32_t)(int64_t)fmod(to_double(value), 2147483647.0);
    return is_object(value) ? ((Object *)value)->type : (uint32_t)value;
}

static Value builtin_make_table(int count, Value *arguments) {
    (void)count, (void)arguments;
    Table *table = allocate(TABLE, sizeof *table);
    table->bucket_count = 8;
    table->buckets = check_memory(calloc(table->bucket_count, sizeof(TableEntry *)));
    return (Value)table;
}

static void grow_table(Table *table) {
    TableEntry **old = table->buckets;
    size_t old_count = table->bucket_count;
    table->bucket_count *= 2;
    table->buckets = check_memory(calloc(table->bucket_count, sizeof(TableEntry *)));
    for (size_t k = 0; k < old_count; k++)
        for (TableEntry *entry = old[k], *next; entry != NULL; entry = next) {
            next = entry->next;
            TableEntry **bucket = &table->buckets[hash_value(entry->key) % table->bucket_count];
            entry->next = *bucket;
            *bucket = entry;
        }
    free(old);
}

static TableEntry **table_link(Table *table, Value key) {
    TableEntry **link = &table->buckets[hash_value(key) % table->bucket_count];
    while (*link != NULL && !equal_values((*link)->key, key))
        link = &(*link)->next;
    return link;
}

static bool check_table(Value value) {
    if (!has_type(value, TABLE))
        fail_type("a table", value);
    return has_type(value, TABLE);
}

static Value builtin_table_ref(int count, Value *arguments) {
    if (!check_table(arguments[0]))
        return UNSPECIFIED;
    TableEntry *entry = *table_link((Table *)arguments[0], arguments[1]);
    return entry != NULL ? entry->value : count == 3 ? arguments[2] : FALSE;
}

static Value builtin_table_set(int count, Value *arguments) {
    (void)count;
    if (!check_table(arguments[0]))
        return UNSPECIFIED;
    Table *table = (Table *)arguments[0];
    TableEntry **link = table_link(table, arguments[1]);
    if (*link == NULL) {
        if (table->count >= table->bucket_count) {
            grow_table(table);
            link = table_link(table, arguments[1]);
        }
        *link = check_memory(calloc(1, sizeof **link));
        (*link)->key = arguments[1];
        table->count++;
    }
    (*link)->value = arguments[2];
    return UNSPECIFIED;
}

static Value builtin_table_delete(int count, Value *arguments) {
    (void)count;
    if (!check_table(arguments[0]))
        return UNSPECIFIED;
    TableEntry **link = table_link((Table *)arguments[0], arguments[1]), *entry = *link;
    if (entry == NULL)
        return FALSE;
    *link = entry->next;
    free(entry);
    ((Table *)arguments[0])->count--;
    return TRUE;
}

static Value builtin_table_to_list(int count, Value *arguments) {
    (void)count;
    Value list = NIL;
    if (!check_table(arguments[0]))
        return UNSPECIFIED;
    Table *table = (Table *)arguments[0];
    for (size_t k = 0; k < table->bucket_count; k++)
        for (TableEntry *entry = table->buckets[k]; entry != NULL; entry = entry->next)
            list = cons(cons(entry->key, entry->value), list);
    return list;
}

// ---- Records, promises, conditions -----------------------------------------------------------------------------------

static Value builtin_make_record(int count, Value *arguments) {
    Record *record = allocate(RECORD, sizeof *record + (size_t)(count - 1) * sizeof(Value));
    record->type = arguments[0];
    record->length = (size_t)count - 1;
    for (int k = 1; k < count; k++)
        record->fields[k - 1] = arguments[k];
    return (Value)record;
}

static bool is_record(Value type, Value value) { return has_type(value, RECORD) && ((Record *)value)->type == type; }

static Value builtin_is_record(int count, Value *arguments) {
    return (void)count, boolean(is_record(arguments[0], arguments[1]));
}

static Value builtin_record_ref(int count, Value *arguments) {
    (void)count;
    if (!is_record(arguments[0], arguments[1]))
        return fail("wrong record type", list2(arguments[0], arguments[1]));
    return ((Record *)arguments[1])->fields[fixnum_value(arguments[2])];
}

static Value builtin_record_set(int count, Value *arguments) {
    (void)count;
    if (!is_record(arguments[0], arguments[1]))
        return fail("wrong record type", list2(arguments[0], arguments[1]));
    ((Record *)arguments[1])->fields[fixnum_value(arguments[2])] = arguments[3];
    return UNSPECIFIED;
}

static Value builtin_make_promise(int count, Value *arguments) {
    (void)count;
    Promise *promise = allocate(PROMISE, sizeof *promise);
    promise->value = arguments[0];
    return (Value)promise;
}

static Value builtin_promise_is_forced(int count, Value *arguments) {
    (void)count;
    if (!has_type(arguments[0], PROMISE))
        return fail_type("a promise", arguments[0]);
    return boolean(((Promise *)arguments[0])->forced);
}

static Value builtin_promise_value(int count, Value *arguments) {
    (void)count;
    return has_type(arguments[0], PROMISE) ? ((Promise *)arguments[0])->value : fail_type("a promise", arguments[0]);
}

static Value builtin_promise_set(int count, Value *arguments) {
    (void)count;
    Promise *promise = (Promise *)arguments[0];
    promise->forced = true;
    promise->value = arguments[1];
    return arguments[1];
}

static Value builtin_raise(int count, Value *arguments) {
    (void)count;
    machine.failure = arguments[0];
    return UNSPECIFIED;
}

static Value builtin_error(int count, Value *arguments) {
    if (!check_string(arguments[0]))
        return UNSPECIFIED;
    return fail(as_string(arguments[0])->bytes, builtin_list(count - 1, arguments + 1));
}

static Value builtin_is_condition(int count, Value *arguments) {
    return (void)count, boolean(has_type(arguments[0], CONDITION));
}

static Value builtin_condition_message(int count, Value *arguments) {
    (void)count;
    return has_type(arguments[0], CONDITION) ? ((Condition *)arguments[0])->message
                                             : fail_type("a condition", arguments[0]);
}

static Value builtin_condition_irritants(int count, Value *arguments) {
    (void)count;
    return has_type(arguments[0], CONDITION) ? ((Condition *)arguments[0])->irritants
                                             : fail_type("a condition", arguments[0]);
}

// ---- Input and output ------------------------------------------------------------------------------------------------

static Value write_to(int count, Value *arguments, bool quoted) {
    Port *saved = output;
    if (count == 2 && !has_type(arguments[1], PORT))
        return fail_type("a port", arguments[1]);
    output = count == 2 ? (Port *)arguments[1] : NULL;
    write_value(arguments[0], quoted);
    output = saved;
    return UNSPECIFIED;
}

static Value builtin_display(int count, Value *arguments) { return write_to(count, arguments, false); }
static Value builtin_write(int count, Value *arguments) { return write_to(count, arguments, true); }

static Value builtin_newline(int count, Value *arguments) {
    Value both[2] = {make_char('\n'), count == 1 ? arguments[0] : NIL};
    return write_to(count + 1, both, false);
}

static Value builtin_open_output_string(int count, Value *arguments) {
    (void)count, (void)arguments;
    return (Value)new_port();
}

static Value builtin_get_output_string(int count, Value *arguments) {
    (void)count;
    return has_type(arguments[0], PORT) ? port_text((Port *)arguments[0]) : fail_type("a port", arguments[0]);
}

static Value builtin_read_from_string(int count, Value *arguments) {
    (void)count;
    if (!check_string(arguments[0]))
        return UNSPECIFIED;
    Reader reader = {as_string(arguments[0])->bytes, as_string(arguments[0])->bytes + as_string(arguments[0])->length};
    return read_value(&reader);
}

// ---- Registration ----------------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    int least, most;
    Function *function;
} builtins[] = {
    {"+", 0, -1, builtin_add},
    {"*", 0, -1, builtin_multiply},
    {"-", 1, -1, builtin_subtract},
    {"/", 1, -1, builtin_divide},
    {"=", 1, -1, builtin_equal_numbers},
    {"<", 1, -1, builtin_less},
    {">", 1, -1, builtin_greater},
    {"<=", 1, -1, builtin_less_equal},
    {">=", 1, -1, builtin_greater_equal},
    {"quotient", 2, 2, builtin_quotient},
    {"remainder", 2, 2, builtin_remainder},
    {"modulo", 2, 2, builtin_modulo},
    {"gcd", 0, -1, builtin_gcd},
    {"min", 1, -1, builtin_min},
    {"max", 1, -1, builtin_max},
    {"abs", 1, 1, builtin_abs},
    {"floor", 1, 1, builtin_floor},
    {"ceiling", 1, 1, builtin_ceiling},
    {"truncate", 1, 1, builtin_truncate},
    {"round", 1, 1, builtin_round},
    {"expt", 2, 2, builtin_expt},
    {"sqrt", 1, 1, builtin_sqrt},
    {"integer-sqrt", 1, 1, builtin_integer_sqrt},
    {"sin", 1, 1, builtin_sin},
    {"cos", 1, 1, builtin_cos},
    {"atan", 1, 1, builtin_atan},
    {"exp", 1, 1, builtin_exp},
    {"log", 1, 1, builtin_log},
    {"numerator", 1, 1, builtin_numerator},
    {"denominator", 1, 1, builtin_denominator},
    {"exact", 1, 1, builtin_exact},
    {"inexact", 1, 1, builtin_inexact},
    {"number?", 1, 1, builtin_is_number},
    {"exact?", 1, 1, builtin_is_exact},
    {"rational?", 1, 1, builtin_is_rational},
    {"integer?", 1, 1, builtin_is_integer},
    {"number->string", 1, 2, builtin_number_to_string},
    {"string->number", 1, 2, builtin_string_to_number},
    {"cons", 2, 2, builtin_cons},
    {"car", 1, 1, builtin_car},
    {"cdr", 1, 1, builtin_cdr},
    {"set-car!", 2, 2, builtin_set_car},
    {"set-cdr!", 2, 2, builtin_set_cdr},
    {"list", 0, -1, builtin_list},
    {"length", 1, 1, builtin_length},
    {"append", 0, -1, builtin_append},
    {"reverse", 1, 1, builtin_reverse},
    {"list-tail", 2, 2, builtin_list_tail},
    {"memq", 2, 2, builtin_memv},
    {"memv", 2, 2, builtin_memv},
    {"member", 2, 2, builtin_member},
    {"assq", 2, 2, builtin_assv},
    {"assv", 2, 2, builtin_assv},
    {"assoc", 2, 2, builtin_assoc},
    {"eq?", 2, 2, builtin_is_eq},
    {"eqv?", 2, 2, builtin_is_eqv},
    {"equal?", 2, 2, builtin_is_equal},
    {"null?", 1, 1, builtin_is_null},
    {"pair?", 1, 1, builtin_is_pair},
    {"not", 1, 1, builtin_not},
    {"symbol?", 1, 1, builtin_is_symbol},
    {"string?", 1, 1, builtin_is_string},
    {"char?", 1, 1, builtin_is_char},
    {"vector?", 1, 1, builtin_is_vector},
    {"boolean?", 1, 1, builtin_is_boolean},
    {"procedure?", 1, 1, builtin_is_procedure},
    {"char->integer", 1, 1, builtin_char_to_integer},
    {"integer->char", 1, 1, builtin_integer_to_char},
    {"char-alphabetic?", 1, 1, builtin_is_alphabetic},
    {"char-numeric?", 1, 1, builtin_is_numeric},
    {"char-whitespace?", 1, 1, builtin_is_whitespace},
    {"char-upcase", 1, 1, builtin_char_upcase},
    {"string-length", 1, 1, builtin_string_length},
    {"string-ref", 2, 2, builtin_string_ref},
    {"substring", 2, 3, builtin_substring},
    {"string-append", 0, -1, builtin_string_append},
    {"string=?", 2, 2, builtin_is_equal},
    {"string<?", 2, 2, builtin_string_less},
    {"string->symbol", 1, 1, builtin_string_to_symbol},
    {"symbol->string", 1, 1, builtin_symbol_to_string},
    {"string->list", 1, 1, builtin_string_to_list},
    {"list->string", 1, 1, builtin_list_to_string},
    {"string-search", 2, 2, builtin_string_search},
    {"gensym", 0, 0, builtin_gensym},
    {"make-vector", 1, 2, builtin_make_vector},
    {"vector", 0, -1, builtin_vector},
    {"vector-length", 1, 1, builtin_vector_length},
    {"vector-ref", 2, 2, builtin_vector_ref},
    {"vector-set!", 3, 3, builtin_vector_set},
    {"vector->list", 1, 1, builtin_vector_to_list},
    {"list->vector", 1, 1, builtin_list_to_vector},
    {"make-table", 0, 0, builtin_make_table},
    {"table-ref", 2, 3, builtin_table_ref},
    {"table-set!", 3, 3, builtin_table_set},
    {"table-delete!", 2, 2, builtin_table_delete},
    {"table->list", 1, 1, builtin_table_to_list},
    {"make-record", 1, -1, builtin_make_record},
    {"record-is?", 2, 2, builtin_is_record},
    {"record-ref", 3, 3, builtin_record_ref},
    {"record-set!", 4, 4, builtin_record_set},
    {"make-promise", 1, 1, builtin_make_promise},
    {"promise-forced?", 1, 1, builtin_promise_is_forced},
    {"promise-value", 1, 1, builtin_promise_value},
    {"promise-set!", 2, 2, builtin_promise_set},
    {"raise", 1, 1, builtin_raise},
    {"error", 1, -1, builtin_error},
    {"condition?", 1, 1, builtin_is_condition},
    {"condition-message", 1, 1, builtin_condition_message},
    {"condition-irritants", 1, 1, builtin_condition_irritants},
    {"display", 1, 2, builtin_display},
    {"write", 1, 2, builtin_write},
    {"newline", 0, 1, builtin_newline},
    {"open-output-string", 0, 0, builtin_open_output_string},
    {"get-output-string", 1, 1, builtin_get_output_string},
    {"read-from-string", 1, 1, builtin_read_from_string},
};

static const struct {
    const char *name;
    SpecialForm *function;
} special_forms[] = {
    {"quote", special_quote},
    {"if", special_if},
    {"define", special_define},
    {"set!", special_set},
    {"lambda", special_lambda},
    {"begin", special_begin},
    {"let", special_let},
    {"let*", special_let_star},
    {"letrec", special_letrec},
    {"cond", special_cond},
    {"case", special_case},
    {"and", special_and},
    {"or", special_or},
    {"when", special_when},
    {"unless", special_when},
    {"do", special_do},
    {"quasiquote", special_quasiquote},
    {"delay", special_delay},
    {"cons-stream", special_delay},
    {"define-record-type", special_record},
    {"define-syntax", special_define_syntax},
    {"define-macro", special_define_macro},
};

static void define_builtin(const char *name, int least, int most, Function *function, Control control) {
    Builtin *builtin = allocate(BUILTIN, sizeof *builtin);
    *builtin = (Builtin){builtin->object, name, least, most, function, control};
    as_symbol(intern(name))->value = (Value)builtin;
}

static void start_machine(void) {
    machine.stack = check_memory(malloc(STACK_LIMIT * sizeof(Value)));
    machine.frames = check_memory(malloc(FRAME_LIMIT * sizeof(Frame)));
    machine.handlers = check_memory(malloc(HANDLER_LIMIT * sizeof(Handler)));
    machine.failure = UNBOUND;
    heap.threshold = 20000;
    for (size_t k = 0; k < sizeof builtins / sizeof builtins[0]; k++)
        define_builtin(builtins[k].name, builtins[k].least, builtins[k].most, builtins[k].function, PLAIN);
    define_builtin("apply", 2, -1, NULL, APPLY);
    define_builtin("call/cc", 1, 1, NULL, CALL_CC);
    define_builtin("call-with-handler", 2, 2, NULL, TRY);
    define_builtin("eval", 1, 1, NULL, EVAL);
    for (size_t k = 0; k < sizeof special_forms / sizeof special_forms[0]; k++)
        as_symbol(intern(special_forms[k].name))->special = special_forms[k].function;
    for (size_t k = 0; k < sizeof integrated / sizeof integrated[0]; k++)
        as_symbol(intern(integrated[k].name))->opcode = (int)k;
}

static void stop_machine(void) {
    while (heap.objects != NULL) {
        Object *next = heap.objects->next;
        free_object(heap.objects);
        heap.objects = next;
    }
    free(heap.grey);
    free(machine.stack);
    free(machine.frames);
    free(machine.handlers);
}

// Runs every form of the text; the first one that raises without a handler ends it.
static void run_text(const char *text) {
    Reader reader = {text, text + strlen(text)};
    for (;;) {
        Value form = read_value(&reader), result;
        if (form == END_OF_INPUT && machine.failure == UNBOUND)
            return;
        if (machine.failure != UNBOUND || !evaluate(form, &result)) {
            write_text("uncaught ");
            write_value(machine.failure, true);
            write_byte('\n');
            machine.failure = UNBOUND;
            return;
        }
    }
}

// ==== Programs ========================================================================================================

static const char prelude[] =
    "(define (cadr x) (car (cdr x)))\n"
    "(define (cddr x) (cdr (cdr x)))\n"
    "(define (caar x) (car (car x)))\n"
    "(define (cdar x) (cdr (car x)))\n"
    "(define (caddr x) (car (cddr x)))\n"
    "(define (zero? n) (= n 0))\n"
    "(define (positive? n) (> n 0))\n"
    "(define (negative? n) (< n 0))\n"
    "(define (even? n) (= (remainder n 2) 0))\n"
    "(define (odd? n) (not (even? n)))\n"
    "(define (square x) (* x x))\n"
    "(define (list-ref items k) (car (list-tail items k)))\n"
    "(define (map1 f items)\n"
    "  (let loop ((rest items) (done '()))\n"
    "    (if (null? rest) (reverse done) (loop (cdr rest) (cons (f (car rest)) done)))))\n"
    "(define (any-null? lists) (and (pair? lists) (or (null? (car lists)) (any-null? (cdr lists)))))\n"
    "(define (map f items . more)\n"
    "  (if (null? more)\n"
    "      (map1 f items)\n"
    "      (let loop ((lists (cons items more)) (done '()))\n"
    "        (if (any-null? lists)\n"
    "            (reverse done)\n"
    "            (loop (map1 cdr lists) (cons (apply f (map1 car lists)) done))))))\n"
    "(define (for-each f items)\n"
    "  (when (pair? items)\n"
    "    (f (car items))\n"
    "    (for-each f (cdr items))))\n"
    "(define (filter keep? items)\n"
    "  (let loop ((rest items) (kept '()))\n"
    "    (cond ((null? rest) (reverse kept))\n"
    "          ((keep? (car rest)) (loop (cdr rest) (cons (car rest) kept)))\n"
    "          (else (loop (cdr rest) kept)))))\n"
    "(define (fold f start items) (if (null? items) start (fold f (f (car items) start) (cdr items))))\n"
    "(define (reduce f start items) (if (null? items) start (fold f (car items) (cdr items))))\n"
    "(define (iota n . from)\n"
    "  (let loop ((k (- n 1)) (items '()))\n"
    "    (if (< k 0) items (loop (- k 1) (cons (+ k (if (null? from) 0 (car from))) items)))))\n"
    "(define (sort items before?)\n"
    "  (define (merge a b done)\n"
    "    (cond ((null? a) (append (reverse done) b))\n"
    "          ((null? b) (append (reverse done) a))\n"
    "          ((before? (car b) (car a)) (merge a (cdr b) (cons (car b) done)))\n"
    "          (else (merge (cdr a) b (cons (car a) done)))))\n"
    "  (define (split items a b) (if (null? items) (list a b) (split (cdr items) (cons (car items) b) a)))\n"
    "  (define (sort-pairs items)\n"
    "    (if (or (null? items) (null? (cdr items)))\n"
    "        items\n"
    "        (let ((halves (split items '() '())))\n"
    "          (merge (sort-pairs (car halves)) (sort-pairs (cadr halves)) '()))))\n"
    "  (sort-pairs items))\n"
    "(define (string-join strings between)\n"
    "  (if (null? strings)\n"
    "      \"\"\n"
    "      (fold (lambda (next text) (string-append text between next)) (car strings) (cdr strings))))\n"
    "(define (force promise)\n"
    "  (if (promise-forced? promise)\n"
    "      (promise-value promise)\n"
    "      (let ((value ((promise-value promise))))\n"
    "        (if (promise-forced? promise) (promise-value promise) (promise-set! promise value)))))\n"
    "(define (stream-cdr stream) (force (cdr stream)))\n"
    "(define (stream-head stream n) (if (= n 0) '() (cons (car stream) (stream-head (stream-cdr stream) (- n 1)))))\n"
    "(define (print . items) (for-each display items) (newline))\n"
    "(define-syntax guard\n"
    "  (syntax-rules ()\n"
    "    ((_ (name handler ...) body ...)\n"
    "     (call-with-handler (lambda (name) handler ...) (lambda () body ...)))))\n";

static const struct {
    const char *name;
    const char *text;
} programs[] = {
    {"arithmetic",
     "(define (fact n) (if (= n 0) 1 (* n (fact (- n 1)))))\n"
     "(define (power-sum n) (fold + 0 (map (lambda (k) (expt k 5)) (iota n 1))))\n"
     "(print \"20! \" (fact 20) \", 30! \" (fact 30))\n"
     "(print \"30!/28! \" (/ (fact 30) (fact 28)) \", digits of 200! \" (string-length (number->string (fact 200))))\n"
     "(print \"remainder \" (remainder (fact 40) (+ (expt 2 89) -1)) \", modulo \" (modulo (- (expt 3 70)) (expt 10 12)))\n"
     "(print \"gcd \" (gcd (fact 25) (expt 6 40)) \", root \" (integer-sqrt (expt 10 41)) \", exact root \" (sqrt 1/1369))\n"
     "(print \"power sum \" (power-sum (* 30 scale)))\n"
     "(print \"hex \" (number->string (expt 7 30) 16) \", back \" (= (string->number (number->string (expt 7 30) 16) 16) (expt 7 30)))\n"
     "(define (harmonic n) (fold (lambda (k sum) (+ sum (/ 1 k))) 0 (iota n 1)))\n"
     "(print \"harmonic 20 \" (harmonic 20) \" about \" (inexact (harmonic 20)))\n"
     "(define (binomial n k) (/ (fact n) (* (fact k) (fact (- n k)))))\n"
     "(define (bernoulli n)\n"
     "  (define table (make-vector (+ n 1) 0))\n"
     "  (vector-set! table 0 1)\n"
     "  (do ((m 1 (+ m 1))) ((> m n) (vector-ref table n))\n"
     "    (do ((k 0 (+ k 1)) (sum 0 (+ sum (* (binomial (+ m 1) k) (vector-ref table k)))))\n"
     "        ((= k m) (vector-set! table m (- (/ sum (+ m 1))))))))\n"
     "(print \"bernoulli \" (map bernoulli '(1 2 4 10 12 16)))\n"
     "(print \"rounding \" (map round '(5/2 7/2 -5/2 2.5 -0.75)) (map floor '(-7/2 3.7)) (map truncate '(-7/2 -3.7)))\n"
     "(print \"mixed \" (+ 1/3 2/3) \" \" (* 1.5 2/3) \" \" (max 1/2 1/3 0.25) \" \" (exact 0.375) \" \" (expt 2/3 -3))\n"},
    {"pi", "; Gibbons' spigot: decimal digits of pi from exact integers only\n"
           "(define (pi-digits n)\n"
           "  (let loop ((q 1) (r 0) (t 1) (k 1) (m 3) (x 3) (left n) (digits '()))\n"
           "    (cond ((= left 0) (list->string (reverse digits)))\n"
           "          ((< (+ (* 4 q) (- r t)) (* m t))\n"
           "           (loop (* 10 q) (* 10 (- r (* m t))) t k\n"
           "                 (- (quotient (* 10 (+ (* 3 q) r)) t) (* 10 m)) x\n"
           "                 (- left 1) (cons (integer->char (+ 48 m)) digits)))\n"
           "          (else\n"
           "           (loop (* q k) (* (+ (* 2 q) r) x) (* t x) (+ k 1)\n"
           "                 (quotient (+ (* q (+ (* 7 k) 2)) (* r x)) (* t x)) (+ x 2)\n"
           "                 left digits)))))\n"
           "(define digits (pi-digits (+ 20 (* 12 scale))))\n"
           "(print \"pi \" (substring digits 0 20) \" ... \" (substring digits (- (string-length digits) 10)))\n"},
    {"recursion",
     "(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))\n"
     "(define (tak x y z) (if (not (< y x)) z (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))))\n"
     "(define (ackermann m n)\n"
     "  (cond ((= m 0) (+ n 1))\n"
     "        ((= n 0) (ackermann (- m 1) 1))\n"
     "        (else (ackermann (- m 1) (ackermann m (- n 1))))))\n"
     "(define (count-to n) (let loop ((k 0) (sum 0)) (if (= k n) sum (loop (+ k 1) (+ sum k)))))\n"
     "(define (deep n) (if (= n 0) 0 (+ 1 (deep (- n 1)))))\n"
     "(define (my-even? n) (if (= n 0) #t (my-odd? (- n 1))))\n"
     "(define (my-odd? n) (if (= n 0) #f (my-even? (- n 1))))\n"
     "(define size (min 21 (+ 10 scale)))\n"
     "(print \"fib \" (fib size) \", tak \" (tak size (quotient size 2) (quotient size 4)) \", ackermann \" (ackermann 2 size))\n"
     "(print \"loop \" (count-to (* 300 scale)) \", deep \" (deep (* 100 scale)) \", even \" (my-even? (* 101 scale)))\n"},
    {"lists",
     "(define (random-numbers n seed)\n"
     "  (let loop ((k n) (x seed) (items '()))\n"
     "    (if (= k 0) items (loop (- k 1) (modulo (+ (* x 1103515245) 12345) 2147483648) (cons (modulo (quotient x 64) 1000) items)))))\n"
     "(define numbers (random-numbers (* 40 scale) 7))\n"
     "(define sorted (sort numbers <))\n"
     "(define (ordered? items) (or (null? items) (null? (cdr items)) (and (<= (car items) (cadr items)) (ordered? (cdr items)))))\n"
     "(print \"sorted \" (ordered? sorted) \" least \" (car sorted) \" middle \" (list-ref sorted (* 20 scale)) \" sum \" (apply + sorted))\n"
     "(define (queens n)\n"
     "  (define (safe? column distance placed)\n"
     "    (or (null? placed)\n"
     "        (and (not (= (car placed) column))\n"
     "             (not (= (car placed) (+ column distance)))\n"
     "             (not (= (car placed) (- column distance)))\n"
     "             (safe? column (+ distance 1) (cdr placed)))))\n"
     "  (define (place row placed)\n"
     "    (if (= row n)\n"
     "        1\n"
     "        (fold + 0 (map (lambda (column) (if (safe? column 1 placed) (place (+ row 1) (cons column placed)) 0)) (iota n)))))\n"
     "  (place 0 '()))\n"
     "(define (permutations items)\n"
     "  (if (null? items)\n"
     "      '(())\n"
     "      (apply append\n"
     "             (map (lambda (first)\n"
     "                    (map (lambda (rest) (cons first rest))\n"
     "                         (permutations (filter (lambda (x) (not (eqv? x first))) items))))\n"
     "                  items))))\n"
     "(print \"queens \" (map queens (iota (min 5 (+ 2 (quotient scale 3))) 4)) \", permutations \" (length (permutations '(a b c d e))))\n"
     "(define (sieve n)\n"
     "  (define composite (make-vector (+ n 1) #f))\n"
     "  (let loop ((k 2) (primes '()))\n"
     "    (cond ((> k n) (reverse primes))\n"
     "          ((vector-ref composite k) (loop (+ k 1) primes))\n"
     "          (else (do ((m (* k k) (+ m k))) ((> m n)) (vector-set! composite m #t))\n"
     "                (loop (+ k 1) (cons k primes))))))\n"
     "(define primes (sieve (* 100 scale)))\n"
     "(print \"primes \" (length primes) \" last \" (car (reverse primes)) \" \" `(first three ,@(list (car primes) (cadr primes)) . ,(caddr primes)))\n"
     "(print (map + '(1 2 3) '(10 20 30)) (assq 'b '((a 1) (b 2))) (member '(x) '(w (x) y)) (list-tail '(1 2 3 4) 2))\n"},
    {"strings",
     "(define text \"the quick brown fox jumps over the lazy dog and the quiet cat watches the dog run over the hill\")\n"
     "(define (words text)\n"
     "  (let loop ((chars (string->list text)) (word '()) (done '()))\n"
     "    (define (finish) (if (null? word) done (cons (list->string (reverse word)) done)))\n"
     "    (cond ((null? chars) (reverse (finish)))\n"
     "          ((char-whitespace? (car chars)) (loop (cdr chars) '() (finish)))\n"
     "          (else (loop (cdr chars) (cons (car chars) word) done)))))\n"
     "(define counts (make-table))\n"
     "(do ((round 0 (+ round 1))) ((= round (* 2 scale)))\n"
     "  (for-each (lambda (word) (table-set! counts word (+ 1 (table-ref counts word 0)))) (words text)))\n"
     "(define ranked\n"
     "  (sort (table->list counts) (lambda (a b) (or (> (cdr a) (cdr b)) (and (= (cdr a) (cdr b)) (string<? (car a) (car b)))))))\n"
     "(write (list-tail (reverse ranked) (- (length ranked) 3))) (newline)\n"
     "(define (palindrome? text) (equal? (string->list text) (reverse (string->list text))))\n"
     "(define (caesar text shift)\n"
     "  (list->string\n"
     "   (map (lambda (c)\n"
     "          (if (char-alphabetic? c) (integer->char (+ 97 (modulo (+ shift (- (char->integer c) 97)) 26))) c))\n"
     "        (string->list text))))\n"
     "(print (caesar (substring text 0 19) 3) \" / \" (caesar (caesar text 5) -5))\n"
     "(print \"palindromes \" (filter palindrome? '(\"level\" \"lever\" \"noon\" \"\")) \", found at \" (string-search \"fox\" text) \" \" (string-search \"wolf\" text))\n"
     "(write (list #\\a #\\space \"quo\\\"te\" 'symbol (string->symbol \"made\") (string->number \"1/3\") (string->number \"12x\") 1.5 (string-append \"a\" \"b\")))\n"
     "(newline)\n"
     "(define port (open-output-string))\n"
     "(write '(1 (2 . 3) #(4 \"5\")) port)\n"
     "(print (string-length (get-output-string port)) \" \" (equal? (read-from-string (get-output-string port)) '(1 (2 . 3) #(4 \"5\"))))\n"},
    {"macros",
     "(define-syntax while\n"
     "  (syntax-rules ()\n"
     "    ((_ test body ...) (let loop () (when test body ... (loop))))))\n"
     "(define-syntax swap!\n"
     "  (syntax-rules () ((_ a b) (let ((tmp a)) (set! a b) (set! b tmp)))))\n"
     "(define-syntax my-or\n"
     "  (syntax-rules () ((_) #f) ((_ e) e) ((_ e rest ...) (let ((t e)) (if t t (my-or rest ...))))))\n"
     "(define-syntax for\n"
     "  (syntax-rules (in from to)\n"
     "    ((_ x in items body ...) (for-each (lambda (x) body ...) items))\n"
     "    ((_ x from a to b body ...) (do ((x a (+ x 1))) ((> x b)) body ...))))\n"
     "(define-syntax my-let*\n"
     "  (syntax-rules () ((_ () body ...) (let () body ...))\n"
     "    ((_ ((name value) more ...) body ...) (let ((name value)) (my-let* (more ...) body ...)))))\n"
     "(define-macro (unless-zero n . body) `(if (= ,n 0) 'zero (begin ,@body)))\n"
     "(define tmp 1)\n"
     "(define other 2)\n"
     "(swap! tmp other)\n"
     "(define t 5)\n"
     "(print \"swapped \" tmp \" \" other \", hygiene \" (my-or #f t) \", \" (unless-zero 0 'no) (unless-zero 3 'yes))\n"
     "(define total 0)\n"
     "(for x in '(1 2 3) (set! total (+ total x)))\n"
     "(for x from 1 to (* 20 scale) (set! total (+ total x)))\n"
     "(define n (* 30 scale))\n"
     "(define steps 0)\n"
     "(while (> n 1) (set! n (if (even? n) (quotient n 2) (+ 1 (* 3 n)))) (set! steps (+ steps 1)))\n"
     "(print \"total \" total \", steps \" steps \", nested \" (my-let* ((a 1) (b (+ a 1)) (c (* b 3))) (list a b c)))\n"
     "(define-record-type point (make-point x y) point? (x point-x set-point-x!) (y point-y) (tag point-tag))\n"
     "(define p (make-point 3 4))\n"
     "(set-point-x! p 30)\n"
     "(print (point-x p) \" \" (point-y p) \" \" (point-tag p) \" \" (point? p) \" \" (point? 3) \" \" p)\n"
     "(print (case (* 2 3) ((2 3 5 7) 'prime) ((1 4 6 8 9) 'composite) (else 'large)) (cond ((assv 2 '((1 a) (2 b))) => cadr) (else 'none)))\n"},
    {"control",
     "(define (find-first ok? items)\n"
     "  (call/cc (lambda (return) (for-each (lambda (x) (when (ok? x) (return x))) items) 'none)))\n"
     "(print (find-first even? '(1 3 4 5)) \" \" (find-first even? '(1 3 5)))\n"
     "(define (tree-walker tree)\n"
     "  (define caller #f)\n"
     "  (define resume #f)\n"
     "  (define (walk node)\n"
     "    (cond ((null? node) 'skip)\n"
     "          ((pair? node) (walk (car node)) (walk (cdr node)))\n"
     "          (else (call/cc (lambda (rest) (set! resume rest) (caller node))))))\n"
     "  (lambda ()\n"
     "    (call/cc (lambda (return)\n"
     "      (set! caller return)\n"
     "      (if resume (resume 'go) (begin (walk tree) (caller 'done)))))))\n"
     "(define (same-fringe? a b)\n"
     "  (let ((next-a (tree-walker a)) (next-b (tree-walker b)))\n"
     "    (let loop () (let ((x (next-a)) (y (next-b))) (cond ((not (eqv? x y)) #f) ((eq? x 'done) #t) (else (loop)))))))\n"
     "(print (same-fringe? '(1 (2 3) (4)) '((1 2) (3 (4)))) \" \" (same-fringe? '(1 2 3) '(1 (3 2))))\n"
     "(define saved #f)\n"
     "(define visits 0)\n"
     "(define again (+ 100 (call/cc (lambda (k) (set! saved k) 1))))\n"
     "(set! visits (+ visits 1))\n"
     "(print \"again \" again \" visits \" visits)\n"
     "(if (< visits 3) (saved visits))\n"
     "(print \"at last \" again)\n"
     "(define (risky n)\n"
     "  (guard (problem (if (condition? problem) (string-append \"caught \" (condition-message problem)) (list 'caught problem)))\n"
     "    (cond ((= n 0) (car 5))\n"
     "          ((= n 1) (raise 'oops))\n"
     "          ((= n 2) (error \"bad thing\" n 'here))\n"
     "          ((= n 3) (vector-ref (vector 1 2) 2))\n"
     "          ((= n 4) (undefined-name))\n"
     "          ((= n 5) ((lambda (x) x)))\n"
     "          ((= n 6) (/ 5 0))\n"
     "          ((= n 7) (guard (inner (raise (list 'again inner))) (raise 'first)))\n"
     "          ((= n 8) (let loop ((k 0)) (+ 1 (loop (+ k 1)))))\n"
     "          (else (* n n)))))\n"
     "(for-each (lambda (n) (write (risky n)) (newline)) (iota 10))\n"
     "(define numbers (let from ((n 1)) (cons-stream n (from (+ n 1)))))\n"
     "(define (stream-filter ok? s)\n"
     "  (if (ok? (car s)) (cons-stream (car s) (stream-filter ok? (stream-cdr s))) (stream-filter ok? (stream-cdr s))))\n"
     "(define (prime-stream s)\n"
     "  (cons-stream (car s) (prime-stream (stream-filter (lambda (n) (> (remainder n (car s)) 0)) (stream-cdr s)))))\n"
     "(define some-primes (stream-head (prime-stream (stream-cdr numbers)) (+ 8 (* 2 scale))))\n"
     "(print \"primes \"(list-tail some-primes (+ 4 (* 2 scale))))\n"},
    {"symbolic",
     "(define (simplify e)\n"
     "  (if (not (pair? e))\n"
     "      e\n"
     "      (let ((op (car e)) (a (simplify (cadr e))) (b (simplify (caddr e))))\n"
     "        (cond ((and (number? a) (number? b)) (eval (list op a b)))\n"
     "              ((and (eq? op '+) (eqv? a 0)) b)\n"
     "              ((and (eq? op '+) (eqv? b 0)) a)\n"
     "              ((and (eq? op '*) (or (eqv? a 0) (eqv? b 0))) 0)\n"
     "              ((and (eq? op '*) (eqv? a 1)) b)\n"
     "              ((and (eq? op '*) (eqv? b 1)) a)\n"
     "              ((and (eq? op 'expt) (eqv? b 1)) a)\n"
     "              ((and (eq? op 'expt) (eqv? b 0)) 1)\n"
     "              (else (list op a b))))))\n"
     "(define (derive e x)\n"
     "  (cond ((number? e) 0)\n"
     "        ((symbol? e) (if (eq? e x) 1 0))\n"
     "        (else\n"
     "         (case (car e)\n"
     "           ((+ -) (list (car e) (derive (cadr e) x) (derive (caddr e) x)))\n"
     "           ((*) `(+ (* ,(derive (cadr e) x) ,(caddr e)) (* ,(cadr e) ,(derive (caddr e) x))))\n"
     "           ((expt) `(* (* ,(caddr e) (expt ,(cadr e) ,(- (caddr e) 1))) ,(derive (cadr e) x)))\n"
     "           (else (error \"cannot derive\" e))))))\n"
     "(define formula '(+ (* 3 (expt x 4)) (+ (* -2 (expt x 2)) (* 5 x))))\n"
     "(define slope (simplify (derive formula 'x)))\n"
     "(write slope) (newline)\n"
     "(define slope-at (eval (list 'lambda '(x) slope)))\n"
     "(print \"slope at 2 \" (slope-at 2) \", at 1/3 \" (slope-at 1/3) \", curve \" (simplify (derive slope 'x)))\n"
     "(define (newton f df x n) (if (= n 0) x (newton f df (- x (/ (f x) (df x))) (- n 1))))\n"
     "(define root (newton (lambda (x) (- (* x x) 2)) (lambda (x) (* 2 x)) 1 6))\n"
     "(print \"root of 2 has \" (string-length (number->string (numerator root))) \" digits above, about \" (inexact root))\n"
     "(print \"floats \" (sqrt 2) \" \" (exp 1) \" \" (sin 1) \" \" (atan 1) \" \" (log 10) \" \" (expt 2. 0.5) \" \" (/ 1 3.) \" \" 1e21)\n"},
    {"metacircular",
     "; A small evaluator for lambda, if, define, let and quote, run by the evaluator below it\n"
     "(define (lookup name env)\n"
     "  (cond ((null? env) (error \"unbound\" name))\n"
     "        ((assq name (car env)) => cdr)\n"
     "        (else (lookup name (cdr env)))))\n"
     "(define (extend names values env) (cons (map cons names values) env))\n"
     "(define (m-eval e env)\n"
     "  (cond ((symbol? e) (lookup e env))\n"
     "        ((not (pair? e)) e)\n"
     "        (else\n"
     "         (case (car e)\n"
     "           ((quote) (cadr e))\n"
     "           ((if) (if (m-eval (cadr e) env) (m-eval (caddr e) env) (m-eval (car (cdr (cddr e))) env)))\n"
     "           ((lambda) (list 'closure (cadr e) (cddr e) env))\n"
     "           ((let) (m-eval `((lambda ,(map car (cadr e)) ,@(cddr e)) ,@(map cadr (cadr e))) env))\n"
     "           ((define)\n"
     "            (set-car! env (cons (cons (cadr e) (m-eval (caddr e) env)) (car env)))\n"
     "            (cadr e))\n"
     "           (else (m-apply (m-eval (car e) env) (map (lambda (part) (m-eval part env)) (cdr e))))))))\n"
     "(define (m-body forms env) (if (null? (cdr forms)) (m-eval (car forms) env) (begin (m-eval (car forms) env) (m-body (cdr forms) env))))\n"
     "(define (m-apply f arguments)\n"
     "  (if (procedure? f) (apply f arguments) (m-body (caddr f) (extend (cadr f) arguments (car (cdr (cddr f)))))))\n"
     "(define global (list (list (cons '+ +) (cons '- -) (cons '* *) (cons '< <) (cons '= =) (cons 'cons cons) (cons 'car car) (cons 'cdr cdr) (cons 'null? null?))))\n"
     "(define program\n"
     "  '((define fib (lambda (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))))\n"
     "    (define map (lambda (f items) (if (null? items) '() (cons (f (car items)) (map f (cdr items))))))\n"
     "    (define compose (lambda (f g) (lambda (x) (f (g x)))))\n"
     "    (define church (lambda (n) (if (= n 0) (lambda (f) (lambda (x) x)) (lambda (f) (compose f ((church (- n 1)) f))))))\n"
     "    (let ((add (lambda (x) (+ x 1)))) ((((lambda (a) (a (church 3))) (church 2)) add) 0))))\n"
     "(define results (map (lambda (form) (m-eval form global)) program))\n"
     "(print \"metacircular \" results \" \" (m-eval (list 'map 'fib (list 'quote (iota (min 14 (+ 6 scale))))) global))\n"},
    {"garbage",
     "; Builds and drops much structure, and keeps some of it in a tree that is checked at the end\n"
     "(define (insert key tree)\n"
     "  (cond ((null? tree) (vector key '() '()))\n"
     "        ((< key (vector-ref tree 0)) (vector (vector-ref tree 0) (insert key (vector-ref tree 1)) (vector-ref tree 2)))\n"
     "        ((> key (vector-ref tree 0)) (vector (vector-ref tree 0) (vector-ref tree 1) (insert key (vector-ref tree 2))))\n"
     "        (else tree)))\n"
     "(define (tree->list tree rest)\n"
     "  (if (null? tree) rest (tree->list (vector-ref tree 1) (cons (vector-ref tree 0) (tree->list (vector-ref tree 2) rest)))))\n"
     "(define (grow n seed tree)\n"
     "  (if (= n 0) tree (grow (- n 1) (modulo (+ (* seed 7621) 1) 32768) (insert (modulo seed 5000) tree))))\n"
     "(define tree (grow (* 60 scale) 1 '()))\n"
     "(define keys (tree->list tree '()))\n"
     "(define (rising? items) (or (null? (cdr items)) (and (< (car items) (cadr items)) (rising? (cdr items)))))\n"
     "(print \"tree of \" (length keys) \" rising \" (rising? keys) \" sum \" (fold + 0 keys))\n"
     "(define registry (make-table))\n"
     "(do ((k 0 (+ k 1))) ((= k (* 60 scale)))\n"
     "  (table-set! registry (list 'key (modulo (* k k) 97)) (make-vector 3 (number->string k))))\n"
     "(table-delete! registry '(key 0))\n"
     "(print \"registry \" (length (table->list registry)) \" \" (table-ref registry '(key 1)) \" \" (table-ref registry '(key 0) 'gone))\n"
     "(define adders (map (lambda (n) (lambda (x) (set! n (+ n x)) n)) (iota 5)))\n"
     "(for-each (lambda (round) (for-each (lambda (add) (add round)) adders)) (iota 4))\n"
     "(print \"adders \" (map (lambda (add) (add 0)) adders))\n"
     "(let loop ((k 0))\n"
     "  (when (< k (* 4 scale))\n"
     "    (list->vector (iota 200))\n"
     "    (loop (+ k 1))))\n"
     "(error \"the last one is not caught:\" 'scale-independent \"text\" 1/2)\n"},
};

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int scale = strcmp(size, "large") == 0 ? 90 : strcmp(size, "medium") == 0 ? 12 : 1;
    char text[40];
    start_machine();
    run_text(prelude);
    snprintf(text, sizeof text, "(define scale %d)", scale);
    run_text(text);
    for (size_t k = 0; k < sizeof programs / sizeof programs[0]; k++) {
        printf("[%s]\n", programs[k].name);
        run_text(programs[k].text);
    }
    collect();
    printf("instructions %ld collections %d live %lu freed %lu\n", machine.instructions, heap.collections,
           (unsigned long)heap.count, (unsigned long)heap.collected);
    stop_machine();
    return 0;
}
