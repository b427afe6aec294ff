// SPDX-License-Identifier: Apache-2.0
// Operations that have no shader yet. Each must be refused loudly: never a silent fallback. To add one, move its
// function to the family's file, and turn its row in gpu/ops.def to true: what stands here does not compile then.

#include "gpu/internal/stream.hpp"

namespace weft::gpu {

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

}  // namespace weft::gpu
