// SPDX-License-Identifier: Apache-2.0

#include "models/language_model.hpp"

#include "models/family.hpp"
#include "models/import.hpp"
#include "models/kept_tokenizer.hpp"
#include "models/model_files.hpp"
#include "models/text_writer.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/loom/loom_entity.hpp"
#include "storage/file_system.hpp"
#include "text/tokenizer_file.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::models {
namespace {

constexpr std::size_t kLargestModel = std::size_t{1} << 44;

void add_end(text::TokenId id, std::vector<text::TokenId>& ends) {
  if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
}

void add_ends(const Json& config, std::vector<text::TokenId>& ends) {
  const Json* const found = config.is_object() ? config.find("eos_token_id") : nullptr;
  if (!found) return;
  const auto add = [&](const Json& id) {
    if (id.is_natural()) add_end(id.get<text::TokenId>(), ends);
  };
  add(*found);
  for (const Json& id : *found) add(id);
}

/// A file that is kept beside the weights, empty where it is not.
Result<std::string> kept_text(const formats::EntityFile& file, const std::string& name) {
  if (!file.contains(name)) return std::string();
  WEFT_TRY(const formats::Tensor kept, file.find(name));
  return std::string(as_text(kept.bytes));
}

Status read_kept_chat(const formats::EntityFile& file, const formats::GgufMetadata* gguf, LanguageModel& model) {
  WEFT_TRY(const std::string source, kept_text(file, "model/chat_template.jinja"));
  WEFT_TRY(const std::string config, kept_text(file, "model/tokenizer_config.json"));
  WEFT_TRY(model.chat, read_chat_format({source, config, gguf}, &*model.tokenizer));
  // A model that was taught to chat ends its turns with it, whatever its description says.
  const auto end = model.chat.eos.empty() ? std::nullopt : model.tokenizer->find(model.chat.eos);
  if (end) add_end(*end, model.ends);
  return {};
}

/// Chat template beside a tokenizer.json of another program's.
Status read_chat_beside(storage::FileSystem& files, const std::string& folder, LanguageModel& model) {
  std::string texts[2];
  const char* const names[] = {"/chat_template.jinja", "/tokenizer_config.json"};
  for (std::size_t i = 0; i < 2; ++i) {
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(folder + names[i], unknown)) continue;
    WEFT_TRY(const ByteBuffer bytes, files.read(folder + names[i], std::size_t{128} << 20));
    texts[i] = as_text(bytes);
  }
  WEFT_TRY(model.chat, read_chat_format({texts[0], texts[1]}, &*model.tokenizer));
  return {};
}

/// Positions that a model was made for: those that its family takes where its description does not say. 0: not known.
std::size_t context_of(const Json& model) {
  const Json* const name = model.is_object() ? model.find("family") : nullptr;
  const Family* const family = name && name->is_string() ? find_family(name->text()) : nullptr;
  if (!family) return 0;
  ConfigReader reader(model["config"], "meta.model.config");
  Decoder decoder;
  family->describe(reader, decoder);
  return decoder.context;
}

/// Tokenizer that the file keeps beside the weights, chat template, and the tokens that end a text.
Status read_kept(const formats::EntityFile& file, LanguageModel& model) {
  const Json& config = file.meta()["model"]["config"];
  add_ends(config, model.ends);
  if (const std::size_t most = context_of(file.meta()["model"])) model.context = most;
  if (file.contains("model/generation_config.json")) {
    WEFT_TRY(const formats::Tensor kept, file.find("model/generation_config.json"));
    WEFT_TRY(Json defaults, parse_json(as_text(kept.bytes), "generation_config.json"));
    add_ends(defaults, model.ends);
    model.generation = std::move(defaults);
  }
  if (model.tokenizer) return {};
  if (file.contains("model/tokenizer.json")) {
    WEFT_TRY(const formats::Tensor kept, file.find("model/tokenizer.json"));
    WEFT_TRY(model.tokenizer, text::Tokenizer::from_json(as_text(kept.bytes)));
    WEFT_CHECK(read_kept_chat(file, nullptr, model));
  } else if (file.contains("model/tokenizer.gguf")) {
    WEFT_TRY(const formats::Tensor kept, file.find("model/tokenizer.gguf"));
    ByteBuffer bytes(kept.bytes.size());
    std::copy(kept.bytes.begin(), kept.bytes.end(), bytes.begin());
    WEFT_TRY(const formats::GgufFile keys, formats::decode_gguf(storage::MappedFile(std::move(bytes)), "tokenizer"));
    WEFT_TRY(model.tokenizer, text::Tokenizer::from_gguf(keys.metadata()));
    WEFT_CHECK(read_kept_chat(file, &keys.metadata(), model));
    for (const char* key :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
      if (!keys.metadata().contains(key)) continue;
      WEFT_TRY(const std::uint64_t id, keys.metadata().natural(key, UINT32_MAX));
      add_end(static_cast<text::TokenId>(id), model.ends);
    }
  }
  return {};
}

/// The tokenizer at a path: of a file that weft import made with the tokens that end a text, or of another program's.
Status read_tokenizer(storage::FileSystem& files, const std::string& path, LanguageModel& model) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown)) {
    WEFT_TRY(storage::MappedFile bytes, files.map(path, kLargestModel));
    if (formats::is_entity(bytes.bytes())) {
      WEFT_TRY(const formats::EntityFile file, formats::decode_entity(std::move(bytes), path));
      return read_kept(file, model);
    }
  }
  WEFT_TRY(model.tokenizer, text::load_tokenizer(files, path));
  return std::filesystem::is_directory(path, unknown) ? read_chat_beside(files, path, model) : Status();
}

/// A model that is not in Weft's own file is made into one in memory: that and the weights are there at once.
Status check_made(const std::string& path, const ImportedModel& imported, std::uint64_t max_memory) {
  mesh::MemoryEstimate estimate;
  std::uint64_t weights = 0;
  for (const mesh::Node& node : imported.graph->nodes()) weights += node.layer ? mesh::weight_bytes(node) : 0;
  estimate.add("weights", weights);
  estimate.add("the file as Weft's own", imported.content.size());
  return mesh::check_memory("loading " + path + " (weft import makes a file that needs no copy)", estimate, max_memory);
}

Result<formats::EntityFile> open_entity(storage::FileSystem& files, const std::string& path, std::uint64_t max_memory) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown)) {
    WEFT_TRY(storage::MappedFile bytes, files.map(path, kLargestModel));
    if (formats::is_entity(bytes.bytes())) return formats::decode_entity(std::move(bytes), path);
    if (!formats::is_gguf(bytes.bytes()) && !formats::is_loom_entity(bytes.bytes()))
      return fail(Errc::parse_failed, path + ": is neither an .entity file nor a GGUF file");
  }
  WEFT_TRY(const ImportedModel imported, import_model(files, path, {.max_memory = max_memory}));
  WEFT_CHECK(check_made(path, imported, max_memory));
  WEFT_TRY(ByteBuffer bytes, collect(imported.content));
  return formats::decode_entity(std::move(bytes), path);
}

Failure without_tokenizer(const std::string& path) {
  std::error_code unknown;
  const bool has_other = std::filesystem::is_regular_file(path + "/tokenizer.model", unknown);
  return fail(Errc::not_found, path + ": holds no tokenizer" +
                                   (has_other ? ".json, and tokenizer.model (SentencePiece's) is not read" : "") +
                                   "; --tokenizer says where one is");
}

}  // namespace

Result<LanguageModel> load_language_model(storage::FileSystem& files, const std::string& path,
                                          const std::string& tokenizer, mesh::MeshOptions options) {
  LanguageModel model;
  if (!tokenizer.empty()) WEFT_CHECK(read_tokenizer(files, tokenizer, model));
  WEFT_TRY(const formats::EntityFile file, open_entity(files, path, options.max_memory));
  if (auto kept = read_kept(file, model); !kept) return fail(std::move(kept).error().within(path));
  if (!model.tokenizer) return without_tokenizer(path);
  for (const text::TokenId id : known_ends(*model.tokenizer)) add_end(id, model.ends);
  auto spec = mesh::network_of(file);
  if (!spec) return fail(std::move(spec).error().within(path));
  // One token at a time: what ticks would keep is not needed here.
  WEFT_TRY(mesh::NetworkSpec small, with_context(*spec, 1, 0));
  options.keeps_masters = false;
  options.draws_weights = false;
  auto mesh = mesh::Mesh::build(small, std::move(options));
  if (!mesh) return fail(std::move(mesh).error().within(path));
  model.mesh = std::make_unique<mesh::Mesh>(*std::move(mesh));
  for (const mesh::Node& node : model.mesh->graph().nodes())
    if (node.is_port() && node.vocabulary_size != 0)
      WEFT_CHECK(
          check_tokenizer_fits(*model.tokenizer, tokenizer.empty() ? path : tokenizer, path, node.vocabulary_size));
  if (auto restored = mesh::restore_weights(*model.mesh, file); !restored)
    return fail(std::move(restored).error().within(path));
  return model;
}

Result<Generated> generate(const LanguageModel& model, std::string_view prompt, const GenerateOptions& options,
                           const std::function<Status(std::string_view)>& give) {
  WEFT_TRY(std::vector<text::TokenId> ids, model.tokenizer->encode(prompt));
  if (ids.empty()) return fail(Errc::invalid_argument, "the prompt has no tokens; give it a text");
  const std::size_t wanted = ids.size() + options.most_tokens, most = model.context ? model.context : wanted;
  GenerateOptions own = options;
  if (own.context == 0) own.context = std::min(wanted, most);
  WEFT_TRY(TextWriter writer, TextWriter::begin(model, own));
  return writer.write(std::move(ids), own, give);
}

}  // namespace weft::models
