// SPDX-License-Identifier: Apache-2.0

#include "formats/idx/idx.hpp"

#include "core/assert.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const auto array = formats::IdxArray::open({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!array) return 0;
  WEFT_ASSERT(formats::is_idx({reinterpret_cast<const std::byte*>(data), size}), "an array that is none");
  const std::size_t values = array->rows() * array->width();
  WEFT_ASSERT(values > 0 && values <= size, "values that the file has not");
  volatile float last = array->value(values - 1) + array->value(0);
  (void)last;
  return 0;
}
