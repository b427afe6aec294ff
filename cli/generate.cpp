// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/verb.hpp"
#include "cli/writing_flags.hpp"

#include "models/language_model.hpp"

#include "core/json.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace weft::cli {
namespace {

struct GenerateRequest {
  WritingFlags flags;
  std::string prompt;
};

Status generate_text(GenerateRequest& request) {
  WritingFlags& flags = request.flags;
  WEFT_CHECK(read_writing_flags(flags));
  WEFT_TRY(const models::LanguageModel model, load_model(flags));
  WEFT_CHECK(take_draw(flags, model));
  WEFT_TRY(const auto draft, load_draft(flags));
  if (request.prompt == "-") {
    WEFT_TRY(request.prompt, read_standard_input());
  }
  warn_of_bytes(request.prompt, "--prompt");
  bool is_begun = false;
  const auto print = [&](std::string_view text) -> Status {
    if (flags.json) return {};
    // The prompt comes with the first text: a refusal prints nothing.
    if (!is_begun) print_written(request.prompt);
    is_begun = true;
    print_written(text);
    return {};
  };
  auto made = models::generate(model, request.prompt, flags.options, print);
  if (!made) {
    if (is_begun) print_written("\n");  // an error is no part of the text
    return fail(context_error(std::move(made).error(), "give a shorter prompt, or another --context"));
  }
  if (!is_begun) WEFT_CHECK(print(""));
  WritingTimes times;
  times.add(*made);
  if (flags.json) {
    Json object{
        {"text", made->text}, {"ids", made->ids}, {"prompt_ids", made->prompt}, {"end", std::string(made->end)}};
    times.add_to(object);
    print_json(object);
    return {};
  }
  std::putchar('\n');
  std::fflush(stdout);  // before what is said of it
  std::fprintf(stderr, "weft: %s, ended by %s\n", times.shown().c_str(), std::string(made->end).c_str());
  return {};
}

}  // namespace

Verb add_generate(CLI::App& program) {
  CLI::App* app = add_verb(program, "generate", "Let a language model write on from a prompt");
  auto request = std::make_shared<GenerateRequest>();
  add_writing_flags(*app, request->flags);
  add_option(*app, "prompt", request->prompt,
             "The text to go on from; -: standard input; an empty one: from the first token")
      .required();
  add_option(*app, "context", request->flags.options.context, "Tokens that are remembered; as many as are wanted")
      .within(std::uint64_t{1}, models::GenerateOptions::kMostTokens);
  add_flag(*app, "json", request->flags.json, "One JSON object on stdout");
  return {app, [request] { return generate_text(*request); }};
}

}  // namespace weft::cli
