// regex: matches regular expressions by backtracking, by a Thompson NFA and by a lazily built DFA, and compares them
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 256
#define MAX_PROGRAM 600
#define MAX_SETS 40
#define MAX_DFA_STATES 96
#define STEP_LIMIT 200000

// ---- Syntax trees ----------------------------------------------------------------------------------------------------

typedef enum { EMPTY, SET, SEQUENCE, CHOICE, REPEAT, START, END } NodeKind;

typedef struct {
    NodeKind kind;
    int left, right; // node numbers
    int least, most; // of REPEAT; most is -1 without a bound
    int set;
    bool lazy;
} Node;

typedef struct {
    uint32_t bits[8]; // one for each byte value
} ByteSet;

typedef struct {
    const char *at;
    const char *error;
    Node nodes[MAX_NODES];
    int node_count;
    ByteSet sets[MAX_SETS];
    int set_count;
} Pattern;

static void set_add(ByteSet *set, int low, int high) {
    for (int byte = low; byte <= high; byte++)
        set->bits[byte >> 5] |= 1u << (byte & 31);
}

static bool set_has(const ByteSet *set, unsigned char byte) { return set->bits[byte >> 5] >> (byte & 31) & 1; }

static void set_invert(ByteSet *set) {
    for (int k = 0; k < 8; k++)
        set->bits[k] = ~set->bits[k];
}

static int new_node(Pattern *pattern, NodeKind kind, int left, int right) {
    if (pattern->node_count == MAX_NODES) {
        pattern->error = "pattern too long";
        return 0;
    }
    pattern->nodes[pattern->node_count] = (Node){kind, left, right, 0, 0, 0, false};
    return pattern->node_count++;
}

static int set_node(Pattern *pattern, ByteSet set) {
    int number = 0;
    while (number < pattern->set_count && memcmp(&pattern->sets[number], &set, sizeof set) != 0)
        number++;
    if (number == MAX_SETS) {
        pattern->error = "too many classes";
        return 0;
    }
    if (number == pattern->set_count)
        pattern->sets[pattern->set_count++] = set;
    int node = new_node(pattern, SET, 0, 0);
    pattern->nodes[node].set = number;
    return node;
}

static void add_named_class(ByteSet *set, char name) {
    ByteSet class = {{0}};
    switch (tolower((unsigned char)name)) {
    case 'd': set_add(&class, '0', '9'); break;
    case 'w':
        set_add(&class, '0', '9');
        set_add(&class, 'a', 'z');
        set_add(&class, 'A', 'Z');
        set_add(&class, '_', '_');
        break;
    case 's':
        set_add(&class, '\t', '\r');
        set_add(&class, ' ', ' ');
        break;
    case 'n': set_add(&class, '\n', '\n'); break;
    default:
        set_add(&class, (unsigned char)name, (unsigned char)name);
        for (int k = 0; k < 8; k++)
            set->bits[k] |= class.bits[k];
        return;
    }
    if (isupper((unsigned char)name))
        set_invert(&class);
    for (int k = 0; k < 8; k++)
        set->bits[k] |= class.bits[k];
}

static int parse_choice(Pattern *pattern);

static int parse_bracket(Pattern *pattern) {
    ByteSet set = {{0}};
    bool inverted = *pattern->at == '^';
    pattern->at += inverted;
    const char *first = pattern->at;
    while (*pattern->at != '\0' && (*pattern->at != ']' || pattern->at == first)) {
        char low = *pattern->at++;
        if (low == '\\' && *pattern->at != '\0') {
            add_named_class(&set, *pattern->at++);
        } else if (pattern->at[0] == '-' && pattern->at[1] != ']' && pattern->at[1] != '\0') {
            char high = pattern->at[1];
            pattern->at += 2;
            if (high < low)
                pattern->error = "range out of order";
            else
                set_add(&set, (unsigned char)low, (unsigned char)high);
        } else {
            set_add(&set, (unsigned char)low, (unsigned char)low);
        }
    }
    if (*pattern->at != ']') {
        pattern->error = "missing ]";
        return 0;
    }
    pattern->at++;
    if (inverted)
        set_invert(&set);
    return set_node(pattern, set);
}

static int parse_atom(Pattern *pattern) {
    ByteSet set = {{0}};
    char c = *pattern->at++;
    switch (c) {
    case '(': {
        int inner = parse_choice(pattern);
        if (*pattern->at != ')') {
            pattern->error = "missing )";
            return 0;
        }
        pattern->at++;
        return inner;
    }
    case '[': return parse_bracket(pattern);
    case '.':
        set_add(&set, '\n', '\n');
        set_invert(&set);
        return set_node(pattern, set);
    case '^': return new_node(pattern, START, 0, 0);
    case '$': return new_node(pattern, END, 0, 0);
    case '*':
    case '+':
    case '?': pattern->error = "nothing to repeat"; return 0;
    case '\\':
        if (*pattern->at == '\0') {
            pattern->error = "pattern ends with a backslash";
            return 0;
        }
        add_named_class(&set, *pattern->at++);
        return set_node(pattern, set);
    default: set_add(&set, (unsigned char)c, (unsigned char)c); return set_node(pattern, set);
    }
}

static int parse_number(Pattern *pattern, int otherwise) {
    if (!isdigit((unsigned char)*pattern->at))
        return otherwise;
    int number = 0;
    while (isdigit((unsigned char)*pattern->at) && number < 1000)
        number = number * 10 + (*pattern->at++ - '0');
    return number;
}

static bool parse_count(Pattern *pattern, int *least, int *most) {
    switch (*pattern->at) {
    case '*': *least = 0, *most = -1; break;
    case '+': *least = 1, *most = -1; break;
    case '?': *least = 0, *most = 1; break;
    case '{':
        pattern->at++;
        *least = *most = parse_number(pattern, 0);
        if (*pattern->at == ',') {
            pattern->at++;
            *most = parse_number(pattern, -1);
        }
        if (*pattern->at != '}' || (*most >= 0 && *most < *least) || *least > 20 || *most > 20)
            pattern->error = "bad count";
        break;
    default: return false;
    }
    if (*pattern->at != '\0')
        pattern->at++;
    return true;
}

static int parse_sequence(Pattern *pattern) {
    int sequence = -1;
    while (pattern->error == NULL && *pattern->at != '\0' && *pattern->at != '|' && *pattern->at != ')') {
        int atom = parse_atom(pattern), least = 0, most = 0;
        while (pattern->error == NULL && parse_count(pattern, &least, &most)) {
            atom = new_node(pattern, REPEAT, atom, 0);
            Node *repeat = &pattern->nodes[atom];
            repeat->least = least;
            repeat->most = most;
            repeat->lazy = *pattern->at == '?';
            pattern->at += repeat->lazy;
        }
        sequence = sequence < 0 ? atom : new_node(pattern, SEQUENCE, sequence, atom);
    }
    return sequence < 0 ? new_node(pattern, EMPTY, 0, 0) : sequence;
}

static int parse_choice(Pattern *pattern) {
    int choice = parse_sequence(pattern);
    while (pattern->error == NULL && *pattern->at == '|') {
        pattern->at++;
        choice = new_node(pattern, CHOICE, choice, parse_sequence(pattern));
    }
    return choice;
}

// ---- Programs --------------------------------------------------------------------------------------------------------

typedef enum { OP_SET, OP_SPLIT, OP_JUMP, OP_START, OP_END, OP_MATCH } Opcode;

typedef struct {
    Opcode opcode;
    int set;
    int x, y; // where to go on; SPLIT prefers x
} Instruction;

typedef struct {
    Instruction code[MAX_PROGRAM];
    int length;
    const ByteSet *sets;
    const char *error;
} Program;

static int emit(Program *program, Opcode opcode, int x, int y) {
    if (program->length == MAX_PROGRAM) {
        program->error = "program too long";
        return 0;
    }
    program->code[program->length] = (Instruction){opcode, 0, x, y};
    return program->length++;
}

static void set_split(Program *program, int at, int inside, int outside, bool lazy) {
    program->code[at].x = lazy ? outside : inside;
    program->code[at].y = lazy ? inside : outside;
}

static void compile_node(Program *program, const Pattern *pattern, int number) {
    const Node *node = &pattern->nodes[number];
    if (program->error != NULL)
        return;
    switch (node->kind) {
    case EMPTY: break;
    case SET: program->code[emit(program, OP_SET, 0, 0)].set = node->set; break;
    case START: emit(program, OP_START, 0, 0); break;
    case END: emit(program, OP_END, 0, 0); break;
    case SEQUENCE:
        compile_node(program, pattern, node->left);
        compile_node(program, pattern, node->right);
        break;
    case CHOICE: {
        int split = emit(program, OP_SPLIT, 0, 0);
        compile_node(program, pattern, node->left);
        int jump = emit(program, OP_JUMP, 0, 0);
        set_split(program, split, split + 1, program->length, false);
        compile_node(program, pattern, node->right);
        program->code[jump].x = program->length;
        break;
    }
    case REPEAT:
        for (int k = 0; k < node->least; k++)
            compile_node(program, pattern, node->left);
        if (node->most < 0) {
            int split = emit(program, OP_SPLIT, 0, 0);
            compile_node(program, pattern, node->left);
            emit(program, OP_JUMP, split, 0);
            set_split(program, split, split + 1, program->length, node->lazy);
            break;
        }
        for (int k = node->least; k < node->most; k++) {
            int split = emit(program, OP_SPLIT, 0, 0);
            compile_node(program, pattern, node->left);
            set_split(program, split, split + 1, program->length, node->lazy);
        }
        break;
    }
}

static const char *compile(Program *program, Pattern *pattern, const char *text) {
    pattern->at = text;
    pattern->error = NULL;
    pattern->node_count = pattern->set_count = 0;
    int root = parse_choice(pattern);
    if (pattern->error == NULL && *pattern->at != '\0')
        pattern->error = "unbalanced )";
    if (pattern->error != NULL)
        return pattern->error;
    program->length = 0;
    program->sets = pattern->sets;
    program->error = NULL;
    compile_node(program, pattern, root);
    emit(program, OP_MATCH, 0, 0);
    return program->error;
}

// ---- Backtracking ----------------------------------------------------------------------------------------------------

typedef struct {
    const Program *program;
    const char *text;
    int length;
    long steps;
    signed char *active; // instructions on the current chain without input, against endless empty loops
} Backtracker;

// The end of the preferred match from `at`, -1 for none, -2 when the search was given up.
static int backtrack(Backtracker *search, int pc, int at) {
    for (;;) {
        if (search->steps++ >= STEP_LIMIT)
            return -2;
        const Instruction *instruction = &search->program->code[pc];
        switch (instruction->opcode) {
        case OP_MATCH: return at;
        case OP_START:
            if (at != 0)
                return -1;
            pc++;
            break;
        case OP_END:
            if (at != search->length)
                return -1;
            pc++;
            break;
        case OP_JUMP: pc = instruction->x; break;
        case OP_SET:
            if (at == search->length ||
                !set_has(&search->program->sets[instruction->set], (unsigned char)search->text[at]))
                return -1;
            at++;
            pc++;
            break;
        case OP_SPLIT: {
            signed char *active = &search->active[pc * (search->length + 1) + at];
            if (*active)
                return -1;
            *active = 1;
            int end = backtrack(search, instruction->x, at);
            if (end == -1)
                end = backtrack(search, instruction->y, at);
            *active = 0;
            return end;
        }
        }
    }
}

// ---- Thompson NFA ----------------------------------------------------------------------------------------------------

typedef struct {
    int members[MAX_PROGRAM];
    int count;
    bool present[MAX_PROGRAM];
} StateSet;

static void clear_states(StateSet *states) {
    for (int k = 0; k < states->count; k++)
        states->present[states->members[k]] = false;
    states->count = 0;
}

static void add_state(const Program *program, StateSet *states, int pc, bool at_start, bool at_end) {
    if (states->present[pc])
        return;
    states->present[pc] = true;
    states->members[states->count++] = pc;
    const Instruction *instruction = &program->code[pc];
    switch (instruction->opcode) {
    case OP_JUMP: add_state(program, states, instruction->x, at_start, at_end); break;
    case OP_SPLIT:
        add_state(program, states, instruction->x, at_start, at_end);
        add_state(program, states, instruction->y, at_start, at_end);
        break;
    case OP_START:
        if (at_start)
            add_state(program, states, pc + 1, at_start, at_end);
        break;
    case OP_END:
        if (at_end)
            add_state(program, states, pc + 1, at_start, at_end);
        break;
    default: break;
    }
}

// Returns whether any match starts at `from`, and the longest end in *end.
static bool simulate(const Program *program, const char *text, int length, int from, int *end) {
    static StateSet sets[2];
    StateSet *current = &sets[0], *next = &sets[1];
    bool matched = false;
    clear_states(current);
    add_state(program, current, 0, from == 0, from == length);
    for (int at = from; current->count > 0; at++) {
        clear_states(next);
        for (int k = 0; k < current->count; k++) {
            int pc = current->members[k];
            const Instruction *instruction = &program->code[pc];
            if (instruction->opcode == OP_MATCH) {
                matched = true;
                *end = at;
            } else if (instruction->opcode == OP_SET && at < length &&
                       set_has(&program->sets[instruction->set], (unsigned char)text[at])) {
                add_state(program, next, pc + 1, false, at + 1 == length);
            }
        }
        StateSet *swap = current;
        current = next;
        next = swap;
    }
    return matched;
}

// ---- Lazy DFA --------------------------------------------------------------------------------------------------------

#define WORDS ((MAX_PROGRAM + 31) / 32)
enum { UNKNOWN = -1, DEAD = -2 };

typedef struct {
    uint32_t members[WORDS];
    bool accepts, accepts_at_end;
    int next[256];
} DfaState;

typedef struct {
    const Program *program;
    DfaState *states;
    int count, flushes;
} Dfa;

static void start_states(const Program *program, uint32_t *members, int pc, bool at_start, bool at_end, bool *accepts) {
    if (members[pc >> 5] >> (pc & 31) & 1)
        return;
    members[pc >> 5] |= 1u << (pc & 31);
    const Instruction *instruction = &program->code[pc];
    if (instruction->opcode == OP_MATCH)
        *accepts = true;
    else if (instruction->opcode == OP_JUMP)
        start_states(program, members, instruction->x, at_start, at_end, accepts);
    else if (instruction->opcode == OP_SPLIT) {
        start_states(program, members, instruction->x, at_start, at_end, accepts);
        start_states(program, members, instruction->y, at_start, at_end, accepts);
    } else if ((instruction->opcode == OP_START && at_start) || (instruction->opcode == OP_END && at_end))
        start_states(program, members, pc + 1, at_start, at_end, accepts);
}

// Finds or makes the state reached by entering the instructions in `seeds`.
static int dfa_state(Dfa *dfa, const uint32_t *seeds, bool at_start) {
    DfaState state;
    memset(&state, 0, sizeof state);
    uint32_t at_end[WORDS] = {0}, any = 0;
    for (int pc = 0; pc < dfa->program->length; pc++) {
        if (!(seeds[pc >> 5] >> (pc & 31) & 1))
            continue;
        any = 1;
        start_states(dfa->program, state.members, pc, at_start, false, &state.accepts);
        start_states(dfa->program, at_end, pc, at_start, true, &state.accepts_at_end);
    }
    if (!any)
        return DEAD;
    for (int k = 0; k < dfa->count; k++)
        if (memcmp(dfa->states[k].members, state.members, sizeof state.members) == 0 &&
            dfa->states[k].accepts_at_end == state.accepts_at_end)
            return k;
    if (dfa->count == MAX_DFA_STATES) {
        dfa->count = 0;
        dfa->flushes++;
    }
    for (int byte = 0; byte < 256; byte++)
        state.next[byte] = UNKNOWN;
    dfa->states[dfa->count] = state;
    return dfa->count++;
}

static bool dfa_match(Dfa *dfa, const char *text, int length, int from, int *end) {
    const Program *program = dfa->program;
    uint32_t first[WORDS] = {1};
    int state = dfa_state(dfa, first, from == 0);
    bool matched = false;
    for (int at = from; state != DEAD; at++) {
        const DfaState *here = &dfa->states[state];
        if (here->accepts || (at == length && here->accepts_at_end)) {
            matched = true;
            *end = at;
        }
        if (at == length)
            break;
        unsigned char byte = (unsigned char)text[at];
        int next = here->next[byte];
        if (next == UNKNOWN) {
            uint32_t seeds[WORDS] = {0};
            for (int pc = 0; pc < program->length; pc++)
                if ((here->members[pc >> 5] >> (pc & 31) & 1) && program->code[pc].opcode == OP_SET &&
                    set_has(&program->sets[program->code[pc].set], byte))
                    seeds[(pc + 1) >> 5] |= 1u << ((pc + 1) & 31);
            int flushes = dfa->flushes;
            next = dfa_state(dfa, seeds, false);
            if (flushes == dfa->flushes)
                dfa->states[state].next[byte] = next;
        }
        state = next;
    }
    return matched;
}

// ---- Comparison ------------------------------------------------------------------------------------------------------

static const char *const patterns[] = {
    "abc",
    "a|b|cd",
    "(ab|a)(bc|c)?",
    "a*b+c?",
    "[a-c]+[^a-c]",
    "^(a|b)*abb$",
    "(a*)*b",
    "(a|aa)+$",
    "x{2,4}y{0,1}z{3}",
    "\\d+(\\.\\d+)?([eE][-+]?\\d+)?",
    "[A-Za-z_]\\w*",
    "\\w+@\\w+\\.(com|org|net)",
    "\"[^\"]*\"",
    "\\s+|\\S+",
    "(0|1(01*0)*1)+",
    "a.?c.*?e",
    "(a?){6}a{6}",
    "[]x-]+",
    "",
};

static const char *const broken_patterns[] = {"(ab", "a)", "*a", "[a-", "a{3,2}", "[z-a]", "ab\\"};

static const char *const texts[] = {
    "abc abb cd",       "aabb",        "xxxyzzz",          "3.14159e-10 42", "user_1@example.org",
    "say \"hi\" twice", "1001 11 110", "aaaaaaaaaaaaaaaa", "-x]x-",          "",
};

static uint32_t random_state = 99;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1103515245u + 12345u;
    return (random_state >> 16) % bound;
}

typedef struct {
    long matches, disagreements, given_up, steps;
    uint32_t hash;
} Totals;

// The preferred match of the backtracker must exist exactly when the longest one does, and be no longer.
static void compare_engines(const Program *program, Dfa *dfa, const char *text, int length, Totals *totals) {
    size_t cells = (size_t)program->length * (size_t)(length + 1);
    Backtracker search = {program, text, length, 0, calloc(cells, 1)};
    if (search.active == NULL)
        exit(1);
    for (int from = 0; from <= length; from++) {
        int longest = -1, dfa_end = -1;
        bool matched = simulate(program, text, length, from, &longest);
        bool dfa_matched = dfa_match(dfa, text, length, from, &dfa_end);
        search.steps = 0;
        int preferred = backtrack(&search, 0, from);
        totals->steps += search.steps;
        totals->given_up += preferred == -2;
        totals->matches += matched;
        totals->disagreements += dfa_matched != matched || dfa_end != longest;
        if (preferred != -2)
            totals->disagreements += (preferred >= 0) != matched || preferred > longest;
        totals->hash = (totals->hash ^ (uint32_t)(longest + 1)) * 16777619u;
        totals->hash = (totals->hash ^ (uint32_t)(preferred + 3)) * 16777619u;
    }
    free(search.active);
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int rounds = strcmp(size, "large") == 0 ? 3000 : strcmp(size, "medium") == 0 ? 300 : 0;
    static Pattern pattern;
    static Program program;
    Dfa dfa = {&program, malloc(MAX_DFA_STATES * sizeof(DfaState)), 0, 0};
    if (dfa.states == NULL)
        return 1;

    for (size_t p = 0; p < sizeof broken_patterns / sizeof broken_patterns[0]; p++)
        printf("%s: %s\n", broken_patterns[p], compile(&program, &pattern, broken_patterns[p]));
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        const char *error = compile(&program, &pattern, patterns[p]);
        if (error != NULL) {
            printf("%s: %s\n", patterns[p], error);
            continue;
        }
        Totals totals = {0, 0, 0, 0, 2166136261u};
        dfa.count = dfa.flushes = 0;
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            compare_engines(&program, &dfa, texts[t], (int)strlen(texts[t]), &totals);
        for (int round = 0; round < rounds; round++) {
            char text[48];
            int length = (int)random_below(sizeof text);
            for (int k = 0; k < length; k++)
                text[k] = "aaabbbcde01. \"@xyz_-"[random_below(20)];
            compare_engines(&program, &dfa, text, length, &totals);
        }
        printf("%s: code %d matches %ld disagreements %ld given up %ld steps %ld states %d hash %08x\n", patterns[p],
               program.length, totals.matches, totals.disagreements, totals.given_up, totals.steps, dfa.count,
               (unsigned)totals.hash);
    }
    free(dfa.states);
    return 0;
}
