// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/number.hpp"
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
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {
namespace {

struct GenerateRequest {
  std::string model, prompt, tokenizer;
  models::GenerateOptions options;
  bool json = false;
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
  mesh::MeshOptions mesh;
  mesh.threads = 1;
  mesh.max_memory = request.options.max_memory;
  WEFT_TRY(const models::LanguageModel model,
           models::load_language_model(storage::real_file_system(), request.model, request.tokenizer, mesh));
  if (!request.json) print_generated(request.prompt);
  WEFT_TRY(const models::Generated made,
           models::generate(model, request.prompt, request.options, [&](std::string_view text) -> Status {
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
  models::GenerateOptions& to = request->options;
  models::SamplerOptions& draw = to.sampler;
  constexpr std::uint64_t kMost = models::GenerateOptions::kMostTokens;
  constexpr double kMostShare = models::SamplerOptions::kMostShare;
  const auto or_else = [](const std::string& help, double value) { return help + "; " + shown(value); };
  const auto or_number = [](const std::string& help, std::uint64_t value) {
    return help + "; " + std::to_string(value);
  };
  add_option(*app, "tokens", to.most_tokens, or_number("Tokens to write, at most", to.most_tokens))
      .within(std::uint64_t{1}, kMost);
  add_option(*app, "temperature", draw.temperature,
             or_else("Spread of the draw; 0: always the likeliest token", draw.temperature))
      .within(0.0, models::SamplerOptions::kMostTemperature);
  add_option(*app, "top-k", draw.top_k, or_number("Tokens that are drawn from, at most; 0: all", draw.top_k))
      .within(std::uint64_t{0}, kMost);
  add_option(*app, "top-p", draw.top_p,
             or_else("Likeliest tokens that are kept until their shares reach this", draw.top_p))
      .within(0.0, kMostShare);
  add_option(*app, "min-p", draw.min_p, or_else("Least share of a token, in parts of the likeliest one's", draw.min_p))
      .within(0.0, kMostShare);
  add_option(*app, "seed", draw.seed, or_number("Number that the draws follow from", draw.seed));
  add_option(*app, "stop", to.stops, "A text that ends what is written; it may be given several times").one_a_flag();
  add_option(*app, "context", to.context, "Tokens that are remembered; as many as are wanted")
      .within(std::uint64_t{1}, kMost);
  add_option(*app, "tokenizer", request->tokenizer, "Where the tokenizer is; the model's own");
  add_flag(*app, "ignore-end", to.ignores_ends, "Go on after the token that ends a text");
  add_max_memory(*app, to.max_memory);
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  return {app, [request] { return generate_text(*request); }};
}

}  // namespace weft::cli
