// A warp adds a product of 16x8 and 8x8 elements, rounded to TF32, to a tile of the result.
__device__ __forceinline__ unsigned rounded(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}
__device__ __forceinline__ void multiply(float *total, float a, float b, float c, float d, float x, float y) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(total[0]), "+f"(total[1]), "+f"(total[2]), "+f"(total[3])
        : "r"(rounded(a)), "r"(rounded(b)), "r"(rounded(c)), "r"(rounded(d)), "r"(rounded(x)), "r"(rounded(y)));
}
