// SPDX-License-Identifier: Apache-2.0

#include "models/language_model.hpp"

#include "models/import.hpp"
#include "models/model_files.hpp"

#include "mesh/persistence/entity_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf.hpp"
#include "storage/file_system.hpp"
#include "text/token_stream.hpp"
#include "text/tokenizer_file.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::models {
namespace {

constexpr std::size_t kLargestModel = std::size_t{1} << 44;

void add_ends(const Json& config, std::vector<text::TokenId>& ends) {
  const Json* const found = config.is_object() ? config.find("eos_token_id") : nullptr;
  if (!found) return;
  const auto add = [&](const Json& id) {
    if (id.is_natural()) ends.push_back(id.get<text::TokenId>());
  };
  add(*found);
  for (const Json& id : *found) add(id);
}

/// Tokenizer that the file keeps beside the weights, and the tokens that end a text.
Status read_kept(const formats::EntityFile& file, LanguageModel& model) {
  const Json& config = file.meta()["model"]["config"];
  add_ends(config, model.ends);
  for (const char* key : {"max_position_embeddings", "n_positions"})
    if (const Json* const most = config.is_object() ? config.find(key) : nullptr; most && most->is_natural())
      model.context = most->get<std::size_t>();
  if (file.contains("model/generation_config.json")) {
    WEFT_TRY(const formats::Tensor kept, file.find("model/generation_config.json"));
    WEFT_TRY(const Json defaults, parse_json(as_text(kept.bytes), "generation_config.json"));
    add_ends(defaults, model.ends);
  }
  if (model.tokenizer) return {};
  if (file.contains("model/tokenizer.json")) {
    WEFT_TRY(const formats::Tensor kept, file.find("model/tokenizer.json"));
    WEFT_TRY(model.tokenizer, text::Tokenizer::from_json(as_text(kept.bytes)));
  } else if (file.contains("model/tokenizer.gguf")) {
    WEFT_TRY(const formats::Tensor kept, file.find("model/tokenizer.gguf"));
    ByteBuffer bytes(kept.bytes.size());
    std::copy(kept.bytes.begin(), kept.bytes.end(), bytes.begin());
    WEFT_TRY(const formats::GgufFile keys, formats::decode_gguf(storage::MappedFile(std::move(bytes)), "tokenizer"));
    WEFT_TRY(model.tokenizer, text::Tokenizer::from_gguf(keys.metadata()));
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
      if (!keys.metadata().contains(key)) continue;
      WEFT_TRY(const std::uint64_t id, keys.metadata().natural(key, UINT32_MAX));
      model.ends.push_back(static_cast<text::TokenId>(id));
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
  return {};
}

Result<formats::EntityFile> open_entity(storage::FileSystem& files, const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown)) {
    WEFT_TRY(storage::MappedFile bytes, files.map(path, kLargestModel));
    if (formats::is_entity(bytes.bytes())) return formats::decode_entity(std::move(bytes), path);
    if (!formats::is_gguf(bytes.bytes()))
      return fail(Errc::parse_failed, path + ": is neither an .entity file nor a GGUF file");
  }
  WEFT_TRY(const ImportedModel imported, import_model(files, path));
  WEFT_TRY(ByteBuffer bytes, collect(imported.content));
  return formats::decode_entity(std::move(bytes), path);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Result<LanguageModel> load_language_model(storage::FileSystem& files, const std::string& path,
                                          const std::string& tokenizer, mesh::MeshOptions options) {
  LanguageModel model;
  if (!tokenizer.empty()) WEFT_CHECK(read_tokenizer(files, tokenizer, model));
  WEFT_TRY(const formats::EntityFile file, open_entity(files, path));
  if (auto kept = read_kept(file, model); !kept) return fail(std::move(kept).error().within(path));
  if (!model.tokenizer) return fail(Errc::not_found, path + ": holds no tokenizer; say where it is with --tokenizer");
  auto spec = mesh::network_of(file);
  if (!spec) return fail(std::move(spec).error().within(path));
  // One token at a time: what ticks would keep is not needed here.
  WEFT_TRY(mesh::NetworkSpec small, with_context(*spec, 1, 0));
  options.keeps_masters = false;
  auto mesh = mesh::Mesh::build(small, std::move(options));
  if (!mesh) return fail(std::move(mesh).error().within(path));
  model.mesh = std::make_unique<mesh::Mesh>(*std::move(mesh));
  if (auto restored = mesh::restore_weights(*model.mesh, file); !restored)
    return fail(std::move(restored).error().within(path));
  return model;
}

Result<Generated> generate(const LanguageModel& model, std::string_view prompt, const GenerateOptions& options,
                           const std::function<Status(std::string_view)>& give) {
  Generated made;
  WEFT_TRY(made.prompt, model.tokenizer->encode(prompt));
  if (made.prompt.empty()) return fail(Errc::invalid_argument, "the prompt has no tokens; give --prompt a text");
  const std::size_t wanted = made.prompt.size() + options.most_tokens, most = model.context ? model.context : wanted;
  const std::size_t context = options.context ? options.context : std::min(wanted, most);
  if (model.context && context > model.context)
    return fail(Errc::full, "a context of " + std::to_string(context) + " tokens is above the " +
                                std::to_string(model.context) + " that the model was made for");
  if (made.prompt.size() >= context)
    return fail(Errc::full, "the prompt has " + std::to_string(made.prompt.size()) + " tokens, the context " +
                                std::to_string(context) + "; nothing can be written");
  WEFT_TRY(Decoding decoding, Decoding::begin(*model.mesh, context, options.max_memory));
  Sampler sampler(options.sampler);
  text::TokenStream stream(*model.tokenizer, made.prompt, options.stops);
  const auto start = std::chrono::steady_clock::now();
  WEFT_TRY(auto logits, decoding.accept(made.prompt));
  made.prompt_seconds = seconds_since(start);
  made.end = "length";
  const auto emit = [&](const std::string& text) -> Status {
    made.text += text;
    return text.empty() ? Status() : give(text);
  };
  const auto begun = std::chrono::steady_clock::now();
  while (made.ids.size() < options.most_tokens) {
    WEFT_TRY(const text::TokenId id, sampler.pick(logits, decoding.position()));
    if (!options.ignores_ends && std::find(model.ends.begin(), model.ends.end(), id) != model.ends.end()) {
      made.end = "end";
      break;
    }
    made.ids.push_back(id);
    WEFT_CHECK(emit(stream.push(id)));
    if (stream.is_stopped()) {
      made.end = "stop";
      break;
    }
    if (made.ids.size() == options.most_tokens || decoding.position() == context) break;
    WEFT_TRY(logits, decoding.accept(std::span(&made.ids.back(), 1)));
  }
  WEFT_CHECK(emit(stream.finish()));
  made.seconds = seconds_since(begun);
  return made;
}

}  // namespace weft::models
