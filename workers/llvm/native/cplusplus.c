/* What freestanding C++ programs need beyond a C library, for hosts that have no C++ library.
 *
 * It is linked to programs, not loaded into the worker. All symbols are weak, so that a sanitizer's runtime overrides
 * them.
 */
#define WEAK __attribute__((weak))
#define UNUSED __attribute__((unused))

extern void *malloc(unsigned long);
extern void *aligned_alloc(unsigned long, unsigned long);
extern void free(void *);
extern void abort(void);

static void *allocate(unsigned long size, unsigned long alignment) {
  unsigned long rounded = (size + alignment - 1) / alignment * alignment;
  void *block = alignment <= 16 ? malloc(size) : aligned_alloc(alignment, rounded);
  if (!block) abort();
  return block;
}

#define NEW(label, ...)                                                         \
  WEAK void *label(__VA_ARGS__) __asm__(#label);                                \
  void *label(__VA_ARGS__)
#define DELETE(label, ...)                                                      \
  WEAK void label(void *block, ##__VA_ARGS__) __asm__(#label);                  \
  void label(void *block, ##__VA_ARGS__) { free(block); }

NEW(_Znwm, unsigned long size) { return allocate(size, 1); }
NEW(_Znam, unsigned long size) { return allocate(size, 1); }
NEW(_ZnwmRKSt9nothrow_t, unsigned long size, const void *nothrow) { return (void)nothrow, malloc(size); }
NEW(_ZnamRKSt9nothrow_t, unsigned long size, const void *nothrow) { return (void)nothrow, malloc(size); }
NEW(_ZnwmSt11align_val_t, unsigned long size, unsigned long alignment) { return allocate(size, alignment); }
NEW(_ZnamSt11align_val_t, unsigned long size, unsigned long alignment) { return allocate(size, alignment); }

DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm, UNUSED unsigned long size)
DELETE(_ZdaPvm, UNUSED unsigned long size)
DELETE(_ZdlPvSt11align_val_t, UNUSED unsigned long alignment)
DELETE(_ZdaPvSt11align_val_t, UNUSED unsigned long alignment)
DELETE(_ZdlPvmSt11align_val_t, UNUSED unsigned long size, UNUSED unsigned long alignment)
DELETE(_ZdaPvmSt11align_val_t, UNUSED unsigned long size, UNUSED unsigned long alignment)

WEAK const char nothrow __asm__("_ZSt7nothrow") = 0;

WEAK void __cxa_pure_virtual(void) { abort(); }
WEAK void __cxa_deleted_virtual(void) { abort(); }
WEAK int __cxa_guard_acquire(unsigned char *guard) { return guard[0] == 0; }
WEAK void __cxa_guard_release(unsigned char *guard) { guard[0] = 1; }
WEAK void __cxa_guard_abort(unsigned char *guard) { (void)guard; }
