// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/pool.hpp"

#include "mesh/layers/spatial.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/pool.hpp"

#include <string>
#include <utility>
#include <vector>

namespace weft::mesh {
namespace {

using kernels::Pool;
using kernels::Window;

class Pooling : public Layer {
 public:
  Pooling(Shape in, Shape out, const Pool& pool) : Layer(std::move(in), std::move(out)), pool_(pool) {}
  double multiply_adds() const noexcept override {
    return static_cast<double>(pool_.is_adaptive ? in() : out() * pool_.window.taps());
  }

 protected:
  const Pool pool_;
};

class MaxPooling final : public Pooling {
 public:
  using Pooling::Pooling;
  // Index of each window's largest element.
  std::size_t cache_size() const noexcept override { return out(); }
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.max_pool({pool_, args.x, args.y, args.cache});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.max_pool_backward({pool_, args.cache, args.dy, args.dx});
  }
};

class AvgPooling final : public Pooling {
 public:
  using Pooling::Pooling;
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.avg_pool({pool_, args.x, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.avg_pool_backward({pool_, args.dy, args.dx});
  }
};

/// The window over the input, once `out` is known to ask for nothing else than its channels.
Result<Window> window_of(const char* type, const Shape& in, std::size_t out, const OptionReader& options) {
  WEFT_TRY(const Window window, spatial::window_over(options.object(), type, in, 0));
  if (out != 0 && out != in[0])
    return fail(Errc::shape_mismatch, options.object() + ".out: " + type + " keeps its " + std::to_string(in[0]) +
                                          " channels, " + std::to_string(out) + " are asked for");
  return window;
}

/// @error too_large: places in a plane stand in the cache as floats
Status check_plane(const std::string& object, const Window& w) {
  if (w.plane() <= 16777216) return {};
  return fail(Errc::too_large,
              object + ": a channel of " + std::to_string(w.plane()) + " elements, at most 16777216 are allowed");
}

Result<Pool> read_pool(const char* type, const Shape& in, std::size_t out, const std::vector<std::size_t>& dilation,
                       OptionReader& options) {
  const std::string& object = options.object();
  const std::size_t axes = in.size() - 1;
  WEFT_TRY(Window w, window_of(type, in, out, options));
  WEFT_TRY(const auto kernel, options.integers("kernel", axes));
  WEFT_TRY(const auto stride, options.integers("stride", axes, kernel));
  WEFT_TRY(const auto padding, options.integers("padding", axes));
  WEFT_TRY(const bool rounds_up, options.boolean("ceil_mode"));
  w.kernel = spatial::in_place(kernel, 1);
  w.stride = spatial::in_place(stride, 1);
  w.padding = spatial::in_place(padding, 0);
  w.dilation = spatial::in_place(dilation, 1);
  for (std::size_t a = 0; a < Window::kAxes; ++a)
    if (2 * w.padding[a] > w.kernel[a])
      return fail(Errc::out_of_range, object + ".padding: " + std::to_string(w.padding[a]) + " of the " +
                                          std::string(spatial::axis_name(a)) + " is more than half of the kernel, " +
                                          std::to_string(w.kernel[a]));
  WEFT_CHECK(spatial::count_windows(object, w, rounds_up));
  WEFT_CHECK(check_plane(object, w));
  Pool pool;
  pool.window = w;
  // Dilated taps can step over a short input.
  for (std::size_t a = 0; a < Window::kAxes; ++a)
    for (std::size_t p = 0; p < w.out[a]; ++p)
      if (kernels::bin_of(pool, a, p).count == 0)
        return fail(Errc::shape_mismatch, object + ".dilation: window " + std::to_string(p) + " of the " +
                                              std::string(spatial::axis_name(a)) + " holds none of its " +
                                              std::to_string(w.in[a]) + " elements with taps " +
                                              std::to_string(w.dilation[a]) + " apart");
  return pool;
}

Result<Pool> read_adaptive_pool(const char* type, const Shape& in, std::size_t out, OptionReader& options) {
  Pool pool;
  pool.is_adaptive = true;
  WEFT_TRY(pool.window, window_of(type, in, out, options));
  WEFT_TRY(const auto size, options.integers("size", in.size() - 1));
  pool.window.out = spatial::in_place(size, 1);
  WEFT_CHECK(check_plane(options.object(), pool.window));
  WEFT_CHECK(volume(spatial::shape_of(in[0], pool.window.out, in.size() - 1)));
  return pool;
}

template <class Made>
std::unique_ptr<Layer> made(const Shape& in, const Pool& pool) {
  return std::unique_ptr<Layer>(new Made(in, spatial::shape_of(in[0], pool.window.out, in.size() - 1), pool));
}

OptionRow same_channels() {
  return option::out(option::computed("the input's channels"), "channels", "only the input's own");
}

/// A pool over windows: rows that both have, and its own.
LayerDeclaration windows_with(OptionRow own) {
  return {"channels, one to three axes",
          "channels, the windows of each axis",
          {same_channels(),
           option::wholes("kernel", option::needed(), 1, spatial::kMost, 1, 3, "elements",
                          "taps on each axis: one number, or one an axis"),
           option::wholes("stride", option::computed("as kernel"), 1, spatial::kMost, 1, 3, "elements",
                          "from one window to the next: one number, or one an axis"),
           option::wholes("padding", 0, 0, spatial::kMost, 1, 3, "elements",
                          "before and after each axis, at most half of the kernel: one number, or one an axis"),
           option::flag("ceil_mode", false, "whether the number of windows is rounded up"), std::move(own)}};
}

LayerDeclaration windows_of_a_number() {
  return {"channels, one to three axes",
          "channels, size",
          {same_channels(), option::wholes("size", option::needed(), 1, spatial::kMost, 1, 3, "elements",
                                           "outputs on each axis: one number, or one an axis")}};
}

}  // namespace

LayerDeclaration declare_max_pool() {
  return windows_with(option::wholes("dilation", 1, 1, spatial::kMost, 1, 3, "elements",
                                     "from one tap to the next: one number, or one an axis"));
}
Result<std::unique_ptr<Layer>> make_max_pool(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const auto dilation, options.integers("dilation", in.size() - 1));
  WEFT_TRY(const Pool pool, read_pool("max_pool", in, out, dilation, options));
  return made<MaxPooling>(in, pool);
}
LayerDeclaration declare_avg_pool() {
  return windows_with(option::flag("count_include_pad", true, "whether padding counts among what is averaged"));
}
Result<std::unique_ptr<Layer>> make_avg_pool(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(Pool pool, read_pool("avg_pool", in, out, {}, options));
  WEFT_TRY(pool.counts_padding, options.boolean("count_include_pad"));
  return made<AvgPooling>(in, pool);
}
LayerDeclaration declare_adaptive_max_pool() { return windows_of_a_number(); }
Result<std::unique_ptr<Layer>> make_adaptive_max_pool(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Pool pool, read_adaptive_pool("adaptive_max_pool", in, out, options));
  return made<MaxPooling>(in, pool);
}
LayerDeclaration declare_adaptive_avg_pool() { return windows_of_a_number(); }
Result<std::unique_ptr<Layer>> make_adaptive_avg_pool(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Pool pool, read_adaptive_pool("adaptive_avg_pool", in, out, options));
  return made<AvgPooling>(in, pool);
}

}  // namespace weft::mesh
