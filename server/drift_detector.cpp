// SPDX-License-Identifier: Apache-2.0

#include "server/drift_detector.hpp"

#include "core/json_reader.hpp"

#include <cmath>
#include <string>

namespace weft::server {

double DriftDetector::recent_accuracy() const noexcept {
  return static_cast<double>(recent_hits_) / static_cast<double>(kRecent);
}

/// Both parts have kRecent samples at least.
bool DriftDetector::is_worse() const noexcept {
  if (count_ < 2 * kRecent) return false;
  const double recent = kRecent, older = static_cast<double>(count_ - kRecent);
  const double old_share = static_cast<double>(hits_ - recent_hits_) / older, share = recent_accuracy();
  if (share >= old_share) return false;
  const double all = static_cast<double>(hits_) / static_cast<double>(count_), inverse = 1 / older + 1 / recent;
  const double distance = old_share - share - 0.5 * inverse;
  return distance > 0 && distance > kBound * std::sqrt(all * (1 - all) * inverse);
}

void DriftDetector::begin_anew() noexcept {
  count_ = hits_ = recent_hits_ = 0;
  recent_.fill(false);
}

std::optional<DriftDetector::Event> DriftDetector::add(bool is_hit) noexcept {
  bool& oldest = recent_[samples_++ % kRecent];
  if (count_ >= kRecent) recent_hits_ -= oldest;
  oldest = is_hit;
  recent_hits_ += is_hit;
  hits_ += is_hit;
  ++count_;
  if (wanted_) {
    if (count_ < kRecent || recent_accuracy() < kBack * *wanted_) return std::nullopt;
    last_ = {true, samples_, *wanted_, recent_accuracy(), samples_ - last_.sample, last_.number + 1};
    wanted_.reset();
    begin_anew();
    return last_;
  }
  if (!is_worse()) return std::nullopt;
  wanted_ = static_cast<double>(hits_ - recent_hits_) / static_cast<double>(count_ - kRecent);
  last_ = {false, samples_, *wanted_, recent_accuracy(), 0, last_.number + 1};
  ++drifts_;
  begin_anew();
  return last_;
}

Json DriftDetector::save() const {
  std::string recent;
  for (const bool each : recent_) recent += each ? '1' : '0';
  Json last{{"is_recovery", last_.is_recovery},
            {"sample", last_.sample},
            {"before", last_.before},
            {"after", last_.after},
            {"since", last_.since},
            {"number", last_.number}};
  return {{"recent", recent},
          {"samples", samples_},
          {"drifts", drifts_},
          {"count", count_},
          {"hits", hits_},
          {"recent_hits", recent_hits_},
          {"wanted", wanted_ ? Json(*wanted_) : Json()},
          {"last", std::move(last)}};
}

Result<DriftDetector> DriftDetector::read(const Json& saved) {
  DriftDetector made;
  WEFT_TRY(JsonReader reader, JsonReader::open(saved, "drift"));
  WEFT_TRY(const std::string recent, reader.string("recent", kRecent));
  for (std::size_t i = 0; i < recent.size(); ++i) made.recent_[i] = recent[i] == '1';
  WEFT_TRY(made.samples_, reader.u64("samples"));
  WEFT_TRY(made.drifts_, reader.u64("drifts"));
  WEFT_TRY(made.count_, reader.u64("count"));
  WEFT_TRY(made.hits_, reader.u64("hits", 0, made.count_));
  WEFT_TRY(made.recent_hits_, reader.u64("recent_hits", 0, kRecent));
  WEFT_TRY(const JsonValue wanted, reader.value("wanted"));
  if (!wanted.raw().is_null()) {
    WEFT_TRY(made.wanted_, wanted.f64());
  }
  WEFT_TRY(JsonReader last, reader.object("last"));
  WEFT_TRY(made.last_.is_recovery, last.boolean("is_recovery"));
  WEFT_TRY(made.last_.sample, last.u64("sample"));
  WEFT_TRY(made.last_.before, last.f64("before"));
  WEFT_TRY(made.last_.after, last.f64("after"));
  WEFT_TRY(made.last_.since, last.u64("since"));
  WEFT_TRY(made.last_.number, last.u64("number"));
  return made;
}

}  // namespace weft::server
