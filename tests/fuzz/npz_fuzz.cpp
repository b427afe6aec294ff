// SPDX-License-Identifier: Apache-2.0

#include "formats/npy/npy.hpp"
#include "formats/npy/npz.hpp"

#include "core/assert.hpp"

#include <cstddef>
#include <cstdint>

namespace {

void read_values(weft::ByteSpan bytes) {
  const auto array = weft::formats::NpyArray::open(bytes, "fuzz");
  if (!array || array->size() == 0) return;
  WEFT_ASSERT(array->size() * 4 <= bytes.size(), "values that the file has not");
  volatile double last = array->value(array->size() - 1) + array->value(0);
  (void)last;
}

}  // namespace

/// An archive, each of its members as an array; or an array alone.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  read_values(bytes);
  const auto file = formats::NpzFile::open(bytes, "fuzz");
  if (!file) return 0;
  constexpr std::size_t kMost = std::size_t{1} << 22;
  for (const std::string& name : file->names()) {
    const auto member = file->member(name, kMost);
    if (!member) continue;
    WEFT_ASSERT(member->size() <= kMost, "a member past its limit");
    read_values(*member);
  }
  return 0;
}
