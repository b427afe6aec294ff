// SPDX-License-Identifier: Apache-2.0
// A field of state is named once. A rule and a cell's record that have one more field, a line of their visit, are
// hashed, saved, written into files and brought back; every ring of a state is where its scope says.

#include "mesh/memory/byte_archive.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/session_file.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/cell_hash.hpp"
#include "mesh/runtime/cell_record.hpp"
#include "mesh/runtime/step_rule.hpp"

#include <gtest/gtest.h>

#include "testing.hpp"
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::mesh::archive_test {
namespace {

using namespace testing_support;

/// Counts for each node the steps that it learned in, and all of them.
class CountingRule final : public StepRule, private RuleState {
 public:
  explicit CountingRule(std::size_t nodes) : counts(nodes) {}

  bool fires(std::uint64_t) const noexcept override { return true; }
  std::uint64_t fired_before(std::uint64_t step) const noexcept override { return step; }
  void learn(StepContext&, NodeId node) noexcept override {
    ++counts[node];
    ++all;
  }
  RuleState* saved() noexcept override { return this; }

  std::vector<std::uint64_t> counts;
  std::uint64_t all = 0;

 private:
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(Field{"counts", Scope::optimizer}, std::span(self.counts));
    archive(Field{"all", Scope::messages}, self.all);
  }
  void visit(OutArchive& archive) const override { fields(*this, archive); }
  void visit(InArchive& archive) override { fields(*this, archive); }
  void visit_layer(NodeId node, OutArchive& archive) const override {
    archive(Field{"counts", Scope::optimizer}, std::span(counts).subspan(node, 1));
  }
  void visit_layer(NodeId node, InArchive& archive) override {
    archive(Field{"counts", Scope::optimizer}, std::span(counts).subspan(node, 1));
  }
};

NetworkSpec spec(actors::Policy policy) {
  NetworkSpec made = NetworkBuilder("n", {1, 1, 2, 1})
                         .input("x", 3)
                         .dense({0, 0, 0, 0}, 4)
                         .dense({0, 0, 1, 0}, 2)
                         .output("y", {0, 0, 1, 0})
                         .spec();
  for (LayerSpec& layer : made.layers) layer.policy = policy;
  return made;
}

void run(Mesh& mesh, std::uint64_t steps) {
  std::uint64_t done = 0;
  must(MeshAccess::run_steps(mesh, steps, done));
}

class OneField : public testing::Test {
 protected:
  explicit OneField(actors::Policy policy = actors::Policy::halt)
      : mesh_(must(Mesh::build(spec(policy), {.threads = 1}))), rule_(mesh_.graph().nodes().size()) {
    must(MeshAccess::attach(mesh_, &rule_, 2));
    run(mesh_, 5);
  }
  ~OneField() override { must(MeshAccess::attach(mesh_, nullptr, 2)); }

  Mesh mesh_;
  CountingRule rule_;
};

TEST_F(OneField, ChangesTheHash) {
  const Hash128 before = mesh_.state_hash();
  ++rule_.counts[1];
  EXPECT_NE(mesh_.state_hash(), before);
  --rule_.counts[1];
  EXPECT_EQ(mesh_.state_hash(), before);
}

TEST_F(OneField, IsInASnapshotAndComesBack) {
  const auto counts = rule_.counts;
  const std::uint64_t all = rule_.all;
  ASSERT_GT(all, 0u);
  Snapshot saved;
  mesh_.take_snapshot(saved);
  const Hash128 hash = mesh_.state_hash();
  run(mesh_, 3);
  EXPECT_NE(rule_.counts, counts);
  must(mesh_.restore_snapshot(saved));
  EXPECT_EQ(rule_.counts, counts);
  EXPECT_EQ(rule_.all, all);
  EXPECT_EQ(mesh_.state_hash(), hash);
}

TEST_F(OneField, StaysWithWeightsThatStay) {
  Snapshot saved;
  mesh_.take_snapshot(saved, SnapshotWeights::never);
  const auto counts = rule_.counts;
  const std::uint64_t all = rule_.all;
  run(mesh_, 3);
  const auto later = rule_.counts;
  ASSERT_NE(later, counts);
  must(mesh_.restore_snapshot(saved));
  EXPECT_EQ(rule_.counts, later) << "of the optimizer's scope, which goes with the weights";
  EXPECT_EQ(rule_.all, all);
}

TEST_F(OneField, OfAnotherSizeIsRefusedAndNothingChanges) {
  Snapshot saved;
  mesh_.take_snapshot(saved);
  rule_.counts.push_back(7);
  const auto counts = rule_.counts;
  const std::uint64_t ticks = mesh_.ticks();
  run(mesh_, 1);
  rule_.counts = counts;
  expect_error(mesh_.restore_snapshot(saved), Errc::shape_mismatch, {"learning rule", "bytes where"});
  EXPECT_EQ(rule_.counts, counts);
  EXPECT_EQ(mesh_.ticks(), ticks + 1);
}

TEST_F(OneField, IsWhatARestartGoesBackTo) {
  Cell& cell = *MeshAccess::cells(mesh_)[1];
  cell.take_snapshot(mesh_.ticks());
  const auto counts = rule_.counts;
  for (std::uint64_t& count : rule_.counts) count += 100;
  ASSERT_TRUE(cell.restart(mesh_.ticks()));
  const NodeId node = cell.first();
  EXPECT_EQ(rule_.counts[node], counts[node]);
  EXPECT_EQ(rule_.counts[node - 1], counts[node - 1] + 100) << "another cell's stays";
}

/// A cell's record with one field more, of any scope.
template <Scope kScope>
struct LargerRecord : CellRecord {
  std::uint64_t fuel = 7;

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    CellRecord::visit(self, archive);
    archive.word(Field{"fuel", kScope}, self.fuel, 1, 9);
  }
};

template <class Record>
std::vector<std::uint64_t> words_of(const Record& record, Scopes scopes) {
  std::vector<std::uint64_t> words;
  WordWriter archive(words, scopes);
  Record::visit(record, archive);
  return words;
}

template <class Record>
Hash128 hash_of(const Record& record) {
  const auto no_weights = [](NodeId, HashArchive&) {};
  return internal::hash_cell(record, {}, State(), 0, 0, no_weights, std::function<void(NodeId, StateHasher&)>());
}

/// A record of which nothing is as at first.
template <class Record>
Record filled() {
  Record record;
  record.switches = {false, true, 5};
  record.supervision = {actors::ActorStatus::held, 1, 2, 3, 4};
  record.restarts = {10, 20};
  record.commands = {std::make_shared<Command>()};
  record.commands[0]->kind = CommandKind::morph;
  record.commands[0]->level = 2;
  record.commands[0]->sender = 3;
  record.commands[0]->parameter = 4;
  record.commands[0]->number = 5;
  record.commands[0]->encoding = Encoding(Dtype::int4, Granularity::block32_f16);
  record.commands[0]->values = {1.5f, -0.0f};
  record.commands[0]->not_before = 30;
  record.observers.push_back({{1, 2, 3, 4, 5}});
  return record;
}

TEST(CellRecords, AFieldIsWhereItsScopeSays) {
  const auto control = filled<LargerRecord<Scope::control>>();
  const auto care = filled<LargerRecord<Scope::care>>();
  const auto committed = filled<LargerRecord<Scope::committed>>();
  const CellRecord& plain = control;
  const auto expect_last = [](std::vector<std::uint64_t> words, std::vector<std::uint64_t> without) {
    ASSERT_EQ(words.size(), without.size() + 1);
    EXPECT_EQ(words.back(), 7u);
    words.pop_back();
    EXPECT_EQ(words, without);
  };
  expect_last(words_of(control, scopes::kCheckpoint), words_of(plain, scopes::kCheckpoint));
  expect_last(words_of(care, scopes::kSnapshot), words_of(plain, scopes::kSnapshot));
  expect_last(words_of(committed, scopes::kSession), {});
  EXPECT_NE(hash_of(control), hash_of(plain));
  EXPECT_NE(hash_of(committed), hash_of(plain));
  EXPECT_EQ(hash_of(care), hash_of(plain)) << "no part of a hash";
}

TEST(CellRecords, AFieldComesBackOrIsNamed) {
  const auto record = filled<LargerRecord<Scope::control>>();
  std::vector<std::uint64_t> words = words_of(record, scopes::kCheckpoint);
  LargerRecord<Scope::control> back;
  back.prepare(std::vector<std::size_t>{5}, false);
  back.fuel = 1;
  WordReader reader(words);
  LargerRecord<Scope::control>::visit(back, reader);
  EXPECT_FALSE(reader.has_failed());
  EXPECT_EQ(reader.words_left(), 0u);
  EXPECT_EQ(back.fuel, 7u);
  EXPECT_EQ(words_of(back, scopes::kCheckpoint), words);
  EXPECT_EQ(hash_of(back), hash_of(record));
  words.back() = 10;
  WordReader beyond(words);
  LargerRecord<Scope::control>::visit(back, beyond);
  EXPECT_TRUE(beyond.has_failed());
  EXPECT_EQ(beyond.failed_field(), "fuel");
  for (std::size_t size = 0; size < words.size(); ++size) {
    WordReader cut(std::span<const std::uint64_t>(words.data(), size));
    LargerRecord<Scope::control>::visit(back, cut);
    EXPECT_TRUE(cut.has_failed()) << size << " of " << words.size() << " words";
  }
}

TEST(CellRecords, ACommandIsCopiedWithEveryField) {
  const CellRecord record = filled<CellRecord>();
  CellRecord copied = record;
  copied.commands[0] = copy_of(*record.commands[0]);
  EXPECT_NE(copied.commands[0], record.commands[0]);
  EXPECT_EQ(words_of(copied, scopes::kSnapshot), words_of(record, scopes::kSnapshot));
}

/// Adds to the last value of one visited field, or finds out what fields there are.
struct Poke {
  std::size_t wanted = SIZE_MAX, next = 0;
  std::string name{};
  NodeId node = 0;
  Scope scope = Scope::committed;

  void operator()(const Field& field, std::span<float> values) {
    if (next++ != wanted) return;
    values.back() += 1.0f;
    name = field.name;
    node = field.first;
    scope = field.scope;
  }
};

Poke poke(Mesh& mesh, std::size_t wanted) {
  Poke archive{wanted};
  MeshAccess::state(mesh).visit_session(0, mesh.ticks(), archive);
  return archive;
}

ByteBuffer session_of(const Mesh& mesh) { return must(detach_session(mesh, 0, std::size_t{0})); }

bool is_equal(const ByteBuffer& a, const ByteBuffer& b) {
  return std::equal(a.data(), a.data() + a.size(), b.data(), b.data() + b.size());
}

TEST(Rings, AreWhereTheirScopesSay) {
  Mesh mesh = must(Mesh::build(NetworkBuilder("n", {1, 1, 2, 1})
                                   .input("a", 3)
                                   .input("b", 3)
                                   .layer({0, 0, 0, 0}, "lstm", 2)
                                   .from({"a", "b"})
                                   .dense({0, 0, 1, 0}, 2, kernels::Activation::gelu)
                                   .from({Coord{0, 0, 0, 0}, Coord{0, 0, 1, 0}})
                                   .spec(),
                               {.threads = 1}));
  CountingRule rule(mesh.graph().nodes().size());
  must(MeshAccess::attach(mesh, &rule, 4));
  run(mesh, 6);
  Snapshot saved;
  mesh.take_snapshot(saved);
  const Hash128 hash = mesh.state_hash();
  const ByteBuffer session = session_of(mesh), checkpoint = must(encode_mesh(mesh, true));
  std::set<std::string> names;
  const std::size_t fields = poke(mesh, SIZE_MAX).next;
  for (std::size_t i = 0; i < fields; ++i) {
    const Poke poked = poke(mesh, i);
    names.insert(poked.name);
    const bool is_committed = poked.scope == Scope::committed;
    const bool is_of_a_cell = poked.node >= mesh.graph().port_count();
    EXPECT_EQ(mesh.state_hash() != hash, is_committed && is_of_a_cell) << poked.name;
    EXPECT_EQ(!is_equal(session_of(mesh), session), is_committed) << poked.name;
    EXPECT_FALSE(is_equal(must(encode_mesh(mesh, true)), checkpoint)) << poked.name;
    must(mesh.restore_snapshot(saved));
    EXPECT_EQ(mesh.state_hash(), hash) << poked.name;
    EXPECT_TRUE(is_equal(must(encode_mesh(mesh, true)), checkpoint)) << poked.name << ", taken back";
  }
  EXPECT_EQ(names, (std::set<std::string>{"output", "input", "preactivation", "cache", "hidden"}));
  must(MeshAccess::attach(mesh, nullptr, 2));
}

TEST(Archives, TakeTheScopesOfTheirUse) {
  const auto taken = [](Scopes scopes) {
    std::string names;
    const std::pair<Scope, char> all[] = {{Scope::committed, 'c'}, {Scope::history, 'h'}, {Scope::weights, 'w'},
                                          {Scope::optimizer, 'o'}, {Scope::control, 's'}, {Scope::care, 'f'},
                                          {Scope::messages, 'm'},  {Scope::results, 'r'}, {Scope::answers, 'a'},
                                          {Scope::steps, 't'}};
    for (const auto& [scope, letter] : all)
      if (scopes.contains(scope)) names += letter;
    return names;
  };
  EXPECT_EQ(taken(scopes::kHash), "cwos");
  EXPECT_EQ(taken(scopes::kSnapshot), "chwosfmra");
  EXPECT_EQ(taken(scopes::kCheckpoint), "chwosfm");
  EXPECT_EQ(taken(scopes::kSession), "c");
  EXPECT_EQ(taken(scopes::kRestart), "cwo");
  EXPECT_EQ(taken(scopes::kHostSide), "omrt");
}

TEST(Archives, PassOverFieldsOfADeviceOnTheHostsSide) {
  const Field held{"errors", Scope::messages, 0, Field::kOnly, true}, own{"samples", Scope::messages};
  ByteArchive bytes;
  WriteArchive out(bytes, scopes::kHostSide);
  out(held, std::uint64_t{1});
  out(own, std::uint64_t{2});
  EXPECT_EQ(bytes.size(), sizeof(std::uint64_t));
  std::uint64_t first = 7, second = 7;
  ReadArchive in(bytes.bytes(), scopes::kHostSide);
  in(held, first);
  in(own, second);
  EXPECT_EQ(first, 7u);
  EXPECT_EQ(second, 2u);
}

TEST(Archives, StopAtAWordThatIsNotTheSameAndAtAListThatCannotBe) {
  ByteArchive bytes;
  WriteArchive out(bytes, scopes::kSnapshot);
  out.same({"kind", Scope::messages}, 3);
  out({"value", Scope::messages}, std::uint64_t{5});
  std::uint64_t value = 0;
  ReadArchive in(bytes.bytes(), scopes::kSnapshot);
  in.same({"kind", Scope::messages}, 4);
  in({"value", Scope::messages}, value);
  EXPECT_TRUE(in.has_failed());
  EXPECT_EQ(value, 0u) << "passed over";
  std::vector<std::uint64_t> list{9};
  ReadArchive broken(bytes.bytes(), scopes::kSnapshot);
  broken.list({"list", Scope::messages}, list);
  EXPECT_TRUE(broken.has_failed()) << "three elements, of which eight bytes are there";
  EXPECT_EQ(list, std::vector<std::uint64_t>{9});
}

}  // namespace
}  // namespace weft::mesh::archive_test
