// SPDX-License-Identifier: Apache-2.0

#include "game.hpp"

#include "mesh/persistence/session_file.hpp"

#include "core/philox.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

using weft::Errc;
using weft::fail;
using weft::RandomStream;
using weft::Status;

/// Two players push a world that remembers: feedback, gates and integer weights, none of which may stray.
weft::mesh::NetworkSpec world() {
  using weft::Coord;
  using weft::kernels::Activation;
  return weft::mesh::NetworkBuilder("world", {1, 2, 2, 2})
      .input("left", 4)
      .input("right", 4)
      .dense({0, 0, 0, 0}, 32, Activation::tanh)
      .from({"left", "right", Coord{0, 1, 1, 0}})
      .layer({0, 0, 0, 1}, "gru", 24)
      .dense({0, 0, 1, 0}, 32, Activation::silu)
      .dtype(weft::Dtype::int8)
      .layer({0, 1, 0, 0}, "leaky_integrator")
      .from({Coord{0, 0, 1, 0}})
      .dense({0, 1, 1, 0}, 16, Activation::tanh)
      .from({Coord{0, 1, 0, 0}, Coord{0, 0, 0, 1}})
      .output("scene", {0, 1, 1, 0})
      .seed(2024)
      .spec();
}

/// Inputs of a player: now and then a change.
std::vector<Input> script(Side side, const Settings& settings) {
  std::vector<Input> all(settings.frames);
  RandomStream random(settings.seed, 1 + static_cast<std::uint64_t>(side), weft::RandomPurpose::test);
  Input now{};
  for (Input& input : all) {
    if (random.next_below(9) == 0)
      for (float& axis : now) axis = static_cast<float>(random.next_below(3)) - 1.0f;
    input = now;
  }
  return all;
}

std::array<std::uint64_t, 4> words_of(const weft::Hash128& a, const weft::Hash128& b = {}) {
  return {a.high, a.low, b.high, b.low};
}

}  // namespace

weft::Result<Game> Game::make(Side side, const Settings& settings) {
  if (settings.latency + settings.jitter > kDeepest)
    return fail(Errc::invalid_argument, "latency " + std::to_string(settings.latency) + " and jitter " +
                                            std::to_string(settings.jitter) + " are more than " +
                                            std::to_string(kDeepest) + " frames together");
  weft::mesh::MeshOptions options;
  // Not alike on purpose: the bits are.
  options.threads = side == Side::left ? 1 : 2;
  options.grain_bytes = side == Side::left ? options.grain_bytes : 0;
  WEFT_TRY(auto mesh, weft::mesh::Mesh::build(world(), options));
  return Game(side, settings, std::move(mesh));
}

Game::Game(Side side, const Settings& settings, weft::mesh::Mesh mesh)
    : side_(side),
      settings_(settings),
      mesh_(std::move(mesh)),
      own_(script(side, settings)),
      used_(settings.frames),
      theirs_(settings.frames),
      heard_(settings.frames, false),
      hashes_(settings.frames / settings.every),
      their_hashes_(hashes_.size()) {}

/// Frames that the other side's input of a frame takes to arrive: drawn, so that a run can be repeated.
std::uint32_t Game::delay(std::uint32_t frame) const {
  RandomStream random(settings_.seed, 16 + 2 * std::uint64_t{frame} + static_cast<std::uint64_t>(side_),
                      weft::RandomPurpose::test);
  return settings_.latency + random.next_below(settings_.jitter + 1);
}

/// The other side's last known input before a frame: it is taken to stay.
const Input& Game::predicted(std::uint32_t frame) const {
  static const Input kNone{};
  for (std::uint32_t f = frame + 1; f-- > 0;)
    if (heard_[f]) return theirs_[f];
  return kNone;
}

Status Game::greet(Link& link) {
  Message hello{
      Message::Kind::hello, settings_.frames, {}, words_of(mesh_.network_digest(), weft::mesh::weights_digest(mesh_))};
  hello.input = {static_cast<float>(settings_.every)};
  WEFT_CHECK(link.send(hello));
  WEFT_TRY(const Message theirs, link.receive());
  if (theirs.kind != Message::Kind::hello || theirs.words != hello.words || theirs.frame != hello.frame ||
      theirs.input != hello.input)
    return fail(Errc::shape_mismatch, "the other side plays another world, other weights, or " +
                                          std::to_string(theirs.frame) + " frames where this one plays " +
                                          std::to_string(hello.frame));
  return {};
}

/// Takes in what the other side has sent up to `frame`; what is late enough to be seen now is known from now on.
Status Game::hear(Link& link, std::uint32_t frame) {
  const bool is_over = frame >= settings_.frames;
  const std::uint32_t until = is_over ? settings_.frames : frame + 1 - std::min(frame + 1, settings_.latency);
  while (arrived_ < until) {
    WEFT_TRY(const Message message, link.receive());
    if (message.kind == Message::Kind::input && message.frame == arrived_) {
      theirs_[arrived_++] = message.input;
    } else if (message.kind == Message::Kind::hash && message.frame < their_hashes_.size()) {
      their_hashes_[message.frame] = {message.words[0], message.words[1]};
      compared_ = std::max(compared_, message.frame + 1);
    } else {
      return fail(Errc::corrupt, "the other side sent frame " + std::to_string(message.frame) + " where " +
                                     std::to_string(arrived_) + " was expected");
    }
  }
  for (std::uint32_t f = known_; f < arrived_; ++f) heard_[f] = heard_[f] || is_over || f + delay(f) <= frame;
  return {};
}

/// One frame from the state that the mesh is in.
Status Game::simulate(std::uint32_t frame) {
  mesh_.take_snapshot(ring_[frame % ring_.size()]);
  used_[frame] = predicted(frame);
  Input own = own_[frame];
  if (frame == settings_.stray_at) own[0] += 0.001f;
  WEFT_CHECK(mesh_.set_input(name(side_), own));
  WEFT_CHECK(mesh_.set_input(name(side_ == Side::left ? Side::right : Side::left), used_[frame]));
  WEFT_CHECK(mesh_.tick());
  if ((frame + 1) % settings_.every == 0) hashes_[frame / settings_.every] = mesh_.state_hash();
  return {};
}

/// Goes back to the first frame that took a wrong input, and plays again up to `now`.
Status Game::correct(std::uint32_t now) {
  std::uint32_t first = known_;
  while (first < now && used_[first] == predicted(first)) ++first;
  while (known_ < settings_.frames && heard_[known_]) ++known_;
  if (first == now) return {};
  WEFT_CHECK(mesh_.restore_snapshot(ring_[first % ring_.size()]));
  for (std::uint32_t frame = first; frame < now; ++frame) WEFT_CHECK(simulate(frame));
  ++report_.rollbacks;
  report_.deepest = std::max(report_.deepest, now - first);
  report_.played_again += now - first;
  return {};
}

/// Hashes of frames that nothing can change any more.
Status Game::tell_hashes(Link& link) {
  for (; (told_ + 1) * settings_.every <= known_ && told_ < hashes_.size(); ++told_)
    WEFT_CHECK(link.send({Message::Kind::hash, told_, {}, words_of(hashes_[told_])}));
  return compare();
}

Status Game::compare() {
  for (std::uint32_t& i = agreed_; i < std::min(told_, compared_); ++i)
    if (hashes_[i] != their_hashes_[i])
      return fail(Errc::corrupt, "the sides have parted at frame " + std::to_string((i + 1) * settings_.every - 1) +
                                     ": " + to_string(hashes_[i]) + " here, " + to_string(their_hashes_[i]) + " there");
  return {};
}

weft::Result<Report> Game::play(Link& link) {
  WEFT_CHECK(greet(link));
  for (std::uint32_t frame = 0; frame < settings_.frames; ++frame) {
    if (frame == settings_.quit_at) _exit(9);
    WEFT_CHECK(link.send({Message::Kind::input, frame, own_[frame], {}}));
    WEFT_CHECK(hear(link, frame));
    WEFT_CHECK(correct(frame));
    WEFT_CHECK(simulate(frame));
    WEFT_CHECK(tell_hashes(link));
    ++report_.frames;
  }
  WEFT_CHECK(hear(link, settings_.frames));
  WEFT_CHECK(correct(settings_.frames));
  WEFT_CHECK(tell_hashes(link));
  report_.hash = mesh_.state_hash();
  // The whole at last: a message of its own, since the last frames may lie past the last common hash.
  WEFT_CHECK(link.send({Message::Kind::hash, UINT32_MAX, {}, words_of(report_.hash)}));
  for (;;) {
    WEFT_TRY(const Message message, link.receive());
    if (message.kind != Message::Kind::hash) return fail(Errc::corrupt, "the other side went on after the last frame");
    if (message.frame == UINT32_MAX) {
      if (const weft::Hash128 theirs{message.words[0], message.words[1]}; theirs != report_.hash)
        return fail(Errc::corrupt,
                    "the sides have parted: " + to_string(report_.hash) + " here, " + to_string(theirs) + " there");
      return report_;
    }
    if (message.frame >= their_hashes_.size()) return fail(Errc::corrupt, "a hash of no frame");
    their_hashes_[message.frame] = {message.words[0], message.words[1]};
    compared_ = std::max(compared_, message.frame + 1);
    WEFT_CHECK(compare());
  }
}

}  // namespace lockstep
