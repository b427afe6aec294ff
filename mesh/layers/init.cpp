// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/init.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace weft::mesh {
namespace {

Initializer uniform(float bound) {
  return [bound](RandomStream& random, std::span<float> values) {
    for (float& value : values) value = (2.0f * random.next_uniform() - 1.0f) * bound;
  };
}

Initializer normal(float deviation) {
  return [deviation](RandomStream& random, std::span<float> values) {
    for (float& value : values) value = random.next_normal() * deviation;
  };
}

}  // namespace

Initializer constant(float value) {
  return [value](RandomStream&, std::span<float> values) { std::fill(values.begin(), values.end(), value); };
}

Result<Initializer> make_initializer(std::string_view kind, std::size_t in, std::size_t out, std::string_view object) {
  const float fan_in = static_cast<float>(in), fan_sum = static_cast<float>(in + out);
  if (kind == "xavier") return uniform(std::sqrt(6.0f / fan_sum));
  if (kind == "he") return normal(std::sqrt(2.0f / fan_in));
  if (kind == "normal") return normal(std::sqrt(1.0f / fan_in));
  if (kind == "uniform") return uniform(std::sqrt(1.0f / fan_in));
  if (kind == "zero") return constant(0.0f);
  return fail(Errc::unknown_name, std::string(object) + ".init: no initializer '" + std::string(kind) +
                                      "'; known are xavier, he, normal, uniform, zero");
}

}  // namespace weft::mesh
