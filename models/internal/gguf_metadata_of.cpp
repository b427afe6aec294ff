// SPDX-License-Identifier: Apache-2.0

#include "models/internal/gguf_metadata_of.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace weft::models::internal {
namespace {

/// Windows of blocks as a reader takes them to be that finds the widest alone.
std::vector<std::size_t> usual_windows(const Family& family, std::size_t window, std::size_t blocks) {
  const bool has_one = family.gguf == "llama" || family.gguf == "phi3" || family.gguf == "gemma2";
  std::vector<std::size_t> windows(blocks, has_one ? window : 0);
  for (std::size_t i = 1; i < blocks && family.gguf == "gemma2"; i += 2) windows[i] = 0;
  return windows;
}

/// The period of windows as llama.cpp's gemma2 reads it, whose last block sees everything; nothing where there is none.
std::optional<std::uint32_t> period_of(const std::vector<std::size_t>& windows) {
  const auto has_period = [&](std::size_t period) {
    for (std::size_t i = 0; i < windows.size(); ++i)
      if ((windows[i] != 0) != (period == 0 || i % period < period - 1)) return false;
    return true;
  };
  for (std::size_t period = 0; period <= windows.size(); ++period)
    if (has_period(period)) return static_cast<std::uint32_t>(period);
  return std::nullopt;
}

}  // namespace

formats::GgufMetadata gguf_metadata_of(const Family& family, const Decoder& decoder, const std::string& name) {
  formats::GgufMetadata to;
  const std::string prefix = std::string(family.gguf) + ".";
  const auto count = [&](const char* key, std::size_t value) {
    to.set(prefix + key, static_cast<std::uint32_t>(value));
  };
  const auto real = [&](const char* key, double value) { to.set(prefix + key, static_cast<float>(value)); };
  to.set("general.architecture", std::string(family.gguf));
  to.set("general.name", name);
  count("vocab_size", decoder.vocabulary);
  count("context_length", decoder.context);
  count("embedding_length", decoder.width);
  count("block_count", decoder.blocks);
  count("feed_forward_length", decoder.hidden);
  count("attention.head_count", decoder.heads);
  count("attention.head_count_kv", decoder.kv_heads);
  real(decoder.has_layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", decoder.epsilon);
  if (decoder.head_dim * decoder.heads != decoder.width) {
    count("attention.key_length", decoder.head_dim);
    count("attention.value_length", decoder.head_dim);
  }
  const auto& windows = decoder.windows;
  const std::size_t window = windows.empty() ? 0 : *std::max_element(windows.begin(), windows.end());
  if (window != 0 || family.gguf == "phi3") count("attention.sliding_window", window);
  if (window != 0 && windows != usual_windows(family, window, decoder.blocks)) {
    const std::string pattern = prefix + "attention.sliding_window_pattern";
    std::vector<bool> slides;
    for (const std::size_t each : windows) slides.push_back(each != 0);
    if (const auto period = family.gguf == "gemma2" ? period_of(windows) : std::nullopt)
      to.set(pattern, *period);
    else
      to.set(pattern, formats::GgufArray(std::move(slides)));
  }
  if (decoder.score_cap != 0) real("attn_logit_softcapping", decoder.score_cap);
  if (decoder.logit_cap != 0) real("final_logit_softcapping", decoder.logit_cap);
  return to;
}

}  // namespace weft::models::internal
