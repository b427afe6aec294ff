// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"

#include "cli/json_line.hpp"
#include "cli/output.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "models/onnx/onnx_export.hpp"
#include "models/peft_export.hpp"

#include "storage/file_system.hpp"

#include "core/byte_size.hpp"
#include "core/json.hpp"
#include "core/printable.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>

namespace weft::cli {
namespace {

struct ExportRequest {
  std::string file, out, model, type, format = "hf";
  std::size_t rank = 0;  // of adapters; 0: not given
  std::string shard_size;
  std::uint64_t max_memory = 0;
  bool external_data = false, json = false, force = false;
};

Status export_graph(const ExportRequest& request) {
  WEFT_CHECK(check_output("--output", request.out, request.file));
  if (!request.shard_size.empty())
    return fail(Errc::invalid_argument,
                "--shard-size: an ONNX file has no parts, as hf and gguf have; --external-data makes two files of it");
  if (!request.model.empty())
    return fail(Errc::invalid_argument, "--model: an ONNX file needs no description of the model");
  if (!request.type.empty() && request.type != "float32" && request.type != "stored")
    return fail(Errc::invalid_argument,
                "--type: weights of an ONNX file are float32, or with 'stored' codes where "
                "they are int8, uint8, int4 or uint4; found " +
                    in_quotes(request.type));
  WEFT_TRY(const models::ExportedOnnx made,
           models::export_onnx(storage::real_file_system(), request.file, request.out,
                               {request.type == "stored", request.external_data, request.force, request.max_memory}));
  for (const std::string& note : made.notes)
    std::fprintf(stderr, "weft: note: %s: %s\n", escaped(request.out).c_str(), escaped(note).c_str());
  if (request.json)
    print_json({{"file", request.out},
                {"files", made.files},
                {"nodes", made.nodes},
                {"tensors", made.tensors},
                {"bytes", made.bytes},
                {"notes", made.notes}});
  else
    std::printf("%s: %s nodes, %s tensors, %s\n", escaped(request.out).c_str(), grouped(made.nodes).c_str(),
                grouped(made.tensors).c_str(), byte_size(made.bytes).c_str());
  return {};
}

Status export_language_model(const ExportRequest& request) {
  if (request.rank != 0 && request.format != "peft")
    return fail(Errc::invalid_argument,
                "--rank: adapters have one, which --format peft writes; --format is " + request.format);
  if (request.format == "onnx") return export_graph(request);
  if (request.external_data)
    return fail(Errc::invalid_argument,
                "--external-data: a graph has such, which --format onnx writes; --format is " + request.format);
  const bool is_gguf = request.format == "gguf", is_peft = request.format == "peft";
  if (is_peft && request.model.empty())
    return fail(Errc::invalid_argument, "--model: adapters are what FILE has learned since; say what weft import made");
  if (is_peft && !request.type.empty())
    return fail(Errc::invalid_argument, "--type: adapters are float32; found " + in_quotes(request.type));
  if (is_peft && !request.shard_size.empty())
    return fail(Errc::invalid_argument, "--shard-size: adapters are one file; hf and gguf have parts");
  models::ExportOptions options{
      .described = request.model, .type = request.type, .is_forced = request.force, .max_memory = request.max_memory};
  if (!request.shard_size.empty()) {
    auto size = parse_byte_size(request.shard_size);
    if (!size) return fail(std::move(size).error().within("--shard-size"));
    options.shard_bytes = *size;
  }
  if (is_gguf) {
    const NamedFile inputs[] = {{"FILE", request.file}, {"--model", request.model}};
    WEFT_CHECK(check_output({"--output", request.out}, {inputs, request.model.empty() ? 1u : 2u}));
  }
  WEFT_TRY(const models::Exported made,
           is_peft ? models::export_adapters(storage::real_file_system(), request.file, request.out, request.model,
                                             request.rank ? request.rank : 8, request.force, request.max_memory)
                   : models::export_model(storage::real_file_system(), request.file,
                                          is_gguf ? models::ExportFormat::gguf : models::ExportFormat::hugging_face,
                                          request.out, options));
  for (const std::string& note : made.notes)
    std::fprintf(stderr, "weft: note: %s: %s\n", escaped(request.out).c_str(), escaped(note).c_str());
  if (request.json)
    print_json({{"file", request.out},
                {"files", made.files},
                {"tensors", made.tensors},
                {"bytes", made.bytes},
                {"notes", made.notes}});
  else if (made.files.size() > 1)
    std::printf("%s and %zu more: %s tensors, %s\n", escaped(made.files.front()).c_str(), made.files.size() - 1,
                grouped(made.tensors).c_str(), byte_size(made.bytes).c_str());
  else
    std::printf("%s: %s tensors, %s\n", escaped(request.out).c_str(), grouped(made.tensors).c_str(),
                byte_size(made.bytes).c_str());
  return {};
}

}  // namespace

Verb add_export(CLI::App& program) {
  CLI::App* app = add_verb(program, "export", "Write a model for Hugging Face's programs, llama.cpp or ONNX's");
  auto request = std::make_shared<ExportRequest>();
  add_argument(*app, "FILE", request->file,
               "What weft import made, as it is or after learning; for onnx any .entity file")
      .required();
  one_of(
      add_option(
          *app, "format", request->format,
          "A folder of config.json and model.safetensors, a GGUF file, a graph, or adapters (LoRA) as PEFT has them"),
      {"hf", "gguf", "onnx", "peft"});
  add_option(*app, "model", request->model, "What weft import made, where FILE has learned since: its description");
  add_option(*app, "rank", request->rank, "Of adapters: the format peft; 8")
      .within(std::uint64_t{1}, std::uint64_t{4096});
  add_option(*app, "type", request->type,
             "Of all matrices: float32, float16, bfloat16; of GGUF also q8_0, q4_0, q4_K and so on; of ONNX "
             "float32, or stored: codes as they are; their own")
      .type_name("TYPE");
  add_option(*app, "shard-size", request->shard_size,
             "Of hf and gguf: at most so many bytes of tensors in a file, such as 2G; parts are named "
             "NAME-00001-of-00003; one file")
      .type_name("SIZE");
  add_flag(*app, "external-data", request->external_data,
           "Of onnx: weights in a second file, PATH.data; else only where one file would have 2 GiB");
  add_output(*app, request->out, "The folder, or the file", "PATH").required();
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "force", request->force, "Replace what is at PATH, whatever it is, and not a model alone");
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return export_language_model(*request); }};
}

}  // namespace weft::cli
