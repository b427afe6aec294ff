// SPDX-License-Identifier: Apache-2.0
// The two networks of many layer types that the client calls mixers.

#include "bridge/internal/layer_kinds.hpp"

#include <span>

namespace weft::bridge::internal {
namespace {

constexpr Bedrock kFirstMixer[] = {Bedrock::cnn3,  Bedrock::dense, Bedrock::cnn2, Bedrock::dense, Bedrock::cnn1,
                                   Bedrock::dense, Bedrock::mha,   Bedrock::rnn,  Bedrock::lstm,  Bedrock::dense};
constexpr Bedrock kSecondMixer[] = {Bedrock::cnn3,     Bedrock::dense,    Bedrock::cnn2,      Bedrock::dense,
                                    Bedrock::cnn1,     Bedrock::dense,    Bedrock::embedding, Bedrock::layernorm,
                                    Bedrock::mha,      Bedrock::residual, Bedrock::rmsnorm,   Bedrock::swiglu,
                                    Bedrock::residual, Bedrock::rnn,      Bedrock::lstm,      Bedrock::dense};
constexpr std::size_t kDefaultOutput = 8;
constexpr const char* kSecondMixerName = "mixer_all_v2";

/// Tokens that a layer finds in what stands before it: as many as fit its width.
Result<std::size_t> tokens_for(const PlanWriter& writer, const Fields& layer, std::string_view width_field) {
  WEFT_TRY(const std::size_t width, layer.extent(width_field));
  WEFT_TRY(const std::size_t there, volume(writer.present()));
  if (there % width == 0) return there / width;
  return layer.failure(Errc::shape_mismatch, std::string(width_field) + " is " + std::to_string(width) +
                                                 ", which does not divide the " + std::to_string(there) +
                                                 " values before it");
}

/// Places the layers of a mixer one after the other, and remembers what its additions read a second time.
class MixerPlan {
 public:
  MixerPlan(PlanWriter& writer, const Json& layers) : writer_(writer), layers_(layers) {}

  Status place(std::size_t index, Bedrock kind) {
    const Fields layer(layers_[index], "layer " + std::to_string(index));
    WEFT_CHECK(check_index_and_kind(layer, index, kind));
    if (kind == Bedrock::residual) return place_addition(layer);
    if (kind == Bedrock::embedding) return place_table(layer);
    std::size_t tokens = 0;
    if (const std::string_view field = token_width_field(kind); !field.empty()) {
      WEFT_TRY(tokens, tokens_for(writer_, layer, field));
    }
    WEFT_CHECK(place_of(kind)(writer_, layer, tokens));
    if (kind == Bedrock::layernorm || kind == Bedrock::rmsnorm) skip_ = writer_.last();
    return {};
  }

 private:
  /// Adds the output of the last norm to what stands before.
  Status place_addition(const Fields& layer) {
    const Shape shape = writer_.present();
    WEFT_TRY(const std::size_t dim, layer.whole("dim", shape.back()));
    if (dim != shape.back())
      return layer.failure(Errc::shape_mismatch, "dim is " + std::to_string(dim) + ", but it reads " + spelled(shape));
    return writer_.place_sum(layer, mesh::Source(writer_.last()), mesh::Source(skip_), shape);
  }
  /// The entries of the tokens replace the value: as many tokens as the value has places for.
  Status place_table(const Fields& layer) {
    WEFT_TRY(const std::size_t tokens, tokens_for(writer_, layer, "embedding_dim"));
    writer_.add_port("tokens", {tokens});
    writer_.read_port(1);
    WEFT_CHECK(place_embedding(writer_, layer, tokens));
    writer_.plan.tokens->port = 1;
    return {};
  }

  PlanWriter& writer_;
  const Json& layers_;
  Coord skip_;
};

}  // namespace

Result<NetworkPlan> plan_mixer(const Fields& payload, const Json& layers) {
  WEFT_TRY(const std::string model, payload.text("model_id"));
  const bool is_second = model == kSecondMixerName;
  const std::span<const Bedrock> kinds = is_second ? std::span<const Bedrock>(kSecondMixer) : kFirstMixer;
  if (layers.size() != kinds.size())
    return fail(Errc::shape_mismatch, "layers has " + std::to_string(layers.size()) + ", expected " +
                                          std::to_string(kinds.size()) + " of a mixer whose model_id is " +
                                          (is_second ? "" : "not ") + kSecondMixerName);
  WEFT_TRY(std::size_t output_dim, payload.whole("output_dim", kDefaultOutput));
  if (output_dim == 0) output_dim = kDefaultOutput;
  const Fields first(layers[0], "layer 0");
  Shape sample;
  for (const std::string_view field : {"in_channels", "input_depth", "input_height", "input_width"}) {
    WEFT_TRY(const std::size_t extent, first.extent(field));
    sample.push_back(extent);
  }
  PlanWriter writer(Bedrock::mixer, is_path_name(model) ? model : std::string(name(Bedrock::mixer)), layers.size(),
                    true);
  writer.add_port("in", std::move(sample));
  writer.read_port(0);
  MixerPlan mixer(writer, layers);
  for (std::size_t i = 0; i < kinds.size(); ++i) WEFT_CHECK(mixer.place(i, kinds[i]));
  NetworkPlan plan = std::move(writer).finish(0);
  plan.layer_count = layers.size();
  plan.output_dim = output_dim;
  return plan;
}

}  // namespace weft::bridge::internal
