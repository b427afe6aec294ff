// SPDX-License-Identifier: Apache-2.0

#include "learning/tasks/task_sequence.hpp"

#include "learning/internal/shuffle.hpp"
#include "learning/learner.hpp"

#include "kernels/math.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace weft::learning {
namespace {

// Random streams of tasks: places no grid reaches, and no stream without tasks uses.
constexpr std::uint64_t kMapPlace = (std::uint64_t{1} << 36) + 1, kPassPlace = std::uint64_t{1} << 37;
constexpr std::uint64_t kMostPasses = std::uint64_t{1} << 20;
constexpr float kTurn = 6.28318530717958647692f;  // radians
// A class is shown in two pairs a round.
constexpr std::uint32_t kRounds = 3, kShowings = 2 * kRounds;

std::string in_key(const char* key, const std::string& value) {
  return std::string("stream.tasks.").append(key).append(": ").append(value);
}

/// The picture, turned by `angle` around its middle; what comes from beyond its edge is 0.
void turn(const float* from, std::size_t side, float angle, float* to) {
  const double sine = kernels::math::sin(angle), cosine = kernels::math::cos(angle);
  const double middle = (static_cast<double>(side) - 1.0) / 2.0;
  const auto last = static_cast<std::ptrdiff_t>(side);
  const auto at = [&](std::ptrdiff_t y, std::ptrdiff_t x) {
    const bool is_inside = y >= 0 && x >= 0 && y < last && x < last;
    return is_inside ? static_cast<double>(from[y * last + x]) : 0.0;
  };
  for (std::size_t row = 0; row < side; ++row)
    for (std::size_t col = 0; col < side; ++col) {
      const double y = static_cast<double>(row) - middle, x = static_cast<double>(col) - middle;
      const double source_y = cosine * y - sine * x + middle, source_x = sine * y + cosine * x + middle;
      const double top = std::floor(source_y), left = std::floor(source_x);
      const double down = source_y - top, right = source_x - left;
      const auto i = static_cast<std::ptrdiff_t>(top), j = static_cast<std::ptrdiff_t>(left);
      const double upper = at(i, j) * (1.0 - right) + at(i, j + 1) * right;
      const double lower = at(i + 1, j) * (1.0 - right) + at(i + 1, j + 1) * right;
      *to++ = static_cast<float>(upper * (1.0 - down) + lower * down);
    }
}

bool turns(TaskKind kind) noexcept { return kind == TaskKind::rotated || kind == TaskKind::turning; }

}  // namespace

Result<TaskSequence> TaskSequence::build(const Dataset& data, std::span<const std::uint32_t> train,
                                         std::span<const std::uint32_t> held_out, const TaskOptions& options,
                                         std::uint64_t seed, std::uint64_t epochs, std::uint64_t at_once) {
  TaskSequence made;
  made.options_ = options;
  made.seed_ = seed;
  made.all_classes_ = data.classes_of(0).count;
  made.side_ = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(data.features))));
  WEFT_CHECK(made.check(data));
  if (options.kind == TaskKind::turning)
    made.make_turning(data, train, held_out);
  else
    made.make_tasks(data, train, held_out);
  made.make_maps(data);
  std::uint64_t end = 0;
  for (std::uint32_t task = 0; task < made.tasks(); ++task) {
    const std::size_t own = made.stream_.empty() ? made.rows_[task % made.rows_.size()].size() : made.stream_.size();
    std::uint64_t samples = options.samples != 0 ? options.samples : epochs * own;
    samples -= samples % at_once;
    if (own == 0 || samples == 0)
      return fail(Errc::invalid_argument, in_key("count", std::to_string(options.count)) + " tasks leave task " +
                                              std::to_string(task + 1) + " with " + std::to_string(own) +
                                              " rows, and updates take " + std::to_string(at_once) +
                                              " samples; give fewer tasks, or fewer learners");
    made.ends_.push_back(end += samples);
  }
  return made;
}

Status TaskSequence::check(const Dataset& data) const {
  const auto refuse = [&](std::string text) { return fail(Errc::invalid_argument, std::move(text)); };
  const std::string classes = std::to_string(all_classes_) + " classes", count = std::to_string(options_.count);
  if (data.has_values() || data.targets != 1)
    return refuse(in_key("kind", std::string(name(options_.kind))) + " is made of samples with one label each");
  if (options_.kind == TaskKind::split && options_.count > all_classes_)
    return refuse(in_key("count", count) + " tasks, and the samples have " + classes + "; give no more than those");
  if (options_.kind == TaskKind::split && all_classes_ % options_.count != 0)
    return refuse(in_key("count", count) + " tasks do not divide " + classes + " evenly; give a number that does");
  if (turns(options_.kind) && side_ * side_ != data.features)
    return refuse(in_key("kind", std::string(name(options_.kind))) + " turns square pictures, and the samples have " +
                  std::to_string(data.features) + " values each");
  if (options_.kind == TaskKind::turning && all_classes_ < 3)
    return refuse(in_key("kind", "turning") + " shows pairs of at least 2 classes and leaves the last one out; the " +
                  "samples have " + classes);
  if (options_.kind == TaskKind::turning && options_.scenario == Scenario::task)
    return refuse(in_key("scenario", "task") + " with stream.tasks.kind 'turning', which is one task; give 'class'");
  return {};
}

void TaskSequence::make_tasks(const Dataset& data, std::span<const std::uint32_t> train,
                              std::span<const std::uint32_t> held_out) {
  const bool is_split = options_.kind == TaskKind::split;
  const std::uint32_t each = is_split ? all_classes_ / options_.count : 0;
  rows_.resize(is_split ? options_.count : 1);
  tests_.resize(options_.count);
  for (const std::uint32_t row : train) rows_[is_split ? data.labels[row] / each : 0].push_back(row);
  for (std::uint32_t task = 0; task < options_.count; ++task) {
    const float angle =
        options_.kind == TaskKind::rotated ? static_cast<float>(options_.angle * task / 360.0) * kTurn : 0.0f;
    for (const std::uint32_t row : held_out) {
      if (is_split && data.labels[row] / each != task) continue;
      if (options_.measured != 0 && tests_[task].size() == options_.measured) break;
      tests_[task].push_back({task, row, angle});
    }
  }
}

/// Rows of all classes but the last, each turned further than the one of its class before it, once around in all.
std::vector<TaskSequence::Place> TaskSequence::turned(const Dataset& data, std::vector<std::uint32_t> rows) const {
  std::vector<std::uint64_t> sizes(all_classes_, 0), seen(all_classes_, 0);
  for (const std::uint32_t row : rows) ++sizes[data.labels[row]];
  std::vector<Place> places;
  for (const std::uint32_t row : rows) {
    const std::uint32_t label = data.labels[row];
    if (label + 1 == all_classes_) continue;
    const double share = static_cast<double>(seen[label]++) / static_cast<double>(sizes[label]);
    places.push_back({0, row, static_cast<float>(share) * kTurn});
  }
  return places;
}

void TaskSequence::make_turning(const Dataset& data, std::span<const std::uint32_t> train,
                                std::span<const std::uint32_t> held_out) {
  std::vector<std::uint32_t> rows(train.begin(), train.end());
  shuffle(rows, RandomStream(seed_, kPassPlace, RandomPurpose::shuffle));
  std::vector<std::vector<Place>> of_class(all_classes_);
  for (const Place& place : turned(data, rows)) of_class[data.labels[place.row]].push_back(place);
  const std::uint32_t shown = all_classes_ - 1;
  std::vector<std::uint32_t> showings(shown, 0);
  const auto next_part = [&](std::uint32_t label) {
    const std::vector<Place>& all = of_class[label];
    const std::size_t part = showings[label]++;
    return std::span(all).subspan(all.size() * part / kShowings,
                                  all.size() * (part + 1) / kShowings - all.size() * part / kShowings);
  };
  for (std::uint32_t pair = 0; pair < kRounds * shown; ++pair) {
    const std::span<const Place> one = next_part(pair % shown), other = next_part((pair + 1) % shown);
    for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
      if (i < one.size()) stream_.push_back(one[i]);
      if (i < other.size()) stream_.push_back(other[i]);
    }
  }
  tests_ = {turned(data, {held_out.begin(), held_out.end()})};
  if (options_.measured != 0 && tests_[0].size() > options_.measured) {
    // A few of every angle and class.
    std::vector<Place> fewer;
    for (std::uint64_t i = 0; i < options_.measured; ++i)
      fewer.push_back(tests_[0][i * tests_[0].size() / options_.measured]);
    tests_[0] = std::move(fewer);
  }
}

void TaskSequence::make_maps(const Dataset& data) {
  if (options_.kind != TaskKind::permuted && options_.kind != TaskKind::labels) return;
  for (std::uint32_t task = 0; task < options_.count; ++task) {
    std::vector<std::uint32_t>& map =
        maps_.emplace_back(options_.kind == TaskKind::permuted ? data.features : all_classes_);
    std::iota(map.begin(), map.end(), 0u);
    if (task > 0) shuffle(map, RandomStream(seed_, kMapPlace + task, RandomPurpose::shuffle));
  }
}

std::uint32_t TaskSequence::task_of(std::uint64_t sample) const noexcept {
  return std::min(ended(sample), tasks() - 1);
}

std::uint32_t TaskSequence::ended(std::uint64_t sample) const noexcept {
  return static_cast<std::uint32_t>(std::upper_bound(ends_.begin(), ends_.end(), sample) - ends_.begin());
}

std::uint32_t TaskSequence::classes() const noexcept {
  const std::uint32_t each = options_.kind == TaskKind::split ? all_classes_ / options_.count : all_classes_;
  if (options_.kind == TaskKind::turning) return all_classes_ - 1;
  return options_.scenario == Scenario::klass ? each * options_.count : each;
}

TaskSequence::Place TaskSequence::place(std::uint64_t sample) {
  const std::uint32_t task = task_of(sample);
  const std::uint64_t own = sample - (task == 0 ? 0 : ends_[task - 1]);
  if (!stream_.empty()) return stream_[own % stream_.size()];
  const std::vector<std::uint32_t>& rows = rows_[task % rows_.size()];
  const std::pair<std::uint64_t, std::uint64_t> pass{task, own / rows.size()};
  if (pass != order_of_) {
    order_ = rows;
    const std::uint64_t number = kPassPlace + 1 + task * kMostPasses + pass.second % kMostPasses;
    shuffle(order_, RandomStream(seed_, number, RandomPurpose::shuffle));
    order_of_ = pass;
  }
  const float angle =
      options_.kind == TaskKind::rotated ? static_cast<float>(options_.angle * task / 360.0) * kTurn : 0.0f;
  return {task, order_[own % rows.size()], angle};
}

std::vector<TaskSequence::Place> TaskSequence::held_out(std::uint32_t task) const {
  if (options_.kind != TaskKind::split) return tests_[task];
  std::vector<Place> all;
  for (const std::vector<Place>& each : tests_) all.insert(all.end(), each.begin(), each.end());
  return all;
}

void TaskSequence::put_inputs(const Dataset& data, const Place& place, float* to) const {
  const float* const values = data.row(place.row);
  if (turns(options_.kind) && place.angle != 0.0f) return turn(values, side_, place.angle, to);
  if (options_.kind != TaskKind::permuted) {
    std::copy_n(values, data.features, to);
    return;
  }
  for (std::size_t j = 0; j < data.features; ++j) to[j] = values[maps_[place.task][j]];
}

void TaskSequence::put_labels(const Dataset& data, const Place& place, std::uint32_t* to) const {
  std::uint32_t label = data.labels[place.row];
  const std::uint32_t each = options_.kind == TaskKind::split ? all_classes_ / options_.count : all_classes_;
  if (options_.kind == TaskKind::labels) label = maps_[place.task][label];
  if (options_.kind == TaskKind::split) label -= place.task * each;
  if (options_.scenario == Scenario::task) {
    std::fill_n(to, tasks(), kNoLabel);
    to[place.task] = label;
  } else {
    *to = options_.scenario == Scenario::klass ? place.task * each + label : label;
  }
}

}  // namespace weft::learning
