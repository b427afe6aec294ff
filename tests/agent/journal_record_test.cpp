// SPDX-License-Identifier: Apache-2.0

#include "agent/journal_record.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace weft::agent::journal_record_test {
namespace {

Record reread(RecordKind kind, const RecordBytes& bytes) {
  auto record = read_record(static_cast<std::uint32_t>(kind), bytes.bytes());
  EXPECT_TRUE(record) << name(kind) << ": " << record.error().text();
  EXPECT_EQ(record->index() + 1, static_cast<std::size_t>(kind)) << "kinds and alternatives stand in one order";
  return *std::move(record);
}

void expect_same_bits(const std::vector<float>& got, std::span<const float> given) {
  ASSERT_EQ(got.size(), given.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(given[i])) << i;
}

TEST(Record, KeepsEveryBitOfAnInput) {
  const std::vector<float> values{0.1f, -0.0f, 3e38f, 1e-40f, 0.5f, std::numeric_limits<float>::quiet_NaN(), 1e9f};
  RecordBytes bytes;
  bytes.begin().put_input("x", 3, values);
  const auto input = std::get<InputRecord>(reread(RecordKind::input, bytes));
  EXPECT_EQ(input.port, "x");
  EXPECT_EQ(input.session, 3u);
  expect_same_bits(input.values, values);
}

TEST(Record, StoresWhatIsExactInHalvesInHalfTheBytes) {
  std::vector<float> grey(1000);
  for (std::size_t i = 0; i < grey.size(); ++i) grey[i] = static_cast<float>(i % 17) / 16.0f;
  grey[5] = -0.0f;
  RecordBytes bytes;
  bytes.begin().put_input("x", 0, grey);
  EXPECT_LT(bytes.bytes().size(), 2 * grey.size() + 40);
  expect_same_bits(std::get<InputRecord>(reread(RecordKind::input, bytes)).values, grey);
  grey[999] = std::nextafterf(grey[999], 2.0f);  // one bit more, and it is kept too
  bytes.begin().put_input("x", 0, grey);
  EXPECT_GT(bytes.bytes().size(), 4 * grey.size());
  expect_same_bits(std::get<InputRecord>(reread(RecordKind::input, bytes)).values, grey);
}

TEST(Record, KeepsWhatComesLate) {
  const std::vector<float> x{1.5f, 0.1f}, gradient{0.3f, -0.7f}, weights{2.0f, 0.5f};
  const std::vector<std::uint32_t> labels{7, learning::kNoLabel};
  const mesh::RunInput input{"pixels", x};
  RecordBytes bytes;
  bytes.begin().put_observe({&input, 1}, true);
  const auto observed = std::get<ObserveRecord>(reread(RecordKind::observe, bytes));
  EXPECT_TRUE(observed.halted);
  ASSERT_EQ(observed.inputs.size(), 1u);
  expect_same_bits(observed.inputs[0].values, x);
  const std::vector<learning::Target> targets{{.output = "digit", .labels = labels, .weights = weights},
                                              {.output = "size", .gradient = gradient}};
  bytes.begin().put_teach(300, targets, false);
  const auto taught = std::get<TeachRecord>(reread(RecordKind::teach, bytes));
  EXPECT_EQ(taught.ticket, 300u);
  EXPECT_FALSE(taught.halted);
  ASSERT_EQ(taught.targets.size(), 2u);
  EXPECT_EQ(taught.targets[0].labels, labels);
  expect_same_bits(taught.targets[0].weights, weights);
  EXPECT_TRUE(taught.targets[0].gradient.empty());
  EXPECT_EQ(taught.targets[1].name, "size");
  expect_same_bits(taught.targets[1].gradient, gradient);
  bytes.begin().put_forgo(9);
  EXPECT_EQ(std::get<ForgoRecord>(reread(RecordKind::forgo, bytes)).ticket, 9u);
  EXPECT_TRUE(std::holds_alternative<DeliverRecord>(reread(RecordKind::deliver, bytes.begin())));
}

TEST(Record, KeepsBatchesWithLabelsOfEveryWidth) {
  for (const std::uint32_t largest : {0u, 254u, 255u, 65534u, 65535u, 70000u, 4294967294u}) {
    const std::vector<float> inputs{1.5f, 2.25f, 0.3f, 0.7f}, values{0.25f, 8.0f};
    const std::vector<std::uint32_t> labels{largest, learning::kNoLabel};
    const mesh::RunInput input{"pixels", inputs};
    const std::vector<learning::Target> targets{{"digit", labels, {}}, {"size", {}, values}};
    RecordBytes bytes;
    bytes.begin().put_learn({&input, 1}, targets, 2, true);
    const auto batch = std::get<LearnRecord>(reread(RecordKind::learn, bytes));
    EXPECT_EQ(batch.samples, 2u);
    EXPECT_TRUE(batch.halted);
    ASSERT_EQ(batch.inputs.size(), 1u);
    EXPECT_EQ(batch.inputs[0].name, "pixels");
    expect_same_bits(batch.inputs[0].values, inputs);
    ASSERT_EQ(batch.targets.size(), 2u);
    EXPECT_EQ(batch.targets[0].labels, labels) << largest;
    EXPECT_TRUE(batch.targets[0].weights.empty());
    expect_same_bits(batch.targets[1].values, values);
  }
}

TEST(Record, KeepsTheWeightsOfABatch) {
  const std::vector<float> inputs{1.5f, 2.25f}, weights{0.3f, 0.0f};
  const std::vector<std::uint32_t> labels{1, 2};
  const mesh::RunInput input{"pixels", inputs};
  const std::vector<learning::Target> targets{{.output = "digit", .labels = labels, .weights = weights},
                                              {.output = "size", .labels = labels}};
  for (const bool halted : {false, true}) {
    RecordBytes bytes;
    bytes.begin().put_learn({&input, 1}, targets, 2, halted);
    const auto batch = std::get<LearnRecord>(reread(RecordKind::learn, bytes));
    EXPECT_EQ(batch.halted, halted);
    ASSERT_EQ(batch.targets.size(), 2u);
    expect_same_bits(batch.targets[0].weights, weights);
    EXPECT_TRUE(batch.targets[1].weights.empty());
  }
}

TEST(Record, KeepsACommand) {
  mesh::Command command;
  command.kind = mesh::CommandKind::morph;
  command.level = 2;
  command.parameter = 1;
  command.number = 1ull << 40;
  command.encoding = Encoding(Dtype::int4, Granularity::channel);
  command.not_before = 77;
  command.values = {1.0f, 0.1f};
  RecordBytes bytes;
  bytes.begin().put_command({4, 5, 6, 0}, command);
  const auto read = std::get<CommandRecord>(reread(RecordKind::command, bytes));
  EXPECT_EQ(read.cell, (Coord{4, 5, 6, 0}));
  EXPECT_EQ(read.control->kind, command.kind);
  EXPECT_EQ(read.control->level, command.level);
  EXPECT_EQ(read.control->parameter, command.parameter);
  EXPECT_EQ(read.control->number, command.number);
  EXPECT_EQ(read.control->encoding, command.encoding);
  EXPECT_EQ(read.control->not_before, command.not_before);
  EXPECT_EQ(read.control->values, command.values);
}

TEST(Record, KeepsAMessage) {
  for (const auto type : {mesh::MessageType::target, mesh::MessageType::user}) {
    mesh::Mail mail(type);
    mail.kind = mesh::Mail::Kind::ask;
    mail.number = 9;
    mail.not_before = 1ull << 40;
    mail.deadline = 12;
    mail.rate = 0.1f;
    mail.values = {1.0f, 0.1f};
    mail.bytes = {std::byte{1}, std::byte{0}, std::byte{255}};
    RecordBytes bytes;
    bytes.begin().put_message({4, 5, 6, 7}, mail);
    const auto read = std::get<MessageRecord>(reread(RecordKind::message, bytes));
    EXPECT_EQ(read.to, (Coord{4, 5, 6, 7}));
    EXPECT_EQ(read.mail->type, type);
    EXPECT_EQ(read.mail->kind, mail.kind);
    EXPECT_EQ(read.mail->number, mail.number);
    EXPECT_EQ(read.mail->not_before, mail.not_before);
    EXPECT_EQ(read.mail->deadline, mail.deadline);
    EXPECT_EQ(read.mail->rate, mail.rate);
    EXPECT_EQ(read.mail->values, mail.values);
    EXPECT_EQ(read.mail->bytes, mail.bytes);
  }
  RecordBytes bytes;
  bytes.begin().put_message({}, mesh::Mail(mesh::MessageType::activation));
  EXPECT_FALSE(read_record(static_cast<std::uint32_t>(RecordKind::message), bytes.bytes())) << "published, not mailed";
}

TEST(Record, KeepsTheSmallOnes) {
  RecordBytes bytes;
  bytes.begin().put_ticks(9, true);
  EXPECT_EQ(std::get<TicksRecord>(reread(RecordKind::ticks, bytes)).ticks, 9u);
  EXPECT_TRUE(std::get<TicksRecord>(reread(RecordKind::ticks, bytes)).halted);
  bytes.begin().put_drain(false);
  EXPECT_FALSE(std::get<DrainRecord>(reread(RecordKind::drain, bytes)).halted);
  bytes.begin().put_session(5);
  EXPECT_EQ(std::get<RemoveSessionRecord>(reread(RecordKind::remove_session, bytes)).session, 5u);
  EXPECT_EQ(std::get<ResetSessionRecord>(reread(RecordKind::reset_session, bytes)).session, 5u);
  bytes.begin().put_annotation("reward", "0.25");
  EXPECT_EQ(std::get<AnnotationRecord>(reread(RecordKind::annotation, bytes)).topic, "reward");
  EXPECT_EQ(std::get<AnnotationRecord>(reread(RecordKind::annotation, bytes)).text, "0.25");
  bytes.begin().put_marker(12, {3, 4});
  EXPECT_EQ(std::get<MarkerRecord>(reread(RecordKind::marker, bytes)).tick, 12u);
  EXPECT_EQ(std::get<MarkerRecord>(reread(RecordKind::marker, bytes)).hash, (Hash128{3, 4}));
  bytes.begin().put_tick(13);
  EXPECT_EQ(std::get<CheckpointRecord>(reread(RecordKind::checkpoint, bytes)).tick, 13u);
  bytes.begin();
  reread(RecordKind::add_session, bytes);
  reread(RecordKind::resume, bytes);
}

TEST(Record, RefusesEveryLengthButItsOwn) {
  const std::vector<float> inputs(6, 0.3f);
  const std::vector<std::uint32_t> labels{1, 2};
  const mesh::RunInput input{"pixels", inputs};
  const learning::Target target{"digit", labels, {}};
  RecordBytes bytes;
  bytes.begin().put_learn({&input, 1}, {&target, 1}, 2, false);
  const auto whole = bytes.bytes();
  const auto kind = static_cast<std::uint32_t>(RecordKind::learn);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A vector of its own, so that a reader that goes too far is seen.
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto read = read_record(kind, cut);
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code(), Errc::corrupt);
  }
  std::vector<std::byte> longer(whole.begin(), whole.end());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(read_record(kind, longer));
}

TEST(Record, ReadsAnyBytesWithoutBelievingThem) {
  RandomStream random(3, 1, RandomPurpose::test);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random.next_u32() % 60);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_u32() % 4 ? 0 : random.next_u32());
    if (const auto read = read_record(random.next_u32() % 16, bytes); !read) {
      EXPECT_TRUE(read.error().code() == Errc::corrupt || read.error().code() == Errc::unsupported);
    }
  }
}

TEST(Record, NamesAKindThatItDoesNotKnow) {
  const auto read = read_record(999, {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Errc::unsupported);
  EXPECT_NE(read.error().text().find("999"), std::string::npos);
}

}  // namespace
}  // namespace weft::agent::journal_record_test
