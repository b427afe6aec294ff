// SPDX-License-Identifier: Apache-2.0

#include "core/json.hpp"

#include "core/printable.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace weft {
namespace {

using Library = nlohmann::json;

/// Walks the text and counts: the parser tells its handler no position, so the handler reads the counter.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* count_;
};

std::string place(std::string_view text, std::string_view source_name, std::size_t offset) {
  std::size_t line = 1, column = 1;
  for (const char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++column;
    }
  }
  return std::string(source_name) + ":" + std::to_string(line) + ":" + std::to_string(column) + ": ";
}

/// The parser's own text without its tag and position, which are given in our form.
std::string plain_reason(std::string_view what) {
  if (const auto tag = what.find("] "); tag != what.npos) what.remove_prefix(tag + 2);
  if (what.substr(0, 11) == "parse error") {
    if (const auto colon = what.find(": "); colon != what.npos) what.remove_prefix(colon + 2);
  }
  return printable(what, 200);
}

/// Builds the value from the parser's events and refuses what the limits and the strict reading forbid.
class StrictBuilder final : public nlohmann::json_sax<Library> {
 public:
  StrictBuilder(std::string_view text, std::string_view source_name, const JsonLimits& limits, const std::size_t& count)
      : text_(text), source_name_(source_name), limits_(limits), count_(count) {}

  bool null() override { return add(Json()) != nullptr; }
  bool boolean(bool value) override { return add(Json(value)) != nullptr; }
  bool number_integer(std::int64_t value) override { return add(Json(value)) != nullptr; }
  bool number_unsigned(std::uint64_t value) override { return add(Json(value)) != nullptr; }
  bool number_float(double value, const std::string& spelling) override {
    // The parser turns an integer that 64 bits cannot hold into the nearest double; that changes what was written.
    if (spelling.find_first_of(".eE") == spelling.npos)
      return refuse(Errc::parse_failed, start_of(spelling), "integer " + printable(spelling) + " does not fit 64 bits");
    return add(Json(value)) != nullptr;
  }
  bool string(std::string& value) override { return add(Json(std::move(value))) != nullptr; }
  bool binary(Library::binary_t&) override { return refuse(Errc::parse_failed, count_, "binary value"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (stack_.back()->contains(name))
      return refuse(Errc::duplicate_name, start_of_string(), "key " + in_quotes(name) + " is given twice");
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Library::exception& error) override {
    return refuse(Errc::parse_failed, position ? position - 1 : 0, plain_reason(error.what()));
  }

  Result<Json> finish() && {
    if (error_) return fail(std::move(*error_));
    return std::move(root_);
  }

 private:
  Json* add(Json&& value) {
    if (++values_ > limits_.max_values) {
      refuse(Errc::too_large, count_ ? count_ - 1 : 0, "more than " + std::to_string(limits_.max_values) + " values");
      return nullptr;
    }
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) return &parent.push_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }
  bool open(Json&& container) {
    if (stack_.size() >= limits_.max_depth)
      return refuse(Errc::too_large, count_ ? count_ - 1 : 0,
                    "nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    Json* added = add(std::move(container));
    if (!added) return false;
    stack_.push_back(added);
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }
  bool refuse(Errc code, std::size_t offset, const std::string& reason) {
    if (!error_) error_.emplace(code, place(text_, source_name_, std::min(offset, text_.size())) + reason);
    return false;
  }
  /// Offset of the number just read; the parser has looked one character past it, unless the text ended.
  std::size_t start_of(const std::string& spelling) const {
    for (const std::size_t ahead : {std::size_t{1}, std::size_t{0}}) {
      if (count_ >= spelling.size() + ahead &&
          text_.substr(count_ - spelling.size() - ahead, spelling.size()) == spelling)
        return count_ - spelling.size() - ahead;
    }
    return count_;
  }
  /// Offset of the string just read: the nearest quote backwards that no backslash escapes.
  std::size_t start_of_string() const {
    for (std::size_t i = count_ - 1; i-- > 0;) {
      if (text_[i] != '"') continue;
      std::size_t backslashes = 0;
      while (backslashes < i && text_[i - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) return i;
    }
    return 0;
  }

  std::string_view text_, source_name_;
  const JsonLimits& limits_;
  const std::size_t& count_;
  Json root_;
  std::vector<Json*> stack_;
  std::string key_;
  std::size_t values_ = 0;
  std::optional<Error> error_;
};

/// Writes a value as the library does; it is asked for texts and fractions, whose spelling is an art of its own.
class Writer {
 public:
  Writer(int indent, Json::Order order, Library::error_handler_t handler)
      : indent_(indent), order_(order), handler_(handler) {}

  void write(const Json& value) {
    if (value.is_array())
      write_array(value);
    else if (value.is_object())
      write_object(value);
    else if (value.is_integer())
      out +=
          value.is_natural() ? std::to_string(value.get<std::uint64_t>()) : std::to_string(value.get<std::int64_t>());
    else if (value.is_real())
      out += Library(value.get<double>()).dump();
    else if (value.is_string())
      write_text(value.text());
    else
      out += value.is_null() ? "null" : value.get<bool>() ? "true" : "false";
  }

  std::string out;

 private:
  void write_text(const std::string& text) {
    const bool is_plain =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; });
    if (!is_plain) return void(out += Library(text).dump(-1, ' ', false, handler_));
    out.append(1, '"').append(text).append(1, '"');
  }
  void write_array(const Json& value) {
    if (value.empty()) return void(out += "[]");
    char before = '[';
    ++depth_;
    for (const Json& element : value) {
      out += std::exchange(before, ',');
      new_line();
      write(element);
    }
    --depth_;
    new_line();
    out += ']';
  }
  void write_object(const Json& value) {
    if (value.empty()) return void(out += "{}");
    char before = '{';
    ++depth_;
    const auto put = [&](const Json::Object::value_type& member) {
      out += std::exchange(before, ',');
      new_line();
      write_text(member.first);
      out += indent_ < 0 ? ":" : ": ";
      write(member.second);
    };
    if (order_ == Json::Order::sorted)
      for (const auto& member : value.members()) put(member);
    else
      for (const auto* member : value.members_as_set()) put(*member);
    --depth_;
    new_line();
    out += '}';
  }
  void new_line() {
    if (indent_ >= 0) out.append(1, '\n').append(static_cast<std::size_t>(indent_ * depth_), ' ');
  }

  const int indent_;
  const Json::Order order_;
  const Library::error_handler_t handler_;
  int depth_ = 0;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view source_name, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return fail(Errc::too_large, std::string(source_name) + ": " + std::to_string(text.size()) +
                                     " bytes of JSON, at most " + std::to_string(limits.max_bytes) + " are read");
  // The parser would skip a byte order mark, and take a NUL for the end of the text and drop what follows.
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    return fail(Errc::parse_failed, place(text, source_name, 0) + "begins with a byte order mark; save it without one");
  if (const auto nul = text.find('\0'); nul != text.npos)
    return fail(Errc::parse_failed, place(text, source_name, nul) + "a NUL byte");
  std::size_t count = 0;
  StrictBuilder builder(text, source_name, limits, count);
  Library::sax_parse(CountingIterator(text.data(), &count), CountingIterator(text.data() + text.size(), &count),
                     &builder);
  return std::move(builder).finish();
}

Status check_json(const Json& value, const JsonLimits& limits) {
  // Without recursion, so that no depth can exhaust the stack.
  std::vector<std::pair<const Json*, std::size_t>> open{{&value, 1}};
  std::size_t values = 0;
  while (!open.empty()) {
    const auto [at, depth] = open.back();
    open.pop_back();
    if (++values > limits.max_values)
      return fail(Errc::too_large, "JSON: more than " + std::to_string(limits.max_values) + " values");
    if (at->is_real() && !std::isfinite(at->get<double>()))
      return fail(Errc::invalid_argument, "JSON: a number is not finite, and JSON cannot say so");
    if (!at->is_array() && !at->is_object()) continue;
    if (depth > limits.max_depth)
      return fail(Errc::too_large, "JSON: nested deeper than " + std::to_string(limits.max_depth) + " levels");
    for (const Json& element : *at) open.emplace_back(&element, depth + 1);
    for (const auto& [key, member] : at->members()) open.emplace_back(&member, depth + 1);
  }
  return {};
}

Result<std::string> write_json(const Json& value, int indent, const JsonLimits& limits) {
  WEFT_CHECK(check_json(value, limits));
  try {
    Writer writer(indent, Json::Order::sorted, Library::error_handler_t::strict);
    writer.write(value);
    std::string& text = writer.out;
    if (text.size() > limits.max_bytes)
      return fail(Errc::too_large, "JSON: " + std::to_string(text.size()) + " bytes of text, at most " +
                                       std::to_string(limits.max_bytes) + " are written");
    return std::move(text);
  } catch (const Library::exception& error) {
    return fail(Errc::invalid_argument, "JSON: " + plain_reason(error.what()));
  }
}

std::string Json::dump(Order order) const {
  Writer writer(-1, order, Library::error_handler_t::replace);
  writer.write(*this);
  return std::move(writer.out);
}

}  // namespace weft
