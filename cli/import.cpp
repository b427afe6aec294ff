// SPDX-License-Identifier: Apache-2.0

#include "models/import.hpp"

#include "cli/encoding_flags.hpp"
#include "cli/json_line.hpp"
#include "cli/model.hpp"
#include "cli/noted_reads.hpp"
#include "cli/number.hpp"
#include "cli/output.hpp"
#include "cli/run_state.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "models/onnx/onnx_import.hpp"
#include "models/replaced_model.hpp"
#include "models/state_dict/network_weights.hpp"
#include "models/state_dict/state_dict_import.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/network/graph.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "kernels/activation.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"
#include "core/shape.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

struct ImportRequest {
  std::string model, out;
  EncodingFlags encoding;
  std::size_t tokens = 0;
  std::uint64_t max_memory = 0;
  std::vector<std::string> shapes, pins;  // of an ONNX file's inputs, or of weights alone
  std::vector<std::string> order;         // of modules
  std::string activation, adapter, tokenizer, network;
  std::size_t heads = 0;
  bool qat = false, json = false, allow_nonfinite = false, force = false;
};

/// NAME=VALUE in two. The last "=" counts: names have some.
Result<std::pair<std::string, std::string>> pair_of(const char* flag, const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == text.npos || at == 0)
    return fail(Errc::invalid_argument, std::string(flag) + ": found " + in_quotes(text) + ", expected NAME=VALUE");
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

Result<Shape> shape_of(const std::string& text) {
  Shape shape;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string extent = text.substr(at, end - at);
    if (const std::string why = check_whole(extent, 1, 16777216); !why.empty())
      return fail(Errc::invalid_argument, "--shape: found " + in_quotes(text) + ": " + why);
    shape.push_back(std::stoull(extent));
    at = end + 1;
  }
  return shape;
}

/// Prints what was written, for people or as JSON.
void report(const ImportRequest& request, const std::string& family, std::uint64_t parameters, std::uint64_t bytes,
            const std::vector<std::string>& notes) {
  if (request.json)
    print_json({{"file", request.out},
                {"family", family},
                {"parameters", parameters},
                {"file_bytes", bytes},
                {"notes", notes}});
  else
    std::printf("%s: %s, %s parameters, %s\n", escaped(request.out).c_str(), family.c_str(),
                grouped(parameters).c_str(), byte_size(bytes).c_str());
}
void print_notes(const ImportRequest& request, const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    std::fprintf(stderr, "weft: note: %s: %s\n", escaped(request.model).c_str(), escaped(note).c_str());
}

/// Refuses to write over a file of the model.
Status check_kept(const ImportRequest& request, const NotedReads& files) {
  const NamedFile out{"--output", request.out};
  std::vector<NamedFile> inputs;
  for (const std::string& path : files.paths()) inputs.push_back({"a file of MODEL,", path});
  return check_distinct({&out, 1}, inputs);
}

/// Writes the file of an imported model, which reads its weights.
template <class Imported>
Status write(const ImportRequest& request, const NotedReads& files, const Imported& model, const std::string& family) {
  WEFT_CHECK(check_kept(request, files));
  std::vector<std::string> notes = model.notes;
  WEFT_CHECK(models::check_replaced_file(storage::real_file_system(), request.out, request.force, notes));
  print_notes(request, notes);
  WEFT_CHECK(storage::write_file_durably(storage::real_file_system(), request.out, model.content));
  report(request, family, model.parameters, model.content.size(), notes);
  return {};
}

Status import_graph(const ImportRequest& request, NotedReads& files) {
  if (request.tokens != 0)
    return fail(Errc::invalid_argument, "--tokens: an ONNX file's inputs say their shapes, or --shape does");
  models::OnnxImportOptions options;
  WEFT_TRY(options.encoding, read_encoding(request.encoding));
  options.quantization_aware = request.qat;
  options.max_memory = request.max_memory;
  options.allow_nonfinite = request.allow_nonfinite;
  for (const std::string& text : request.shapes) {
    WEFT_TRY(const auto pair, pair_of("--shape", text));
    WEFT_TRY(options.shapes[pair.first], shape_of(pair.second));
  }
  for (const std::string& text : request.pins) {
    WEFT_TRY(auto pair, pair_of("--pin", text));
    if (const std::string why = check_real(pair.second, -1e18, 1e18); !why.empty())
      return fail(Errc::invalid_argument, "--pin: found " + in_quotes(text) + ": " + why);
    options.pins[pair.first] = std::stod(pair.second);
  }
  WEFT_TRY(const models::ImportedOnnx model, models::import_onnx(files, request.model, options));
  for (const std::string& path : model.external) files.note(path);
  return write(request, files, model, "onnx");
}

/// NAME,NAME... of several flags.
std::vector<std::string> names_of(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const std::string& text : texts)
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      names.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  return names;
}

/// A safetensors file alone, for a network that is there.
Status import_into_network(const ImportRequest& request, NotedReads& files, const models::StateDictOptions& options) {
  if (!request.shapes.empty() || !request.activation.empty() || request.heads != 0)
    return fail(Errc::invalid_argument, "--shape, --activation and --heads: the network of --network says these");
  WEFT_TRY(Model model, read_model(request.network, false));
  files.note(request.network);
  if (model.entity && model.entity->meta().contains("model"))
    return fail(Errc::unsupported,
                request.network + ": is a language model, whose weights come with their config.json");
  // Its own faults are no faults of the weights.
  if (auto graph = mesh::Graph::build(model.spec); !graph)
    return fail(blamed(std::move(graph).error(), request.network));
  WEFT_TRY(auto stream, fit_data_paths(model, request.out));
  if (stream) model.spec.stream = *std::move(stream);
  WEFT_TRY(const models::ImportedStateDict made,
           models::import_network_weights(files, request.model, std::move(model.spec), options));
  return write(request, files, made, std::to_string(made.layers.size()) + " layers");
}

/// A safetensors file alone.
Status import_weights(const ImportRequest& request, NotedReads& files) {
  const std::string folder = storage::parent_path(request.model);
  std::error_code unknown;
  if (std::filesystem::is_regular_file(folder + "/config.json", unknown))
    return fail(Errc::invalid_argument, request.model +
                                            ": a config.json stands beside it, which says what it is; import " +
                                            folder + ", or move the file elsewhere");
  if (request.tokens != 0 || !request.pins.empty())
    return fail(Errc::invalid_argument,
                "--tokens and --pin are for language models and ONNX files; --shape x=16,8 says "
                "what a file of weights takes");
  models::StateDictOptions options;
  WEFT_TRY(options.encoding, read_encoding(request.encoding));
  options.quantization_aware = request.qat;
  options.max_memory = request.max_memory;
  options.allow_nonfinite = request.allow_nonfinite;
  options.order = names_of(request.order);
  if (!request.network.empty()) return import_into_network(request, files, options);
  options.activation = request.activation;
  options.heads = request.heads;
  for (const std::string& text : request.shapes) {
    WEFT_TRY(const auto pair, pair_of("--shape", text));
    if (pair.first != "x")
      return fail(Errc::invalid_argument, "--shape: found " + in_quotes(text) + ", expected x=SHAPE: the input is x");
    WEFT_TRY(options.input, shape_of(pair.second));
  }
  WEFT_TRY(const models::ImportedStateDict model, models::import_state_dict(files, request.model, options));
  return write(request, files, model, std::to_string(model.layers.size()) + " layers");
}

Status import_any(const ImportRequest& request) {
  WEFT_CHECK(check_output("--output", request.out, request.model));
  NotedReads files;
  const bool is_weights = models::is_state_dict_path(request.model);
  if (!is_weights && (!request.activation.empty() || request.heads != 0 || !request.order.empty()))
    return fail(Errc::invalid_argument, "--activation, --heads and --order are for a safetensors file alone");
  if (!is_weights && !request.network.empty())
    return fail(Errc::invalid_argument,
                "--network is for a safetensors file alone; other models say themselves what network they are");
  if (!request.adapter.empty() && (is_weights || models::is_onnx_path(request.model)))
    return fail(Errc::invalid_argument, "--adapter: adapters are of language models, and MODEL is none");
  if (!request.tokenizer.empty() && (is_weights || models::is_onnx_path(request.model)))
    return fail(Errc::invalid_argument, "--tokenizer: tokenizers are of language models, and MODEL is none");
  if (is_weights) return import_weights(request, files);
  if (models::is_onnx_path(request.model)) return import_graph(request, files);
  if (!request.shapes.empty() || !request.pins.empty())
    return fail(Errc::invalid_argument, "--shape and --pin are for ONNX files, and MODEL is none");
  models::ImportOptions options;
  WEFT_TRY(options.encoding, read_encoding(request.encoding));
  options.quantization_aware = request.qat;
  options.tokens = request.tokens;
  options.adapter = request.adapter;
  options.tokenizer = request.tokenizer;
  options.max_memory = request.max_memory;
  options.allow_nonfinite = request.allow_nonfinite;
  WEFT_TRY(const models::ImportedModel model, models::import_model(files, request.model, options));
  return write(request, files, model, std::string(model.family->name));
}

Status import_foreign_model(const ImportRequest& request) {
  auto imported = import_any(request);
  if (!imported && imported.error().text().ends_with("weights must be finite"))
    return fail(imported.error().code(),
                imported.error().text() + "; --allow-nonfinite makes 0 of a NaN and the largest number of an infinity");
  return imported;
}

}  // namespace

Verb add_import(CLI::App& program) {
  CLI::App* app = add_verb(program, "import", "Turn the files of a model into an .entity file");
  auto request = std::make_shared<ImportRequest>();
  add_argument(
      *app, "MODEL", request->model,
      "A folder as Hugging Face keeps it, a GGUF file, a language model of Loom, an ONNX file, or a safetensors "
      "file of weights alone")
      .required();
  add_output(*app, request->out);
  add_encoding_flags(*app, request->encoding);
  add_qat_flag(*app, request->qat);
  add_option(*app, "tokens", request->tokens, "Tokens that the network takes at once; 64, or the model's positions")
      .within(std::uint64_t{1}, std::uint64_t{65536});
  add_option(*app, "shape", request->shapes,
             "Of an ONNX file: an input's shape, NAME=1,576; may be repeated. Of weights alone: x=1,28,28")
      .one_a_flag()
      .type_name("NAME=SHAPE");
  add_option(*app, "pin", request->pins,
             "Of an ONNX file: an input as a constant, or an axis by its name, NAME=16000; may be repeated")
      .one_a_flag()
      .type_name("NAME=NUMBER");
  add_option(*app, "adapter", request->adapter,
             "Of a language model: a folder of PEFT with adapters (LoRA) that are added to its matrices")
      .type_name("FOLDER");
  add_option(*app, "tokenizer", request->tokenizer,
             "Of a language model: a folder whose tokenizer and templates are kept with it, in place of its own")
      .type_name("FOLDER");
  std::vector<std::string> activations;
  for (int i = 0; i < kernels::kActivationCount; ++i)
    activations.emplace_back(kernels::name(static_cast<kernels::Activation>(i)));
  one_of(add_option(*app, "activation", request->activation, "Of weights alone: after each layer but the last"),
         activations);
  add_option(*app, "heads", request->heads, "Of weights alone: heads of attention")
      .within(std::uint64_t{1}, std::uint64_t{65536});
  add_option(*app, "order", request->order, "Of weights alone: modules as they compute, where several orders fit")
      .one_a_flag()
      .type_name("NAME,NAME...");
  add_option(*app, "network", request->network,
             "Of weights alone: the network whose they are, a network file or an .entity file")
      .type_name("FILE");
  add_flag(
      *app, "allow-nonfinite", request->allow_nonfinite,
      "Import weights that are not finite as they reach the network: NaN becomes 0, infinities the largest number");
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "force", request->force, "Replace the file at -o whatever it is, and not a model alone");
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return import_foreign_model(*request); }};
}

}  // namespace weft::cli
