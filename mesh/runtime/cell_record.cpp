// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/cell_record.hpp"

#include "core/assert.hpp"

#include <cstring>

namespace weft::mesh {

void WordWriter::put(const Field&, Element, std::span<const std::byte> bytes) {
  to_.resize((size_ + bytes.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  if (!bytes.empty()) std::memcpy(reinterpret_cast<std::byte*>(to_.data()) + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

bool WordReader::get(const Field& field, Element, std::span<std::byte> to) {
  if (to.size() > left_.size()) {
    is_short_ = true;
    fail(field);
    return false;
  }
  if (!to.empty()) std::memcpy(to.data(), left_.data(), to.size());
  left_ = left_.subspan(to.size());
  return true;
}

CommandMessage copy_of(const Command& command) {
  std::vector<std::uint64_t> words;
  WordWriter writer(words);
  Command::visit(command, writer);
  auto made = std::make_shared<Command>();
  WordReader reader(words);
  Command::visit(*made, reader);
  WEFT_ASSERT(!reader.has_failed(), "a command takes back what it gave");
  return made;
}

}  // namespace weft::mesh
