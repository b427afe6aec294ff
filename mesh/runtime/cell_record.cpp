// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/cell_record.hpp"

#include "mesh/weights/layer_rates.hpp"

#include "core/assert.hpp"

#include <bit>
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

std::uint64_t CellRecord::rate_word(float rate) noexcept { return std::bit_cast<std::uint32_t>(rate); }

std::optional<float> CellRecord::read_rate(std::uint64_t word) noexcept {
  const auto rate = std::bit_cast<float>(static_cast<std::uint32_t>(word));
  return word <= UINT32_MAX && LayerRates::is_valid(rate) ? std::optional(rate) : std::nullopt;
}

void CellRecord::prepare(std::span<const std::size_t> sizes, bool has_mail) {
  observers.resize(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    observers[i].is_counted = sizes[i] == 0;
    observers[i].words.resize(sizes[i]);
  }
  takes_mail = has_mail;
  mail.clear();
}

namespace {

template <class Content>
std::shared_ptr<Content> copy_through_words(const Content& message, std::shared_ptr<Content> made) {
  std::vector<std::uint64_t> words;
  WordWriter writer(words);
  Content::visit(message, writer);
  WordReader reader(words);
  Content::visit(*made, reader);
  WEFT_ASSERT(!reader.has_failed(), "a message takes back what it gave");
  return made;
}

}  // namespace

CommandMessage copy_of(const Command& command) { return copy_through_words(command, std::make_shared<Command>()); }
MailPointer copy_of(const Mail& mail) { return copy_through_words(mail, std::make_shared<Mail>(mail.type)); }

}  // namespace weft::mesh
