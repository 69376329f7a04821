/* From the entry point to main and back: initialisers, exit handlers, what the C++ ABI asks for. */
#include <stdio.h>
#include <stdlib.h>

#include "system.h"

typedef void initialiser(int argc, char **argv, char **environment);
typedef void finaliser(void);

#define HIDDEN __attribute__((visibility("hidden")))
extern initialiser *const __preinit_array_start[] HIDDEN, *const __preinit_array_end[] HIDDEN;
extern initialiser *const __init_array_start[] HIDDEN, *const __init_array_end[] HIDDEN;
extern finaliser *const __fini_array_start[] HIDDEN, *const __fini_array_end[] HIDDEN;

int main(int argc, char **argv, char **environment);

struct exit_handler {
  struct exit_handler *earlier;
  void (*function)(void *);
  void *argument;
};

static struct exit_handler *exit_handlers;

void *__dso_handle HIDDEN = NULL;

void aiocg_start(long *stack) {
  aiocg_set_thread();
  int argc = (int)stack[0];
  char **argv = (char **)(stack + 1);
  char **environment = argv + argc + 1;
  for (initialiser *const *f = __preinit_array_start; f < __preinit_array_end; f++) (*f)(argc, argv, environment);
  for (initialiser *const *f = __init_array_start; f < __init_array_end; f++) (*f)(argc, argv, environment);
  exit(main(argc, argv, environment));
}

int __cxa_atexit(void (*function)(void *), void *argument, void *library) {
  (void)library;
  struct exit_handler *handler = malloc(sizeof *handler);
  if (handler == NULL) return -1;
  handler->earlier = exit_handlers;
  handler->function = function;
  handler->argument = argument;
  exit_handlers = handler;
  return 0;
}

static void call_without_argument(void *function) { ((void (*)(void))function)(); }

int atexit(void (*function)(void)) { return __cxa_atexit(call_without_argument, (void *)function, NULL); }

void exit(int status) {
  while (exit_handlers != NULL) {
    struct exit_handler *handler = exit_handlers;
    exit_handlers = handler->earlier;
    handler->function(handler->argument);
  }
  for (finaliser *const *f = __fini_array_end; f > __fini_array_start;) (*--f)();
  _Exit(status);
}

void _Exit(int status) {
  aiocg_flush();
  aiocg_leave(status);
}

void abort(void) {
  aiocg_flush();
  aiocg_raise_abort();
}

void __assert_fail(const char *condition, const char *file, unsigned line, const char *function) {
  fprintf(stderr, "%s:%u: %s: assertion failed: %s\n", file, line, function, condition);
  abort();
}

void __stack_chk_fail(void) {
  fputs("the stack was overwritten\n", stderr);
  abort();
}

void __cxa_pure_virtual(void) {
  fputs("a pure virtual function was called\n", stderr);
  abort();
}

void __cxa_deleted_virtual(void) {
  fputs("a deleted virtual function was called\n", stderr);
  abort();
}

/* Nothing is ever thrown, but GCC's -fnon-call-exceptions makes code for the case that something is. */
static void unwind(void) {
  fputs("an exception was thrown\n", stderr);
  abort();
}

void _Unwind_Resume(void *exception) {
  (void)exception;
  unwind();
}
void _ZSt9terminatev(void) { unwind(); }
void __cxa_call_terminate(void *exception) {
  (void)exception;
  unwind();
}
void __cxa_end_catch(void) { unwind(); }
void __cxa_rethrow(void) { unwind(); }
void __cxa_throw_bad_array_new_length(void) { unwind(); }
void *__cxa_begin_catch(void *exception) {
  unwind();
  return exception;
}
int __gcc_personality_v0(void) {
  unwind();
  return 0;
}
int __gxx_personality_v0(void) {
  unwind();
  return 0;
}

/* Guards of function-local statics. There is one thread, so the first byte ("initialised") is enough. */
int __cxa_guard_acquire(unsigned char *guard) { return guard[0] == 0; }
void __cxa_guard_release(unsigned char *guard) { guard[0] = 1; }
void __cxa_guard_abort(unsigned char *guard) { (void)guard; }
