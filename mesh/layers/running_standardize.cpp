// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/running_standardize.hpp"

#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <algorithm>
#include <string>

namespace weft::mesh {
namespace {

using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::MatrixView;
using kernels::OpStream;

template <class View>
View row_part(const View& view, std::size_t first, std::size_t count) {
  return {view.data ? view.data + first * view.stride : nullptr, count, view.cols, view.stride};
}

/// Columns of a state.
template <class View>
struct Moments {
  View mean, variance, weight;
};

class RunningStandardize final : public Layer {
 public:
  RunningStandardize(const Shape& shape, double decay, double epsilon)
      : Layer(shape, shape), decay_(static_cast<float>(decay)), epsilon_(static_cast<float>(epsilon)) {}

  std::size_t cache_size() const noexcept override { return out(); }  // the deviations
  std::size_t state_size() const noexcept override { return 3 * in(); }
  StateErrors state_errors() const noexcept override { return StateErrors::none; }
  bool learns_forward() const noexcept override { return true; }
  bool takes_samples() const noexcept override { return true; }
  bool counts_ticks() const noexcept override { return false; }

  void forward(OpStream& stream, const ForwardArgs& args) const override {
    const std::size_t taken = std::min(args.sample_rows, args.x.rows), rest = args.x.rows - taken;
    if (taken > 0) take_in(stream, rows_of(args, 0, taken));
    if (rest > 0) keep(stream, rows_of(args, taken, rest));
  }
  void backward(OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.clamped_log_backward({args.cache, args.dy, args.dx});
    if (args.dstate.data) stream.fill({0.0f, args.dstate});
  }

 private:
  static ForwardArgs rows_of(const ForwardArgs& args, std::size_t first, std::size_t count) {
    ForwardArgs own = args;
    own.x = row_part(args.x, first, count), own.y = row_part(args.y, first, count);
    own.cache = row_part(args.cache, first, count);
    own.state = row_part(args.state, first, count), own.next_state = row_part(args.next_state, first, count);
    return own;
  }
  template <class View>
  Moments<View> moments(const View& state) const {
    return {columns(state, 0, in()), columns(state, in(), in()), columns(state, 2 * in(), in())};
  }

  /// y = x / divisor, where that is not below 2^-126; y may be x.
  static void divide(OpStream& stream, const ConstMatrixView& x, const ConstMatrixView& divisor, const MatrixView& y) {
    stream.clamped_log_backward({divisor, x, y});
  }
  /// y, by the moments as they are. @pre cache has the variances
  void standardize(OpStream& stream, const ForwardArgs& args) const {
    stream.fill({epsilon_, args.y});
    stream.binary({BinaryOp::add, args.cache, args.y, args.cache});
    stream.square_root({args.cache, args.cache});
    stream.binary({BinaryOp::sub, args.x, moments(args.next_state).mean, args.y});
    divide(stream, args.y, args.cache, args.y);
  }

  /// The moments with this sample. y and cache are not there yet, and so are temporaries.
  void take_in(OpStream& stream, const ForwardArgs& args) const {
    const auto [mean, variance, weight] = moments(args.state);
    const auto next = moments(args.next_state);
    const MatrixView rate = args.cache, y = args.y;
    stream.fill({1.0f, rate});
    stream.copy({rate, next.weight});
    stream.axpy({decay_, weight, next.weight});
    divide(stream, rate, next.weight, rate);
    stream.binary({BinaryOp::sub, args.x, mean, y});
    stream.binary({BinaryOp::mul, rate, y, next.mean});
    stream.binary({BinaryOp::mul, next.mean, y, y});
    stream.binary({BinaryOp::add, mean, next.mean, next.mean});
    stream.binary({BinaryOp::add, variance, y, y});
    stream.binary({BinaryOp::mul, rate, y, next.variance});
    stream.binary({BinaryOp::sub, y, next.variance, next.variance});
    stream.copy({next.variance, args.cache});
    standardize(stream, args);
  }

  void keep(OpStream& stream, const ForwardArgs& args) const {
    stream.copy({args.state, args.next_state});
    // A weight of 0, and only that, makes 1 of the variance: the least weight of a sample is 1.
    const auto [mean, variance, weight] = moments(args.state);
    stream.fill({1.0f, args.cache});
    stream.binary({BinaryOp::sub, args.cache, weight, args.cache});
    stream.binary({BinaryOp::max, args.cache, variance, args.cache});
    standardize(stream, args);
  }

  float decay_, epsilon_;
};

}  // namespace

LayerDeclaration declare_running_standardize() {
  return {"...",
          "...",
          {option::same_out(),
           option::choice("kind", "ema", {"ema", "welford"}, "samples weigh less with their age, or all alike"),
           option::only_with("kind=ema", option::number("decay", 0.99, 0.5, 0.9999999, "-",
                                                        "weight of a sample over that of the one after it")),
           option::number("epsilon", 0.01, 1e-12, 1, "-", "added to the variance")}};
}

Result<std::unique_ptr<Layer>> make_running_standardize(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "running_standardize", in, out));
  WEFT_TRY(const std::string kind, options.text("kind"));
  WEFT_TRY(const double epsilon, options.number("epsilon"));
  if (kind == "welford") return std::unique_ptr<Layer>(new RunningStandardize(shape, 1.0, epsilon));
  WEFT_TRY(const double decay, options.number("decay"));
  return std::unique_ptr<Layer>(new RunningStandardize(shape, decay, epsilon));
}

}  // namespace weft::mesh
