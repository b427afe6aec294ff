// SPDX-License-Identifier: Apache-2.0

#include "mesh/loom/loom_network.hpp"
#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "formats/loom/loom_entity.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

using namespace weft;

constexpr double kMostWork = 1e5;

/// An imported model is a network like any other: it can be built, and takes its weights.
void check(const mesh::ImportedEntity& imported) {
  const auto graph = mesh::Graph::build(imported.spec);
  if (!graph) return;  // shapes that no layer takes
  double work = 0;
  for (const mesh::Node& node : graph->nodes())
    work += static_cast<double>(node.width) + (node.layer ? node.layer->multiply_adds() : 0.0);
  if (work > kMostWork) return;
  auto built = mesh::Mesh::build(imported.spec, {.executor = mesh::ExecutorKind::deterministic});
  if (!built) return;  // what memory it wants is checked there
  const Status restored = mesh::restore_weights(*built, imported.file);
  WEFT_ASSERT(restored.has_value(), "weights that were imported and do not fit: " + restored.error().text());
  const auto again = mesh::network_of(imported.file);
  WEFT_ASSERT(again.has_value(), "a network that was imported and cannot be read: " + again.error().text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteBuffer bytes(size);
  if (size) std::memcpy(bytes.data(), data, size);
  const auto file = formats::decode_loom_entity(storage::MappedFile(std::move(bytes)), "fuzz");
  if (!file) {
    WEFT_ASSERT(file.error().text().starts_with("fuzz: "), "an error that does not name the file");
    return 0;
  }
  for (const formats::LoomBlob& blob : file->blobs()) {
    const std::size_t count =
        blob.bytes.size() * 8 / static_cast<std::size_t>(bits(blob.is_native ? blob.dtype : Dtype::float32));
    if (const auto values = formats::decode_weights_v1(blob, count))
      WEFT_ASSERT(std::all_of(values->begin(), values->end(), [](float v) { return std::isfinite(v); }),
                  "a weight that is not finite");
  }
  if (const auto imported = mesh::import_loom_entity(*file)) check(*imported);
  return 0;
}
