// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/convolve_coded.hpp"
#include "kernels/ops/operands.hpp"
#include "kernels/pool.hpp"

namespace weft::kernels {
class CpuStream;
}

/// Convolutions, by R1 over columns (kernels/convolve.hpp), and pools. Workspaces: convolve_workspace().
namespace weft::kernels::ops {

/// Multiply-adds of either direction of a convolution.
inline double convolve_cost(const Window& window, std::size_t out, std::size_t rows) noexcept {
  return product(window.positions(), window.columns(), rows) * static_cast<double>(out);
}

/// z[o][p] = sum over k of w[o][k] x(p, k) + bias[o], y = activation(z), x(p, k) the image under window p at column
/// k. x [B, image], z and y [B, out * positions].
struct Convolve {
  Window window;
  ConstWeight w;
  const float* bias;
  ConstMatrixView x;
  Activation activation;
  MatrixView z, y;
  float* workspace;

  static void operands(auto& op, auto&& visit) {
    const Extent images = matrix(op.x.rows, op.window.image()),
                 results = matrix(images.rows, op.w.out * op.window.positions());
    visit.read(op.w);
    visit.read(op.bias, whole(op.w.out));
    visit.read(op.x, images);
    visit.write(op.z, results);
    visit.write(op.y, results);
    visit.workspace(op.workspace);
  }
  Work work() const noexcept { return by_rows(x.rows, convolve_cost(window, w.out, x.rows)); }
  void compute() const noexcept { convolve_coded(window, w, bias, x, activation, z, y, workspace); }
};

/// Transpose: every (p, k) adds sum over o of w[o][k] x[o][p] to its element, p ascending. bias [channels] or null.
/// x [B, out * positions], z and y [B, image].
struct ConvolveTransposed {
  Window window;
  ConstWeight w;
  const float* bias;
  ConstMatrixView x;
  Activation activation;
  MatrixView z, y;
  float* workspace;

  static void operands(auto& op, auto&& visit) {
    const Extent results = matrix(op.x.rows, op.w.out * op.window.positions()),
                 images = matrix(results.rows, op.window.image());
    visit.read(op.w);
    visit.read(op.bias, whole(op.window.channels));
    visit.read(op.x, results);
    visit.write(op.z, images);
    visit.write(op.y, images);
    visit.workspace(op.workspace);
  }
  Work work() const noexcept { return by_rows(x.rows, convolve_cost(window, w.out, x.rows)); }
  void compute() const noexcept { convolve_transposed_coded(window, w, bias, x, activation, z, y, workspace); }
};

/// dw[o][k] = fma(dy[b][o][p], x(b, p, k), dw[o][k]) for b ascending, within it p ascending.
struct ConvolveOuter {
  Window window;
  ConstMatrixView dy, x;
  Panels dw;
  float* workspace;

  static void operands(auto& op, auto&& visit) {
    const Extent images = matrix(op.x.rows, op.window.image());
    visit.read(op.dy, matrix(images.rows, op.dw.out * op.window.positions()));
    visit.read(op.x, images);
    visit.update(op.dw);
    visit.workspace(op.workspace);
  }
  void compute(CpuStream& cpu) const;
};

/// y = the largest element of each window, index = its place in its plane (or data == null).
struct MaxPool {
  Pool pool;
  ConstMatrixView x;
  MatrixView y, index;

  static void operands(auto& op, auto&& visit) {
    const Window& window = op.pool.window;
    const Extent images = matrix(op.x.rows, window.image()),
                 results = matrix(images.rows, window.channels * window.positions());
    visit.read(op.x, images);
    visit.write(op.y, results);
    visit.write(op.index, results);
  }
  Work work() const noexcept { return by_rows(x.rows, kMoved * product(x.rows, x.cols)); }
  void compute() const noexcept { max_pool(pool, x, y, index); }
};

/// dx[i] = sum of dy over the windows that i won.
struct MaxPoolBackward {
  Pool pool;
  ConstMatrixView index, dy;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) {
    const Window& window = op.pool.window;
    const Extent images = matrix(op.dx.rows, window.image()),
                 results = matrix(images.rows, window.channels * window.positions());
    visit.read(op.index, results);
    visit.read(op.dy, results);
    visit.write(op.dx, images);
  }
  Work work() const noexcept { return by_rows(dx.rows, kMoved * product(dx.rows, dx.cols)); }
  void compute() const noexcept { max_pool_backward(pool, index, dy, dx); }
};

/// y = the mean of each window.
struct AvgPool {
  Pool pool;
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const Window& window = op.pool.window;
    const Extent images = matrix(op.x.rows, window.image());
    visit.read(op.x, images);
    visit.write(op.y, matrix(images.rows, window.channels * window.positions()));
  }
  Work work() const noexcept { return by_rows(x.rows, kMoved * product(x.rows, x.cols)); }
  void compute() const noexcept { avg_pool(pool, x, y); }
};

/// dx[i] = sum of dy / number over the windows that hold i.
struct AvgPoolBackward {
  Pool pool;
  ConstMatrixView dy;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) {
    const Window& window = op.pool.window;
    const Extent images = matrix(op.dx.rows, window.image());
    visit.read(op.dy, matrix(images.rows, window.channels * window.positions()));
    visit.write(op.dx, images);
  }
  Work work() const noexcept { return by_rows(dx.rows, kMoved * product(dx.rows, dx.cols)); }
  void compute() const noexcept { avg_pool_backward(pool, dy, dx); }
};

}  // namespace weft::kernels::ops
