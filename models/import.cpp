// SPDX-License-Identifier: Apache-2.0

#include "models/import.hpp"

#include "models/carriers.hpp"
#include "models/decoder_network.hpp"
#include "models/kept_tokenizer.hpp"
#include "models/nonfinite.hpp"
#include "models/weight_plan.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/persistence/foreign_weights.hpp"

#include "formats/gguf/gguf_parts.hpp"
#include "storage/file_system.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

namespace weft::models {
namespace {

constexpr std::size_t kTokensAtOnce = 64;

std::string model_name(const std::string& path) {
  const auto part = formats::gguf_part_name(path);
  const std::filesystem::path name = std::filesystem::path(part ? part->prefix : path).lexically_normal();
  const std::filesystem::path file = name.has_filename() ? name : name.parent_path();
  const std::string last = (part ? file.filename() : file.stem()).string();
  return last.empty() || last == "." ? "model" : last;
}

/// The types of a layer's matrices in the file.
struct FileTypes {
  std::set<std::string> names;
  std::optional<Encoding> encoding;  // whose codes all of them hold
  bool has_adapter = false;

  void add(const std::optional<Encoding>& carried) {
    const auto is_of_blocks = [](const Encoding& each) {
      return each.granularity == Granularity::block32 || each.granularity == Granularity::block32_f16;
    };
    if (names.empty() || carried == encoding)
      encoding = carried;
    else if (encoding && carried && encoding->dtype == carried->dtype && is_of_blocks(*encoding) &&
             is_of_blocks(*carried))
      encoding = Encoding(encoding->dtype, Granularity::block32);  // scales of binary16 are floats too
    else
      encoding.reset();
  }
};
/// By depth.
std::map<std::uint32_t, FileTypes> types_of(const DecoderNetwork& network, const WeightPlan& plan) {
  std::map<std::uint32_t, FileTypes> types;
  for (const ParameterPlace& place : network.places) {
    if (place.in == 0) continue;
    const Origin& origin = plan.origins.at({place.z, place.parameter});
    FileTypes& of_layer = types[place.z];
    of_layer.add(carried_encoding(origin));
    of_layer.names.insert(origin.type);
    of_layer.has_adapter = of_layer.has_adapter || !origin.adapter.empty();
  }
  return types;
}

/// Sets the types of layers with matrices, and says where a file's type is not kept.
void set_encodings(const ImportOptions& options, const WeightPlan& plan, DecoderNetwork& network,
                   std::vector<std::string>& notes) {
  std::set<std::string> widened, kept;
  for (const auto& [z, of_layer] : types_of(network, plan)) {
    mesh::LayerSpec& layer = network.spec.layers[z];
    const std::set<std::string>& types = of_layer.names;
    if (options.encoding) {
      layer.dtype = options.encoding->dtype;
      if (has_scale(layer.dtype)) layer.granularity = options.encoding->granularity;
      continue;
    }
    if (of_layer.has_adapter) continue;  // a sum in 16 bits would lose what the adapter adds
    if (of_layer.encoding) {
      layer.dtype = of_layer.encoding->dtype, layer.granularity = of_layer.encoding->granularity;
      for (const std::string& type : types)
        kept.insert("weights of " + type + " keep their codes as " + to_string(*of_layer.encoding));
      continue;
    }
    if (layer.activations == Activations::int8_row) {
      layer.dtype = packed_ternary_encoding().dtype;
      continue;
    }
    const bool is_kept = types.size() == 1 && (*types.begin() == "float16" || *types.begin() == "bfloat16");
    if (is_kept) layer.dtype = *parse_dtype(*types.begin());
    for (const std::string& type : types)
      if (!is_kept && type != "float32") widened.insert(type);
  }
  notes.insert(notes.end(), kept.begin(), kept.end());
  for (const std::string& type : widened)
    notes.push_back("weights of " + type + " become float32" +
                    (type == "float64" ? ", each the nearest one" : ", which holds them exactly") +
                    "; --dtype makes them smaller");
}

std::vector<formats::Tensor> kept_tensors(const ModelFiles& opened) {
  std::vector<formats::Tensor> tensors;
  for (const KeptFile& file : opened.kept) {
    formats::Tensor tensor{"model/" + file.name, "bytes", Shape{file.bytes->size()}, {}};
    tensor.produce = [bytes = file.bytes](const ByteSource::Sink& sink) {
      return formats::each_part(as_bytes(*bytes), 1, sink);
    };
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

Status train_stored(std::vector<mesh::LayerSpec>& layers) {
  bool has_any = false;
  for (mesh::LayerSpec& layer : layers)
    if (layer.dtype != Dtype::float32) layer.quantization_aware = has_any = true;
  if (has_any) return {};
  return fail(Errc::invalid_argument, "qat: all matrices are float32, and learn as they are; give a dtype too");
}

namespace {
/// `problems`: those that leave the names and shapes of tensors as they are.
Result<Decoder> described(const ModelFiles& opened, Problems& problems, std::vector<std::string>& notes) {
  ConfigReader config(opened.config, opened.is_gguf ? "metadata" : "config.json");
  Decoder decoder;
  describe_model(*opened.family, config, decoder);
  if (!config.knows_tensors()) return config.problems().failure(Errc::unsupported, opened.path);
  problems = config.problems();
  notes.insert(notes.end(), config.notes().begin(), config.notes().end());
  return decoder;
}
}  // namespace

Result<Decoder> describe_decoder(const ModelFiles& opened) {
  Problems problems;
  std::vector<std::string> notes;
  WEFT_TRY(Decoder decoder, described(opened, problems, notes));
  if (!problems.empty()) return problems.failure(Errc::unsupported, opened.path);
  return decoder;
}

Result<ImportedModel> import_model(storage::FileSystem& files, const std::string& path, const ImportOptions& options) {
  WEFT_TRY(ModelFiles opened, open_model_files(files, path));
  if (!options.tokenizer.empty()) {
    WEFT_TRY(opened.kept, read_kept_files(files, options.tokenizer));
    if (opened.kept.empty())
      return fail(Errc::not_found, options.tokenizer + ": holds no tokenizer.json, no tokenizer_config.json");
  }
  ImportedModel model;
  model.family = opened.family;
  Problems problems;
  WEFT_TRY(model.decoder, described(opened, problems, model.notes));
  WEFT_CHECK(check_kept_files(opened, options.tokenizer.empty() ? path : options.tokenizer, model.decoder.vocabulary,
                              model.notes));
  const std::size_t tokens = options.tokens ? options.tokens : std::min(model.decoder.context, kTokensAtOnce);
  DecoderNetwork network = decoder_network(model.decoder, model_name(path), tokens);
  std::shared_ptr<const LoraAdapters> adapters;
  if (!options.adapter.empty()) {
    WEFT_TRY(LoraAdapters read, LoraAdapters::open(files, options.adapter));
    model.notes.push_back(std::to_string(read.pairs().size()) + " adapters of '" + options.adapter +
                          "' are added; layers that have one become float32");
    adapters = std::make_shared<const LoraAdapters>(std::move(read));
  }
  WEFT_TRY(WeightPlan plan, plan_weights(opened, model.decoder, network, std::move(adapters), std::move(problems)));
  model.notes.insert(model.notes.end(), opened.warnings.begin(), opened.warnings.end());
  model.notes.insert(model.notes.end(), plan.notes.begin(), plan.notes.end());
  set_encodings(options, plan, network, model.notes);
  if (options.quantization_aware) WEFT_CHECK(train_stored(network.spec.layers));
  auto graph = mesh::Graph::build(network.spec);
  if (!graph) return fail(std::move(graph).error().within(path));
  model.graph = std::make_shared<const mesh::Graph>(*std::move(graph));
  for (const ParameterPlace& place : network.places) {
    const std::uint64_t count = place.out * std::max<std::size_t>(place.in, 1);
    model.parameters += count;
    model.largest_tensor = std::max(model.largest_tensor, count * sizeof(float));
  }
  mesh::MemoryEstimate estimate;
  estimate.add("the largest tensor as the file has it, as float32 and quantized", 3 * model.largest_tensor);
  WEFT_CHECK(mesh::check_memory("importing " + path, estimate, options.max_memory));
  Json meta{{"model", {{"family", std::string(model.family->name)}, {"config", opened.config}}}};
  WEFT_TRY(const std::string meta_text, write_json(meta));
  PlannedWeights weights = planned_weights(opened.tensors, std::move(plan), options.allow_nonfinite);
  const auto replaced = options.allow_nonfinite ? std::make_shared<NonfiniteWeights>() : nullptr;
  auto content = mesh::entity_of(model.graph, with_finite_values(std::move(weights.values), replaced),
                                 kept_tensors(opened), meta_text, std::move(weights.codes));
  if (!content) return fail(std::move(content).error().within(path));
  model.content = *std::move(content);
  if (replaced && !replaced->empty()) model.notes.push_back(replaced->note());
  return model;
}

}  // namespace weft::models
