// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/stream.hpp"

namespace weft::gpu {

void Stream::refuse(Op op) {
  recorder_->fail_with(Error(Errc::unsupported, "vulkan: the operation '" + std::string(name(op)) +
                                                    "' has no shader yet; place its layer on the CPU"));
}

}  // namespace weft::gpu
