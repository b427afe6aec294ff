// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <cstddef>
#include <string_view>

namespace weft::mesh {

/// The way in which a gated recurrent layer learns what an output needs of earlier ticks.
enum class ThroughTime : int {
  backward,  ///< errors travel from tick to tick, `horizon` links far
  snap1,     ///< derivatives of each unit by its own parameters go along
  eprop,     ///< the same without the unit's own recurrent weights
};

/// Derivatives of the units of a gated recurrent layer by their own parameters, which go along with the state. A unit
/// has one row of each gate's block; what units do to each other is left out. s is a unit's inner state, h of gru and c
/// of lstm, a the sums of its gates, `in` what a parameter multiplies (x, h or 1):
///   E'   = k E + q E_h + (ds'/da) in             derivatives of s; k = ds'/ds at fixed gates
///   E_h' = (dh'/ds') E' + p E_h + (dh'/da) in    of h, for lstm; of gru E_h is E
///   q = sum over gates of (ds'/da) W_hh[i, i],  p = sum over gates of (dh'/da) W_hh[i, i];  eprop: q = p = 0
/// snap1 is the block diagonal of the exact derivatives' recurrence, and exact for one unit. eprop has the inner
/// dynamics alone, so lstm needs neither E_h nor E of its output gate. Numbers: of gru as many as parameters; of lstm
/// twice that with snap1, 3/4 of it with eprop.
///
/// Each matrix lies row-major, [inputs + hidden + biases, gates hidden]: a row for each value that parameters
/// multiply, in the order x, h, b_ih, b_hh, and a column for each row of the weights.
/// @exact  same bits on every ISA, thread count and batch: each product and sum is rounded by itself, gates ascending
/// @source Menick et al. 2021, "A Practical Sparse Approximation for Real Time Recurrent Learning", arXiv:2006.07232
///         (snap1); Bellec et al. 2020, "A solution to the learning dilemma for recurrent networks of spiking neurons",
///         Nature Communications 11:3625 (eprop: eligibility vectors of hidden states and their traces)
class RecurrentTraces {
 public:
  struct Sizes {
    std::size_t in = 0, hidden = 0, gates = 1;
    bool has_bias = true;
    bool has_output = false;  // h is another value than the inner state, and the last gate is of h alone
    ThroughTime through_time = ThroughTime::backward;
  };
  explicit RecurrentTraces(const Sizes& sizes) noexcept : sizes_(sizes) {}

  bool is_on() const noexcept { return sizes_.through_time != ThroughTime::backward; }
  /// Floats a row of hidden state, behind those of the layer's own.
  std::size_t size() const noexcept {
    return is_on() ? rows() * inner_width() + (keeps_output() ? matrix_size() : 0) : 0;
  }
  std::size_t workspace_size() const noexcept;
  double multiply_adds() const noexcept { return 3.0 * static_cast<double>(size()); }

  /// One row each, that a layer writes of a step of one session: values of the units, and of the gates' sums.
  struct Factors {
    kernels::MatrixView keep;     // [1, hidden] ds'/ds
    kernels::MatrixView through;  // [1, hidden] dh/ds, where h is another value
    kernels::MatrixView inner_x;  // [1, gates hidden] ds/da, of what W_ih and b_ih add
    kernels::MatrixView inner_h;  // likewise of what W_hh and b_hh add
    kernels::MatrixView outer;    // [1, gates hidden] dh/da at fixed s, where h is another value
  };
  Factors factors(float* workspace) const noexcept;

  /// Finds what all sessions share of `weight_hh`. Once a call of forward or backward, before what follows.
  void begin(kernels::OpStream& stream, const kernels::ConstWeight& weight_hh, float* workspace) const;
  /// The next derivatives of a session. @pre begin, and the factors of its step are there
  void advance(kernels::OpStream& stream, const float* x, const float* h, const float* from, float* to,
               float* workspace) const;
  /// Adds what an error [1, hidden] of h meets: the next derivatives times it. @pre as of advance
  void add_gradients(kernels::OpStream& stream, const float* x, const float* h, const float* from,
                     const kernels::ConstMatrixView& error, const Gradients& gradients, float* workspace) const;

 private:
  std::size_t width() const noexcept { return sizes_.gates * sizes_.hidden; }
  /// Columns of the inner state's derivatives: without those of h the last gate never reaches it.
  std::size_t inner_width() const noexcept {
    return (sizes_.gates - (sizes_.has_output && !keeps_output() ? 1 : 0)) * sizes_.hidden;
  }
  std::size_t rows() const noexcept { return sizes_.in + sizes_.hidden + (sizes_.has_bias ? 2 : 0); }
  std::size_t matrix_size() const noexcept { return rows() * width(); }
  bool keeps_output() const noexcept { return sizes_.has_output && sizes_.through_time == ThroughTime::snap1; }

  kernels::MatrixView matrix(float* at) const noexcept { return {at, rows(), width(), width()}; }
  kernels::ConstMatrixView matrix(const float* at) const noexcept { return {at, rows(), width(), width()}; }
  kernels::MatrixView inner(float* at) const noexcept { return {at, rows(), inner_width(), inner_width()}; }
  kernels::ConstMatrixView inner(const float* at) const noexcept { return {at, rows(), inner_width(), inner_width()}; }
  kernels::MatrixView row(float* workspace, std::size_t i) const noexcept;
  kernels::MatrixView block(float* workspace, std::size_t i, std::size_t gate = 0) const noexcept;
  kernels::MatrixView matrix_at(float* workspace, std::size_t i) const noexcept;
  void number(kernels::OpStream& stream, float* workspace) const;
  void repeat(kernels::OpStream& stream, float* workspace, std::size_t i) const;
  void add_own(kernels::OpStream& stream, float* workspace, std::size_t factor, std::size_t to) const;
  void add_product(kernels::OpStream& stream, float* workspace, std::size_t factor, const kernels::ConstMatrixView& of,
                   const kernels::MatrixView& to) const;
  void add_inputs(kernels::OpStream& stream, const float* x, const float* h, std::size_t by_x, std::size_t by_h,
                  const kernels::MatrixView& to, float* workspace) const;
  void find_shared(kernels::OpStream& stream, float* workspace) const;
  void find_inner(kernels::OpStream& stream, const float* x, const float* h, const float* from,
                  const kernels::MatrixView& to, float* workspace) const;
  void find_output(kernels::OpStream& stream, const float* x, const float* h, const float* from,
                   const kernels::ConstMatrixView& of_inner, const kernels::MatrixView& to, float* workspace) const;

  Sizes sizes_;
};

}  // namespace weft::mesh
