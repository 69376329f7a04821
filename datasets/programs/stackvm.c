// stackvm: compiles a small language with functions, loops and arrays to bytecode, improves it and interprets it
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CODE 4096
#define MAX_NAMES 64
#define MAX_FUNCTIONS 32
#define MAX_BREAKS 16
#define STACK_SIZE 20000
#define HEAP_SIZE 200000
#define MAX_FRAMES 2000

typedef enum {
    OP_PUSH,
    OP_POP,
    OP_LOAD,
    OP_STORE,
    OP_LOAD_GLOBAL,
    OP_STORE_GLOBAL,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_NEG,
    OP_NOT,
    OP_AND,
    OP_OR,
    OP_XOR,
    OP_SHL,
    OP_SHR,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_JUMP,
    OP_JUMP_IF_ZERO,
    OP_JUMP_KEEP_ZERO,
    OP_JUMP_KEEP_NONZERO,
    OP_CALL,
    OP_RETURN,
    OP_ARRAY,
    OP_GET,
    OP_SET,
    OP_PRINT,
    OP_HALT,
    // What the improver makes of common sequences
    OP_ADD_CONSTANT,
    OP_INCREMENT_LOCAL,
    OP_LOAD_PAIR,
    OP_JUMP_IF_NOT_LESS,
    OP_NOTHING,
    OP_COUNT
} Opcode;

static const char *const opcode_names[OP_COUNT] = {
    "push",  "pop", "load", "store", "loadg", "storeg", "add",  "sub",   "mul",  "div",
    "mod",   "neg", "not",  "and",   "or",    "xor",    "shl",  "shr",   "eq",   "ne",
    "lt",    "le",  "gt",   "ge",    "jump",  "jz",     "jkz",  "jknz",  "call", "return",
    "array", "get", "set",  "print", "halt",  "addc",   "incl", "load2", "jnl",  "nop",
};

typedef struct {
    Opcode opcode;
    int32_t a, b;
} Instruction;

typedef struct {
    char name[24];
    int entry, parameters;
} Function;

typedef struct {
    Instruction code[MAX_CODE];
    int length;
    Function functions[MAX_FUNCTIONS];
    int function_count;
    int global_count;
} Program;

// ---- Compiler --------------------------------------------------------------------------------------------------------

typedef struct {
    char kind; // 'n'umber, 'w'ord, 'o'perator or 0 at the end
    char text[24];
    int32_t number;
} Token;

typedef struct {
    Program *program;
    const char *at;
    int line;
    Token token;
    char globals[MAX_NAMES][24];
    char locals[MAX_NAMES][24];
    int local_count;
    bool in_function;
    int breaks[MAX_BREAKS], break_count;
    const char *error;
} Compiler;

static void fail(Compiler *compiler, const char *message) {
    if (compiler->error != NULL)
        return;
    compiler->error = message;
    printf("line %d: %s near '%s'\n", compiler->line, message, compiler->token.text);
}

static void next_token(Compiler *compiler) {
    Token *token = &compiler->token;
    size_t length = 0;
    for (; isspace((unsigned char)*compiler->at) || *compiler->at == '#'; compiler->at++) {
        if (*compiler->at == '#')
            while (compiler->at[1] != '\n' && compiler->at[1] != '\0')
                compiler->at++;
        compiler->line += *compiler->at == '\n';
    }
    if (*compiler->at == '\0') {
        token->kind = 0;
    } else if (isdigit((unsigned char)*compiler->at)) {
        token->kind = 'n';
        token->number = 0;
        while (isdigit((unsigned char)*compiler->at))
            token->number = (int32_t)((uint32_t)token->number * 10 + (uint32_t)(*compiler->at++ - '0'));
    } else if (isalpha((unsigned char)*compiler->at)) {
        token->kind = 'w';
        while (isalnum((unsigned char)*compiler->at) || *compiler->at == '_') {
            if (length < sizeof token->text - 1)
                token->text[length++] = *compiler->at;
            compiler->at++;
        }
    } else {
        static const char *const pairs[] = {"==", "!=", "<=", ">=", "<<", ">>", "&&", "||"};
        token->kind = 'o';
        token->text[length++] = *compiler->at++;
        for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++)
            if (pairs[k][0] == token->text[0] && pairs[k][1] == *compiler->at) {
                token->text[length++] = *compiler->at++;
                break;
            }
    }
    token->text[length] = '\0';
}

static bool is_token(const Compiler *compiler, const char *text) {
    return compiler->token.kind != 0 && compiler->token.kind != 'n' && strcmp(compiler->token.text, text) == 0;
}

static bool accept(Compiler *compiler, const char *text) {
    if (!is_token(compiler, text))
        return false;
    next_token(compiler);
    return true;
}

static void expect(Compiler *compiler, const char *text) {
    if (!accept(compiler, text))
        fail(compiler, "unexpected token");
}

static int emit(Compiler *compiler, Opcode opcode, int32_t a) {
    Program *program = compiler->program;
    if (program->length == MAX_CODE) {
        fail(compiler, "program too long");
        return 0;
    }
    program->code[program->length] = (Instruction){opcode, a, 0};
    return program->length++;
}

static void patch(Compiler *compiler, int at) { compiler->program->code[at].a = compiler->program->length; }

static int find_name(char names[][24], int count, const char *name) {
    for (int k = count - 1; k >= 0; k--)
        if (strcmp(names[k], name) == 0)
            return k;
    return -1;
}

static int find_function(const Program *program, const char *name) {
    for (int k = 0; k < program->function_count; k++)
        if (strcmp(program->functions[k].name, name) == 0)
            return k;
    return -1;
}

static int declare(Compiler *compiler, const char *name) {
    int *count = compiler->in_function ? &compiler->local_count : &compiler->program->global_count;
    char (*names)[24] = compiler->in_function ? compiler->locals : compiler->globals;
    if (*count == MAX_NAMES) {
        fail(compiler, "too many variables");
        return 0;
    }
    strcpy(names[*count], name);
    return (*count)++;
}

static void expression(Compiler *compiler, int least);

static void access_variable(Compiler *compiler, const char *name, bool store) {
    int local = compiler->in_function ? find_name(compiler->locals, compiler->local_count, name) : -1;
    int global = find_name(compiler->globals, compiler->program->global_count, name);
    if (local >= 0)
        emit(compiler, store ? OP_STORE : OP_LOAD, local);
    else if (global >= 0)
        emit(compiler, store ? OP_STORE_GLOBAL : OP_LOAD_GLOBAL, global);
    else
        fail(compiler, "unknown variable");
}

static void call(Compiler *compiler, const char *name) {
    int count = 0;
    if (!accept(compiler, ")")) {
        do {
            expression(compiler, 0);
            count++;
        } while (accept(compiler, ","));
        expect(compiler, ")");
    }
    if (strcmp(name, "array") == 0 && count == 1) {
        emit(compiler, OP_ARRAY, 0);
        return;
    }
    int function = find_function(compiler->program, name);
    if (function < 0 || compiler->program->functions[function].parameters != count)
        fail(compiler, "unknown function or wrong number of arguments");
    else
        emit(compiler, OP_CALL, function);
}

static void primary(Compiler *compiler) {
    Token token = compiler->token;
    if (token.kind == 'n') {
        next_token(compiler);
        emit(compiler, OP_PUSH, token.number);
    } else if (token.kind == 'w') {
        next_token(compiler);
        if (accept(compiler, "("))
            call(compiler, token.text);
        else
            access_variable(compiler, token.text, false);
    } else if (accept(compiler, "(")) {
        expression(compiler, 0);
        expect(compiler, ")");
    } else if (accept(compiler, "-")) {
        primary(compiler);
        emit(compiler, OP_NEG, 0);
        return;
    } else if (accept(compiler, "!")) {
        primary(compiler);
        emit(compiler, OP_NOT, 0);
        return;
    } else {
        fail(compiler, "expected an operand");
    }
    while (accept(compiler, "[")) {
        expression(compiler, 0);
        expect(compiler, "]");
        emit(compiler, OP_GET, 0);
    }
}

static const struct {
    const char *text;
    int power;
    Opcode opcode;
} operators[] = {
    {"||", 1, OP_JUMP_KEEP_NONZERO},
    {"&&", 2, OP_JUMP_KEEP_ZERO},
    {"|", 3, OP_OR},
    {"^", 4, OP_XOR},
    {"&", 5, OP_AND},
    {"==", 6, OP_EQ},
    {"!=", 6, OP_NE},
    {"<", 7, OP_LT},
    {"<=", 7, OP_LE},
    {">", 7, OP_GT},
    {">=", 7, OP_GE},
    {"<<", 8, OP_SHL},
    {">>", 8, OP_SHR},
    {"+", 9, OP_ADD},
    {"-", 9, OP_SUB},
    {"*", 10, OP_MUL},
    {"/", 10, OP_DIV},
    {"%", 10, OP_MOD},
};

static int find_operator(const Compiler *compiler) {
    for (size_t k = 0; k < sizeof operators / sizeof operators[0]; k++)
        if (is_token(compiler, operators[k].text))
            return (int)k;
    return -1;
}

static void expression(Compiler *compiler, int least) {
    primary(compiler);
    for (int k; compiler->error == NULL && (k = find_operator(compiler)) >= 0 && operators[k].power > least;) {
        next_token(compiler);
        if (operators[k].power <= 2) {
            int jump = emit(compiler, operators[k].opcode, 0);
            emit(compiler, OP_POP, 0);
            expression(compiler, operators[k].power);
            patch(compiler, jump);
        } else {
            expression(compiler, operators[k].power);
            emit(compiler, operators[k].opcode, 0);
        }
    }
}

static void statement(Compiler *compiler);

static void block(Compiler *compiler) {
    expect(compiler, "{");
    while (compiler->error == NULL && !accept(compiler, "}"))
        statement(compiler);
}

static void if_statement(Compiler *compiler) {
    expression(compiler, 0);
    int to_else = emit(compiler, OP_JUMP_IF_ZERO, 0);
    block(compiler);
    if (!accept(compiler, "else")) {
        patch(compiler, to_else);
        return;
    }
    int to_end = emit(compiler, OP_JUMP, 0);
    patch(compiler, to_else);
    if (accept(compiler, "if"))
        if_statement(compiler);
    else
        block(compiler);
    patch(compiler, to_end);
}

static void while_statement(Compiler *compiler) {
    int start = compiler->program->length, outer = compiler->break_count;
    expression(compiler, 0);
    int to_end = emit(compiler, OP_JUMP_IF_ZERO, 0);
    block(compiler);
    emit(compiler, OP_JUMP, start);
    patch(compiler, to_end);
    while (compiler->break_count > outer)
        patch(compiler, compiler->breaks[--compiler->break_count]);
}

static void define_function(Compiler *compiler) {
    Program *program = compiler->program;
    if (compiler->token.kind != 'w' || program->function_count == MAX_FUNCTIONS || compiler->in_function) {
        fail(compiler, "bad function");
        return;
    }
    int over = emit(compiler, OP_JUMP, 0);
    Function *function = &program->functions[program->function_count++];
    strcpy(function->name, compiler->token.text);
    function->entry = program->length;
    next_token(compiler);
    compiler->in_function = true;
    compiler->local_count = 0;
    expect(compiler, "(");
    while (compiler->token.kind == 'w') {
        declare(compiler, compiler->token.text);
        next_token(compiler);
        if (!accept(compiler, ","))
            break;
    }
    expect(compiler, ")");
    function->parameters = compiler->local_count;
    int frame = emit(compiler, OP_NOTHING, 0);
    block(compiler);
    emit(compiler, OP_PUSH, 0);
    emit(compiler, OP_RETURN, 0);
    program->code[frame].a = compiler->local_count; // the size of the frame, for calls
    compiler->in_function = false;
    patch(compiler, over);
}

static void assignment(Compiler *compiler) {
    Token name = compiler->token;
    next_token(compiler);
    if (accept(compiler, "(")) {
        call(compiler, name.text);
        emit(compiler, OP_POP, 0);
    } else if (is_token(compiler, "[")) {
        access_variable(compiler, name.text, false);
        next_token(compiler);
        expression(compiler, 0);
        expect(compiler, "]");
        while (accept(compiler, "[")) {
            emit(compiler, OP_GET, 0);
            expression(compiler, 0);
            expect(compiler, "]");
        }
        expect(compiler, "=");
        expression(compiler, 0);
        emit(compiler, OP_SET, 0);
    } else {
        expect(compiler, "=");
        expression(compiler, 0);
        access_variable(compiler, name.text, true);
    }
    expect(compiler, ";");
}

static void statement(Compiler *compiler) {
    if (accept(compiler, "if")) {
        if_statement(compiler);
    } else if (accept(compiler, "while")) {
        while_statement(compiler);
    } else if (accept(compiler, "fn")) {
        define_function(compiler);
    } else if (accept(compiler, "var")) {
        char name[24];
        strcpy(name, compiler->token.text);
        next_token(compiler);
        expect(compiler, "=");
        expression(compiler, 0);
        declare(compiler, name);
        access_variable(compiler, name, true);
        expect(compiler, ";");
    } else if (accept(compiler, "return")) {
        expression(compiler, 0);
        emit(compiler, OP_RETURN, 0);
        expect(compiler, ";");
    } else if (accept(compiler, "break")) {
        if (compiler->break_count == MAX_BREAKS)
            fail(compiler, "too many breaks");
        else
            compiler->breaks[compiler->break_count++] = emit(compiler, OP_JUMP, 0);
        expect(compiler, ";");
    } else if (accept(compiler, "print")) {
        expression(compiler, 0);
        emit(compiler, OP_PRINT, 0);
        expect(compiler, ";");
    } else if (compiler->token.kind == 'w') {
        assignment(compiler);
    } else {
        fail(compiler, "expected a statement");
    }
}

static bool compile(Program *program, const char *text) {
    static Compiler compiler;
    memset(&compiler, 0, sizeof compiler);
    memset(program, 0, sizeof *program);
    compiler.program = program;
    compiler.at = text;
    compiler.line = 1;
    next_token(&compiler);
    while (compiler.error == NULL && compiler.token.kind != 0)
        statement(&compiler);
    emit(&compiler, OP_HALT, 0);
    return compiler.error == NULL;
}

// ---- Improver --------------------------------------------------------------------------------------------------------

static bool is_jump(Opcode opcode) {
    return (opcode >= OP_JUMP && opcode <= OP_JUMP_KEEP_NONZERO) || opcode == OP_JUMP_IF_NOT_LESS;
}

// All arithmetic wraps around at 32 bits; a division by zero gives 0.
static int32_t arithmetic(Opcode opcode, int32_t left, int32_t right) {
    uint32_t a = (uint32_t)left, b = (uint32_t)right;
    switch (opcode) {
    case OP_ADD: return (int32_t)(a + b);
    case OP_SUB: return (int32_t)(a - b);
    case OP_MUL: return (int32_t)(a * b);
    case OP_DIV: return b == 0 ? 0 : b == UINT32_MAX ? (int32_t)(0 - a) : left / right;
    case OP_MOD: return b == 0 || b == UINT32_MAX ? 0 : left % right;
    case OP_AND: return (int32_t)(a & b);
    case OP_OR: return (int32_t)(a | b);
    case OP_XOR: return (int32_t)(a ^ b);
    case OP_SHL: return (int32_t)(a << (b & 31));
    case OP_SHR: return (int32_t)(a >> (b & 31));
    case OP_EQ: return left == right;
    case OP_NE: return left != right;
    case OP_LT: return left < right;
    case OP_LE: return left <= right;
    case OP_GT: return left > right;
    default: return left >= right;
    }
}

static bool is_binary(Opcode opcode) {
    return opcode >= OP_ADD && opcode <= OP_GE && opcode != OP_NEG && opcode != OP_NOT;
}

static void mark_targets(const Program *program, bool *target) {
    memset(target, 0, MAX_CODE * sizeof *target);
    for (int k = 0; k < program->length; k++)
        if (is_jump(program->code[k].opcode))
            target[program->code[k].a] = true;
    for (int k = 0; k < program->function_count; k++)
        target[program->functions[k].entry] = true;
}

// Replaces a sequence at `k`, which nothing jumps into; returns how many instructions it covered, or 0.
static int improve_at(Instruction *code, const bool *target) {
    Instruction *next = code + 1, *third = code + 2;
    if (target[1])
        return 0;
    if (code->opcode == OP_LOAD && next->opcode == OP_PUSH && !target[2] && !target[3] && third->opcode == OP_ADD &&
        code[3].opcode == OP_STORE && code[3].a == code->a) {
        *code = (Instruction){OP_INCREMENT_LOCAL, code->a, next->a};
        return 4;
    }
    if (code->opcode == OP_PUSH && next->opcode == OP_PUSH && !target[2] && is_binary(third->opcode)) {
        *code = (Instruction){OP_PUSH, arithmetic(third->opcode, code->a, next->a), 0};
        return 3;
    }
    if (code->opcode == OP_PUSH && next->opcode == OP_NEG) {
        *code = (Instruction){OP_PUSH, arithmetic(OP_SUB, 0, code->a), 0};
        return 2;
    }
    if (code->opcode == OP_PUSH && (next->opcode == OP_ADD || next->opcode == OP_SUB)) {
        *code = (Instruction){OP_ADD_CONSTANT, next->opcode == OP_ADD ? code->a : arithmetic(OP_SUB, 0, code->a), 0};
        return 2;
    }
    if (code->opcode == OP_LOAD && next->opcode == OP_LOAD) {
        *code = (Instruction){OP_LOAD_PAIR, code->a, next->a};
        return 2;
    }
    if (code->opcode == OP_LT && next->opcode == OP_JUMP_IF_ZERO) {
        *code = (Instruction){OP_JUMP_IF_NOT_LESS, next->a, 0};
        return 2;
    }
    return 0;
}

// Squeezes out what is marked as nothing, and moves jumps and entries along.
static void compact(Program *program, const bool *keep) {
    static int moved[MAX_CODE + 1];
    int length = 0;
    for (int k = 0; k < program->length; k++) {
        moved[k] = length;
        if (program->code[k].opcode != OP_NOTHING || keep[k])
            program->code[length++] = program->code[k];
    }
    program->length = length;
    for (int k = 0; k < length; k++)
        if (is_jump(program->code[k].opcode))
            program->code[k].a = moved[program->code[k].a];
    for (int k = 0; k < program->function_count; k++)
        program->functions[k].entry = moved[program->functions[k].entry];
}

static void improve(Program *program) {
    static bool target[MAX_CODE + 4], entry[MAX_CODE];
    for (bool changed = true; changed;) {
        changed = false;
        mark_targets(program, target);
        memset(entry, 0, sizeof entry);
        for (int k = 0; k < program->function_count; k++)
            entry[program->functions[k].entry] = true;
        for (int k = 0; k + 3 < program->length; k++) {
            int covered = improve_at(&program->code[k], &target[k]);
            for (int skip = 1; skip < covered; skip++)
                program->code[k + skip] = (Instruction){OP_NOTHING, 0, 0};
            changed = changed || covered > 0;
        }
        for (int k = 0; k < program->length; k++) { // a jump to a jump goes there at once
            Instruction *code = &program->code[k];
            if (is_jump(code->opcode) && program->code[code->a].opcode == OP_JUMP &&
                program->code[code->a].a != code->a) {
                int32_t old = code->a;
                code->a = program->code[old].a;
                changed = changed || code->a > old;
            }
        }
        compact(program, entry);
    }
}

// ---- Interpreter -----------------------------------------------------------------------------------------------------

typedef struct {
    int return_to, base;
} Frame;

typedef struct {
    int32_t stack[STACK_SIZE];
    int32_t heap[HEAP_SIZE];
    int32_t globals[MAX_NAMES];
    Frame frames[MAX_FRAMES];
    long counts[OP_COUNT];
    long executed;
    uint32_t printed; // hash of everything printed
    int32_t last_printed;
    const char *error;
} Machine;

static bool check_element(const Machine *machine, int32_t array, int32_t index) {
    return array > 0 && array < HEAP_SIZE && index >= 0 && index < machine->heap[array - 1];
}

static void run(const Program *program, Machine *machine) {
    const Instruction *code = program->code;
    int32_t *stack = machine->stack;
    int top = -1, base = 0, frames = 0, pc = 0;
    int32_t heap_used = 1;
    memset(machine, 0, sizeof *machine);
    machine->printed = 2166136261u;
    for (;;) {
        const Instruction *instruction = &code[pc++];
        machine->executed++;
        machine->counts[instruction->opcode]++;
        switch (instruction->opcode) {
        case OP_PUSH: stack[++top] = instruction->a; break;
        case OP_POP: top--; break;
        case OP_LOAD: stack[++top] = stack[base + instruction->a]; break;
        case OP_LOAD_PAIR:
            stack[++top] = stack[base + instruction->a];
            stack[++top] = stack[base + instruction->b];
            break;
        case OP_STORE: stack[base + instruction->a] = stack[top--]; break;
        case OP_INCREMENT_LOCAL:
            stack[base + instruction->a] = arithmetic(OP_ADD, stack[base + instruction->a], instruction->b);
            break;
        case OP_LOAD_GLOBAL: stack[++top] = machine->globals[instruction->a]; break;
        case OP_STORE_GLOBAL: machine->globals[instruction->a] = stack[top--]; break;
        case OP_ADD:
            top--;
            stack[top] = (int32_t)((uint32_t)stack[top] + (uint32_t)stack[top + 1]);
            break;
        case OP_SUB:
            top--;
            stack[top] = (int32_t)((uint32_t)stack[top] - (uint32_t)stack[top + 1]);
            break;
        case OP_ADD_CONSTANT: stack[top] = (int32_t)((uint32_t)stack[top] + (uint32_t)instruction->a); break;
        case OP_LT:
            top--;
            stack[top] = stack[top] < stack[top + 1];
            break;
        case OP_MUL:
        case OP_DIV:
        case OP_MOD:
        case OP_AND:
        case OP_OR:
        case OP_XOR:
        case OP_SHL:
        case OP_SHR:
        case OP_EQ:
        case OP_NE:
        case OP_LE:
        case OP_GT:
        case OP_GE:
            top--;
            stack[top] = arithmetic(instruction->opcode, stack[top], stack[top + 1]);
            break;
        case OP_NEG: stack[top] = arithmetic(OP_SUB, 0, stack[top]); break;
        case OP_NOT: stack[top] = stack[top] == 0; break;
        case OP_JUMP: pc = instruction->a; break;
        case OP_JUMP_IF_ZERO:
            if (stack[top--] == 0)
                pc = instruction->a;
            break;
        case OP_JUMP_IF_NOT_LESS:
            top -= 2;
            if (stack[top + 1] >= stack[top + 2])
                pc = instruction->a;
            break;
        case OP_JUMP_KEEP_ZERO:
            if (stack[top] == 0)
                pc = instruction->a;
            break;
        case OP_JUMP_KEEP_NONZERO:
            if (stack[top] != 0)
                pc = instruction->a;
            break;
        case OP_CALL: {
            const Function *function = &program->functions[instruction->a];
            int size = code[function->entry].a;
            if (frames == MAX_FRAMES || top + size + 100 > STACK_SIZE) {
                machine->error = "stack overflow";
                return;
            }
            machine->frames[frames++] = (Frame){pc, base};
            base = top + 1 - function->parameters;
            for (top = base + function->parameters; top < base + size; top++)
                stack[top] = 0;
            top = base + size - 1;
            pc = function->entry + 1;
            break;
        }
        case OP_RETURN: {
            if (frames == 0) {
                machine->error = "return outside of a function";
                return;
            }
            int32_t value = stack[top];
            top = base;
            stack[top] = value;
            pc = machine->frames[--frames].return_to;
            base = machine->frames[frames].base;
            break;
        }
        case OP_ARRAY: {
            int32_t length = stack[top];
            if (length < 0 || length > HEAP_SIZE - 1 - heap_used) {
                machine->error = "out of memory";
                return;
            }
            machine->heap[heap_used] = length;
            stack[top] = heap_used + 1;
            heap_used += length + 1;
            break;
        }
        case OP_GET:
            top--;
            if (!check_element(machine, stack[top], stack[top + 1])) {
                machine->error = "index out of range";
                return;
            }
            stack[top] = machine->heap[stack[top] + stack[top + 1]];
            break;
        case OP_SET:
            top -= 3;
            if (!check_element(machine, stack[top + 1], stack[top + 2])) {
                machine->error = "index out of range";
                return;
            }
            machine->heap[stack[top + 1] + stack[top + 2]] = stack[top + 3];
            break;
        case OP_PRINT:
            machine->last_printed = stack[top--];
            machine->printed = (machine->printed ^ (uint32_t)machine->last_printed) * 16777619u;
            break;
        case OP_HALT: return;
        default: break;
        }
    }
}

// ---- Programs --------------------------------------------------------------------------------------------------------

static const char *const sources[] = {
    "primes",
    "var limit = scale * 100;\n"
    "fn sieve(limit) {\n"
    "  var composite = array(limit + 1); var count = 0; var k = 2;\n"
    "  while (k <= limit) {\n"
    "    if (!composite[k]) {\n"
    "      count = count + 1; var m = k * 2;\n"
    "      while (m <= limit) { composite[m] = 1; m = m + k; }\n"
    "    }\n"
    "    k = k + 1;\n"
    "  }\n"
    "  return count;\n"
    "}\n"
    "print sieve(limit);\n",
    "recursion",
    "fn fib(n) { if (n < 2) { return n; } return fib(n - 1) + fib(n - 2); }\n"
    "fn gcd(a, b) { if (b == 0) { return a; } return gcd(b, a % b); }\n"
    "fn power(base, exponent, modulus) {\n"
    "  var result = 1;\n"
    "  while (exponent > 0) {\n"
    "    if (exponent & 1) { result = result * base % modulus; }\n"
    "    base = base * base % modulus; exponent = exponent >> 1;\n"
    "  }\n"
    "  return result;\n"
    "}\n"
    "var n = 10; if (scale > 9) { n = 17; } if (scale > 99) { n = 22; }\n"
    "print fib(n); print gcd(fib(n) * 12, 360360); print power(7, 123456789, 46337);\n",
    "sorting",
    "var seed = 12345; var n = scale * 30; var data = array(n);\n"
    "fn random(bound) { seed = seed * 1103515245 + 12345; return (seed >> 16) % bound; }\n"
    "fn quicksort(low, high) {\n"
    "  if (low >= high) { return 0; }\n"
    "  var pivot = data[(low + high) / 2]; var i = low; var j = high;\n"
    "  while (i <= j) {\n"
    "    while (data[i] < pivot) { i = i + 1; }\n"
    "    while (data[j] > pivot) { j = j - 1; }\n"
    "    if (i <= j) {\n"
    "      var old = data[i]; data[i] = data[j]; data[j] = old;\n"
    "      i = i + 1; j = j - 1;\n"
    "    }\n"
    "  }\n"
    "  quicksort(low, j); quicksort(i, high);\n"
    "  return 0;\n"
    "}\n"
    "var k = 0; while (k < n) { data[k] = random(10000); k = k + 1; }\n"
    "quicksort(0, n - 1);\n"
    "var sorted = 1; k = 1;\n"
    "while (k < n) { if (data[k - 1] > data[k]) { sorted = 0; break; } k = k + 1; }\n"
    "print sorted; print data[0]; print data[n / 2]; print data[n - 1];\n",
    "queens",
    "var full = 0; var solutions = 0;\n"
    "fn place(columns, left, right) {\n"
    "  if (columns == full) { solutions = solutions + 1; return 1; }\n"
    "  var free = full & ((columns | left | right) ^ -1);\n"
    "  while (free) {\n"
    "    var square = free & -free;\n"
    "    free = free ^ square;\n"
    "    place(columns | square, (left | square) << 1, (right | square) >> 1);\n"
    "  }\n"
    "  return 0;\n"
    "}\n"
    "var n = 6; if (scale > 9) { n = 8; } if (scale > 99) { n = 9; }\n"
    "full = (1 << n) - 1; place(0, 0, 0); print solutions;\n",
    "matrix",
    "fn make(n, seed) {\n"
    "  var m = array(n); var i = 0;\n"
    "  while (i < n) {\n"
    "    m[i] = array(n); var j = 0;\n"
    "    while (j < n) { m[i][j] = (i * seed + j * 7) % 11 - 5; j = j + 1; }\n"
    "    i = i + 1;\n"
    "  }\n"
    "  return m;\n"
    "}\n"
    "fn multiply(a, b, n) {\n"
    "  var c = make(n, 0); var i = 0;\n"
    "  while (i < n) {\n"
    "    var j = 0;\n"
    "    while (j < n) {\n"
    "      var sum = 0; var k = 0;\n"
    "      while (k < n) { sum = sum + a[i][k] * b[k][j]; k = k + 1; }\n"
    "      c[i][j] = sum; j = j + 1;\n"
    "    }\n"
    "    i = i + 1;\n"
    "  }\n"
    "  return c;\n"
    "}\n"
    "var n = 8; if (scale > 9) { n = 20; } if (scale > 99) { n = 60; }\n"
    "var c = multiply(make(n, 3), make(n, 5), n); var trace = 0; var k = 0;\n"
    "while (k < n) { trace = trace + c[k][k]; k = k + 1; }\n"
    "print trace; print c[0][n - 1]; print 6 * 7 - -2 + (1 << 4) / 5 % 3;\n"
    "print 1 < 2 && 3 > 4 || !(5 == 6) && 7;\n",
    "collatz",
    "var best = 0; var where = 0; var n = 1;\n"
    "while (n < scale * 20) {\n"
    "  var k = n; var steps = 0;\n"
    "  while (k != 1) { if (k & 1) { k = 3 * k + 1; } else { k = k / 2; } steps = steps + 1; }\n"
    "  if (steps > best) { best = steps; where = n; }\n"
    "  n = n + 1;\n"
    "}\n"
    "print best; print where;\n",
    "bad index",
    "var a = array(3); a[1] = 5; print a[1]; print a[3];\n",
    "bad depth",
    "fn down(n) { return down(n + 1) + 1; } print down(0);\n",
    "bad syntax",
    "var x = 1;\nx = (2 + ;\n",
    "bad name",
    "fn f(a) { return a; }\nprint f(1, 2);\n",
};

static void print_result(const char *name, const Program *program, const Machine *machine) {
    printf("%s: code %d executed %ld last %d hash %08x%s%s\n", name, program->length, machine->executed,
           (int)machine->last_printed, (unsigned)machine->printed, machine->error != NULL ? ", " : "",
           machine->error != NULL ? machine->error : "");
}

static void print_most_used(const long *counts) {
    bool shown[OP_COUNT] = {false};
    printf("most used");
    for (int rank = 0; rank < 6; rank++) {
        int best = 0;
        for (int k = 1; k < OP_COUNT; k++)
            if (!shown[k] && (shown[best] || counts[k] > counts[best]))
                best = k;
        shown[best] = true;
        printf(" %s %ld", opcode_names[best], counts[best]);
    }
    printf("\n");
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int scale = strcmp(size, "large") == 0 ? 400 : strcmp(size, "medium") == 0 ? 40 : 2;
    static Program program;
    static Machine machine;
    static char text[4096];
    long counts[OP_COUNT] = {0};
    for (size_t k = 0; k < sizeof sources / sizeof sources[0]; k += 2) {
        snprintf(text, sizeof text, "var scale = %d;\n%s", scale, sources[k + 1]);
        printf("[%s]\n", sources[k]);
        if (!compile(&program, text))
            continue;
        run(&program, &machine);
        print_result("as compiled", &program, &machine);
        improve(&program);
        run(&program, &machine);
        print_result("improved", &program, &machine);
        for (int opcode = 0; opcode < OP_COUNT; opcode++)
            counts[opcode] += machine.counts[opcode];
    }
    print_most_used(counts);
    return 0;
}
