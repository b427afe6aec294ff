// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/mesh_table.hpp"
#include "server/model_table.hpp"
#include "server/router.hpp"
#include "server/worker.hpp"

#include <string>

namespace weft::server {

/// Parts of a server that the routes of language models need. Lasts as long as the router that they were added to.
struct LanguageContext {
  ModelTable& models;
  MeshTable& meshes;
  Worker& worker;        ///< reads requests
  Worker& large_worker;  ///< reads large ones: the tokens of a text of 8 MiB take seconds
  const std::string version;
  Worker& loader;                     ///< reads files of weights
  const std::string model_directory;  ///< of files that clients may name; empty: none
  const bool allows_weights = false;  ///< routes that replace weights
};

/// OpenAI's: `/v1/models`, `/v1/completions`, `/v1/chat/completions`, `/v1/embeddings`.
void add_model_routes(Router& router, LanguageContext& context);
void add_completion_routes(Router& router, LanguageContext& context);
void add_chat_routes(Router& router, LanguageContext& context);
void add_embedding_routes(Router& router, LanguageContext& context);
/// llama.cpp's: `/props`, `/slots`, `/tokenize`, `/detokenize`, `/completion`.
void add_llama_routes(Router& router, LanguageContext& context);
void add_llama_completion_routes(Router& router, LanguageContext& context);
/// SGLang's: `/get_model_info`, `/flush_cache`, `/abort_request`, `/pause_generation`, `/continue_generation`.
void add_sglang_routes(Router& router, LanguageContext& context);

}  // namespace weft::server
