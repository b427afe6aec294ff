// SPDX-License-Identifier: Apache-2.0

#include "text/normalizer.hpp"

#include "text/internal/byte_letters.hpp"
#include "text/internal/pattern.hpp"
#include "text/internal/rewrite_table.hpp"
#include "text/unicode.hpp"

#include "core/base64.hpp"
#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <functional>
#include <utility>
#include <vector>

namespace weft::text {
namespace {

using MadeNormalizer = Result<std::shared_ptr<const Normalizer>>;

/// A step that cannot fail.
class RewriteText final : public Normalizer {
 public:
  using Function = std::function<std::string(std::string_view)>;
  explicit RewriteText(Function function) : function_(std::move(function)) {}
  Result<std::string> apply(std::string_view fragment) const override { return function_(fragment); }

 private:
  Function function_;
};
MadeNormalizer rewrite_text(RewriteText::Function function) {
  return MadeNormalizer(std::make_shared<const RewriteText>(std::move(function)));
}

/// A step that a file names: what it makes has a bound, and what it fails with names it.
class NamedStep final : public Normalizer {
 public:
  NamedStep(std::shared_ptr<const Normalizer> step, std::string path)
      : step_(std::move(step)), path_(std::move(path)) {}
  Result<std::string> apply(std::string_view fragment) const override {
    auto made = step_->apply(fragment);
    if (!made) return fail(std::move(made).error().within(path_));
    if (auto bounded = check_made_text(made->size()); !bounded) return fail(Error(bounded.error()).within(path_));
    return made;
  }

 private:
  std::shared_ptr<const Normalizer> step_;
  std::string path_;
};

class NormalizerSteps final : public Normalizer {
 public:
  explicit NormalizerSteps(std::vector<std::shared_ptr<const Normalizer>> steps) : steps_(std::move(steps)) {}
  Result<std::string> apply(std::string_view fragment) const override {
    std::string text(fragment);
    for (const auto& step : steps_) {
      WEFT_TRY(text, step->apply(text));
    }
    return text;
  }

 private:
  std::vector<std::shared_ptr<const Normalizer>> steps_;
};

class ReplaceMatches final : public Normalizer {
 public:
  ReplaceMatches(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Result<std::string> apply(std::string_view fragment) const override {
    std::string text;
    std::size_t end = 0;
    WEFT_CHECK(pattern_.each_match(fragment, [&](std::size_t begin, std::size_t after) {
      text += fragment.substr(end, begin - end);
      if (text.size() <= kMostText) text += content_;
      end = after;
    }));
    WEFT_CHECK(check_made_text(text.size()));
    text += fragment.substr(end);
    return text;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

std::string strip(std::string_view text, bool left, bool right) {
  std::size_t begin = 0, end = text.size();
  for (std::size_t at = 0; left && at < text.size();) {
    if (!is_white_space(next_code_point(text, at))) break;
    begin = at;
  }
  for (std::size_t at = end; right && at > begin;) {
    if (!is_white_space(previous_code_point(text, at))) break;
    end = at;
  }
  return std::string(text.substr(begin, end - begin));
}

std::string without_marks(std::string_view text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();)
    if (const char32_t c = next_code_point(text, at); !is_mark(c)) append_utf8(kept, c);
  return kept;
}

bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                       {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                                       {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kRanges)
    if (c >= first && c <= last) return true;
  return false;
}

struct BertOptions {
  bool clean_text = true, handle_chinese_chars = true, strip_accents = true, lowercase = true;
};
std::string bert(std::string_view text, const BertOptions& options) {
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const bool is_line = c == '\t' || c == '\n' || c == '\r';
    if (options.clean_text && (c == 0 || c == 0xFFFD || (!is_line && is_other(c)))) continue;
    if (options.clean_text && (is_line || is_white_space(c)))
      made += ' ';
    else if (options.handle_chinese_chars && is_chinese(c))
      made += ' ', append_utf8(made, c), made += ' ';
    else
      append_utf8(made, c);
  }
  if (options.strip_accents) {
    const std::string apart = normalized(made, NormalForm::nfd);
    made.clear();
    // Nonspacing marks alone, as the original has it.
    for (std::size_t at = 0; at < apart.size();)
      if (const char32_t c = next_code_point(apart, at); !is_nonspacing_mark(c)) append_utf8(made, c);
  }
  return options.lowercase ? lower_case(made) : made;
}

MadeNormalizer make_normalizer_steps(JsonReader& reader) {
  WEFT_TRY(const auto list, reader.array("normalizers", 0, 64));
  std::vector<std::shared_ptr<const Normalizer>> steps;
  for (const JsonValue& one : list) {
    WEFT_TRY(auto step, make_normalizer(one.raw(), one.path()));
    if (step) steps.push_back(std::move(step));
  }
  return MadeNormalizer(std::make_shared<const NormalizerSteps>(std::move(steps)));
}

MadeNormalizer make_bert(JsonReader& reader) {
  BertOptions options;
  WEFT_TRY(options.clean_text, reader.boolean_or("clean_text", true));
  WEFT_TRY(options.handle_chinese_chars, reader.boolean_or("handle_chinese_chars", true));
  WEFT_TRY(options.lowercase, reader.boolean_or("lowercase", true));
  options.strip_accents = options.lowercase;
  if (const auto accents = reader.find("strip_accents"); accents && !accents->is_null()) {
    WEFT_TRY(options.strip_accents, accents->boolean());
  }
  return rewrite_text([options](std::string_view text) { return bert(text, options); });
}

MadeNormalizer make_normalizer_of_type(const std::string& type, JsonReader& reader) {
  if (type == "Sequence") return make_normalizer_steps(reader);
  if (type == "NFC") return rewrite_text([](std::string_view text) { return normalized(text, NormalForm::nfc); });
  if (type == "NFD") return rewrite_text([](std::string_view text) { return normalized(text, NormalForm::nfd); });
  if (type == "NFKC") return rewrite_text([](std::string_view text) { return normalized(text, NormalForm::nfkc); });
  if (type == "NFKD") return rewrite_text([](std::string_view text) { return normalized(text, NormalForm::nfkd); });
  if (type == "Lowercase") return rewrite_text(lower_case);
  if (type == "StripAccents") return rewrite_text(without_marks);
  if (type == "ByteLevel") return rewrite_text(to_byte_letters);
  if (type == "BertNormalizer") return make_bert(reader);
  if (type == "Strip") {
    WEFT_TRY(const bool left, reader.boolean_or("strip_left", true));
    WEFT_TRY(const bool right, reader.boolean_or("strip_right", true));
    return rewrite_text([left, right](std::string_view text) { return strip(text, left, right); });
  }
  if (type == "Prepend" || type == "Append") {
    const bool is_before = type == "Prepend";
    WEFT_TRY(const std::string added, reader.string(is_before ? "prepend" : "append"));
    return rewrite_text([added, is_before](std::string_view text) {
      if (text.empty()) return std::string();
      return is_before ? added + std::string(text) : std::string(text) + added;
    });
  }
  if (type == "Precompiled") {
    WEFT_TRY(const std::string text, reader.string("precompiled_charsmap", std::size_t{128} << 20));
    auto bytes = from_base64(text);
    if (!bytes) return fail(std::move(bytes).error().within(reader.path() + ".precompiled_charsmap"));
    auto table = RewriteTable::read(*bytes);
    if (!table) return fail(std::move(table).error().within(reader.path() + ".precompiled_charsmap"));
    return make_cluster_normalizer(std::make_shared<const RewriteTable>(*std::move(table)));
  }
  if (type == "Replace") {
    WEFT_TRY(const JsonValue value, reader.value("pattern"));
    WEFT_TRY(Pattern pattern, Pattern::read(value));
    WEFT_TRY(std::string content, reader.string("content"));
    return MadeNormalizer(std::make_shared<const ReplaceMatches>(std::move(pattern), std::move(content)));
  }
  return fail(Errc::unsupported, reader.path() + ": normalizer " + in_quotes(type) + " is not supported");
}

}  // namespace

Result<std::shared_ptr<const Normalizer>> make_normalizer(const Json& json, const std::string& path) {
  if (json.is_null()) return std::shared_ptr<const Normalizer>();
  WEFT_TRY(JsonReader reader, JsonReader::open(json, path));
  WEFT_TRY(const std::string type, reader.string("type"));
  WEFT_TRY(auto made, make_normalizer_of_type(type, reader));
  WEFT_CHECK(reader.finish());
  if (type != "Sequence") made = std::make_shared<const NamedStep>(std::move(made), path);
  return made;
}

Status check_made_text(std::size_t made, std::size_t most) {
  if (made <= most) return {};
  return fail(Errc::too_large, "makes more than " + std::to_string(most >> 20) + " MiB of a text");
}

}  // namespace weft::text
