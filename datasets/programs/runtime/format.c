/* printf and its family. Floating-point numbers are rounded from their exact decimal expansion. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "decimal.h"
#include "stream.h"

enum { LEFT = 1, PLUS = 2, SPACE = 4, ALTERNATE = 8, ZERO = 16 };

struct conversion {
  int flags;
  int width;
  int precision; /* -1: none given */
  char length;   /* 'H' for hh, 'q' for ll, else the letter; 0: none */
  char type;
};

struct output {
  FILE *stream;
  size_t written;
};

static void emit(struct output *out, const char *data, size_t size) {
  aiocg_put(out->stream, data, size);
  out->written += size;
}

static void emit_fill(struct output *out, char c, int count) {
  if (count <= 0) return;
  aiocg_fill(out->stream, c, (size_t)count);
  out->written += (size_t)count;
}

/* Text made of a prefix (sign, 0x), zeros, a body, zeros and a tail, padded to the width. */
struct field {
  const char *prefix;
  int leading_zeros;
  const char *body;
  int body_size;
  int trailing_zeros;
  const char *tail;
};

static void emit_field(struct output *out, const struct conversion *c, struct field f) {
  int prefix_size = (int)strlen(f.prefix), tail_size = (int)strlen(f.tail);
  int padding = c->width - prefix_size - f.leading_zeros - f.body_size - f.trailing_zeros - tail_size;
  if (!(c->flags & (LEFT | ZERO))) emit_fill(out, ' ', padding);
  emit(out, f.prefix, (size_t)prefix_size);
  if ((c->flags & ZERO) && !(c->flags & LEFT)) emit_fill(out, '0', padding);
  emit_fill(out, '0', f.leading_zeros);
  emit(out, f.body, (size_t)f.body_size);
  emit_fill(out, '0', f.trailing_zeros);
  emit(out, f.tail, (size_t)tail_size);
  if (c->flags & LEFT) emit_fill(out, ' ', padding);
}

static const char *sign_text(const struct conversion *c, int negative) {
  return negative ? "-" : c->flags & PLUS ? "+" : c->flags & SPACE ? " " : "";
}

static void emit_text(struct output *out, struct conversion c, const char *text, size_t size) {
  c.flags &= ~ZERO;
  emit_field(out, &c, (struct field){"", 0, text, (int)size, 0, ""});
}

static void emit_integer(struct output *out, struct conversion c, uint64_t value, const char *prefix, unsigned base) {
  const char *symbols = c.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  char digits[24];
  int at = sizeof digits;
  for (uint64_t left = value; left != 0; left /= base) digits[--at] = symbols[left % base];
  int size = (int)sizeof digits - at;
  if (c.precision < 0)
    c.precision = 1;
  else
    c.flags &= ~ZERO;
  int zeros = c.precision > size ? c.precision - size : 0;
  if (c.flags & ALTERNATE) {
    if (base == 16 && value != 0) prefix = c.type == 'X' ? "0X" : "0x";
    if (base == 8 && zeros == 0) zeros = 1;
  }
  emit_field(out, &c, (struct field){prefix, zeros, digits + at, size, 0, ""});
}

static int write_exponent(char *to, int exponent, char letter) {
  int magnitude = exponent < 0 ? -exponent : exponent, size = 0;
  to[size++] = letter;
  to[size++] = exponent < 0 ? '-' : '+';
  if (magnitude >= 100) to[size++] = (char)('0' + magnitude / 100);
  to[size++] = (char)('0' + magnitude / 10 % 10);
  to[size++] = (char)('0' + magnitude % 10);
  to[size] = 0;
  return size;
}

/* digits and point as aiocg_digits_of gives them, `precision` digits after the point. */
static void emit_fixed(struct output *out, const struct conversion *c, const char *sign, const char *digits,
                       int count, int point, int precision) {
  char body[2 * AIOCG_MAX_DIGITS];
  int size = 0;
  for (int i = 0; i < point; i++) body[size++] = i < count ? digits[i] : '0';
  if (point <= 0) body[size++] = '0';
  if (precision > 0 || (c->flags & ALTERNATE)) body[size++] = '.';
  int shown = 0;
  for (int i = point; shown < precision && i < count; i++, shown++) body[size++] = i < 0 ? '0' : digits[i];
  emit_field(out, c, (struct field){sign, 0, body, size, precision - shown, ""});
}

static void emit_scientific(struct output *out, const struct conversion *c, const char *sign, const char *digits,
                            int count, int exponent, int precision, char letter) {
  char body[AIOCG_MAX_DIGITS + 2], tail[8];
  int size = 0, shown = 0;
  body[size++] = count > 0 ? digits[0] : '0';
  if (precision > 0 || (c->flags & ALTERNATE)) body[size++] = '.';
  for (int i = 1; shown < precision && i < count; i++, shown++) body[size++] = digits[i];
  write_exponent(tail, exponent, letter);
  emit_field(out, c, (struct field){sign, 0, body, size, precision - shown, tail});
}

static void emit_real(struct output *out, struct conversion c, double value) {
  int upper = c.type >= 'A' && c.type <= 'Z';
  char style = (char)(c.type | 32);
  const char *sign = sign_text(&c, signbit(value));
  if (!isfinite(value)) {
    const char *text = isnan(value) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf";
    c.flags &= ~ZERO;
    emit_field(out, &c, (struct field){sign, 0, text, 3, 0, ""});
    return;
  }
  char digits[AIOCG_MAX_DIGITS];
  int point = 1, count = 0;
  if (value != 0) count = aiocg_digits_of(fabs(value), digits, &point);
  int precision = c.precision < 0 ? 6 : c.precision;
  if (style == 'f') {
    int keep = point + precision;
    count = keep < 0 ? 0 : aiocg_round_digits(digits, count, keep, &point);
    emit_fixed(out, &c, sign, digits, count, point, precision);
    return;
  }
  if (style == 'g' && precision == 0) precision = 1;
  count = aiocg_round_digits(digits, count, style == 'g' ? precision : precision + 1, &point);
  int exponent = point - 1;
  if (style == 'e') {
    emit_scientific(out, &c, sign, digits, count, exponent, precision, upper ? 'E' : 'e');
    return;
  }
  if (!(c.flags & ALTERNATE)) {
    while (count > 0 && digits[count - 1] == '0') count--;
    if (exponent < -4 || exponent >= precision)
      precision = count > 0 ? count : 1;
    else
      precision = count > point ? count : exponent + 1, precision = precision < 1 ? 1 : precision;
  }
  int wanted = c.precision < 0 ? 6 : c.precision == 0 ? 1 : c.precision;
  if (exponent < -4 || exponent >= wanted)
    emit_scientific(out, &c, sign, digits, count, exponent, precision - 1, upper ? 'E' : 'e');
  else
    emit_fixed(out, &c, sign, digits, count, point, precision - 1 - exponent);
}

static int64_t signed_argument(char length, va_list *arguments) {
  switch (length) {
    case 'H': return (signed char)va_arg(*arguments, int);
    case 'h': return (short)va_arg(*arguments, int);
    case 0: return va_arg(*arguments, int);
    default: return va_arg(*arguments, long);
  }
}

static uint64_t unsigned_argument(char length, va_list *arguments) {
  switch (length) {
    case 'H': return (unsigned char)va_arg(*arguments, unsigned);
    case 'h': return (unsigned short)va_arg(*arguments, unsigned);
    case 0: return va_arg(*arguments, unsigned);
    default: return va_arg(*arguments, unsigned long);
  }
}

static int read_number(const char **at, va_list *arguments) {
  int number = 0;
  if (**at == '*') {
    ++*at;
    return va_arg(*arguments, int);
  }
  for (; **at >= '0' && **at <= '9'; ++*at) number = number * 10 + (**at - '0');
  return number;
}

/* Reads what stands between '%' and the end of the conversion; returns what comes after it. */
static const char *parse_conversion(const char *at, struct conversion *c, va_list *arguments) {
  static const char flag_letters[] = "-+ #0";
  *c = (struct conversion){.precision = -1};
  for (const char *flag; *at != 0 && (flag = strchr(flag_letters, *at)) != NULL; at++)
    c->flags |= 1 << (flag - flag_letters);
  c->width = read_number(&at, arguments);
  if (c->width < 0) {
    c->flags |= LEFT;
    c->width = -c->width;
  }
  if (*at == '.') {
    at++;
    c->precision = read_number(&at, arguments);
  }
  if (*at != 0 && strchr("hljztL", *at) != NULL) {
    c->length = *at++;
    if (*at == c->length && (*at == 'h' || *at == 'l')) c->length = *at++ == 'h' ? 'H' : 'q';
  }
  c->type = *at;
  return *at == 0 ? at : at + 1;
}

static void emit_conversion(struct output *out, struct conversion c, va_list *arguments) {
  switch (c.type) {
    case 'd':
    case 'i': {
      int64_t value = signed_argument(c.length, arguments);
      emit_integer(out, c, value < 0 ? -(uint64_t)value : (uint64_t)value, sign_text(&c, value < 0), 10);
      break;
    }
    case 'u': emit_integer(out, c, unsigned_argument(c.length, arguments), "", 10); break;
    case 'o': emit_integer(out, c, unsigned_argument(c.length, arguments), "", 8); break;
    case 'x':
    case 'X': emit_integer(out, c, unsigned_argument(c.length, arguments), "", 16); break;
    case 'p':
      c.flags |= ALTERNATE;
      emit_integer(out, c, (uint64_t)va_arg(*arguments, void *), "", 16);
      break;
    case 'c': {
      char byte = (char)va_arg(*arguments, int);
      emit_text(out, c, &byte, 1);
      break;
    }
    case 's': {
      const char *text = va_arg(*arguments, const char *);
      if (text == NULL) text = "(null)";
      emit_text(out, c, text, c.precision < 0 ? strlen(text) : strnlen(text, (size_t)c.precision));
      break;
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': emit_real(out, c, va_arg(*arguments, double)); break;
    case '%': emit(out, "%", 1); break;
    default: emit(out, "%", 1), emit(out, &c.type, c.type != 0);
  }
}

static int format_to(FILE *stream, const char *format, va_list arguments) {
  struct output out = {stream, 0};
  va_list copy;
  va_copy(copy, arguments);
  while (*format != 0) {
    size_t plain = strcspn(format, "%");
    emit(&out, format, plain);
    format += plain;
    if (*format == '%') {
      struct conversion c;
      format = parse_conversion(format + 1, &c, &copy);
      emit_conversion(&out, c, &copy);
    }
  }
  va_end(copy);
  return (int)out.written;
}

int vfprintf(FILE *stream, const char *format, va_list arguments) {
  int written = format_to(stream, format, arguments);
  if (stream == stderr) fflush(stream);
  return written;
}

int vsnprintf(char *buffer, size_t size, const char *format, va_list arguments) {
  FILE memory = {-1, buffer, size == 0 ? 0 : size - 1, 0};
  int written = format_to(&memory, format, arguments);
  if (size > 0) buffer[memory.used] = 0;
  return written;
}

int vprintf(const char *format, va_list arguments) { return vfprintf(stdout, format, arguments); }

int vsprintf(char *buffer, const char *format, va_list arguments) {
  return vsnprintf(buffer, (size_t)INT32_MAX, format, arguments);
}

#define FORWARD(call)          \
  va_list arguments;           \
  va_start(arguments, format); \
  int written = call;          \
  va_end(arguments);           \
  return written

int printf(const char *format, ...) { FORWARD(vfprintf(stdout, format, arguments)); }
int fprintf(FILE *stream, const char *format, ...) { FORWARD(vfprintf(stream, format, arguments)); }
int sprintf(char *buffer, const char *format, ...) { FORWARD(vsprintf(buffer, format, arguments)); }
int snprintf(char *buffer, size_t size, const char *format, ...) {
  FORWARD(vsnprintf(buffer, size, format, arguments));
}
