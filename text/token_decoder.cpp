// SPDX-License-Identifier: Apache-2.0

#include "text/token_decoder.hpp"

#include "text/internal/byte_letters.hpp"
#include "text/internal/metaspace.hpp"
#include "text/internal/pattern.hpp"
#include "text/unicode.hpp"

#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weft::text {
namespace {

using Tokens = std::vector<std::string>;
using MadeDecoder = Result<std::shared_ptr<const TokenDecoder>>;

class RewriteTokens final : public TokenDecoder {
 public:
  explicit RewriteTokens(std::function<void(Tokens&)> function, std::size_t growth)
      : function_(std::move(function)), growth_(growth) {}
  void apply(Tokens& tokens) const override { function_(tokens); }
  std::size_t growth() const noexcept override { return growth_; }

 private:
  std::function<void(Tokens&)> function_;
  std::size_t growth_;
};
MadeDecoder rewrite_tokens(std::function<void(Tokens&)> function, std::size_t growth = 1) {
  return MadeDecoder(std::make_shared<const RewriteTokens>(std::move(function), growth));
}

void fuse(Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

void from_bytes(Tokens& tokens) {
  for (std::string& token : tokens) token = from_byte_letters(token);
  fuse(tokens);
  tokens.front() = replace_invalid(tokens.front());
}

std::optional<std::uint8_t> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : token.substr(3, 2)) {
    const char lower = static_cast<char>(c | 32);
    const bool is_digit = c >= '0' && c <= '9', is_letter = lower >= 'a' && lower <= 'f';
    if (!is_digit && !is_letter) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(is_digit ? c - '0' : lower - 'a' + 10);
  }
  return static_cast<std::uint8_t>(value);
}

/// Runs of byte tokens become their text, or where they are no UTF-8 one U+FFFD for each.
void join_bytes(Tokens& tokens) {
  Tokens made;
  std::string run;
  const auto end_run = [&] {
    if (run.empty()) return;
    if (valid_prefix(run) == run.size()) {
      made.push_back(run);
    } else {
      for (std::size_t i = 0; i < run.size(); ++i) made.emplace_back("\uFFFD");
    }
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      run += static_cast<char>(*byte);
      continue;
    }
    end_run();
    made.push_back(std::move(token));
  }
  end_run();
  tokens = std::move(made);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string made;
  std::size_t end = 0;
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, end)) {
    made.append(text, end, at - end).append(to);
    end = at + from.size();
  }
  text = made.append(text, end);
}

void strip_ends(std::string& token, std::string_view content, std::size_t start, std::size_t stop) {
  std::size_t begin = 0, end = token.size();
  const std::string_view view = token;
  for (; start > 0 && view.substr(begin, content.size()) == content && begin < end; --start) begin += content.size();
  for (; stop > 0 && end - begin >= content.size() && view.substr(end - content.size(), content.size()) == content;
       --stop)
    end -= content.size();
  token = token.substr(begin, end - begin);
}

void from_metaspace(Tokens& tokens, const Metaspace& options) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool vanishes = i == 0 && options.scheme != Metaspace::Scheme::never;
    replace_all(tokens[i], options.replacement, vanishes ? "" : " ");
  }
}

void clean_up(std::string& token) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kPairs) replace_all(token, from, to);
}

void from_word_piece(Tokens& tokens, std::string_view prefix, bool cleans) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i != 0) {
      if (tokens[i].starts_with(prefix))
        tokens[i].erase(0, prefix.size());
      else
        tokens[i].insert(0, 1, ' ');
    }
    if (cleans) clean_up(tokens[i]);
  }
}

/// Bytes that a step makes of one, at most, where that may be many.
constexpr std::size_t kMostGrowth = 256;
Status check_growth(std::size_t growth, const std::string& path) {
  if (growth <= kMostGrowth) return {};
  return fail(Errc::too_large, path + ": makes " + std::to_string(growth) +
                                   " bytes of one, with the steps before it; " + "at most " +
                                   std::to_string(kMostGrowth) + " are taken");
}

MadeDecoder make_decoder_steps(JsonReader& reader) {
  WEFT_TRY(const auto list, reader.array("decoders", 0, 64));
  std::vector<std::shared_ptr<const TokenDecoder>> steps;
  std::size_t growth = 1;
  for (const JsonValue& one : list) {
    WEFT_TRY(auto step, make_token_decoder(one.raw(), one.path()));
    if (!step) continue;
    growth *= step->growth();
    WEFT_CHECK(check_growth(growth, one.path()));
    steps.push_back(std::move(step));
  }
  return rewrite_tokens(
      [steps = std::move(steps)](Tokens& tokens) {
        for (const auto& step : steps) step->apply(tokens);
      },
      growth);
}

MadeDecoder make_replace(JsonReader& reader) {
  WEFT_TRY(const JsonValue value, reader.value("pattern"));
  WEFT_TRY(const Pattern pattern, Pattern::read(value));
  WEFT_TRY(const std::string content, reader.string("content"));
  const std::size_t growth = std::max<std::size_t>(1, (content.size() + pattern.least() - 1) / pattern.least());
  WEFT_CHECK(check_growth(growth, reader.path()));
  return rewrite_tokens(
      [pattern, content](Tokens& tokens) {
        for (std::string& token : tokens) {
          std::string made;
          std::size_t end = 0;
          const Status status = pattern.each_match(token, [&](std::size_t begin, std::size_t after) {
            made.append(token, end, begin - end).append(content);
            end = after;
          });
          if (status) token = made.append(token, end);  // a token that takes too long stays as it is
        }
      },
      growth);
}

MadeDecoder make_decoder_of_type(const std::string& type, JsonReader& reader) {
  if (type == "Sequence") return make_decoder_steps(reader);
  if (type == "Replace") return make_replace(reader);
  if (type == "Fuse") return rewrite_tokens(fuse);
  if (type == "ByteFallback") return rewrite_tokens(join_bytes);
  if (type == "ByteLevel") {
    for (const char* const unused : {"add_prefix_space", "trim_offsets", "use_regex"}) (void)reader.find(unused);
    return rewrite_tokens(from_bytes);
  }
  if (type == "Strip") {
    WEFT_TRY(const std::string content, reader.string("content", 4));
    WEFT_TRY(const std::uint32_t start, reader.u32("start"));
    WEFT_TRY(const std::uint32_t stop, reader.u32("stop"));
    if (content.empty()) return fail(Errc::parse_failed, reader.path_of("content") + ": is empty");
    return rewrite_tokens([content, start, stop](Tokens& tokens) {
      for (std::string& token : tokens) strip_ends(token, content, start, stop);
    });
  }
  if (type == "Metaspace") {
    WEFT_TRY(const Metaspace options, Metaspace::read(reader));
    (void)reader.find("split");
    return rewrite_tokens([options](Tokens& tokens) { from_metaspace(tokens, options); });
  }
  if (type == "WordPiece") {
    WEFT_TRY(const std::string prefix, reader.string_or("prefix", "##"));
    WEFT_TRY(const bool cleans, reader.boolean_or("cleanup", true));
    return rewrite_tokens([prefix, cleans](Tokens& tokens) { from_word_piece(tokens, prefix, cleans); });
  }
  if (type == "BPEDecoder") {
    WEFT_TRY(const std::string suffix, reader.string_or("suffix", "</w>"));
    return rewrite_tokens([suffix](Tokens& tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
    });
  }
  return fail(Errc::unsupported, reader.path() + ": decoder " + in_quotes(type) + " is not supported");
}

}  // namespace

Result<std::shared_ptr<const TokenDecoder>> make_token_decoder(const Json& json, const std::string& path) {
  if (json.is_null()) return std::shared_ptr<const TokenDecoder>();
  WEFT_TRY(JsonReader reader, JsonReader::open(json, path));
  WEFT_TRY(const std::string type, reader.string("type"));
  WEFT_TRY(auto made, make_decoder_of_type(type, reader));
  WEFT_CHECK(reader.finish());
  return made;
}

}  // namespace weft::text
