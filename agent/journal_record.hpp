// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/external/answer.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh.hpp"
#include "mesh/runtime/command.hpp"

#include "core/bytes.hpp"
#include "core/coord.hpp"
#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft::agent {

enum class RecordKind : std::uint32_t {
  none = 0,
#define WEFT_RECORD(name, meaning) name,
#include "agent/records.def"
#undef WEFT_RECORD
};
std::string_view name(RecordKind kind) noexcept;

/// Content of one record. Names and values own their memory; a learner's spans point into it (`Batch`).
struct InputRecord {
  std::string port;
  std::uint64_t session = 0;
  std::vector<float> values;
};
/// Ticks that a call ran; `halted`: a fault ended the call, so it can only be replayed as a whole.
struct TicksRecord {
  std::uint64_t ticks = 0;
  bool halted = false;
};
struct LearnRecord {
  struct Port {
    std::string name;
    std::vector<float> values;
  };
  struct Output {
    std::string name;
    std::vector<std::uint32_t> labels;
    std::vector<float> values, weights{};
  };
  std::uint64_t samples = 0;
  bool halted = false;
  std::vector<Port> inputs;
  std::vector<Output> targets;
};
struct DrainRecord {
  bool halted = false;
};
struct CommandRecord {
  Coord cell;
  std::shared_ptr<mesh::Command> control;
};
/// A target, or a user's own message. Commands have a record of their own.
struct MessageRecord {
  Coord to;
  mesh::MailPointer mail;
};
struct AddSessionRecord {};
struct RemoveSessionRecord {
  std::uint64_t session = 0;
};
struct ResetSessionRecord {
  std::uint64_t session = 0;
};
struct AttachSessionRecord {
  bool allow_other_weights = false;
  ByteSpan file;  // into the journal's own bytes
};
struct ResumeRecord {};
struct AnnotationRecord {
  std::string topic;
  std::string text;
};
struct MarkerRecord {
  std::uint64_t tick = 0;
  Hash128 hash;
};
struct CheckpointRecord {
  std::uint64_t tick = 0;  // its hash is in the checkpoint: it takes time for which the mesh should not pause
};
struct ObserveRecord {
  bool halted = false;
  std::vector<LearnRecord::Port> inputs;
};
struct TeachRecord {
  struct Output {
    std::string name;
    std::vector<std::uint32_t> labels;
    std::vector<float> values, gradient, weights;
    std::optional<learning::TraceSignal> signal;
  };
  learning::Ticket ticket = 0;
  bool halted = false;
  std::vector<Output> targets;

  /// The targets as a learner takes them: they point into the record.
  std::vector<learning::Target> views() const;
};
struct ForgoRecord {
  learning::Ticket ticket = 0;
};
struct DeliverRecord {};
/// Steps in the environment; all of them follow from the state before.
struct ActRecord {
  std::uint64_t steps = 0;
  bool halted = false;
};
/// Reaction to a change of the task that a detector saw: commands to all layers, which follow from the state before.
struct ReactRecord {};
/// Steps in an environment outside of this process, with all that it answered in them.
struct ActExternalRecord {
  std::uint64_t steps = 0;
  bool halted = false;
  std::vector<Answer> answers;

  /// Answers of the steps [first, first + count). @pre not halted
  std::span<const Answer> of(std::uint64_t first, std::uint64_t count) const;
};
using Record = std::variant<InputRecord, TicksRecord, LearnRecord, DrainRecord, CommandRecord, AddSessionRecord,
                            RemoveSessionRecord, ResetSessionRecord, AttachSessionRecord, ResumeRecord,
                            AnnotationRecord, MarkerRecord, CheckpointRecord, MessageRecord, ObserveRecord, TeachRecord,
                            ForgoRecord, DeliverRecord, ActRecord, ReactRecord, ActExternalRecord>;

/// Bytes of records, written one after another into memory that is used again.
/// Floats whose low halves are all zero (what is exact in bfloat16, as pictures of few grey levels are) take two bytes;
/// labels take one byte or two where they fit.
/// @thread one at a time
class RecordBytes {
 public:
  RecordBytes& begin() noexcept {
    bytes_.clear();
    return *this;
  }
  ByteSpan bytes() const noexcept { return bytes_; }

  void put_input(std::string_view port, std::uint64_t session, std::span<const float> values);
  void put_ticks(std::uint64_t ticks, bool halted);
  void put_learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
                 std::uint64_t samples, bool halted);
  void put_drain(bool halted);
  void put_observe(std::span<const mesh::RunInput> inputs, bool halted);
  void put_teach(learning::Ticket ticket, std::span<const learning::Target> targets, bool halted);
  void put_forgo(learning::Ticket ticket);
  void put_act(std::uint64_t steps, bool halted);
  void put_act_external(std::uint64_t steps, std::span<const Answer> answers, bool halted);
  void put_command(Coord cell, const mesh::Command& control);
  void put_message(Coord to, const mesh::Mail& mail);
  void put_session(std::uint64_t session);
  void put_attach(ByteSpan file, bool allow_other_weights);
  void put_annotation(std::string_view topic, std::string_view text);
  void put_marker(std::uint64_t tick, Hash128 hash);
  void put_tick(std::uint64_t tick);

 private:
  template <class T>
  void number(T value);
  void text(std::string_view value);
  void floats(std::span<const float> values);
  void labels(std::span<const std::uint32_t> values);
  std::vector<std::byte> bytes_;
};

/// @error corrupt: no such kind, lengths that do not fit, values out of range, bytes left over
Result<Record> read_record(std::uint32_t kind, ByteSpan payload);

}  // namespace weft::agent
