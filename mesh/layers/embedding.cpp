// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/embedding.hpp"

#include "mesh/layers/init.hpp"

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

Result<std::unique_ptr<Layer>> make_embedding(const Shape& in, std::size_t out, OptionReader& options) {
  const std::string& object = options.object();
  if (in.size() != 1)
    return fail(Errc::shape_mismatch, object + ": embedding takes a row of indices, not " + weft::to_string(in));
  if (out == 0)
    return fail(Errc::parse_failed, object + ".out: an embedding needs the width of an entry, such as \"out\": 64");
  // Floats count up to 2^24.
  WEFT_TRY(const std::size_t vocabulary, options.integer("vocabulary", 0, 1, 16777216));
  if (vocabulary == 0)
    return fail(Errc::parse_failed,
                object + ".vocabulary: an embedding needs the number of its entries, such as \"vocabulary\": 256");
  WEFT_TRY(const std::size_t padding, options.integer("padding_index", kernels::kNoColumn, 0, vocabulary - 1));
  WEFT_TRY(const std::string kind, options.text("init", "normal"));
  WEFT_TRY(Initializer fill, make_initializer(kind, 1, out, object));
  Initializer init = [fill = std::move(fill), vocabulary, padding](RandomStream& random, std::span<float> values) {
    fill(random, values);
    for (std::size_t k = padding; k < values.size(); k += vocabulary) values[k] = 0.0f;
  };
  const Shape shape = in.front() == 1 ? Shape{out} : Shape{in.front(), out};
  return std::unique_ptr<Layer>(new Embedding(in, shape, vocabulary, padding, std::move(init)));
}

}  // namespace weft::mesh
