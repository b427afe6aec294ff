// SPDX-License-Identifier: Apache-2.0

#include "agent/agent_command.hpp"

#include "core/json_reader.hpp"
#include "core/near_word.hpp"
#include "core/written_number.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weft::agent {
namespace {

using enum AgentCommandKind;
constexpr std::array kRows{
    CommandRow{enable, "enable", CommandScope::cell, true, ""},
    CommandRow{disable, "disable", CommandScope::cell, true, ""},
    CommandRow{period, "period", CommandScope::cell, true, "ticks"},
    CommandRow{weights, "weights", CommandScope::layer, false, "values"},
    CommandRow{reset, "reset", CommandScope::cell, true, ""},
    CommandRow{probe, "probe", CommandScope::layer, false, ""},
    CommandRow{snapshot, "snapshot", CommandScope::layer, false, ""},
    CommandRow{morph, "morph", CommandScope::layer, true, "dtype"},
    CommandRow{rate, "rate", CommandScope::layer, true, "rate"},
    CommandRow{freeze, "freeze", CommandScope::layer, true, ""},
    CommandRow{thaw, "thaw", CommandScope::layer, true, ""},
};
// row_of reads them by the number of the kind.
static_assert(kRows.size() == static_cast<std::size_t>(thaw) + 1 && [] {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (static_cast<std::size_t>(kRows[i].kind) != i) return false;
  return true;
}());

constexpr std::size_t kMostValues = std::size_t{1} << 18;

Status no_place(const std::string& object) {
  return fail(Errc::invalid_argument,
              object + ": is no place; give z,y,x of a cell or z,y,x,layer, such as 0,1,0, or *");
}

Result<AgentCommandKind> read_kind(const std::string& name) {
  std::vector<std::string_view> known;
  for (const CommandRow& row : command_rows()) {
    if (row.name == name) return row.kind;
    known.push_back(row.name);
  }
  return fail(Errc::unknown_name, "command '" + name + "': there is none" + did_you_mean(name, known));
}

Status read_json_place(JsonReader& reader, AgentCommand& command) {
  const auto cell = reader.find("cell");
  if (!cell) return {};
  WEFT_TRY(const auto parts, cell->array(3, 4));
  std::array<std::uint32_t, 4> at{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    WEFT_TRY(at[i], parts[i].u32());
  }
  command.place = CommandPlace{{at[0], at[1], at[2], at[3]}, parts.size() == 4};
  return {};
}

Status read_encoding(JsonReader& reader, AgentCommand& command) {
  WEFT_TRY(const std::string dtype_name, reader.string("dtype"));
  const auto dtype = parse_dtype(dtype_name);
  if (!dtype) return fail(Errc::unknown_name, "dtype '" + dtype_name + "': is no numeric type");
  WEFT_TRY(const std::string granularity_name, reader.string_or("granularity", ""));
  const auto granularity = parse_granularity(granularity_name);
  if (!granularity_name.empty() && (!granularity || !has_scale(*dtype)))
    return fail(Errc::invalid_argument, "granularity '" + granularity_name + "': is none that " + dtype_name + " has");
  if (granularity) WEFT_CHECK(check_granularity(*dtype, *granularity));
  command.encoding = Encoding(*dtype, granularity);
  return {};
}

Status read_value(JsonReader& reader, AgentCommand& command) {
  switch (command.kind) {
    case AgentCommandKind::period: {
      WEFT_TRY(command.ticks, reader.u64("ticks", 1));
      return {};
    }
    case AgentCommandKind::rate: {
      WEFT_TRY(command.rate, reader.f32("rate", 0.0f, 1000.0f));
      return {};
    }
    case AgentCommandKind::probe: {
      WEFT_TRY(command.session, reader.u64_or("session", 0));
      return {};
    }
    case AgentCommandKind::weights: {
      WEFT_TRY(command.parameter, reader.u32_or("parameter", 0));
      WEFT_TRY(const auto values, reader.array("values", 1, kMostValues));
      command.values.reserve(values.size());
      for (const JsonValue& value : values) {
        WEFT_TRY(command.values.emplace_back(), value.f32());
      }
      return {};
    }
    case AgentCommandKind::morph:
      return read_encoding(reader, command);
    default:
      return {};
  }
}

Status check_place(const AgentCommand& command) {
  const CommandRow& row = row_of(command.kind);
  if (!command.place && !row.may_be_all)
    return fail(Errc::invalid_argument, std::string(row.name) + ": is of one layer; name it, such as 0,1,0");
  if (command.place && command.place->has_layer && row.scope == CommandScope::cell)
    return fail(Errc::invalid_argument,
                std::string(row.name) + " " + text_of(command.place) + ": is of a whole cell; give its z,y,x alone");
  return {};
}

}  // namespace

std::span<const CommandRow> command_rows() noexcept { return kRows; }

const CommandRow& row_of(AgentCommandKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

Result<std::optional<CommandPlace>> read_place(std::string_view text) {
  if (text == "*") return std::optional<CommandPlace>();
  const bool has_brackets = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  std::string_view rest = has_brackets ? text.substr(1, text.size() - 2) : text;
  std::array<std::uint32_t, 4> parts{};
  std::size_t count = 0;
  for (bool goes_on = true; goes_on; ++count) {
    if (count == parts.size()) return fail(no_place(std::string(text)).error());
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), parts[count]);
    if (read.ec != std::errc()) return fail(no_place(std::string(text)).error());
    rest.remove_prefix(static_cast<std::size_t>(read.ptr - rest.data()));
    goes_on = !rest.empty();
    if (goes_on && rest.front() != ',') return fail(no_place(std::string(text)).error());
    if (goes_on) rest.remove_prefix(1);
  }
  if (count < 3) return fail(no_place(std::string(text)).error());
  return std::optional(CommandPlace{{parts[0], parts[1], parts[2], parts[3]}, count == 4});
}

std::string text_of(const std::optional<CommandPlace>& place) {
  if (!place) return "all";
  const Coord at = place->at;
  return "[" + std::to_string(at.z) + "," + std::to_string(at.y) + "," + std::to_string(at.x) +
         (place->has_layer ? "," + std::to_string(at.l) : "") + "]";
}

Json to_json(const AgentCommand& command) {
  Json out{{"command", row_of(command.kind).name}};
  if (command.place) {
    const Coord at = command.place->at;
    out["cell"] = Json::array({at.z, at.y, at.x});
    if (command.place->has_layer) out["cell"].push_back(at.l);
  }
  if (command.at_tick) out["at"] = *command.at_tick;
  switch (command.kind) {
    case AgentCommandKind::period:
      out["ticks"] = command.ticks;
      break;
    case AgentCommandKind::rate:
      out["rate"] = as_written(command.rate);
      break;
    case AgentCommandKind::probe:
      out["session"] = command.session;
      break;
    case AgentCommandKind::weights:
      out["parameter"] = command.parameter;
      for (const float value : command.values) out["values"].push_back(as_written(value));
      break;
    case AgentCommandKind::morph:
      out["dtype"] = name(command.encoding.dtype);
      if (has_scale(command.encoding.dtype)) out["granularity"] = name(command.encoding.granularity);
      break;
    default:
      break;
  }
  return out;
}

Result<AgentCommand> read_command(const Json& json) {
  WEFT_TRY(JsonReader reader, JsonReader::open(json, "send"));
  AgentCommand command;
  WEFT_TRY(const std::string name, reader.string("command"));
  WEFT_TRY(command.kind, read_kind(name));
  WEFT_CHECK(read_json_place(reader, command));
  if (const auto at = reader.find("at")) {
    WEFT_TRY(command.at_tick, at->u64());
  }
  WEFT_CHECK(read_value(reader, command));
  WEFT_CHECK(reader.finish());
  WEFT_CHECK(check_place(command));
  return command;
}

}  // namespace weft::agent
