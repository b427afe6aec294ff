// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/loom/internal/loom_layers.hpp"
#include "mesh/network/network.hpp"

#include "formats/loom/loom_entity.hpp"

#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace weft::mesh {

/// All that is wrong with a file, to be told at once.
class ProblemsV1 {
 public:
  void add(Error error) { errors_.push_back(std::move(error)); }
  /// The value, or nothing and one problem more.
  template <class T>
  std::optional<T> take(Result<T> result) {
    if (result) return *std::move(result);
    add(std::move(result).error());
    return std::nullopt;
  }
  bool empty() const noexcept { return errors_.empty(); }
  /// One failure of the kind of the first, 20 problems at most spelled out. Success where there is none.
  Status status() const;

 private:
  std::vector<Error> errors_;
};

/// Values of one of our parameters.
struct TensorV1 {
  std::string name;  // "layers[0].weight"
  Shape shape;
  std::vector<float> values;
};

/// The type that a layer's weights have there.
struct TypedWeightsV1 {
  std::string path;
  Dtype dtype = Dtype::float32;
  std::size_t weights = 0;
  bool has_matrix = false, is_exact = false;  // our type of that name holds every value
  bool is_read = true;
};

/// A layer of Loom as one of ours, without place, sources and numeric type, or none where it passes on what it reads.
struct TranslatedV1 {
  LayerSpec spec;
  Shape in, out;
  Shape stated;         // of the output, where a convolution's header says it
  bool is_map = false;  // the output's axes behind the first are extents, and no features of tokens
  std::vector<TensorV1> tensors;
  std::vector<TypedWeightsV1> types;

  bool passes() const noexcept { return spec.type.empty(); }
};

/// Layers of a file of Loom, with what is inside them, as layers of ours that compute the same.
class TranslatorV1 {
 public:
  /// `reads_values`: false for the layers alone; then tensors have none.
  TranslatorV1(const formats::LoomEntityFile& file, ProblemsV1& problems, bool reads_values)
      : file_(file), problems_(problems), reads_values_(reads_values) {}

  /// `before`: the shape of what it reads; empty where it reads the network's input, which it then says itself.
  /// Nothing: what is wrong is among the problems.
  std::optional<TranslatedV1> translate(const LayerV1& layer, const Shape& before);
  /// Passes over the blobs of a layer and of those inside it.
  void pass_over(const LayerV1& layer);
  /// The values of a blob that belongs to a layer; nothing where there is none, or a problem.
  std::optional<std::vector<float>> values(const std::string& path, std::size_t count, const std::string& object);
  /// Adds a problem for each blob that no layer has.
  void refuse_unused();

  void note(const LayerV1& layer, const std::string& text) { notes_.push_back(layer.path + ": " + text); }
  std::vector<std::string>& notes() noexcept { return notes_; }

 private:
  using Made = std::optional<TranslatedV1>;
  /// A value inside a sequential: what its input or a step gives.
  struct Value {
    std::optional<std::size_t> step;
    Shape shape;
    bool is_map = false;
  };

  Made leaf(const LayerV1& layer, const Shape& before);
  Made sequential(const LayerV1& layer, const Shape& before);
  Made parallel(const LayerV1& layer, const Shape& before);
  Made observed(const LayerV1& layer, const Shape& before);
  bool add_weights(const LayerV1& layer, const LayerPlanV1& plan, TranslatedV1& made);
  bool add_head_norms(const LayerV1& layer, LayerPlanV1& plan, TranslatedV1& made);
  std::optional<std::vector<TranslatedV1>> branches(const LayerV1& layer, const Shape& before);
  bool join(const LayerV1& layer, std::vector<TranslatedV1>& parts, TranslatedV1& made);
  Made refuse(const LayerV1& layer, const char* key, const std::string& text, Errc code = Errc::unsupported);

  const formats::LoomEntityFile& file_;
  ProblemsV1& problems_;
  bool reads_values_;
  std::set<std::string> used_;
  std::vector<std::string> notes_;
};

/// Sets the numeric type of a layer of the grid, and says what became of each type inside it: a container has one for
/// all its matrices.
void set_type_v1(const std::vector<TypedWeightsV1>& types, LayerSpec& spec, std::vector<std::string>& notes);

}  // namespace weft::mesh
