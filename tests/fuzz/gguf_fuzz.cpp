// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf.hpp"
#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/gguf_parts.hpp"
#include "storage/durable.hpp"

#include "core/assert.hpp"

#include "tests/support/memory_file_system.hpp"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using namespace weft;
using namespace weft::formats;

ByteBuffer copy_of(ByteSpan bytes) {
  ByteBuffer copied(bytes.size());
  if (!bytes.empty()) std::memcpy(copied.data(), bytes.data(), bytes.size());
  return copied;
}

ByteBuffer encode_gguf(const GgufFile& file) {
  const auto source = gguf_source(file.metadata(), file.tensors());
  WEFT_ASSERT(source.has_value(), "what was read cannot be written: " + source.error().text());
  return *collect(*source);
}

void check_same(const TensorFile& again, const TensorFile& was) {
  WEFT_ASSERT(again.tensors().size() == was.tensors().size(), "a file changed by saving");
  for (const Tensor& tensor : was.tensors()) {
    const auto found = again.find(tensor.name);
    WEFT_ASSERT(found.has_value() && found->type == tensor.type && found->shape == tensor.shape &&
                    std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()),
                "a tensor changed by saving");
  }
}

/// A part for each tensor, read as one model. The bytes themselves are another part of it, which must not crash.
void split(const GgufFile& file, ByteSpan bytes) {
  const auto parts = gguf_part_sources(file.metadata(), file.tensors(), 1);
  if (!parts || parts->size() == 1 || parts->size() > 8) return;
  storage::MemoryFileSystem files;
  const GgufPartName name{"m", 1, static_cast<std::uint32_t>(parts->size())};
  for (std::uint32_t i = 0; i < name.count; ++i)
    WEFT_ASSERT(storage::write_file_durably(files, name.path(i + 1), (*parts)[i]).has_value(), "memory is full");
  const auto model = load_gguf_model(files, name.path(name.count));
  WEFT_ASSERT(model.has_value(), "parts that were written cannot be read: " + model.error().text());
  check_same(*model->tensors, file);
  WEFT_ASSERT(storage::write_file_durably(files, name.path(2), ByteSource(bytes)).has_value(), "memory is full");
  (void)load_gguf_model(files, name.path(1));
  (void)load_gguf_model(files, name.path(2));
}

}  // namespace

// A file that is read is written again, and that is read as the same and written to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = decode_gguf(storage::MappedFile(copy_of({reinterpret_cast<const std::byte*>(data), size})), "fuzz");
  if (!file) return 0;
  for (const Tensor& tensor : file->tensors()) {
    volatile std::byte sink{};
    for (const std::byte b : tensor.bytes) sink = b;  // a sanitizer sees bytes outside the file
    (void)sink;
    const GgufType type = *find_gguf_type(tensor.type);
    if (type.elements == 1) continue;
    std::vector<float> values(tensor.bytes.size() / type.bytes * type.elements);
    (void)dequantize(type.name, tensor.bytes, values);
  }
  const ByteBuffer saved = encode_gguf(*file);
  const auto again = decode_gguf(storage::MappedFile(copy_of(saved)), "again");
  WEFT_ASSERT(again.has_value(), "what was written cannot be read: " + again.error().text());
  WEFT_ASSERT(again->metadata().size() == file->metadata().size(), "a file changed by saving");
  check_same(*again, *file);
  split(*file, saved);
  const ByteBuffer twice = encode_gguf(*again);
  WEFT_ASSERT(std::equal(saved.begin(), saved.end(), twice.begin(), twice.end()), "two savings differ");
  return 0;
}
