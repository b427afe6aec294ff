// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/gru.hpp"

#include "mesh/layers/recurrent.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::MatrixView;

constexpr std::size_t kR = 0, kZ = 1, kN = 2, kGruGates = 3;

class Gru final : public Recurrent {
 public:
  explicit Gru(Sizes sizes) : Recurrent(std::move(sizes)) {}

 protected:
  // Backward finds r, z, n in `a` and W_hn h + b_hn in its place of `b`.
  void step(kernels::OpStream& stream, const ForwardArgs& args, const MatrixView& a,
            const MatrixView& b) const override {
    stream.binary({BinaryOp::add, blocks(a, kR, 2), blocks(b, kR, 2), blocks(a, kR, 2)});
    stream.unary({Activation::sigmoid, blocks(a, kR, 2), blocks(a, kR, 2)});
    const MatrixView n = blocks(a, kN);
    stream.binary({BinaryOp::mul, blocks(a, kR), blocks(b, kN), args.y});
    stream.binary({BinaryOp::add, n, args.y, n});
    stream.unary({Activation::tanh, n, n});
    stream.binary({BinaryOp::sub, blocks(args.state, 0), n, args.y});
    stream.binary({BinaryOp::mul, blocks(a, kZ), args.y, args.y});
    stream.binary({BinaryOp::add, n, args.y, args.y});
    stream.copy({args.y, blocks(args.next_state, 0)});
  }

  void step_back(kernels::OpStream& stream, const BackwardArgs& args, const ConstMatrixView& a,
                 const ConstMatrixView& b, const MatrixView& da, const MatrixView& carry) const override {
    const MatrixView dr = blocks(da, kR), dz = blocks(da, kZ), dn = blocks(da, kN);
    stream.binary({BinaryOp::mul, args.dy, blocks(a, kZ), carry});
    stream.binary({BinaryOp::sub, args.dy, carry, dn});
    stream.binary({BinaryOp::sub, blocks(args.state, 0), blocks(a, kN), dz});
    stream.binary({BinaryOp::mul, args.dy, dz, dz});
    backward_of(stream, Activation::tanh, blocks(a, kN), dn);
    stream.binary({BinaryOp::mul, dn, blocks(b, kN), dr});
    backward_of(stream, Activation::sigmoid, blocks(a, kR, 2), blocks(da, kR, 2));
  }

  void to_recurrent(kernels::OpStream& stream, const ConstMatrixView& a, const MatrixView& d) const override {
    stream.binary({BinaryOp::mul, blocks(d, kN), blocks(a, kR), blocks(d, kN)});
  }
  bool has_carry() const noexcept override { return true; }

  // h' = n + z (h - n): z of the past, and by each gate what step_back has of an error of 1.
  void find_factors(kernels::OpStream& stream, const ConstMatrixView& state, const ConstMatrixView& a,
                    const ConstMatrixView& b, const RecurrentTraces::Factors& to) const override {
    const MatrixView dr = blocks(to.inner_x, kR), dz = blocks(to.inner_x, kZ), dn = blocks(to.inner_x, kN);
    stream.copy({blocks(a, kZ), to.keep});
    stream.fill({1.0f, dn});
    stream.binary({BinaryOp::sub, dn, blocks(a, kZ), dn});
    backward_of(stream, Activation::tanh, blocks(a, kN), dn);
    stream.binary({BinaryOp::mul, dn, blocks(b, kN), dr});
    stream.binary({BinaryOp::sub, blocks(state, 0), blocks(a, kN), dz});
    backward_of(stream, Activation::sigmoid, blocks(a, kR, 2), blocks(to.inner_x, kR, 2));
    stream.copy({to.inner_x, to.inner_h});
    to_recurrent(stream, a, to.inner_h);
  }
};

}  // namespace

LayerDeclaration declare_gru() {
  return {"in | tokens, in", "out | tokens, out",
          recurrent_options("width of h and of the output", {through_time_option()})};
}

Result<std::unique_ptr<Layer>> make_gru(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(auto sizes, Gru::read_sizes("gru", in, out, kGruGates, 1, options));
  WEFT_TRY(sizes.through_time, read_through_time(sizes, options));
  return std::unique_ptr<Layer>(new Gru(std::move(sizes)));
}

}  // namespace weft::mesh
