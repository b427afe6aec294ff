// SPDX-License-Identifier: Apache-2.0
// Programs of calls of the C ABI, for tests/fuzz/c_calls_fuzz.cpp: numbers of bytes, handles of every kind, and what
// each answer must be.
#pragma once

#include "capi/weft.h"

#include "core/assert.hpp"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace weft::fuzz {

inline constexpr std::array kNetworkTexts{
    R"({"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 3, "activation": "tanh"},
       {"type": "dense", "out": 2}], "learning": {"rule": "fw_dtp", "late": "meet", "patience": 4}})",
    R"({"weft": 2, "grid": {"x": 2}, "inputs": {"x": [4]}, "layers": [
       {"type": "dense", "at": [0,0,0,0], "out": 4, "from": ["x", [0,0,1,0]], "activation": "relu"},
       {"type": "dense", "at": [0,0,1,0], "out": 2}], "outputs": {"y": [0,0,1,0]}})",
    R"({"weft": 2, "inputs": {"x": [3, 2]}, "chain": [{"type": "lstm", "hidden": 2, "stateful": true}],
       "learning": {"schedule": "pipelined"}})",
    R"({"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 2, "dtype": "int8"}]})",
    R"({"weft": 2, "grid": {"x": 2}, "inputs": {"observation": [4]}, "layers": [
       {"type": "dense", "at": [0,0,0,0], "out": 2, "from": ["observation"]},
       {"type": "dense", "at": [0,0,1,0], "out": 1, "from": ["observation"]}],
       "outputs": {"policy": [0,0,0,0], "value": [0,0,1,0]},
       "learning": {"late": "meet", "patience": 1, "traces": true, "optimizer": {"type": "sgd", "lr": 1}},
       "reinforcement": {"environment": {"type": "cartpole"}, "lambda": 0.9, "seed": 0, "steps": 50000}})",
    R"({"weft": 2, "inputs": {"x": [0]}})",
    "{",
    ""};
inline constexpr std::array kLayers{R"({"type": "dense", "at": [0,0,0,0], "out": 2, "from": ["x"]})",
                                    R"({"type": "dense", "at": [0,0,9,0], "out": 2})", R"({"type": "none"})", "[",
                                    static_cast<const char*>(nullptr)};
inline constexpr std::array kPortNames{"x", "y", "", "none", static_cast<const char*>(nullptr)};
inline constexpr std::array kSections{R"({"rule": "backprop", "anomaly": {"score": "deviation", "warmup": 1}})",
                                      R"({"rule": "dfa", "schedule": "pipelined"})",
                                      R"({"late": "again", "patience": 2})",
                                      R"({"rule": 1})",
                                      "{",
                                      static_cast<const char*>(nullptr)};
inline constexpr std::array kDtypes{"int8",    "float32", "bfloat16",
                                    "ternary", "none",    static_cast<const char*>(nullptr)};
inline constexpr std::array kGranularities{"tensor",      "channel", "block32",
                                           "block32_f16", "none",    static_cast<const char*>(nullptr)};
inline constexpr std::array kDurabilities{"checkpoint", "interval=1s", "never", static_cast<const char*>(nullptr)};
inline constexpr std::array kKeys{"seed", "name", "learning", "none", static_cast<const char*>(nullptr)};

/// Numbers of the program's bytes; 0 once they are used up.
class Program {
 public:
  Program(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  bool is_over() const noexcept { return at_ == end_; }
  std::uint8_t byte() noexcept { return at_ == end_ ? std::uint8_t{0} : *at_++; }
  template <class Array>
  auto pick(const Array& of) noexcept {
    return of[byte() % of.size()];
  }
  /// A small number, mostly; a huge one sometimes.
  std::uint64_t number(unsigned below) noexcept {
    const unsigned drawn = byte();
    return drawn == 255 ? UINT64_MAX : drawn == 254 ? std::uint64_t{1} << 40 : drawn % below;
  }
  /// Few rows, mostly. Sometimes as many as make rows x width more than 64 bits, where arrays given with them refuse
  /// that.
  std::uint64_t rows(bool has_arrays) noexcept {
    const unsigned drawn = byte();
    return drawn < 248 || !has_arrays ? drawn % 8 : (std::uint64_t{1} << (58 + drawn % 6)) + drawn % 2;
  }
  float value() noexcept {
    static constexpr std::array<float, 8> kValues{0, 1, -1, 0.5f, 1e30f, -1e-40f, __builtin_nanf(""), __builtin_inff()};
    const unsigned drawn = byte();
    return drawn < 240 ? static_cast<float>(drawn) / 64 - 2 : kValues[drawn % kValues.size()];
  }

 private:
  const std::uint8_t *at_, *end_;
};

/// Every handle that there was, of whatever kind: calls take any of them for any kind.
class Handles {
 public:
  template <class Handle>
  Handle* pick(std::vector<void*>& of, Program& from) {
    const unsigned drawn = from.byte();
    if (drawn >= 250) return nullptr;
    if (drawn >= 235 && !all_.empty()) return static_cast<Handle*>(all_[drawn % all_.size()]);
    return of.empty() ? nullptr : static_cast<Handle*>(of[drawn % of.size()]);
  }
  void add(std::vector<void*>& to, void* handle) {
    to.push_back(handle);
    all_.push_back(handle);
  }
  std::vector<void*> networks, meshes, learners, snapshots, answers, agents, environments, models;

 private:
  std::vector<void*> all_;
};

inline void check(weft_status status) {
  if (status == WEFT_OK) return;
  const weft_error* const error = weft_last_error();
  WEFT_ASSERT(error->code == status && error->message[0] != '\0', "a failure without its text");
  WEFT_ASSERT(std::strcmp(weft_status_name(status), "unknown") != 0, "a status that is not documented");
  WEFT_ASSERT(status != WEFT_INTERNAL, std::string("an internal error: ") + error->message);
}

/// A call that ends with a buffer, its capacity and the size that was needed.
template <class T, class Ask>
void ask(Program& program, Ask&& call) {
  std::size_t needed = 12345;
  const std::size_t capacity = program.byte() % 64;
  // Of the exact size, so that a sanitizer sees what is written past the end.
  const std::unique_ptr<T[]> buffer(capacity > 0 ? new T[capacity] : nullptr);
  const weft_status status = call(buffer.get(), capacity, program.byte() % 8 == 0 ? nullptr : &needed);
  check(status);
  if (status == WEFT_TOO_SMALL && needed != 12345) WEFT_ASSERT(needed > capacity, "too small for what would fit");
}

struct Values {
  explicit Values(Program& from, std::size_t most = 24) : floats(from.byte() % most) {
    for (float& value : floats) value = from.value();
  }
  std::vector<float> floats;
};

/// Data directories and files of one program of calls, gone before the next.
class Place {
 public:
  // In memory where that is: each agent syncs its journal.
  Place()
      : root_((access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path()) /
              ("weft_c_calls_" + std::to_string(getpid()))) {
    remove();
  }
  ~Place() { remove(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::string at(const char* name) {
    std::filesystem::create_directories(root_);
    return (root_ / name).string();
  }

 private:
  void remove() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  std::filesystem::path root_;
};

/// Handles of one program, and what it may ask of any of them.
class Calls {
 public:
  explicit Calls(Program& program) : program_(program) {}
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

 protected:
  ~Calls() {
    if (program_.byte() % 2 == 0)  // before what was made of them, or after it
      for (void* handle : handles_.agents) (void)weft_agent_close(static_cast<weft_agent*>(handle));
    for (void* handle : handles_.learners) (void)weft_learner_destroy(static_cast<weft_learner*>(handle));
    for (void* handle : handles_.meshes) (void)weft_mesh_destroy(static_cast<weft_mesh*>(handle));
    for (void* handle : handles_.networks) (void)weft_network_destroy(static_cast<weft_network*>(handle));
    for (void* handle : handles_.snapshots) (void)weft_snapshot_destroy(static_cast<weft_snapshot*>(handle));
    for (void* handle : handles_.answers) (void)weft_answer_destroy(static_cast<weft_answer*>(handle));
    for (void* handle : handles_.agents) (void)weft_agent_close(static_cast<weft_agent*>(handle));
    for (void* handle : handles_.environments) (void)weft_environment_destroy(static_cast<weft_environment*>(handle));
    for (void* handle : handles_.models) (void)weft_model_destroy(static_cast<weft_model*>(handle));
  }
  weft_network* network() { return handles_.pick<weft_network>(handles_.networks, program_); }
  weft_mesh* mesh() { return handles_.pick<weft_mesh>(handles_.meshes, program_); }
  weft_learner* learner() { return handles_.pick<weft_learner>(handles_.learners, program_); }
  weft_snapshot* snapshot() { return handles_.pick<weft_snapshot>(handles_.snapshots, program_); }
  weft_answer* answer() { return handles_.pick<weft_answer>(handles_.answers, program_); }
  weft_agent* agent() { return handles_.pick<weft_agent>(handles_.agents, program_); }
  weft_environment* environment() { return handles_.pick<weft_environment>(handles_.environments, program_); }
  weft_model* model() { return handles_.pick<weft_model>(handles_.models, program_); }
  weft_coord place() { return {0, 0, program_.byte() % 4u, program_.byte() % 8u == 0 ? 1u : 0u}; }
  std::size_t session() { return static_cast<std::size_t>(program_.number(3)); }
  /// `made` by reference: a compiler may read arguments before the call that sets it.
  template <class Handle>
  void keep(std::vector<void*>& in, weft_status status, Handle* const& made) {
    check(status);
    if (status == WEFT_OK) handles_.add(in, made);
  }

  Program& program_;
  Place place_;
  Handles handles_;
};

}  // namespace weft::fuzz
