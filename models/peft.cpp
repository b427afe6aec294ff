// SPDX-License-Identifier: Apache-2.0

#include "models/peft.hpp"

#include "models/config_reader.hpp"
#include "models/tensor_values.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "storage/file_system.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace weft::models {
namespace {

constexpr std::string_view kAround = "base_model.model.";

/// "model.layers.0.self_attn.q_proj" and whether it is A, of the name of a tensor.
struct AdapterName {
  std::string module;
  bool is_a = false;
};
std::optional<AdapterName> adapter_name(std::string_view name) {
  if (name.starts_with(kAround)) name.remove_prefix(kAround.size());
  for (const bool is_a : {true, false}) {
    const std::string_view part = is_a ? ".lora_A." : ".lora_B.";
    const std::size_t at = name.rfind(part);
    // Adapters with names of their own have it before "weight".
    if (at == name.npos || !name.ends_with(".weight") || at + part.size() > name.size() - 6) continue;
    return AdapterName{std::string(name.substr(0, at)), is_a};
  }
  return std::nullopt;
}

/// Keys that make something else of an adapter.
constexpr std::array<std::array<std::string_view, 2>, 6> kOther{{
    {"use_dora", "adapters of magnitude and direction (DoRA) are not merged"},
    {"modules_to_save", "modules that are kept whole beside the adapters are not read"},
    {"rank_pattern", "ranks that differ by module are not read"},
    {"alpha_pattern", "scales that differ by module are not read"},
    {"trainable_token_indices", "tokens that are trained by themselves are not read"},
    {"lora_bias", "biases of adapters are not read"},
}};

}  // namespace

Result<LoraAdapters> LoraAdapters::open(storage::FileSystem& files, const std::string& folder) {
  const std::string name = folder + "/adapter_config.json";
  WEFT_TRY(const ByteBuffer bytes, files.read(name, std::size_t{16} << 20));
  WEFT_TRY(const Json json, parse_json(as_text(bytes), name));
  ConfigReader config(json, "adapter_config.json");
  if (const std::string type = config.text("peft_type", "LORA"); type != "LORA")
    config.refuse("peft_type", "'" + type + "'; expected LORA");
  if (const std::string bias = config.text("bias", "none"); bias != "none")
    config.refuse("bias", "'" + bias + "': biases that were trained are not read; expected none");
  for (const auto& [key, why] : kOther) {
    const Json* const found = json.is_object() ? json.find(key) : nullptr;
    if (found && (found->is_object() || found->is_array()) && found->empty()) continue;
    config.refuse_given(key, std::string(why));
  }
  const std::size_t rank = config.size("r", 8, 65536);
  const double alpha = config.number("lora_alpha", 8);
  const double divisor =
      config.flag("use_rslora", false) ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank);
  Problems& problems = config.problems();
  WEFT_TRY(const formats::SafetensorsFile file,
           formats::load_safetensors(files, folder + "/adapter_model.safetensors"));
  LoraAdapters made;
  for (const formats::Tensor& tensor : file.tensors()) {
    const auto part = adapter_name(tensor.name);
    if (!part || tensor.shape.size() != 2 || !has_values(tensor.type)) {
      problems.add("tensor '" + tensor.name + "' " + tensor.type + " " + to_string(tensor.shape) +
                   ": is no lora_A.weight or lora_B.weight of a matrix");
      continue;
    }
    if (tensor.shape[part->is_a ? 0 : 1] != rank)
      problems.add("tensor '" + tensor.name + "': " + to_string(tensor.shape) + ", r is " + std::to_string(rank));
    Pair& pair = made.pairs_[part->module + ".weight"];
    (part->is_a ? pair.a : pair.b) = tensor.name;
    (part->is_a ? pair.in : pair.out) = tensor.shape[part->is_a ? 1 : 0];
    pair.rank = rank;
    pair.scale = static_cast<float>(alpha / divisor);
  }
  for (const auto& [module, pair] : made.pairs_)
    if (pair.a.empty() || pair.b.empty()) problems.add("'" + module + "': has one of lora_A and lora_B");
  if (made.pairs_.empty() && problems.empty()) problems.add("adapter_model.safetensors has no adapters");
  if (!problems.empty()) return problems.failure(Errc::unsupported, folder);
  for (const formats::Tensor& tensor : file.tensors()) {
    WEFT_TRY(const formats::Tensor found, file.find(tensor.name));
    std::vector<float>& values = made.values_[tensor.name];
    values.resize(tensor.shape[0] * tensor.shape[1]);
    WEFT_CHECK(decode_values(found.type, found.bytes, values));
  }
  WEFT_CHECK(file.intact());
  return made;
}

Status LoraAdapters::add_to_row(const Pair& pair, std::size_t row, std::span<float> values) const {
  if (row >= pair.out || values.size() != pair.in)
    return fail(Errc::shape_mismatch, "adapter '" + pair.b + "': [" + std::to_string(pair.out) + ", " +
                                          std::to_string(pair.in) + "], wanted row " + std::to_string(row) + " of " +
                                          std::to_string(values.size()) + " values");
  const std::vector<float>&a = values_of(pair.a), &b = values_of(pair.b);
  for (std::size_t r = 0; r < pair.rank; ++r) {
    const float factor = pair.scale * b[row * pair.rank + r];
    for (std::size_t k = 0; k < pair.in; ++k) values[k] = std::fma(factor, a[r * pair.in + k], values[k]);
  }
  return {};
}

}  // namespace weft::models
