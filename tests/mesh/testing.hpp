// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layers/metacognition.hpp"
#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"
#include "mesh/persistence/checkpoint_snapshot.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Fixtures of the mesh's tests.
namespace weft::mesh::testing_support {

/// The value, or the end of the program with the error's text.
template <class T>
T must(Result<T> result) {
  WEFT_ASSERT(result.has_value(), result.error().text());
  return *std::move(result);
}
inline void must(const Status& status) { WEFT_ASSERT(status.has_value(), status.error().text()); }

/// A matrix of a store in another encoding, made from its master.
inline QuantizedWeight quantized(const WeightStore& weights, std::size_t parameter, const Encoding& encoding) {
  QuantizedWeight made = must(weights.make_stored(parameter, encoding));
  const WeightStore::Parameter& of = weights.parameters()[parameter];
  made.quantize({of.data, of.spec->out, of.spec->in});
  return made;
}
/// The bytes of a snapshot's file.
inline Result<ByteBuffer> encode_snapshot(const CheckpointSnapshot& snapshot, const CheckpointExtras& extras = {}) {
  WEFT_TRY(const ByteSource source, entity_of(snapshot.view(), extras));
  return collect(source);
}

/// That `result` failed with `code`, in a text that holds every fragment.
template <class T>
void expect_error(const Result<T>& result, Errc code, std::initializer_list<std::string_view> fragments) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), code) << name(result.error().code()) << ": " << result.error().text();
  for (const std::string_view fragment : fragments)
    EXPECT_NE(result.error().text().find(fragment), std::string::npos)
        << "'" << fragment << "' is missing in: " << result.error().text();
}

/// The same of fragments between bars.
template <class T>
void expect_refused(const Result<T>& result, Errc code, std::string_view fragments) {
  for (std::size_t at = 0; at <= fragments.size();) {
    const std::size_t end = std::min(fragments.find('|', at), fragments.size());
    expect_error(result, code, {fragments.substr(at, end - at)});
    at = end + 1;
  }
}

inline std::vector<float> noise(std::size_t n, std::uint64_t seed, float scale = 1.0f) {
  RandomStream random(seed, 0, RandomPurpose::test);
  std::vector<float> values(n);
  for (float& value : values) value = random.next_normal() * scale;
  return values;
}

/// Ticks [from, to) of a session whose input "x" takes five values, other ones at every tick.
inline void run_ticks(Mesh& mesh, std::uint64_t from, std::uint64_t to, std::size_t session = 0) {
  for (std::uint64_t t = from; t < to; ++t) {
    must(mesh.set_input("x", noise(5, 100 + t), session));
    must(mesh.tick());
  }
}

inline std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<std::uint32_t>(value));
  return out;
}

inline std::vector<float> output_of(const Mesh& mesh, Coord at, std::size_t session = 0) {
  const auto values = must(mesh.output(at, session));
  return {values.begin(), values.end()};
}
/// The outputs of all layers, as bits.
inline std::vector<std::uint32_t> output_bits(const Mesh& mesh, std::size_t session) {
  std::vector<std::uint32_t> all;
  for (const Node& node : mesh.graph().nodes()) {
    if (node.is_port()) continue;
    const auto one = bits(output_of(mesh, node.at, session));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// Fields of a command that a test sets.
struct Wanted {
  CommandKind kind = CommandKind::probe;
  std::uint64_t not_before = 0, number = 0;
  Encoding encoding{};
  std::vector<float> values{};
  std::uint32_t level = 0, parameter = 0;
};
inline CommandMessage make_command(Wanted wanted) {
  auto command = std::make_shared<Command>();
  command->kind = wanted.kind;
  command->not_before = wanted.not_before;
  command->number = wanted.number;
  command->encoding = wanted.encoding;
  command->values = std::move(wanted.values);
  command->level = wanted.level;
  command->parameter = wanted.parameter;
  return command;
}
/// Posts a command and returns it, to be looked at when done.
inline CommandMessage post(Mesh& mesh, Coord cell, Wanted wanted) {
  return must(mesh.post(cell, make_command(std::move(wanted))));
}
inline CommandMessage post(Mesh& mesh, Coord cell, CommandKind kind, std::uint64_t not_before = 0,
                           std::uint64_t number = 0) {
  return post(mesh, cell, Wanted{kind, not_before, number});
}

/// Replaces a layer's first weights.
inline void write_weights(Mesh& mesh, Coord at, const std::vector<float>& values) {
  WeightStore& weights = MeshAccess::weights(mesh);
  must(weights.write(weights.parameters()[weights.first(*mesh.graph().find_layer(at))], values, "written"));
}

/// The mesh of a file, where it stood when that was written; `with_state` false: its weights alone.
inline Mesh mesh_of_file(ByteSpan bytes, MeshOptions options = {.threads = 1}, bool with_state = true) {
  const auto file = must(formats::decode_entity(bytes, "test"));
  options.sessions = sessions_of(file);
  Mesh mesh = must(Mesh::build(must(network_of(file)), options));
  must(restore_weights(mesh, file));
  if (with_state && holds_live_state(file)) must(restore_live(mesh, file));
  return mesh;
}

/// Commands that watchers have sent.
inline std::uint64_t actions_of(const Mesh& mesh) {
  std::uint64_t all = 0;
  for (const auto& cell : MeshAccess::cells(mesh))
    for (const CellObserver& each : cell->observers()) all += dynamic_cast<const Watcher&>(*each.observer).actions();
  return all;
}

/// Runs on another instruction set for as long as it exists.
class ForIsa {
 public:
  explicit ForIsa(kernels::Isa isa) : before_(kernels::active_isa()) { must(kernels::set_active_isa(isa)); }
  ~ForIsa() { (void)kernels::set_active_isa(before_).has_value(); }

 private:
  kernels::Isa before_;
};

/// One of everything: several levels a cell, norms, a skip, hidden state, every combine mode, two loops, empty places.
inline NetworkBuilder mixed_network(std::uint64_t seed = 7) {
  using kernels::Activation;
  return NetworkBuilder("mixed", GridShape{2, 2, 2, 2})
      .input("a", 7)
      .input("b", 5)
      .dense({0, 0, 0, 0}, 19, Activation::silu)
      .from({"a", "b", Coord{1, 1, 1, 0}})
      .layer({0, 0, 0, 1}, "layer_norm")
      .dense({0, 0, 1, 0}, 19, Activation::gelu)
      .layer({0, 0, 1, 1}, "residual")
      .from({Coord{0, 0, 1, 0}, Coord{0, 0, 0, 1}})
      .layer({0, 1, 0, 0}, "leaky_integrator")
      .dense({0, 1, 1, 0}, 19, Activation::tanh)
      .from({Coord{0, 1, 0, 0}, Coord{0, 0, 0, 0}}, Combine::max)
      .layer({1, 0, 0, 0}, "rms_norm")
      .from({Coord{0, 1, 1, 0}, Coord{0, 1, 0, 0}}, Combine::avg)
      .dense({1, 0, 1, 0}, 19, Activation::sigmoid)
      .from({Coord{1, 0, 0, 0}, Coord{0, 1, 1, 0}}, Combine::gate)
      .dense({1, 1, 0, 0}, 4)
      .dense({1, 1, 1, 0}, 3, Activation::tanh)
      .from({Coord{1, 0, 1, 0}, Coord{1, 1, 1, 0}})
      .output("left", {1, 1, 0, 0})
      .output("right", {1, 1, 1, 0})
      .seed(seed);
}

/// First value of a row that makes a `fragile` layer fail.
inline constexpr float kThrow = 101.0f, kNan = 102.0f, kInfinite = 103.0f, kBadHidden = 104.0f;

/// y = x, or with memory h = h/2 + x, y = h; fails on a row whose first value is a trigger. A function of its input
/// alone, as layers are.
class Fragile final : public Layer {
 public:
  Fragile(std::size_t width, bool remembers) : Layer(width, width), remembers_(remembers) {
    parameters_.push_back({"scale", 1, 0, false, [](RandomStream&, std::span<float> v) { v[0] = 1.0f; }});
  }
  std::size_t state_size() const noexcept override { return remembers_ ? in() : 0; }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }

  void forward(kernels::OpStream&, const ForwardArgs& args) const override {
    for (std::size_t b = 0; b < args.x.rows; ++b) {
      const float trigger = args.x.row(b)[0];
      for (std::size_t j = 0; j < in(); ++j) {
        float y = args.weights.vector(0)[0] * args.x.row(b)[j];
        if (remembers_) args.next_state.row(b)[j] = y = 0.5f * args.state.row(b)[j] + y;
        if (trigger == kNan) y = std::numeric_limits<float>::quiet_NaN();
        if (trigger == kInfinite) y = std::numeric_limits<float>::infinity();
        if (trigger == kBadHidden) args.next_state.row(b)[j] = std::numeric_limits<float>::infinity();
        args.y.row(b)[j] = y;
      }
      if (trigger == kThrow) throw std::runtime_error("the fuse blew");
    }
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.copy({args.dy, args.dx});
  }

 private:
  bool remembers_;
  std::vector<ParameterSpec> parameters_;
};

/// Adds the type "fragile" once a process.
inline void register_fragile() {
  static const Status done =
      register_layer("fragile",
                     [](const Shape& in, std::size_t, OptionReader& options) -> Result<std::unique_ptr<Layer>> {
                       WEFT_TRY(const bool remembers, options.boolean("memory"));
                       return std::unique_ptr<Layer>(new Fragile(in.at(0), remembers));
                     },
                     {"in", "in", {option::flag("memory", false, "whether it counts its ticks")}});
  must(done);
}

}  // namespace weft::mesh::testing_support
