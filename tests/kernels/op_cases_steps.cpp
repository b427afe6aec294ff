// SPDX-License-Identifier: Apache-2.0
// Operations on eligibility traces, and steps with noise.

#include "tests/kernels/op_table.hpp"
#include <numeric>
#include <vector>

namespace weft::kernels::testing_ops::rows {
namespace {

/// A signal as learners give it, or of any numbers.
float* trace_signal(Operands& o, bool ends = false) {
  if (o.is_special()) return o.values(kTraceSignal);
  return o.values_of({o.random().next_normal(), o.random().next_uniform(), 2.0f, ends ? 1.0f : 0.0f});
}

}  // namespace

void trace_update(Table& t) {
  t.each(std::vector<std::size_t>{1, 17, 64, 131, 256, 511, 1000, 4099}, [](Operands& o, std::size_t n) {
    const float *const signal = trace_signal(o), *const g = o.values(n);
    float* const z = o.values(n);
    return o.make(" in memory", ops::TraceUpdate{signal, g, {}, {}, n, z, o.values(1)});
  });
  // Panels of fewer inputs than a block of lanes has, of as many, and of others; last panels that are not full.
  t.each(std::vector<Shape>{{1, 1}, {3, 7}, {16, 4}, {17, 5}, {33, 64}, {48, 130}, {100, 3}, {16, 260}},
         [](Operands& o, const Shape& s) {
           const float* const signal = trace_signal(o);
           const MatrixView dy = o.matrix(1, s.rows), x = o.matrix(1, s.cols);
           for (std::size_t k = 0; k < s.cols; k += 3) x.data[k] = k % 2 ? -0.0f : 0.0f;
           const Panels z = o.panels(s.rows, s.cols);
           for (std::size_t i = 0; i < panels_size(s.rows, s.cols); i += 16) z.data[i] = -0.0f;
           const std::size_t n = panels_size(s.rows, s.cols);
           return o.make(" by a product" + text(s), ops::TraceUpdate{signal, nullptr, dy, x, n, z.data, o.values(1)});
         });
  t.each(std::vector<std::size_t>{1, 17, 64, 131, 1000}, [](Operands& o, std::size_t n) {
    const float* const signal = trace_signal(o);
    const MatrixView dy = o.matrix(1, n);
    for (std::size_t i = 0; i < n; i += 3) dy.data[i] = -0.0f;
    float* const z = o.values(n);
    for (std::size_t i = 0; i < n; i += 2) z[i] = -0.0f;
    return o.make(" by errors", ops::TraceUpdate{signal, nullptr, dy, {}, n, z, o.values(1)});
  });
}

void bounded_rate(Table& t) {
  // Norms below the bound and far above it; layers without a sum; rates from none to large.
  for (const float lr : {0.0f, 0.0625f, 1.0f, 1000.0f})
    for (const float scale : {0x1p-30f, 1.0f, 0x1p40f})
      t.each(std::vector<std::size_t>{1, 2, 5, 40}, [&](Operands& o, std::size_t layers) {
        const float* const signal = trace_signal(o);
        const std::uint32_t* const counts = o.labels(layers, 7);
        const std::size_t count = std::accumulate(counts, counts + layers, std::size_t{0});
        float* const sums = o.values(count);
        for (std::size_t i = 0; i < count; ++i) sums[i] = std::fabs(sums[i]) * scale;
        return o.make("", ops::BoundedRate{signal, sums, count, counts, layers, lr, o.values(kOptimizerFactors)});
      });
}

void end_traces(Table& t) {
  for (const bool ends : {false, true})
    t.each(std::vector<std::size_t>{1, 17, 256, 1000, 5000}, [&](Operands& o, std::size_t n) {
      const float* const signal = trace_signal(o, ends);
      return o.make(ends ? " of an episode" : " of none", ops::EndTraces{signal, n, o.values(n)});
    });
}

// Weights and gradients of learning are finite.
void utility_update(Table& t) {
  for (const std::size_t n : {1, 17, 64, 131, 1000, 5000})
    for (const float largest : {0.0f, 3.0f, 1000.0f})
      t.one(false, [&](Operands& o) {
        float *const u = o.values(n), *const w = o.values(n), *const g = o.values(n);
        for (std::size_t i = 0; i < n; i += 5) w[i] *= 1e25f, g[i] *= 1e20f;
        return o.make("", ops::UtilityUpdate{n, u, w, g, 0.9f, o.values_of({largest})});
      });
}

void largest(Table& t) {
  t.each(std::vector<std::size_t>{1, 3, 64, 65, 1000}, [](Operands& o, std::size_t n) {
    const float* const x = o.values(n);
    return o.make("", ops::Largest{n, x, o.values(1)});
  });
}

void perturbed_step(Table& t) {
  for (const bool protects : {true, false})
    for (const bool is_limited : {false, true})
      t.each(std::vector<Shape>{{1, 0}, {17, 0}, {200, 0}, {3, 7}, {16, 4}, {33, 5}, {48, 20}}, [&](Operands& o,
                                                                                                    const Shape& s) {
        const std::size_t n = s.cols > 0 ? panels_size(s.rows, s.cols) : s.rows;
        float *const w = o.values(n), *const u = o.values(n), *const g = o.values(n);
        const float *const factors = o.values_of({0.05f, 1.0f, 1.0f}),
                           *const top = o.values_of({s.rows == 17 ? 0.0f : 1.75f}),
                           *const squares = is_limited ? o.values_of({9.5f}) : nullptr;
        const std::uint64_t* const updates = o.words({s.rows == 3 ? (1ull << 33) + 5 : 7ull});
        return o.make(
            text(s),
            ops::PerturbedStep{
                s.rows, s.cols, w, u, g, factors, updates, top, squares, 0.5f, 0.01f, 0.3f, protects, {1234567u, 89u}});
      });
}

}  // namespace weft::kernels::testing_ops::rows
