// SPDX-License-Identifier: Apache-2.0

#include "text/pre_tokenizer.hpp"

#include "text/internal/byte_letters.hpp"
#include "text/internal/metaspace.hpp"
#include "text/internal/pattern.hpp"
#include "text/normalizer.hpp"
#include "text/unicode.hpp"

#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace weft::text {
namespace {

using MadePreTokenizer = Result<std::shared_ptr<const PreTokenizer>>;
/// Calls back with each match, from left to right.
using Matches = std::function<Status(std::string_view, const std::function<void(std::size_t, std::size_t)>&)>;

/// The use of matches in a split.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
std::optional<Behavior> parse_behavior(std::string_view name) {
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  return std::nullopt;
}
const std::vector<std::string_view> kBehaviors{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                               "Contiguous"};

/// A run of the text: a match or a gap between two.
struct Run {
  std::size_t begin, end;
  bool is_match;
};

Result<std::vector<Run>> runs_of(std::string_view text, const Matches& matches, bool invert) {
  std::vector<Run> runs;
  std::size_t end = 0;
  WEFT_CHECK(matches(text, [&](std::size_t begin, std::size_t after) {
    if (begin > end) runs.push_back({end, begin, invert});
    runs.push_back({begin, after, !invert});
    end = after;
  }));
  if (end < text.size()) runs.push_back({end, text.size(), invert});
  return runs;
}

/// Runs joined as the behaviour says.
std::vector<Run> merged(const std::vector<Run>& runs, Behavior behavior) {
  std::vector<Run> made;
  bool is_open = false;  // the last one takes the next
  for (const Run& run : runs) {
    if (behavior == Behavior::removed && run.is_match) continue;
    bool joins = false;
    if (behavior == Behavior::contiguous) joins = !made.empty() && made.back().is_match == run.is_match;
    // A match joins a gap before it; a second match stands alone.
    if (behavior == Behavior::merged_with_previous) joins = run.is_match && !made.empty() && !made.back().is_match;
    if (behavior == Behavior::merged_with_next) joins = is_open && !run.is_match;
    is_open = behavior == Behavior::merged_with_next && run.is_match;
    if (!joins) {
      made.push_back(run);
      continue;
    }
    made.back().end = run.end;
    if (behavior == Behavior::merged_with_previous) made.back().is_match = true;
  }
  return made;
}

class Split final : public PreTokenizer {
 public:
  Split(Matches matches, Behavior behavior, bool invert = false)
      : matches_(std::move(matches)), behavior_(behavior), invert_(invert) {}
  Status split(Fragment fragment, std::vector<Fragment>& fragments) const override {
    WEFT_TRY(const std::vector<Run> runs, runs_of(fragment.text, matches_, invert_));
    for (const Run& run : merged(runs, behavior_))
      fragments.push_back({fragment.text.substr(run.begin, run.end - run.begin), fragment.is_first && run.begin == 0});
    return {};
  }

 private:
  Matches matches_;
  Behavior behavior_;
  bool invert_;
};

class SplitSteps final : public PreTokenizer {
 public:
  explicit SplitSteps(std::vector<std::shared_ptr<const PreTokenizer>> steps, std::string path = "pre_tokenizer")
      : steps_(std::move(steps)), path_(std::move(path)) {}
  Status split(Fragment fragment, std::vector<Fragment>& fragments) const override {
    // Letters for bytes and U+2581 before pieces take some times the bytes of a text; steps in a row multiply.
    const std::size_t most = std::min(4 * kMostText, 16 * std::max(fragment.text.size(), std::size_t{1} << 16));
    std::vector<Fragment> now, next;
    now.push_back(std::move(fragment));
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      next.clear();
      std::size_t made = 0;
      for (Fragment& one : now) {
        std::size_t counted = next.size();
        WEFT_CHECK(steps_[i]->split(std::move(one), next));
        for (; counted < next.size(); ++counted) made += next[counted].text.size();
        if (const Status bounded = check_made_text(made, most); !bounded)
          return fail(Error(bounded.error()).within(path_ + "[" + std::to_string(i) + "]"));
      }
      now.swap(next);
    }
    for (Fragment& one : now) fragments.push_back(std::move(one));
    return {};
  }

 private:
  std::vector<std::shared_ptr<const PreTokenizer>> steps_;
  std::string path_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool adds_space, std::optional<Expression> expression)
      : adds_space_(adds_space), expression_(std::move(expression)) {}
  Status split(Fragment fragment, std::vector<Fragment>& fragments) const override {
    if (adds_space_ && !fragment.text.starts_with(' ')) fragment.text.insert(0, 1, ' ');
    if (!expression_) {
      if (!fragment.text.empty()) fragments.push_back({to_byte_letters(fragment.text), fragment.is_first});
      return {};
    }
    const auto matches = [this](std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) {
      return expression_->each_match(text, found);
    };
    WEFT_TRY(const std::vector<Run> runs, runs_of(fragment.text, matches, false));
    for (const Run& run : runs)
      fragments.push_back({to_byte_letters(std::string_view(fragment.text).substr(run.begin, run.end - run.begin)),
                           fragment.is_first && run.begin == 0});
    return {};
  }

 private:
  bool adds_space_;
  std::optional<Expression> expression_;
};

class MetaspaceSplit final : public PreTokenizer {
 public:
  MetaspaceSplit(Metaspace options, bool splits) : options_(std::move(options)), splits_(splits) {}
  Status split(Fragment fragment, std::vector<Fragment>& fragments) const override {
    std::string text;
    for (const char c : fragment.text) c == ' ' ? text += options_.replacement : text += c;
    const bool prepends = options_.scheme == Metaspace::Scheme::always ||
                          (options_.scheme == Metaspace::Scheme::first && fragment.is_first);
    if (prepends && !text.starts_with(options_.replacement)) text.insert(0, options_.replacement);
    if (text.empty()) return {};
    if (!splits_) return void(fragments.push_back({std::move(text), fragment.is_first})), Status();
    return Split([this](std::string_view whole,
                        const auto& found) { return Pattern(options_.replacement).each_match(whole, found); },
                 Behavior::merged_with_next)
        .split({std::move(text), fragment.is_first}, fragments);
  }

 private:
  Metaspace options_;
  bool splits_;
};

/// Matches of one character each.
Matches characters(std::function<bool(char32_t)> is_match) {
  return [is_match = std::move(is_match)](std::string_view text,
                                          const std::function<void(std::size_t, std::size_t)>& found) -> Status {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (is_match(next_code_point(text, at))) found(begin, at);
    }
    return {};
  };
}
Matches matches_of(Pattern pattern) {
  return [pattern = std::move(pattern)](std::string_view text,
                                        const std::function<void(std::size_t, std::size_t)>& found) {
    return pattern.each_match(text, found);
  };
}
template <class T, class... Arguments>
MadePreTokenizer made(Arguments&&... arguments) {
  return MadePreTokenizer(std::make_shared<const T>(std::forward<Arguments>(arguments)...));
}

bool is_split_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'));
  return is_punctuation(c);
}

MadePreTokenizer make_split_steps(JsonReader& reader) {
  WEFT_TRY(const auto list, reader.array("pretokenizers", 0, 64));
  std::vector<std::shared_ptr<const PreTokenizer>> steps;
  for (const JsonValue& one : list) {
    WEFT_TRY(auto step, make_pre_tokenizer(one.raw(), one.path()));
    if (step) steps.push_back(std::move(step));
  }
  return made<SplitSteps>(std::move(steps), reader.path_of("pretokenizers"));
}

MadePreTokenizer make_byte_level(JsonReader& reader) {
  WEFT_TRY(const bool adds_space, reader.boolean_or("add_prefix_space", true));
  WEFT_TRY(const bool unused, reader.boolean_or("trim_offsets", true));
  (void)unused;  // of offsets, which nobody asks for
  WEFT_TRY(const bool splits, reader.boolean_or("use_regex", true));
  std::optional<Expression> expression;
  if (splits) {
    constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    WEFT_TRY(expression, Expression::compile(kGpt2));
  }
  return made<ByteLevel>(adds_space, std::move(expression));
}

MadePreTokenizer make_split(JsonReader& reader) {
  WEFT_TRY(const JsonValue value, reader.value("pattern"));
  WEFT_TRY(Pattern pattern, Pattern::read(value));
  WEFT_TRY(const Behavior behavior, reader.one_of("behavior", parse_behavior, kBehaviors));
  WEFT_TRY(const bool invert, reader.boolean_or("invert", false));
  return made<Split>(matches_of(std::move(pattern)), behavior, invert);
}

MadePreTokenizer make_by_characters(const std::string& type, JsonReader& reader) {
  if (type == "Digits") {
    WEFT_TRY(const bool one_by_one, reader.boolean_or("individual_digits", false));
    return made<Split>(characters(is_number), one_by_one ? Behavior::isolated : Behavior::contiguous);
  }
  if (type == "Punctuation") {
    WEFT_TRY(const Behavior behavior, reader.one_of_or("behavior", Behavior::isolated, parse_behavior, kBehaviors));
    return made<Split>(characters(is_split_punctuation), behavior);
  }
  if (type == "WhitespaceSplit") return made<Split>(characters(is_white_space), Behavior::removed);
  WEFT_TRY(const std::string delimiter, reader.string("delimiter", 4));
  return made<Split>(matches_of(Pattern(delimiter)), Behavior::removed);
}

MadePreTokenizer make_pre_tokenizer_of_type(const std::string& type, JsonReader& reader) {
  if (type == "Sequence") return make_split_steps(reader);
  if (type == "ByteLevel") return make_byte_level(reader);
  if (type == "Split") return make_split(reader);
  if (type == "Digits" || type == "Punctuation" || type == "WhitespaceSplit" || type == "CharDelimiterSplit")
    return make_by_characters(type, reader);
  if (type == "Metaspace") {
    WEFT_TRY(Metaspace options, Metaspace::read(reader));
    WEFT_TRY(const bool splits, reader.boolean_or("split", true));
    return made<MetaspaceSplit>(std::move(options), splits);
  }
  if (type == "Whitespace") {
    // `\w+|[^\w\s]+` as Rust's own engine has it.
    constexpr std::string_view kWords = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|)"
                                        R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+)";
    WEFT_TRY(Expression words, Expression::compile(kWords));
    return made<Split>(matches_of(Pattern(std::move(words))), Behavior::removed, true);
  }
  if (type == "BertPreTokenizer") {
    std::vector<std::shared_ptr<const PreTokenizer>> steps{
        std::make_shared<const Split>(characters(is_white_space), Behavior::removed),
        std::make_shared<const Split>(characters(is_split_punctuation), Behavior::isolated)};
    return made<SplitSteps>(std::move(steps));
  }
  return fail(Errc::unsupported, reader.path() + ": pre-tokenizer " + in_quotes(type) + " is not supported");
}

}  // namespace

Result<std::shared_ptr<const PreTokenizer>> make_pre_tokenizer(const Json& json, const std::string& path) {
  if (json.is_null()) return std::shared_ptr<const PreTokenizer>();
  WEFT_TRY(JsonReader reader, JsonReader::open(json, path));
  WEFT_TRY(const std::string type, reader.string("type"));
  WEFT_TRY(auto found, make_pre_tokenizer_of_type(type, reader));
  WEFT_CHECK(reader.finish());
  return found;
}

}  // namespace weft::text
