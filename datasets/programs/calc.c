// calc: a calculator language with a Pratt parser, user functions, constant folding, derivatives and an evaluator
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 16
#define MAX_ARGUMENTS 4
#define MAX_SYMBOLS 64
#define MAX_CALL_DEPTH 200

// ---- Tokens ----------------------------------------------------------------------------------------------------------

typedef enum {
    T_END,
    T_NUMBER,
    T_NAME,
    T_PLUS,
    T_MINUS,
    T_STAR,
    T_SLASH,
    T_PERCENT,
    T_POWER,
    T_LEFT,
    T_RIGHT,
    T_COMMA,
    T_ASSIGN,
    T_EQUAL,
    T_NOT_EQUAL,
    T_LESS,
    T_LESS_EQUAL,
    T_GREATER,
    T_GREATER_EQUAL,
    T_AND,
    T_OR,
    T_NOT,
    T_QUESTION,
    T_COLON,
    T_PRIME,
    T_BAD
} TokenKind;

typedef struct {
    TokenKind kind;
    double number;
    char name[MAX_NAME];
    ptrdiff_t column;
} Token;

typedef struct {
    const char *start, *at;
    Token token;
    const char *error;
} Lexer;

static TokenKind either(Lexer *lexer, char next, TokenKind longer, TokenKind shorter) {
    if (*lexer->at != next)
        return shorter;
    lexer->at++;
    return longer;
}

static TokenKind read_operator(Lexer *lexer) {
    switch (*lexer->at++) {
    case '+': return T_PLUS;
    case '-': return T_MINUS;
    case '*': return T_STAR;
    case '/': return T_SLASH;
    case '%': return T_PERCENT;
    case '^': return T_POWER;
    case '(': return T_LEFT;
    case ')': return T_RIGHT;
    case ',': return T_COMMA;
    case '?': return T_QUESTION;
    case ':': return T_COLON;
    case '\'': return T_PRIME;
    case '=': return either(lexer, '=', T_EQUAL, T_ASSIGN);
    case '!': return either(lexer, '=', T_NOT_EQUAL, T_NOT);
    case '<': return either(lexer, '=', T_LESS_EQUAL, T_LESS);
    case '>': return either(lexer, '=', T_GREATER_EQUAL, T_GREATER);
    case '&': return either(lexer, '&', T_AND, T_BAD);
    case '|': return either(lexer, '|', T_OR, T_BAD);
    default: return T_BAD;
    }
}

static void advance(Lexer *lexer) {
    Token *token = &lexer->token;
    while (isspace((unsigned char)*lexer->at))
        lexer->at++;
    token->column = lexer->at - lexer->start;
    if (*lexer->at == '\0') {
        token->kind = T_END;
    } else if (isdigit((unsigned char)*lexer->at)) {
        char *end;
        token->kind = T_NUMBER;
        token->number = strtod(lexer->at, &end);
        lexer->at = end;
    } else if (isalpha((unsigned char)*lexer->at)) {
        size_t length = 0;
        for (; isalnum((unsigned char)*lexer->at); lexer->at++)
            if (length < MAX_NAME - 1)
                token->name[length++] = *lexer->at;
        token->name[length] = '\0';
        token->kind = T_NAME;
    } else {
        token->kind = read_operator(lexer);
    }
}

// ---- Trees -----------------------------------------------------------------------------------------------------------

typedef enum {
    N_NUMBER,
    N_PARAMETER,
    N_VARIABLE,
    N_NEGATE,
    N_NOT,
    N_ADD,
    N_SUBTRACT,
    N_MULTIPLY,
    N_DIVIDE,
    N_REMAINDER,
    N_POWER,
    N_EQUAL,
    N_NOT_EQUAL,
    N_LESS,
    N_LESS_EQUAL,
    N_AND,
    N_OR,
    N_CHOOSE,
    N_BUILTIN,
    N_CALL
} NodeKind;

typedef struct Node {
    NodeKind kind;
    int index; // of the parameter, symbol or builtin
    int count;
    double number;
    struct Node *child[MAX_ARGUMENTS];
} Node;

typedef struct Block {
    struct Block *next;
    int used;
    Node nodes[128];
} Block;

typedef struct {
    bool is_function;
    char name[MAX_NAME];
    char parameters[MAX_ARGUMENTS][MAX_NAME];
    int parameter_count;
    double value;
    Node *body;
} Symbol;

typedef enum { B_SQRT, B_SIN, B_COS, B_EXP, B_LOG, B_ABS, B_FLOOR, B_MIN, B_MAX, B_COUNT } Builtin;

static const struct {
    const char *name;
    int arguments;
} builtins[B_COUNT] = {{"sqrt", 1}, {"sin", 1},   {"cos", 1}, {"exp", 1}, {"log", 1},
                       {"abs", 1},  {"floor", 1}, {"min", 2}, {"max", 2}};

typedef struct {
    Symbol symbols[MAX_SYMBOLS];
    int symbol_count;
    Block *blocks;
    int node_count, folded;
    int depth;
    const char *error;
} Calculator;

static Node *new_node(Calculator *calc, NodeKind kind, int count) {
    if (calc->blocks == NULL || calc->blocks->used == 128) {
        Block *block = malloc(sizeof *block);
        if (block == NULL)
            exit(1);
        block->next = calc->blocks;
        block->used = 0;
        calc->blocks = block;
    }
    Node *node = &calc->blocks->nodes[calc->blocks->used++];
    memset(node, 0, sizeof *node);
    node->kind = kind;
    node->count = count;
    calc->node_count++;
    return node;
}

static Node *number_node(Calculator *calc, double number) {
    Node *node = new_node(calc, N_NUMBER, 0);
    node->number = number;
    return node;
}

static Node *unary(Calculator *calc, NodeKind kind, Node *operand) {
    Node *node = new_node(calc, kind, 1);
    node->child[0] = operand;
    return node;
}

static Node *binary(Calculator *calc, NodeKind kind, Node *left, Node *right) {
    Node *node = new_node(calc, kind, 2);
    node->child[0] = left;
    node->child[1] = right;
    return node;
}

static Node *builtin(Calculator *calc, Builtin which, Node *argument) {
    Node *node = unary(calc, N_BUILTIN, argument);
    node->index = (int)which;
    return node;
}

static int find_symbol(const Calculator *calc, const char *name) {
    for (int k = 0; k < calc->symbol_count; k++)
        if (strcmp(calc->symbols[k].name, name) == 0)
            return k;
    return -1;
}

static Symbol *define_symbol(Calculator *calc, const char *name) {
    int at = find_symbol(calc, name);
    if (at < 0) {
        if (calc->symbol_count == MAX_SYMBOLS) {
            calc->error = "too many symbols";
            return NULL;
        }
        at = calc->symbol_count++;
        strcpy(calc->symbols[at].name, name);
    }
    return &calc->symbols[at];
}

// ---- Parser ----------------------------------------------------------------------------------------------------------

typedef struct {
    Calculator *calc;
    Lexer lexer;
    const Symbol *function; // whose body is being parsed
} Parser;

static Node *fail(Parser *parser, const char *message) {
    if (parser->lexer.error == NULL)
        parser->lexer.error = message;
    return number_node(parser->calc, 0);
}

static bool accept(Parser *parser, TokenKind kind) {
    if (parser->lexer.token.kind != kind)
        return false;
    advance(&parser->lexer);
    return true;
}

static void expect(Parser *parser, TokenKind kind, const char *message) {
    if (!accept(parser, kind))
        fail(parser, message);
}

static int binding_power(TokenKind kind) {
    switch (kind) {
    case T_QUESTION: return 10;
    case T_OR: return 20;
    case T_AND: return 30;
    case T_EQUAL:
    case T_NOT_EQUAL: return 40;
    case T_LESS:
    case T_LESS_EQUAL:
    case T_GREATER:
    case T_GREATER_EQUAL: return 50;
    case T_PLUS:
    case T_MINUS: return 60;
    case T_STAR:
    case T_SLASH:
    case T_PERCENT: return 70;
    case T_POWER: return 90;
    default: return 0;
    }
}

static Node *parse_expression(Parser *parser, int least);
static Node *derive(Calculator *calc, const Node *node, int parameter);

static void parse_arguments(Parser *parser, Node *call, int expected) {
    call->count = 0;
    if (!accept(parser, T_RIGHT)) {
        do {
            Node *argument = parse_expression(parser, 0);
            if (call->count == MAX_ARGUMENTS) {
                fail(parser, "too many arguments");
                return;
            }
            call->child[call->count++] = argument;
        } while (accept(parser, T_COMMA));
        expect(parser, T_RIGHT, "expected )");
    }
    if (call->count != expected)
        fail(parser, "wrong number of arguments");
}

static Node *parse_name(Parser *parser) {
    Calculator *calc = parser->calc;
    char name[MAX_NAME];
    strcpy(name, parser->lexer.token.name);
    advance(&parser->lexer);
    if (parser->function != NULL)
        for (int k = 0; k < parser->function->parameter_count; k++)
            if (strcmp(parser->function->parameters[k], name) == 0) {
                Node *node = new_node(calc, N_PARAMETER, 0);
                node->index = k;
                return node;
            }
    for (int k = 0; k < B_COUNT; k++)
        if (strcmp(builtins[k].name, name) == 0) {
            Node *node = new_node(calc, N_BUILTIN, 0);
            node->index = k;
            expect(parser, T_LEFT, "expected ( after a function's name");
            parse_arguments(parser, node, builtins[k].arguments);
            return node;
        }
    int symbol = find_symbol(calc, name);
    if (symbol < 0)
        return fail(parser, "unknown name");
    if (!calc->symbols[symbol].is_function) {
        Node *node = new_node(calc, N_VARIABLE, 0);
        node->index = symbol;
        return node;
    }
    Node *node = new_node(calc, N_CALL, 0);
    node->index = symbol;
    expect(parser, T_LEFT, "expected ( after a function's name");
    parse_arguments(parser, node, calc->symbols[symbol].parameter_count);
    return node;
}

static Node *parse_prefix(Parser *parser) {
    Token token = parser->lexer.token;
    switch (token.kind) {
    case T_NUMBER: advance(&parser->lexer); return number_node(parser->calc, token.number);
    case T_NAME: return parse_name(parser);
    case T_MINUS: advance(&parser->lexer); return unary(parser->calc, N_NEGATE, parse_expression(parser, 80));
    case T_NOT: advance(&parser->lexer); return unary(parser->calc, N_NOT, parse_expression(parser, 80));
    case T_LEFT: {
        advance(&parser->lexer);
        Node *inner = parse_expression(parser, 0);
        expect(parser, T_RIGHT, "expected )");
        return inner;
    }
    default: return fail(parser, "expected an operand");
    }
}

static Node *parse_infix(Parser *parser, Node *left, TokenKind kind) {
    Calculator *calc = parser->calc;
    int power = binding_power(kind);
    if (kind == T_QUESTION) {
        Node *node = new_node(calc, N_CHOOSE, 3);
        node->child[0] = left;
        node->child[1] = parse_expression(parser, 0);
        expect(parser, T_COLON, "expected :");
        node->child[2] = parse_expression(parser, power - 1);
        return node;
    }
    Node *right = parse_expression(parser, kind == T_POWER ? power - 1 : power);
    switch (kind) {
    case T_PLUS: return binary(calc, N_ADD, left, right);
    case T_MINUS: return binary(calc, N_SUBTRACT, left, right);
    case T_STAR: return binary(calc, N_MULTIPLY, left, right);
    case T_SLASH: return binary(calc, N_DIVIDE, left, right);
    case T_PERCENT: return binary(calc, N_REMAINDER, left, right);
    case T_POWER: return binary(calc, N_POWER, left, right);
    case T_EQUAL: return binary(calc, N_EQUAL, left, right);
    case T_NOT_EQUAL: return binary(calc, N_NOT_EQUAL, left, right);
    case T_LESS: return binary(calc, N_LESS, left, right);
    case T_LESS_EQUAL: return binary(calc, N_LESS_EQUAL, left, right);
    case T_GREATER: return binary(calc, N_LESS, right, left);
    case T_GREATER_EQUAL: return binary(calc, N_LESS_EQUAL, right, left);
    case T_AND: return binary(calc, N_AND, left, right);
    default: return binary(calc, N_OR, left, right);
    }
}

static Node *parse_expression(Parser *parser, int least) {
    Node *left = parse_prefix(parser);
    while (parser->lexer.error == NULL && binding_power(parser->lexer.token.kind) > least) {
        TokenKind kind = parser->lexer.token.kind;
        advance(&parser->lexer);
        left = parse_infix(parser, left, kind);
    }
    return left;
}

// ---- Evaluation ------------------------------------------------------------------------------------------------------

static double call_builtin(Builtin which, const double *arguments) {
    switch (which) {
    case B_SQRT: return sqrt(arguments[0]);
    case B_SIN: return sin(arguments[0]);
    case B_COS: return cos(arguments[0]);
    case B_EXP: return exp(arguments[0]);
    case B_LOG: return log(arguments[0]);
    case B_ABS: return fabs(arguments[0]);
    case B_FLOOR: return floor(arguments[0]);
    case B_MIN: return arguments[0] < arguments[1] ? arguments[0] : arguments[1];
    default: return arguments[0] > arguments[1] ? arguments[0] : arguments[1];
    }
}

// Whole exponents are common and must not depend on the rounding of the library's pow.
static double power(double base, double exponent) {
    if (exponent != floor(exponent) || fabs(exponent) > 64)
        return pow(base, exponent);
    double result = 1;
    for (int left = (int)fabs(exponent); left > 0; left >>= 1) {
        if (left & 1)
            result *= base;
        base *= base;
    }
    return exponent < 0 ? 1 / result : result;
}

static double combine(NodeKind kind, double left, double right) {
    switch (kind) {
    case N_ADD: return left + right;
    case N_SUBTRACT: return left - right;
    case N_MULTIPLY: return left * right;
    case N_DIVIDE: return left / right;
    case N_REMAINDER: return fmod(left, right);
    case N_POWER: return power(left, right);
    case N_EQUAL: return left == right;
    case N_NOT_EQUAL: return left != right;
    case N_LESS: return left < right;
    default: return left <= right;
    }
}

static double evaluate(Calculator *calc, const Node *node, const double *parameters) {
    switch (node->kind) {
    case N_NUMBER: return node->number;
    case N_PARAMETER: return parameters[node->index];
    case N_VARIABLE: return calc->symbols[node->index].value;
    case N_NEGATE: return -evaluate(calc, node->child[0], parameters);
    case N_NOT: return evaluate(calc, node->child[0], parameters) == 0;
    case N_AND:
        return evaluate(calc, node->child[0], parameters) != 0 && evaluate(calc, node->child[1], parameters) != 0;
    case N_OR:
        return evaluate(calc, node->child[0], parameters) != 0 || evaluate(calc, node->child[1], parameters) != 0;
    case N_CHOOSE:
        return evaluate(calc, node->child[evaluate(calc, node->child[0], parameters) != 0 ? 1 : 2], parameters);
    case N_BUILTIN:
    case N_CALL: {
        double arguments[MAX_ARGUMENTS] = {0};
        for (int k = 0; k < node->count; k++)
            arguments[k] = evaluate(calc, node->child[k], parameters);
        if (node->kind == N_BUILTIN)
            return call_builtin((Builtin)node->index, arguments);
        if (calc->depth == MAX_CALL_DEPTH) {
            calc->error = "calls nested too deeply";
            return 0;
        }
        calc->depth++;
        double value = evaluate(calc, calc->symbols[node->index].body, arguments);
        calc->depth--;
        return value;
    }
    default: {
        double left = evaluate(calc, node->child[0], parameters);
        return combine(node->kind, left, evaluate(calc, node->child[1], parameters));
    }
    }
}

// ---- Folding ---------------------------------------------------------------------------------------------------------

static bool is_number(const Node *node, double number) { return node->kind == N_NUMBER && node->number == number; }

static Node *simplify(Calculator *calc, Node *node) {
    Node *left = node->child[0], *right = node->child[1];
    switch (node->kind) {
    case N_NEGATE: return left->kind == N_NEGATE ? left->child[0] : node;
    case N_ADD:
        if (is_number(left, 0))
            return right;
        if (right->kind == N_NEGATE)
            return binary(calc, N_SUBTRACT, left, right->child[0]);
        return is_number(right, 0) ? left : node;
    case N_SUBTRACT:
        if (is_number(left, 0))
            return unary(calc, N_NEGATE, right);
        return is_number(right, 0) ? left : node;
    case N_MULTIPLY:
        if (is_number(left, 0) || is_number(right, 0))
            return number_node(calc, 0);
        if (is_number(left, 1))
            return right;
        return is_number(right, 1) ? left : node;
    case N_DIVIDE:
        if (is_number(left, 0))
            return left;
        return is_number(right, 1) ? left : node;
    case N_POWER:
        if (is_number(right, 0))
            return number_node(calc, 1);
        return is_number(right, 1) ? left : node;
    case N_CHOOSE: return left->kind == N_NUMBER ? node->child[left->number != 0 ? 1 : 2] : node;
    default: return node;
    }
}

static Node *fold(Calculator *calc, Node *node) {
    bool constant = node->count > 0 && node->kind != N_CALL;
    for (int k = 0; k < node->count; k++) {
        node->child[k] = fold(calc, node->child[k]);
        constant = constant && node->child[k]->kind == N_NUMBER;
    }
    if (constant) {
        calc->folded++;
        return number_node(calc, evaluate(calc, node, NULL));
    }
    Node *simpler = simplify(calc, node);
    if (simpler == node)
        return node;
    calc->folded++;
    return fold(calc, simpler);
}

// ---- Derivatives -----------------------------------------------------------------------------------------------------

static Node *copy_with(Calculator *calc, const Node *node, Node *const *arguments) {
    if (node->kind == N_PARAMETER)
        return arguments[node->index];
    Node *copy = new_node(calc, node->kind, node->count);
    copy->index = node->index;
    copy->number = node->number;
    for (int k = 0; k < node->count; k++)
        copy->child[k] = copy_with(calc, node->child[k], arguments);
    return copy;
}

static Node *derive_builtin(Calculator *calc, const Node *node, int parameter) {
    Node *inner = node->child[0];
    Node *slope = derive(calc, inner, parameter);
    switch ((Builtin)node->index) {
    case B_SQRT:
        return binary(calc, N_DIVIDE, slope,
                      binary(calc, N_MULTIPLY, number_node(calc, 2), builtin(calc, B_SQRT, inner)));
    case B_SIN: return binary(calc, N_MULTIPLY, slope, builtin(calc, B_COS, inner));
    case B_COS: return binary(calc, N_MULTIPLY, slope, unary(calc, N_NEGATE, builtin(calc, B_SIN, inner)));
    case B_EXP: return binary(calc, N_MULTIPLY, slope, builtin(calc, B_EXP, inner));
    case B_LOG: return binary(calc, N_DIVIDE, slope, inner);
    default: calc->error = "no derivative of this function"; return number_node(calc, 0);
    }
}

static Node *derive(Calculator *calc, const Node *node, int parameter) {
    Node *left = node->child[0], *right = node->child[1];
    switch (node->kind) {
    case N_NUMBER:
    case N_VARIABLE: return number_node(calc, 0);
    case N_PARAMETER: return number_node(calc, node->index == parameter);
    case N_NEGATE: return unary(calc, N_NEGATE, derive(calc, left, parameter));
    case N_ADD:
    case N_SUBTRACT: return binary(calc, node->kind, derive(calc, left, parameter), derive(calc, right, parameter));
    case N_MULTIPLY:
        return binary(calc, N_ADD, binary(calc, N_MULTIPLY, derive(calc, left, parameter), right),
                      binary(calc, N_MULTIPLY, left, derive(calc, right, parameter)));
    case N_DIVIDE: {
        Node *top = binary(calc, N_SUBTRACT, binary(calc, N_MULTIPLY, derive(calc, left, parameter), right),
                           binary(calc, N_MULTIPLY, left, derive(calc, right, parameter)));
        return binary(calc, N_DIVIDE, top, binary(calc, N_POWER, right, number_node(calc, 2)));
    }
    case N_POWER:
        if (right->kind == N_NUMBER) {
            Node *lower = binary(calc, N_POWER, left, number_node(calc, right->number - 1));
            return binary(calc, N_MULTIPLY, binary(calc, N_MULTIPLY, right, lower), derive(calc, left, parameter));
        }
        break;
    case N_BUILTIN: return derive_builtin(calc, node, parameter);
    case N_CALL: return derive(calc, copy_with(calc, calc->symbols[node->index].body, node->child), parameter);
    default: break;
    }
    calc->error = "no derivative of this expression";
    return number_node(calc, 0);
}

// ---- Statements ------------------------------------------------------------------------------------------------------

static bool looks_like_definition(const char *text) {
    int depth = 0;
    while (isspace((unsigned char)*text))
        text++;
    if (!isalpha((unsigned char)*text))
        return false;
    while (isalnum((unsigned char)*text))
        text++;
    for (; *text != '\0' && (*text != '=' || depth > 0); text++) {
        depth += *text == '(' ? 1 : *text == ')' ? -1 : 0;
        if (depth == 0 && *text != ')' && !isspace((unsigned char)*text))
            return false;
    }
    return *text == '=' && text[1] != '=';
}

static void parse_parameters(Parser *parser, Symbol *symbol) {
    symbol->is_function = true;
    symbol->parameter_count = 0;
    do {
        if (parser->lexer.token.kind != T_NAME || symbol->parameter_count == MAX_ARGUMENTS) {
            fail(parser, "expected a parameter");
            return;
        }
        strcpy(symbol->parameters[symbol->parameter_count++], parser->lexer.token.name);
        advance(&parser->lexer);
    } while (accept(parser, T_COMMA));
    expect(parser, T_RIGHT, "expected )");
}

// The body of "g(x, y) = f'" is the derivative of f by its first parameter.
static Node *parse_body(Parser *parser) {
    Lexer before = parser->lexer;
    if (parser->lexer.token.kind == T_NAME) {
        int symbol = find_symbol(parser->calc, parser->lexer.token.name);
        advance(&parser->lexer);
        if (symbol >= 0 && accept(parser, T_PRIME) && parser->calc->symbols[symbol].is_function)
            return derive(parser->calc, parser->calc->symbols[symbol].body, 0);
    }
    parser->lexer = before;
    return parse_expression(parser, 0);
}

static bool define(Parser *parser) {
    Calculator *calc = parser->calc;
    Symbol *symbol = define_symbol(calc, parser->lexer.token.name);
    if (symbol == NULL)
        return false;
    advance(&parser->lexer);
    symbol->is_function = false;
    if (accept(parser, T_LEFT)) {
        parse_parameters(parser, symbol);
        parser->function = symbol;
    }
    expect(parser, T_ASSIGN, "expected =");
    Node *body = parse_body(parser);
    if (parser->lexer.error != NULL)
        return false;
    symbol->body = fold(calc, body);
    if (!symbol->is_function)
        symbol->value = evaluate(calc, symbol->body, NULL);
    return true;
}

// Gives back the nodes made since `block` was the newest one with `used` nodes in it.
static void release_nodes(Calculator *calc, const Block *block, int used) {
    while (calc->blocks != block) {
        Block *next = calc->blocks->next;
        free(calc->blocks);
        calc->blocks = next;
    }
    if (calc->blocks != NULL)
        calc->blocks->used = used;
}

// Runs one line; returns true and the value when the line was an expression.
static bool run_line(Calculator *calc, const char *line, double *value, bool *ok) {
    Parser parser = {calc, {line, line, {T_END, 0, "", 0}, NULL}, NULL};
    Node *tree = NULL;
    Block *block = calc->blocks;
    int used = block != NULL ? block->used : 0;
    calc->error = NULL;
    calc->depth = 0;
    advance(&parser.lexer);
    if (looks_like_definition(line))
        define(&parser);
    else
        tree = parse_expression(&parser, 0);
    if (parser.lexer.error == NULL && parser.lexer.token.kind != T_END)
        parser.lexer.error = "unexpected text";
    if (parser.lexer.error == NULL && tree != NULL)
        *value = evaluate(calc, fold(calc, tree), NULL);
    if (tree != NULL)
        release_nodes(calc, block, used);
    const char *error = parser.lexer.error != NULL ? parser.lexer.error : calc->error;
    *ok = error == NULL;
    if (error != NULL)
        printf("  error in '%s' at %d: %s\n", line, (int)parser.lexer.token.column, error);
    return tree != NULL && error == NULL;
}

static const char *const script[] = {
    "1 + 2 * 3 ^ 2 - 4 / 8",
    "2 ^ 3 ^ 2 + -2 ^ 2",
    "(1 + 2) * (3 - 4) % 5",
    "1 < 2 && 3 >= 3 || 0",
    "!(2 == 2) ? 10 : 1 > 2 ? 20 : 30",
    "pi = 3.14159265358979",
    "area(r) = pi * r ^ 2",
    "area(2) - area(1.5e0)",
    "fact(n) = n <= 1 ? 1 : n * fact(n - 1)",
    "fact(10) / fact(8)",
    "fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)",
    "fib(12)",
    "gcd(a, b) = b == 0 ? a : gcd(b, a % b)",
    "gcd(1071, 462)",
    "root(x, g) = abs(g * g - x) < 0.000001 ? g : root(x, (g + x / g) / 2)",
    "root(2, 1) - sqrt(2) < 0.000001",
    "p(x) = x ^ 3 - 2 * x + 1 * 5 + 0",
    "slope(x) = p'",
    "slope(3)",
    "wave(x, k) = exp(-x / 4) * sin(k * x) + log(x + 1)",
    "waveslope(x, k) = wave'",
    "wave(1, 2)",
    "waveslope(1, 2)",
    "waveslope(1, 2) - (wave(1.0001, 2) - wave(0.9999, 2)) / 0.0002 < 0.0001",
    "curve(x) = wave(x, 3) * p(x) / (1 + x ^ 2)",
    "bend(x) = curve'",
    "bend(0.5)",
    "min(3, max(1, 2)) + floor(2.75)",
    "1 +",
    "forever(n) = forever(n + 1)",
    "forever(0)",
    "unknown + 1",
    "sqrt(1, 2)",
    "(1 + 2",
};

static double integrate(Calculator *calc, const char *name, double low, double high, int steps) {
    const Node *body = calc->symbols[find_symbol(calc, name)].body;
    double sum = 0, width = (high - low) / steps;
    for (int k = 0; k < steps; k++) {
        double arguments[MAX_ARGUMENTS] = {low + (k + 0.5) * width, 2, 0, 0};
        sum += evaluate(calc, body, arguments);
    }
    return sum * width;
}

static uint32_t random_state = 7;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 10) % bound;
}

// Writes a random expression of whole numbers, fully bracketed or not, and returns its end.
static char *write_expression(char *out, int depth) {
    static const char operators[] = "+-*<";
    if (depth == 0 || random_below(8) == 0) {
        out += snprintf(out, 8, "%u", (unsigned)random_below(20));
        return out;
    }
    bool bracket = random_below(2) == 0;
    if (bracket)
        *out++ = '(';
    out = write_expression(out, depth - 1);
    *out++ = ' ';
    *out++ = operators[random_below(4)];
    *out++ = ' ';
    out = write_expression(out, depth - 1);
    if (bracket)
        *out++ = ')';
    *out = '\0';
    return out;
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int scale = strcmp(size, "large") == 0 ? 1000 : strcmp(size, "medium") == 0 ? 150 : 1;
    static Calculator calc;
    double value;
    bool ok;
    for (size_t k = 0; k < sizeof script / sizeof script[0]; k++)
        if (run_line(&calc, script[k], &value, &ok))
            printf("%s = %.6g\n", script[k], value);

    printf("integral of wave %.6f\n", integrate(&calc, "wave", 0, 3, 1000 * scale));
    printf("integral of curve's slope %.6f\n", integrate(&calc, "bend", 0, 2, 200 * scale));
    printf("curve's rise %.6f\n", (run_line(&calc, "curve(2) - curve(0)", &value, &ok), value));

    static char text[4096];
    double total = 0;
    for (int k = 0; k < 40 * scale; k++) {
        write_expression(text, 5);
        if (run_line(&calc, text, &value, &ok))
            total = fmod(total * 3 + value, 1000003);
    }
    printf("last random: %s\n", text);
    printf("random total %.0f, nodes %d, folded %d, symbols %d\n", total, calc.node_count, calc.folded,
           calc.symbol_count);
    release_nodes(&calc, NULL, 0);
    return 0;
}
