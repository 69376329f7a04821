/* The operating system as the rest of the runtime sees it. */
#ifndef AIOCG_SYSTEM_H
#define AIOCG_SYSTEM_H
#include <stddef.h>

/* Writes all of `size` bytes to a file descriptor, or drops them when it cannot be written to. */
void aiocg_write(int descriptor, const char *data, size_t size);

/* Fresh zeroed pages, or NULL. `size` is a multiple of 4096. */
void *aiocg_map(size_t size);
void aiocg_unmap(void *pages, size_t size);

/* Gives the only thread a block of its own, as compilers expect. */
void aiocg_set_thread(void);

__attribute__((noreturn)) void aiocg_leave(int status);
__attribute__((noreturn)) void aiocg_raise_abort(void);

/* Called by the entry point with the initial stack: argc, argv[], NULL, environment. */
__attribute__((noreturn)) void aiocg_start(long *stack);

/* Writes out what is buffered on the standard streams. */
void aiocg_flush(void);
#endif
