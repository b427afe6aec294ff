// SPDX-License-Identifier: Apache-2.0

#include "models/import.hpp"

#include "cli/encoding_flags.hpp"
#include "cli/json_line.hpp"
#include "cli/output.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "mesh/memory/memory_estimate.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <cstdio>
#include <memory>

namespace weft::cli {
namespace {

struct ImportRequest {
  std::string model, out;
  EncodingFlags encoding;
  std::size_t tokens = 0;
  std::uint64_t max_memory = 0;
  bool json = false;
};

Status import_foreign_model(const ImportRequest& request) {
  WEFT_CHECK(check_output("--output", request.out, request.model));
  models::ImportOptions options;
  WEFT_TRY(options.encoding, read_encoding(request.encoding));
  options.tokens = request.tokens;
  options.max_memory = request.max_memory;
  WEFT_TRY(const models::ImportedModel model,
           models::import_model(storage::real_file_system(), request.model, options));
  for (const std::string& note : model.notes)
    std::fprintf(stderr, "weft: note: %s: %s\n", escaped(request.model).c_str(), escaped(note).c_str());
  WEFT_CHECK(storage::write_file_durably(storage::real_file_system(), request.out, model.content));
  const std::string family(model.family->name);
  if (request.json)
    print_json({{"file", request.out},
                {"family", family},
                {"parameters", model.parameters},
                {"file_bytes", model.content.size()},
                {"notes", model.notes}});
  else
    std::printf("%s: %s, %s parameters, %s\n", escaped(request.out).c_str(), family.c_str(),
                grouped(model.parameters).c_str(), byte_size(model.content.size()).c_str());
  return {};
}

}  // namespace

Verb add_import(CLI::App& program) {
  CLI::App* app = add_verb(program, "import", "Turn a language model's files into an .entity file");
  auto request = std::make_shared<ImportRequest>();
  add_argument(*app, "MODEL", request->model, "A folder as Hugging Face keeps it, or a GGUF file").required();
  add_output(*app, request->out);
  add_encoding_flags(*app, request->encoding);
  add_option(*app, "tokens", request->tokens, "Tokens that the network takes at once; 64, or the model's positions")
      .within(std::uint64_t{1}, std::uint64_t{65536});
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return import_foreign_model(*request); }};
}

}  // namespace weft::cli
