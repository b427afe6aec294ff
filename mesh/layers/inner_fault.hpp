// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/supervisor.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace weft::mesh {

class Layer;

/// Place of a layer inside a container, one number a level of nesting: its position in the order in which the layers
/// there compute. So places of layers that compute earlier are less.
using InnerPath = std::vector<std::uint32_t>;

/// A layer inside a container that states a policy, and its share of what the container has.
struct SupervisedLayer {
  std::string name;  // where it stands: "layers[2].layers[0]"
  actors::Policy policy = actors::Policy::halt;
  std::size_t first_parameter = 0, parameters = 0;  // among Layer::parameters()
  std::size_t first_state = 0, states = 0;          // values of a row of the hidden state
};

/// Exception of a layer inside a container in which some layer states a policy: what it said, and where it stands.
class InnerFault final : public std::exception {
 public:
  InnerFault(const Layer* container, std::uint32_t place, std::string text)
      : container_(container), path_{place}, text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  /// The outermost container that it has left.
  const Layer* container() const noexcept { return container_; }
  const InnerPath& path() const noexcept { return path_; }
  /// Passes the exception that is handled on as one of the layer at `place` of a container. `has_own`: layers inside
  /// that one have policies too.
  [[noreturn]] static void pass_on(const Layer* container, std::uint32_t place, bool has_own);

 private:
  const Layer* container_;
  InnerPath path_;
  std::string text_;
};

}  // namespace weft::mesh
