// SPDX-License-Identifier: Apache-2.0

#include "mesh/weights/quantized_weight.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/linear_dequantized.hpp"
#include "kernels/op_stream.hpp"
#include "kernels/quantize.hpp"
#include "kernels/weight_layout.hpp"

#include "core/cache_line.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::size_t kBoundFrom = std::size_t{256} << 10;  // pages are 4 KiB: below, whole pages would waste too much

/// True of integers of up to 8 bits whose scales are so small that none of them can overflow.
bool is_surely_finite(const kernels::ConstWeight& w) {
  constexpr float kSmall = 0x1p118f;
  if (!has_integer_kernel(w.dtype) || !w.scales) return false;
  if (w.has_half_scales()) return true;
  const std::span scales(static_cast<const float*>(w.scales), kernels::scale_count(w.encoding(), w.out, w.in));
  bool all = true;
  for (const float scale : scales) all &= std::fabs(scale) < kSmall;
  return all;
}

// e4m3 alone has a NaN and no infinity, so that looking for it takes time in a kernel.
bool tracks_nan(Dtype dtype) { return dtype == Dtype::fp8_e4m3; }

}  // namespace

Result<WeightMemory> WeightMemory::allocate(std::size_t bytes, topology::NodeMemory& memory, std::uint32_t node) {
  WeightMemory made;
  if (bytes >= kBoundFrom) {
    WEFT_TRY(made.bound_, memory.allocate(bytes, node));
  } else {
    made.heap_ = AlignedBuffer<std::byte>(bytes);
  }
  return made;
}

Result<WeightArena> WeightArena::make(std::size_t bytes, topology::NodeMemory& memory, std::uint32_t node) {
  WeightArena made;
  WEFT_TRY(auto buffer, memory.allocate(bytes, node));
  made.memory_ = std::make_shared<topology::NodeBuffer>(std::move(buffer));
  return made;
}

WeightMemory WeightArena::take(std::size_t bytes) noexcept {
  WeightMemory taken;
  if (!memory_ || cache_lines(bytes) > memory_->size() - used_) return taken;
  taken.arena_ = memory_;
  taken.place_ = memory_->data() + used_;
  taken.size_ = bytes;
  used_ += cache_lines(bytes);
  return taken;
}

std::uint64_t WeightMemory::bytes() const noexcept {
  constexpr std::size_t kPage = 4096;
  if (arena_) return cache_lines(size_);
  return bound_.empty() ? cache_lines(heap_.size()) : (bound_.size() + kPage - 1) / kPage * kPage;
}

Result<QuantizedWeight> QuantizedWeight::make(const Encoding& encoding, std::size_t out, std::size_t in,
                                              topology::NodeMemory& memory, std::uint32_t node) {
  WEFT_TRY(WeightMemory own, WeightMemory::allocate(block_size(encoding, out, in), memory, node));
  return make(encoding, out, in, std::move(own));
}

QuantizedWeight QuantizedWeight::make(const Encoding& encoding, std::size_t out, std::size_t in,
                                      WeightMemory memory) noexcept {
  QuantizedWeight made;
  made.encoding_ = encoding;
  const kernels::WeightBytes bytes = kernels::weight_bytes(encoding, out, in);
  const std::size_t scales = cache_lines(bytes.codes), zero_points = scales + cache_lines(bytes.scales);
  made.memory_ = std::move(memory);
  std::byte* const base = made.memory_.data();
  made.weight_.codes = base;
  if (bytes.scales) made.weight_.scales = base + scales;
  if (bytes.zero_points) made.weight_.zero_points = base + zero_points;
  made.weight_.out = out;
  made.weight_.in = in;
  made.weight_.dtype = encoding.dtype;
  made.weight_.granularity = encoding.granularity;
  return made;
}

std::size_t QuantizedWeight::block_size(const Encoding& encoding, std::size_t out, std::size_t in) noexcept {
  const kernels::WeightBytes bytes = kernels::weight_bytes(encoding, out, in);
  return cache_lines(bytes.codes) + cache_lines(bytes.scales) + bytes.zero_points + tracks_nan(encoding.dtype);
}

std::size_t QuantizedWeight::padded_size() const noexcept {
  return cache_lines(block_size(encoding_, weight_.out, weight_.in));
}

kernels::ConstWeight QuantizedWeight::view(const std::byte* block, const Encoding& encoding, std::size_t out,
                                           std::size_t in) noexcept {
  const kernels::WeightBytes bytes = kernels::weight_bytes(encoding, out, in);
  kernels::ConstWeight weight;
  weight.codes = block;
  if (bytes.scales) weight.scales = block + cache_lines(bytes.codes);
  const std::byte* const after = block + cache_lines(bytes.codes) + cache_lines(bytes.scales);
  if (bytes.zero_points) weight.zero_points = after;
  if (tracks_nan(encoding.dtype)) weight.nan_free = reinterpret_cast<const std::uint8_t*>(after);
  weight.out = out;
  weight.in = in;
  weight.dtype = encoding.dtype;
  weight.granularity = encoding.granularity;
  return weight;
}

void QuantizedWeight::quantize(const kernels::ConstPanels& master) noexcept {
  const kernels::FlushSubnormals exact;
  kernels::quantize(master, weight_);
  look_at_codes();
}

// Finite masters give no NaN codes, so what a device quantizes later changes nothing of what is noted here.
void QuantizedWeight::quantize(const kernels::ConstPanels& master, kernels::OpStream& stream) {
  stream.quantize({master, weight_});
  look_at_codes();
}

void QuantizedWeight::look_at_codes() noexcept {
  if (!tracks_nan(encoding_.dtype)) return;
  const std::size_t at = block_size(encoding_, weight_.out, weight_.in) - 1;
  memory_.data()[at] = std::byte{!kernels::holds_nan_code(weight_)};
}

void QuantizedWeight::dequantize(const kernels::Panels& to) const noexcept {
  const kernels::FlushSubnormals exact;
  kernels::dequantize(view(), to);
}

QuantizedWeight::Ordered QuantizedWeight::ordered(const kernels::ConstWeight& weight) {
  const kernels::WeightBytes bytes = kernels::ordered_bytes(weight.encoding(), weight.out, weight.in);
  Ordered made{AlignedBuffer<std::byte>(bytes.codes), AlignedBuffer<std::byte>(bytes.scales),
               AlignedBuffer<std::byte>(bytes.zero_points)};
  kernels::export_weight(weight, {made.codes, made.scales, made.zero_points});
  return made;
}

Status QuantizedWeight::restore(std::span<const std::byte> codes, std::span<const std::byte> scales,
                                std::span<const std::byte> zero_points) {
  WEFT_CHECK(kernels::import_weight({codes, scales, zero_points}, weight_));
  look_at_codes();
  return {};
}

std::optional<std::size_t> QuantizedWeight::first_not_finite(const kernels::ConstWeight& weight) {
  if (is_surely_finite(weight)) return std::nullopt;
  const kernels::FlushSubnormals exact;
  // Panel by panel: a float32 copy of the whole could be larger than memory.
  AlignedBuffer<float> panel(kernels::panels_size(kernels::kPanelWidth, weight.in));
  std::optional<std::size_t> first;
  for (std::size_t p = 0; p < kernels::panel_count(weight.out); ++p) {
    const kernels::ConstWeight part = kernels::panel_range(weight, p, 1);
    const kernels::Panels to{panel.data(), part.out, part.in};
    kernels::dequantize(part, to);
    if (const auto found = kernels::first_unstorable(to, Dtype::float32, false))
      if (!first) first = *found + p * kernels::kPanelWidth * weight.in;
  }
  return first;
}

QuantizationError QuantizedWeight::error(const kernels::ConstPanels& master) const {
  AlignedBuffer<float> dequantized(kernels::panels_size(weight_.out, weight_.in));
  dequantize({dequantized.data(), weight_.out, weight_.in});
  QuantizationError error;
  double squares = 0.0, left = 0.0, right = 0.0, product = 0.0;
  for (std::size_t o = 0; o < weight_.out; ++o)
    for (std::size_t k = 0; k < weight_.in; ++k) {
      const std::size_t i = kernels::panel_index(weight_.in, o, k);
      const double a = master.data[i], b = dequantized[i];
      squares += (a - b) * (a - b);
      error.largest = std::max(error.largest, std::fabs(a - b));
      left += a * a;
      right += b * b;
      product += a * b;
    }
  error.rmse = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(weight_.out * weight_.in, 1)));
  if (left != 0.0 || right != 0.0) error.cosine = left == 0.0 || right == 0.0 ? 0.0 : product / std::sqrt(left * right);
  return error;
}

std::pair<double, double> QuantizedWeight::scale_range() const noexcept {
  if (!weight_.scales) return {1.0, 1.0};
  std::pair<double, double> range{std::numeric_limits<double>::infinity(), 0.0};
  const std::size_t step = is_block(encoding_.granularity) ? kScaleBlock : std::max<std::size_t>(weight_.in, 1);
  const std::size_t outputs = encoding_.granularity == Granularity::tensor ? 1 : weight_.out;
  for (std::size_t o = 0; o < outputs; ++o)
    for (std::size_t k = 0; k < weight_.in; k += step) {
      const std::size_t i = kernels::scale_index(encoding_.granularity, weight_.in, o, k);
      const double scale = has_double_scale(encoding_.dtype) ? static_cast<const double*>(weight_.scales)[i]
                                                             : kernels::ConstWeight(weight_).scale(i);
      range = {std::min(range.first, scale), std::max(range.second, scale)};
    }
  return range;
}

}  // namespace weft::mesh
