// SPDX-License-Identifier: Apache-2.0

#include "text/internal/named_splits.hpp"

#include <utility>

namespace weft::text {
namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr NamedSplit kSplits[] = {
    {"gpt-2", ""},
    {"smollm", "", true},
    {"qwen2", kQwen2, false, true},
    {"llama-bpe", kLlama3, false, false, true, true},
    {"gpt-4o", kGpt4o, false, false, true},
};

}  // namespace

std::span<const NamedSplit> named_splits() noexcept { return kSplits; }

Json pre_tokenizer_json(const NamedSplit& split) {
  Json steps = Json::array();
  if (split.digits_first) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (!split.expression.empty())
    steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", split.expression}}}, {"behavior", "Isolated"}});
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", split.expression.empty()}});
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

Json metaspace_normalizer_json(bool adds_space) {
  Json steps = Json::array();
  if (adds_space) steps.push_back({{"type", "Prepend"}, {"prepend", "\u2581"}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}});
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

Json metaspace_decoder_json(bool adds_space) {
  Json steps = Json::array();
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}});
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (adds_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

}  // namespace weft::text
