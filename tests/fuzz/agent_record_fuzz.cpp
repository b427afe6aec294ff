// SPDX-License-Identifier: Apache-2.0

#include "agent/journal_record.hpp"

#include "core/assert.hpp"

#include <bit>
#include <cstdint>
#include <vector>

using namespace weft;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  return true;
}

/// A batch that was read is written and read again: nothing of it is lost.
void expect_batch_kept(const agent::LearnRecord& batch) {
  std::vector<mesh::RunInput> inputs;
  for (const auto& port : batch.inputs) inputs.push_back({port.name, port.values});
  std::vector<learning::Target> targets;
  for (const auto& target : batch.targets) targets.push_back({target.name, target.labels, target.values});
  agent::RecordBytes bytes;
  bytes.begin().put_learn(inputs, targets, batch.samples, batch.halted);
  const auto again = agent::read_record(static_cast<std::uint32_t>(agent::RecordKind::learn), bytes.bytes());
  WEFT_ASSERT(again, "a batch that was written cannot be read");
  const auto& read = std::get<agent::LearnRecord>(*again);
  WEFT_ASSERT(read.samples == batch.samples && read.halted == batch.halted, "a batch's numbers");
  WEFT_ASSERT(read.inputs.size() == inputs.size() && read.targets.size() == targets.size(), "a batch's parts");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    WEFT_ASSERT(read.inputs[i].name == batch.inputs[i].name && same_bits(read.inputs[i].values, batch.inputs[i].values),
                "a batch's input");
  for (std::size_t i = 0; i < targets.size(); ++i)
    WEFT_ASSERT(
        read.targets[i].labels == batch.targets[i].labels && same_bits(read.targets[i].values, batch.targets[i].values),
        "a batch's target");
}

}  // namespace

// The first byte is the record's kind, the rest its payload.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto record = agent::read_record(data[0], {reinterpret_cast<const std::byte*>(data + 1), size - 1});
  if (!record) return 0;
  WEFT_ASSERT(record->index() + 1 == data[0], "a record of another kind");
  if (const auto* const batch = std::get_if<agent::LearnRecord>(&*record)) expect_batch_kept(*batch);
  return 0;
}
