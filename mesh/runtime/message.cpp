// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/message.hpp"

#include "mesh/runtime/command.hpp"

#include <algorithm>
#include <array>
#include <thread>

namespace weft::mesh {
namespace {

constexpr std::array<std::string_view, kMessageTypeCount> kTypeNames{
#define WEFT_MESSAGE(name, way, meaning) #name,
#include "mesh/runtime/messages.def"
#undef WEFT_MESSAGE
};
constexpr std::array<MessageWay, kMessageTypeCount> kTypeWays{
#define WEFT_MESSAGE(name, way, meaning) MessageWay::way,
#include "mesh/runtime/messages.def"
#undef WEFT_MESSAGE
};

}  // namespace

std::string_view name(MessageType type) noexcept {
  const auto row = static_cast<std::size_t>(type);
  return row < kTypeNames.size() ? kTypeNames[row] : "unknown";
}
MessageWay way_of(MessageType type) noexcept { return kTypeWays[static_cast<std::size_t>(type)]; }

// Handling a message should cost nothing for somebody who may wait: the waiting side looks, less and less often.
bool Message::wait_for(std::chrono::nanoseconds time) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = time > Clock::time_point::max() - begin ? Clock::time_point::max() : begin + time;
  std::chrono::nanoseconds pause = std::chrono::microseconds(10);
  while (!is_done()) {
    const Clock::time_point now = Clock::now();
    if (now >= end) return is_done();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, end - now));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, std::chrono::milliseconds(1));
  }
  return true;
}

Status check_message(const std::string& object, const Message& message) {
  const auto number = [](auto value) { return std::to_string(static_cast<std::uint64_t>(value)); };
  if (static_cast<std::size_t>(message.type) >= kMessageTypeCount)
    return fail(Errc::invalid_argument, object + "type " + number(message.type) + "; there is none");
  if (message.type == MessageType::command) {
    const auto* const command = dynamic_cast<const Command*>(&message);
    if (!command) return fail(Errc::invalid_argument, object + "no Command, although its type says so");
    if (static_cast<std::size_t>(command->kind) >= kCommandKindCount)
      return fail(Errc::invalid_argument, object + "command " + number(command->kind) + "; there is none");
    if (static_cast<std::size_t>(command->encoding.dtype) >= kDtypeCount ||
        static_cast<std::size_t>(command->encoding.granularity) >= std::size(kGranularities))
      return fail(Errc::invalid_argument, object + "its encoding has no name");
    const auto fits = check_granularity(command->encoding.dtype, command->encoding.granularity);
    if (!fits) return fail(fits.error().code(), object + fits.error().text());
    return {};
  }
  if (way_of(message.type) == MessageWay::published)
    return fail(Errc::unsupported, object + std::string(name(message.type)) + " is published, not mailed");
  const auto* const mail = dynamic_cast<const Mail*>(&message);
  if (!mail) return fail(Errc::invalid_argument, object + "no Mail, although its type says so");
  if (mail->kind != Mail::Kind::tell && mail->kind != Mail::Kind::ask)
    return fail(Errc::invalid_argument,
                object + "kind " + number(mail->kind) + "; tell and ask are sent, a reply by who was asked");
  return {};
}

Failure sent_before(const std::string& object) {
  return fail(Errc::invalid_argument, object + "it was sent before; make another");
}

MailPointer make_target(std::vector<float> values, float rate, std::uint32_t session) {
  auto mail = std::make_shared<Mail>(MessageType::target);
  mail->number = session;
  mail->rate = rate;
  mail->values = std::move(values);
  return mail;
}

MailPointer make_mail(std::uint32_t number, std::vector<float> values, std::vector<std::byte> bytes) {
  auto mail = std::make_shared<Mail>(MessageType::user);
  mail->number = number;
  mail->values = std::move(values);
  mail->bytes = std::move(bytes);
  return mail;
}

}  // namespace weft::mesh
