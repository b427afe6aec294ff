// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"

#include "cli/json_line.hpp"
#include "cli/output.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

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

Status export_language_model(const ExportRequest& request) {
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
  CLI::App* app = add_verb(program, "export", "Write a language model for Hugging Face's programs or llama.cpp");
  auto request = std::make_shared<ExportRequest>();
  add_argument(*app, "FILE", request->file, "What weft import made, as it is or after learning").required();
  one_of(add_option(*app, "format", request->format, "A folder of config.json and model.safetensors, or a GGUF file"),
         {"hf", "gguf"});
  add_option(*app, "model", request->model, "What weft import made, where FILE has learned since: its description");
  add_output(*app, request->out, "The folder, or the file", "PATH").required();
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return export_language_model(*request); }};
}

}  // namespace weft::cli
