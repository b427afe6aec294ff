// SPDX-License-Identifier: Apache-2.0
// The bytes are a program of calls of the C ABI: each chooses a function, objects (live, destroyed, of another kind,
// NULL), and arguments, right ones and wrong ones. Whatever it is, every call answers with a status that is documented.

#include "capi/weft.h"

#include "core/assert.hpp"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::array kNetworkTexts{
    R"({"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 3, "activation": "tanh"},
       {"type": "dense", "out": 2}], "learning": {"rule": "fw_dtp", "late": "meet", "patience": 4}})",
    R"({"weft": 2, "grid": {"x": 2}, "inputs": {"x": [4]}, "layers": [
       {"type": "dense", "at": [0,0,0,0], "out": 4, "from": ["x", [0,0,1,0]], "activation": "relu"},
       {"type": "dense", "at": [0,0,1,0], "out": 2}], "outputs": {"y": [0,0,1,0]}})",
    R"({"weft": 2, "inputs": {"x": [3, 2]}, "chain": [{"type": "lstm", "hidden": 2, "stateful": true}],
       "learning": {"schedule": "pipelined"}})",
    R"({"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 2, "dtype": "int8"}]})",
    R"({"weft": 2, "inputs": {"x": [0]}})",
    "{",
    ""};
constexpr std::array kLayers{R"({"type": "dense", "at": [0,0,0,0], "out": 2, "from": ["x"]})",
                             R"({"type": "dense", "at": [0,0,9,0], "out": 2})", R"({"type": "none"})", "[",
                             static_cast<const char*>(nullptr)};
constexpr std::array kPortNames{"x", "y", "", "none", static_cast<const char*>(nullptr)};
constexpr std::array kSections{R"({"rule": "backprop"})",
                               R"({"rule": "dfa", "schedule": "pipelined"})",
                               R"({"late": "again", "patience": 2})",
                               R"({"rule": 1})",
                               "{",
                               static_cast<const char*>(nullptr)};
constexpr std::array kDtypes{"int8", "float32", "bfloat16", "ternary", "none", static_cast<const char*>(nullptr)};
constexpr std::array kDurabilities{"checkpoint", "interval=1s", "never", static_cast<const char*>(nullptr)};
constexpr std::array kKeys{"seed", "name", "learning", "none", static_cast<const char*>(nullptr)};

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

void check(weft_status status) {
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

class Session {
 public:
  explicit Session(Program& program) : program_(program) {}
  ~Session() {
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
  void step();

 private:
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
  void read_network();
  void build_mesh();
  void command();
  void run(bool is_forward);
  void learn(bool is_late);
  void sessions();
  void bytes();
  void open_agent();
  void agent_call();
  void files();
  void reads();
  void act();
  void load_model();
  void model_call();
  void two_threads();
  void log();

  Program& program_;
  Place place_;
  Handles handles_;
  std::vector<std::uint64_t> tickets_{0};
};

void Session::read_network() {
  weft_network* made = nullptr;
  if (program_.byte() % 4 == 0) {
    const weft_status status = weft_network_create(program_.pick(kPortNames), 1, 1, 1 + program_.byte() % 3u, 1, &made);
    keep(handles_.networks, status, made);
    if (status != WEFT_OK) return;
    const std::array<std::size_t, 2> sizes{static_cast<std::size_t>(program_.number(5)), 2};
    check(weft_network_add_input(made, program_.pick(kPortNames), sizes.data(), program_.byte() % 3));
    check(weft_network_add_layer(made, program_.pick(kLayers)));
    check(weft_network_add_output(made, program_.pick(kPortNames), place()));
    check(weft_network_set(made, program_.pick(kKeys), program_.pick(kSections)));
    return;
  }
  const char* const text = program_.pick(kNetworkTexts);
  keep(handles_.networks, weft_network_read(text, std::strlen(text), program_.pick(kPortNames), &made), made);
}

void Session::build_mesh() {
  weft_mesh_options options{};
  options.size = sizeof options;
  options.threads = program_.byte() % 8 == 0 ? 2 : 1;
  options.sessions = program_.byte() % 4;
  options.max_memory = 64 << 20;
  options.executor = program_.byte() % 4 == 0 ? "deterministic" : nullptr;
  weft_mesh* made = nullptr;
  keep(handles_.meshes, weft_mesh_build(network(), &options, &made), made);
}

void Session::command() {
  const Values values(program_);
  weft_command made{};
  made.size = sizeof made;
  made.kind = program_.byte() % 10 - 1;
  made.at = place();
  made.parameter = static_cast<std::size_t>(program_.number(3));
  made.number = program_.number(4);
  made.not_before = program_.number(9);
  made.dtype = program_.pick(kDtypes);
  made.values = values.floats.data();
  made.count = values.floats.size();
  weft_answer* sent = nullptr;
  const bool is_awaited = program_.byte() % 4 != 0;
  const weft_status status = weft_mesh_command(mesh(), &made, is_awaited ? &sent : nullptr);
  check(status);
  if (status == WEFT_OK && is_awaited) handles_.add(handles_.answers, sent);
}

void Session::run(bool is_forward) {
  const Values values(program_);
  std::vector<float> buffer(program_.byte() % 16);
  const weft_input input{program_.pick(kPortNames), values.floats.data(), values.floats.size()};
  const weft_output output{program_.pick(kPortNames), buffer.data(), buffer.size()};
  const std::size_t inputs = program_.byte() % 2, outputs = program_.byte() % 2;
  const std::uint64_t count = program_.byte() % 8;
  if (is_forward)
    check(weft_mesh_forward(mesh(), &input, inputs, count, &output, outputs));
  else
    check(weft_mesh_run(mesh(), &input, inputs, count, &output, outputs));
}

void Session::learn(bool is_late) {
  const Values values(program_), wanted(program_);
  const std::vector<std::uint32_t> labels(program_.byte() % 4, program_.byte() % 4 == 3 ? WEFT_NO_LABEL : 1);
  const weft_input input{program_.pick(kPortNames), values.floats.data(), values.floats.size()};
  weft_target target{};
  target.size = sizeof target;
  target.output = program_.pick(kPortNames);
  if (program_.byte() % 2 == 0) {
    target.labels = labels.data();
    target.label_count = labels.size();
  } else if (program_.byte() % 2 == 0) {
    target.values = wanted.floats.data();
    target.value_count = wanted.floats.size();
  } else {
    target.gradient = wanted.floats.data();
    target.gradient_count = wanted.floats.size();
    target.weights = values.floats.data();
    target.weight_count = program_.byte() % 2 == 0 ? 0 : values.floats.size();
  }
  weft_learner* const of = learner();
  if (!is_late) return check(weft_learner_learn(of, &input, 1, &target, program_.byte() % 2, program_.byte() % 4));
  std::uint64_t ticket = 0;
  const std::uint64_t old = tickets_[program_.byte() % tickets_.size()];
  switch (program_.byte() % 4) {
    case 0: {
      const weft_status status = weft_learner_observe(of, &input, 1, &ticket);
      check(status);
      if (status == WEFT_OK) tickets_.push_back(ticket);
      return;
    }
    case 1:
      return check(weft_learner_teach(of, old, &target, 1));
    case 2:
      return check(weft_learner_forgo(of, old));
    default:
      return ask<float>(program_, [&](float* to, std::size_t capacity, std::size_t* needed) {
        return weft_learner_answer(of, old, program_.pick(kPortNames), to, capacity, needed);
      });
  }
}

void Session::sessions() {
  weft_mesh* const of = mesh();
  std::size_t made = 0;
  switch (program_.byte() % 4) {
    case 0: {
      std::size_t now = 0;
      if (weft_mesh_sessions(of, &now) == WEFT_OK && now < 6) check(weft_mesh_add_session(of, &made));
      return;
    }
    case 1:
      return check(weft_mesh_remove_session(of, session()));
    case 2:
      return check(weft_mesh_reset_session(of, session()));
    default: {
      std::size_t needed = 0;
      const weft_status status = weft_mesh_detach_session(of, session(), nullptr, 0, &needed);
      check(status);
      if (status != WEFT_OK) return;
      std::vector<unsigned char> kept(needed);
      check(weft_mesh_detach_session(of, 0, kept.data(), kept.size(), &needed));
      if (!kept.empty()) kept[program_.byte() * 7u % kept.size()] ^= program_.byte();
      return check(weft_mesh_attach_session(mesh(), kept.data(), kept.size(), program_.byte() % 2, &made));
    }
  }
}

void Session::bytes() {
  std::size_t needed = 0;
  weft_mesh* const of = mesh();
  const weft_status status = weft_mesh_save_bytes(of, program_.byte() % 2, nullptr, 0, &needed);
  check(status);
  if (status != WEFT_OK) return;
  std::vector<unsigned char> file(needed);
  check(weft_mesh_save_bytes(of, 1, file.data(), file.size(), &needed));
  if (program_.byte() % 2 == 0) file[program_.byte() * 31u % file.size()] ^= program_.byte();
  weft_mesh_options options{};
  options.size = sizeof options;
  options.threads = 1;
  weft_mesh* made = nullptr;
  if (program_.byte() % 2 == 0) {
    weft_learner* goes_on = nullptr;
    const weft_status loaded = weft_learner_load_bytes(file.data(), file.size(), &options, &made, &goes_on);
    keep(handles_.learners, loaded, goes_on);
    if (loaded == WEFT_OK) handles_.add(handles_.meshes, made);
    return;
  }
  keep(handles_.meshes, weft_mesh_load_bytes(file.data(), file.size(), &options, &made), made);
}

/// Worlds: made, acted in, saved, and restored whole or damaged.
void Session::act() {
  static constexpr std::array kNames{"cartpole",   "acrobot",      "mountain_car", "pendulum",
                                     "catch_ball", "memory_chain", "none",         static_cast<const char*>(nullptr)};
  weft_environment* const of = environment();
  switch (program_.byte() % 8) {
    case 0: {
      weft_environment_options options{};
      options.size = sizeof options;
      options.length = static_cast<std::uint32_t>(program_.number(9));
      weft_environment* made = nullptr;
      return keep(handles_.environments,
                  weft_environment_create(program_.pick(kNames), program_.byte() % 4 == 0 ? nullptr : &options, &made),
                  made);
    }
    case 1:
      return check(weft_environment_reset(of, program_.number(3), program_.number(3)));
    case 2: {
      weft_environment_shape shape{};
      shape.size = program_.byte() % 2 == 0 ? sizeof shape : program_.byte() % sizeof shape;
      check(weft_environment_describe(of, &shape));
      return ask<char>(program_, weft_environments);
    }
    case 3: {
      std::array<unsigned char, 256> bytes{};
      std::size_t needed = 0;
      const weft_status status = weft_environment_save(of, bytes.data(), bytes.size(), &needed);
      check(status);
      if (status != WEFT_OK) return;
      if (program_.byte() % 2 == 0) bytes[program_.byte() % needed] ^= program_.byte();
      return check(weft_environment_restore(environment(), bytes.data(), program_.byte() % 8 == 0 ? 7 : needed));
    }
    case 4:
      ask<char>(program_, [&](char* to, std::size_t capacity, std::size_t* needed) {
        return weft_environment_hash(of, to, capacity, needed);
      });
      return ask<double>(program_, [&](double* to, std::size_t capacity, std::size_t* needed) {
        return weft_environment_state(of, to, capacity, needed);
      });
    case 5:
      return program_.byte() % 4 == 0 ? check(weft_environment_destroy(of)) : void();
    default: {
      const Values values(program_, 3);
      weft_environment_result result{};
      result.size = program_.byte() % 8 == 0 ? program_.byte() % sizeof result : sizeof result;
      check(weft_environment_step(of, static_cast<std::uint32_t>(program_.number(4)), values.floats.data(),
                                  values.floats.size(), &result));
      return ask<float>(program_, [&](float* to, std::size_t capacity, std::size_t* needed) {
        return weft_environment_observation(of, to, capacity, needed);
      });
    }
  }
}

/// Files that are no models, or begin like one.
void Session::load_model() {
  static constexpr std::array<std::string_view, 5> kContents{
      "", "{", "ENTITY", "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", R"({"model_type": "llama"})"};
  const std::string path = place_.at(program_.byte() % 2 == 0 ? "model.gguf" : "config.json");
  std::string content(kContents[program_.byte() % kContents.size()]);
  for (unsigned i = program_.byte() % 16; i > 0; --i) content += static_cast<char>(program_.byte());
  std::ofstream(path, std::ios::binary) << content;
  weft_model_options options{};
  options.size = sizeof options;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  options.tokenizer = program_.byte() % 4 == 0 ? path.c_str() : nullptr;
  weft_model* made = nullptr;
  const char* const place = program_.byte() % 16 == 0  ? nullptr
                            : program_.byte() % 2 == 0 ? path.c_str()
                                                       : folder.c_str();
  keep(handles_.models, weft_model_load(place, program_.byte() % 4 == 0 ? nullptr : &options, &made), made);
}

void Session::model_call() {
  weft_model* const of = model();
  static constexpr std::array<std::uint32_t, 3> kIds{0, 1, UINT32_MAX};
  switch (program_.byte() % 5) {
    case 0:
      return ask<std::uint32_t>(program_, [&](std::uint32_t* to, std::size_t capacity, std::size_t* needed) {
        return weft_model_tokenize(of, program_.pick(kPortNames), to, capacity, needed);
      });
    case 1:
      return ask<char>(program_, [&](char* to, std::size_t capacity, std::size_t* needed) {
        return weft_model_detokenize(of, kIds.data(), program_.byte() % 4, to, capacity, needed);
      });
    case 2: {
      weft_generate_options options{};
      options.size = sizeof options;
      options.tokens = 2;
      options.temperature = program_.value();
      return check(weft_model_generate(of, program_.pick(kPortNames), &options, nullptr, nullptr));
    }
    case 3:
      return ask<char>(program_, [&](char* to, std::size_t capacity, std::size_t* needed) {
        return weft_model_result(of, to, capacity, needed);
      });
    default:
      return check(weft_model_destroy(of));
  }
}

/// Two threads in what may be one object: each call ends, and with a status that is documented.
void Session::two_threads() {
  weft_mesh *const first = mesh(), *const second = mesh();
  weft_learner* const learns = learner();
  const std::uint64_t ticks = program_.byte() % 16;
  std::thread other([&] {
    std::uint64_t now = 0;
    check(weft_mesh_ticks(second, &now));
    check(weft_mesh_tick(second, ticks));
    check(weft_learner_drain(learns));
  });
  check(weft_mesh_tick(first, ticks));
  check(weft_mesh_reset_session(first, 0));
  other.join();
}

void Session::log() {
  static const weft_log_function kFunction = [](void*, int, const char* text) {
    WEFT_ASSERT(text != nullptr, "a log line without a text");
  };
  check(weft_set_log(program_.byte() % 2 == 0 ? kFunction : nullptr, nullptr, program_.byte() % 8 - 1));
  check(weft_set_log(nullptr, nullptr, WEFT_LOG_OFF));
}

void Session::open_agent() {
  if (handles_.agents.size() >= 4) return;
  weft_mesh_options mesh_options{};
  mesh_options.size = sizeof mesh_options;
  mesh_options.threads = 1;
  weft_agent_options options{};
  options.size = sizeof options;
  options.mesh = &mesh_options;
  options.durability = program_.pick(kDurabilities);
  options.identity = program_.byte() % 8 == 0 ? "another" : nullptr;
  options.checkpoint_every = program_.byte() % 2 == 0 ? 8 : 0;
  options.no_learning = program_.byte() % 4 == 0;
  options.salvage = program_.byte() % 2;
  const std::string directory = place_.at(program_.byte() % 4 == 0 ? "second" : "first");
  weft_agent* made = nullptr;
  weft_network* const of = program_.byte() % 4 == 0 ? nullptr : network();
  keep(handles_.agents, weft_agent_open(program_.byte() == 255 ? nullptr : directory.c_str(), of, &options, &made),
       made);
}

void Session::agent_call() {
  weft_agent* const of = agent();
  switch (program_.byte() % 8) {
    case 0:
    case 1: {
      weft_mesh* made = nullptr;
      return keep(handles_.meshes, weft_agent_mesh(of, &made), made);
    }
    case 2:
    case 3: {
      weft_learner* made = nullptr;
      return keep(handles_.learners, weft_agent_learner(of, &made), made);
    }
    case 4:
      check(weft_agent_act(of, program_.byte() % 4));
      return check(program_.byte() % 4 == 0 ? weft_agent_checkpoint(of) : weft_agent_mark(of));
    case 5:
      check(weft_agent_note(of, program_.pick(kPortNames), program_.pick(kKeys)));
      return check(weft_agent_acknowledge(of));
    case 6:
      return ask<char>(program_, [&](char* to, std::size_t capacity, std::size_t* needed) {
        return weft_agent_statistics(of, to, capacity, needed);
      });
    default:
      return check(weft_agent_close(of));
  }
}

void Session::files() {
  const std::string path = place_.at(program_.byte() % 8 == 0 ? "none/file" : "file");
  if (program_.byte() % 2 == 0) return check(weft_mesh_save(mesh(), path.c_str(), program_.byte() % 2));
  if (program_.byte() % 8 == 0) {
    weft_network* made = nullptr;
    return keep(handles_.networks, weft_network_load(path.c_str(), &made), made);
  }
  weft_mesh_options options{};
  options.size = sizeof options;
  options.threads = 1;
  weft_mesh* made = nullptr;
  if (program_.byte() % 2 == 0) {
    weft_learner* goes_on = nullptr;
    const weft_status loaded = weft_learner_load(path.c_str(), &options, &made, &goes_on);
    keep(handles_.learners, loaded, goes_on);
    if (loaded == WEFT_OK) handles_.add(handles_.meshes, made);
    return;
  }
  keep(handles_.meshes, weft_mesh_load(path.c_str(), &options, &made), made);
}

void Session::reads() {
  std::uint64_t ticks = 0;
  switch (program_.byte() % 4) {
    case 0:
      check(weft_mesh_ticks(mesh(), &ticks));
      return check(weft_mesh_tick_for(mesh(), program_.byte(), &ticks));
    case 1:
      return ask<std::uint64_t>(program_, [&](std::uint64_t* to, std::size_t capacity, std::size_t* needed) {
        return weft_learner_expired(learner(), to, capacity, needed);
      });
    case 2: {
      int flushed = 0;
      check(weft_take_flushed_results(program_.byte() % 8 == 0 ? nullptr : &flushed));
      return ask<char>(program_, weft_devices);
    }
    default: {
      const Values values(program_);
      std::vector<float> buffer(program_.byte() % 16);
      const weft_input input{program_.pick(kPortNames), values.floats.data(), values.floats.size()};
      const weft_output output{program_.pick(kPortNames), buffer.data(), buffer.size()};
      const std::size_t rows = program_.byte() % 4, with = program_.byte() % 2 == 0 ? WEFT_NO_SESSION : session();
      return check(weft_learner_predict(learner(), &input, 1, rows, &output, program_.byte() % 2, with));
    }
  }
}

void Session::step() {
  const Values values(program_, 6);
  const float* const data = values.floats.data();
  const std::size_t count = values.floats.size();
  switch (program_.byte() % 40) {
    case 0:
      return read_network();
    case 1:
      return handles_.meshes.size() < 4 ? build_mesh() : void();
    case 2: {
      weft_learner* made = nullptr;
      return keep(handles_.learners, weft_learner_build(mesh(), program_.pick(kSections), &made), made);
    }
    case 3:
      return check(weft_mesh_set_input(mesh(), program_.pick(kPortNames), session(), data, count));
    case 4:
      return check(weft_mesh_tick(mesh(), program_.byte() % 16));
    case 5:
      return ask<float>(program_, [&](float* to, std::size_t capacity, std::size_t* needed) {
        return weft_mesh_output(mesh(), program_.pick(kPortNames), session(), to, capacity, needed);
      });
    case 6:
      return ask<float>(program_, [&](float* to, std::size_t capacity, std::size_t* needed) {
        return weft_mesh_output_at(mesh(), place(), session(), to, capacity, needed);
      });
    case 7:
    case 8:
      return run(program_.byte() % 2 == 0);
    case 9:
    case 10:
      return learn(program_.byte() % 2 == 0);
    case 11:
      return command();
    case 12: {
      int is_done = 0;
      std::uint64_t tick = 0;
      weft_answer* const of = answer();
      check(weft_answer_status(of, &is_done, &tick));
      return ask<float>(program_, [&](float* to, std::size_t capacity, std::size_t* needed) {
        return weft_answer_values(of, to, capacity, needed);
      });
    }
    case 13:
      return sessions();
    case 14: {
      weft_snapshot* made = nullptr;
      return keep(handles_.snapshots, weft_snapshot_create(&made), made);
    }
    case 15:
      return check(weft_mesh_take_snapshot(mesh(), snapshot()));
    case 16:
      return check(weft_mesh_restore_snapshot(mesh(), snapshot()));
    case 17:
      return ask<float>(program_, [&](float* to, std::size_t capacity, std::size_t* needed) {
        return weft_mesh_read_weights(mesh(), place(), static_cast<std::size_t>(program_.number(3)), to, capacity,
                                      needed);
      });
    case 18:
      return check(weft_mesh_write_weights(mesh(), place(), static_cast<std::size_t>(program_.number(3)), data, count));
    case 19:
      return check(weft_mesh_morph(mesh(), place(), program_.pick(kDtypes), nullptr));
    case 20:
      return ask<char>(program_, [&](char* to, std::size_t capacity, std::size_t* needed) {
        switch (program_.byte() % 4) {
          case 0:
            return weft_mesh_describe(mesh(), to, capacity, needed);
          case 1:
            return weft_mesh_statistics(mesh(), to, capacity, needed);
          case 2:
            return weft_network_text(network(), to, capacity, needed);
          default:
            return weft_mesh_state_hash(mesh(), session(), to, capacity, needed);
        }
      });
    case 21:
      return bytes();
    case 22:
      return check(weft_mesh_destroy(mesh()));
    case 23:
      return check(weft_learner_destroy(learner()));
    case 24:
      check(weft_snapshot_destroy(snapshot()));
      return check(weft_answer_destroy(answer()));
    case 25: {
      weft_learner* const of = learner();
      std::array<float, 4> said{};
      check(weft_learner_predict_one(of, data, count, said.data(), program_.byte() % said.size()));
      return check(program_.byte() % 2 == 0 ? weft_learner_learn_one(of, data, count, program_.byte() % 4u)
                                            : weft_learner_learn_one_values(of, data, count, said.data(), 2));
    }
    case 26: {
      weft_learner* const of = learner();
      weft_learner_counts counts{};
      counts.size = program_.byte() % 2 == 0 ? sizeof counts : program_.byte() % sizeof counts;
      check(weft_learner_count(of, &counts));
      check(weft_learner_drain(of));
      ask<weft_score>(program_, [&](weft_score* to, std::size_t capacity, std::size_t* needed) {
        return weft_learner_scores(of, to, capacity, needed);
      });
      return check(weft_learner_clear_scores(of));
    }
    case 27:
      check(weft_mesh_resume(mesh()));
      return check(weft_network_destroy(network()));
    case 28:
      return open_agent();
    case 29:
      return files();
    case 30:
      return reads();
    case 31:
    case 32:
    case 33:
      return act();
    case 34:
      return load_model();
    case 35:
      return model_call();
    case 36:
      return two_threads();
    case 37:
      return log();
    default:
      return agent_call();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool is_quiet = weft_set_log(nullptr, nullptr, WEFT_LOG_OFF) == WEFT_OK;
  WEFT_ASSERT(is_quiet, "the log cannot be turned off");
  Program program(data, size);
  Session session(program);
  for (int steps = 0; steps < 200 && !program.is_over(); ++steps) session.step();
  return 0;
}
