// SPDX-License-Identifier: Apache-2.0

#include "server/score_window.hpp"

#include "core/json_reader.hpp"

#include <algorithm>
#include <bit>

namespace weft::server {

void ScoreWindow::add(const learning::Score& score) noexcept {
  if (score.label == learning::kNoLabel) return;
  entries_[samples_ % kWindow] = {score.prediction == score.label, score.loss};
  ++samples_;
  (void)drift_.add(score.prediction == score.label);
}

std::optional<double> ScoreWindow::accuracy() const noexcept {
  if (samples_ == 0) return std::nullopt;
  const auto is_hit = [](const Entry& each) { return each.is_hit; };
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(count());
  return static_cast<double>(std::count_if(entries_.begin(), end, is_hit)) / static_cast<double>(count());
}

std::optional<double> ScoreWindow::mean_loss() const noexcept {
  if (samples_ == 0) return std::nullopt;
  double sum = 0;
  for (std::size_t i = 0; i < count(); ++i) sum += entries_[i].loss;
  return sum / static_cast<double>(count());
}

/// Losses as the bits of float32: one that is not finite is kept, too.
Json ScoreWindow::save() const {
  std::string hits;
  Json losses = Json::array();
  for (std::size_t i = 0; i < count(); ++i) {
    hits += entries_[i].is_hit ? '1' : '0';
    losses.push_back(std::bit_cast<std::uint32_t>(entries_[i].loss));
  }
  return {{"samples", samples_}, {"hits", hits}, {"losses", std::move(losses)}, {"drift", drift_.save()}};
}

Result<ScoreWindow> ScoreWindow::read(const Json& saved) {
  ScoreWindow window;
  WEFT_TRY(JsonReader reader, JsonReader::open(saved, "scores"));
  WEFT_TRY(window.samples_, reader.u64("samples"));
  WEFT_TRY(const std::string hits, reader.string("hits", kWindow));
  WEFT_TRY(const auto losses, reader.array("losses", window.count(), window.count()));
  if (hits.size() != losses.size())
    return fail(Errc::parse_failed,
                "scores: " + std::to_string(hits.size()) + " hits, " + std::to_string(losses.size()) + " losses");
  for (std::size_t i = 0; i < losses.size(); ++i) {
    WEFT_TRY(const std::uint32_t bits, losses[i].u32());
    window.entries_[i] = {hits[i] == '1', std::bit_cast<float>(bits)};
  }
  WEFT_TRY(const JsonValue drift, reader.value("drift"));
  WEFT_TRY(window.drift_, DriftDetector::read(drift.raw()));
  WEFT_CHECK(reader.finish());
  return window;
}

}  // namespace weft::server
