// operator new and operator delete over malloc and free. Running out of memory ends the program.
#include <new>

#include <stdio.h>
#include <stdlib.h>

const std::nothrow_t std::nothrow{};

static void *allocate(std::size_t size, std::size_t alignment) {
  void *block = alignment <= 16 ? malloc(size) : aligned_alloc(alignment, size);
  if (block == nullptr) {
    fputs("operator new: out of memory\n", stderr);
    abort();
  }
  return block;
}

void *operator new(std::size_t size) { return allocate(size, 1); }
void *operator new[](std::size_t size) { return allocate(size, 1); }
void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return malloc(size); }
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept { return malloc(size); }
void *operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *block) noexcept { free(block); }
void operator delete[](void *block) noexcept { free(block); }
void operator delete(void *block, std::size_t) noexcept { free(block); }
void operator delete[](void *block, std::size_t) noexcept { free(block); }
void operator delete(void *block, std::align_val_t) noexcept { free(block); }
void operator delete[](void *block, std::align_val_t) noexcept { free(block); }
void operator delete(void *block, std::size_t, std::align_val_t) noexcept { free(block); }
void operator delete[](void *block, std::size_t, std::align_val_t) noexcept { free(block); }
