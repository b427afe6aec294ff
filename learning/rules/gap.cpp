// SPDX-License-Identifier: Apache-2.0
// Targets by the weighted mean of the layer's targets: after a rule of Loom, the system that Weft
// follows; gap_original has it as it is there.

#include "learning/rules/rule.hpp"

namespace weft::learning::rules {
namespace {

/// dx = (W^T t) / S - x where S[k] = sum of abs(W[o][k]) is large enough, else 0; t = a + d.
void through_weighted_mean(const MatrixStep& s) {
  s.stream.binary({kernels::BinaryOp::add, s.past.y, s.residual, s.target});
  s.stream.linear_transposed({s.matrix, s.target, s.weighted});
  s.stream.column_l1_norms({s.matrix, s.sums});
  s.stream.gap_residual({s.weighted, s.sums, s.past.x, s.dx});
}

}  // namespace

constinit const RuleDefinition gap{.name = "gap",
                                   .lr = 0.001f,
                                   .output_step = 5.0f,
                                   .takes_wanted_output = true,
                                   .through_matrix = through_weighted_mean};

}  // namespace weft::learning::rules
