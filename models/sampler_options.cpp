// SPDX-License-Identifier: Apache-2.0

#include "models/sampler_options.hpp"

#include "core/printable.hpp"

#include <algorithm>

namespace weft::models {
namespace {

struct StepName {
  std::string_view name;
  char letter;
};
// In the order of SamplerStep, which is llama.cpp's.
constexpr StepName kSteps[] = {{"penalties", 'e'}, {"dry", 'd'},   {"top_n_sigma", 's'},
                               {"top_k", 'k'},     {"typ_p", 'y'}, {"top_p", 'p'},
                               {"min_p", 'm'},     {"xtc", 'x'},   {"temperature", 't'}};

Status add(std::size_t index, std::string_view given, const std::string& what, SamplerOptions::Order& to) {
  if (index == std::size(kSteps))
    return fail(Errc::unknown_name, what + ": " + in_quotes(given) + " is none of " + sampler_names());
  const auto step = static_cast<SamplerStep>(index);
  if (std::find(to.begin(), to.end(), step) != to.end())
    return fail(Errc::duplicate_name, what + ": " + in_quotes(given) + " is there twice; each step is done once");
  to.push_back(step);
  return {};
}

template <class T>
Status check_number(const SamplerNumber<T>& of, const SamplerOptions& options) {
  const T value = options.steps.*of.value;
  if (value >= of.least && value <= of.most) return {};  // not of a NaN
  return fail(Errc::out_of_range, std::string(of.name) + " " + std::to_string(value) + " is not between " +
                                      std::to_string(of.least) + " and " + std::to_string(of.most));
}

}  // namespace

SamplerOptions::Order SamplerOptions::llama_order() {
  using enum SamplerStep;
  return {penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature};
}

SamplerOptions::Order SamplerOptions::hf_order() {
  using enum SamplerStep;
  return {penalties, dry, top_n_sigma, temperature, top_k, top_p, min_p, typ_p, xtc};
}

std::string_view name_of(SamplerStep step) noexcept { return kSteps[static_cast<std::size_t>(step)].name; }

std::string sampler_names() {
  std::string all;
  for (const StepName& each : kSteps) all += (all.empty() ? "" : ";") + std::string(each.name);
  return all;
}

Status add_step(std::string_view name, const std::string& what, SamplerOptions::Order& to) {
  std::size_t i = 0;
  while (i < std::size(kSteps) && kSteps[i].name != name) ++i;
  return add(i, name, what, to);
}

Result<SamplerOptions::Order> parse_order(std::string_view names, const std::string& what) {
  SamplerOptions::Order order;
  for (std::size_t at = 0; !names.empty() && at <= names.size();) {
    const std::size_t end = std::min(names.find(';', at), names.size());
    WEFT_CHECK(add_step(names.substr(at, end - at), what, order));
    at = end + 1;
  }
  return order;
}

Result<SamplerOptions::Order> parse_order_letters(std::string_view letters, const std::string& what) {
  SamplerOptions::Order order;
  for (const char& letter : letters) {
    std::size_t i = 0;
    while (i < std::size(kSteps) && kSteps[i].letter != letter) ++i;
    WEFT_CHECK(add(i, {&letter, 1}, what, order));
  }
  return order;
}

Status check_breakers(std::span<const std::string> breakers, const std::string& what) {
  constexpr std::size_t kMost = SamplerStepOptions::kMostBreakers, kLongest = SamplerStepOptions::kLongestBreaker;
  if (breakers.size() > kMost)
    return fail(Errc::out_of_range,
                what + ": " + std::to_string(breakers.size()) + " texts are more than " + std::to_string(kMost));
  for (std::size_t i = 0; i < breakers.size(); ++i) {
    const std::string at = what + "[" + std::to_string(i) + "]: ";
    if (breakers[i].empty()) return fail(Errc::invalid_argument, at + "an empty text breaks nothing; leave it out");
    if (breakers[i].size() > kLongest)
      return fail(Errc::invalid_argument,
                  at + std::to_string(breakers[i].size()) + " bytes are more than " + std::to_string(kLongest));
  }
  return {};
}

Status check_sampler(const SamplerOptions& options) {
  for (const auto& each : kSamplerReals) WEFT_CHECK(check_number(each, options));
  for (const auto& each : kSamplerWholes) WEFT_CHECK(check_number(each, options));
  return check_breakers(options.steps.dry_breakers, "dry_sequence_breakers");
}

}  // namespace weft::models
