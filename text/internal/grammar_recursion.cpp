// SPDX-License-Identifier: Apache-2.0

#include "text/internal/grammar_rules.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <utility>

namespace weft::text {
namespace {

/// A call that may be reached without a character. `is_last`: nothing stands behind it, so it replaces its caller.
struct Call {
  std::uint32_t to;
  bool is_last;
};

/// Rules that may be empty.
std::vector<bool> empty_rules(const Grammar::Rules& rules) {
  std::vector<bool> is_empty(rules.begins.size());
  for (bool changes = true; changes;) {
    changes = false;
    for (std::size_t rule = 0; rule < rules.begins.size(); ++rule) {
      if (is_empty[rule]) continue;
      bool row = true, any = false;
      for (std::size_t i = rules.begins[rule];; ++i) {
        const auto& element = rules.elements[i];
        if (element.part == GrammarPart::character) row = false;
        if (element.part == GrammarPart::rule) row = row && is_empty[element.index];
        if (element.part != GrammarPart::next && element.part != GrammarPart::end) continue;
        any |= row;
        row = true;
        if (element.part == GrammarPart::end) break;
      }
      changes |= any;
      is_empty[rule] = any;
    }
  }
  return is_empty;
}

/// Rules that may be empty or come to a character; all others call one another for ever.
std::vector<bool> rules_that_begin(const Grammar::Rules& rules, const std::vector<bool>& is_empty) {
  std::vector<bool> takes(rules.begins.size()), begins = is_empty;  // takes: comes to a character
  for (bool changes = true; changes;) {
    changes = false;
    for (std::size_t rule = 0; rule < rules.begins.size(); ++rule) {
      bool reached = true;
      for (std::size_t i = rules.begins[rule]; !takes[rule] && rules.elements[i].part != GrammarPart::end; ++i) {
        const auto& element = rules.elements[i];
        const bool is_call = element.part == GrammarPart::rule;
        if (element.part == GrammarPart::next) {
          reached = true;
          continue;
        }
        if (reached && (!is_call || takes[element.index])) takes[rule] = begins[rule] = changes = true;
        reached = reached && is_call && is_empty[element.index];
      }
    }
  }
  return begins;
}

std::vector<std::vector<Call>> calls_of(const Grammar::Rules& rules, const std::vector<bool>& is_empty) {
  std::vector<std::vector<Call>> calls(rules.begins.size());
  for (std::size_t rule = 0; rule < rules.begins.size(); ++rule) {
    bool reached = true;
    for (std::size_t i = rules.begins[rule]; rules.elements[i].part != GrammarPart::end; ++i) {
      const auto& element = rules.elements[i];
      if (element.part == GrammarPart::next) {
        reached = true;
        continue;
      }
      if (element.part == GrammarPart::rule && reached) {
        const GrammarPart behind = rules.elements[i + 1].part;
        calls[rule].push_back({element.index, behind == GrammarPart::next || behind == GrammarPart::end});
      }
      reached = reached && element.part == GrammarPart::rule && is_empty[element.index];
    }
  }
  return calls;
}

/// Numbers of strongly connected components (Tarjan 1972), without recursion.
class Components {
 public:
  explicit Components(const std::vector<std::vector<Call>>& calls)
      : numbers(calls.size(), kNone), calls_(calls), order_(calls.size(), kNone), low_(calls.size()) {
    for (std::uint32_t rule = 0; rule < calls.size(); ++rule)
      if (order_[rule] == kNone) visit(rule);
  }
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<std::uint32_t> numbers;

 private:
  void visit(std::uint32_t start) {
    std::vector<std::pair<std::uint32_t, std::size_t>> path{{start, 0}};
    enter(start);
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next < calls_[rule].size()) {
        const std::uint32_t to = calls_[rule][next++].to;
        if (order_[to] == kNone) {
          enter(to);
          path.emplace_back(to, 0);
        } else if (numbers[to] == kNone) {
          low_[rule] = std::min(low_[rule], order_[to]);
        }
        continue;
      }
      const std::uint32_t done = rule;
      if (low_[done] == order_[done]) close(done);
      path.pop_back();
      if (!path.empty()) low_[path.back().first] = std::min(low_[path.back().first], low_[done]);
    }
  }
  void enter(std::uint32_t rule) {
    order_[rule] = low_[rule] = count_++;
    open_.push_back(rule);
  }
  void close(std::uint32_t rule) {
    for (std::uint32_t last = kNone; last != rule;) {
      last = open_.back();
      open_.pop_back();
      numbers[last] = rule;
    }
  }

  const std::vector<std::vector<Call>>& calls_;
  std::vector<std::uint32_t> order_, low_, open_;
  std::uint32_t count_ = 0;
};

}  // namespace

Status check_left_recursion(const Grammar::Rules& rules, const std::vector<std::string>& names) {
  const std::vector<bool> is_empty = empty_rules(rules), begins = rules_that_begin(rules, is_empty);
  const auto calls = calls_of(rules, is_empty);
  const Components components(calls);
  for (std::size_t rule = 0; rule < calls.size(); ++rule)
    if (!begins[rule])
      return fail(Errc::unsupported, "rule " + in_quotes(names[rule]) +
                                         " calls itself before it takes a character (left recursion), and has no other "
                                         "way to begin");
  for (std::size_t rule = 0; rule < calls.size(); ++rule)
    for (const Call& call : calls[rule])
      if (!call.is_last && components.numbers[rule] == components.numbers[call.to])
        return fail(Errc::unsupported, "rule " + in_quotes(names[rule]) +
                                           " calls itself before it takes a character (left recursion): write it with "
                                           "* or with the call at the end");
  return {};
}

}  // namespace weft::text
