// SPDX-License-Identifier: Apache-2.0

#include "models/internal/gguf_rope.hpp"

#include <cmath>
#include <cstdint>
#include <span>

namespace weft::models::internal {
namespace {

class RopeWriter {
 public:
  RopeWriter(const Family& family, const DecoderRope& rope, formats::GgufMetadata& to)
      : family_(family), rope_(rope), scaling_(rope.scaling), to_(to) {}

  GgufRope write() && {
    if (rope_.dims == 0) return {};
    to_.set(key("dimension_count"), static_cast<std::uint32_t>(rope_.dims));
    real("freq_base", rope_.theta);
    if (scaling_.type == "longrope")
      write_longrope();
    else if (scaling_.type == "linear")
      write_named(rope_.gain);
    else if (!write_yarn())
      write_divisors();
    return std::move(made_);
  }

 private:
  std::string key(const char* name) const { return std::string(family_.gguf) + ".rope." + name; }
  void real(const char* name, double value) { to_.set(key(name), static_cast<float>(value)); }
  void tensor(const char* name, std::span<const double> values) {
    made_.tensors.emplace_back(name, std::vector<float>(values.begin(), values.end()));
  }
  void note(const std::string& what) {
    made_.notes.push_back("llama.cpp does not read " + what + " of architecture " + std::string(family_.gguf) +
                          "; Weft does");
  }
  bool is_llama() const { return family_.gguf == "llama"; }

  void write_named(double factor) {
    to_.set(key("scaling.type"), scaling_.type);
    real("scaling.factor", scaling_.factor);
    if (factor != 1) real("scaling.attn_factor", factor);
  }

  void write_longrope() {
    to_.set(key("scaling.type"), scaling_.type);
    to_.set(key("scaling.original_context_length"), static_cast<std::uint32_t>(scaling_.original));
    real("scaling.attn_factor", rope_.gain);
    tensor("rope_factors_long.weight", scaling_.long_factors);
    tensor("rope_factors_short.weight", scaling_.short_factors);
    if (!is_llama() && family_.gguf != "phi3") note("factors of longrope");
  }

  float yarn_gain(float factor) const {
    const double own = scaling_.factor <= 1 ? 1 : 0.1 * std::log(scaling_.factor) + 1;
    return static_cast<float>(factor * own);
  }
  /// The factor of float32 that makes the gain out of yarn's own, or the nearest to that.
  float yarn_factor() const {
    const auto gain = static_cast<float>(rope_.gain), near = static_cast<float>(rope_.gain / yarn_gain(1));
    for (const float factor : {1.0f, near, std::nextafter(near, 0.0f), std::nextafter(near, INFINITY)})
      if (yarn_gain(factor) == gain) return factor;
    return near;
  }

  bool write_yarn() {
    if (scaling_.type != "yarn" || !scaling_.is_whole) return false;
    const bool has_bounds = scaling_.beta_fast != 32 || scaling_.beta_slow != 1;
    const float factor = yarn_factor();
    const bool is_exact = yarn_gain(factor) == static_cast<float>(rope_.gain);
    // Divisors and a gain say the same, and llama.cpp reads them in this architecture.
    if (is_llama() && (has_bounds || !is_exact)) return false;
    write_named(static_cast<double>(factor));
    to_.set(key("scaling.original_context_length"), static_cast<std::uint32_t>(scaling_.original));
    if (!is_exact)
      made_.notes.push_back("attention_factor " + std::to_string(rope_.gain) +
                            " is rounded: a GGUF file has a factor of it in float32");
    if (!has_bounds) return true;
    real("scaling.yarn_beta_fast", scaling_.beta_fast);
    real("scaling.yarn_beta_slow", scaling_.beta_slow);
    note("yarn_beta_fast and yarn_beta_slow");
    return true;
  }

  void write_divisors() {
    if (rope_.gain != 1) real("scaling.attn_factor", rope_.gain);
    if (rope_.divisors.empty()) return;
    tensor("rope_freqs.weight", rope_.divisors);
    if (!is_llama()) note("rope_freqs.weight");
  }

  const Family& family_;
  const DecoderRope& rope_;
  const DecoderRope::Scaling& scaling_;
  formats::GgufMetadata& to_;
  GgufRope made_;
};

}  // namespace

GgufRope gguf_rope_of(const Family& family, const DecoderRope& rope, formats::GgufMetadata& to) {
  return RopeWriter(family, rope, to).write();
}

}  // namespace weft::models::internal
