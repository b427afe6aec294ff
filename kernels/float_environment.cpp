// SPDX-License-Identifier: Apache-2.0

#include "kernels/float_environment.hpp"

#include <atomic>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace weft::kernels {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kRounding = 0x6000, kFlushToZero = 0x8000, kSubnormalsAreZero = 0x0040, kMasks = 0x1f80;

std::uint64_t read_control() noexcept { return _mm_getcsr(); }
void write_control(std::uint64_t value) noexcept { _mm_setcsr(static_cast<unsigned>(value)); }
std::uint64_t exact(std::uint64_t control) noexcept {
  return (control & ~kRounding) | kFlushToZero | kSubnormalsAreZero | kMasks;
}
#elif defined(__aarch64__)
// FZ flushes results and inputs alike; RMode 0 is nearest even; the trap enables are cleared. AH, FIZ and NEP
// (FEAT_AFP) change what FZ means, so they are cleared too.
constexpr std::uint64_t kFlushToZero = 1u << 24, kRounding = 3u << 22, kTraps = 0x9f00, kAlternate = 7;

std::uint64_t read_control() noexcept {
  std::uint64_t value;
  __asm__ volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void write_control(std::uint64_t value) noexcept { __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
std::uint64_t exact(std::uint64_t control) noexcept {
  return (control & ~(kRounding | kTraps | kAlternate)) | kFlushToZero;
}
#elif defined(__riscv)
// No mode flushes (docs/numerics.md, RISC-V): rounding alone is set, to nearest even.
constexpr std::uint64_t kRounding = 7;

std::uint64_t read_control() noexcept {
  std::uint64_t value;
  __asm__ volatile("frrm %0" : "=r"(value));
  return value;
}
void write_control(std::uint64_t value) noexcept { __asm__ volatile("fsrm %0" : : "r"(value) : "memory"); }
std::uint64_t exact(std::uint64_t control) noexcept { return control & ~kRounding; }
#else
#error "say here how this CPU flushes subnormals"
#endif

#if defined(__aarch64__)
std::uint64_t read_status() noexcept {
  std::uint64_t value;
  __asm__ volatile("mrs %0, fpsr" : "=r"(value)::"memory");
  return value;
}
void write_status(std::uint64_t value) noexcept { __asm__ volatile("msr fpsr, %0" : : "r"(value) : "memory"); }

// With FZ set, UFC says that a result was flushed, and only that (Arm ARM, FPSR.UFC).
constexpr std::uint64_t kUnderflow = 1u << 3;
std::atomic<bool> was_flushed{false};  // alone: it orders nothing
#endif

}  // namespace

#if defined(__aarch64__)
FlushSubnormals::FlushSubnormals() noexcept : saved_(read_control()), status_(read_status()) {
  if (const std::uint64_t wanted = exact(saved_); wanted != saved_) write_control(wanted);
  if (status_ & kUnderflow) write_status(status_ & ~kUnderflow);
}

FlushSubnormals::~FlushSubnormals() {
  const std::uint64_t status = read_status();
  if (status & kUnderflow) was_flushed.store(true, std::memory_order_relaxed);
  if (status_ & ~status & kUnderflow) write_status(status | kUnderflow);
  if (exact(saved_) != saved_) write_control(saved_);
}

std::optional<bool> take_flushed_results() noexcept { return was_flushed.exchange(false, std::memory_order_relaxed); }
#else
FlushSubnormals::FlushSubnormals() noexcept : saved_(read_control()) {
  if (const std::uint64_t wanted = exact(saved_); wanted != saved_) write_control(wanted);
}

FlushSubnormals::~FlushSubnormals() {
  if (exact(saved_) != saved_) write_control(saved_);
}

#if defined(__riscv)
std::optional<bool> take_flushed_results() noexcept { return true; }
#else
std::optional<bool> take_flushed_results() noexcept { return std::nullopt; }
#endif
#endif

bool flushes_subnormals() noexcept {
  volatile float smallest_normal = 0x1p-126f, half = 0.5f, subnormal = 0x1p-130f, large = 0x1p20f;
  volatile float one = 1.0f, below_half_ulp = 0x1p-25f;
  // Stored through volatiles, so that no operation moves past a change of the setting.
  volatile float product = smallest_normal * half, raised = subnormal * large;
  volatile float up = one + below_half_ulp, down = -one - below_half_ulp;
  return product == 0.0f && raised == 0.0f && up == 1.0f && down == -1.0f;
}

}  // namespace weft::kernels
