// SPDX-License-Identifier: Apache-2.0

#include "models/peft_export.hpp"

#include "models/internal/described_model.hpp"
#include "models/internal/low_rank.hpp"
#include "models/internal/written_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <cstdio>
#include <list>
#include <set>
#include <string_view>
#include <utility>

namespace weft::models {
namespace {

using internal::DescribedModel;
using internal::PlannedTensor;

/// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string module_name(const std::string& tensor) {
  const std::string module = tensor.substr(0, tensor.rfind('.'));
  return module.substr(module.rfind('.') + 1);
}

/// A matrix [out, in] in the other order of its axes.
std::vector<float> turned(const std::vector<float>& values, std::size_t rows, std::size_t columns) {
  std::vector<float> made(values.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) made[j * rows + i] = values[i * columns + j];
  return made;
}

/// A matrix that has an adapter.
struct Moved {
  const PlannedTensor* tensor = nullptr;
  std::vector<float> difference;
};

class AdapterWriter {
 public:
  AdapterWriter(DescribedModel was, DescribedModel is, std::size_t rank)
      : was_(std::move(was)), is_(std::move(is)), rank_(rank) {}

  Status make() {
    WEFT_TRY(planned_, internal::plan_tensors(was_, false));
    WEFT_TRY(const std::vector<PlannedTensor> now, internal::plan_tensors(is_, false));
    std::set<std::string> targets, others;
    std::list<Moved> matrices;
    for (std::size_t i = 0; i < planned_.size(); ++i) {
      std::vector<float> difference = internal::values_of(*is_.mesh, now[i]);
      const std::vector<float> before = internal::values_of(*was_.mesh, planned_[i]);
      for (std::size_t k = 0; k < before.size(); ++k) difference[k] -= before[k];
      const bool has_moved = std::any_of(difference.begin(), difference.end(), [](float value) { return value != 0; });
      const std::string name = module_name(planned_[i].name);
      const bool is_adaptable = planned_[i].is_matrix() && name != "embed_tokens" && name != "wte" && name != "wpe";
      if (has_moved && !is_adaptable) others.insert(planned_[i].name);
      if (has_moved && is_adaptable) targets.insert(name);
      if (is_adaptable) matrices.push_back({&planned_[i], std::move(difference)});
    }
    if (targets.empty())
      return fail(Errc::unsupported, "no matrix of a layer differs from the model's, so there is nothing to adapt");
    for (const Moved& moved : matrices)
      if (targets.contains(module_name(moved.tensor->name))) add(moved);
    describe(targets);
    if (!others.empty()) {
      std::string names;
      for (const std::string& name : others) names += (names.empty() ? "" : ", ") + name;
      notes.push_back("moved too, and are in no adapter: " + names);
    }
    char left[32];
    std::snprintf(left, sizeof left, "%.2g", largest_left_);
    notes.push_back("of the differences, at most " + std::string(left) + " of one (" + worst_ + ") is lost at rank " +
                    std::to_string(rank_));
    return {};
  }

  Json config;
  std::vector<formats::Tensor> tensors;
  std::vector<std::string> notes;

 private:
  void add(const Moved& moved) {
    const PlannedTensor& tensor = *moved.tensor;
    const bool is_turned = tensor.slices.front().layout.is_transposed;
    const std::size_t out = tensor.shape[is_turned ? 1 : 0], in = tensor.shape[is_turned ? 0 : 1];
    internal::LowRank& parts = held_.emplace_back(
        internal::low_rank(is_turned ? turned(moved.difference, in, out) : moved.difference, out, in, rank_));
    const std::string module = "base_model.model." + tensor.name.substr(0, tensor.name.rfind('.'));
    tensors.push_back(formats::make_tensor<float>(module + ".lora_A.weight", {rank_, in}, parts.a));
    tensors.push_back(formats::make_tensor<float>(module + ".lora_B.weight", {out, rank_}, parts.b));
    if (parts.left < largest_left_) return;
    largest_left_ = parts.left;
    worst_ = tensor.name;
  }
  void describe(const std::set<std::string>& targets) {
    Json names = Json::array();
    for (const std::string& name : targets) names.push_back(name);
    config = {{"peft_type", "LORA"},
              {"task_type", "CAUSAL_LM"},
              {"base_model_name_or_path", was_.name},
              {"r", rank_},
              {"lora_alpha", rank_},
              {"lora_dropout", 0.0},
              {"bias", "none"},
              {"fan_in_fan_out", was_.family->has_transposed_matrices},
              {"inference_mode", true},
              {"modules_to_save", nullptr}};
    config["target_modules"] = std::move(names);
  }

  DescribedModel was_, is_;
  std::size_t rank_;
  std::vector<PlannedTensor> planned_;
  std::list<internal::LowRank> held_;
  double largest_left_ = 0;
  std::string worst_;
};

}  // namespace

Result<Exported> export_adapters(storage::FileSystem& files, const std::string& entity, const std::string& out,
                                 const std::string& described, std::size_t rank, bool is_forced,
                                 std::uint64_t max_memory) {
  WEFT_TRY(const formats::EntityFile base, formats::load_entity(files, described));
  WEFT_TRY(const formats::EntityFile learned, formats::load_entity(files, entity));
  const auto loaded = [&](const formats::EntityFile& weights, const std::string& path) -> Result<DescribedModel> {
    auto model = internal::load_described(weights, base, max_memory);
    if (!model) return fail(std::move(model).error().within(path));
    return model;
  };
  WEFT_TRY(DescribedModel was, loaded(base, described));
  WEFT_TRY(DescribedModel is, loaded(learned, entity));
  if (was.is_packed()) return fail(Errc::unsupported, entity + ": adapters of packed ternary matrices are not written");
  AdapterWriter writer(std::move(was), std::move(is), rank);
  if (Status made = writer.make(); !made) return fail(Error(made.error()).within(entity));
  Exported exported;
  exported.tensors = writer.tensors.size();
  exported.notes = writer.notes;
  WEFT_CHECK(internal::make_shared_folder(out));
  WEFT_TRY(const ByteSource source, formats::safetensors_source(std::move(writer.tensors), {{"format", "pt"}}));
  exported.bytes = source.size();
  WEFT_TRY(const std::string text, write_json(writer.config, 2));
  internal::WrittenModel written;
  written.set.made = {{out + "/adapter_model.safetensors", source},
                      {out + "/adapter_config.json", ByteSource(as_bytes(text))}};
  written.read = {entity, described};
  written.description = "adapter_config.json";
  written.is_forced = is_forced;
  written.is_model_file = [](std::string_view) { return false; };
  WEFT_CHECK(internal::write_model(files, std::move(written), exported.notes));
  return exported;
}

}  // namespace weft::models
