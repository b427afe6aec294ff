// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft::bridge {

/// Kinds of networks that planetbridging streams, by its own word "bedrock": chains of one layer type, an addition of
/// two inputs (residual), and a fixed network of many types (mixer).
enum class Bedrock : int {
  dense,
  cnn1,
  cnn2,
  cnn3,
  mha,
  lstm,
  rnn,
  layernorm,
  embedding,
  rmsnorm,
  swiglu,
  residual,
  mixer
};
inline constexpr std::size_t kBedrocks = 13;

/// The client's spelling: "cnn1".
std::string_view name(Bedrock bedrock) noexcept;
std::optional<Bedrock> parse_bedrock(std::string_view text) noexcept;
/// All of them, in the order of the enumeration.
const std::array<Bedrock, kBedrocks>& all_bedrocks() noexcept;
/// The version of the fixture that the client makes: "dense_bedrock_v2", "cnn1_bedrock_v1".
std::string shipped_fixture(Bedrock bedrock);

/// True of `[A-Za-z0-9._-]{1,128}` that does not begin with ".": a name that may be part of a path.
bool is_path_name(std::string_view text) noexcept;

}  // namespace weft::bridge
