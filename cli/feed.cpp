// SPDX-License-Identifier: Apache-2.0

#include "cli/feed.hpp"

#include "cli/json_line.hpp"
#include "cli/report.hpp"
#include "cli/text_format.hpp"

#include "kernels/loss_traits.hpp"

#include "core/json.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

namespace weft::cli {
namespace {

using learning::SampleReader;

constexpr std::uint64_t kLargestBatch = 256;
constexpr std::size_t kLongestRow = std::size_t{16} << 20;
constexpr std::size_t kMostWaiting = 4096;  // acknowledgements that are waited for one by one
constexpr std::uint64_t kToldBad = 20;      // rows passed over that the log tells of one by one

}  // namespace

Feed::Feed(const FeedOptions& options, learning::SampleStream& stream, learning::Learner& learner, agent::Agent* agent,
           FeedPlace& place)
    : options_(options),
      stream_(stream),
      learner_(learner),
      agent_(agent),
      place_(place),
      idle_([]() -> Status { return {}; }),
      acknowledged_(place.rows()) {
  const learning::Dataset& data = stream.data();
  output_.resize(stream.outputs().width());
  if (data.has_values()) return;
  for (std::size_t i = 0; i < data.targets; ++i) {
    const learning::ClassSet classes = data.classes_of(data.heads.empty() ? 0 : i);
    auto& names = names_.emplace_back(classes.names);
    for (std::uint32_t c = static_cast<std::uint32_t>(names.size()); c < classes.count; ++c)
      names.push_back(std::to_string(c));
  }
  labels_ = KnownLabels(names_);
}

bool Feed::is_of_a_row(Errc code) noexcept {
  switch (code) {
    case Errc::parse_failed:
    case Errc::out_of_range:
    case Errc::not_finite:
    case Errc::shape_mismatch:
    case Errc::unknown_name:
    case Errc::duplicate_name:
    case Errc::invalid_argument:
    case Errc::timed_out:
      return true;
    default:
      return false;
  }
}

Status Feed::take(std::uint64_t most) {
  for (; most > 0 && stream_.samples() + batch_.rows < stream_.total(); --most) {
    if (!reader_) {
      WEFT_TRY(const bool has_more, open_next());
      if (!has_more) {
        WEFT_CHECK(leave_rest());
        stream_.end();
        return {};
      }
    }
    auto row = take_row();
    has_rows_ |= !row || *row;
    if (!row) {
      if (!is_of_a_row(row.error().code())) return fail(std::move(row).error());
      WEFT_CHECK(flush());
      if (!options_.skips_bad) return fail(std::move(row).error());
      WEFT_CHECK(pass_over(row.error()));
    } else if (!*row) {
      WEFT_CHECK(flush());
      reader_.reset();
      if (!place_.file().empty()) {
        WEFT_CHECK(leave_rest());
        place_.end_file();
        WEFT_CHECK(note(FeedPlace::kFileEnd, place_.file()));
      }
    }
    // Rows that have come are learned before more are awaited.
    if (reader_ && !reader_->table().is_ready()) break;
  }
  return flush();
}

/// False: the source has come to its end.
Result<bool> Feed::open_next() {
  if (!source_) {
    std::error_code unknown;
    if (options_.follow.empty()) {
      source_ = make_pipe_source();
    } else if (std::filesystem::is_directory(options_.follow, unknown)) {
      source_ = make_directory_source(options_.follow, place_.file(), !place_.file().empty() && !place_.is_file_done());
    } else {
      WEFT_TRY(source_, make_socket_source(options_.follow, [this] { return place_.rows(); }));
    }
  }
  const auto idle = [this]() -> Status {
    WEFT_CHECK(flush());
    return idle_();
  };
  WEFT_TRY(auto part, source_->next(idle));
  if (!part) return false;
  may_be_cut_ = part->file.empty();
  const bool goes_on = !part->file.empty() && part->file == place_.file();
  if (!part->file.empty() && !goes_on) {
    place_.begin_file(part->file);
    WEFT_CHECK(note(FeedPlace::kFile, part->file));
  }
  const learning::TableOptions& table = stream_.options().table;
  const learning::RowsExpected expected{
      .format = options_.format, .features = stream_.data().features, .arrives = true, .longest_row = kLongestRow};
  WEFT_TRY(auto rows, learning::open_rows(std::move(part->read), part->name, table, expected));
  // Rows of a file that an earlier process has used up.
  for (std::uint64_t row = 0; goes_on && row < place_.rows(); ++row) {
    const auto has_row = rows->next();
    if (has_row && !*has_row)
      return fail(Errc::corrupt, part->name + ": " + std::to_string(row) + " rows; the run has used up " +
                                     std::to_string(place_.rows()) + " of it");
    if (!has_row && !is_of_a_row(has_row.error().code())) return fail(has_row.error());
  }
  const bool is_csv = !rows->may_bring_targets();
  WEFT_TRY(reader_, SampleReader::open(std::move(rows), table,
                                       is_csv ? SampleReader::Label::required : SampleReader::Label::late,
                                       stream_.data().features));
  dropped_ = 0;
  return true;
}

/// False: there is none any more.
Result<bool> Feed::take_row() {
  auto has_row = reader_->next();
  WEFT_CHECK(account_dropped());
  if (!has_row || !*has_row) return has_row;
  const formats::RowReader& row = reader_->table();
  if (may_be_cut_ && row.is_cut())
    return row.refuse(Errc::parse_failed, "the data end inside this line, without a line break; nothing of it is used");
  switch (row.kind()) {
    case formats::RowKind::forgo:
      WEFT_CHECK(forgo());
      break;
    case formats::RowKind::target:
      WEFT_CHECK(take_target());
      break;
    case formats::RowKind::sample:
      WEFT_CHECK(take_sample());
      break;
  }
  return true;
}

/// Rows that --missing drop has left out, before the present one.
Status Feed::account_dropped() {
  const std::uint64_t dropped = reader_->dropped() - dropped_;
  if (dropped == 0) return {};
  dropped_ += dropped;
  WEFT_CHECK(flush());
  return skip(dropped);
}

Error Feed::of_row(Error error) const {
  const formats::RowReader& row = reader_->table();
  return std::move(error).within(row.source_name() + ":" + std::to_string(row.line()));
}

/// The place is that behind the row while the journal takes its record, since a checkpoint may be taken with it.
template <class Call>
Status Feed::counted(std::uint64_t rows, std::uint64_t samples, Call&& call) {
  place_.learned(rows);
  stream_.arrive(samples);
  Status done = call();
  stream_.score_waiting();
  if (!done) {
    place_.take_back(rows);
    stream_.take_back(samples);
    return done;
  }
  note_acknowledgement();
  return done;
}

Status Feed::note(std::string_view topic, std::string_view text) {
  return agent_ ? agent_->note(topic, text) : Status();
}

Status Feed::skip(std::uint64_t rows) {
  if (batch_.rows > 0) {
    // Rows before them are not used up yet.
    batch_.skipped += rows;
    return {};
  }
  place_.skip(rows);
  WEFT_CHECK(note(FeedPlace::kSkipped, std::to_string(rows)));
  note_acknowledgement();
  return {};
}

Status Feed::pass_over(const Error& why) {
  if (options_.json)
    print_json({{"event", "skipped"}, {"row", place_.rows() + batch_.rows + batch_.skipped}, {"text", why.text()}});
  if (told_++ < kToldBad) log_warn("passed over: " + why.text());
  return skip(1);
}

Status Feed::take_sample() {
  const bool has_id = !reader_->table().id().empty();
  if (!reader_->has_target()) {
    WEFT_CHECK(check_single());
    WEFT_CHECK(flush());
    if (has_id && place_.find(reader_->table().id()))
      return fail(of_row(Error(Errc::duplicate_name, "id " + reader_->table().id() + ": an earlier sample has it")));
    if (options_.answers) WEFT_CHECK(answer());
    return has_id ? observe() : learn_unlabelled();
  }
  if (!options_.answers) return add_to_batch();
  WEFT_CHECK(add_to_batch());
  // As it is before it learns from the sample.
  WEFT_CHECK(answer());
  return flush();
}

/// Each learner takes a row; sessions that do not learn are shown the same ones over again.
Status Feed::add_to_batch() {
  const bool has_values = stream_.data().has_values();
  std::vector<std::uint32_t> labels;
  if (!has_values) WEFT_CHECK(labels_.take(*reader_, labels));
  if (has_values) WEFT_CHECK(check_values());
  const std::size_t learners = stream_.at_once(), width = stream_.data().features;
  batch_.inputs.insert(batch_.inputs.end(), reader_->values().begin(), reader_->values().end());
  batch_.labels.insert(batch_.labels.end(), labels.begin(), labels.end());
  if (has_values) batch_.values.insert(batch_.values.end(), target_.begin(), target_.end());
  if (reader_->has_weights()) batch_.weights.push_back(reader_->weight());
  if (++batch_.rows % learners != 0) return {};
  const std::size_t first = batch_.inputs.size() - learners * width;
  batch_.inputs.resize(first + learner_.mesh().sessions() * width);
  for (std::size_t b = learners; b < input_rows(learner_); ++b)
    std::copy_n(batch_.inputs.begin() + static_cast<std::ptrdiff_t>(first + b % learners * width), width,
                batch_.inputs.begin() + static_cast<std::ptrdiff_t>(first + b * width));
  return batch_.rows >= kLargestBatch ? flush() : Status();
}

/// The row's target as the network learns it, and such as its loss takes.
Status Feed::check_values() {
  target_.clear();
  for (std::size_t j = 0; j < reader_->target_values().size(); ++j) {
    target_.push_back(stream_.units().learned(reader_->target_values()[j], j));
    const bool is_share = target_[j] >= 0 && target_[j] <= 1;
    if (range_of(learner_.options().loss) == kernels::TargetRange::probability && !is_share)
      return fail(of_row(Error(Errc::out_of_range, "target " + std::to_string(j + 1) + ": " +
                                                       std::to_string(target_[j]) + ", expected 0 to 1")));
    if (!std::isfinite(target_[j]))
      return fail(of_row(Error(Errc::not_finite, "target " + std::to_string(j + 1) + ": is not finite")));
  }
  return {};
}

Status Feed::flush() {
  const std::uint64_t updates = batch_.rows / stream_.at_once(), rows = updates * stream_.at_once();
  if (updates == 0) return {};
  const std::uint64_t skipped = std::exchange(batch_.skipped, 0);
  if (skipped > 0) WEFT_CHECK(note(FeedPlace::kSkippedAmong, std::to_string(skipped)));
  place_.skip_among_next(skipped);
  const auto first = [&](auto& values, std::size_t each) { return std::span(values).first(updates * each); };
  const std::size_t targets = stream_.data().targets * stream_.at_once();
  const bool has_values = stream_.data().has_values();
  const std::size_t weights = batch_.weights.empty() ? 0 : stream_.at_once();
  const std::size_t inputs = learner_.mesh().sessions() * stream_.data().features;
  const mesh::RunInput input{stream_.options().input, first(batch_.inputs, inputs)};
  const Status learned = counted(rows, rows, [&] {
    return stream_.outputs().teach(first(batch_.labels, has_values ? 0 : targets),
                                   first(batch_.values, has_values ? targets : 0), first(batch_.weights, weights),
                                   [&](std::span<const learning::Target> all) {
                                     return learn({&input, 1}, all, updates);
                                   });
  });
  const auto drop = [&](auto& values, std::size_t each) {
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(updates * each));
  };
  drop(batch_.inputs, inputs);
  has_values ? drop(batch_.values, targets) : drop(batch_.labels, targets);
  drop(batch_.weights, weights);
  batch_.rows -= rows;
  return learned;
}

Status Feed::leave_rest() {
  WEFT_CHECK(flush());
  if (batch_.rows == 0) return {};
  const std::uint64_t rest = batch_.rows + batch_.skipped;
  log_warn(std::to_string(batch_.rows) + " rows left out: an update takes " + std::to_string(stream_.at_once()) +
           ", one of each learner");
  batch_ = {};
  return skip(rest);
}

Status Feed::check_single() const {
  if (stream_.at_once() == 1) return {};
  return fail(of_row(Error(Errc::unsupported, "a sample without its target, and learning.learners is " +
                                                  std::to_string(stream_.at_once()) +
                                                  ": each learner takes a sample with a target; give --learners 1")));
}

Status Feed::learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
                   std::uint64_t samples) {
  return agent_ ? agent_->learn(inputs, targets, samples) : learner_.learn(inputs, targets, samples);
}

std::vector<float> Feed::inputs_of_row() const {
  std::vector<float> inputs;
  for (std::size_t i = 0; i < learner_.mesh().sessions(); ++i)
    inputs.insert(inputs.end(), reader_->values().begin(), reader_->values().end());
  return inputs;
}

/// A sample without target and id runs through the mesh and is not learned from.
Status Feed::learn_unlabelled() {
  const std::vector<float> inputs = inputs_of_row();
  const mesh::RunInput input{stream_.options().input, inputs};
  return counted(1, 1, [&] { return learn({&input, 1}, {}, 1); });
}

Status Feed::observe() {
  const std::vector<float> inputs = inputs_of_row();
  const mesh::RunInput input{stream_.options().input, inputs};
  const std::string& id = reader_->table().id();
  if (learner_.options().late == learning::Late::none)
    return fail(Errc::unsupported, options_.name() + ": a sample without a target, id " + id +
                                       ": learning.late is 'none'; with 'meet' or 'again' targets may come later");
  place_.expect(id);
  WEFT_CHECK(note(FeedPlace::kId, id));
  place_.remember_expected(learner_.next_ticket());
  return counted(1, 1, [&]() -> Status {
    auto ticket = agent_ ? agent_->observe({&input, 1}) : learner_.observe({&input, 1});
    return ticket ? Status() : Status(fail(std::move(ticket).error()));
  });
}

Result<learning::Ticket> Feed::ticket_of_row() const {
  const std::string& id = reader_->table().id();
  const auto ticket = place_.find(id);
  if (ticket) return *ticket;
  return fail(of_row(Error(Errc::out_of_range, "id " + id + ": unknown, or of a sample that expired long ago")));
}

Status Feed::forgo() {
  WEFT_CHECK(flush());
  WEFT_TRY(const learning::Ticket ticket, ticket_of_row());
  return refused_by_id(counted(1, 0, [&] { return agent_ ? agent_->forgo(ticket) : learner_.forgo(ticket); }));
}

Status Feed::take_target() {
  WEFT_CHECK(flush());
  WEFT_TRY(const learning::Ticket ticket, ticket_of_row());
  if (!reader_->table().gradient().empty()) return take_gradient(ticket);
  std::vector<std::uint32_t> label, labels;
  std::vector<float> values;
  const std::vector<float> weights(learner_.options().learners, reader_->table().weight().value_or(1.0f));
  if (stream_.data().has_values())
    WEFT_CHECK(check_values());
  else
    WEFT_CHECK(labels_.take(*reader_, label));
  for (std::size_t i = 0; i < learner_.options().learners; ++i) {
    labels.insert(labels.end(), label.begin(), label.end());
    if (stream_.data().has_values()) values.insert(values.end(), target_.begin(), target_.end());
  }
  return refused_by_id(counted(1, 0, [&] {
    return stream_.outputs().teach(labels, values, {}, [&](std::span<const learning::Target> targets) {
      if (!reader_->table().weight()) return teach(ticket, targets);
      std::vector<learning::Target> weighted(targets.begin(), targets.end());
      for (learning::Target& each : weighted) each.weights = weights;
      return teach(ticket, weighted);
    });
  }));
}

Status Feed::teach(learning::Ticket ticket, std::span<const learning::Target> targets) {
  return agent_ ? agent_->teach(ticket, targets) : learner_.teach(ticket, targets);
}

/// The slope of a loss that the row's sender has, of each output in turn; each learner gets it.
Status Feed::take_gradient(learning::Ticket ticket) {
  const std::span<const float> given = reader_->table().gradient();
  const std::size_t learners = learner_.options().learners;
  if (given.size() != stream_.outputs().width())
    return fail(of_row(Error(Errc::shape_mismatch, "'gradient': " + std::to_string(given.size()) + " values where " +
                                                       std::to_string(stream_.outputs().width()) + " are expected")));
  const std::vector<float> weights(reader_->table().weight() ? learners : 0, reader_->table().weight().value_or(1.0f));
  std::vector<std::vector<float>> gradients;
  std::vector<learning::Target> targets;
  for (const learning::TaughtOutputs::One& output : stream_.outputs().all()) {
    const auto own = given.subspan(output.first_value, output.values);
    std::vector<float>& all = gradients.emplace_back();
    for (std::size_t i = 0; i < learners; ++i) all.insert(all.end(), own.begin(), own.end());
  }
  for (std::size_t i = 0; i < gradients.size(); ++i)
    targets.push_back({.output = stream_.outputs().all()[i].name, .gradient = gradients[i], .weights = weights});
  return refused_by_id(counted(1, 0, [&] { return teach(ticket, targets); }));
}

/// Blames the row, by its line and id, for a call that the learner refused.
Status Feed::refused_by_id(Status status) const {
  if (status || !is_of_a_row(status.error().code())) return status;
  return fail(of_row(std::move(status).error().within("id " + reader_->table().id())));
}

/// Prints the answer of the present mesh to the row, as weft predict would.
Status Feed::answer() {
  if (batch_.rows > stream_.at_once())
    return fail(Errc::internal, "an answer beside samples that are to be learned before it");
  const mesh::RunInput input{stream_.options().input, reader_->values()};
  WEFT_CHECK(stream_.outputs().ask(1, output_, [&](std::span<const mesh::RunOutput> to) {
    return learner_.predict({&input, 1}, 1, to, 0);
  }));
  // Its own row is the last of the batch, if it is there already.
  const std::uint64_t waiting = batch_.rows + batch_.skipped - (reader_->has_target() ? 1 : 0);
  Json line{{"event", "answer"}, {"row", place_.rows() + waiting}};
  if (const std::string& id = reader_->table().id(); !id.empty()) line["id"] = *parse_json(id, "id");
  const auto& parts = stream_.outputs().parts();
  std::vector<std::string> classes;
  for (std::size_t i = 0; i < names_.size(); ++i)
    classes.push_back(
        names_[i][learning::largest(std::span<const float>(output_).subspan(parts[i], parts[i + 1] - parts[i]))]);
  std::vector<float> values = output_;
  for (std::size_t i = 0; names_.empty() && i < values.size(); ++i)
    values[i] = static_cast<float>(stream_.units().told(values[i], i));
  add_answer(line, stream_.outputs(), classes, values);
  print_json(line);
  return {};
}

void Feed::note_acknowledgement() {
  if (!agent_) return;
  const std::uint64_t record = agent_->statistics().at.record;
  if (waiting_.size() == kMostWaiting) waiting_.pop_back();
  waiting_.emplace_back(record, place_.rows());
}

std::uint64_t Feed::acknowledged(const agent::LogPosition& at) {
  for (; !waiting_.empty() && waiting_.front().first <= at.record; waiting_.pop_front())
    acknowledged_ = waiting_.front().second;
  return acknowledged_;
}

}  // namespace weft::cli
