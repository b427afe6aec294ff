// SPDX-License-Identifier: Apache-2.0

#include "weft.hpp"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

using namespace weft;

// It watches two layers. When the first is loud it is shut for ten ticks; the second is trained to be quiet.
class Gatekeeper final : public CellActorOf<Gatekeeper> {
 public:
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {  // saved, hashed and restored
    archive(Field{"rests_until", Scope::control}, self.rests_until_);
    archive(Field{"shut", Scope::control}, self.shut_);
  }
  void on_activation(const message::Activation& seen, CellContext& self) override {
    float loudness = 0;
    for (const float v : seen.values) loudness += v * v;
    if (seen.source == 1) {
      (void)self.tell(seen.from, mesh::make_target(std::vector<float>(seen.values.size(), 0.0f), 0.01f));
    } else if (loudness > 2.0f && self.tick() >= rests_until_) {
      (void)self.tell(seen.from, mesh::make_command(mesh::CommandKind::disable));
      (void)self.tell(seen.from, mesh::make_command(mesh::CommandKind::enable, self.tick() + 13));
      rests_until_ = self.tick() + 20;
      (void)self.publish(std::vector<float>{static_cast<float>(++shut_)});  // its own output
    }
  }

 private:
  std::uint64_t rests_until_ = 0, shut_ = 0;
};

// gatekeeper FOLDER [TICK]: runs to tick 300 in FOLDER, or is killed at TICK; run again it goes on.
int main(int count, char** words) {
  if (!mesh::register_cell<Gatekeeper>("gatekeeper")) return 1;
  NetworkBuilder network("gate", {.x = 3});
  network.input("in", 8);
  network.dense({0, 0, 0, 0}, 8, Activation::tanh).from({"in"});
  network.dense({0, 0, 1, 0}, 8, Activation::tanh).from({{0, 0, 0, 0}});
  network.layer({0, 0, 2, 0}, "gatekeeper").from({{0, 0, 0, 0}, {0, 0, 1, 0}});
  network.option("trains", std::vector<double>{0, 0, 1, 0}).output("shut", {0, 0, 2, 0});
  Agent::Options options;
  options.learns = false;  // no learner: the gatekeeper's targets are all that moves weights
  auto agent = Agent::open(count > 1 ? words[1] : "gate.agent", network.spec(), std::move(options)).value();
  const std::uint64_t dies_at = count > 2 ? std::strtoull(words[2], nullptr, 10) : 0;
  while (agent->mesh().ticks() < 300) {
    const std::uint64_t tick = agent->mesh().ticks();
    const std::vector<float> in(8, tick % 50 < 25 ? 0.1f : 2.0f);
    if (!agent->set_input("in", in) || !agent->tick()) return 1;
    if (tick == dies_at && dies_at > 0) std::raise(SIGKILL);
  }
  const float shut = agent->mesh().output("shut").value()[0];
  std::printf("shut %d times, state %s\n", static_cast<int>(shut), to_string(agent->mesh().state_hash()).c_str());
}
