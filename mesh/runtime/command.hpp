// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/runtime/message.hpp"

#include "actors/actor.hpp"

#include "core/archive.hpp"
#include "core/encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::mesh {

/// Kinds of commands to a cell of a running mesh. Each is executed at a tick boundary of the cell.
enum class CommandKind : int {
  enable,       ///< compute again
  disable,      ///< keep the last output and compute no more
  set_period,   ///< fire every `number` ticks, at multiples of it; between them the output stays
  set_weights,  ///< replace parameter `parameter` of layer `level` by `values` (row-major)
  reset,        ///< outputs and hidden state to zero
  probe,        ///< answer with the committed output of layer `level`, session `number`
  snapshot,     ///< answer with all parameters of layer `level`, one after another, row-major
  morph,        ///< store the weight matrices of layer `level` as `encoding` says
  set_rate,     ///< layer `level` learns at `values[0]` times the learning rate; 0: it does not move
};
inline constexpr std::size_t kCommandKindCount = 9;
/// "unknown" of a number without a name.
std::string_view name(CommandKind kind) noexcept;

/// A command to a cell and, when it is done, the answer.
struct Command final : Message {
  Command() noexcept : Message(MessageType::command) {}

  CommandKind kind = CommandKind::probe;
  std::uint32_t parameter = 0;  // index into Layer::parameters()
  std::uint64_t number = 0;
  Encoding encoding;  // wanted by morph
  std::vector<float> values;

  /// Everything of a command that waits; its answer is no state.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    archive.word(Field{"kind", Scope::care}, self.kind, 0, kCommandKindCount - 1);
    archive(Field{"level", Scope::care}, self.level);
    archive(Field{"sender", Scope::care}, self.sender);
    archive.word(Field{"parameter", Scope::care}, self.parameter, 0, UINT32_MAX);
    archive.word(Field{"number", Scope::care}, self.number);
    archive.coded(Field{"encoding", Scope::care}, self.encoding, encoding_word, read_encoding);
    archive.word(Field{"not_before", Scope::care}, self.not_before);
    archive.count(Field{"values", Scope::care}, self.values);
    for (auto& value : self.values) archive.coded(Field{"values", Scope::care}, value, value_word, read_value);
  }

 private:
  /// Type in the low byte, granularity above it.
  static std::uint64_t encoding_word(const Encoding& encoding) noexcept;
  static std::optional<Encoding> read_encoding(std::uint64_t word) noexcept;
  static std::uint64_t value_word(float value) noexcept;
  static std::optional<float> read_value(std::uint64_t word) noexcept;
};

/// A command without further fields.
inline CommandMessage make_command(CommandKind kind, std::uint64_t not_before = 0) {
  auto command = std::make_shared<Command>();
  command->kind = kind;
  command->not_before = not_before;
  return command;
}

}  // namespace weft::mesh
