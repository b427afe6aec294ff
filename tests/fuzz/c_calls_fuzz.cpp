// SPDX-License-Identifier: Apache-2.0
// The bytes are a program of calls of the C ABI: each chooses a function, objects (live, destroyed, of another kind,
// NULL), and arguments, right ones and wrong ones. Whatever it is, every call answers with a status that is documented.

#include "capi/weft.h"

#include "core/assert.hpp"

#include "tests/fuzz/c_calls.hpp"
#include "tests/fuzz/c_calls_outside.hpp"
#include <array>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace weft::fuzz {
namespace {

class Session : public OutsideCalls {
 public:
  using OutsideCalls::OutsideCalls;
  void step();

 private:
  void read_network();
  void build_mesh();
  void command();
  void run(bool is_forward);
  void learn(bool is_late);
  void sessions();
  void bytes();
  void reads();
  void two_threads();

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
  options.no_masters = program_.byte() % 8 == 0;
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
  made.granularity = program_.pick(kGranularities);
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
  const std::uint64_t count = program_.rows(inputs + outputs > 0);
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
  if (!is_late) return check(weft_learner_learn(of, &input, 1, &target, program_.byte() % 2, program_.rows(true)));
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

void Session::reads() {
  std::uint64_t ticks = 0;
  switch (program_.byte() % 5) {
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
      WEFT_ASSERT(std::strlen(weft_version()) > 0, "a version is a text");
      return ask<char>(program_, weft_devices);
    }
    case 3: {
      weft_learner* const of = learner();
      check(weft_learner_measure(of, program_.byte() % 2));
      std::array<weft_layer_diagnostics, 3> layers{};
      layers[0].size = program_.byte() % 4 == 0 ? program_.byte() : sizeof layers[0];
      std::size_t needed = 0;
      return check(weft_learner_diagnostics(of, program_.byte() % 8 == 0 ? nullptr : layers.data(),
                                            program_.byte() % layers.size(),
                                            program_.byte() % 8 == 0 ? nullptr : &needed));
    }
    default: {
      const Values values(program_);
      std::vector<float> buffer(program_.byte() % 16);
      const weft_input input{program_.pick(kPortNames), values.floats.data(), values.floats.size()};
      const weft_output output{program_.pick(kPortNames), buffer.data(), buffer.size()};
      const std::size_t rows = program_.rows(true), with = program_.byte() % 2 == 0 ? WEFT_NO_SESSION : session();
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
      return check(weft_mesh_morph(mesh(), place(), program_.pick(kDtypes), program_.pick(kGranularities)));
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
      float score = 0;
      check(program_.byte() % 2 == 0 ? weft_learner_score_one(of, data, count, program_.byte() % 4u, &score)
                                     : weft_learner_score_one_values(of, data, count, said.data(), 2, &score));
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
}  // namespace weft::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool is_quiet = weft_set_log(nullptr, nullptr, WEFT_LOG_OFF) == WEFT_OK;
  WEFT_ASSERT(is_quiet, "the log cannot be turned off");
  weft::fuzz::Program program(data, size);
  weft::fuzz::Session session(program);
  for (int steps = 0; steps < 200 && !program.is_over(); ++steps) session.step();
  return 0;
}
