// SPDX-License-Identifier: Apache-2.0

#include "text/expression.hpp"

#include "text/internal/utf16.hpp"
#include "text/unicode.hpp"

#include "core/printable.hpp"

#include <unicode/uregex.h>

#include <mutex>
#include <utility>
#include <vector>

namespace weft::text {
namespace {

constexpr std::size_t kMaxPattern = std::size_t{64} << 10;
constexpr std::int32_t kMaxSteps = 2'000;                    // of a match, 10,000 each: ICU's units
constexpr std::int32_t kMaxMemory = std::int32_t{64} << 20;  // bytes for what a match may have to come back to

/// A pattern in ICU's syntax. Classes are spelled out, since the two differ in what they hold.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> translate() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\')
        WEFT_CHECK(escape());
      else if (c == '[' && pattern_.substr(at_, 2) == "[:")
        return refuse("a POSIX bracket");
      else if (c == '(' && pattern_.substr(at_, 2) == "(?" && depth_ == 0)
        WEFT_CHECK(group());
      else
        plain(c);
    }
    return std::move(made_);
  }

 private:
  void plain(char c) {
    if (c == '[') ++depth_;
    if (c == ']' && depth_ > 0) --depth_;
    made_ += c;
    ++at_;
  }
  Status escape() {
    if (at_ + 1 >= pattern_.size()) return refuse("a backslash at the end");
    const char c = pattern_[at_ + 1];
    const std::string_view kRefused = "bBGKRXkgyYNO";
    if ((c >= '1' && c <= '9') || kRefused.find(c) != kRefused.npos) return refuse("\\" + std::string(1, c));
    at_ += 2;
    switch (c) {
      case 's':
        made_ += "\\p{White_Space}";
        break;
      case 'S':
        made_ += "\\P{White_Space}";
        break;
      case 'w':
        made_ += "[" + word() + "]";
        break;
      case 'W':
        made_ += "[^" + word() + "]";
        break;
      case 'd':
        made_ += "\\p{Nd}";
        break;
      case 'D':
        made_ += "\\P{Nd}";
        break;
      case 'h':
        made_ += "[0-9a-fA-F]";
        break;
      case 'H':
        made_ += "[^0-9a-fA-F]";
        break;
      case 'v':
        made_ += "\\x0B";
        break;
      default:
        made_ += {'\\', c};
    }
    return {};
  }
  /// `\w`: outside of brackets Oniguruma takes six numbers of Latin-1 for word characters too.
  std::string word() const {
    const std::string word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    return depth_ > 0 ? word : word + "\\u00B2\\u00B3\\u00B9\\u00BC-\\u00BE";
  }
  /// "(?" and what follows, up to where the group's content begins.
  Status group() {
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?-i:", "(?i)", "(?-i)"})
      if (pattern_.substr(at_, known.size()) == known) {
        made_ += known;
        at_ += known.size();
        return {};
      }
    return refuse("a group that begins with " + in_quotes(pattern_.substr(at_, 4)));
  }
  Failure refuse(const std::string& what) const {
    return fail(Errc::unsupported, "expression " + in_quotes(pattern_) + ": " + what + " at byte " +
                                       std::to_string(at_) + " is not supported");
  }

  std::string_view pattern_;
  std::string made_;
  std::size_t at_ = 0;
  int depth_ = 0;  // of brackets
};

}  // namespace

struct Expression::Compiled {
  std::string pattern;
  URegularExpression* original = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    for (URegularExpression* const one : idle) uregex_close(one);
    if (original) uregex_close(original);
  }
  /// A matcher of one's own: ICU's holds the text and its place.
  URegularExpression* take() {
    const std::lock_guard lock(mutex);
    if (!idle.empty()) {
      URegularExpression* const one = idle.back();
      idle.pop_back();
      return one;
    }
    UErrorCode error = U_ZERO_ERROR;
    URegularExpression* const one = uregex_clone(original, &error);
    if (!one || U_FAILURE(error)) throw std::bad_alloc();
    uregex_setTimeLimit(one, kMaxSteps, &error);
    uregex_setStackLimit(one, kMaxMemory, &error);
    return one;
  }
  void give_back(URegularExpression* one) {
    const std::lock_guard lock(mutex);
    idle.push_back(one);
  }

 private:
  std::mutex mutex;
  std::vector<URegularExpression*> idle;
};

Result<Expression> Expression::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern)
    return fail(Errc::too_large, "an expression of " + std::to_string(pattern.size()) + " bytes, at most 65536");
  if (valid_prefix(pattern) != pattern.size())
    return fail(Errc::parse_failed, "expression " + in_quotes(pattern) + " is not UTF-8");
  WEFT_TRY(const std::string translated, Translator(pattern).translate());
  const Utf16 units(translated);
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern;
  UErrorCode error = U_ZERO_ERROR;
  UParseError place{};
  compiled->original = uregex_open(units.units.data(), static_cast<std::int32_t>(units.units.size()),
                                   UREGEX_MULTILINE | UREGEX_UNIX_LINES, &place, &error);
  if (U_FAILURE(error) || !compiled->original)
    return fail(Errc::parse_failed, "expression " + in_quotes(pattern) + ": " + u_errorName(error) +
                                        " near character " + std::to_string(place.offset) + " of " +
                                        in_quotes(translated));
  return Expression(std::move(compiled));
}

Status Expression::each_match(std::string_view text,
                              const std::function<void(std::size_t begin, std::size_t end)>& found) const {
  const Utf16 units(text);
  URegularExpression* const matcher = compiled_->take();
  UErrorCode error = U_ZERO_ERROR;
  uregex_setText(matcher, units.units.data(), static_cast<std::int32_t>(units.units.size()), &error);
  while (uregex_findNext(matcher, &error) && U_SUCCESS(error)) {
    const auto begin = static_cast<std::size_t>(uregex_start(matcher, 0, &error));
    const auto end = static_cast<std::size_t>(uregex_end(matcher, 0, &error));
    if (begin != end) found(units.offset(begin), units.offset(end));
  }
  compiled_->give_back(matcher);
  if (U_SUCCESS(error)) return {};
  return fail(Errc::too_large, "expression " + in_quotes(compiled_->pattern) + ": a match in " +
                                   std::to_string(text.size()) + " bytes takes too long (" + u_errorName(error) + ")");
}

}  // namespace weft::text
