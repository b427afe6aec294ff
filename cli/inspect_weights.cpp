// SPDX-License-Identifier: Apache-2.0

#include "cli/inspect_weights.hpp"

#include "cli/json_line.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"

#include "models/family.hpp"
#include "models/model_files.hpp"
#include "models/onnx/onnx_import.hpp"
#include "models/state_dict/state_dict_import.hpp"

#include "formats/gguf/gguf_parts.hpp"
#include "formats/loom/loom_entity.hpp"
#include "formats/onnx/onnx.hpp"
#include "formats/safetensors/safetensors_shards.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"
#include "core/shape.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace weft::cli {
namespace {

constexpr std::size_t kListedTensors = 1000;  // on a terminal
constexpr std::size_t kListedElements = 8;    // of an array of metadata

bool is_folder(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}
bool is_file(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(path, unknown);
}

/// The first bytes of a file, as many as there are.
std::string beginning_of(const std::string& path) {
  std::array<char, 16> bytes{};
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (!file) return {};
  const std::size_t size = std::fread(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  return {bytes.data(), size};
}
bool is_gguf(const std::string& path) { return is_file(path) && beginning_of(path).starts_with("GGUF"); }
/// The header's length in 8 bytes, which fits the file, and its brace.
bool is_safetensors(const std::string& path) {
  const std::string bytes = is_file(path) ? beginning_of(path) : "";
  if (bytes.size() < 9 || bytes[8] != '{') return false;
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::error_code unknown;
  const std::uint64_t size = std::filesystem::file_size(path, unknown);
  return !unknown && length <= size - 8;
}

bool is_onnx(const std::string& path) {
  return models::is_onnx_path(path) || (is_file(path) && formats::is_onnx(as_bytes(beginning_of(path))));
}

/// A language model of Loom.
std::optional<formats::LoomEntityFile> loom_model_at(const std::string& path) {
  if (!is_file(path) || !formats::is_loom_entity(as_bytes(beginning_of(path)))) return std::nullopt;
  auto bytes = storage::real_file_system().map(path, std::size_t{1} << 44);
  if (!bytes) return std::nullopt;
  auto file = formats::decode_loom_entity(*std::move(bytes), path);
  if (!file || file->transformer().is_null()) return std::nullopt;
  return *std::move(file);
}

Json value_of(const formats::GgufValue& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, formats::GgufArray>) {
          Json first = Json::array();
          std::visit(
              [&](const auto& elements) {
                if constexpr (!std::is_same_v<std::decay_t<decltype(elements)>, std::monostate>)
                  for (std::size_t i = 0; i < std::min(elements.size(), kListedElements); ++i)
                    first.push_back(typename std::decay_t<decltype(elements)>::value_type(elements[i]));
              },
              held);
          return {{"type", formats::type_name(held)}, {"elements", formats::size(held)}, {"first", std::move(first)}};
        } else {
          return held;
        }
      },
      value);
}

/// Tensors and what they sum up to.
void describe_tensors(const formats::TensorFile& file, Json& description) {
  struct Total {
    std::uint64_t tensors = 0, parameters = 0, bytes = 0;
  };
  std::map<std::string, Total> by_type;
  Total all;
  Json tensors = Json::array();
  for (const formats::Tensor& tensor : file.tensors()) {
    std::uint64_t elements = 1;
    for (const std::size_t extent : tensor.shape) elements *= extent;
    const std::uint64_t bytes = tensor.bytes.size();
    for (Total* const total : {&by_type[tensor.type], &all})
      ++total->tensors, total->parameters += elements, total->bytes += bytes;
    tensors.push_back({{"name", tensor.name}, {"type", tensor.type}, {"shape", tensor.shape}, {"bytes", bytes}});
  }
  Json types = Json::array();
  for (const auto& [type, total] : by_type)
    types.push_back(
        {{"type", type}, {"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.bytes}});
  description["parameters"] = all.parameters;
  description["weight_bytes"] = all.bytes;
  description["types"] = std::move(types);
  description["tensors"] = std::move(tensors);
}

Result<Json> describe_gguf(const std::string& path) {
  WEFT_TRY(const formats::GgufModel model, formats::load_gguf_model(storage::real_file_system(), path));
  Json metadata = Json::object();
  for (const auto& [key, value] : model.metadata().pairs()) metadata[key] = value_of(value);
  const Json* const family = metadata.find("general.architecture");
  Json description{{"kind", "gguf"},
                   {"file", path},
                   {"parts", model.files},
                   {"family", family ? *family : Json()},
                   {"metadata", std::move(metadata)},
                   {"warnings", Json::array()}};
  describe_tensors(*model.tensors, description);
  return description;
}

/// Keys of `from` and of objects inside it.
void add_keys(const Json& from, const std::string& before, Json& to) {
  for (const auto& [key, value] : from.members())
    if (value.is_object())
      add_keys(value, before + key + ".", to);
    else
      to[before + key] = value;
}

/// Its blobs stand for tensors: how they divide is the importer's to know.
Result<Json> describe_loom(const std::string& path, const formats::LoomEntityFile& file) {
  Json metadata = Json::object(), tensors = Json::array(), types = Json::array();
  add_keys(file.transformer(), "transformer.", metadata);
  struct Total {
    std::uint64_t tensors = 0, parameters = 0, bytes = 0;
  };
  std::map<std::string, Total> by_type;
  Total all;
  for (const formats::LoomBlob& blob : file.blobs()) {
    using Form = formats::LoomBlob::Form;
    const std::string type = blob.form == Form::blocks ? "q4_0"
                             : blob.form == Form::ternary
                                 ? "bitnet_ternary"
                                 : std::string(name(blob.is_native ? blob.dtype : Dtype::float32));
    // Of packed ones the header does not say it.
    const std::uint64_t weights =
        blob.form != Form::numbers
            ? 0
            : blob.bytes.size() * 8 / static_cast<unsigned>(bits(blob.is_native ? blob.dtype : Dtype::float32));
    for (Total* const total : {&by_type[type], &all})
      ++total->tensors, total->parameters += weights, total->bytes += blob.bytes.size();
    tensors.push_back({{"name", blob.path},
                       {"type", type},
                       {"shape", weights ? Shape{static_cast<std::size_t>(weights)} : Shape{}},
                       {"bytes", blob.bytes.size()}});
  }
  for (const auto& [type, total] : by_type)
    types.push_back(
        {{"type", type}, {"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.bytes}});
  Json description{{"kind", "loom"},
                   {"file", path},
                   {"family", Json()},
                   {"metadata", std::move(metadata)},
                   {"warnings", Json::array()},
                   {"parameters", all.parameters},
                   {"weight_bytes", all.bytes},
                   {"types", std::move(types)},
                   {"tensors", std::move(tensors)}};
  if (const auto opened = models::open_model_files(storage::real_file_system(), path))
    description["family"] = std::string(opened->family->name);
  else
    description["warnings"].push_back("weft import: " + opened.error().text());
  return description;
}

Json notes_of(const formats::SafetensorsNotes& notes) {
  Json metadata = Json::object();
  for (const auto& [key, value] : notes) metadata[key] = value;
  return metadata;
}

Result<Json> describe_safetensors(const std::string& path) {
  WEFT_TRY(const formats::SafetensorsFile file, formats::load_safetensors(storage::real_file_system(), path));
  Json description{{"kind", "safetensors"},     {"file", path},
                   {"family", Json()},          {"metadata", notes_of(file.notes())},
                   {"warnings", Json::array()}, {"layers", Json::array()}};
  describe_tensors(file, description);
  // Beside a config.json weights are read as it says.
  if (is_file(storage::parent_path(path) + "/config.json")) return description;
  const auto imported = models::import_state_dict(storage::real_file_system(), path, {.describes_alone = true});
  if (imported) {
    description["layers"] = imported->layers;
    description["warnings"] = imported->notes;
  } else {
    description["warnings"].push_back("weft import: " + imported.error().text());
  }
  return description;
}

/// "float32 [n, 4]" of each.
std::string ports_text(const std::vector<formats::OnnxPort>& ports) {
  std::string text;
  for (const formats::OnnxPort& port : ports) {
    text += (text.empty() ? "" : ", ") + port.name + " " + port.type;
    if (!port.axes) continue;
    std::string axes;
    for (const formats::OnnxAxis& axis : *port.axes)
      axes += (axes.empty() ? "" : ", ") + (axis.extent         ? std::to_string(*axis.extent)
                                            : axis.name.empty() ? "?"
                                                                : axis.name);
    text += " [" + axes + "]";
  }
  return text;
}

void count_operators(const formats::OnnxGraph& graph, std::map<std::string, std::uint64_t>& counts) {
  for (const formats::OnnxNode& node : graph.nodes) {
    ++counts[node.domain.empty() ? node.type : node.domain + "." + node.type];
    for (const auto& [name, value] : node.attributes)
      if (const auto* inner = std::get_if<std::shared_ptr<const formats::OnnxGraph>>(&value))
        count_operators(**inner, counts);
  }
}

Result<Json> describe_onnx(const std::string& path) {
  WEFT_TRY(const formats::OnnxFile file, formats::load_onnx(storage::real_file_system(), path));
  const formats::OnnxModel& model = file.model();
  Json metadata{{"ir_version", model.ir_version}, {"producer", model.producer}};
  for (const auto& [domain, version] : model.opsets) metadata["opset" + (domain.empty() ? "" : "." + domain)] = version;
  metadata["inputs"] = ports_text(model.graph.inputs);
  metadata["outputs"] = ports_text(model.graph.outputs);
  std::map<std::string, std::uint64_t> counts;
  count_operators(model.graph, counts);
  for (const auto& [type, count] : counts) metadata["operators." + type] = count;
  for (const auto& [key, value] : model.metadata) metadata["metadata." + key] = value;
  Json warnings = Json::array();
  if (const auto imported = models::import_onnx(file, "weft import", {.describes_alone = true}); !imported)
    warnings.push_back(imported.error().text());
  Json description{{"kind", "onnx"},
                   {"file", path},
                   {"family", Json()},
                   {"metadata", std::move(metadata)},
                   {"warnings", std::move(warnings)}};
  describe_tensors(file.tensors(), description);
  return description;
}

Result<Json> describe_folder(const std::string& path) {
  storage::FileSystem& files = storage::real_file_system();
  Json config;
  const std::string name = path + "/config.json";
  if (is_file(name)) {
    WEFT_TRY(const ByteBuffer bytes, files.read(name, std::size_t{16} << 20));
    WEFT_TRY(config, parse_json(as_text(bytes), name));
  }
  WEFT_TRY(const formats::SafetensorsModel model, formats::load_safetensors_folder(files, path));
  Json metadata = notes_of(model.notes), warnings = Json::array();
  for (const auto& [key, value] : config.members()) metadata["config." + key] = value;
  for (const std::string& warning : model.warnings) warnings.push_back(warning);
  models::ConfigReport report;
  if (config.is_object()) report = models::report_config(config);
  for (const std::string& problem : report.problems) warnings.push_back("not supported: " + problem);
  for (const std::string& note : report.notes) warnings.push_back(note);
  Json description{{"kind", "hugging_face"},
                   {"file", path},
                   {"family", config["model_type"].is_string() ? config["model_type"] : Json()},
                   {"is_supported", report.is_supported && report.problems.empty()},
                   {"unread", report.unread},
                   {"metadata", std::move(metadata)},
                   {"warnings", std::move(warnings)}};
  describe_tensors(*model.tensors, description);
  return description;
}

std::string value_text(const Json& value) {
  constexpr std::size_t kMost = 60;
  if (value.is_string()) return printable(value.text(), kMost);
  if (value.is_object() && value.contains("elements"))
    return value["type"].text() + ", " + grouped(value["elements"]) + ": " + printable(value["first"].dump(), kMost);
  return printable(value.dump(), kMost);
}

void print_rows(const Table& table) { std::printf("%s\n", table.text(Terminal::of(STDOUT_FILENO).columns()).c_str()); }

void print_description(const Json& d) {
  using Align = Table::Align;
  const Terminal terminal = Terminal::of(STDOUT_FILENO);
  std::printf("%s\n", terminal.styled(escaped(d["file"].text()), "1").c_str());
  const std::string& kind = d["kind"].text();
  const Json* const supported = d.find("is_supported");
  const bool is_marked = supported && *supported == Json(false) && d["family"].is_string();
  std::printf("%s%s%s%s\n\n",
              kind == "gguf"           ? "GGUF"
              : kind == "loom"         ? "language model of Loom"
              : kind == "onnx"         ? "ONNX"
              : kind == "hugging_face" ? "Hugging Face folder"
                                       : "safetensors",
              d["family"].is_string() ? ", family " : "",
              d["family"].is_string() ? printable(d["family"].text()).c_str() : "",
              is_marked ? " (not supported)" : "");
  Table metadata({{"key"}, {"value"}});
  for (const auto* pair : d["metadata"].members_as_set()) metadata.add({pair->first, value_text(pair->second)});
  if (!d["metadata"].empty()) print_rows(metadata);
  Table tensors({{"tensor"}, {"type"}, {"shape"}, {"bytes", Align::right}});
  const std::size_t listed = std::min(d["tensors"].size(), kListedTensors);
  for (std::size_t i = 0; i < listed; ++i) {
    const Json& tensor = d["tensors"][i];
    tensors.add({tensor["name"].text(), tensor["type"].text(), to_string(tensor["shape"].get<Shape>()),
                 byte_size(tensor["bytes"])});
  }
  print_rows(tensors);
  if (listed < d["tensors"].size())
    std::printf("and %s more tensors\n\n", grouped(d["tensors"].size() - listed).c_str());
  Table types({{"type"}, {"tensors", Align::right}, {"parameters", Align::right}, {"bytes", Align::right}});
  for (const Json& row : d["types"])
    types.add({row["type"].text(), grouped(row["tensors"]), grouped(row["parameters"]), byte_size(row["bytes"])});
  print_rows(types);
  std::printf("weights     %s in %s\n", grouped(d["parameters"]).c_str(), byte_size(d["weight_bytes"]).c_str());
  for (const Json& layer : d["layers"]) std::printf("layer       %s\n", escaped(layer.text()).c_str());
  std::string unread;
  if (const Json* const keys = d.find("unread"))
    for (const Json& key : *keys) unread += (unread.empty() ? "" : ", ") + key.text();
  if (!unread.empty()) std::printf("not read    config.json: %s\n", escaped(unread).c_str());
  for (const Json& warning : d["warnings"]) std::printf("warning     %s\n", escaped(warning.text()).c_str());
}

/// Place of a model of others: the path itself, or the folder of a config.json or an index; empty: of none.
std::string model_path(const std::string& path) {
  const std::string folder = storage::parent_path(path), name = std::filesystem::path(path).filename(),
                    index = "model.safetensors.index.json";
  if (is_file(path) && (name == index || (name == "config.json" &&
                                          (is_file(folder + "/model.safetensors") || is_file(folder + "/" + index)))))
    return folder;
  bool is_model = false;
  if (!is_folder(path))
    is_model = is_gguf(path) || is_safetensors(path) || is_onnx(path) || loom_model_at(path).has_value();
  else
    for (const char* const file : {"/config.json", "/model.safetensors", "/model.safetensors.index.json"})
      is_model |= is_file(path + file);
  return is_model ? path : "";
}

}  // namespace

bool is_foreign_model(const std::string& path) { return !model_path(path).empty(); }

Status inspect_foreign_model(const std::string& given, bool json) {
  const std::string path = model_path(given);
  const auto loom = loom_model_at(path);
  WEFT_TRY(const Json description, loom              ? describe_loom(path, *loom)
                                   : is_folder(path) ? describe_folder(path)
                                   : is_gguf(path)   ? describe_gguf(path)
                                   : is_onnx(path)   ? describe_onnx(path)
                                                     : describe_safetensors(path));
  if (json)
    print_json(description);
  else
    print_description(description);
  return {};
}

}  // namespace weft::cli
