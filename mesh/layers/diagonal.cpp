// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/diagonal.hpp"

#include "mesh/layers/activation.hpp"
#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/math.hpp"

#include <array>
#include <cmath>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::Function;
using kernels::kPanelWidth;
using kernels::MatrixView;
using kernels::OpStream;

/// Real and imaginary parts of the same shape.
template <class View>
struct Complex {
  View re, im;
};
using ConstParts = Complex<ConstMatrixView>;
using Parts = Complex<MatrixView>;

ConstParts read_only(const Parts& pair) { return {pair.re, pair.im}; }

/// to = to + sign factor x, by way of `temporary`.
void add_product(OpStream& stream, BinaryOp sign, const ConstMatrixView& factor, const ConstMatrixView& x,
                 const MatrixView& to, const MatrixView& temporary) {
  stream.binary({BinaryOp::mul, factor, x, temporary});
  stream.binary({sign, to, temporary, to});
}
/// to = factor x, complex.
void multiply(OpStream& stream, const ConstParts& factor, const ConstParts& x, const Parts& to,
              const MatrixView& temporary) {
  stream.binary({BinaryOp::mul, factor.re, x.re, to.re});
  add_product(stream, BinaryOp::sub, factor.im, x.im, to.re, temporary);
  stream.binary({BinaryOp::mul, factor.re, x.im, to.im});
  add_product(stream, BinaryOp::add, factor.im, x.re, to.im, temporary);
}
/// to = to + factor x, complex.
void add_multiple(OpStream& stream, const ConstParts& factor, const ConstParts& x, const Parts& to,
                  const MatrixView& temporary) {
  add_product(stream, BinaryOp::add, factor.re, x.re, to.re, temporary);
  add_product(stream, BinaryOp::sub, factor.im, x.im, to.re, temporary);
  add_product(stream, BinaryOp::add, factor.re, x.im, to.im, temporary);
  add_product(stream, BinaryOp::add, factor.im, x.re, to.im, temporary);
}

enum Parameter : std::size_t { kNu, kTheta, kRe, kIm };

/// Bounds of exp(theta), a full turn, and of exp(nu), where |l| is next to 0.
constexpr float kLargestAngle = 6.2831855f, kLargestRate = 80.0f;

/// Numbers of each unit that follow from nu and theta: rows of whole panels in the workspace, with 0 past the units.
enum Factor : std::size_t {
  kDecayRe,  // l
  kDecayIm,
  kGain,  // g
  kNuRe,  // dl/dnu
  kNuIm,
  kGainNu,   // dg/dnu
  kThetaRe,  // dl/dtheta
  kThetaIm,
  kErrorRe,  // an error, of backward
  kErrorIm,
  kSlopeRe,  // of a state that is bent, in one session
  kSlopeIm,
  kRate,  // exp(nu) or exp(theta), and then another number on the way
  kSize,  // |l|
  kFactors
};

class Diagonal final : public Layer {
 public:
  /// @param bends_state  the activation is of the state itself, not of what is put out alone
  Diagonal(std::size_t in, std::size_t units, Activation activation, bool bends_state, bool is_forward,
           std::vector<ParameterSpec> parameters)
      : Layer(in, 2 * units),
        units_(units),
        padded_(kernels::panel_count(units) * kPanelWidth),
        activation_(activation),
        bends_state_(bends_state && activation != Activation::linear),
        is_forward_(is_forward),
        parameters_(std::move(parameters)) {}

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t state_size() const noexcept override {
    return is_forward_ ? 6 * units_ + (bends_state_ ? 4 : 2) * derivatives() : 2 * units_;
  }
  bool learns_forward() const noexcept override { return is_forward_; }
  bool needs_preactivation() const noexcept override { return kernels::needs_preactivation(activation_); }
  std::size_t cache_size() const noexcept override {
    return bends_state_ && is_forward_ ? 4 * units_ : 2 * units_;  // B x; slopes of the state
  }
  std::size_t scratch_size() const noexcept override { return 6 * units_ + in(); }
  std::size_t workspace_size() const noexcept override {
    return kFactors * padded_ + (is_forward_ ? derivatives() + 3 * tile() : 0);
  }
  double multiply_adds() const noexcept override {
    return static_cast<double>(in()) * static_cast<double>(units_) * (!is_forward_ ? 2 : bends_state_ ? 10 : 6);
  }

  void forward(OpStream& stream, const ForwardArgs& args) const override {
    const ConstParts h = pair(args.state, 0);
    const Parts u = pair(args.cache, 0), next = pair(args.next_state, 0);
    stream.linear({args.weights.matrix(kRe), nullptr, args.x, Activation::linear, {}, u.re});
    stream.linear({args.weights.matrix(kIm), nullptr, args.x, Activation::linear, {}, u.im});
    find_factors(stream, args.weights, args.workspace);
    const MatrixView temporary = columns(args.y, 0, units_);  // y is not there yet
    const std::size_t rows = args.x.rows;
    const auto factor = [&](std::size_t i) { return factor_of(args.workspace, i, rows); };
    multiply(stream, {factor(kDecayRe), factor(kDecayIm)}, h, next, temporary);
    add_product(stream, BinaryOp::add, factor(kGain), u.re, next.re, temporary);
    add_product(stream, BinaryOp::add, factor(kGain), u.im, next.im, temporary);
    if (is_forward_) {
      for (const std::size_t parameter : {kNu, kTheta})
        derive(stream, args.workspace, parameter, args.state, read_only(u), pair(args.next_state, 1 + parameter),
               temporary);
      for (std::size_t b = 0; b < rows; ++b) {
        outer(stream, args.x, b, args.workspace);
        for (std::size_t p = 0; p < padded_ / kPanelWidth; ++p)
          for (std::size_t part = 0; part < (bends_state_ ? 4u : 2u); part += 2)
            derive_panel(stream, args.workspace, args.state.row(b), part, p,
                         derivatives_of(args.next_state.row(b), part, p));
      }
    }
    const MatrixView all = columns(args.next_state, 0, 2 * units_);
    if (args.z.data) stream.copy({all, args.z});
    activation_ == Activation::linear ? stream.copy({all, args.y}) : stream.unary({activation_, all, args.y});
    if (bends_state_) bend(stream, args);
  }

  void backward(OpStream& stream, const BackwardArgs& args) const override {
    const auto add_later = [&] {
      if (!is_forward_ && args.dnext_state.data) stream.binary({BinaryOp::add, args.dy, args.dnext_state, args.dy});
    };
    if (bends_state_) add_later();
    if (activation_ != Activation::linear) stream.unary_backward({activation_, args.z, args.y, args.dy, args.dy});
    if (!bends_state_) add_later();
    find_factors(stream, args.weights, args.workspace);
    const Parts d = pair(args.dy, 0), inner = pair(args.scratch, 0);
    const auto factor = [&](std::size_t i) { return factor_of(args.workspace, i, args.dy.rows); };
    stream.binary({BinaryOp::mul, factor(kGain), d.re, inner.re});
    stream.binary({BinaryOp::mul, factor(kGain), d.im, inner.im});
    if (args.dx.data) {
      const MatrixView part = columns(args.scratch, 6 * units_, in());
      stream.linear_transposed({args.weights.matrix(kRe), inner.re, args.dx});
      stream.linear_transposed({args.weights.matrix(kIm), inner.im, part});
      stream.binary({BinaryOp::add, args.dx, part, args.dx});
    }
    if (args.gradients.data) add_gradients(stream, args, read_only(d), read_only(inner));
    if (!args.dstate.data) return;
    if (is_forward_) return stream.fill({0.0f, args.dstate});
    const Parts down = pair(args.dstate, 0);
    const MatrixView temporary = columns(args.scratch, 4 * units_, units_);
    stream.binary({BinaryOp::mul, factor(kDecayRe), d.re, down.re});
    add_product(stream, BinaryOp::add, factor(kDecayIm), d.im, down.re, temporary);
    stream.binary({BinaryOp::mul, factor(kDecayRe), d.im, down.im});
    add_product(stream, BinaryOp::sub, factor(kDecayIm), d.re, down.im, temporary);
  }

 private:
  /// Floats of the real parts of the derivatives by the real part of B. While the state is linear, those by the
  /// imaginary part are i times them; else they stand behind.
  std::size_t derivatives() const noexcept { return padded_ * in(); }
  /// Those of a panel's units.
  std::size_t tile() const noexcept { return in() * kPanelWidth; }

  /// Complex numbers of the units, the i-th such group of a row: h, e_nu, e_theta of a state.
  template <class View>
  Complex<View> pair(const View& rows, std::size_t i) const {
    return {columns(rows, 2 * i * units_, units_), columns(rows, (2 * i + 1) * units_, units_)};
  }
  float* row_of(float* workspace, std::size_t factor) const noexcept { return workspace + factor * padded_; }
  MatrixView one(float* workspace, std::size_t factor) const noexcept {
    return {row_of(workspace, factor), 1, units_, units_};
  }
  /// A factor, read as `rows` rows.
  ConstMatrixView factor_of(float* workspace, std::size_t factor, std::size_t rows) const noexcept {
    return {row_of(workspace, factor), rows, units_, rows > 1 ? 0 : units_};
  }
  /// A factor of a panel's units, read as a row of each input.
  ConstMatrixView factor_of_panel(float* workspace, std::size_t factor, std::size_t panel) const noexcept {
    return {row_of(workspace, factor) + panel * kPanelWidth, in(), kPanelWidth, in() > 1 ? 0 : kPanelWidth};
  }
  /// A panel of e_B in a row of a state: parts 0 and 1 real and imaginary, of the real part of B; 2 and 3 likewise, of
  /// the imaginary one.
  ConstMatrixView derivative(const float* state, std::size_t part, std::size_t panel) const noexcept {
    return panel_at(state + 6 * units_ + part * derivatives(), panel);
  }
  MatrixView derivative(float* state, std::size_t part, std::size_t panel) const noexcept {
    return panel_at(state + 6 * units_ + part * derivatives(), panel);
  }
  Parts derivatives_of(float* state, std::size_t part, std::size_t panel) const noexcept {
    return {derivative(state, part, panel), derivative(state, part + 1, panel)};
  }
  ConstMatrixView panel_at(const float* panels, std::size_t panel) const noexcept {
    return {panels + panel * tile(), in(), kPanelWidth, kPanelWidth};
  }
  MatrixView panel_at(float* panels, std::size_t panel) const noexcept {
    return {panels + panel * tile(), in(), kPanelWidth, kPanelWidth};
  }
  float* products(float* workspace) const noexcept { return row_of(workspace, kFactors); }
  MatrixView tile_of(float* workspace, std::size_t i) const noexcept {
    return panel_at(products(workspace) + derivatives() + i * tile(), 0);
  }

  void find_factors(OpStream& stream, const ConstWeights& weights, float* workspace) const {
    stream.fill({0.0f, {workspace, 1, kFactors * padded_, kFactors * padded_}});
    const auto at = [&](std::size_t factor) { return one(workspace, factor); };
    const auto mul = [&](std::size_t a, std::size_t b, std::size_t to) {
      stream.binary({BinaryOp::mul, at(a), at(b), at(to)});
    };
    const auto find_rate = [&](Parameter parameter, float largest) {
      stream.math_function({Function::exp, {weights.vector(parameter), 1, units_, units_}, at(kRate)});
      stream.fill({largest, at(kGain)});
      stream.binary({BinaryOp::min, at(kRate), at(kGain), at(kRate)});
    };
    find_rate(kTheta, kLargestAngle);
    stream.math_function({Function::cos, at(kRate), at(kDecayRe)});
    stream.math_function({Function::sin, at(kRate), at(kDecayIm)});
    stream.copy({at(kRate), at(kThetaIm)});
    find_rate(kNu, kLargestRate);
    stream.scale({-1.0f, at(kRate), at(kSize)});
    stream.math_function({Function::exp, at(kSize), at(kSize)});
    mul(kDecayRe, kSize, kDecayRe);
    mul(kDecayIm, kSize, kDecayIm);
    // g^2 = 1 - exp(-2 exp(nu)) without cancelling.
    stream.scale({-2.0f, at(kRate), at(kGain)});
    stream.math_function({Function::expm1_nonpositive, at(kGain), at(kGain)});
    stream.scale({-1.0f, at(kGain), at(kGain)});
    stream.square_root({at(kGain), at(kGain)});
    // dl/dtheta = i exp(theta) l
    mul(kThetaIm, kDecayIm, kThetaRe);
    stream.scale({-1.0f, at(kThetaRe), at(kThetaRe)});
    mul(kThetaIm, kDecayRe, kThetaIm);
    // dg/dnu = exp(nu) |l|^2 / g
    mul(kRate, kSize, kGainNu);
    mul(kGainNu, kSize, kGainNu);
    stream.clamped_log_backward({at(kGain), at(kGainNu), at(kGainNu)});
    // dl/dnu = -exp(nu) l
    stream.scale({-1.0f, at(kRate), at(kRate)});
    mul(kRate, kDecayRe, kNuRe);
    mul(kRate, kDecayIm, kNuIm);
  }

  /// The derivatives of the next h by nu or theta; backward, those of this tick alone.
  void derive(OpStream& stream, float* workspace, std::size_t parameter, const ConstMatrixView& state,
              const ConstParts& u, const Parts& to, const MatrixView& temporary) const {
    const auto factor = [&](std::size_t i) { return factor_of(workspace, i, state.rows); };
    const ConstParts slope =
        parameter == kNu ? ConstParts{factor(kNuRe), factor(kNuIm)} : ConstParts{factor(kThetaRe), factor(kThetaIm)};
    if (is_forward_) {
      multiply(stream, {factor(kDecayRe), factor(kDecayIm)}, pair(state, 1 + parameter), to, temporary);
      add_multiple(stream, slope, pair(state, 0), to, temporary);
    } else {
      multiply(stream, slope, pair(state, 0), to, temporary);
    }
    if (parameter != kNu) return;
    add_product(stream, BinaryOp::add, factor(kGainNu), u.re, to.re, temporary);
    add_product(stream, BinaryOp::add, factor(kGainNu), u.im, to.im, temporary);
  }

  /// g x of a session, as the panels of e_B hold it.
  void outer(OpStream& stream, const ConstMatrixView& x, std::size_t b, float* workspace) const {
    float* const to = products(workspace);
    stream.fill({0.0f, {to, 1, derivatives(), derivatives()}});
    stream.outer_accumulate({one(workspace, kGain), {x.row(b), 1, in(), in()}, {to, units_, in()}});
  }
  /// e_B of the next tick, of one session and panel, before the state is bent; `part` as of `derivative`. @pre outer
  void derive_panel(OpStream& stream, float* workspace, const float* state, std::size_t part, std::size_t p,
                    const Parts& to) const {
    const ConstParts decay{factor_of_panel(workspace, kDecayRe, p), factor_of_panel(workspace, kDecayIm, p)};
    multiply(stream, decay, {derivative(state, part, p), derivative(state, part + 1, p)}, to, tile_of(workspace, 2));
    const MatrixView& direct = part == 0 ? to.re : to.im;
    stream.binary({BinaryOp::add, direct, panel_at(products(workspace), p), direct});
  }

  /// From the bent pair in y to the next state, and from derivatives of what is bent to those of the state.
  void bend(OpStream& stream, const ForwardArgs& args) const {
    const MatrixView all = columns(args.next_state, 0, 2 * units_);
    if (is_forward_) {
      const MatrixView slopes = columns(args.cache, 2 * units_, 2 * units_);
      stream.fill({1.0f, slopes});
      stream.unary_backward({activation_, all, args.y, slopes, slopes});
      for (const std::size_t parameter : {kNu, kTheta}) {
        const MatrixView e = columns(args.next_state, 2 * (1 + parameter) * units_, 2 * units_);
        stream.binary({BinaryOp::mul, slopes, e, e});
      }
      for (std::size_t b = 0; b < args.x.rows; ++b) {
        stream.copy({{slopes.row(b), 1, units_, units_}, one(args.workspace, kSlopeRe)});
        stream.copy({{slopes.row(b) + units_, 1, units_, units_}, one(args.workspace, kSlopeIm)});
        for (std::size_t part = 0; part < 4; ++part)
          for (std::size_t p = 0; p < padded_ / kPanelWidth; ++p) {
            const MatrixView e = derivative(args.next_state.row(b), part, p);
            const std::size_t slope = part % 2 == 0 ? kSlopeRe : kSlopeIm;
            stream.binary({BinaryOp::mul, factor_of_panel(args.workspace, slope, p), e, e});
          }
      }
    }
    stream.copy({args.y, all});
  }

  void add_gradients(OpStream& stream, const BackwardArgs& args, const ConstParts& d, const ConstParts& inner) const {
    const ConstParts u = pair(args.cache, 0);
    const Parts slope = pair(args.scratch, 1);
    const MatrixView temporary = columns(args.scratch, 4 * units_, units_);
    for (const std::size_t parameter : {kNu, kTheta}) {
      derive(stream, args.workspace, parameter, args.state, u, slope, temporary);
      stream.binary({BinaryOp::mul, slope.re, d.re, slope.re});
      add_product(stream, BinaryOp::add, slope.im, d.im, slope.re, temporary);
      stream.column_accumulate({slope.re, args.gradients[parameter]});
    }
    if (!is_forward_) {
      stream.outer_accumulate({inner.re, args.x, {args.gradients[kRe], units_, in()}});
      stream.outer_accumulate({inner.im, args.x, {args.gradients[kIm], units_, in()}});
      return;
    }
    for (std::size_t b = 0; b < args.x.rows; ++b) {
      outer(stream, args.x, b, args.workspace);
      stream.copy({{d.re.row(b), 1, units_, units_}, one(args.workspace, kErrorRe)});
      stream.copy({{d.im.row(b), 1, units_, units_}, one(args.workspace, kErrorIm)});
      for (std::size_t p = 0; p < padded_ / kPanelWidth; ++p) {
        const Parts e{tile_of(args.workspace, 0), tile_of(args.workspace, 1)};
        derive_panel(stream, args.workspace, args.state.row(b), 0, p, e);
        const ConstMatrixView re = factor_of_panel(args.workspace, kErrorRe, p),
                              im = factor_of_panel(args.workspace, kErrorIm, p);
        const MatrixView work = tile_of(args.workspace, 2), to_re = panel_at(args.gradients[kRe], p),
                         to_im = panel_at(args.gradients[kIm], p);
        add_product(stream, BinaryOp::add, re, e.re, to_re, work);
        add_product(stream, BinaryOp::add, im, e.im, to_re, work);
        if (bends_state_) {
          derive_panel(stream, args.workspace, args.state.row(b), 2, p, e);
          add_product(stream, BinaryOp::add, re, e.re, to_im, work);
          add_product(stream, BinaryOp::add, im, e.im, to_im, work);
          continue;
        }
        add_product(stream, BinaryOp::add, im, e.re, to_im, work);
        add_product(stream, BinaryOp::sub, re, e.im, to_im, work);
      }
    }
  }

  std::size_t units_, padded_;
  Activation activation_;
  bool bends_state_, is_forward_;
  std::vector<ParameterSpec> parameters_;
};

/// nu of sizes |l| between the two, evenly over the ring; theta of angles up to the largest.
Initializer sizes(float least, float largest) {
  return [least, largest](RandomStream& random, std::span<float> values) {
    for (float& value : values) {
      const float squares = random.next_uniform() * (largest * largest - least * least) + least * least;
      value = kernels::math::log(-0.5f * kernels::math::log(squares));
    }
  };
}
Initializer angles(float largest) {
  return [largest](RandomStream& random, std::span<float> values) {
    for (float& value : values) value = kernels::math::log((random.next_uniform() + 0x1p-25f) * largest);
  };
}

}  // namespace

LayerDeclaration declare_diagonal() {
  return {"in",
          "out",
          {option::out(option::computed("twice the input's width"), "values", "two of each unit: even"),
           option::activation("linear", "of each real and imaginary part of h"),
           option::choice("activation_of", "output", {"output", "state"},
                          "what is put out alone, or the state itself, which the next tick goes on from"),
           option::choice("through_time", "forward", {"forward", "backward"},
                          "derivatives go along with the state, or errors travel back through it"),
           option::number("least_size", 0.5, 0.001, 0.9999, "-", "of the first |l|"),
           option::number("largest_size", 0.99, 0.001, 0.9999, "-", "of the first |l|"),
           option::number("largest_angle", 6.2831853, 1e-6, 6.2831853, "radians a tick", "of the first l"),
           option::init("normal", "initial values of the real and of the imaginary parts of B")}};
}

Result<std::unique_ptr<Layer>> make_diagonal(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::size_t width, vector_width(options.object(), "diagonal", in));
  if (out % 2 != 0)
    return fail(Errc::shape_mismatch, options.object() + ".out: found " + std::to_string(out) +
                                          ", expected an even number: two values of each unit");
  const std::size_t units = out == 0 ? width : out / 2;
  WEFT_TRY(const Activation activation, read_activation(options));
  WEFT_TRY(const std::string bent, options.text("activation_of"));
  WEFT_TRY(const std::string through, options.text("through_time"));
  WEFT_TRY(const double least, options.number("least_size"));
  WEFT_TRY(const double largest, options.number("largest_size"));
  WEFT_TRY(const double angle, options.number("largest_angle"));
  if (least > largest)
    return fail(Errc::out_of_range, options.object() + ".least_size: found " + option::json_number(least) +
                                        ", expected at most largest_size, " + option::json_number(largest));
  WEFT_TRY(const std::string init, options.text("init"));
  WEFT_TRY(const Initializer values, make_initializer(init, width, units, options.object()));
  std::vector<ParameterSpec> parameters;
  parameters.push_back({"nu", units, 0, false, sizes(static_cast<float>(least), static_cast<float>(largest))});
  parameters.push_back({"theta", units, 0, false, angles(static_cast<float>(angle))});
  parameters.push_back({"weight_re", units, width, true, values, LinearMap{0}});
  parameters.push_back({"weight_im", units, width, true, values, LinearMap{0}});
  return std::unique_ptr<Layer>(
      new Diagonal(width, units, activation, bent == "state", through == "forward", std::move(parameters)));
}

}  // namespace weft::mesh
