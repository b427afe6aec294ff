// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/embedding.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/embedding.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

class Embedding final : public Layer {
 public:
  Embedding(const Shape& in, const Shape& out, std::size_t vocabulary, std::size_t padding, float scale,
            Initializer init)
      : Layer(in, out), vocabulary_(vocabulary), padding_(padding), scale_(scale) {
    parameters_.push_back({"table", out.back(), vocabulary, true, std::move(init)});
  }
  /// A table whose entries are the rows of another layer's first matrix.
  Embedding(const Shape& in, const Shape& out, std::size_t vocabulary, std::size_t padding, float scale, Coord owner)
      : Layer(in, out), vocabulary_(vocabulary), padding_(padding), scale_(scale), owner_{owner}, slots_{{0, 0}} {}

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t vocabulary_size() const noexcept override { return vocabulary_; }
  std::span<const Coord> tied_to() const noexcept override { return owner_; }
  std::span<const WeightSlot> weight_slots() const noexcept override { return slots_; }

  /// Of each token's entry, and no more than there is.
  std::uint64_t weight_bytes_touched(const Encoding& encoding, std::size_t rows) const noexcept override {
    if (parameters_.empty()) return 0;
    const std::uint64_t entry = kernels::weight_bytes(encoding, parameters_[0].out, 1).total();
    return std::min(Layer::weight_bytes_touched(encoding, rows), rows * in() * entry);
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.embedding({args.weights.matrix(0), args.x, args.y, entries()});
    if (scale_ != 1.0f) stream.scale({scale_, args.y, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.gradients.data) {
      if (scale_ != 1.0f) stream.scale({scale_, args.dy, args.dy});
      const std::size_t features = out_shape().back();
      const kernels::Panels table = owner_.empty() ? kernels::Panels{args.gradients[0], features, vocabulary_}
                                                   : kernels::Panels{args.gradients[0], vocabulary_, features};
      stream.embedding_backward({args.x, args.dy, padding_, table, entries()});
    }
    if (args.dx.data) stream.fill({0.0f, args.dx});
  }

 private:
  kernels::TableEntries entries() const noexcept {
    return owner_.empty() ? kernels::TableEntries::columns : kernels::TableEntries::rows;
  }

  std::size_t vocabulary_, padding_;
  float scale_;
  std::vector<ParameterSpec> parameters_;
  std::vector<Coord> owner_;  // of the table; none: its own
  std::vector<WeightSlot> slots_;
};

/// The place that `weight` names, and that a table of this size is there. None: no such option.
Result<std::optional<Coord>> read_owner(OptionReader& options, std::size_t vocabulary, std::size_t features) {
  WEFT_TRY(const auto place, options.integers("weight", 4, std::vector<std::size_t>()));
  if (place.empty()) return std::optional<Coord>();
  const std::string object = options.object() + ".weight: ";
  const auto axis = [&](std::size_t i) { return static_cast<std::uint32_t>(place[i]); };
  const Coord at{axis(0), axis(1), axis(2), axis(3)};
  if (!options.context().find_tied) return fail(Errc::unsupported, object + "there is no grid to find it in");
  auto owner = options.context().find_tied(at);
  if (!owner) return fail(std::move(owner).error().within(options.object() + ".weight"));
  if (!(*owner)->tied_to().empty())
    return fail(Errc::unsupported, object + "the layer at " + to_string(at) + " computes with shared weights itself");
  const ParameterSpec& table = (*owner)->parameters()[0];
  if (table.out != vocabulary || table.in != features)
    return fail(Errc::shape_mismatch, object + "the layer at " + to_string(at) + " has '" + table.name + "' [" +
                                          std::to_string(table.out) + ", " + std::to_string(table.in) +
                                          "], the table is [" + std::to_string(vocabulary) + ", " +
                                          std::to_string(features) + "]");
  return std::optional(at);
}

}  // namespace

LayerDeclaration declare_embedding() {
  return {
      "1 | tokens",
      "out | tokens, out",
      {option::out(option::needed(), "values", "width of an entry"),
       option::whole("vocabulary", option::needed(), 1, 16777216, "entries", "of the table"),
       option::whole("padding_index", option::none(), 0, 16777215, "-",
                     "an entry that starts as zeros and gets no gradient; below vocabulary"),
       option::wholes("weight", option::none(), 0, 4294967295.0, 4, 4, "-",
                      "place [z, y, x, layer] of a layer, such as a dense one, whose first matrix has the entries as "
                      "rows, and is the table; a layer that comes later and reads this one wants 'shape' stated here"),
       option::number("scale", 1, 1e-6, 1e6, "-", "factor of the entries"),
       option::init("normal", "how the table begins, with a fan-in of 1")}};
}

Result<std::unique_ptr<Layer>> make_embedding(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  if (in.size() != 1)
    return fail(Errc::shape_mismatch, object + ": embedding takes a row of indices, not " + weft::to_string(in));
  // Floats count up to 2^24.
  WEFT_TRY(const std::size_t vocabulary, options.integer("vocabulary"));
  WEFT_TRY(const std::size_t padding, options.integer("padding_index", kernels::kNoColumn));
  if (padding != kernels::kNoColumn && padding >= vocabulary)
    return fail(Errc::out_of_range, object + ".padding_index: " + std::to_string(padding) + " is outside [0, " +
                                        std::to_string(vocabulary - 1) + "], the table's entries");
  WEFT_TRY(const std::string kind, options.text("init"));
  WEFT_TRY(Initializer fill, make_initializer(kind, 1, out, object));
  WEFT_TRY(const double scale, options.number("scale"));
  WEFT_TRY(const std::optional<Coord> owner, read_owner(options, vocabulary, out));
  const Shape shape = in.front() == 1 ? Shape{out} : Shape{in.front(), out};
  if (owner)
    return std::unique_ptr<Layer>(new Embedding(in, shape, vocabulary, padding, static_cast<float>(scale), *owner));
  Initializer init = [fill = std::move(fill), vocabulary, padding](RandomStream& random, std::span<float> values) {
    fill(random, values);
    for (std::size_t k = padding; k < values.size(); k += vocabulary) values[k] = 0.0f;
  };
  return std::unique_ptr<Layer>(
      new Embedding(in, shape, vocabulary, padding, static_cast<float>(scale), std::move(init)));
}

}  // namespace weft::mesh
