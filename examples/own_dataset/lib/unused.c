// In the library, but not in the program: nobody calls it, so the linker leaves it out, and so does the target.
#include <stdio.h>

void print_nothing(void) { puts(""); }
