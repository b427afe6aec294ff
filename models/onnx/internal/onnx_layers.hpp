// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/onnx/internal/onnx_constant.hpp"
#include "models/onnx/internal/onnx_network.hpp"

#include "mesh/network/network.hpp"

#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::models::onnx {

/// Values beside each other, of what a layer makes or an input port holds.
struct Chunk {
  static constexpr std::int32_t kZeros = INT32_MIN;
  std::int32_t base = kZeros;  // a layer's number; below 0: ~base is a port's
  std::size_t offset = 0, count = 0;
};

/// Values that are known when the network runs, in chunks.
struct Stream {
  Shape shape;
  std::vector<Chunk> chunks;
};

struct GatedParts;
struct Rotary;

/// A layer as it is found in a graph. Types "gated" and "rotary" are parts on their way: a layer behind them takes them
/// in, or the graph is refused.
struct FoundLayer {
  mesh::LayerSpec spec;  // without place and sources
  std::vector<std::int32_t> sources;
  Shape in, out;  // its view of the sources together, and what it makes
  std::map<std::string, Weight> weights;
  std::string node;
  /// Part of the layer before it, where that can take it in: a factor and a summand for each channel (weights "factor",
  /// "bias").
  enum class Part { none, last_axis, channels } part = Part::none;
  /// Attention whose output matrix is the identity as long as no dense layer behind it takes its place.
  bool has_open_output = false;
  std::shared_ptr<const GatedParts> gated = nullptr;
  std::shared_ptr<const Rotary> rotary = nullptr;
};

/// The layers of a graph, in order, each reading earlier ones or ports.
class LayerList {
 public:
  std::int32_t add_port(std::string name, Shape shape);
  /// A layer over `sources`, seen as `in`. Values in other orders than layers make them get a layer that puts them so.
  /// @error too_large: more than 65,536 copies for that
  Result<Stream> add(FoundLayer layer, std::vector<Stream> sources, Shape shape_after);
  /// Number of the layer or port that makes just these values; a layer is added where none does.
  Result<std::int32_t> whole(const Stream& stream, const std::string& node);

  FoundLayer& at(std::int32_t layer) { return layers_[static_cast<std::size_t>(layer)]; }
  const FoundLayer& at(std::int32_t layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  std::vector<FoundLayer>& layers() noexcept { return layers_; }
  const std::vector<mesh::PortSpec>& ports() const noexcept { return ports_; }
  const Shape& shape_of(std::int32_t base) const noexcept;
  std::size_t size_of(std::int32_t base) const noexcept;
  /// All values of a layer or port.
  Stream all_of(std::int32_t base, Shape shape) const { return {std::move(shape), {{base, 0, size_of(base)}}}; }
  /// Layers become parts of those before them, where nothing else reads those: summands, factors, activations. Gives
  /// the layer that each has become; one that is a part now has no type.
  std::vector<std::int32_t> merge(const std::vector<std::int32_t>& kept);

 private:
  std::vector<FoundLayer> layers_;
  std::vector<mesh::PortSpec> ports_;
};

/// The values at `places` of streams one after the other; -1: zeros.
Stream moved_stream(const Moved& move, const std::vector<const Stream*>& from);

}  // namespace weft::models::onnx
