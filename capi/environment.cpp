// SPDX-License-Identifier: Apache-2.0
// Worlds to act in.

#include "agent/environments/environment.hpp"

#include "capi/internal/arguments.hpp"
#include "capi/internal/environment_object.hpp"

#include "core/json.hpp"
#include "core/state_hash.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::capi {
namespace {

constexpr std::uint32_t kMostSteps = 1u << 20;  // of memory_chain; as in the section "reinforcement"
using Bytes = std::vector<std::byte>;

constexpr std::array<char, 8> kMagic{'W', 'E', 'F', 'T', 'E', 'N', 'V', '1'};

/// Bytes of a saved world: what it is of, what an episode is at, its fields, and a digest of all that.
struct Head {
  std::array<char, 8> magic = kMagic;
  std::uint32_t kind = 0, length = 0, phase = 0, reserved = 0;
};
static_assert(sizeof(Head) == 24);

class Writer final : public OutArchive {
 public:
  explicit Writer(Bytes& to) : OutArchive(Scopes{Scope::control}), to_(to) {}

 protected:
  void put(const Field&, Element, ByteSpan bytes) override { to_.insert(to_.end(), bytes.begin(), bytes.end()); }

 private:
  Bytes& to_;
};

class Reader final : public InArchive {
 public:
  explicit Reader(ByteSpan from) : InArchive(Scopes{Scope::control}), left_(from) {}

 protected:
  bool get(const Field&, Element, std::span<std::byte> to) override {
    if (to.size() > left_.size()) {
      fail();
      return false;
    }
    if (!to.empty()) std::memcpy(to.data(), left_.data(), to.size());
    left_ = left_.subspan(to.size());
    return true;
  }
  std::uint64_t left() const noexcept override { return left_.size(); }

 private:
  ByteSpan left_;
};

/// An environment outside of this process: an agent's alone.
bool is_elsewhere(std::size_t kind) {
  return static_cast<agent::EnvironmentKind>(kind) == agent::EnvironmentKind::external;
}

void append(Bytes& to, ByteSpan bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

/// Steps of all episodes are state of these.
bool has_turns(agent::EnvironmentKind kind) {
  return kind == agent::EnvironmentKind::turns || kind == agent::EnvironmentKind::chase;
}

Bytes saved(const EnvironmentObject& of) {
  Bytes bytes;
  Head head;
  head.kind = static_cast<std::uint32_t>(of.options.kind);
  head.length = of.options.length;
  head.phase = static_cast<std::uint32_t>(of.phase);
  append(bytes, std::as_bytes(std::span(&head, 1)));
  Writer archive(bytes);
  of.environment->visit(archive);
  if (has_turns(of.options.kind)) append(bytes, std::as_bytes(std::span(&of.steps, 1)));
  const Hash128 hash = hash_bytes(bytes.data(), bytes.size());
  append(bytes, std::as_bytes(std::span(&hash, 1)));
  return bytes;
}

Failure no_state(std::string_view why) { return fail(Errc::corrupt, "environment's state: " + std::string(why)); }

Status restore(EnvironmentObject& to, ByteSpan bytes) {
  Head head;
  Hash128 hash;
  if (bytes.size() < sizeof head + sizeof hash) return no_state(std::to_string(bytes.size()) + " bytes are too few");
  std::memcpy(&head, bytes.data(), sizeof head);
  const ByteSpan content = bytes.first(bytes.size() - sizeof hash);
  std::memcpy(&hash, bytes.data() + content.size(), sizeof hash);
  if (head.magic != kMagic || hash != hash_bytes(content.data(), content.size()))
    return no_state("damaged, or nothing that was saved of one");
  if (head.kind != static_cast<std::uint32_t>(to.options.kind) || head.length != to.options.length)
    return fail(Errc::invalid_argument,
                "environment's state: " +
                    (head.kind < agent::environment_names().size() ? std::string(agent::environment_names()[head.kind])
                                                                   : std::to_string(head.kind)) +
                    " of length " + std::to_string(head.length) + " where " + std::string(name(to.options.kind)) +
                    " of length " + std::to_string(to.options.length) + " is expected");
  auto made = agent::make_environment(to.options);
  ByteSpan fields = content.subspan(sizeof head);
  std::uint64_t steps = 0;
  if (has_turns(to.options.kind) && fields.size() >= sizeof steps) {
    std::memcpy(&steps, fields.data() + fields.size() - sizeof steps, sizeof steps);
    fields = fields.first(fields.size() - sizeof steps);
  }
  Bytes wanted;
  Writer sizes(wanted);
  made->visit(sizes);
  if (head.phase > static_cast<std::uint32_t>(EnvironmentObject::Phase::over) || fields.size() != wanted.size())
    return no_state("no such state can be");
  Reader archive(fields);
  if (!made->visit(archive)) return no_state("no such state can be");
  to.environment = std::move(made);
  to.steps = steps;
  to.phase = static_cast<EnvironmentObject::Phase>(head.phase);
  return {};
}

Result<agent::Action> action_of(const agent::EnvironmentShape& shape, std::string_view name, std::uint32_t choice,
                                std::span<const float> values) {
  if (values.size() != shape.values)
    return fail(Errc::shape_mismatch, std::string(name) + ": an action of " + std::to_string(values.size()) +
                                          " values where " + std::to_string(shape.values) + " are expected");
  if (shape.choices > 0 && choice >= shape.choices)
    return fail(Errc::out_of_range,
                std::string(name) + ": choice " + std::to_string(choice) + " of " + std::to_string(shape.choices));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return fail(Errc::not_finite,
                  std::string(name) + ": value " + std::to_string(i) + " is " + std::to_string(values[i]));
  return agent::Action{choice, values};
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_environments(char* buffer, size_t capacity, size_t* out_needed) {
  return guarded([&]() -> capi::Outcome {
    Json all = Json::array();
    for (std::size_t kind = 0; kind < agent::environment_names().size(); ++kind) {
      if (is_elsewhere(kind)) continue;
      const auto made = agent::make_environment({static_cast<agent::EnvironmentKind>(kind)});
      const agent::EnvironmentShape& shape = made->shape();
      all.push_back({{"name", agent::environment_names()[kind]},
                     {"observations", shape.observations},
                     {"choices", shape.choices},
                     {"values", shape.values},
                     {"limit", shape.limit}});
    }
    return copy_text(all.dump(), buffer, capacity, out_needed);
  });
}

weft_status weft_environment_create(const char* name, const weft_environment_options* options,
                                    weft_environment** out_environment) {
  return guarded([&]() -> capi::Outcome {
    WEFT_CHECK(check_out(out_environment, "out_environment"));
    WEFT_TRY(const std::string_view wanted, text_of(name, "name"));
    WEFT_TRY(const weft_environment_options given, struct_of(options, "environment options"));
    const auto& names = agent::environment_names();
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end() || is_elsewhere(static_cast<std::size_t>(found - names.begin()))) {
      std::string all;
      for (std::size_t kind = 0; kind < names.size(); ++kind)
        if (!is_elsewhere(kind)) all += (all.empty() ? "" : ", ") + std::string(names[kind]);
      return fail(Errc::unknown_name, "environment '" + std::string(wanted) + "' is none of " + all);
    }
    agent::EnvironmentOptions made;
    made.kind = static_cast<agent::EnvironmentKind>(found - names.begin());
    if (given.length > 0) made.length = given.length;
    if (given.length > 0) made.every = given.length;
    if (given.length > kMostSteps)
      return fail(Errc::out_of_range, "environment options: a length of " + std::to_string(given.length) +
                                          " where at most " + std::to_string(kMostSteps) + " can be");
    return hand_out(std::make_unique<EnvironmentObject>(made), out_environment);
  });
}

weft_status weft_environment_destroy(weft_environment* environment) { return destroy<EnvironmentObject>(environment); }

weft_status weft_environment_describe(weft_environment* environment, weft_environment_shape* out_shape) {
  return with<EnvironmentObject>(environment, [&](EnvironmentObject& of) -> capi::Outcome {
    const agent::EnvironmentShape& shape = of.environment->shape();
    weft_environment_shape made{};
    made.observations = shape.observations;
    made.choices = shape.choices;
    made.values = shape.values;
    made.limit = shape.limit;
    return give_struct(made, out_shape, "out_shape");
  });
}

weft_status weft_environment_reset(weft_environment* environment, uint64_t seed, uint64_t episode) {
  return with<EnvironmentObject>(environment, [&](EnvironmentObject& of) -> capi::Outcome {
    of.environment->reset(seed, episode, of.steps);
    of.phase = EnvironmentObject::Phase::running;
    return {};
  });
}

weft_status weft_environment_step(weft_environment* environment, uint32_t choice, const float* values,
                                  size_t value_count, weft_environment_result* out_result) {
  return with<EnvironmentObject>(environment, [&](EnvironmentObject& of) -> capi::Outcome {
    weft_environment_result made{};
    WEFT_CHECK(give_struct(made, out_result, "out_result"));  // checked before anything changes
    WEFT_TRY(const auto given, array_of(values, value_count, "values"));
    WEFT_TRY(const agent::Action action, action_of(of.environment->shape(), name(of.options.kind), choice, given));
    if (of.phase != EnvironmentObject::Phase::running)
      return fail(Errc::invalid_argument, std::string(name(of.options.kind)) +
                                              (of.phase == EnvironmentObject::Phase::over ? ": the episode has ended"
                                                                                          : ": no episode has begun") +
                                              "; a reset begins one");
    const agent::Outcome outcome = of.environment->step(action);
    ++of.steps;
    if (outcome.terminated || outcome.truncated) of.phase = EnvironmentObject::Phase::over;
    made.reward = outcome.reward;
    made.terminated = outcome.terminated;
    made.truncated = outcome.truncated;
    made.steps = of.environment->steps();
    return give_struct(made, out_result, "out_result");
  });
}

weft_status weft_environment_observation(weft_environment* environment, float* values, size_t capacity,
                                         size_t* out_needed) {
  return with<EnvironmentObject>(environment, [&](EnvironmentObject& of) -> capi::Outcome {
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(values, capacity, "values"));
    return copy_out(of.environment->observation(), values, capacity, out_needed);
  });
}

weft_status weft_environment_state(weft_environment* environment, double* values, size_t capacity, size_t* out_needed) {
  return with<EnvironmentObject>(environment, [&](EnvironmentObject& of) -> capi::Outcome {
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(values, capacity, "values"));
    return copy_out(of.environment->state(), values, capacity, out_needed);
  });
}

weft_status weft_environment_save(weft_environment* environment, void* buffer, size_t capacity, size_t* out_needed) {
  return with<EnvironmentObject>(environment, [&](EnvironmentObject& of) -> capi::Outcome {
    const Bytes bytes = saved(of);
    return copy_out(bytes.data(), bytes.size(), 1, buffer, capacity, out_needed);
  });
}

weft_status weft_environment_restore(weft_environment* environment, const void* bytes, size_t count) {
  return with<EnvironmentObject>(environment, [&](EnvironmentObject& of) -> capi::Outcome {
    WEFT_TRY(const ByteSpan given, bytes_of(bytes, count, "bytes"));
    return restore(of, given);
  });
}

weft_status weft_environment_hash(weft_environment* environment, char* buffer, size_t capacity, size_t* out_needed) {
  return with<EnvironmentObject>(environment, [&](EnvironmentObject& of) -> capi::Outcome {
    const Bytes bytes = saved(of);
    return copy_text(to_string(hash_bytes(bytes.data(), bytes.size())), buffer, capacity, out_needed);
  });
}
