// SPDX-License-Identifier: Apache-2.0

#include "server/event_ring.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weft::server {
namespace {

constexpr std::array<std::string_view, 8> kTopics{"statistics", "faults",  "drift", "checkpoints",
                                                  "sessions",   "weights", "phase", "expired"};

std::string text_of(std::string_view event, const Json& data, std::optional<std::uint64_t> number) {
  std::string text = number ? "id: " + std::to_string(*number) + "\n" : std::string();
  text += "event: ";
  text += event;
  return text + "\ndata: " + data.dump(Json::Order::as_set) + "\n\n";
}

}  // namespace

bool EventRing::is_topic(std::string_view topic) noexcept {
  return std::find(kTopics.begin(), kTopics.end(), topic) != kTopics.end();
}

bool EventRing::wants(const Reading& reading, std::string_view topic) {
  return reading.topics.empty() || reading.topics.contains(topic);
}

Status EventRing::check_room() const {
  const std::lock_guard hold(mutex_);
  if (readers_.size() < kMostReaders) return {};
  return fail(Errc::full, "events: " + std::to_string(kMostReaders) + " clients read them already");
}

void EventRing::send(Reader& to, std::string text, bool is_statistics) {
  if (!is_statistics && to.lost > 0) text = text_of("gap", {{"lost", to.lost}}, std::nullopt) + text;
  if (to.stream->send(std::move(text))) {
    to.heard = Clock::now();
    if (!is_statistics) to.lost = 0;
    return;
  }
  ++dropped_;
  to.lost += !is_statistics;
}

void EventRing::add(std::shared_ptr<HttpStream> stream, Reading reading) {
  const std::lock_guard hold(mutex_);
  Reader reader{std::move(stream), std::move(reading)};
  (void)reader.stream->send("retry: 2000\n\n");
  if (reader.reading.after) {
    const std::uint64_t first = events_.empty() ? next_ : events_.front().number;
    if (*reader.reading.after + 1 < first)
      send(reader, text_of("gap", {{"lost", first - *reader.reading.after - 1}}, std::nullopt), false);
    for (const Event& event : events_)
      if (event.number > *reader.reading.after && wants(reader.reading, event.topic)) send(reader, event.text, false);
  }
  if (ended_) reader.stream->end();
  readers_.push_back(std::move(reader));
}

void EventRing::publish(std::string_view topic, std::string_view event, const Json& data) {
  const std::lock_guard hold(mutex_);
  events_.push_back({next_, std::string(topic), text_of(event, data, next_)});
  ++next_;
  if (events_.size() > kKept) events_.pop_front();
  for (Reader& reader : readers_)
    if (wants(reader.reading, topic)) send(reader, events_.back().text, false);
}

void EventRing::turn(Clock::time_point now, const std::function<Json()>& statistics) {
  const std::lock_guard hold(mutex_);
  std::erase_if(readers_, [](const Reader& reader) { return !reader.stream->is_open(); });
  std::string text;
  for (Reader& reader : readers_) {
    if (wants(reader.reading, "statistics") && now >= reader.next) {
      if (text.empty()) text = text_of("statistics", statistics(), std::nullopt);
      reader.next = now + reader.reading.every;
      send(reader, text, true);
    } else if (now - reader.heard >= kHeartbeat) {
      reader.heard = now;
      (void)reader.stream->send(": hb\n\n");
    }
  }
}

void EventRing::end() {
  const std::lock_guard hold(mutex_);
  ended_ = true;
  for (Reader& reader : readers_) {
    (void)reader.stream->send(text_of("bye", Json::object(), std::nullopt));
    reader.stream->end();
  }
  readers_.clear();
}

std::size_t EventRing::readers() const {
  const std::lock_guard hold(mutex_);
  return readers_.size();
}

std::uint64_t EventRing::dropped() const {
  const std::lock_guard hold(mutex_);
  return dropped_;
}

}  // namespace weft::server
