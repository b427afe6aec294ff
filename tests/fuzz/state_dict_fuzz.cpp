// SPDX-License-Identifier: Apache-2.0

#include "models/state_dict/network_weights.hpp"
#include "models/state_dict/state_dict_import.hpp"

#include "core/assert.hpp"
#include "core/bytes.hpp"

#include <cstdint>
#include <cstring>

// Weights become a chain of layers, or are refused. What is made is the same when it is made again, and when the
// weights are assigned to the chain as to a network that was there, where that is not refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  ByteBuffer bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  const auto file = formats::decode_safetensors(storage::MappedFile(std::move(bytes)), "fuzz");
  if (!file) return 0;
  models::StateDictOptions options;
  options.activation = "relu";
  options.heads = 2;
  options.max_memory = std::uint64_t{256} << 20;
  const auto imported = models::import_state_dict(*file, "fuzz", options);
  if (!imported || imported->content.size() > (std::uint64_t{16} << 20)) return 0;
  const auto once = collect(imported->content), twice = collect(imported->content);
  WEFT_ASSERT(once.has_value() == twice.has_value() && (!once || as_text(*once) == as_text(*twice)),
              "two readings of the same weights differ");
  const auto assigned = models::import_network_weights(*file, imported->graph->spec(), options);
  const auto again = assigned ? collect(assigned->content) : Result<ByteBuffer>(ByteBuffer());
  WEFT_ASSERT(!assigned || !once || (again && as_text(*once) == as_text(*again)), "the same weights go elsewhere");
  return 0;
}
