// SPDX-License-Identifier: Apache-2.0

#include "bridge/bedrock.hpp"

#include <algorithm>

namespace weft::bridge {
namespace {

constexpr std::array<std::string_view, kBedrocks> kBedrockNames{
    "dense",     "cnn1",      "cnn2",    "cnn3",   "mha",      "lstm", "rnn",
    "layernorm", "embedding", "rmsnorm", "swiglu", "residual", "mixer"};

constexpr std::array<Bedrock, kBedrocks> made_bedrocks() {
  std::array<Bedrock, kBedrocks> all{};
  for (std::size_t i = 0; i < kBedrocks; ++i) all[i] = static_cast<Bedrock>(i);
  return all;
}
constexpr std::array<Bedrock, kBedrocks> kAllBedrocks = made_bedrocks();

}  // namespace

std::string_view name(Bedrock bedrock) noexcept { return kBedrockNames[static_cast<std::size_t>(bedrock)]; }

std::optional<Bedrock> parse_bedrock(std::string_view text) noexcept {
  for (const Bedrock each : kAllBedrocks)
    if (name(each) == text) return each;
  return std::nullopt;
}

const std::array<Bedrock, kBedrocks>& all_bedrocks() noexcept { return kAllBedrocks; }

std::string shipped_fixture(Bedrock bedrock) {
  return std::string(name(bedrock)) + (bedrock == Bedrock::dense ? "_bedrock_v2" : "_bedrock_v1");
}

bool is_path_name(std::string_view text) noexcept {
  constexpr std::size_t kLongest = 128;
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !text.empty() && text.size() <= kLongest && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), is_fine);
}

}  // namespace weft::bridge
