// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "models/language_model.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {
namespace {

struct GenerateRequest {
  std::string model, prompt, tokenizer;
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::uint64_t> top_k, seed, tokens, context;
  std::vector<std::string> stops;
  std::uint64_t max_memory = 0;
  bool json = false, ignore_end = false;
};

/// Text as it is into a file or a pipe; on a terminal without what it would obey, line ends and tabs aside.
void print_generated(std::string_view text) {
  if (!Terminal::of(STDOUT_FILENO).is_terminal) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find_first_of("\n\t", at), text.size());
      std::fputs(escaped(text.substr(at, end - at)).c_str(), stdout);
      if (end < text.size()) std::putchar(text[end]);
      at = end + 1;
    }
  }
  std::fflush(stdout);
}

double rate_of(std::size_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

Status generate_text(const GenerateRequest& request) {
  models::GenerateOptions options;
  options.sampler.temperature = request.temperature.value_or(options.sampler.temperature);
  options.sampler.top_k = request.top_k.value_or(options.sampler.top_k);
  options.sampler.top_p = request.top_p.value_or(options.sampler.top_p);
  options.sampler.min_p = request.min_p.value_or(options.sampler.min_p);
  options.sampler.seed = request.seed.value_or(0);
  options.most_tokens = request.tokens.value_or(options.most_tokens);
  options.context = request.context.value_or(0);
  options.stops = request.stops;
  options.ignores_ends = request.ignore_end;
  options.max_memory = request.max_memory;
  mesh::MeshOptions mesh;
  mesh.threads = 1;
  mesh.max_memory = request.max_memory;
  WEFT_TRY(const models::LanguageModel model,
           models::load_language_model(storage::real_file_system(), request.model, request.tokenizer, mesh));
  if (!request.json) print_generated(request.prompt);
  WEFT_TRY(const models::Generated made,
           models::generate(model, request.prompt, options, [&](std::string_view text) -> Status {
             if (!request.json) print_generated(text);
             return {};
           }));
  const double prompt_rate = rate_of(made.prompt.size(), made.prompt_seconds),
               rate = rate_of(made.ids.size(), made.seconds);
  if (request.json) {
    print_json({{"text", made.text},
                {"ids", made.ids},
                {"prompt_ids", made.prompt},
                {"end", std::string(made.end)},
                {"prompt_tokens_per_second", prompt_rate},
                {"tokens_per_second", rate}});
    return {};
  }
  std::putchar('\n');
  std::fflush(stdout);  // before what is said of it
  std::fprintf(stderr, "weft: %zu + %zu tokens, %.0f and %.0f a second, ended by %s\n", made.prompt.size(),
               made.ids.size(), prompt_rate, rate, std::string(made.end).c_str());
  return {};
}

}  // namespace

Verb add_generate(CLI::App& program) {
  CLI::App* app = add_verb(program, "generate", "Let a language model write on from a prompt");
  auto request = std::make_shared<GenerateRequest>();
  add_argument(*app, "MODEL", request->model, "What weft import made, or a folder or GGUF file that it takes")
      .required();
  add_option(*app, "prompt", request->prompt, "The text to go on from").required();
  add_option(*app, "tokens", request->tokens, "Tokens to write, at most; 128")
      .within(std::uint64_t{1}, std::uint64_t{16777216});
  add_option(*app, "temperature", request->temperature, "Spread of the draw; 0: always the likeliest token; 0.8")
      .within(0.0, 100.0);
  add_option(*app, "top-k", request->top_k, "Tokens that are drawn from, at most; 0: all; 40")
      .within(std::uint64_t{0}, std::uint64_t{16777216});
  add_option(*app, "top-p", request->top_p, "Likeliest tokens that are kept until their shares reach this; 0.95")
      .within(0.0, 1.0);
  add_option(*app, "min-p", request->min_p, "Least share of a token, in parts of the likeliest one's; 0.05")
      .within(0.0, 1.0);
  add_option(*app, "seed", request->seed, "Number that the draws follow from; 0");
  add_option(*app, "stop", request->stops, "A text that ends what is written; it may be given several times")
      .one_a_flag();
  add_option(*app, "context", request->context, "Tokens that are remembered; as many as are wanted")
      .within(std::uint64_t{1}, std::uint64_t{16777216});
  add_option(*app, "tokenizer", request->tokenizer, "Where the tokenizer is; the model's own");
  add_flag(*app, "ignore-end", request->ignore_end, "Go on after the token that ends a text");
  add_max_memory(*app, request->max_memory);
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return generate_text(*request); }};
}

}  // namespace weft::cli
