// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <cstddef>
#include <memory>

namespace weft::mesh {

/// Options of a gate that chooses among experts.
struct GateOptions {
  std::size_t experts = 0;
  std::size_t top_k = 0;  // experts kept a token; 0: all
  float temperature = 1.0f;
  float balance = 0.0f;        // weight of the load-balance loss
  float balance_rate = 0.01f;  // of the running mean of the load
};

/// The gate of a mixture of experts, of every token alone: p = softmax(keep_k(W x) / temperature); what is not among
/// the k largest has weight 0. Parameter weight [experts, features]. Inside `parallel` only. The state holds m, a
/// running mean of p, one a session: m' = m + rate (mean over tokens of p - m). The load-balance loss balance * experts
/// * sum of m p enters by its slope in p, m held fixed, as if it were part of every loss.
/// @shape  x [rows, ..., features] -> y [rows, ..., experts]
/// @exact  same bits on every ISA, thread count and batch: m is the session's own, where a batch's share of tokens
/// would
///         make one session's outputs depend on the other sessions
/// @source Shazeer et al. 2017, arXiv:1701.06538, eq. 3 to 5 (without noise); Fedus et al. 2021, arXiv:2101.03961, eq.
/// 4
///         (m in place of a batch's share)
Result<std::unique_ptr<Layer>> make_gate(const Shape& in, const GateOptions& gate, OptionReader& options);

/// The same of logits that a layer before it gives, in place of W x: it has no parameters.
/// @shape  x [rows, ..., experts] -> y [rows, ..., experts]
std::unique_ptr<Layer> make_gate_of_logits(const Shape& logits, const GateOptions& gate);

/// y = sum over experts of p_e y_e, of every token. Input: p, then every expert's output, joined. Inside `parallel`
/// only.
/// @shape  x [rows, ..., experts + experts * features] -> y [rows, ..., features]
std::unique_ptr<Layer> make_weighted_sum(const Shape& in, std::size_t experts);

}  // namespace weft::mesh
