// Copies to shared memory that go on while a thread computes. Below compute capability 8.0, threads wait for them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int count> __device__ __forceinline__ void copy_later(float *to, const float *from, bool inside) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(to), bytes = inside ? 4 * count : 0;
    if constexpr (count == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     ::"r"(place), "l"(from), "n"(4 * count), "r"(bytes) : "memory");
}
__device__ __forceinline__ void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
template <int count> __device__ __forceinline__ void copy_later(float *to, const float *from, bool inside) {
    #pragma unroll
    for (int i = 0; i < count; ++i) to[i] = inside ? from[i] : 0.0f;
}
__device__ __forceinline__ void finish_copies() {}
#endif
