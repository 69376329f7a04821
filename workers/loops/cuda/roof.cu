extern "C" __global__ void __launch_bounds__(THREADS) copy(const float4 *__restrict__ a, float4 *__restrict__ b) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    b[i] = a[i];
}

extern "C" __global__ void __launch_bounds__(THREADS) multiply_add(float factor, float term, float *result) {
    float value[CHAINS];
    #pragma unroll
    for (int i = 0; i < CHAINS; ++i) value[i] = threadIdx.x + i;
    #pragma unroll 16
    for (int turn = 0; turn < TURNS; ++turn) {
        #pragma unroll
        for (int i = 0; i < CHAINS; ++i) value[i] = value[i] * factor + term;
    }
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum += value[i];
    result[blockIdx.x * THREADS + threadIdx.x] = sum;
}
