// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/run_state.hpp"
#include "cli/verb.hpp"

#include "core/json.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

namespace weft::cli {

Verb add_hash(CLI::App& program) {
  CLI::App* app = add_verb(program, "hash", "Print the state hash of a model, or of a network freshly built");
  struct Request {
    std::string file;
    std::uint64_t max_memory = 0;
    bool json = false;
  };
  auto request = std::make_shared<Request>();
  add_argument(*app, "FILE", request->file, "A network file or an .entity file").required();
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request]() -> Status {
            WEFT_TRY(const Model model, read_model(request->file));
            mesh::MeshOptions options;
            options.threads = 1;
            options.max_memory = request->max_memory;
            auto loaded = load(model, options);
            if (!loaded) return fail(blamed(std::move(loaded).error(), request->file));
            const std::string hash = to_string(loaded->mesh->state_hash());
            if (!request->json) {
              std::printf("%s\n", hash.c_str());
              return {};
            }
            print_json({{"file", request->file},
                        {"state_hash", hash},
                        {"ticks", loaded->mesh->ticks()},
                        {"live", loaded->is_live}});
            return {};
          }};
}

}  // namespace weft::cli
