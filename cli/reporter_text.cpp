// SPDX-License-Identifier: Apache-2.0

#include "cli/adaptation_report.hpp"
#include "cli/report.hpp"
#include "cli/reporter.hpp"
#include "cli/task_report.hpp"
#include "cli/text_format.hpp"

#include "core/printable.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iomanip>
#include <sstream>

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kReportRedraw{100}, kPlainLine{5000};
constexpr std::size_t kReportLabel = 12;

void put(std::FILE* file, const std::string& text) { std::fwrite(text.data(), 1, text.size(), file); }

std::string_view what_changed(learning::Drift drift) {
  return drift == learning::Drift::pixels ? "inputs permuted" : "labels permuted";
}

/// Of the held-out samples and of the last ones learned from.
std::string loss_line(RunState& state, std::string last) {
  if (state.held_out()) last.insert(0, loss_text(state.held_out()->loss()) + " held out, ");
  return last;
}

/// Few samples shown once are seldom enough.
std::optional<std::string> passes_hint(RunState& state) {
  constexpr std::uint64_t kFew = 2000;
  const auto& options = state.stream().options();
  if (state.feed() || options.epochs > 1 || options.max_samples || state.stream().train_size() >= kFew)
    return std::nullopt;
  return "note: " + grouped(state.stream().train_size()) +
         " samples were shown once; --epochs 20 shows them twenty times";
}

/// "100/s, late by 12 us in the median, 80 us p99.9; 3 overruns, 2 skipped".
std::string clock_line(const ClockStatistics& clock) {
  const auto microseconds = [](std::chrono::nanoseconds time) {
    return short_number(static_cast<double>(time.count()) * 1e-3) + " us";
  };
  const scheduler::ClockReport& r = clock.report;
  std::string text = short_number(clock.hertz) + "/s, late by " + microseconds(r.late_median) + " in the median, " +
                     microseconds(r.late_p999) + " p99.9, jitter " + microseconds(r.jitter);
  if (r.overruns) text += "; " + grouped(r.overruns) + " overruns, " + grouped(r.skipped) + " skipped";
  return text;
}

class TextReporter final : public Reporter {
 public:
  explicit TextReporter(bool quiet)
      : quiet_(quiet), err_(Terminal::of(STDERR_FILENO)), out_(Terminal::of(STDOUT_FILENO)) {}

  void started(RunState& state, std::optional<std::uint64_t> resumed_at) override {
    const auto& setup = state.setup();
    say(setup.spec.name + ": " + std::string(name(setup.learning.rule)) + ", " +
        std::string(name(setup.learning.schedule)));
    if (state.feed()) say("samples as they arrive: " + state.setup().feed.name());
    const std::uint64_t total = state.stream().progress().total;
    if (total || !state.feed())
      say(grouped(total) + " samples, " + grouped(state.stream().held_out_size()) + " held out");
    for (const std::string& note : state.notes()) put_line("note: " + note);
    if (resumed_at) say("resumed at sample " + grouped(*resumed_at));
    last_ = Clock::now();
  }

  void progressed(RunState& state, const Pace& pace) override {
    if (quiet_) return;
    const learning::StreamProgress p = state.stream().progress();
    const auto now = Clock::now();
    if (err_.redraws) {
      if (now - last_ < kReportRedraw && p.samples != p.total) return;
      // The last column stays free: many terminals wrap when it is written.
      const std::size_t columns = std::max<std::size_t>(err_.columns(), 2) - 1;
      // Appended, not added: g++ 12 sees an overlap in "literal" + string that is not there.
      std::string line = "\r";
      line.append(progress_line(statistics_of(state, pace), state.accuracy_curve(), columns, err_.unicode))
          .append("\x1b[K");
      put(stderr, line);
      std::fflush(stderr);
      is_drawn_ = true;
    } else {
      const bool tenth = p.total && p.samples * 10 / p.total != last_samples_ * 10 / p.total;
      if (!tenth && (now - last_ < kPlainLine || p.samples == last_samples_)) return;
      const std::size_t columns = err_.columns();
      put(stderr,
          progress_line(statistics_of(state, pace), state.accuracy_curve(), columns ? columns - 1 : 100, err_.unicode) +
              "\n");
    }
    last_ = now;
    last_samples_ = p.samples;
  }

  void drifted(RunState& state) override {
    const learning::StreamProgress p = state.stream().progress();
    say(std::string(what_changed(state.stream().options().drift)) + " at " + grouped(state.stream().drift_sample()) +
        ", was " + percent(*p.before_drift));
  }

  void expired(std::uint64_t more, const learning::LateCounts& counts) override {
    say(grouped(more) + (more == 1 ? " sample" : " samples") + " expired, no target came in time; " +
        grouped(counts.expired) + " of " + grouped(counts.observed) + " in all");
  }

  void drift_seen(RunState& state, const learning::DriftEvent& event) override {
    say(std::string(name(state.learner()->options().drift.detector.kind)) + ": " +
        std::string(name(static_cast<learning::DriftLevel>(event.level))) + " at sample " + grouped(event.sample));
  }

  void anomaly_seen(const learning::AnomalyEvent& event) override {
    std::ostringstream numbers;
    numbers << std::setprecision(3) << event.score << ", loss " << event.loss;
    say("anomaly: sample " + grouped(event.sample) + ", score " + numbers.str());
  }

  void saved(std::uint64_t samples, std::string_view path) override {
    const auto now = Clock::now();
    if (err_.redraws || (last_saved_ && now - *last_saved_ < kPlainLine)) return;
    say("checkpoint at " + grouped(samples) + " in " + std::string(path));
    last_saved_ = now;
  }

  void found(RunState& state) override {
    const agent::Recovery& r = state.recovery();
    const std::string& data_directory = state.agent()->directory();
    if (r.torn_bytes) say(grouped(r.torn_bytes) + " bytes of an unfinished record were dropped");
    if (r.is_new) return say("a new agent in " + data_directory);
    say("found in " + data_directory + ": checkpoint of tick " + grouped(r.checkpoint) + ", " + grouped(r.records) +
        " records replayed");
    say("at tick " + grouped(r.at.tick) + ", sample " + grouped(state.stream().progress().samples) + ", after " +
        milliseconds(r.took));
    say("state hash " + to_string(r.hash));
    if (state.is_finished()) say("it had come to its end; this is its result");
  }

  void kept(const agent::CheckpointStatistics& checkpoint, std::string_view) override {
    const auto now = Clock::now();
    if (err_.redraws || (last_saved_ && now - *last_saved_ < kPlainLine)) return;
    say("checkpoint at tick " + grouped(checkpoint.at.tick) + ", paused " + milliseconds(checkpoint.pause) +
        ", written in " + milliseconds(checkpoint.writing));
    last_saved_ = now;
  }

  void done(RunState& state, const Pace& pace) override {
    interrupt();
    const learning::StreamProgress p = state.stream().progress();
    const auto& setup = state.setup();
    heading(setup.spec.name + ": " + std::string(name(setup.learning.rule)) + ", " +
            std::string(name(setup.learning.schedule)));
    const auto& held_out = state.held_out();
    if (held_out) line(state.setup().stream.test.empty() ? "held out" : "test", evaluation_line(*held_out));
    if (state.validation()) line("validation", evaluation_line(*state.validation()));
    const Json statistics = to_json(statistics_of(state, pace));
    const std::string last =
        " of the last " + grouped(std::min<std::uint64_t>(state.stream().options().window, p.samples));
    if (p.samples) line("loss", loss_line(state, statistic_text(statistics, "mean_loss") + last));
    if (p.has_accuracy) line("prequential", statistic_text(statistics, "prequential_accuracy") + last);
    if (p.before_drift) {
      line("drift",
           std::string(what_changed(state.stream().options().drift)) + " at " + grouped(state.stream().drift_sample()));
      std::string accuracy = percent(*p.before_drift);
      // The report on adaptation has the fall by its own window.
      if (state.accuracy_curve().lowest_accuracy && state.stream().adaptation().changes().empty())
        accuracy += ", fell to " + percent(*state.accuracy_curve().lowest_accuracy);
      line("accuracy", accuracy);
      line("recovery", p.recovery_samples ? "after " + grouped(*p.recovery_samples) + " samples" : "not yet");
    }
    if (const auto text = adaptation_text(state.stream().adaptation(), deadline_of(pace))) line("adaptation", *text);
    if (const learning::TaskMatrix* const tasks = tasks_of(state.stream())) {
      line("tasks", tasks_line(state.stream().options().tasks, *tasks));
      for (const auto& [label, text] : task_rows(*tasks)) line(label, text);
      line("in all", task_figures(*tasks));
    }
    const std::size_t width = out_.columns() ? out_.columns() - 1 : 80;
    if (width > kReportLabel + 8 && p.has_accuracy && !state.accuracy_curve().points.empty())
      line("curve",
           sparkline(state.accuracy_curve().points, std::min<std::size_t>(width - kReportLabel, 60), out_.unicode));
    std::string_view label = "layers";
    for (const std::string& layer : plasticity_lines(state.plasticity())) {
      line(label, layer);
      label = "";
    }
    for (const StatisticLine& each : statistic_lines(statistics))
      if (each.label != "accuracy" && each.label != "loss") line(each.label, each.text);
    if (state.feed_place().skipped()) line("passed over", grouped(state.feed_place().skipped()) + " rows");
    if (pace.clock) line("clock", clock_line(*pace.clock));
    if (const auto* const device = state.mesh().device_statistics()) line("device", where_it_ran(device));
    const std::string hash = to_string(state.mesh().state_hash());
    if (width >= kReportLabel + hash.size()) {
      line("state hash", hash);
    } else {
      // Too long for one line, too precious to cut.
      put(stdout, "state hash\n");
      for (std::size_t at = 0; at < hash.size(); at += width) put(stdout, hash.substr(at, width) + "\n");
    }
    if (held_out) put(stdout, "\n" + evaluation_report(*held_out, names_of(state), out_.columns(), out_.unicode));
    if (const auto hint = passes_hint(state)) say(*hint);
    std::fflush(stdout);
  }

  void interrupt() override {
    if (is_drawn_) put(stderr, "\n");
    is_drawn_ = false;
    std::fflush(stderr);
  }

 private:
  /// A line of its own on stderr; a drawn line gives way.
  void say(const std::string& words) {
    if (!quiet_) put_line(words);
  }
  /// The same, quiet or not: what the user must know is no progress.
  void put_line(const std::string& words) {
    const std::string text = escaped(words);
    if (is_drawn_) put(stderr, "\r\x1b[K");
    is_drawn_ = false;
    const std::size_t columns = err_.columns();
    put(stderr, (columns ? fit(text, columns - 1, err_.unicode) : text) + "\n");
    std::fflush(stderr);
  }
  void heading(const std::string& words) {
    const std::string text = escaped(words);
    const std::size_t columns = out_.columns();
    put(stdout, out_.styled(columns ? fit(text, columns - 1, out_.unicode) : text, "1") + "\n");
  }
  void line(std::string_view label, const std::string& value) {
    std::string padded(label);
    padded.resize(std::max(kReportLabel, label.size() + 1), ' ');
    padded += escaped(value);
    const std::size_t columns = out_.columns();
    put(stdout, columns ? fit(padded, columns - 1, out_.unicode) + "\n" : padded + "\n");
  }

  bool quiet_, is_drawn_ = false;
  Terminal err_, out_;
  Clock::time_point last_ = Clock::now();
  std::optional<Clock::time_point> last_saved_;
  std::uint64_t last_samples_ = 0;
};

}  // namespace

std::unique_ptr<Reporter> make_text_reporter(bool quiet) { return std::make_unique<TextReporter>(quiet); }

std::string progress_line(const RunStatistics& statistics, const AccuracyCurve& curve, std::size_t columns,
                          bool unicode) {
  const learning::StreamProgress& p = statistics.progress;
  const double share = p.total ? static_cast<double>(p.samples) / static_cast<double>(p.total) : 1.0;
  char head[16];
  std::snprintf(head, sizeof head, "%3d %%", static_cast<int>(share * 100));
  // Parts in order of importance; each is taken while it fits beside the curve's least width.
  std::string line = head, tail;
  const auto take = [&](const std::string& part, std::size_t reserve) {
    if (display_width(line) + display_width(tail) + display_width(part) + 2 + reserve > columns) return;
    tail += "  " + part;
  };
  std::size_t reserve = 0;
  for (const StatisticLine& each : statistic_lines(to_json(statistics))) {
    take(std::string(each.label) + " " + each.text, reserve);
    reserve = std::min<std::size_t>(reserve + 8, 16);
  }
  const std::size_t used = display_width(line) + display_width(tail);
  std::size_t width = columns > used + 2 ? columns - used - 2 : 0;
  if (width >= 30) {
    const std::size_t cells = std::min<std::size_t>(width / 2, 30);
    line += "  " + bar(share, cells, unicode);
    width -= cells + 2;
  }
  if (width >= 4 && p.has_accuracy && !curve.points.empty())
    tail += "  " + sparkline(curve.points, std::min<std::size_t>(width, 40), unicode);
  return fit(line + tail, columns, unicode);
}

}  // namespace weft::cli
