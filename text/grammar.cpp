// SPDX-License-Identifier: Apache-2.0

#include "text/grammar.hpp"

#include "text/internal/grammar_rules.hpp"
#include "text/unicode.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace weft::text {
namespace {

using Rules = Grammar::Rules;
using Element = Rules::Element;

constexpr std::size_t kMostSource = std::size_t{1} << 20, kMostElements = std::size_t{1} << 18, kMostRepeats = 2000,
                      kMostNesting = 100;

bool is_name_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// Reads GBNF. Alternatives are rows of elements; groups and repetitions become rules of their own.
class GbnfReader {
 public:
  GbnfReader(std::string_view source, std::string_view name) : source_(source), name_(name) {}

  Result<Rules> read() {
    skip_space(true);
    while (at_ < source_.size()) WEFT_CHECK(read_rule());
    for (std::size_t rule = 0; rule < alternatives_.size(); ++rule)
      if (alternatives_[rule].empty())
        return fail(Errc::unknown_name, std::string(name_) + ": rule " + in_quotes(names_[rule]) + " is not there");
    const auto root = ids_.find("root");
    if (root == ids_.end()) return fail(Errc::unknown_name, std::string(name_) + ": there is no rule \"root\"");
    rules_.root = root->second;
    for (const auto& rows : alternatives_) {
      rules_.begins.push_back(static_cast<std::uint32_t>(rules_.elements.size()));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        rules_.elements.insert(rules_.elements.end(), rows[i].begin(), rows[i].end());
        rules_.elements.push_back({i + 1 < rows.size() ? GrammarPart::next : GrammarPart::end, 0});
      }
    }
    if (Status status = check_left_recursion(rules_, names_); !status) return fail(Error(status.error()).within(name_));
    rules_.source = source_;
    return std::move(rules_);
  }

 private:
  using Row = std::vector<Element>;

  Failure refuse(const std::string& text, Errc code = Errc::parse_failed) const {
    const std::string_view before = source_.substr(0, at_);
    const std::size_t line = before.rfind('\n') + 1;
    return fail(code, std::string(name_) + ":" + std::to_string(1 + std::count(before.begin(), before.end(), '\n')) +
                          ":" + std::to_string(at_ - line + 1) + ": " + text);
  }
  bool has(char c) const noexcept { return at_ < source_.size() && source_[at_] == c; }

  void skip_space(bool newlines) noexcept {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '#')
        at_ = std::min(source_.find_first_of("\r\n", at_), source_.size());
      else if (c == ' ' || c == '\t' || (newlines && (c == '\r' || c == '\n')))
        ++at_;
      else
        break;
    }
  }

  Result<std::string> read_name() {
    const std::size_t begin = at_;
    while (at_ < source_.size() && is_name_letter(source_[at_])) ++at_;
    if (at_ == begin) return refuse("found " + here() + ", expected a name");
    return std::string(source_.substr(begin, at_ - begin));
  }
  std::string here() const {
    if (at_ == source_.size()) return "the end";
    std::size_t end = at_;
    (void)next_code_point(source_, end);
    return in_quotes(source_.substr(at_, end - at_));
  }
  std::uint32_t id_of(const std::string& name) {
    const auto [found, is_new] = ids_.emplace(name, static_cast<std::uint32_t>(alternatives_.size()));
    if (is_new) add_rule(name);
    return found->second;
  }
  std::uint32_t add_rule(const std::string& name) {
    alternatives_.emplace_back();
    names_.push_back(name);
    return static_cast<std::uint32_t>(alternatives_.size() - 1);
  }
  Status count(std::size_t elements) {
    elements_ += elements;
    return elements_ > kMostElements ? Status(refuse("more than 2^18 parts", Errc::too_large)) : Status();
  }

  Status read_rule() {
    WEFT_TRY(const std::string name, read_name());
    skip_space(false);
    if (source_.substr(at_, 3) != "::=") return refuse("found " + here() + ", expected ::=");
    at_ += 3;
    skip_space(true);
    const std::uint32_t id = id_of(name);
    if (!alternatives_[id].empty()) return refuse("rule " + in_quotes(name) + " is there twice", Errc::duplicate_name);
    WEFT_TRY(auto rows, read_alternatives(name, 0));
    alternatives_[id] = std::move(rows);
    if (at_ < source_.size() && source_[at_] != '\r' && source_[at_] != '\n')
      return refuse("found " + here() + ", expected the end of the line");
    skip_space(true);
    return {};
  }

  Result<std::vector<Row>> read_alternatives(const std::string& name, std::size_t depth) {
    if (depth > kMostNesting) return refuse("more than 100 levels", Errc::too_large);
    std::vector<Row> rows;
    for (bool more = true; more;) {
      WEFT_TRY(Row row, read_row(name, depth));
      WEFT_CHECK(count(row.size() + 1));
      rows.push_back(std::move(row));
      more = has('|');
      if (!more) break;
      ++at_;
      skip_space(true);
    }
    return rows;
  }

  Result<Row> read_row(const std::string& name, std::size_t depth) {
    Row row;
    while (at_ < source_.size()) {
      Row item;
      const char c = source_[at_];
      if (c == '"') {
        WEFT_TRY(item, read_literal());
      } else if (c == '[') {
        WEFT_TRY(CharacterSet set, read_class());
        item.push_back(character(std::move(set)));
      } else if (c == '.') {
        ++at_;
        item.push_back(character({{}, true}));
      } else if (c == '(') {
        ++at_;
        skip_space(true);
        WEFT_TRY(auto rows, read_alternatives(name, depth + 1));
        if (!has(')')) return refuse("found " + here() + ", expected )");
        ++at_;
        const std::uint32_t rule = add_rule(name);
        alternatives_[rule] = std::move(rows);
        item.push_back({GrammarPart::rule, rule});
      } else if (is_name_letter(c)) {
        WEFT_TRY(const std::string called, read_name());
        item.push_back({GrammarPart::rule, id_of(called)});
      } else if (c == '<' || c == '!') {
        return refuse("tokens by name are not known here", Errc::unsupported);
      } else {
        break;
      }
      skip_space(depth > 0);
      WEFT_CHECK(read_repetition(name, item));
      skip_space(depth > 0);
      WEFT_CHECK(count(item.size()));
      row.insert(row.end(), item.begin(), item.end());
    }
    return row;
  }

  Element character(CharacterSet set) {
    rules_.sets.push_back(std::move(set));
    return {GrammarPart::character, static_cast<std::uint32_t>(rules_.sets.size() - 1)};
  }

  Result<char32_t> read_character() {
    if (at_ == source_.size()) return refuse("the end inside a literal or class");
    if (source_[at_] == '\n' || source_[at_] == '\r') return refuse("a line that ends inside a literal or class");
    if (source_[at_] != '\\') return next_code_point(source_, at_);
    if (++at_ == source_.size()) return refuse("the end behind a backslash");
    const char c = source_[at_++];
    constexpr std::string_view kFrom = "trn\\\"[]-^/", kTo = "\t\r\n\\\"[]-^/";
    if (const std::size_t found = kFrom.find(c); found != kFrom.npos) return static_cast<char32_t>(kTo[found]);
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) return refuse("the escape \\" + printable(std::string(1, c)) + " is not known");
    std::uint32_t code = 0;
    const std::string_view text = source_.substr(at_, digits);
    const auto end = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    if (text.size() != digits || end.ptr != text.data() + digits || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000))
      return refuse("an escape that is no character");
    at_ += digits;
    return static_cast<char32_t>(code);
  }
  Result<Row> read_literal() {
    Row row;
    ++at_;
    while (!has('"')) {
      WEFT_TRY(const char32_t c, read_character());
      row.push_back(character({{{c, c}}, false}));
      WEFT_CHECK(count(1));
    }
    ++at_;
    return row;
  }
  Result<CharacterSet> read_class() {
    CharacterSet set;
    ++at_;
    if (has('^')) ++at_, set.is_negated = true;
    while (!has(']')) {
      WEFT_TRY(const char32_t low, read_character());
      char32_t high = low;
      if (has('-') && at_ + 1 < source_.size() && source_[at_ + 1] != ']') {
        ++at_;
        WEFT_TRY(high, read_character());
        if (high < low) return refuse("a range that ends before it begins");
      }
      set.ranges.emplace_back(low, high);
    }
    ++at_;
    return set;
  }

  Result<std::optional<std::size_t>> read_number() {
    std::size_t value = 0;
    const char *const first = source_.data() + at_, *const last = source_.data() + source_.size();
    const auto end = std::from_chars(first, last, value);
    if (end.ptr == first) return std::optional<std::size_t>();
    at_ += static_cast<std::size_t>(end.ptr - first);
    if (end.ec != std::errc{} || value > kMostRepeats) return refuse("more than 2000 repetitions", Errc::too_large);
    return std::optional(value);
  }
  /// * + ? {n} {n,} {n,m}, applied to what stands before.
  Status read_repetition(const std::string& name, Row& item) {
    for (;;) {
      std::size_t least = 0;
      std::optional<std::size_t> most;
      if (has('*') || has('+') || has('?')) {
        least = has('+') ? 1 : 0;
        if (has('?')) most = 1;
        ++at_;
      } else if (has('{')) {
        ++at_;
        skip_space(false);
        WEFT_TRY(const auto first, read_number());
        if (!first) return refuse("found " + here() + ", expected a number");
        least = *first;
        most = least;
        skip_space(false);
        if (has(',')) {
          ++at_;
          skip_space(false);
          WEFT_TRY(most, read_number());
          skip_space(false);
        }
        if (!has('}')) return refuse("found " + here() + ", expected }");
        ++at_;
        if (most && *most < least) return refuse("fewer repetitions at most than at least");
      } else {
        return {};
      }
      WEFT_CHECK(repeat(name, item, least, most));
      skip_space(false);
    }
  }
  /// x{2,4} is x x (x (x)?)?, and x* a rule r ::= x r |.
  Status repeat(const std::string& name, Row& item, std::size_t least, std::optional<std::size_t> most) {
    WEFT_CHECK(count(item.size() * (most ? *most : least + 1) + 4 * (most ? *most - least : 1)));
    Row once = item;
    if (item.size() > 1 && (!most || *most > 1)) {
      const std::uint32_t rule = add_rule(name);
      alternatives_[rule] = {item};
      once = {{GrammarPart::rule, rule}};
    }
    Row made;
    for (std::size_t i = 0; i < least; ++i) made.insert(made.end(), once.begin(), once.end());
    Row rest;
    const std::size_t optional = most ? *most - least : 1;
    for (std::size_t i = 0; i < optional; ++i) {
      const std::uint32_t rule = add_rule(name);
      Row row = once;
      if (!most) row.push_back({GrammarPart::rule, rule});
      row.insert(row.end(), rest.begin(), rest.end());
      alternatives_[rule] = {std::move(row), {}};
      rest = {{GrammarPart::rule, rule}};
    }
    made.insert(made.end(), rest.begin(), rest.end());
    item = std::move(made);
    return {};
  }

  std::string_view source_, name_;
  std::size_t at_ = 0, elements_ = 0;
  std::map<std::string, std::uint32_t> ids_;
  std::vector<std::string> names_;
  std::vector<std::vector<Row>> alternatives_;
  Rules rules_;
};

}  // namespace

bool CharacterSet::has(char32_t c) const noexcept {
  const bool is_in =
      std::any_of(ranges.begin(), ranges.end(), [&](const auto& r) { return r.first <= c && c <= r.second; });
  return is_in != is_negated;
}

bool CharacterSet::meets(char32_t low, char32_t high) const noexcept {
  const auto overlaps = [&](const auto& r) { return r.first <= high && low <= r.second; };
  if (!is_negated) return std::any_of(ranges.begin(), ranges.end(), overlaps);
  // A character that no range has: the lowest, or one behind a range.
  if (has(low)) return true;
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const auto& r) { return r.second >= low && r.second < high && has(r.second + 1); });
}

Result<Grammar> Grammar::parse(std::string_view source, std::string_view source_name) {
  if (source.size() > kMostSource)
    return fail(Errc::too_large,
                std::string(source_name) + ": " + std::to_string(source.size()) + " bytes, at most 1 MiB");
  if (valid_prefix(source) != source.size())
    return fail(Errc::parse_failed,
                std::string(source_name) + ": byte " + std::to_string(valid_prefix(source)) + " is not UTF-8");
  WEFT_TRY(Rules rules, GbnfReader(source, source_name).read());
  rules.name = source_name;
  Grammar made(std::make_shared<const Rules>(std::move(rules)));
  if (GrammarState(made).met_limit())
    return fail(Errc::too_large, std::string(source_name) + ": has more than 2^14 ways to begin");
  return made;
}

Result<Grammar> Grammar::from_json_schema(const Json& schema, std::string_view source_name) {
  WEFT_TRY(const std::string source, grammar_of_schema(schema));
  return parse(source, source_name);
}

const std::string& Grammar::name() const noexcept { return rules_->name; }

const std::string& Grammar::source() const noexcept { return rules_->source; }

}  // namespace weft::text
