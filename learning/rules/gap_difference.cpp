// SPDX-License-Identifier: Apache-2.0
// The rule gap with the difference correction, by weighted means that keep the size of a displacement.
// Source: Lee, Zhang, Fischer and Bengio 2015, "Difference Target Propagation", arXiv:1412.7525, for the correction.

#include "learning/rules/rule.hpp"

#include <cmath>

namespace weft::learning::rules {
namespace {

/// dx = sqrt(width) (W^T d) / S where S[k] = sum of abs(W[o][k]) is large enough, else 0.
void through_mean_of_displacements(const MatrixStep& s) {
  s.stream.linear_transposed({s.matrix, s.residual, s.weighted});
  s.stream.column_l1_norms({s.matrix, s.sums});
  s.stream.fill({0.0f, s.dx});
  s.stream.gap_residual({s.weighted, s.sums, s.dx, s.dx});
  s.stream.scale({std::sqrt(static_cast<float>(s.residual.cols)), s.dx, s.dx});
}

}  // namespace

constinit const RuleDefinition gap_difference{.name = "gap_difference",
                                              .step_limit = 0.5f,
                                              .adds_up = true,
                                              .displacement_limit = 1.0f,
                                              .activation_limit = 1.0f,
                                              .gradient_limit = 3.0f,
                                              .through_matrix = through_mean_of_displacements};

}  // namespace weft::learning::rules
