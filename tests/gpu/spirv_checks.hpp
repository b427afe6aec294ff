// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::gpu {

/// The instructions by which a module could compute something else than its source says: float arithmetic that lacks
/// NoContraction. Each as text; empty for an exact module.
std::vector<std::string> inexact_instructions(std::span<const std::uint32_t> module);
/// Numbers of instructions with device-defined results that a module may contain.
struct Estimates {
  bool fma = true;                       // judged by the self-test
  std::size_t roots = 1, quotients = 1;  // of binary32: gpu/shaders/division.glsl corrects them
};
/// The instructions whose results a device may choose, beyond `allowed`: of GLSL.std.450 all but a few that are exact
/// (minima and maxima of integers, |x|, bits), float remainders, products of vectors and matrices. Each as text.
std::vector<std::string> forbidden_instructions(std::span<const std::uint32_t> module, const Estimates& allowed);
/// Float arithmetic instructions there are at all: a test of the test.
std::size_t arithmetic_instructions(std::span<const std::uint32_t> module);
/// Size of a module's work groups, where the constants of group sizes are what devices of `group_threads` have
/// (gpu/internal/pipelines.cpp).
struct GroupSize {
  std::uint32_t threads = 0, shared_bytes = 0;
};
GroupSize group_size(std::span<const std::uint32_t> module, std::uint32_t group_threads);
/// True when the module needs binary64.
bool uses_float64(std::span<const std::uint32_t> module);

}  // namespace weft::gpu
