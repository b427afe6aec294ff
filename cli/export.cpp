// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"

#include "cli/json_line.hpp"
#include "cli/output.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "models/onnx/onnx_export.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <cstdio>
#include <memory>

namespace weft::cli {
namespace {

struct ExportRequest {
  std::string file, out, model, format = "hf";
  bool json = false;
};

Status export_graph(const ExportRequest& request) {
  WEFT_CHECK(check_output("--output", request.out, request.file));
  if (!request.model.empty())
    return fail(Errc::invalid_argument, "--model: an ONNX file needs no description of the model");
  WEFT_TRY(const models::ExportedOnnx made,
           models::export_onnx(storage::real_file_system(), request.file, request.out));
  for (const std::string& note : made.notes)
    std::fprintf(stderr, "weft: note: %s: %s\n", escaped(request.out).c_str(), escaped(note).c_str());
  if (request.json)
    print_json({{"file", request.out},
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
  if (request.format == "onnx") return export_graph(request);
  const bool is_gguf = request.format == "gguf";
  if (is_gguf) WEFT_CHECK(check_output("--output", request.out, request.file));
  WEFT_TRY(const models::Exported made,
           models::export_model(storage::real_file_system(), request.file,
                                is_gguf ? models::ExportFormat::gguf : models::ExportFormat::hugging_face, request.out,
                                request.model));
  for (const std::string& note : made.notes)
    std::fprintf(stderr, "weft: note: %s: %s\n", escaped(request.out).c_str(), escaped(note).c_str());
  if (request.json)
    print_json({{"file", request.out}, {"tensors", made.tensors}, {"bytes", made.bytes}, {"notes", made.notes}});
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
  one_of(add_option(*app, "format", request->format,
                    "A folder of config.json and model.safetensors, a GGUF file, or a graph"),
         {"hf", "gguf", "onnx"});
  add_option(*app, "model", request->model, "What weft import made, where FILE has learned since: its description");
  add_output(*app, request->out, "The folder, or the file", "PATH").required();
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return export_language_model(*request); }};
}

}  // namespace weft::cli
