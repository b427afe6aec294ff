// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_lexer.hpp"
#include "text/internal/jinja_library.hpp"
#include "text/unicode.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace weft::text::jinja {
namespace {

bool ends_line(char32_t c) noexcept {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

/// One conversion of a percent format: the flags and width between % and its letter.
Maybe<std::string> convert(Machine& machine, const Value& value, const std::string& flags, char letter) {
  if (flags.size() > 8 || flags.find_first_not_of("0123456789.-+ ") != flags.npos)
    return machine.fail({"%", flags, std::string_view(&letter, 1), " is not known here"}, Errc::unsupported);
  std::array<char, 512> made{};
  int size = 0;
  if (letter == 'd' || letter == 'i') {
    if (!value.is_number()) return machine.fail({"%d of a value of type ", type_name(value)});
    const long long whole = value.is_whole() ? value.as_whole() : static_cast<long long>(value.real);
    size = std::snprintf(made.data(), made.size(), ("%" + flags + "lld").c_str(), whole);
  } else if (letter == 'x' || letter == 'X') {
    if (!value.is_whole() || value.as_whole() < 0) return machine.fail("%x takes whole numbers from 0");
    size = std::snprintf(made.data(), made.size(), ("%" + flags + "ll" + letter).c_str(),
                         static_cast<unsigned long long>(value.as_whole()));
  } else {
    if (!value.is_number()) return machine.fail({"%f of a value of type ", type_name(value)});
    size = std::snprintf(made.data(), made.size(), ("%" + flags + letter).c_str(), value.as_real());
  }
  if (size < 0 || static_cast<std::size_t>(size) >= made.size())
    return machine.fail({"%", flags, std::string_view(&letter, 1), ": more than 511 characters"}, Errc::too_large);
  return std::string(made.data(), static_cast<std::size_t>(size));
}

}  // namespace

std::pair<std::size_t, std::size_t> stripped(std::string_view text, const Value& characters, bool left, bool right) {
  const auto goes = [&](char32_t c) {
    if (!characters.is_text()) return is_space(c);
    const std::string_view set = characters.bytes();
    for (std::size_t at = 0; at < set.size();)
      if (next_code_point(set, at) == c) return true;
    return false;
  };
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    std::size_t next = begin;
    if (!goes(next_code_point(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    std::size_t before = end;
    if (!goes(previous_code_point(text, before))) break;
    end = before;
  }
  return {begin, end};
}

std::vector<std::pair<std::size_t, std::size_t>> lines_of(std::string_view text) {
  std::vector<std::pair<std::size_t, std::size_t>> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = next_code_point(text, at);
    if (!ends_line(c)) continue;
    lines.emplace_back(begin, end);
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(begin, text.size());
  return lines;
}

Maybe<Value> replace_all(Machine& machine, const Value& text, const Value& from, const Value& to, const Value& count) {
  if (!text.is_text() || !from.is_text() || !to.is_text()) return machine.fail("replace takes texts");
  if (!count.is_whole() && !count.is_none() && !count.is_undefined())
    return machine.fail("replace: count is no integer");
  std::uint64_t left =
      count.is_whole() && count.as_whole() >= 0 ? static_cast<std::uint64_t>(count.as_whole()) : UINT64_MAX;
  const std::string_view bytes = text.bytes(), part = from.bytes();
  Text made;
  std::size_t done = 0;
  for (std::size_t at = 0; left > 0; --left) {
    const std::size_t found = bytes.find(part, at);
    if (found == bytes.npos || made.bytes.size() > kMostText) break;
    made.add(*text.text, done, found);
    made.add(*to.text);
    done = found + part.size();
    at = done;
    if (!part.empty()) continue;
    // Between all characters.
    if (at == bytes.size()) break;
    (void)next_code_point(bytes, at);
  }
  made.add(*text.text, done, bytes.size());
  return machine.keep(std::move(made));
}

Maybe<Value> in_case(Machine& machine, const Value& text, Casing casing) {
  const std::string_view bytes = text.bytes();
  Text made;
  if (casing == Casing::upper || casing == Casing::lower) {
    made.add(casing == Casing::upper ? upper_case(bytes) : lower_case(bytes), text.text->is_given());
    return machine.keep(std::move(made));
  }
  // title: letters after others than letters; capitalized: the first character.
  bool begins = true;
  std::string cased;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(bytes, at);
    const std::string_view one = bytes.substr(begin, at - begin);
    cased += begins ? title_case(one) : lower_case(one);
    begins = casing == Casing::title && !is_cased(c);
  }
  made.add(cased, text.text->is_given());
  return machine.keep(std::move(made));
}

Maybe<Value> format_percent(Machine& machine, const Value& format, std::span<const Value> values) {
  const std::string_view bytes = format.bytes();
  Text made;
  std::size_t used = 0, done = 0;
  for (std::size_t at = 0; (at = bytes.find('%', at)) != bytes.npos;) {
    made.add(*format.text, done, at);
    const std::size_t letter = std::min(bytes.find_first_of("%sdifxXrgeE", at + 1), bytes.size());
    if (letter == bytes.size()) return machine.fail("a format ends in %, or has a conversion that is not known");
    const std::string flags(bytes.substr(at + 1, letter - at - 1));
    done = at = letter + 1;
    const char kind = bytes[letter];
    if (kind == '%') {
      made.add("%");
      continue;
    }
    if (used == values.size()) return machine.fail("not enough arguments for format string");
    const Value& value = values[used++];
    if (kind == 's' || kind == 'r') {
      if (!flags.empty())
        return machine.fail({"%", flags, std::string_view(&kind, 1), " is not known here"}, Errc::unsupported);
      kind == 's' ? add_string(made, value) : add_repr(made, value);
    } else {
      WEFT_TRY(const std::string number, convert(machine, value, flags, kind));
      made.add(number);
    }
    if (made.bytes.size() > kMostText) break;
  }
  if (used != values.size()) return machine.fail("not all arguments converted during string formatting");
  made.add(*format.text, done, bytes.size());
  return machine.keep(std::move(made));
}

}  // namespace weft::text::jinja
