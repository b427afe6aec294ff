// SPDX-License-Identifier: Apache-2.0

// Convolutions and pools, and means over axes.

#include "models/onnx/internal/onnx_operators.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <utility>

namespace weft::models::onnx {

using formats::OnnxNode;

namespace {

std::vector<double> numbers_of(const std::vector<std::size_t>& values) { return {values.begin(), values.end()}; }

/// Zeros before and after each axis. @error unsupported: auto_pad of a kind that is not done
Result<std::vector<std::int64_t>> pads_of(const OnnxNode& node, const Shape& x, const std::vector<std::size_t>& kernel,
                                          const std::vector<std::size_t>& stride,
                                          const std::vector<std::size_t>& dilation, bool is_transposed) {
  const std::size_t axes = kernel.size();
  WEFT_TRY(const std::string kind, text_of(node, "auto_pad", "NOTSET"));
  std::vector<std::int64_t> pads(2 * axes, 0);
  if (kind == "VALID") return pads;
  if (kind == "NOTSET") {
    WEFT_TRY(const auto given, integers_of(node, "pads"));
    if (!given) return pads;
    if (given->size() != 2 * axes) return fail(Errc::corrupt, std::to_string(given->size()) + " pads");
    for (const std::int64_t pad : *given)
      if (pad < 0 || pad > 65536) return fail(Errc::unsupported, "a pad of " + std::to_string(pad));
    return *given;
  }
  if ((kind != "SAME_UPPER" && kind != "SAME_LOWER") || is_transposed)
    return fail(Errc::unsupported, "auto_pad '" + printable(kind) + "'");
  for (std::size_t i = 0; i < axes; ++i) {
    if (stride[i] == 0) return fail(Errc::corrupt, "a stride of 0");
    const auto length = static_cast<std::int64_t>(x[2 + i]), step = static_cast<std::int64_t>(stride[i]),
               span = static_cast<std::int64_t>((kernel[i] - 1) * dilation[i] + 1);
    const std::int64_t all = std::max<std::int64_t>(((length + step - 1) / step - 1) * step + span - length, 0);
    pads[kind == "SAME_UPPER" ? i : axes + i] = all / 2;
    pads[kind == "SAME_UPPER" ? axes + i : i] = all - all / 2;
  }
  return pads;
}

}  // namespace

Result<std::vector<std::size_t>> Operators::spatial(const Node& n, const char* key, std::size_t axes,
                                                    std::size_t otherwise) const {
  WEFT_TRY(const auto given, integers_of(n.node, key));
  if (!given) return std::vector<std::size_t>(axes, otherwise);
  if (given->size() != axes)
    return fail(Errc::corrupt, std::string(key) + " has " + std::to_string(given->size()) + " numbers, expected " +
                                   std::to_string(axes));
  std::vector<std::size_t> values;
  for (const std::int64_t value : *given) {
    if (value < 0 || value > 65536) return fail(Errc::corrupt, std::string(key) + " of " + std::to_string(value));
    values.push_back(static_cast<std::size_t>(value));
  }
  return values;
}

Result<Stream> Operators::padded(const Node& n, const Stream& x, const std::vector<std::int64_t>& pads) const {
  OnnxNode pad;
  pad.type = "Pad";
  const std::size_t axes = pads.size() / 2;
  std::vector<std::int64_t> all(2 * x.shape.size(), 0);
  std::copy_n(pads.begin(), axes, all.begin() + 2);
  std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(axes), axes,
              all.begin() + static_cast<std::ptrdiff_t>(x.shape.size()) + 2);
  pad.attributes.emplace_back("pads", std::move(all));
  const Operand operand{&x.shape, nullptr};
  auto moves = moves_of(pad, {&operand, 1}, opset_);
  if (!moves) return fail(std::move(moves).error().within(n.node.type));
  return moved_stream(moves->front(), {&x});
}

Result<Operators::Values> Operators::conv(const Node& n, bool is_transposed) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const Constant* const w, constant(n, 1));
  const std::size_t rank = x.shape.size();
  if (rank < 3 || rank > 5 || w->shape.size() != rank || !is_real_type(w->type))
    return fail(Errc::unsupported, to_string(x.shape) + " with weights " + to_string(w->shape) + "; one to three axes");
  if (x.shape[0] != 1)
    return fail(Errc::unsupported, "a batch of " + std::to_string(x.shape[0]) + "; a network takes one sample");
  const std::size_t axes = rank - 2;
  const std::vector<std::size_t> kernel(w->shape.begin() + 2, w->shape.end());
  WEFT_TRY(const auto told, integers_of(n.node, "kernel_shape"));
  if (told && !std::equal(told->begin(), told->end(), kernel.begin(), kernel.end(),
                          [](std::int64_t a, std::size_t b) { return a == static_cast<std::int64_t>(b); }))
    return fail(Errc::corrupt, "another kernel_shape than that of weights " + to_string(w->shape));
  WEFT_TRY(const auto stride, spatial(n, "strides", axes, 1));
  WEFT_TRY(const auto dilation, spatial(n, "dilations", axes, 1));
  WEFT_TRY(const auto extra, spatial(n, "output_padding", axes, 0));
  WEFT_TRY(const std::int64_t group, integer_of(n.node, "group", 1));
  if (n.node.find("output_shape")) return fail(Errc::unsupported, "output_shape");
  if (group < 1 || std::count(kernel.begin(), kernel.end(), 0) || std::count(stride.begin(), stride.end(), 0) ||
      std::count(dilation.begin(), dilation.end(), 0))
    return fail(Errc::corrupt, "a group, kernel, stride or dilation of 0");
  WEFT_TRY(std::vector<std::int64_t> pads, pads_of(n.node, x.shape, kernel, stride, dilation, is_transposed));
  if (!std::equal(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes),
                  pads.begin() + static_cast<std::ptrdiff_t>(axes))) {
    if (is_transposed) return fail(Errc::unsupported, "pads that differ before and after");
    WEFT_TRY(x, padded(n, x, pads));
    std::fill(pads.begin(), pads.end(), 0);
  }
  const auto groups = static_cast<std::size_t>(group);
  const std::size_t out = is_transposed ? w->shape[1] * groups : w->shape[0];
  Shape in(x.shape.begin() + 1, x.shape.end()), made{out};
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t pad = 2 * static_cast<std::size_t>(pads[i]), span = (kernel[i] - 1) * dilation[i] + 1;
    const std::size_t length = is_transposed ? (in[1 + i] - 1) * stride[i] + extra[i] + span : in[1 + i] + pad;
    if (length < (is_transposed ? pad + 1 : span))
      return fail(Errc::corrupt, "a kernel of " + std::to_string(span) + " over " + to_string(x.shape));
    made.push_back(is_transposed ? length - pad : (length - span) / stride[i] + 1);
  }
  mesh::Options options{{"kernel", numbers_of(kernel)}};
  const auto give = [&](const char* key, const std::vector<std::size_t>& values, std::size_t otherwise) {
    if (std::any_of(values.begin(), values.end(), [&](std::size_t v) { return v != otherwise; }))
      options[key] = numbers_of(values);
  };
  give("stride", stride, 1);
  give("dilation", dilation, 1);
  give("padding", {pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes)}, 0);
  if (is_transposed) give("output_padding", extra, 0);
  if (groups != 1) options["groups"] = static_cast<double>(groups);
  std::map<std::string, Weight> weights{{"weight", {*w}}};
  if (n.has(2)) {
    WEFT_TRY(const Constant* const bias, constant(n, 2));
    if (bias->count() != out || !is_real_type(bias->type))
      return fail(Errc::corrupt, "a bias " + to_string(bias->shape) + " of " + std::to_string(out) + " channels");
    weights["bias"] = {*bias};
  } else {
    options["bias"] = false;
  }
  Shape after{1};
  after.insert(after.end(), made.begin(), made.end());
  const std::string type = (is_transposed ? "conv_transposed" : "conv") + std::to_string(axes) + "d";
  return add(n, type.c_str(), std::move(options), std::move(x), in, made, after, std::move(weights), out);
}

Result<Operators::Values> Operators::pool(const Node& n, bool is_max) {
  WEFT_TRY(Stream x, stream(n, 0));
  if (n.makes(1)) return fail(Errc::unsupported, "output 1, the indices");
  const std::size_t rank = x.shape.size();
  if (rank < 3 || rank > 5 || x.shape[0] != 1) return fail(Errc::unsupported, "of " + to_string(x.shape));
  const std::size_t axes = rank - 2;
  WEFT_TRY(const auto kernel, spatial(n, "kernel_shape", axes, 0));
  WEFT_TRY(const auto stride, spatial(n, "strides", axes, 1));
  WEFT_TRY(const auto dilation, spatial(n, "dilations", axes, 1));
  WEFT_TRY(const std::int64_t rounds_up, integer_of(n.node, "ceil_mode", 0));
  WEFT_TRY(const std::int64_t counts, integer_of(n.node, "count_include_pad", 0));
  if (std::count(kernel.begin(), kernel.end(), 0) || std::count(stride.begin(), stride.end(), 0) ||
      std::count(dilation.begin(), dilation.end(), 0))
    return fail(Errc::corrupt, "a kernel, stride or dilation of 0");
  WEFT_TRY(const std::vector<std::int64_t> pads, pads_of(n.node, x.shape, kernel, stride, dilation, false));
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(axes);
  if (!std::equal(pads.begin(), half, half)) return fail(Errc::unsupported, "pads that differ before and after");
  if (rounds_up != 0) return fail(Errc::unsupported, "ceil_mode");
  if (!is_max && std::any_of(dilation.begin(), dilation.end(), [](std::size_t d) { return d != 1; }))
    return fail(Errc::unsupported, "dilations of a mean");
  Shape in(x.shape.begin() + 1, x.shape.end()), made{in[0]};
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t length = in[1 + i] + 2 * static_cast<std::size_t>(pads[i]),
                      span = (kernel[i] - 1) * dilation[i] + 1;
    if (length < span)
      return fail(Errc::corrupt, "a kernel of " + std::to_string(span) + " over " + to_string(x.shape));
    made.push_back((length - span) / stride[i] + 1);
  }
  mesh::Options options{{"kernel", numbers_of(kernel)}, {"stride", numbers_of(stride)}};
  const std::vector<std::size_t> padding(pads.begin(), half);
  if (std::any_of(padding.begin(), padding.end(), [](std::size_t p) { return p != 0; })) {
    options["padding"] = numbers_of(padding);
    if (!is_max && counts == 0) options["count_include_pad"] = false;
  }
  if (is_max && std::any_of(dilation.begin(), dilation.end(), [](std::size_t d) { return d != 1; }))
    options["dilation"] = numbers_of(dilation);
  Shape after{1};
  after.insert(after.end(), made.begin(), made.end());
  return add(n, is_max ? "max_pool" : "avg_pool", std::move(options), std::move(x), in, made, after);
}

Result<Operators::Values> Operators::global_pool(const Node& n, bool is_max) {
  WEFT_TRY(Stream x, stream(n, 0));
  if (x.shape.size() < 3 || x.shape[0] != 1) return fail(Errc::unsupported, "of " + to_string(x.shape));
  Shape after(x.shape.size(), 1);
  after[1] = x.shape[1];
  const std::size_t channels = x.shape[1], rest = elements_of(x.shape) / channels;
  return add(n, is_max ? "adaptive_max_pool" : "adaptive_avg_pool", {{"size", 1.0}}, std::move(x), {channels, rest},
             {channels, 1}, after);
}

Result<Operators::Values> Operators::reduce(const Node& n, bool is_max) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(auto axes, integers_of(n.node, "axes"));
  if (!axes && n.has(1)) {
    WEFT_TRY(const Constant* const given, constant(n, 1));
    WEFT_TRY(axes, integers_of(*given));
  }
  WEFT_TRY(const std::int64_t keeps, integer_of(n.node, "keepdims", 1));
  WEFT_TRY(const std::int64_t stays, integer_of(n.node, "noop_with_empty_axes", 0));
  const bool is_without = !axes || axes->empty();
  if (is_without && stays != 0) return Values{std::move(x)};
  std::vector<bool> goes(x.shape.size(), is_without);
  for (const std::int64_t axis : axes.value_or(std::vector<std::int64_t>())) {
    WEFT_TRY(const std::size_t at, axis_of(axis, x.shape.size()));
    goes[at] = true;
  }
  Shape after;
  std::size_t left = 1, gone = 1;
  for (std::size_t i = 0; i < goes.size(); ++i) {
    const std::size_t extent = x.shape[i];
    if (!goes[i] && gone != 1 && extent != 1)
      return fail(Errc::unsupported, "axes before the last ones of " + to_string(x.shape));
    (goes[i] ? gone : left) *= extent;
    if (!goes[i] || keeps != 0) after.push_back(goes[i] ? 1 : extent);
  }
  if (gone == 1) return Values{Stream{after, x.chunks}};
  return add(n, is_max ? "adaptive_max_pool" : "adaptive_avg_pool", {{"size", 1.0}}, std::move(x), {left, gone},
             {left, 1}, after);
}

}  // namespace weft::models::onnx
