// json: parses JSON to a tree, prints it compactly and indented, compares, sorts, merges and queries it by path
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } Kind;

typedef struct Json {
    Kind kind;
    char *name; // in an object, else NULL
    double number;
    char *text;
    size_t length;      // of the text
    struct Json *first; // child
    struct Json *last;
    struct Json *next; // sibling
    size_t count;      // of children
} Json;

static void *allocate(size_t size) {
    void *memory = malloc(size);
    if (memory == NULL) {
        puts("out of memory");
        exit(1);
    }
    return memory;
}

static Json *new_json(Kind kind) {
    Json *json = allocate(sizeof *json);
    memset(json, 0, sizeof *json);
    json->kind = kind;
    return json;
}

static void free_json(Json *json) {
    while (json != NULL) {
        Json *next = json->next;
        free_json(json->first);
        free(json->name);
        free(json->text);
        free(json);
        json = next;
    }
}

static void append(Json *parent, Json *child) {
    if (parent->last == NULL)
        parent->first = child;
    else
        parent->last->next = child;
    parent->last = child;
    parent->count++;
}

// ---- Text ------------------------------------------------------------------------------------------------------------

typedef struct {
    char *bytes;
    size_t length, capacity;
} Text;

static void put_bytes(Text *text, const char *bytes, size_t length) {
    if (text->length + length + 1 > text->capacity) {
        text->capacity = (text->length + length + 1) * 2;
        char *larger = realloc(text->bytes, text->capacity);
        if (larger == NULL)
            exit(1);
        text->bytes = larger;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

static void put_string(Text *text, const char *string) { put_bytes(text, string, strlen(string)); }
static void put_char(Text *text, char c) { put_bytes(text, &c, 1); }

// Encodes a code point as UTF-8.
static void put_code_point(Text *text, uint32_t code) {
    if (code < 0x80) {
        put_char(text, (char)code);
    } else if (code < 0x800) {
        put_char(text, (char)(0xc0 | code >> 6));
        put_char(text, (char)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        put_char(text, (char)(0xe0 | code >> 12));
        put_char(text, (char)(0x80 | (code >> 6 & 0x3f)));
        put_char(text, (char)(0x80 | (code & 0x3f)));
    } else {
        put_char(text, (char)(0xf0 | code >> 18));
        put_char(text, (char)(0x80 | (code >> 12 & 0x3f)));
        put_char(text, (char)(0x80 | (code >> 6 & 0x3f)));
        put_char(text, (char)(0x80 | (code & 0x3f)));
    }
}

// ---- Parser ----------------------------------------------------------------------------------------------------------

typedef struct {
    const char *start, *at;
    int depth;
    const char *error;
} Parser;

static Json *parse_value(Parser *parser);

static Json *fail(Parser *parser, const char *message) {
    if (parser->error == NULL)
        parser->error = message;
    return NULL;
}

static void skip_space(Parser *parser) {
    while (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\n' || *parser->at == '\r')
        parser->at++;
}

static bool accept(Parser *parser, char c) {
    skip_space(parser);
    if (*parser->at != c)
        return false;
    parser->at++;
    return true;
}

static bool parse_hex(Parser *parser, uint32_t *code) {
    *code = 0;
    for (int k = 0; k < 4; k++, parser->at++) {
        char c = *parser->at;
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (tolower((unsigned char)c) >= 'a' && tolower((unsigned char)c) <= 'f')
            digit = (uint32_t)(tolower((unsigned char)c) - 'a' + 10);
        else
            return false;
        *code = *code << 4 | digit;
    }
    return true;
}

static bool parse_escape(Parser *parser, Text *text) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = *parser->at++;
    const char *found = c == '\0' ? NULL : strchr(letters, c);
    if (found != NULL) {
        put_char(text, meanings[found - letters]);
        return true;
    }
    uint32_t code, low;
    if (c != 'u' || !parse_hex(parser, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) { // the first half of a pair
        if (parser->at[0] != '\\' || parser->at[1] != 'u')
            return false;
        parser->at += 2;
        if (!parse_hex(parser, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    put_code_point(text, code);
    return true;
}

// Returns the text behind an opening quote, or NULL.
static char *parse_string(Parser *parser, size_t *length) {
    Text text = {NULL, 0, 0};
    put_bytes(&text, "", 0);
    while (*parser->at != '"') {
        unsigned char c = (unsigned char)*parser->at;
        if (c < 0x20) {
            fail(parser, c == 0 ? "unfinished string" : "control character in a string");
            free(text.bytes);
            return NULL;
        }
        parser->at++;
        if (c != '\\') {
            put_char(&text, (char)c);
        } else if (!parse_escape(parser, &text)) {
            fail(parser, "bad escape");
            free(text.bytes);
            return NULL;
        }
    }
    parser->at++;
    *length = text.length;
    return text.bytes;
}

static Json *parse_number(Parser *parser) {
    const char *start = parser->at;
    char *end;
    if (*parser->at == '-')
        parser->at++;
    if (!isdigit((unsigned char)*parser->at))
        return fail(parser, "expected a value");
    if (*parser->at == '0' && isdigit((unsigned char)parser->at[1]))
        return fail(parser, "number with a leading zero");
    Json *json = new_json(JSON_NUMBER);
    json->number = strtod(start, &end);
    parser->at = end;
    return json;
}

static Json *parse_array(Parser *parser) {
    Json *array = new_json(JSON_ARRAY);
    if (accept(parser, ']'))
        return array;
    do {
        Json *item = parse_value(parser);
        if (item == NULL)
            break;
        append(array, item);
    } while (accept(parser, ','));
    if (parser->error == NULL && accept(parser, ']'))
        return array;
    free_json(array);
    return fail(parser, "expected , or ]");
}

static Json *find_member(const Json *object, const char *name) {
    for (Json *child = object->first; child != NULL; child = child->next)
        if (strcmp(child->name, name) == 0)
            return child;
    return NULL;
}

static bool parse_member(Parser *parser, Json *object) {
    size_t length;
    if (!accept(parser, '"')) {
        fail(parser, "expected a name");
        return false;
    }
    char *name = parse_string(parser, &length);
    if (name == NULL)
        return false;
    if (find_member(object, name) != NULL)
        fail(parser, "name given twice");
    else if (!accept(parser, ':'))
        fail(parser, "expected :");
    Json *value = parser->error == NULL ? parse_value(parser) : NULL;
    if (value == NULL) {
        free(name);
        return false;
    }
    value->name = name;
    append(object, value);
    return true;
}

static Json *parse_object(Parser *parser) {
    Json *object = new_json(JSON_OBJECT);
    if (accept(parser, '}'))
        return object;
    do {
        if (!parse_member(parser, object))
            break;
    } while (accept(parser, ','));
    if (parser->error == NULL && accept(parser, '}'))
        return object;
    free_json(object);
    return fail(parser, "expected , or }");
}

static Json *parse_word(Parser *parser, const char *word, Kind kind) {
    size_t length = strlen(word);
    if (strncmp(parser->at, word, length) != 0)
        return fail(parser, "expected a value");
    parser->at += length;
    return new_json(kind);
}

static Json *parse_value(Parser *parser) {
    Json *json;
    skip_space(parser);
    if (parser->depth == MAX_DEPTH)
        return fail(parser, "nested too deeply");
    parser->depth++;
    switch (*parser->at) {
    case '{':
        parser->at++;
        json = parse_object(parser);
        break;
    case '[':
        parser->at++;
        json = parse_array(parser);
        break;
    case '"': {
        size_t length = 0;
        parser->at++;
        char *text = parse_string(parser, &length);
        json = text == NULL ? NULL : new_json(JSON_STRING);
        if (json != NULL) {
            json->text = text;
            json->length = length;
        }
        break;
    }
    case 't': json = parse_word(parser, "true", JSON_TRUE); break;
    case 'f': json = parse_word(parser, "false", JSON_FALSE); break;
    case 'n': json = parse_word(parser, "null", JSON_NULL); break;
    default: json = parse_number(parser); break;
    }
    parser->depth--;
    return json;
}

static Json *parse(const char *text, const char **error, long *column) {
    Parser parser = {text, text, 0, NULL};
    Json *json = parse_value(&parser);
    skip_space(&parser);
    if (json != NULL && *parser.at != '\0') {
        free_json(json);
        json = fail(&parser, "text behind the value");
    }
    *error = parser.error;
    *column = (long)(parser.at - parser.start);
    return json;
}

// ---- Printer ---------------------------------------------------------------------------------------------------------

static void print_string(Text *out, const char *text, size_t length) {
    put_char(out, '"');
    for (size_t k = 0; k < length; k++) {
        unsigned char c = (unsigned char)text[k];
        char escaped[8];
        if (c == '"' || c == '\\') {
            put_char(out, '\\');
            put_char(out, (char)c);
        } else if (c == '\n') {
            put_string(out, "\\n");
        } else if (c < 0x20) {
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
            put_string(out, escaped);
        } else {
            put_char(out, (char)c);
        }
    }
    put_char(out, '"');
}

static void print_number(Text *out, double number) {
    char text[40];
    if (number == floor(number) && fabs(number) < 1e15)
        snprintf(text, sizeof text, "%.0f", number == 0 ? 0.0 : number);
    else
        snprintf(text, sizeof text, "%.6f", number);
    if (strchr(text, '.') != NULL) {
        size_t length = strlen(text);
        while (text[length - 1] == '0')
            text[--length] = '\0';
        if (text[length - 1] == '.')
            text[length - 1] = '\0';
    }
    put_string(out, text);
}

static void new_line(Text *out, int indent) {
    if (indent < 0)
        return;
    put_char(out, '\n');
    for (int k = 0; k < indent; k++)
        put_string(out, "  ");
}

// Prints in one line when indent is negative.
static void print(Text *out, const Json *json, int indent) {
    int inner = indent < 0 ? -1 : indent + 1;
    switch (json->kind) {
    case JSON_NULL: put_string(out, "null"); break;
    case JSON_FALSE: put_string(out, "false"); break;
    case JSON_TRUE: put_string(out, "true"); break;
    case JSON_NUMBER: print_number(out, json->number); break;
    case JSON_STRING: print_string(out, json->text, json->length); break;
    case JSON_ARRAY:
    case JSON_OBJECT: {
        bool is_object = json->kind == JSON_OBJECT;
        put_char(out, is_object ? '{' : '[');
        for (const Json *child = json->first; child != NULL; child = child->next) {
            new_line(out, inner);
            if (is_object) {
                print_string(out, child->name, strlen(child->name));
                put_string(out, indent < 0 ? ":" : ": ");
            }
            print(out, child, inner);
            if (child->next != NULL)
                put_char(out, ',');
        }
        if (json->first != NULL)
            new_line(out, indent);
        put_char(out, is_object ? '}' : ']');
        break;
    }
    }
}

// ---- Trees -----------------------------------------------------------------------------------------------------------

static bool equal(const Json *a, const Json *b) {
    if (a->kind != b->kind || a->count != b->count)
        return false;
    if (a->kind == JSON_NUMBER)
        return a->number == b->number;
    if (a->kind == JSON_STRING)
        return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
    const Json *other = b->first;
    for (const Json *child = a->first; child != NULL; child = child->next) {
        if (a->kind == JSON_OBJECT)
            other = find_member(b, child->name);
        if (other == NULL || !equal(child, other))
            return false;
        if (a->kind == JSON_ARRAY)
            other = other->next;
    }
    return true;
}

static char *copy_bytes(const char *bytes, size_t length) {
    if (bytes == NULL)
        return NULL;
    char *copy = allocate(length + 1);
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}

static Json *copy_json(const Json *json) {
    Json *copy = new_json(json->kind);
    copy->number = json->number;
    copy->text = copy_bytes(json->text, json->length);
    copy->length = json->length;
    copy->name = json->name == NULL ? NULL : copy_bytes(json->name, strlen(json->name));
    for (const Json *child = json->first; child != NULL; child = child->next)
        append(copy, copy_json(child));
    return copy;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(Json *const *)a)->name, (*(Json *const *)b)->name);
}

static void sort_members(Json *json) {
    for (Json *child = json->first; child != NULL; child = child->next)
        sort_members(child);
    if (json->kind != JSON_OBJECT || json->count < 2)
        return;
    size_t count = json->count, k = 0;
    Json **children = allocate(count * sizeof *children);
    for (Json *child = json->first; child != NULL; child = child->next)
        children[k++] = child;
    qsort(children, count, sizeof *children, compare_names);
    json->first = json->last = NULL;
    json->count = 0;
    for (k = 0; k < count; k++) {
        children[k]->next = NULL;
        append(json, children[k]);
    }
    free(children);
}

static void remove_child(Json *parent, const Json *child) {
    Json *before = NULL;
    for (Json *at = parent->first; at != NULL; before = at, at = at->next) {
        if (at != child)
            continue;
        if (before == NULL)
            parent->first = at->next;
        else
            before->next = at->next;
        if (parent->last == at)
            parent->last = before;
        parent->count--;
        at->next = NULL;
        free_json(at);
        return;
    }
}

// A merge patch: members of the patch replace those of the target, null removes them.
static void merge(Json *target, const Json *patch) {
    for (const Json *change = patch->first; change != NULL; change = change->next) {
        Json *old = find_member(target, change->name);
        if (old != NULL && old->kind == JSON_OBJECT && change->kind == JSON_OBJECT) {
            merge(old, change);
            continue;
        }
        if (old != NULL)
            remove_child(target, old);
        if (change->kind != JSON_NULL)
            append(target, copy_json(change));
    }
}

// ---- Queries: name.name[3].*[*] --------------------------------------------------------------------------------------

typedef struct {
    long matches;
    double sum;
    Text *out; // the first few matches, in one line
} Result;

static void query(const Json *json, const char *path, Result *result);

static void query_all(const Json *json, const char *rest, Result *result) {
    for (const Json *child = json->first; child != NULL; child = child->next)
        query(child, rest, result);
}

static void query_index(const Json *json, const char *path, Result *result) {
    char *end;
    if (path[1] == '*') {
        if (json->kind == JSON_ARRAY)
            query_all(json, path + 3, result);
        return;
    }
    long index = strtol(path + 1, &end, 10);
    if (json->kind != JSON_ARRAY)
        return;
    if (index < 0)
        index += (long)json->count;
    const Json *child = json->first;
    for (; child != NULL && index > 0; index--)
        child = child->next;
    if (child != NULL && index == 0)
        query(child, end + 1, result);
}

static void query(const Json *json, const char *path, Result *result) {
    if (*path == '\0') {
        result->matches++;
        if (json->kind == JSON_NUMBER)
            result->sum += json->number;
        if (result->matches <= 3) {
            put_string(result->out, result->matches > 1 ? " " : "");
            print(result->out, json, -1);
        }
        return;
    }
    if (*path == '.')
        path++;
    if (*path == '[') {
        query_index(json, path, result);
        return;
    }
    char name[32];
    size_t length = 0;
    while (*path != '\0' && *path != '.' && *path != '[' && length < sizeof name - 1)
        name[length++] = *path++;
    name[length] = '\0';
    if (json->kind != JSON_OBJECT)
        return;
    if (strcmp(name, "*") == 0) {
        query_all(json, path, result);
        return;
    }
    const Json *child = find_member(json, name);
    if (child != NULL)
        query(child, path, result);
}

static void show_query(const Json *json, const char *path) {
    Text out = {NULL, 0, 0};
    put_bytes(&out, "", 0);
    Result result = {0, 0, &out};
    query(json, path, &result);
    printf("%s: %ld, sum %.3f: %s\n", path, result.matches, result.sum, out.bytes);
    free(out.bytes);
}

// ---- Documents -------------------------------------------------------------------------------------------------------

static uint32_t random_state = 4711;

static uint32_t random_below(uint32_t bound) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % bound;
}

static void put_format(Text *out, const char *format, int number) {
    char text[64];
    snprintf(text, sizeof text, format, number);
    put_string(out, text);
}

static void generate(Text *out, int people) {
    static const char *const names[] = {
        "Ada", "Grace \\\"Amazing\\\"", "Jos\\u00e9", "\\ud83d\\ude00", "Tab\\tNew\\n", "Zo\xc3\xab"};
    put_string(out, "{ \"version\" : 2, \"people\":[");
    for (int k = 0; k < people; k++) {
        put_format(out, k == 0 ? "\n{\"id\": %d" : ",\n{\"id\": %d", k);
        put_string(out, ", \"name\":\"");
        put_string(out, names[random_below(6)]);
        put_format(out, "\", \"age\": %d", (int)random_below(80) + 10);
        put_format(out, ", \"score\": %d", (int)random_below(200) - 100);
        put_format(out, ".%d", (int)random_below(8) * 125);
        put_string(out, random_below(2) == 0 ? ", \"member\": true" : ", \"member\": false");
        put_string(out, ", \"tags\": [");
        for (uint32_t tags = random_below(4), t = 0; t < tags; t++)
            put_format(out, t == 0 ? "\"t%d\"" : ", \"t%d\"", (int)random_below(20));
        put_string(out, "], \"place\": {\"city\": ");
        if (random_below(5) == 0)
            put_string(out, "null");
        else
            put_format(out, "\"c%d\"", (int)random_below(9));
        put_format(out, ", \"at\": [%d.5, ", (int)random_below(180));
        put_format(out, "-%de-1]}}", (int)random_below(900) + 1);
    }
    put_string(out, "\n] }\n");
}

static uint32_t hash_bytes(const char *bytes, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t k = 0; k < length; k++)
        hash = (hash ^ (unsigned char)bytes[k]) * 16777619u;
    return hash;
}

static void show_document(int people) {
    Text source = {NULL, 0, 0}, compact = {NULL, 0, 0}, indented = {NULL, 0, 0};
    const char *error;
    long column;
    generate(&source, people);
    Json *json = parse(source.bytes, &error, &column);
    if (json == NULL) {
        printf("error at %ld: %s\n", column, error);
        free(source.bytes);
        return;
    }
    print(&compact, json, -1);
    print(&indented, json, 0);
    Json *again = parse(indented.bytes, &error, &column);
    printf("document %lu bytes, compact %lu %08x, indented %lu %08x, same %d\n", (unsigned long)source.length,
           (unsigned long)compact.length, (unsigned)hash_bytes(compact.bytes, compact.length),
           (unsigned long)indented.length, (unsigned)hash_bytes(indented.bytes, indented.length),
           again != NULL && equal(json, again));
    sort_members(again);
    printf("same when sorted %d\n", equal(json, again));
    show_query(json, "people[*].id");
    show_query(json, "people[*].age");
    show_query(json, "people[-1].name");
    show_query(json, "people[*].place.at[0]");
    show_query(json, "people[*].tags[1]");
    show_query(again, "*[2].*");
    free_json(json);
    free_json(again);
    free(source.bytes);
    free(compact.bytes);
    free(indented.bytes);
}

static void show_text(const char *text) {
    const char *error;
    long column;
    Json *json = parse(text, &error, &column);
    if (json == NULL) {
        printf("%s -> error at %ld: %s\n", text, column, error);
        return;
    }
    Text out = {NULL, 0, 0};
    print(&out, json, -1);
    printf("%s -> %s\n", text, out.bytes);
    free(out.bytes);
    free_json(json);
}

static void show_merge(void) {
    const char *error;
    long column;
    Json *target = parse("{\"a\": 1, \"b\": {\"c\": [1, 2], \"d\": true}, \"e\": \"x\"}", &error, &column);
    Json *patch = parse("{\"b\": {\"c\": null, \"f\": {\"g\": []}}, \"a\": [0.1], \"h\": {}}", &error, &column);
    merge(target, patch);
    sort_members(target);
    Text out = {NULL, 0, 0};
    print(&out, target, 0);
    printf("merged %s\n", out.bytes);
    free(out.bytes);
    free_json(target);
    free_json(patch);
}

int main(int argc, char **argv) {
    static const char *const texts[] = {
        " [1, -2.50, 3e2, 0.125 ,1E-3]",
        "{\"a\":{\"b\":[true,false,null,{}]},\"\\u0041\\n\":\"\\u20ac\"}",
        "\"\"",
        "[1, 2",
        "{\"a\" 1}",
        "{\"a\": 1, \"a\": 2}",
        "[01]",
        "\"\\ud800x\"",
        "[1] 2",
        "tru",
        "[-]",
    };
    const char *size = argc > 1 ? argv[1] : "small";
    int people = strcmp(size, "large") == 0 ? 20000 : strcmp(size, "medium") == 0 ? 3000 : 60;
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
        show_text(texts[k]);
    show_merge();
    show_document(people);
    return 0;
}
