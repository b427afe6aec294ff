// SPDX-License-Identifier: Apache-2.0

#include "models/import.hpp"

#include "mesh/loom/loom_network.hpp"
#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "formats/loom/loom_blocks.hpp"
#include "formats/loom/loom_entity.hpp"
#include "storage/file_system.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

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

/// One file in memory.
class OneFile final : public storage::FileSystem {
 public:
  explicit OneFile(const ByteBuffer& bytes) : bytes_(bytes) {}
  Result<ByteBuffer> read(const std::string&, std::size_t) override { return ByteBuffer(bytes_); }
  Result<std::unique_ptr<storage::File>> open(const std::string& path, storage::OpenMode) override { return no(path); }
  Status rename(const std::string& from, const std::string&) override { return no(from); }
  Status sync_directory(const std::string& path) override { return no(path); }
  Result<bool> make_directory(const std::string& path) override { return no(path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return no(path); }
  Status remove(const std::string& path) override { return no(path); }
  Result<std::unique_ptr<storage::FileLock>> lock(const std::string& path) override { return no(path); }

 private:
  static Failure no(const std::string& path) { return fail(Errc::storage, path); }
  ByteBuffer bytes_;
};

/// A language model is imported whole, or refused with its name in front.
void check_model(const ByteBuffer& bytes) {
  OneFile files(bytes);
  const auto model = models::import_model(files, "fuzz", {.tokens = 1});
  if (!model) {
    WEFT_ASSERT(model.error().text().starts_with("fuzz"), "an error that does not name the file");
    return;
  }
  double work = 0;
  for (const mesh::Node& node : model->graph->nodes())
    work += static_cast<double>(node.width) + (node.layer ? node.layer->multiply_adds() : 0.0);
  if (work < kMostWork) (void)collect(model->content);  // a weight may be no number
}

/// Reads of packed weights stay within their bytes, whatever the count.
void check_packed(const formats::LoomBlob& blob) {
  unsigned sum = 0;
  for (const std::size_t count : {0, 1, 32, 64, 96})
    if (const auto blocks = formats::loom_blocks(blob, count))
      for (std::size_t i = 0; i < count; ++i) {
        WEFT_ASSERT(std::isfinite(blocks->scale(i / formats::LoomBlocks::kWeights)), "a scale that is not finite");
        sum += static_cast<unsigned>(blocks->number(i) + 8);
      }
  if (const auto matrix = formats::loom_ternary(blob))
    for (std::size_t r = 0; r < matrix->rows; ++r)
      for (std::size_t c = 0; c < matrix->cols; ++c) sum += matrix->code(r, c);
  volatile unsigned sink = sum;
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteBuffer bytes(size);
  if (size) std::memcpy(bytes.data(), data, size);
  if (formats::is_loom_entity(bytes)) check_model(bytes);
  const auto file = formats::decode_loom_entity(storage::MappedFile(std::move(bytes)), "fuzz");
  if (!file) {
    WEFT_ASSERT(file.error().text().starts_with("fuzz: "), "an error that does not name the file");
    return 0;
  }
  for (const formats::LoomBlob& blob : file->blobs()) {
    check_packed(blob);
    if (blob.form != formats::LoomBlob::Form::numbers) continue;
    const std::size_t count =
        blob.bytes.size() * 8 / static_cast<std::size_t>(bits(blob.is_native ? blob.dtype : Dtype::float32));
    if (const auto values = formats::decode_weights_v1(blob, count))
      WEFT_ASSERT(std::all_of(values->begin(), values->end(), [](float v) { return std::isfinite(v); }),
                  "a weight that is not finite");
  }
  const auto imported = mesh::import_loom_entity(*file);
  WEFT_ASSERT(!imported.has_value() || mesh::describe_loom_entity(*file).has_value(),
              "a file that is imported and cannot be described");
  if (imported) check(*imported);
  return 0;
}
