// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/safetensors.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace {

using namespace weft;
using namespace weft::formats;

ByteBuffer copied_bytes(ByteSpan bytes) {
  ByteBuffer copied(bytes.size());
  if (!bytes.empty()) std::memcpy(copied.data(), bytes.data(), bytes.size());
  return copied;
}

ByteBuffer encode_safetensors(const SafetensorsFile& file) {
  const auto source = safetensors_source(file.tensors(), file.notes());
  WEFT_ASSERT(source.has_value(), "what was read cannot be written: " + source.error().text());
  return *collect(*source);
}

/// A file that is read is written again, and that is read as the same and written to the same bytes.
void check(ByteBuffer bytes) {
  const auto file = decode_safetensors(storage::MappedFile(std::move(bytes)), "fuzz");
  if (!file) return;
  for (const Tensor& tensor : file->tensors()) {
    volatile std::byte sink{};
    for (const std::byte b : tensor.bytes) sink = b;  // a sanitizer sees bytes outside the file
    (void)sink;
    WEFT_ASSERT(file->find(tensor.name).has_value(), "a tensor that cannot be found");
  }
  const ByteBuffer saved = encode_safetensors(*file);
  const auto again = decode_safetensors(storage::MappedFile(copied_bytes(saved)), "again");
  WEFT_ASSERT(again.has_value(), "what was written cannot be read: " + again.error().text());
  WEFT_ASSERT(again->notes() == file->notes() && again->tensors().size() == file->tensors().size(), "a file changed");
  for (const Tensor& tensor : file->tensors()) {
    const auto found = again->find(tensor.name);
    WEFT_ASSERT(found.has_value() && found->type == tensor.type && found->shape == tensor.shape &&
                    std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()),
                "a tensor changed by saving");
  }
  const ByteBuffer twice = encode_safetensors(*again);
  WEFT_ASSERT(std::equal(saved.begin(), saved.end(), twice.begin(), twice.end()), "two savings differ");
}

/// "header \0 data" with the length that fits, so that mutations pass beyond it.
void check_sealed(ByteSpan body) {
  const auto nul = std::find(body.begin(), body.end(), std::byte{0});
  const std::uint64_t length = static_cast<std::uint64_t>(nul - body.begin());
  const std::size_t rest = nul == body.end() ? 0 : body.size() - length - 1;
  ByteBuffer bytes(8 + length + rest);
  std::memcpy(bytes.data(), &length, 8);
  if (length) std::memcpy(bytes.data() + 8, body.data(), length);
  if (rest) std::memcpy(bytes.data() + 8 + length, body.data() + length + 1, rest);
  check(std::move(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  check(copied_bytes(bytes));
  check_sealed(bytes);
  return 0;
}
