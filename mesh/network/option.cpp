// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/option.hpp"

#include "kernels/activation.hpp"

#include "core/dtype.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace weft::mesh::option {
namespace {

template <class Name>
std::vector<std::string_view> names_of(int count) {
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) names.push_back(name(static_cast<Name>(i)));
  return names;
}

OptionRow row(std::string_view key, OptionKind kind, const Default& fallback, std::string_view meaning) {
  OptionRow made;
  made.key = key;
  made.kind = kind;
  made.fallback = fallback.json;
  made.fallback_words = fallback.words;
  made.is_needed = fallback.is_needed;
  made.meaning = meaning;
  return made;
}

OptionRow bounded(OptionRow made, double low, double high, std::string_view unit) {
  made.low = low;
  made.high = high;
  made.unit = unit;
  return made;
}

OptionRow one_of_set(OptionRow made, std::vector<std::string_view> names, std::string_view set) {
  made.names = std::move(names);
  made.set = set;
  return made;
}

}  // namespace

std::string json_number(double value) {
  std::array<char, 32> digits{};
  std::string text(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
  if (const std::size_t zero = text.find("e-0"); zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}

OptionRow flag(std::string_view key, const Default& fallback, std::string_view meaning) {
  return row(key, OptionKind::flag, fallback, meaning);
}

OptionRow number(std::string_view key, const Default& fallback, double low, double high, std::string_view unit,
                 std::string_view meaning) {
  return bounded(row(key, OptionKind::number, fallback, meaning), low, high, unit);
}

OptionRow whole(std::string_view key, const Default& fallback, double low, double high, std::string_view unit,
                std::string_view meaning) {
  return bounded(row(key, OptionKind::whole, fallback, meaning), low, high, unit);
}

OptionRow wholes(std::string_view key, const Default& fallback, double low, double high, std::size_t fewest,
                 std::size_t most, std::string_view unit, std::string_view meaning) {
  OptionRow made = bounded(row(key, OptionKind::whole_list, fallback, meaning), low, high, unit);
  made.fewest = fewest;
  made.most = most;
  made.is_one_for_all = true;
  return made;
}

OptionRow bits(std::string_view key, const Default& fallback, std::string_view meaning) {
  OptionRow made = bounded(row(key, OptionKind::whole_list, fallback, meaning), 0, 1, "-");
  made.fewest = 1;
  return made;
}

OptionRow numbers(std::string_view key, const Default& fallback, std::string_view unit, std::string_view meaning) {
  OptionRow made = row(key, OptionKind::number_list, fallback, meaning);
  made.fewest = 1;
  made.unit = unit;
  return made;
}

OptionRow choice(std::string_view key, const Default& fallback, std::vector<std::string_view> names,
                 std::string_view meaning) {
  return one_of_set(row(key, OptionKind::choice, fallback, meaning), std::move(names), {});
}

OptionRow out(const Default& fallback, std::string_view unit, std::string_view meaning) {
  OptionRow made = bounded(row("out", OptionKind::whole, fallback, meaning), 1, 16777216, unit);
  made.set = "width";
  return made;
}

OptionRow same_out() { return out(computed("the input's width"), "values", "only the input's own"); }

OptionRow layers(std::string_view meaning) { return row("layers", OptionKind::layers, needed(), meaning); }

OptionRow activation(const Default& fallback, std::string_view meaning) {
  return one_of_set(row("activation", OptionKind::choice, fallback, meaning),
                    names_of<kernels::Activation>(kernels::kActivationCount), "activation");
}

OptionRow init(const Default& fallback, std::string_view meaning) {
  return one_of_set(
      row("init", OptionKind::choice, fallback, meaning),
      {"xavier", "he", "normal", "uniform", "zero", "orthogonal", "xavier_normal", "he_uniform", "sparse"}, "init");
}

OptionRow dtype(std::string_view key, const Default& fallback, std::string_view meaning) {
  return one_of_set(row(key, OptionKind::choice, fallback, meaning), names_of<Dtype>(kDtypeCount), "dtype");
}

OptionRow only_with(std::string_view condition, OptionRow made) {
  made.only_with = condition;
  return made;
}

}  // namespace weft::mesh::option
