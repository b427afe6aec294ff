// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/coord.hpp"
#include "core/encoding.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::agent {

/// Kinds of commands that `weft send` gives to a running agent.
enum class AgentCommandKind : int {
  enable,
  disable,
  period,
  weights,
  reset,
  probe,
  snapshot,
  morph,
  rate,
  freeze,
  thaw
};

/// Part of the mesh that a command acts on.
enum class CommandScope : int { cell, layer };

/// Properties of a kind of command: its name, what it acts on, what comes with it.
struct CommandRow {
  AgentCommandKind kind;
  std::string_view name;
  CommandScope scope;
  bool may_be_all;         // "*": every cell, or every layer that it can act on
  std::string_view value;  // key of what must come with it; empty: nothing
};
/// A row for each kind, in their order.
std::span<const CommandRow> command_rows() noexcept;
const CommandRow& row_of(AgentCommandKind kind);

/// The place of a command: a cell, a layer of it, or none: all.
struct CommandPlace {
  Coord at;
  bool has_layer = false;
};

/// A command of `weft send`, as it goes over the socket (docs/formats/top.md).
struct AgentCommand {
  AgentCommandKind kind = AgentCommandKind::probe;
  std::optional<CommandPlace> place;     // none: all
  std::uint64_t ticks = 1;               // period
  std::uint64_t session = 0;             // probe
  std::uint32_t parameter = 0;           // weights
  float rate = 0.0f;                     // rate
  std::vector<float> values;             // weights, row-major
  Encoding encoding{};                   // morph
  std::optional<std::uint64_t> at_tick;  // not before; none: now
};

/// "0,0,1", "0,0,1,0", "[0,0,1]", or "*". @error invalid_argument: no place
Result<std::optional<CommandPlace>> read_place(std::string_view text);
/// "[0,0,1]" or "[0,0,1,0]"; "all" of none.
std::string text_of(const std::optional<CommandPlace>& place);

/// The request's object, under the key "send".
Json to_json(const AgentCommand& command);
/// Reads what `to_json` writes.
/// @error parse_failed and others of the JSON reader, naming the key; invalid_argument: a command that its place or its
///        values do not fit
Result<AgentCommand> read_command(const Json& command);

}  // namespace weft::agent
