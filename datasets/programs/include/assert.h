/* Diagnostics. No include guard: NDEBUG is looked at on every inclusion, as the C standard asks. */
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#ifdef __cplusplus
extern "C"
#endif
__attribute__((noreturn)) void __assert_fail(const char *condition, const char *file, unsigned line,
                                             const char *function);
#define assert(condition) \
  ((condition) ? (void)0 : __assert_fail(#condition, __FILE__, __LINE__, __func__))
#endif
#if !defined(__cplusplus) && !defined(static_assert)
#define static_assert _Static_assert
#endif
