// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_lexer.hpp"

#include "text/unicode.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace weft::text::jinja {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool begins_name(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::size_t after_spaces(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_space(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}
std::string_view without_last_spaces(std::string_view text) {
  for (std::size_t at = text.size(); at > 0;) {
    if (!is_space(previous_code_point(text, at))) break;
    text = text.substr(0, at);
  }
  return text;
}

/// A text between quotes, as Python's unicode-escape reads it. `at`: behind the first quote, moved behind the last.
class Quoted {
 public:
  Quoted(std::string_view source, std::size_t& at) : source_(source), at_(at) {}

  Result<std::string> read(char quote) {
    const std::size_t begin = at_;
    std::string made;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] != '\\') {
        made += source_[at_++];
        continue;
      }
      if (++at_ == source_.size()) break;
      WEFT_CHECK(escape(made));
    }
    if (at_ == source_.size()) return fail_at(source_, begin - 1, Errc::parse_failed, "a text without its last quote");
    ++at_;
    return made;
  }

 private:
  Status escape(std::string& made) {
    const char c = source_[at_++];
    constexpr std::string_view kFrom = "ntr\\'\"abfv0", kTo("\n\t\r\\'\"\a\b\f\v\0", 11);
    if (c == '\n') return {};
    if (c >= '0' && c <= '7') return code(made, at_ - 1, 3, 8, false);
    if (c == 'x' || c == 'u' || c == 'U') return code(made, at_, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, true);
    if (c == 'N') return fail_at(source_, at_ - 2, Errc::parse_failed, "characters by name (\\N) are not known here");
    if (const std::size_t found = kFrom.find(c); found != kFrom.npos)
      made += kTo[found];
    else
      made += '\\', made += c;
    return {};
  }
  Status code(std::string& made, std::size_t begin, std::size_t most, int base, bool all) {
    const std::string_view digits = source_.substr(begin, most);
    std::uint32_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const auto size = static_cast<std::size_t>(end.ptr - digits.data());
    if (size == 0 || (all && size != most) || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      return fail_at(source_, begin - 1, Errc::parse_failed, "an escape that is no character");
    append_utf8(made, value);
    at_ = begin + size;
    return {};
  }

  std::string_view source_;
  std::size_t& at_;
};

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> read() {
    while (at_ < source_.size()) WEFT_CHECK(read_text());
    push(TokenKind::end, source_.size());
    return std::move(tokens_);
  }

 private:
  void push(TokenKind kind, std::size_t at, std::string text = {}) { tokens_.push_back({kind, at, std::move(text)}); }
  Failure refuse(std::size_t at, const std::string& text) const {
    return fail_at(source_, at, Errc::parse_failed, text);
  }
  bool has(std::string_view text, std::size_t at) const { return source_.substr(at, text.size()) == text; }
  void move_to(std::size_t at) {
    line_begins_ = at > 0 && source_[at - 1] == '\n';
    at_ = at;
  }

  /// Text up to a tag, and the tag.
  Status read_text() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag >= source_.size() - 1 || tag == source_.npos) {
        push(TokenKind::data, at_, std::string(source_.substr(at_)));
        at_ = source_.size();
        return {};
      }
      const char kind = source_[tag + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
    }
    const char kind = source_[tag + 1];
    const char sign =
        tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+') ? source_[tag + 2] : ' ';
    const std::string_view text = before_tag(source_.substr(at_, tag - at_), sign, kind == '{');
    if (!text.empty()) push(TokenKind::data, at_, std::string(text));
    const std::size_t inside = tag + (sign == ' ' ? 2 : 3);
    if (kind == '#') return skip_comment(tag, inside);
    if (kind == '%')
      if (const auto raw = after_word("raw", inside, false)) return read_raw(tag, *raw);
    push(kind == '{' ? TokenKind::output_begin : TokenKind::tag_begin, tag);
    move_to(inside);
    return read_inside(tag, kind == '{');
  }

  std::string_view before_tag(std::string_view text, char sign, bool is_output) const {
    if (sign == '-') return without_last_spaces(text);
    if (sign == '+' || is_output) return text;
    const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line == 0 && !line_begins_) return text;
    return after_spaces(text, line) == text.size() ? text.substr(0, line) : text;
  }

  /// The place behind "raw %}"; nothing where another word stands there.
  std::optional<std::size_t> after_word(std::string_view word, std::size_t at, bool trims) const {
    at = after_spaces(source_, at);
    if (!has(word, at)) return std::nullopt;
    at = after_spaces(source_, at + word.size());
    return after_end("%}", at, trims, trims);
  }
  /// The place behind the end of a tag.
  std::optional<std::size_t> after_end(std::string_view end, std::size_t at, bool trims, bool takes_plus) const {
    if (has(end, at)) {
      at += end.size();
      return trims && at < source_.size() && source_[at] == '\n' ? at + 1 : at;
    }
    if (at >= source_.size() || !has(end, at + 1)) return std::nullopt;
    if (source_[at] == '-') return after_spaces(source_, at + 1 + end.size());
    if (source_[at] == '+' && takes_plus) return at + 1 + end.size();
    return std::nullopt;
  }

  Status skip_comment(std::size_t tag, std::size_t at) {
    for (; at < source_.size(); ++at)
      if (const auto end = after_end("#}", at, true, true)) {
        move_to(*end);
        return {};
      }
    return refuse(tag, "a comment without its end, #}");
  }

  Status read_raw(std::size_t tag, std::size_t begin) {
    for (std::size_t at = begin; (at = source_.find("{%", at)) != source_.npos; at += 2) {
      const char sign =
          at + 2 < source_.size() && (source_[at + 2] == '-' || source_[at + 2] == '+') ? source_[at + 2] : ' ';
      const auto end = after_word("endraw", at + (sign == ' ' ? 2 : 3), true);
      if (!end) continue;
      line_begins_ = source_[begin - 1] == '\n';
      const std::string_view text = before_tag(source_.substr(begin, at - begin), sign, false);
      if (!text.empty()) push(TokenKind::data, begin, std::string(text));
      move_to(*end);
      return {};
    }
    return refuse(tag, "a raw block without endraw");
  }

  /// Tokens of an expression or tag, and its end.
  Status read_inside(std::size_t tag, bool is_output) {
    std::string open;
    for (;;) {
      at_ = after_spaces(source_, at_);
      if (at_ == source_.size()) return refuse(tag, is_output ? "{{ without }}" : "{% without %}");
      if (open.empty())
        if (const auto end = after_end(is_output ? "}}" : "%}", at_, !is_output, !is_output)) {
          push(is_output ? TokenKind::output_end : TokenKind::tag_end, at_);
          move_to(*end);
          return {};
        }
      const char c = source_[at_];
      if (is_digit(c))
        WEFT_CHECK(read_number());
      else if (begins_name(c))
        read_name();
      else if (c == '\'' || c == '"')
        WEFT_CHECK(read_quoted());
      else
        WEFT_CHECK(read_sign(open));
    }
  }

  void read_name() {
    const std::size_t begin = at_;
    while (at_ < source_.size() && (begins_name(source_[at_]) || is_digit(source_[at_]))) ++at_;
    push(TokenKind::name, begin, std::string(source_.substr(begin, at_ - begin)));
  }
  Status read_quoted() {
    const std::size_t begin = at_++;
    WEFT_TRY(std::string text, Quoted(source_, at_).read(source_[begin]));
    push(TokenKind::text, begin, std::move(text));
    return {};
  }
  Status read_number() {
    const std::size_t begin = at_;
    std::string digits;
    const auto take = [&] {
      for (; at_ < source_.size() && (is_digit(source_[at_]) || (source_[at_] == '_' && is_digit(source_[at_ - 1])));
           ++at_)
        if (source_[at_] != '_') digits += source_[at_];
    };
    take();
    const bool is_member = !tokens_.empty() && tokens_.back().text == "." && tokens_.back().at + 1 == begin;
    bool is_real = false;
    if (!is_member && at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1]))
      is_real = true, digits += source_[at_++], take();
    if (!is_member && at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      const std::size_t signs =
          at_ + 1 < source_.size() && (source_[at_ + 1] == '-' || source_[at_ + 1] == '+') ? 1 : 0;
      if (at_ + 1 + signs < source_.size() && is_digit(source_[at_ + 1 + signs])) {
        is_real = true;
        digits += source_.substr(at_, 1 + signs);
        at_ += 1 + signs;
        take();
      }
    }
    Token token{is_real ? TokenKind::real : TokenKind::integer, begin, std::string(source_.substr(begin, at_ - begin))};
    const char *first = digits.data(), *last = first + digits.size();
    const auto end = is_real ? std::from_chars(first, last, token.real) : std::from_chars(first, last, token.integer);
    if (end.ptr != last || end.ec != std::errc{}) return refuse(begin, "a number beyond 64 bits");
    tokens_.push_back(std::move(token));
    return {};
  }
  Status read_sign(std::string& open) {
    constexpr std::string_view kPairs[] = {"//", "**", "==", "!=", ">=", "<="}, kSigns = "+-/*%~[](){}><=.:|,";
    for (const std::string_view pair : kPairs)
      if (has(pair, at_)) {
        push(TokenKind::sign, at_, std::string(pair));
        at_ += 2;
        return {};
      }
    const char c = source_[at_];
    if (kSigns.find(c) == kSigns.npos) {
      std::size_t end = at_;
      (void)next_code_point(source_, end);
      return refuse(at_, "unexpected " + in_quotes(source_.substr(at_, end - at_)));
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c)
        return refuse(at_, "unexpected '" + std::string(1, c) + "'" +
                               (open.empty() ? "" : ", expected '" + std::string(1, open.back()) + "'"));
      open.pop_back();
    }
    push(TokenKind::sign, at_++, std::string(1, c));
    return {};
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_begins_ = true;  // what was read before ended a line
  std::vector<Token> tokens_;
};

}  // namespace

std::string with_plain_line_ends(std::string_view source) {
  std::string made;
  made.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    made += source[i] == '\r' ? '\n' : source[i];
  }
  if (made.ends_with('\n')) made.pop_back();
  return made;
}

Failure fail_at(std::string_view source, std::size_t at, Errc code, const std::string& text) {
  const std::string_view before = source.substr(0, std::min(at, source.size()));
  const std::size_t line = before.rfind('\n') + 1;
  std::size_t column = 1;
  for (std::size_t i = line; i < before.size(); ++column) (void)next_code_point(before, i);
  return fail(code, "chat template:" + std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ":" +
                        std::to_string(column) + ": " + text);
}

Result<std::vector<Token>> read_tokens(std::string_view source) { return Reader(source).read(); }

bool is_space(char32_t c) noexcept { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

}  // namespace weft::text::jinja
