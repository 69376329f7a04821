// CUDA C on a processor: as much of it as generated kernels use. A thread of a block is a thread of the machine, and
// the blocks come one after the other. A barrier that not all threads of a block come to ends the program.

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __syncthreads() shim::synchronize()

struct dim3 {
    unsigned x, y, z;
};

struct __align__(8) float2 {
    float x, y;
};

struct __align__(16) float4 {
    float x, y, z, w;
};

static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static thread_local dim3 threadIdx, blockIdx;

static inline float __int_as_float(int bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

namespace shim {

struct Copy {
    float *to, value;
};

static thread_local std::vector<Copy> pending;

static int count;                // threads of a block
static std::atomic<int> through;  // those that are done with the present block

// Carried out when all threads of a block have come to a barrier or to their end.
struct Check {
    void operator()() noexcept {
        if (through != 0 && through != count) {
            std::fputs("a thread was done when others came to a barrier\n", stderr);
            std::_Exit(3);
        }
        through = 0;
    }
};

static std::barrier<Check> *barrier;

// Threads that carry out an instruction together: 32 that follow each other in x.
struct Warp {
    std::barrier<> all{32};
    float operands[32][6];
};

static std::vector<std::unique_ptr<Warp>> warps;
static dim3 size;  // of a block

static Warp &my_warp() {
    if (size.x != 32) {
        std::fputs("the threads in x are no warp\n", stderr);
        std::_Exit(8);
    }
    return *warps[threadIdx.y + size.y * threadIdx.z];
}

// To the nearest number of 11 bits; ties go away from zero.
static float rounded(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & ~0x1fffu;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
}

static void synchronize() { barrier->arrive_and_wait(); }

template <class Kernel> void launch(dim3 grid, dim3 block, Kernel kernel) {
    count = block.x * block.y * block.z;
    size = block;
    warps.clear();
    for (int warp = 0; warp < count / 32; ++warp) warps.push_back(std::make_unique<Warp>());
    std::barrier<Check> all(count);
    barrier = &all;
    const auto run = [&](dim3 place) {
        threadIdx = place;
        for (unsigned z = 0; z < grid.z; ++z)
            for (unsigned y = 0; y < grid.y; ++y)
                for (unsigned x = 0; x < grid.x; ++x) {
                    blockIdx = {x, y, z};
                    kernel();
                    ++through;
                    all.arrive_and_wait();
                }
    };
    std::vector<std::thread> threads;
    for (unsigned z = 0; z < block.z; ++z)
        for (unsigned y = 0; y < block.y; ++y)
            for (unsigned x = 0; x < block.x; ++x) threads.emplace_back(run, dim3{x, y, z});
    for (auto &thread : threads) thread.join();
}

// An array of exactly this size, so that a sanitizer sees what lies beyond, aligned as memory of a device is.
static float *read(std::size_t size) {
    void *memory = nullptr;
    if (posix_memalign(&memory, 256, size * sizeof(float)) != 0) std::_Exit(4);
    if (std::fread(memory, sizeof(float), size, stdin) != size) std::_Exit(5);
    return static_cast<float *>(memory);
}

static void write(float *array, std::size_t size) {
    if (std::fwrite(array, sizeof(float), size, stdout) != size) std::_Exit(6);
    std::free(array);
}

}  // namespace shim

// As late as can be: until a thread has waited for them, what copies are to write is no number.
template <int count> static void copy_later(float *to, const float *from, bool inside) {
    if (reinterpret_cast<std::uintptr_t>(to) % (4 * count) || reinterpret_cast<std::uintptr_t>(from) % (4 * count)) {
        std::fputs("a copy that is not aligned\n", stderr);
        std::_Exit(7);
    }
    for (int i = 0; i < count; ++i) {
        to[i] = NAN;
        shim::pending.push_back({to + i, inside ? from[i] : 0.0f});
    }
}

static void finish_copies() {
    for (const auto &copy : shim::pending) *copy.to = copy.value;
    shim::pending.clear();
}

// A product on tensor cores: each lane of a warp tells the others its operands, which are rounded to 11 bits.
static void multiply(float *total, float a, float b, float c, float d, float x, float y) {
    shim::Warp &warp = shim::my_warp();
    const unsigned lane = threadIdx.x, group = lane / 4, place = lane % 4;
    const float operands[] = {a, b, c, d, x, y};
    for (int i = 0; i < 6; ++i) warp.operands[lane][i] = shim::rounded(operands[i]);
    warp.all.arrive_and_wait();
    for (int result = 0; result < 4; ++result)
        for (unsigned term = 0; term < 8; ++term) {
            const float *left = warp.operands[group * 4 + term % 4];
            const float *right = warp.operands[(place * 2 + result % 2) * 4 + term % 4];
            total[result] += left[term / 4 * 2 + result / 2] * right[4 + term / 4];
        }
    warp.all.arrive_and_wait();
}
