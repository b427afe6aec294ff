// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/onnx_import.hpp"

#include "formats/onnx/onnx.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

using namespace weft;
using namespace weft::formats;

ByteBuffer owned_bytes(ByteSpan bytes) {
  ByteBuffer copied(bytes.size());
  if (!bytes.empty()) std::memcpy(copied.data(), bytes.data(), bytes.size());
  return copied;
}

/// Texts are read and never written.
bool has_texts(const OnnxGraph& graph) {
  const auto is_text = [](const Tensor& tensor) { return tensor.type == "STRING"; };
  if (std::any_of(graph.initializers.begin(), graph.initializers.end(), is_text)) return true;
  for (const OnnxNode& node : graph.nodes)
    for (const auto& [name, value] : node.attributes) {
      if (const auto* tensor = std::get_if<Tensor>(&value); tensor && is_text(*tensor)) return true;
      if (const auto* inner = std::get_if<std::shared_ptr<const OnnxGraph>>(&value); inner && has_texts(**inner))
        return true;
    }
  return false;
}

}  // namespace

// A file that is read is written again, and that is read as the same and written to the same bytes. Its graph becomes a
// network, or is refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file =
      decode_onnx(storage::MappedFile(owned_bytes({reinterpret_cast<const std::byte*>(data), size})), "fuzz");
  if (!file) return 0;
  for (const Tensor& tensor : file->tensors().tensors()) {
    volatile std::byte sink{};
    for (const std::byte b : tensor.bytes) sink = b;  // a sanitizer sees bytes outside the file
    (void)sink;
  }
  models::OnnxImportOptions options;
  options.max_memory = std::uint64_t{256} << 20;
  if (const auto imported = models::import_onnx(*file, "fuzz", options))
    if (imported->content.size() < (std::uint64_t{16} << 20)) (void)collect(imported->content);
  if (has_texts(file->model().graph)) return 0;
  const auto source = onnx_source(file->model());
  WEFT_ASSERT(source.has_value(), "what was read cannot be written: " + source.error().text());
  const auto saved = collect(*source);
  const auto again = decode_onnx(storage::MappedFile(owned_bytes(*saved)), "again");
  WEFT_ASSERT(again.has_value(), "what was written cannot be read: " + again.error().text());
  WEFT_ASSERT(again->tensors().tensors().size() == file->tensors().tensors().size(), "a file changed by saving");
  for (const Tensor& tensor : file->tensors().tensors()) {
    const auto found = again->tensors().describe(tensor.name);
    WEFT_ASSERT(found.has_value() && found->type == tensor.type && found->shape == tensor.shape &&
                    std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()),
                "a tensor changed by saving");
  }
  const auto twice = collect(*onnx_source(again->model()));
  WEFT_ASSERT(std::equal(saved->begin(), saved->end(), twice->begin(), twice->end()), "two savings differ");
  return 0;
}
