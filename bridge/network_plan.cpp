// SPDX-License-Identifier: Apache-2.0

#include "bridge/network_plan.hpp"

#include "bridge/internal/layer_kinds.hpp"

namespace weft::bridge {
namespace {

using internal::PlanWriter;

constexpr std::size_t kMostLayers = 4096;

std::string network_name(const Fields& payload, Bedrock bedrock) {
  const auto model = payload.text("model_id");
  return model && is_path_name(*model) ? *model : std::string(name(bedrock));
}

/// A size that stands at the top of the payload, or else in its first layer.
Result<std::size_t> top_extent(const Fields& payload, std::string_view key, const Fields& first,
                               std::string_view first_key) {
  WEFT_TRY(const std::size_t stated, payload.whole(key, 0));
  if (stated != 0) return stated;
  return first.extent(first_key);
}

/// Tokens of a sample: seq_len of the payload, else of its first layer; of layernorm 4 where neither says it.
Result<std::size_t> token_count(Bedrock bedrock, const Fields& payload, const Fields& first) {
  WEFT_TRY(const std::size_t stated, payload.whole("seq_len", 0));
  if (stated != 0) return stated;
  WEFT_TRY(const std::size_t of_first, first.whole("seq_len", 0));
  if (of_first != 0) return of_first;
  if (bedrock == Bedrock::layernorm) return std::size_t{4};
  return payload.extent("seq_len");
}

Result<Shape> image_shape(const Fields& payload, const Fields& first,
                          std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  Shape shape;
  for (const auto& [key, first_key] : fields) {
    WEFT_TRY(const std::size_t extent, top_extent(payload, key, first, first_key));
    shape.push_back(extent);
  }
  return shape;
}

/// Shape of a sample, and its tokens; 0: it is none of tokens.
Result<std::pair<Shape, std::size_t>> sample_shape(Bedrock bedrock, const Fields& payload, const Fields& first) {
  using Pair = std::pair<Shape, std::size_t>;
  if (bedrock == Bedrock::dense) {
    WEFT_TRY(const std::size_t width, top_extent(payload, "input_dim", first, "input_dim"));
    return Pair{{width}, 0};
  }
  if (bedrock == Bedrock::cnn1) {
    WEFT_TRY(Shape shape,
             image_shape(payload, first, {{"input_channels", "in_channels"}, {"seq_len", "input_length"}}));
    return Pair{std::move(shape), 0};
  }
  if (bedrock == Bedrock::cnn2) {
    WEFT_TRY(Shape shape,
             image_shape(payload, first,
                         {{"input_channels", "in_channels"}, {"height", "input_height"}, {"width", "input_width"}}));
    return Pair{std::move(shape), 0};
  }
  if (bedrock == Bedrock::cnn3) {
    WEFT_TRY(Shape shape, image_shape(payload, first,
                                      {{"input_channels", "in_channels"},
                                       {"depth", "input_depth"},
                                       {"height", "input_height"},
                                       {"width", "input_width"}}));
    return Pair{std::move(shape), 0};
  }
  WEFT_TRY(const std::size_t tokens, token_count(bedrock, payload, first));
  if (bedrock == Bedrock::embedding) return Pair{{tokens}, tokens};
  const std::string_view field = internal::token_width_field(bedrock);
  WEFT_TRY(const std::size_t width, top_extent(payload, field, first, field));
  return Pair{{tokens, width}, tokens};
}

Result<NetworkPlan> plan_residual(const Fields& payload, const Json& layers) {
  const Fields first(layers[0], "layer 0");
  WEFT_CHECK(internal::check_index_and_kind(first, 0, Bedrock::residual));
  WEFT_TRY(auto sample, sample_shape(Bedrock::residual, payload, first));
  WEFT_TRY(const std::size_t dim, first.whole("dim", sample.first.back()));
  if (dim != sample.first.back())
    return first.failure(Errc::shape_mismatch, "dim is " + std::to_string(dim) + ", but the payload says " +
                                                   std::to_string(sample.first.back()));
  WEFT_TRY(const std::size_t output_dim, payload.whole("output_dim", 0));
  PlanWriter writer(Bedrock::residual, network_name(payload, Bedrock::residual), 1, false);
  writer.add_port("main", sample.first);
  writer.add_port("skip", sample.first);
  writer.read_port(0);
  WEFT_CHECK(writer.place_sum(first, mesh::Source("main"), mesh::Source("skip"), sample.first));
  NetworkPlan plan = std::move(writer).finish(output_dim);
  plan.layer_count = layers.size();
  return plan;
}

Result<NetworkPlan> plan_chain(Bedrock bedrock, const Fields& payload, const Json& layers) {
  const Fields first(layers[0], "layer 0");
  WEFT_CHECK(internal::check_index_and_kind(first, 0, bedrock));
  WEFT_TRY(auto sample, sample_shape(bedrock, payload, first));
  WEFT_TRY(const std::size_t output_dim, payload.whole("output_dim", 0));
  PlanWriter writer(bedrock, network_name(payload, bedrock), layers.size(), false);
  writer.add_port("in", sample.first);
  writer.read_port(0);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Fields layer(layers[i], "layer " + std::to_string(i));
    WEFT_CHECK(internal::check_index_and_kind(layer, i, bedrock));
    WEFT_CHECK(internal::place_of(bedrock)(writer, layer, sample.second));
  }
  NetworkPlan plan = std::move(writer).finish(output_dim);
  plan.layer_count = layers.size();
  plan.centres_rows = bedrock == Bedrock::layernorm;
  return plan;
}

}  // namespace

Result<NetworkPlan> plan_network(Bedrock bedrock, const Json& payload) {
  const Fields fields(payload, "");
  const Json* const layers = fields.find("layers");
  if (!layers || !layers->is_array() || layers->empty())
    return fail(Errc::parse_failed, "layers is missing or empty, expected a list of layers");
  if (layers->size() > kMostLayers)
    return fail(Errc::too_large,
                "layers has " + std::to_string(layers->size()) + ", expected at most " + std::to_string(kMostLayers));
  for (std::size_t i = 0; i < layers->size(); ++i)
    if (!(*layers)[i].is_object()) return fail(Errc::parse_failed, "layer " + std::to_string(i) + " is no object");
  if (bedrock == Bedrock::residual) return plan_residual(fields, *layers);
  if (bedrock == Bedrock::mixer) return internal::plan_mixer(fields, *layers);
  return plan_chain(bedrock, fields, *layers);
}

}  // namespace weft::bridge
