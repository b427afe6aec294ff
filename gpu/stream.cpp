// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/stream.hpp"

#include <algorithm>

namespace weft::gpu {

void Stream::refuse(Op op, const std::string& what) {
  recorder_->fail_with(Error(Errc::unsupported, "vulkan: the operation '" + std::string(name(op)) + "'" +
                                                    (what.empty() ? "" : " " + what) +
                                                    " has no shader yet; place its layer on the CPU"));
}

bool Stream::accepts(Op op, const ConstWeight& w) {
  if (supports(op, w.encoding(), w.activations)) return true;
  refuse(op, "for weights of type " + std::string(weft::name(w.dtype)));
  return false;
}

std::uint64_t Stream::scratch(std::size_t bytes) {
  if (scratch_.empty() || scratch_.back().bytes() < bytes) {
    // Twice the last, so that all that were outgrown together are no more than the one in use.
    const std::size_t grown = scratch_.empty() ? bytes : std::max(bytes, 2 * scratch_.back().bytes());
    auto buffer = recorder_->heap().allocate(std::max<std::size_t>(grown, 1), "scratch memory of operations");
    if (!buffer) return recorder_->fail_with(buffer.error()), 0;
    scratch_.push_back(std::move(*buffer));
  }
  return scratch_.back().address();
}

}  // namespace weft::gpu
