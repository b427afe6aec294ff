// SPDX-License-Identifier: Apache-2.0

// Mistakes of a user's class outside of its handlers: fields, copies and factories that throw, differ or are
// none.

#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/actor_fields.hpp"

#include "clerks.hpp"

namespace weft::mesh::cell_actor_fields_test {
namespace {

using namespace clerk_network;
using actors::Policy;
using testing_support::expect_error;

enum class Wrong : int { nothing, throws, writes_more, changes, no_clone, clone_throws };

/// The mistake that all Odd actors make from now on.
Wrong& wrong() {
  static Wrong instance = Wrong::nothing;
  return instance;
}

class Odd final : public CellActor {
 public:
  void visit(OutArchive& archive) const override {
    if (wrong() == Wrong::throws) throw std::runtime_error("fields as told");
    archive(Field{"count", Scope::control}, count_);
    if (wrong() == Wrong::writes_more) archive(Field{"more", Scope::control}, count_);
  }
  void visit(InArchive& archive) override {
    if (wrong() == Wrong::throws) throw std::runtime_error("fields as told");
    archive(Field{"count", Scope::control}, count_);
    if (wrong() == Wrong::changes) ++count_;
  }
  std::unique_ptr<CellActor> clone() const override {
    if (wrong() == Wrong::clone_throws) throw std::runtime_error("clone as told");
    return wrong() == Wrong::no_clone ? nullptr : std::make_unique<Odd>(*this);
  }
  void on_message(const message::User& mail, CellContext&) override {
    ++count_;
    if (mail.number == kThrow) throw std::runtime_error("handler as told");
  }

 private:
  std::uint64_t count_ = 3;
};

NetworkSpec network(const char* type, Policy policy = Policy::restart) {
  static const Status done = register_cell<Odd>("odd");
  must(done);
  NetworkSpec spec = NetworkBuilder("odd", {1, 1, 2, 1})
                         .input("in", 2)
                         .dense({0, 0, 0, 0}, 2)
                         .layer({0, 0, 1, 0}, type)
                         .from({Coord{0, 0, 0, 0}})
                         .output("y", {0, 0, 1, 0})
                         .spec();
  spec.supervision = {policy, 5, 100, Policy::halt};
  return spec;
}

class WrongClass : public testing::Test {
 protected:
  ~WrongClass() override { wrong() = Wrong::nothing; }
};

TEST_F(WrongClass, IsRefusedWhenAMeshIsBuilt) {
  const auto expect_refused = [](Wrong how, Errc code, std::initializer_list<std::string_view> words) {
    wrong() = how;
    expect_error(Mesh::build(network("odd"), {.threads = 1}), code, words);
  };
  expect_refused(Wrong::throws, Errc::internal, {"[0,0,1,0]", "odd", "fields", "threw", "fields as told"});
  expect_refused(Wrong::writes_more, Errc::invalid_argument, {"[0,0,1,0]", "odd", "fields do not read", "fewer"});
  expect_refused(Wrong::changes, Errc::invalid_argument, {"[0,0,1,0]", "write something else"});
  expect_refused(Wrong::no_clone, Errc::invalid_argument, {"[0,0,1,0]", "clone", "none"});
  expect_refused(Wrong::clone_throws, Errc::internal, {"[0,0,1,0]", "clone", "threw", "clone as told"});
  wrong() = Wrong::nothing;
  must(Mesh::build(network("odd"), {.threads = 1}));
}

TEST_F(WrongClass, HaltsTheMeshWhereItsRestartFails) {
  for (const Wrong how : {Wrong::throws, Wrong::no_clone, Wrong::clone_throws}) {
    wrong() = Wrong::nothing;
    Mesh mesh = must(Mesh::build(network("odd"), {.threads = 1}));
    must(mesh.tick());
    MeshAccess::take_cell_snapshots(mesh);
    const auto mail = make_mail(kThrow);
    must(mesh.tell({0, 0, 1, 0}, mail));
    wrong() = how;
    expect_error(mesh.tick(), Errc::halted, {"cell [0,0,1,0]", how == Wrong::throws ? "fields" : "clone"});
    wrong() = Wrong::nothing;
    EXPECT_TRUE(mail->is_done());
    mesh.resume();
    must(mesh.tick());
  }
}

TEST_F(WrongClass, StaysAsItWasWhereItsStateDoesNotComeBack) {
  Mesh mesh = must(Mesh::build(network("odd"), {.threads = 1}));
  must(mesh.tick());
  Snapshot before;
  mesh.take_snapshot(before);
  must(mesh.tell({0, 0, 1, 0}, make_mail(kNote)));
  must(mesh.tick());
  const auto now = mesh.state_hash();
  wrong() = Wrong::throws;
  expect_error(mesh.restore_snapshot(before), Errc::internal, {"[0,0,1,0]", "fields as told"});
  wrong() = Wrong::nothing;
  EXPECT_EQ(mesh.state_hash(), now);
  must(mesh.restore_snapshot(before));
  EXPECT_NE(mesh.state_hash(), now);
}

TEST_F(WrongClass, FactoriesAndNamesAreChecked) {
  expect_error(register_cell("nobody", CellActorFactory()), Errc::invalid_argument, {"nobody", "factory is empty"});
  for (const char* name : {"", "two words", "line\n", "\"", "shared"})
    expect_error(register_cell<Odd>(name), Errc::invalid_argument, {"layer type", "letters"});
  must(register_cell("hurler", [](const Shape&, OptionReader&) -> Result<std::unique_ptr<CellActor>> {
    throw std::runtime_error("factory as told");
  }));
  expect_error(Mesh::build(network("hurler"), {.threads = 1}), Errc::internal, {"hurler", "factory as told"});
}

template <int kind>
class Pair final : public CellActorOf<Pair<kind>> {
 public:
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(Field{kind == 1 ? "second" : "first", Scope::control}, self.first);
    archive(Field{kind == 1 ? "first" : "second", Scope::control}, self.second);
    if constexpr (kind == 2) archive(Field{"third", Scope::control}, self.third);
    if constexpr (kind == 3) archive.list(Field{"rest", Scope::control}, self.rest);
  }
  std::uint64_t first = 6, second = 51, third = 7;
  std::vector<std::uint64_t> rest{1, 2};
};

TEST(ActorFields, OfAnotherClassAreRefused) {
  std::vector<std::uint64_t> words;
  save_fields(Pair<0>(), words);
  Pair<0> same;
  same.first = 0;
  must(restore_fields(same, words));
  EXPECT_EQ(same.first, 6u);
  Pair<1> swapped;
  expect_error(restore_fields(swapped, words), Errc::corrupt, {"other names", "register the class"});
  Pair<2> longer;
  expect_error(restore_fields(longer, words), Errc::corrupt, {"reads more", "register the class"});
  Pair<3> listed;
  expect_error(restore_fields(listed, words), Errc::corrupt, {"register the class"});
  expect_error(restore_fields(same, {}), Errc::corrupt, {"missing"});
  words.clear();
  save_fields(Pair<2>(), words);
  expect_error(restore_fields(same, words), Errc::corrupt, {"reads fewer"});
  words.clear();
  listed.rest.assign(5, 9);
  save_fields(listed, words);
  Pair<3> other;
  must(restore_fields(other, words));
  EXPECT_EQ(other.rest, listed.rest);
  words[2] = std::uint64_t{1} << 40;
  expect_error(restore_fields(other, words), Errc::corrupt, {"'rest'"});
}

}  // namespace
}  // namespace weft::mesh::cell_actor_fields_test
