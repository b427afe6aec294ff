// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"

#include "core/archive.hpp"
#include "core/result.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Types of messages: one vocabulary for links, learning, commands and users' cells (docs/actors.md).
enum class MessageType : std::uint32_t {
#define WEFT_MESSAGE(name, way, meaning) name,
#include "mesh/runtime/messages.def"
#undef WEFT_MESSAGE
};
inline constexpr std::size_t kMessageTypeCount = 0
#define WEFT_MESSAGE(name, way, meaning) +1
#include "mesh/runtime/messages.def"
#undef WEFT_MESSAGE
    ;
/// Ways of a message: published in a double buffer and read where it stands, or mailed to one cell.
enum class MessageWay : int { published, mailed };

/// "unknown" of a number without a row.
std::string_view name(MessageType type) noexcept;
MessageWay way_of(MessageType type) noexcept;

/// A message in the mail, and the answer once it was handled. Make it, send it once, keep the pointer, check `is_done`.
/// Level, sender and, of a mail, sequence and failure are set as it is sent: what they hold before counts for nothing.
struct Message {
  explicit Message(MessageType of_type) noexcept : type(of_type) {}
  virtual ~Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  const MessageType type;
  std::uint32_t level = 0;       // layer inside the cell
  std::uint32_t sender = 0;      // 0: from outside; else the layer that sent it, its node + 1
  std::uint64_t not_before = 0;  // tick before which it is not handled; recorded messages are replayed by it

  /// @thread any; pairs with the release in `finish`
  bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Waits until it was handled, while another thread ticks. False: the time is over; the message is handled all the
  /// same. @thread any
  bool wait_for(std::chrono::nanoseconds time) const;
  /// Tick at whose boundary it was handled, and what went wrong. Read after is_done().
  std::uint64_t done_at() const noexcept { return done_at_; }
  const Status& status() const noexcept { return status_; }
  const std::vector<float>& answer() const noexcept { return answer_; }

  /// Takes it to be sent. False: it was sent before. @thread any: one of several senders gets it
  bool claim() noexcept { return !is_claimed_.exchange(true, std::memory_order_acq_rel); }
  /// It was refused, and may be sent again.
  void release() noexcept { is_claimed_.store(false, std::memory_order_release); }  // pairs with the acquire in claim

  /// The first answer stands: after a mesh went back (Mesh::restore_snapshot) a message may be handled again.
  void finish(std::uint64_t tick, Status status, std::vector<float> answer = {}) {
    if (is_done()) return;
    done_at_ = tick;
    status_ = std::move(status);
    answer_ = std::move(answer);
    done_.store(true, std::memory_order_release);  // pairs with the acquire in is_done
  }

 private:
  std::atomic<bool> done_{false}, is_claimed_{false};
  std::uint64_t done_at_ = 0;
  Status status_;
  std::vector<float> answer_;
};

/// `tick`, and so many more; the end of time where they are more than there are.
constexpr std::uint64_t ticks_after(std::uint64_t tick, std::uint64_t ticks) noexcept {
  return ticks > UINT64_MAX - tick ? UINT64_MAX : tick + ticks;
}

/// A message that a layer handles as it fires: a target, or a user's own.
struct Mail final : Message {
  /// A tell wants no reply, an ask does.
  enum class Kind : std::uint32_t { tell, ask, reply };
  static constexpr std::uint32_t kKinds = 3;
  static constexpr std::uint64_t kErrcCount = 0
#define WEFT_ERROR(name, exit_code, meaning) +1
#include "core/errors.def"
#undef WEFT_ERROR
      ;

  explicit Mail(MessageType of_type = MessageType::user) noexcept : Message(of_type) {}

  Kind kind = Kind::tell;
  std::uint32_t number = 0;    // a user's own type; of a target the session
  std::uint32_t failure = 0;   // of a reply: 0, or the Errc + 1
  std::uint64_t sequence = 0;  // of its sender's mail; of a reply that of the question
  std::uint64_t deadline =
      0;              // last tick at which it is handled; of mail from outside counted from its arrival; 0: none
  float rate = 0.0f;  // of a target
  std::vector<float> values;
  std::vector<std::byte> bytes;

  /// Everything of mail that waits; its answer is no state.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    archive.word(Field{"level", Scope::care}, self.level, 0, UINT32_MAX);
    archive.word(Field{"sender", Scope::care}, self.sender, 0, UINT32_MAX);
    archive.word(Field{"not_before", Scope::care}, self.not_before);
    archive.word(Field{"kind", Scope::care}, self.kind, 0, kKinds - 1);
    archive.word(Field{"number", Scope::care}, self.number, 0, UINT32_MAX);
    archive.word(Field{"failure", Scope::care}, self.failure, 0, kErrcCount);
    archive.word(Field{"sequence", Scope::care}, self.sequence);
    archive.word(Field{"deadline", Scope::care}, self.deadline);
    archive(Field{"rate", Scope::care}, self.rate);
    archive.list(Field{"values", Scope::care}, self.values);
    archive.list(Field{"bytes", Scope::care}, self.bytes);
  }
};

/// Nothing where a sender may send it: it is what its type says, and its numbers have names.
/// @error invalid_argument; unsupported: it is published, not mailed
Status check_message(const std::string& object, const Message& message);
/// The refusal of a message that was sent before.
Failure sent_before(const std::string& object);

/// A target: the layer's output in `session` should have been `values`. The layer moves its weights by `rate` down the
/// gradient of half the squared distance.
MailPointer make_target(std::vector<float> values, float rate, std::uint32_t session = 0);
/// A user's own message of type `number`.
MailPointer make_mail(std::uint32_t number, std::vector<float> values = {}, std::vector<std::byte> bytes = {});

/// Mail as lists of it stand in records: the type, then its fields.
template <class Self, class Archive>
void visit_mail(Self& mail, Archive& archive) {
  auto type = mail ? mail->type : MessageType::user;
  archive.word(Field{"type", Scope::care}, type, 0, kMessageTypeCount - 1);
  if constexpr (!std::is_const_v<Self>)
    if (!mail) mail = std::make_shared<Mail>(type);
  Mail::visit(*mail, archive);
}

}  // namespace weft::mesh
