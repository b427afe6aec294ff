// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"

#include "models/carriers.hpp"
#include "models/import.hpp"
#include "models/internal/decoder_difference.hpp"
#include "models/internal/described_model.hpp"
#include "models/internal/exported_tokenizer.hpp"
#include "models/internal/gguf_config.hpp"
#include "models/internal/gguf_metadata_of.hpp"
#include "models/internal/gguf_rope.hpp"
#include "models/internal/hugging_face_config.hpp"
#include "models/internal/planned_tensor.hpp"
#include "models/internal/written_model.hpp"
#include "models/model_files.hpp"
#include "models/tensor_layout.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/gguf_parts.hpp"
#include "formats/gguf/gguf_quantize.hpp"
#include "formats/safetensors/safetensors_shards.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/numeric.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace weft::models {
namespace {

using internal::PlannedTensor;

constexpr const char* kWindow = ".attention.sliding_window";

/// Types of 16 bits that matrices keep.
bool is_half(std::string_view type) { return type == "float16" || type == "bfloat16"; }

class Exporter {
 public:
  Exporter(storage::FileSystem& files, ExportFormat format, const std::string& out, const ExportOptions& options)
      : files_(files),
        is_gguf_(format == ExportFormat::gguf),
        out_(out),
        type_(options.type),
        shard_bytes_(options.shard_bytes ? options.shard_bytes : UINT64_MAX),
        is_forced_(options.is_forced),
        max_memory_(options.max_memory) {}

  Result<Exported> write(const std::string& path, const std::string& described) && {
    read_ = {path, described.empty() ? path : described};
    WEFT_TRY(const formats::EntityFile weights, formats::load_entity(files_, path));
    WEFT_TRY(const formats::EntityFile file, formats::load_entity(files_, read_.back()));
    WEFT_CHECK(check_type());
    WEFT_TRY(model_, internal::load_described(weights, file, max_memory_));
    if (!is_gguf_ && type_.empty()) pack_ternary();
    WEFT_CHECK(check_format());
    WEFT_CHECK(plan());
    std::vector<formats::Tensor> tensors;
    for (const PlannedTensor& planned : planned_) {
      WEFT_TRY(formats::Tensor tensor, internal::tensor_of(model_.mesh, planned));
      tensors.push_back(std::move(tensor));
    }
    if (model_.is_packed()) {
      WEFT_CHECK(add_scales(tensors));
    }
    made_.tensors = tensors.size();
    if (is_gguf_) {
      WEFT_CHECK(write_gguf(file, std::move(tensors)));
    } else {
      WEFT_CHECK(write_folder(file, std::move(tensors)));
    }
    return std::move(made_);
  }

 private:
  /// The type asked for, if any, as tensors have it: llama.cpp's names of floats are known too, in any case of letters.
  Status check_type() {
    const auto lower = [](std::string_view name) {
      std::string text(name);
      for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      return text == "f32" ? "float32" : text == "f16" ? "float16" : text == "bf16" ? "bfloat16" : text;
    };
    if (type_.empty()) return {};
    std::string names;
    for (const std::string_view name : export_types(is_gguf_ ? ExportFormat::gguf : ExportFormat::hugging_face)) {
      if (lower(name) == lower(type_)) {
        type_ = name;
        return {};
      }
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return fail(Errc::unknown_name, "type '" + type_ + "': expected one of " + names);
  }
  /// A model whose float weights are quantized where they are loaded has learned through codes: these are written, and
  /// described as packed. Float values of codes would be quantized to another scale.
  void pack_ternary() {
    if (model_.decoder.ternary != TernaryBlocks::quantized) return;
    bool is_ternary = false;
    for (std::size_t i = 0; i < weights().parameters().size(); ++i)
      is_ternary = is_ternary || weights().encoding_of(i) == packed_ternary_encoding();
    if (!is_ternary) return;
    model_.decoder.ternary = TernaryBlocks::packed;
    model_.config["quantization_config"]["quantization_mode"] = "offline";
    made_.notes.emplace_back("ternary matrices are packed four to a byte, and quantization_mode is 'offline' now");
  }
  Status check_format() const {
    if (is_gguf_ && model_.decoder.ternary != TernaryBlocks::none)
      return fail(Errc::unsupported,
                  "a GGUF file has no word for inputs of int8 with one scale a row, as this model's ternary matrices "
                  "take them; --format hf has");
    return {};
  }
  const mesh::WeightStore& weights() const { return mesh::MeshAccess::weights(*model_.mesh); }

  Status plan() {
    WEFT_TRY(planned_, internal::plan_tensors(model_, is_gguf_));
    choose_matrix_types();
    choose_vector_types();
    std::uint64_t most = 0;
    for (const PlannedTensor& planned : planned_)
      most = std::max(most, internal::bytes_to_write(*model_.mesh, planned));
    mesh::MemoryEstimate estimate;
    estimate.add("the largest tensor as it is written", most);
    return mesh::check_memory("exporting", estimate, max_memory_);
  }

  /// Types of matrices as they are asked for, or blocks that hold what they have.
  void choose_matrix_types() {
    std::set<std::string> widened, refused;
    for (PlannedTensor& planned : planned_) {
      if (!planned.is_matrix() || planned.form != PlannedTensor::Form::values) continue;
      const auto blocks = is_gguf_ ? internal::block_type(*model_.mesh, planned) : std::nullopt;
      if (blocks && (type_.empty() || type_ == *blocks)) {
        planned.form = PlannedTensor::Form::blocks;
        planned.type = *blocks;
      } else if (!type_.empty()) {
        planned.type = type_for(planned);
        if (planned.type != type_) refused.insert("'" + planned.name + "' " + planned.type);
      } else if (const Encoding encoding = encoding_of(planned); has_scale(encoding.dtype)) {
        widened.insert(to_string(encoding));
      }
    }
    for (const std::string& encoding : widened)
      made_.notes.push_back(
          "matrices of " + encoding + " become float32" +
          (is_gguf_ ? ": no blocks of GGUF hold their codes and scales; --type q8_0 writes blocks" : ""));
    if (refused.empty()) return;
    std::string names;
    for (const std::string& name : refused) names += (names.empty() ? "" : ", ") + name;
    made_.notes.push_back("rows that are no whole blocks of " + type_ + " have another type: " + names);
  }
  Encoding encoding_of(const PlannedTensor& planned) const {
    return weights().encoding_of(planned.slices.front().parameter);
  }
  /// The type asked for, or the nearest whose blocks are not longer than a row.
  std::string type_for(const PlannedTensor& planned) const {
    // llama.cpp adds positions as float32.
    if (planned.name == "position_embd.weight") return "float32";
    const auto fits = [&](std::string_view type) {
      return planned.shape[1] % formats::find_gguf_type(type)->elements == 0;
    };
    return fits(type_) ? type_ : fits("q8_0") ? "q8_0" : "float32";
  }
  /// Vectors beside matrices of 16 bits are of 16 bits in the files of Hugging Face, where these hold them.
  void choose_vector_types() {
    for (const PlannedTensor& planned : planned_)
      if (planned.is_matrix() && planned.form == PlannedTensor::Form::values) vector_type_ = planned.type;
    if (is_gguf_ || !is_half(vector_type_)) return;
    for (PlannedTensor& planned : planned_)
      if (!planned.is_matrix() && internal::holds_values(vector_type_, internal::values_of(*model_.mesh, planned)))
        planned.type = vector_type_;
  }

  /// The scales of packed matrices, a tensor each.
  Status add_scales(std::vector<formats::Tensor>& tensors) {
    scales_.reserve(planned_.size());
    for (const PlannedTensor& planned : planned_) {
      if (planned.form != PlannedTensor::Form::packed_ternary) continue;
      const float scale = *static_cast<const float*>(weights().stored(planned.slices.front().parameter)->view().scales);
      scales_.push_back(model_.decoder.ternary == TernaryBlocks::packed_inverse ? 1 / scale : scale);
      formats::Tensor tensor =
          formats::make_tensor<float>(planned.name + "_scale", std::span<const float>(&scales_.back(), 1));
      if (is_half(vector_type_) && internal::holds_values(vector_type_, {scales_.back()})) {
        const bool is_float16 = vector_type_ == "float16";
        halves_.push_back(is_float16 ? numeric::Float16::encode(scales_.back())
                                     : numeric::Bfloat16::encode(scales_.back()));
        tensor.type = vector_type_;
        tensor.bytes = std::as_bytes(std::span(&halves_.back(), 1));
      }
      tensors.push_back(std::move(tensor));
    }
    return {};
  }

  /// The type of most matrices, and of which making blocks of them is, as llama.cpp numbers both.
  void name_types(formats::GgufMetadata& metadata) const {
    constexpr std::pair<std::string_view, std::uint32_t> kNumbers[] = {
        {"float32", 0}, {"float16", 1}, {"q4_0", 2},   {"q4_1", 3},     {"q8_0", 7},  {"q5_0", 8},
        {"q5_1", 9},    {"q2_K", 10},   {"q3_K", 12},  {"q4_K", 15},    {"q5_K", 17}, {"q6_K", 18},
        {"tq1_0", 36},  {"tq2_0", 37},  {"mxfp4", 38}, {"bfloat16", 32}};
    std::map<std::string_view, std::size_t> counts;
    bool has_blocks = false;
    for (const PlannedTensor& planned : planned_) {
      if (!planned.is_matrix()) continue;
      ++counts[planned.type];
      has_blocks = has_blocks || formats::find_gguf_type(planned.type)->elements > 1;
    }
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const auto& [name, number] : kNumbers)
      if (most != counts.end() && most->first == name) metadata.set("general.file_type", number);
    if (has_blocks) metadata.set("general.quantization_version", std::uint32_t{2});
  }

  Status write_gguf(const formats::EntityFile& file, std::vector<formats::Tensor> tensors) {
    formats::GgufMetadata metadata = internal::gguf_metadata_of(*model_.family, model_.decoder, model_.name);
    const internal::GgufRope rope = internal::gguf_rope_of(*model_.family, model_.decoder.rope, metadata);
    for (const auto& [name, values] : rope.tensors)
      tensors.push_back(formats::make_tensor<float>(name, std::span<const float>(values)));
    made_.notes.insert(made_.notes.end(), rope.notes.begin(), rope.notes.end());
    WEFT_CHECK(check_keys(metadata, tensors));
    if (const auto* const pattern = metadata.find(std::string(model_.family->gguf) + kWindow + "_pattern");
        model_.family->gguf == "gemma2" && pattern && std::holds_alternative<formats::GgufArray>(*pattern))
      return fail(Errc::unsupported, out_ +
                                         ": layers with a window come in no period, which is all that GGUF has words "
                                         "for in gemma2; --format hf has them");
    if (model_.family->gguf != "gemma2" && metadata.find(std::string(model_.family->gguf) + kWindow) &&
        *std::max_element(model_.decoder.windows.begin(), model_.decoder.windows.end()) != 0)
      made_.notes.push_back("llama.cpp does not read attention.sliding_window of architecture " +
                            std::string(model_.family->gguf) + ", and sees everything; Weft reads it");
    WEFT_CHECK(internal::add_tokenizer_keys(file, model_.config, model_.decoder.vocabulary, metadata, made_.notes));
    name_types(metadata);
    WEFT_TRY(const auto sources, formats::gguf_part_sources(std::move(metadata), std::move(tensors), shard_bytes_));
    const std::string prefix = out_.substr(0, out_.size() - (out_.ends_with(".gguf") ? 5 : 0));
    const formats::GgufPartName name{prefix, 1, static_cast<std::uint32_t>(sources.size())};
    internal::WrittenModel written;
    for (std::uint32_t i = 1; i <= name.count; ++i)
      add_weights(written, name.count == 1 ? out_ : name.path(i), sources[i - 1]);
    // Any part stands for all, so a set that was not written to its end may have no first one.
    std::rotate(written.set.made.begin(), written.set.made.begin() + 1, written.set.made.end());
    written.set.stale_last = true;
    written.is_model_file = [whole = name_in_folder(out_), prefix = name_in_folder(prefix)](std::string_view file) {
      const auto part = formats::gguf_part_name(file);
      return file == whole || (part && part->prefix == prefix);
    };
    return finish(std::move(written));
  }
  /// Keys of a GGUF file hold few of the numbers that a model may have: it would be another one where they do not.
  Status check_keys(const formats::GgufMetadata& metadata, const std::vector<formats::Tensor>& tensors) const {
    std::vector<formats::Tensor> described;
    for (const formats::Tensor& tensor : tensors)
      described.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
    WEFT_TRY(const Decoder said, internal::described_by(metadata, std::move(described)));
    const std::string difference = internal::difference_of(model_.decoder, said);
    if (difference.empty()) return {};
    return fail(Errc::unsupported, difference + ", as programs take it that read GGUF's architecture " +
                                       std::string(model_.family->gguf) + ", which has no key for it; --format hf has");
  }
  static std::string name_in_folder(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  void add_weights(internal::WrittenModel& written, const std::string& path, const ByteSource& source) {
    written.set.made.push_back({path, source});
    made_.bytes += source.size();
    made_.files.push_back(path);
  }
  Status finish(internal::WrittenModel written) {
    written.read = read_;
    written.is_forced = is_forced_;
    return internal::write_model(files_, std::move(written), made_.notes);
  }

  /// config.json of a model whose description came from a GGUF file.
  Result<Json> described_config() {
    Json config = internal::hugging_face_config(*model_.family, model_.decoder, made_.notes);
    ConfigReader reader(config, "config.json");
    Decoder said;
    describe_model(*model_.family, reader, said);
    if (!reader.problems().empty()) return reader.problems().failure(Errc::unsupported, "transformers");
    if (const std::string difference = internal::difference_of(model_.decoder, said); !difference.empty())
      return fail(Errc::unsupported, difference + ", as transformers take it of a " + std::string(model_.family->name) +
                                         ", which has no key for it; --format gguf "
                                         "has");
    config["torch_dtype"] = "float32";
    made_.notes.emplace_back("config.json was made from a GGUF file's metadata, which has fewer keys");
    return config;
  }
  /// The type that transformers load all weights in: that of the matrices, float32 where they differ.
  std::string type_of_matrices() const {
    std::string type;
    for (const PlannedTensor& planned : planned_) {
      if (!planned.is_matrix() || planned.form != PlannedTensor::Form::values) continue;
      if (!type.empty() && planned.type != type) return "float32";
      type = planned.type;
    }
    return type.empty() ? vector_type_ : type;
  }

  Status write_folder(const formats::EntityFile& file, std::vector<formats::Tensor> tensors) {
    WEFT_CHECK(internal::make_shared_folder(out_));
    WEFT_TRY(const formats::SafetensorsShards parts,
             formats::safetensors_shard_sources(std::move(tensors), {{"format", "pt"}}, shard_bytes_));
    Json config = model_.config, tokens;
    if (config.contains("is_gguf")) {
      WEFT_TRY(config, described_config());
      WEFT_TRY(tokens, internal::token_ids(file));
      config.update(tokens);
    }
    for (const char* const key : {"torch_dtype", "dtype"})
      if (config.contains(key)) config[key] = type_of_matrices();
    internal::WrittenModel written;
    written.description = "config.json";
    for (std::size_t i = 0; i < parts.sources.size(); ++i)
      add_weights(written, out_ + "/" + parts.names[i], parts.sources[i]);
    const auto add_text = [&](const std::string& name, const std::string& text) {
      written.set.made.push_back({out_ + "/" + name, ByteSource(as_bytes(text))});
    };
    const std::string single = "model.safetensors", index = single + ".index.json";
    if (!parts.index.empty()) add_text(index, parts.index);
    WEFT_TRY(const auto kept, internal::tokenizer_files(file, made_.notes));
    for (const auto& [name, bytes] : kept) add_text(name, bytes);
    WEFT_TRY(const std::string generation, write_json(tokens, 2));
    if (tokens.contains("eos_token_id") && !tokens["eos_token_id"].is_null())
      add_text("generation_config.json", generation);
    WEFT_TRY(const std::string text, write_json(config, 2));
    add_text("config.json", text);  // the last one: a folder without it is no model
    written.is_model_file = [&](std::string_view name) {
      // Shards are numbered as parts of GGUF files are.
      const auto part = formats::gguf_part_name(std::string(name.substr(0, name.rfind('.'))) + ".gguf");
      return name == single || name == index || is_kept_file(name) ||
             (part && part->prefix == "model" && name.ends_with(".safetensors"));
    };
    return finish(std::move(written));
  }

  storage::FileSystem& files_;
  bool is_gguf_;
  std::string out_;
  std::string type_;  // of matrices; empty: their own
  std::uint64_t shard_bytes_;
  bool is_forced_;
  std::uint64_t max_memory_;
  internal::DescribedModel model_;
  std::vector<PlannedTensor> planned_;
  std::string vector_type_ = "float32";
  std::vector<float> scales_;
  std::deque<std::uint16_t> halves_;  // of scales_
  std::vector<std::string> read_;     // files of Weft's
  Exported made_;
};

}  // namespace

std::vector<std::string_view> export_types(ExportFormat format) {
  std::vector<std::string_view> types{"float32", "float16", "bfloat16"};
  if (format == ExportFormat::gguf)
    for (const std::string_view type : formats::quantized_types()) types.push_back(type);
  return types;
}

Result<Exported> export_model(storage::FileSystem& files, const std::string& entity, ExportFormat format,
                              const std::string& out, const ExportOptions& options) {
  auto made = Exporter(files, format, out, options).write(entity, options.described);
  if (!made && !made.error().text().starts_with(entity) && !made.error().text().starts_with(out))
    return fail(std::move(made).error().within(entity));
  return made;
}

}  // namespace weft::models
