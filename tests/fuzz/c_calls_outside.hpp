// SPDX-License-Identifier: Apache-2.0
// Calls of the C ABI that reach beyond a mesh: agents and their data directories, environments, files, models, the log.
#pragma once

#include "capi/weft.h"

#include "core/assert.hpp"

#include "tests/fuzz/c_calls.hpp"
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace weft::fuzz {

class OutsideCalls : public Calls {
 protected:
  using Calls::Calls;
  void open_agent();
  void agent_call();
  void act();
  void files();
  void load_model();
  void model_call();
  void log();
};

inline void OutsideCalls::open_agent() {
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

inline void OutsideCalls::agent_call() {
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

/// Worlds: made, acted in, saved, and restored whole or damaged.
inline void OutsideCalls::act() {
  static constexpr std::array kNames{
      "cartpole",     "acrobot", "mountain_car", "pendulum", "catch_ball",
      "memory_chain", "falling", "lanes",        "shooter",  "snake",
      "turns",        "chase",   "external",     "none",     static_cast<const char*>(nullptr)};
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

inline void OutsideCalls::files() {
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

/// Files that are no models, or begin like one.
inline void OutsideCalls::load_model() {
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
  const unsigned way = program_.byte() % 16;
  if (way == 1 || way == 2) {
    const weft_file_bytes files[] = {{"config.json", content.data(), content.size()},
                                     {program_.pick(kPortNames), content.data(), content.size()}};
    return keep(handles_.models, weft_model_load_bytes(files, way, &options, &made), made);
  }
  const char* const place = way == 0 ? nullptr : program_.byte() % 2 == 0 ? path.c_str() : folder.c_str();
  keep(handles_.models, weft_model_load(place, program_.byte() % 4 == 0 ? nullptr : &options, &made), made);
}

inline void OutsideCalls::model_call() {
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

inline void OutsideCalls::log() {
  static const weft_log_function kFunction = [](void*, int, const char* text) {
    WEFT_ASSERT(text != nullptr, "a log line without a text");
  };
  check(weft_set_log(program_.byte() % 2 == 0 ? kFunction : nullptr, nullptr, program_.byte() % 8 - 1));
  check(weft_keep_log(program_.byte() % 8 - 1));
  std::array<char, 16> line{};
  std::size_t needed = 0;
  int level = 0;
  check(weft_next_log(program_.byte() % 4, program_.byte() % 2 == 0 ? &level : nullptr,
                      program_.byte() % 4 == 0 ? nullptr : line.data(), program_.byte() % line.size(),
                      program_.byte() % 2 == 0 ? &needed : nullptr));
  check(weft_set_log(nullptr, nullptr, WEFT_LOG_OFF));
}

}  // namespace weft::fuzz
