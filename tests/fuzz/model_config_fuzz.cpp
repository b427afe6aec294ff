// SPDX-License-Identifier: Apache-2.0

#include "models/decoder_network.hpp"
#include "models/import.hpp"

#include "mesh/network/graph.hpp"

#include "core/assert.hpp"

#include <cstdint>
#include <string_view>

// A model's description is refused with a reason, or gives a network that can be built, each of whose parts has its
// place.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::models;
  auto json = parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!json || !json->is_object()) return 0;
  const Json* const type = json->find("model_type");
  ModelFiles files;
  files.path = "fuzz";
  files.family = type && type->is_string() ? find_family(type->text()) : nullptr;
  if (!files.family) return 0;
  files.config = *std::move(json);
  const auto decoder = describe_decoder(files);
  if (!decoder) {
    WEFT_ASSERT(decoder.error().text().starts_with("fuzz"), "a refusal that does not name the model");
    return 0;
  }
  WEFT_ASSERT(decoder->blocks <= kMostBlocks, "more blocks than a network should have");
  if (decoder->blocks > 4) return 0;
  const DecoderNetwork network = decoder_network(*decoder, "fuzz", 1);
  const auto graph = mesh::Graph::build(network.spec);
  if (!graph) {
    WEFT_ASSERT(!graph.error().text().empty(), "a refusal without words");
    return 0;
  }
  std::size_t parameters = 0;
  for (const mesh::Node& node : graph->nodes())
    if (!node.is_port()) parameters += node.layer->parameters().size();
  WEFT_ASSERT(parameters >= network.places.size(), "a part without a parameter");
  return 0;
}
