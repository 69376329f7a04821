/* GCC's own types of exact widths: its stdint.h would take the machine's in a program that has a library. */
#include <stdint-gcc.h>
