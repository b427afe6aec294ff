// SPDX-License-Identifier: Apache-2.0
// Operations that have no shader yet. Each must be refused loudly: never a silent fallback. To add one, move its
// function to the family's file, and turn its row in gpu/ops.def to true: what stands here does not compile then.

#include "gpu/internal/stream.hpp"

namespace weft::gpu {

void Stream::entmax(const ConstRows&, float, float, const Rows&) { refuse_missing<Op::entmax>(); }
void Stream::entmax_backward(const ConstRows&, const ConstRows&, float, float, const Rows&) {
  refuse_missing<Op::entmax_backward>();
}
void Stream::gumbel_noise(const ConstRows&, std::array<std::uint32_t, 2>, const ConstRows&, const Rows&, const Rows&) {
  refuse_missing<Op::gumbel_noise>();
}
void Stream::one_hot_largest(const ConstRows&, const Rows&) { refuse_missing<Op::one_hot_largest>(); }
void Stream::dropout_mask(std::array<std::uint32_t, 2>, const ConstRows&, const Rows&, std::uint32_t, float,
                          const Rows&) {
  refuse_missing<Op::dropout_mask>();
}
void Stream::permute(const ConstRows&, const AxisOrder&, const Rows&) { refuse_missing<Op::permute>(); }
void Stream::squared_distances(const ConstWeight&, const ConstRows&, const Rows&) {
  refuse_missing<Op::squared_distances>();
}
void Stream::squared_distances_backward(const ConstWeight&, const ConstRows&, const ConstRows&, const Rows&,
                                        const Panels&) {
  refuse_missing<Op::squared_distances_backward>();
}
void Stream::weighted_sum(const ConstRows&, const ConstRows&, const Rows&) { refuse_missing<Op::weighted_sum>(); }
void Stream::weighted_sum_backward(const ConstRows&, const ConstRows&, const ConstRows&, const Rows&, const Rows&) {
  refuse_missing<Op::weighted_sum_backward>();
}
void Stream::keep_largest(const ConstRows&, std::size_t, const Rows&) { refuse_missing<Op::keep_largest>(); }
void Stream::attention(const AttentionShape&, const AttentionOperands&, const Rows&, const Rows&, const Rows&, float*) {
  refuse_missing<Op::attention>();
}
void Stream::attention_backward(const AttentionShape&, const AttentionOperands&, const ConstRows&, const ConstRows&,
                                const AttentionGradients&, float*) {
  refuse_missing<Op::attention_backward>();
}
void Stream::rope(const Rope&, std::size_t, const ConstRows&, const ConstRows&, bool, const Rows&, float*) {
  refuse_missing<Op::rope>();
}
void Stream::embedding(const ConstWeight&, const ConstRows&, const Rows&) { refuse_missing<Op::embedding>(); }
void Stream::embedding_backward(const ConstRows&, const ConstRows&, std::size_t, const Panels&) {
  refuse_missing<Op::embedding_backward>();
}
void Stream::convolve(const Window&, const ConstWeight&, const float*, const ConstRows&, Activation, const Rows&,
                      const Rows&, float*) {
  refuse_missing<Op::convolve>();
}
void Stream::convolve_transposed(const Window&, const ConstWeight&, const float*, const ConstRows&, Activation,
                                 const Rows&, const Rows&, float*) {
  refuse_missing<Op::convolve_transposed>();
}
void Stream::convolve_outer(const Window&, const ConstRows&, const ConstRows&, const Panels&, float*) {
  refuse_missing<Op::convolve_outer>();
}
void Stream::max_pool(const Pool&, const ConstRows&, const Rows&, const Rows&) { refuse_missing<Op::max_pool>(); }
void Stream::max_pool_backward(const Pool&, const ConstRows&, const ConstRows&, const Rows&) {
  refuse_missing<Op::max_pool_backward>();
}
void Stream::avg_pool(const Pool&, const ConstRows&, const Rows&) { refuse_missing<Op::avg_pool>(); }
void Stream::avg_pool_backward(const Pool&, const ConstRows&, const Rows&) { refuse_missing<Op::avg_pool_backward>(); }

}  // namespace weft::gpu
