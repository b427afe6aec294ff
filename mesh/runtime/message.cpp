// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/message.hpp"

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

std::string_view name(MessageType type) noexcept { return kTypeNames[static_cast<std::size_t>(type)]; }
MessageWay way_of(MessageType type) noexcept { return kTypeWays[static_cast<std::size_t>(type)]; }

// Handling a message should cost nothing for somebody who may wait: the waiting side looks, less and less often.
bool Message::wait_for(std::chrono::nanoseconds time) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + time;
  std::chrono::nanoseconds pause = std::chrono::microseconds(10);
  while (!is_done()) {
    const Clock::time_point now = Clock::now();
    if (now >= end) return is_done();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, end - now));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, std::chrono::milliseconds(1));
  }
  return true;
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
