// SPDX-License-Identifier: Apache-2.0
// Row kernels and optimisers at sizes of one cell (64) and of a large layer.

#include "kernels/binary.hpp"
#include "kernels/entmax.hpp"
#include "kernels/finite.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/gumbel.hpp"
#include "kernels/isa.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/reduce.hpp"
#include "kernels/row_cosine.hpp"
#include "kernels/softmax.hpp"

#include "core/aligned_buffer.hpp"

#include <benchmark/benchmark.h>

#include <string>

namespace {

using namespace weft;
using namespace weft::kernels;

struct Operands {
  explicit Operands(std::size_t n) : a(n), b(n), c(n), d(n) {
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>(i * 37 % 101) * 0.01f;
      b[i] = static_cast<float>(i * 53 % 97) * 0.01f - 0.5f;
      d[i] = 1e-3f;
    }
  }
  ConstMatrixView x() { return {a.data(), 1, a.size(), a.size()}; }
  ConstMatrixView g() { return {b.data(), 1, b.size(), b.size()}; }
  MatrixView y() { return {c.data(), 1, c.size(), c.size()}; }
  AlignedBuffer<float> a, b, c, d;
  float s[4] = {0, 1, 1, 1};
  std::uint32_t index = 1;
};

template <class Kernel>
void add(const char* name, Kernel kernel) {
  for (const Isa isa : available_isas())
    benchmark::RegisterBenchmark((std::string(name) + "/" + std::string(kernels::name(isa))).c_str(),
                                 [=](benchmark::State& state) {
                                   if (!set_active_isa(isa)) return state.SkipWithError("unsupported");
                                   const FlushSubnormals flush;
                                   Operands o(static_cast<std::size_t>(state.range(0)));
                                   for (auto _ : state) {
                                     kernel(o);
                                     benchmark::ClobberMemory();
                                   }
                                 })
        ->Arg(10)
        ->Arg(64)
        ->Arg(4096);
}

const bool kRegistered = [] {
  add("binary_add", [](Operands& o) { binary(BinaryOp::add, o.x(), o.g(), o.y()); });
  add("binary_max", [](Operands& o) { binary(BinaryOp::max, o.x(), o.g(), o.y()); });
  add("axpy", [](Operands& o) { axpy(1e-3f, o.x(), o.y()); });
  add("row_sums", [](Operands& o) { row_sums(o.x(), o.s); });
  add("row_dots", [](Operands& o) { row_dots(o.x(), o.g(), o.s); });
  add("row_argmax", [](Operands& o) { row_argmax(o.x(), &o.index); });
  add("row_cosine", [](Operands& o) { row_cosine(o.x(), o.g(), o.s); });
  add("is_finite", [](Operands& o) { benchmark::DoNotOptimize(is_finite(o.x())); });
  add("softmax", [](Operands& o) { softmax(o.x(), 1.0f, o.y()); });
  add("softmax_backward", [](Operands& o) { softmax_backward(o.x(), o.g(), 1.0f, o.y()); });
  add("sparsemax", [](Operands& o) { entmax(o.x(), 1.0f, 1.0f, o.y()); });
  add("entmax_1.5", [](Operands& o) { entmax(o.x(), 0.5f, 1.0f, o.y()); });
  add("entmax_1.25", [](Operands& o) { entmax(o.x(), 0.25f, 1.0f, o.y()); });
  add("entmax_1.25_backward", [](Operands& o) { entmax_backward(o.x(), o.g(), 0.25f, 1.0f, o.y()); });
  add("gumbel_noise", [](Operands& o) {
    const MatrixView state{o.s, 1, kNoiseState, kNoiseState};
    gumbel_noise(o.x(), {1, 2}, state, state, o.y());
  });
  add("cross_entropy", [](Operands& o) { cross_entropy(o.x(), &o.index, o.s, o.y()); });
  add("value_loss mse", [](Operands& o) { value_loss(Loss::mse, 0.0f, o.x(), o.g(), o.s, o.y()); });
  add("rms_norm", [](Operands& o) { rms_norm(o.x(), o.b.data(), 1e-5f, o.y(), o.s); });
  add("layer_norm", [](Operands& o) { layer_norm(o.x(), o.b.data(), o.b.data(), 1e-5f, o.y(), o.s, o.s + 1); });
  add("layer_norm_backward",
      [](Operands& o) { layer_norm_backward(o.x(), o.b.data(), o.s, o.s + 1, o.g(), o.y(), nullptr, nullptr); });
  for (std::size_t kind = 0; kind < optimizer_names().size(); ++kind) {
    OptimizerOptions options = default_options(static_cast<OptimizerKind>(kind));
    options.lr = 1e-3f;
    options.weight_decay = 1e-4f;
    add(std::string(optimizer_names()[kind]).c_str(), [options](Operands& o) {
      const std::size_t arrays = arrays_of(options);
      const float factors[kOptimizerFactors] = {1e-3f, 1.0f, 0.63f};
      optimizer_step({o.c.size(), o.c.data(), arrays > 0 ? o.a.data() : nullptr, arrays > 1 ? o.d.data() : nullptr,
                      nullptr, o.b.data(), factors, nullptr},
                     options);
    });
  }
  return true;
}();

}  // namespace
