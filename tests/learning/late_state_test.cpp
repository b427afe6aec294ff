// SPDX-License-Identifier: Apache-2.0
// The state of samples that wait for their targets: a field is named once; checkpoints that lie are refused; a halt and
// a way back lose no ticket that expired, and expire none by samples that did not enter.

#include "learning/internal/late_samples.hpp"
#include "learning/internal/word_archives.hpp"
#include "learning/learner_snapshot.hpp"

#include "mesh/memory/byte_archive.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/snapshot.hpp"

#include <gtest/gtest.h>

#include "late_digits.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::learning::late_state_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

using Words = std::vector<std::uint32_t>;

// --- a field is a line

/// Late samples with one field more.
struct LargerSamples : LateSamples {
  using LateSamples::LateSamples;
  std::uint64_t fuel = 7;

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive, const SampleClock& clock) {
    LateSamples::visit(self, archive, clock);
    archive.word(Field{"fuel", Scope::control}, self.fuel, 1, 9);
  }
};

template <class Kind>
Words words_of(const Kind& samples, Scopes scopes, const SampleClock& clock) {
  Words words;
  WordArchive archive(words, scopes);
  Kind::visit(samples, archive, clock);
  return words;
}

/// Open samples of the digits' mesh, and a clock by which three samples are under way.
struct SomeSamples {
  explicit SomeSamples(const LearningOptions& options)
      : mesh(must(mesh::Mesh::build(digits_network(1), shape()))),
        plan(must(LearningPlan::build(mesh.graph(), 1, options))),
        clock(options.schedule, plan.hold, plan.travel, plan.latency),
        samples(mesh.graph(), plan, options) {
    clock.now.samples = clock.now.steps = 3;
    samples.follow(mesh);
    for (std::uint64_t s = 0; s < 3; ++s) {
      LateSample& open = samples.enter(s, s + plan.latency);
      std::fill(open.x.begin(), open.x.end(), 0.5f + static_cast<float>(s));
    }
  }
  mesh::Mesh mesh;
  LearningPlan plan;
  SampleClock clock;
  LargerSamples samples;
};

TEST(LateFields, OneMoreIsALineSavedHashedAndBroughtBack) {
  const LearningOptions options = meeting(Late::again, Schedule::pipelined, 3);
  SomeSamples some(options);
  const LateSamples& plain = some.samples;
  for (const Scopes scopes : {kSavedLate, kHashedLate}) {
    Words words = words_of(some.samples, scopes, some.clock);
    const Words without = words_of(plain, scopes, some.clock);
    ASSERT_EQ(words.size(), without.size() + 2);
    EXPECT_EQ(words[words.size() - 2], 7u);
    words.resize(words.size() - 2);
    EXPECT_EQ(words, without);
  }
  const Words words = words_of(some.samples, kSavedLate, some.clock);
  LargerSamples back(some.mesh.graph(), some.plan, options);
  back.fuel = 1;
  InWordArchive archive(words, kSavedLate);
  LargerSamples::visit(back, archive, some.clock);
  EXPECT_TRUE(archive.is_done());
  EXPECT_EQ(back.fuel, 7u);
  EXPECT_EQ(words_of(back, kSavedLate, some.clock), words);
  for (std::size_t size = 0; size < words.size(); ++size) {
    LargerSamples other(some.mesh.graph(), some.plan, options);
    InWordArchive cut(std::span<const std::uint32_t>(words).first(size), kSavedLate);
    LargerSamples::visit(other, cut, some.clock);
    EXPECT_TRUE(cut.has_failed()) << size << " of " << words.size() << " words";
  }
  Words beyond = words;
  beyond[beyond.size() - 2] = 10;
  InWordArchive refused(beyond, kSavedLate);
  LargerSamples::visit(back, refused, some.clock);
  EXPECT_EQ(refused.failed_field(), "fuel");
}

// --- checkpoints that lie

/// Another content of a field: of the n-th of its name.
struct Lie {
  std::string name;
  int number = 0;
  Words content{};
  std::optional<std::uint64_t> count{};  // of a list; none: the content's
};

Words number(std::uint64_t value) {
  return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
}
Words floats(const std::vector<float>& values) {
  Words all;
  for (const float value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

/// Writes words as a WordArchive does, with lies in them.
class LyingArchive final : public OutArchive {
 public:
  LyingArchive(Words& to, std::vector<Lie> lies) : OutArchive(kSavedLate), to_(to), lies_(std::move(lies)) {}
  bool told_all() const {
    return std::all_of(lies_.begin(), lies_.end(), [](const Lie& lie) { return lie.number < 0; });
  }

 protected:
  void put(const Field& field, Element, std::span<const std::byte> bytes) override {
    Words content(bytes.size() / sizeof(std::uint32_t));
    if (!bytes.empty()) std::memcpy(content.data(), bytes.data(), bytes.size());
    if (const Lie* const lie = next(field)) content = lie->content;
    append(content);
  }
  void put_list(const Field& field, std::uint64_t count, std::span<const std::byte> bytes, std::size_t) override {
    Words content(bytes.size() / sizeof(std::uint32_t));
    if (!bytes.empty()) std::memcpy(content.data(), bytes.data(), bytes.size());
    if (const Lie* const lie = next(field)) {
      content = lie->content;
      count = lie->count.value_or(content.size());
    }
    append(number(count));
    append(content);
  }

 private:
  const Lie* next(const Field& field) {
    for (Lie& lie : lies_)
      if (lie.name == field.name && lie.number-- == 0) return &lie;
    return nullptr;
  }
  void append(const Words& content) { to_.insert(to_.end(), content.begin(), content.end()); }

  Words& to_;
  std::vector<Lie> lies_;
};

/// Checkpoints of a learner that has open samples, true or with lies about them.
class Forge {
 public:
  Forge(const mesh::NetworkSpec& spec, const LearningOptions& options) : spec_(spec), options_(options) {}

  ByteBuffer file(LearningRun& run, const std::vector<Lie>& lies) {
    std::vector<formats::Tensor> tensors = learner_tensors(*run.learner);
    const mesh::RuleState& rule = *run.learner->saved();
    Words all;
    WordArchive archive(all, Scopes{Scope::messages});
    rule.visit(archive);
    mesh::SizeArchive sizes(Scopes{Scope::messages});
    rule.visit(sizes);
    const std::size_t late = sizes.size() / sizeof(std::uint32_t);
    // Read as a learner reads them, written with lies.
    const auto plan = must(LearningPlan::build(run.mesh->graph(), run.mesh->sessions(), options_));
    SampleClock clock(options_.schedule, plan.hold, plan.travel, plan.latency);
    clock.now.samples = run.learner->samples();
    clock.now.scored = run.learner->scored();
    LateSamples samples(run.mesh->graph(), plan, options_);
    InWordArchive in(std::span<const std::uint32_t>(all).subspan(late + 2), kSavedLate);
    LateSamples::visit(samples, in, clock);
    EXPECT_TRUE(in.is_done());
    Words forged;
    LyingArchive out(forged, lies);
    LateSamples::visit(std::as_const(samples), out, clock);
    EXPECT_TRUE(out.told_all()) << (lies.empty() ? "" : lies[0].name);
    all.resize(late);
    const Words count = number(forged.size());
    all.insert(all.end(), count.begin(), count.end());
    all.insert(all.end(), forged.begin(), forged.end());
    tensors.back() = formats::make_tensor("learning/in_flight", std::span<const std::uint32_t>(all));
    return must(mesh::encode_mesh(*run.mesh, true, {tensors, "{}"}));
  }
  Status restore(const ByteBuffer& bytes) const {
    WEFT_TRY(const auto read, formats::decode_entity(ByteSpan(bytes), "forged"));
    WEFT_TRY(mesh::Mesh mesh, mesh::Mesh::build(spec_, shape()));
    WEFT_TRY(const auto learner, Learner::build(mesh, options_));
    WEFT_CHECK(mesh::restore_weights(mesh, read));
    WEFT_CHECK(mesh::restore_live(mesh, read));
    return restore_learner(*learner, read);
  }

 private:
  mesh::NetworkSpec spec_;
  LearningOptions options_;
};

constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;

void expect_refused_lies(const LearningOptions& options, const std::vector<std::vector<Lie>>& all,
                         const std::function<void(LateDigits&)>& live) {
  LateDigits d(options);
  live(d);
  Forge forge(d.run.mesh->spec(), options);
  must(forge.restore(forge.file(d.run, {})));
  for (const std::vector<Lie>& lies : all) {
    SCOPED_TRACE(lies[0].name + (lies[0].content.empty() ? "" : " " + std::to_string(lies[0].content[0])));
    expect_error(forge.restore(forge.file(d.run, lies)), Errc::corrupt, {"counters contradict each other"});
  }
}

// Samples 0 to 2 have their answers; 3 waits for its own, and was shown anew with its target already.
TEST(ForgedCheckpoints, AreRefusedAtEachBoundOfAnOpenSample) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> ten(10, 0.5f);
  Words bad_y = floats(ten);
  bad_y[4] = std::bit_cast<std::uint32_t>(nan);
  expect_refused_lies(meeting(Late::again, Schedule::pipelined, 8),
                      {{{"sessions", 0, number(2)}},
                       {{"sessions", 0, number(0)}},
                       {{"sessions", 0, number(kHuge)}},
                       {{"sessions", 0, number(kHuge)}, {"sessions_created", 0, number(kHuge)}},
                       {{"sessions_created", 0, number(0)}},
                       {{"planned", 0, number(kHuge)}},
                       {{"fate", 0, number(9)}},
                       {{"fate", 0, number(5)}},
                       {{"fate", 9, number(2)}},
                       {{"ticket", 0, number(16)}},
                       {{"has_entry", 0, number(2)}},
                       {{"has_entry", 0, number(1)}, {"entry_position", 0, number(5)}},
                       {{"open", 0, number(std::uint64_t{1} << 60)}},
                       {{"open_ticket", 0, number(900)}},
                       {{"open_ticket", 1, number(0)}},
                       {{"open_ticket", 0, number(16)}, {"ticket", 0, number(16)}},
                       {{"position", 0, number(5)}},
                       {{"has_answer", 0, number(2)}},
                       {{"has_answer", 0, number(0)}},
                       {{"has_answer", 3, number(1)}},
                       {{"has_target", 0, number(1)}},
                       {{"x", 0, floats(ten)}},
                       {{"x", 0, floats(std::vector<float>(64, nan))}},
                       {{"x", 0, {}, std::uint64_t{1} << 61}},
                       {{"y", 0, bad_y}},
                       {{"y", 0, floats(std::vector<float>(20, 0.5f))}},
                       {{"y", 3, floats(ten)}},
                       {{"y", 3, floats(ten)}, {"has_answer", 3, number(1)}},
                       {{"labels", 0, {10}}},
                       {{"labels", 0, {4000}}},
                       {{"labels", 0, {}}},
                       {{"labels", 0, {1, 1}}},
                       {{"labels", 0, {kNoLabel - 1}}},
                       {{"values", 0, floats(ten)}},
                       {{"values", 0, floats({0.5f})}},
                       {{"weights", 0, floats({-1.0f})}},
                       {{"weights", 0, floats({nan})}},
                       {{"weights", 0, floats({})}},
                       {{"weights", 0, floats({1, 1})}}},
                      [](LateDigits& d) {
                        ASSERT_EQ(d.run.learner->latency(), 3u);
                        for (int i = 0; i < 4; ++i) d.observe();
                        must(d.teach(3, 4));
                      });
}

TEST(ForgedCheckpoints, AreRefusedWithoutTheValuesThatALossNeeds) {
  LearningOptions options = meeting(Late::meet, Schedule::pipelined, 8);
  options.loss = Loss::mse;
  const std::vector<float> ten(10, 0.5f);
  expect_refused_lies(options, {{{"values", 0, {}}}, {{"values", 0, floats({1, 2})}}, {{"labels", 0, {kNoLabel}}}},
                      [&](LateDigits& d) { must(d.teach(d.observe(), {.output = "digit", .values = ten})); });
}

TEST(ForgedCheckpoints, AreRefusedAtTheErrorsThatAreToEnter) {
  expect_refused_lies(
      meeting(Late::meet, Schedule::pipelined, 8),
      {{{"entry_position", 0, number(7)}}, {{"entry_position", 1, number(kHuge)}, {"has_entry", 1, number(1)}}},
      [](LateDigits& d) {
        for (int i = 0; i < 6; ++i) d.observe();
        must(d.teach(0, 4));
      });
}

// Sessions that came since are nothing to refuse: what is open expires with the next call.
TEST(ForgedCheckpoints, AreNotThoseOfAMeshWithOtherSessionsNow) {
  LateDigits d(meeting());
  const Ticket ticket = d.observe();
  must(d.run.mesh->add_session());
  LearningRun back(d.run.file(), meeting());
  const std::uint32_t label = 1;
  const Target target{"digit", {&label, 1}};
  expect_error(back.learner->teach(ticket, {&target, 1}), Errc::timed_out, {"sessions were added or removed"});
  const std::vector<float> x(128, 0.5f);
  const mesh::RunInput input{"pixels", x};
  must(back.learner->observe({&input, 1}));
  EXPECT_EQ(back.learner->late_counts().expired, 1u);
}

// --- tickets that expired

std::vector<Ticket> expired(const LearningRun& run) {
  return {run.learner->expired().begin(), run.learner->expired().end()};
}

TEST(ExpiredTickets, ComeBackWithASnapshotAndNotWithAFile) {
  LateDigits d(meeting());
  for (int i = 0; i < 6; ++i) d.observe();
  const std::vector<Ticket> before = expired(d.run);
  ASSERT_EQ(before, (std::vector<Ticket>{0, 1}));
  mesh::Snapshot saved;
  d.run.mesh->take_snapshot(saved);
  const ByteBuffer file = d.run.file();
  d.observe();
  d.run.learner->clear_scores();
  d.observe();
  EXPECT_EQ(expired(d.run), (std::vector<Ticket>{3}));
  must(d.run.mesh->restore_snapshot(saved));
  EXPECT_EQ(expired(d.run), before);
  EXPECT_TRUE(expired(LearningRun(file, meeting())).empty()) << "told to whoever drove that learner";
}

/// Weights so large that the next tick's sums are infinite, which halts the mesh.
void poison(LearningRun& run) {
  const mesh::NodeId node = run.mesh->graph().outputs()[0];
  const auto& parameter = run.store().of(node)[0];
  must(run.store().write(run.store().parameters()[run.store().first(node)],
                         std::vector<float>(parameter.spec->out * parameter.spec->in, 3e38f), "large"));
}

TEST(ExpiredTickets, AreNotThoseThatAHaltedCallWouldHaveLeftBehind) {
  for (const Late late : {Late::meet, Late::again})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      for (const std::uint32_t patience : {5u, 60u}) {
        SCOPED_TRACE(std::string(name(late)) + " " + std::string(name(schedule)) + " " + std::to_string(patience));
        LateDigits d(meeting(late, schedule, patience));
        const std::uint64_t waits = patience + (schedule == Schedule::pipelined ? d.run.learner->latency() : 1);
        for (std::uint64_t i = 0; i < waits; ++i) d.observe();
        ASSERT_EQ(d.run.learner->late_counts().expired, 0u);
        poison(d.run);
        const std::vector<float> x(256 * 64, 1.0f);
        const std::vector<std::uint32_t> labels(256, 3);
        const mesh::RunInput all{"pixels", x}, one{"pixels", std::span<const float>(x).first(64)};
        const Target target{"digit", labels};
        // As many as entered before the halt expire what waited longest, though 256 were given.
        const std::uint64_t before = d.run.learner->samples();
        const auto expect_expired = [&](std::uint64_t halts) {
          const std::uint64_t entered = d.run.learner->samples() - before;
          const std::uint64_t expired = d.run.learner->late_counts().expired;
          EXPECT_LT(entered, 200u);
          // Under `meet` the ticks of a sample that a halt cut short have passed.
          EXPECT_LE(expired, std::min(entered + (late == Late::meet ? halts : 0), waits));
          if (late == Late::again) {
            EXPECT_EQ(expired, std::min(entered, waits));
          }
        };
        expect_error(d.run.learner->learn({&all, 1}, {&target, 1}, 256), Errc::halted, {});
        expect_expired(1);
        d.run.mesh->resume();
        expect_error(d.run.learner->observe({&one, 1}), Errc::halted, {});
        expect_expired(2);
      }
}

}  // namespace
}  // namespace weft::learning::late_state_test
