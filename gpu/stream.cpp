// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/stream.hpp"

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

}  // namespace weft::gpu
