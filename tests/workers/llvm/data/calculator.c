struct reader { const char *text; int failed; };

static const char *const names[] = {"zero", "one", "two", "three"};

static int expression(struct reader *reader);

static int factor(struct reader *reader) {
  if (*reader->text == '(') {
    reader->text++;
    int value = expression(reader);
    if (*reader->text++ != ')') reader->failed = 1;
    return value;
  }
  int value = 0, digits = 0;
  while (*reader->text >= '0' && *reader->text <= '9') value = value * 10 + (*reader->text++ - '0'), digits++;
  if (!digits) reader->failed = 1;
  return value;
}

static int add(int a, int b) { return a + b; }
static int subtract(int a, int b) { return a - b; }
static int multiply(int a, int b) { return a * b; }

static int (*operation(char symbol))(int, int) {
  switch (symbol) {
    case '+': return add;
    case '-': return subtract;
    case '*': return multiply;
    default: return 0;
  }
}

static int expression(struct reader *reader) {
  int value = factor(reader);
  for (int (*apply)(int, int); (apply = operation(*reader->text));) {
    reader->text++;
    value = apply(value, factor(reader));
  }
  return value;
}

const char *name(unsigned value) { return value < sizeof names / sizeof *names ? names[value] : "many"; }

int main(int count, char **arguments) {
  struct reader reader = {count > 1 ? arguments[1] : "(1+2)*3-4", 0};
  int value = expression(&reader);
  return reader.failed ? 100 : value - 5 + (name(2) != names[2]);
}
