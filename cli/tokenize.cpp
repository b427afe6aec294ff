// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"
#include "cli/writing_flags.hpp"

#include "models/kept_tokenizer.hpp"

#include "formats/entity/entity.hpp"
#include "storage/file_system.hpp"
#include "text/tokenizer_file.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

struct TokenizeRequest {
  std::string model;
  std::optional<std::string> text;
  bool ids = false, json = false, decode = false, no_special = false, literal = false, batch = false;
  std::size_t samples = 0;  // tokens of a row; 0: no rows
};

/// Numbers with spaces, line ends or commas between them.
Result<std::vector<text::TokenId>> parse_ids(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,";
  std::vector<text::TokenId> ids;
  for (std::size_t at = text.find_first_not_of(kBetween); at != text.npos; at = text.find_first_not_of(kBetween, at)) {
    const std::string_view word = text.substr(at, text.find_first_of(kBetween, at) - at);
    text::TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      return fail(Errc::invalid_argument, "--decode: " + in_quotes(word) + " is no token's number");
    ids.push_back(id);
    at += word.size();
  }
  return ids;
}

/// Text as it is into a file or a pipe; on a terminal without what it would obey, line ends and tabs aside.
void print_text(std::string_view text) {
  if (!Terminal::of(STDOUT_FILENO).is_terminal) return void(std::fwrite(text.data(), 1, text.size(), stdout));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    std::fputs(escaped(text.substr(at, end - at)).c_str(), stdout);
    if (end < text.size()) std::putchar(text[end]);
    at = end + 1;
  }
  if (!text.ends_with('\n')) std::putchar('\n');
}

void print_tokens(const text::Tokenizer& tokenizer, const std::vector<text::TokenId>& ids, std::size_t bytes) {
  Table table({{"id", Table::Align::right}, {"token"}, {"kind"}});
  for (const text::TokenId id : ids) {
    const std::string* const token = tokenizer.token(id);  // none: a post-processor may name any number
    table.add({std::to_string(id), token ? *token : "",
               tokenizer.is_special(id) ? "special"
               : token                  ? "-"
                                        : "unknown"});
  }
  std::fputs(table.text(Terminal::of(STDOUT_FILENO).columns()).c_str(), stdout);
  std::printf("%s tokens of %s bytes\n", grouped(ids.size()).c_str(), grouped(bytes).c_str());
}

/// A row for each sequence of `length` tokens, behind one another: the tokens, and those that come after each of them.
Status print_samples(const std::vector<text::TokenId>& ids, std::size_t length) {
  if (ids.size() <= length)
    return fail(Errc::invalid_argument, "--samples " + std::to_string(length) + ": the text has " +
                                            std::to_string(ids.size()) + " tokens, and a row takes one more than that");
  for (const char kind : {'t', 'n'})
    for (std::size_t i = 0; i < length; ++i) std::printf(kind == 'n' || i > 0 ? ",%c%zu" : "%c%zu", kind, i);
  std::putchar('\n');
  for (std::size_t at = 0; at + length < ids.size(); at += length) {
    for (std::size_t i = 0; i < 2 * length; ++i)
      std::printf(i == 0 ? "%u" : ",%u", ids[at + (i < length ? i : i - length + 1)]);
    std::putchar('\n');
  }
  return {};
}

Json described(const text::Tokenizer& tokenizer, const std::vector<text::TokenId>& ids, std::size_t bytes) {
  Json tokens = Json::array();
  for (const text::TokenId id : ids) {
    const std::string* const token = tokenizer.token(id);
    tokens.push_back(token ? Json(*token) : Json());
  }
  return {{"ids", ids}, {"tokens", std::move(tokens)}, {"bytes", bytes}, {"decoded", tokenizer.decode(ids)}};
}

void print_ids(const std::vector<text::TokenId>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) std::printf(i == 0 ? "%u" : " %u", ids[i]);
  std::putchar('\n');
}

/// A text of JSON on each line of standard input, and a line of numbers for each.
Status tokenize_lines(const text::Tokenizer& tokenizer, const text::EncodeOptions& options) {
  WEFT_TRY(const std::string input, read_standard_input());
  std::string_view rest = input;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string object = "standard input, line " + std::to_string(line);
    WEFT_TRY(const Json json, parse_json(rest.substr(0, end), object));
    if (!json.is_string()) return fail(Errc::parse_failed, object + ": expected a JSON text, such as \"a b\"");
    WEFT_TRY(const auto ids, tokenizer.encode(json.text(), options));
    print_ids(ids);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

/// The tokenizer that an .entity file keeps, or that of another program's file.
Result<text::Tokenizer> load_any_tokenizer(const std::string& path) {
  storage::FileSystem& files = storage::real_file_system();
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return text::load_tokenizer(files, path);
  WEFT_TRY(storage::MappedFile bytes, files.map(path, std::size_t{1} << 44));
  const std::string_view begin = as_text(bytes.bytes()).substr(0, 9);
  if (begin.size() == 9 && begin[7] == '\0' && begin[8] == '{')
    return fail(Errc::parse_failed, path +
                                        ": a safetensors file has weights and no tokenizer; give its folder, "
                                        "or the tokenizer.json");
  if (!formats::is_entity(bytes.bytes())) return text::load_tokenizer(files, path);
  WEFT_TRY(const formats::EntityFile file, formats::decode_entity(std::move(bytes), path));
  auto kept = models::kept_tokenizer(file);
  if (!kept) return fail(std::move(kept).error().within(path));
  if (!*kept)
    return fail(Errc::not_found, path + ": holds no tokenizer; only what weft import made of a language model does");
  return **std::move(kept);
}

Status tokenize(const TokenizeRequest& request) {
  auto tokenizer = load_any_tokenizer(request.model);
  if (!tokenizer) return fail(std::move(tokenizer).error());
  const text::EncodeOptions options{.add_special = !request.no_special, .parse_special = !request.literal};
  if (request.batch && (request.decode || request.json || request.samples != 0 || request.text))
    return fail(Errc::invalid_argument,
                "--batch: takes texts from standard input and prints their tokens' numbers; without TEXT, --decode, "
                "--json and --samples");
  if (request.batch) return tokenize_lines(*tokenizer, options);
  std::string text = request.text.value_or("-");
  if (text == "-") {
    WEFT_TRY(text, read_standard_input());
  }
  if (request.decode) {
    WEFT_TRY(const auto ids, parse_ids(text));
    for (const text::TokenId id : ids)
      if (!request.json && !tokenizer->token(id))
        return fail(Errc::out_of_range, "--decode: there is no token " + std::to_string(id) + " in " + request.model +
                                            "; its numbers are below " + std::to_string(tokenizer->size()));
    if (request.json)
      print_json(described(*tokenizer, ids, text.size()));
    else
      print_text(tokenizer->decode(ids, request.no_special));
    return {};
  }
  warn_of_bytes(text, request.text.value_or("-") == "-" ? "standard input" : "TEXT");
  WEFT_TRY(const auto ids, tokenizer->encode(text, options));
  if (request.samples != 0) return print_samples(ids, request.samples);
  if (request.json) return print_json(described(*tokenizer, ids, text.size())), Status();
  if (!request.ids) return print_tokens(*tokenizer, ids, text.size()), Status();
  return print_ids(ids), Status();
}

}  // namespace

Verb add_tokenize(CLI::App& program) {
  CLI::App* app = add_verb(program, "tokenize", "Show the tokens of a text, or the text of tokens");
  auto request = std::make_shared<TokenizeRequest>();
  add_argument(*app, "MODEL", request->model,
               "A model's folder, a tokenizer.json, a GGUF file, or what weft import made")
      .required();
  add_argument(*app, "TEXT", request->text, "The text; without it, or for -, standard input");
  add_flag(*app, "ids", request->ids, "The tokens' numbers alone, on one line");
  add_option(*app, "samples", request->samples,
             "A table for weft run: rows of so many tokens t0, t1, ... and of those after each, n0, n1, ...")
      .within(std::uint64_t{1}, std::uint64_t{65536});
  add_flag(*app, "batch", request->batch,
           "Each line of standard input is a text of JSON, and gets a line of its tokens' numbers");
  add_flag(*app, "json", request->json, "One JSON object on stdout");
  add_flag(*app, "decode", request->decode, "TEXT is tokens' numbers; print what they say");
  add_flag(*app, "no-special", request->no_special,
           "Without the tokens around a text; with --decode, without any special token");
  add_flag(*app, "literal", request->literal, "Take special tokens that the text spells out as text");
  return {app, [request]() -> Status {
            if (request->decode && (request->ids || request->literal || request->samples != 0))
              return fail(Errc::invalid_argument,
                          "--decode makes text: it goes with none of --ids, --samples and --literal");
            if (request->samples != 0 && (request->ids || request->json))
              return fail(Errc::invalid_argument, "--samples makes a table: it goes with neither --ids nor --json");
            return tokenize(*request);
          }};
}

}  // namespace weft::cli
