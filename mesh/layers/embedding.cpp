// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/embedding.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/embedding.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

class Embedding final : public Layer {
 public:
  Embedding(const Shape& in, const Shape& out, std::size_t vocabulary, std::size_t padding, Initializer init)
      : Layer(in, out), padding_(padding) {
    parameters_.push_back({"table", out.back(), vocabulary, true, std::move(init)});
  }

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t vocabulary_size() const noexcept override { return parameters_[0].in; }

  /// Of each token's entry, and no more than there is.
  std::uint64_t weight_bytes_touched(const Encoding& encoding, std::size_t rows) const noexcept override {
    const std::uint64_t entry = kernels::weight_bytes(encoding, parameters_[0].out, 1).total();
    return std::min(Layer::weight_bytes_touched(encoding, rows), rows * in() * entry);
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.embedding({args.weights.matrix(0), args.x, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.gradients.data)
      stream.embedding_backward(
          {args.x, args.dy, padding_, {args.gradients[0], parameters_[0].out, parameters_[0].in}});
    if (args.dx.data) stream.fill({0.0f, args.dx});
  }

 private:
  std::size_t padding_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

LayerDeclaration declare_embedding() {
  return {"1 | tokens",
          "out | tokens, out",
          {option::out(option::needed(), "values", "width of an entry"),
           option::whole("vocabulary", option::needed(), 1, 16777216, "entries", "of the table"),
           option::whole("padding_index", option::none(), 0, 16777215, "-",
                         "an entry that starts as zeros and gets no gradient; below vocabulary"),
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
  Initializer init = [fill = std::move(fill), vocabulary, padding](RandomStream& random, std::span<float> values) {
    fill(random, values);
    for (std::size_t k = padding; k < values.size(); k += vocabulary) values[k] = 0.0f;
  };
  const Shape shape = in.front() == 1 ? Shape{out} : Shape{in.front(), out};
  return std::unique_ptr<Layer>(new Embedding(in, shape, vocabulary, padding, std::move(init)));
}

}  // namespace weft::mesh
