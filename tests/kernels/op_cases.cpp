// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/op_cases.hpp"

#include "tests/kernels/coded_weights.hpp"
#include "tests/kernels/op_table.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace weft::kernels::testing_ops {

std::size_t Case::block_of(const void* address) const {
  const auto* at = static_cast<const float*>(address);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const float* begin = blocks[i].initial.data();
    if (std::greater_equal<>()(at, begin) && std::less<>()(at, begin + blocks[i].initial.size())) return i;
  }
  return blocks.size();
}

std::vector<Case> cases_of(OpId op, Breadth breadth) {
  static constexpr void (*kRows[])(Table&) = {
#define WEFT_OP(name, Type) rows::name,
#include "kernels/ops.def"
#undef WEFT_OP
  };
  Table table(breadth);
  kRows[static_cast<int>(op)](table);
  return table.take();
}

float* Operands::add(AlignedBuffer<float> values, bool is_bits) {
  if (values.size() == 0) values = AlignedBuffer<float>(1);  // an address of its own
  blocks_.push_back({std::move(values), is_bits, false});
  return blocks_.back().initial.data();
}

float Operands::draw() {
  const auto& special = testing_support::special_values();
  if (special_ && random_.next_below(one_in_) == 0)
    return special[random_.next_below(static_cast<std::uint32_t>(special.size()))];
  return random_.next_normal() * (special_ ? 3.0f : 1.0f);
}

MatrixView Operands::matrix(std::size_t rows, std::size_t cols, std::size_t gap) {
  constexpr float kJunk = 7654321.0f;
  AlignedBuffer<float> values(rows == 0 ? 0 : (rows - 1) * (cols + gap) + cols);
  std::fill(values.begin(), values.end(), kJunk);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) values[i * (cols + gap) + j] = draw();
  return {add(std::move(values)), rows, cols, cols + gap};
}

MatrixView Operands::matrix_of(std::size_t rows, std::size_t cols, const std::vector<float>& values) {
  return {values_of(values), rows, cols, cols};
}

float* Operands::values(std::size_t count) {
  AlignedBuffer<float> values(count);
  for (float& each : values) each = draw();
  return add(std::move(values));
}

float* Operands::values_of(const std::vector<float>& values) {
  AlignedBuffer<float> copy(values.size());
  std::copy(values.begin(), values.end(), copy.begin());
  return add(std::move(copy));
}

Panels Operands::panels(std::size_t out, std::size_t in, float padding) {
  AlignedBuffer<float> values(panels_size(out, in));
  std::fill(values.begin(), values.end(), padding);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t k = 0; k < in; ++k) values[panel_index(in, o, k)] = draw();
  return {add(std::move(values)), out, in};
}

Panels Operands::finite_panels(std::size_t out, std::size_t in) {
  const bool special = std::exchange(special_, false);
  const Panels made = panels(out, in);
  special_ = special;
  return made;
}

ConstWeight Operands::weight(const Encoding& encoding, std::size_t out, std::size_t in, Activations activations,
                             bool is_finite) {
  using namespace testing_coded;
  CodedMatrix matrix(encoding, out, in);
  matrix.fill(random_, special_ && !is_finite ? Codes::any : Codes::finite);
  const WeightBytes bytes = weight_bytes(encoding, out, in);
  const auto copy = [&](const void* from, std::size_t count) -> const void* {
    if (!from) return nullptr;
    AlignedBuffer<float> to((count + 3) / 4);
    std::memcpy(to.data(), from, count);
    return add(std::move(to), true);
  };
  ConstWeight w = matrix.view();
  w.codes = copy(w.codes, bytes.codes), w.scales = copy(w.scales, bytes.scales),
  w.zero_points = copy(w.zero_points, bytes.zero_points);
  w.activations = activations;
  if (encoding.dtype == Dtype::fp8_e4m3 && (!special_ || is_finite) && weights_++ % 2 == 0) {
    const std::uint8_t yes[4] = {1};
    w.nan_free = static_cast<const std::uint8_t*>(copy(yes, sizeof yes));
  }
  return w;
}

Weight Operands::filler(const Encoding& encoding, std::size_t out, std::size_t in) {
  const WeightBytes bytes = weight_bytes(encoding, out, in);
  const auto array = [&](std::size_t count) -> void* {
    AlignedBuffer<float> to((count + 3) / 4);
    std::memset(to.data(), 0xa5, to.size() * sizeof(float));
    return count ? add(std::move(to), true) : nullptr;
  };
  void* const codes = bytes.codes ? array(bytes.codes) : add({}, true);
  void *const scales = array(bytes.scales), *const zero_points = array(bytes.zero_points);
  return {codes, scales, zero_points, out, in, encoding.dtype, encoding.granularity};
}

std::uint32_t* Operands::labels(std::size_t count, std::size_t below) {
  AlignedBuffer<float> values(count);
  for (float& each : values) each = std::bit_cast<float>(random_.next_below(static_cast<std::uint32_t>(below)));
  return reinterpret_cast<std::uint32_t*>(add(std::move(values), true));
}

std::uint64_t* Operands::words(const std::vector<std::uint64_t>& words) {
  AlignedBuffer<float> values(2 * words.size());
  std::memcpy(values.data(), words.data(), 8 * words.size());
  return reinterpret_cast<std::uint64_t*>(add(std::move(values), true));
}

float* Operands::workspace(std::size_t floats) {
  workspace_stride_ = std::max<std::size_t>(16, (floats + 15) / 16 * 16);  // 64-byte aligned each
  AlignedBuffer<float> values(workspace_stride_ * kMostThreads);
  std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
  float* const at = add(std::move(values));
  blocks_.back().is_workspace = true;
  return at;
}

}  // namespace weft::kernels::testing_ops
