// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/agent.hpp"
#include "agent/environment_loop.hpp"

#include "mesh/network/network_json.hpp"

#include <gtest/gtest.h>

#include "tests/agent/scripted.hpp"
#include "tests/agent/worlds.hpp"
#include "tests/mesh/testing.hpp"
#include "tests/support/memory_file_system.hpp"
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Agents that act in CartPole, and their equations in float64.
namespace weft::agent::test {

using Numbers = std::vector<double>;

/// Networks of one hidden layer each, or of none; `width`: of the actor.
inline mesh::NetworkSpec network_of(std::size_t observations, std::size_t width, const std::string& reinforcement,
                                    std::size_t hidden, const std::string& more) {
  const auto part = [&](int x, std::size_t out) {
    const std::string head = R"({"type": "dense", "out": )" + std::to_string(out) + "}";
    const std::string body = R"({"type": "dense", "init": "sparse", "out": )" + std::to_string(hidden) +
                             R"(}, {"type": "layer_norm", "affine": false}, {"type": "activation", "activation":
                             "leaky_relu"}, )";
    return R"({"at": [0, 0, )" + std::to_string(x) + R"(, 0], "type": "sequential", "from": ["o"], "layers": [)" +
           (hidden ? body : "") + head + "]}";
  };
  return mesh::testing_support::must(
      mesh::read_network(R"({"weft": 2, "seed": 3, "grid": {"x": 2}, "inputs": {"o": [)" +
                             std::to_string(observations) + R"(]}, "layers": [)" + part(0, width) + ", " + part(1, 1) +
                             R"(], "outputs": {"policy": [0, 0, 0, 0], "value": [0, 0, 1, 0]},
             "learning": {"late": "meet", "patience": 1, "traces": true, )" +
                             more + R"(}, "reinforcement": )" + reinforcement + "}",
                         "loop"));
}

/// Of CartPole.
inline mesh::NetworkSpec network(const std::string& reinforcement, std::size_t hidden = 12,
                                 const std::string& optimizer = R"({"type": "sgd", "lr": 1})") {
  return network_of(4, 2, reinforcement, hidden, R"("optimizer": )" + optimizer);
}

/// Of the pendulum, whose action is a real value.
inline mesh::NetworkSpec swinging(const std::string& more = "", std::size_t hidden = 12) {
  return network_of(3, 2, R"({"environment": {"type": "pendulum"}, "seed": 5)" + more + "}", hidden,
                    R"("optimizer": {"type": "sgd", "lr": 1})");
}

inline constexpr const char* kCartPole = R"({"environment": {"type": "cartpole"}, "seed": 5})";

/// One output: a value for each action. Observations and rewards are as they are.
inline mesh::NetworkSpec by_values(const std::string& algorithm, std::size_t hidden) {
  auto spec = network(R"({"environment": {"type": "cartpole"}, "seed": 5, "critic": "policy", "discount": 0.9,
    "lambda": 0.5, "normalize": false, "scale_rewards": false, "explore_end": 0.1, "explore_steps": 80,
    "algorithm": ")" + algorithm +
                          "\"}",
                      hidden);
  spec.layers.pop_back();
  spec.outputs.pop_back();
  return spec;
}

inline mesh::MeshOptions shape(std::size_t threads) {
  mesh::MeshOptions options;
  options.threads = threads;
  options.grain_bytes = 0;
  options.pin = false;
  return options;
}

/// Means and deviations of numbers that came so far, from all of them anew.
struct Seen {
  std::vector<Numbers> all;
  Numbers mean;
  Numbers deviation(const Numbers& x) {
    all.push_back(x);
    const auto n = static_cast<double>(all.size());
    mean.assign(x.size(), 0.0);
    Numbers made;
    for (std::size_t i = 0; i < x.size(); ++i) {
      double squares = 0;
      for (const Numbers& one : all) mean[i] += one[i] / n;
      for (const Numbers& one : all) squares += (one[i] - mean[i]) * (one[i] - mean[i]);
      made.push_back(n < 2 ? 1.0 : std::sqrt(squares / (n - 1) + 1e-8));
    }
    return made;
  }
  Numbers normal(Numbers x) {
    const Numbers deviations = deviation(x);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean[i]) / deviations[i];
    return x;
  }
};

/// A linear layer with traces.
struct Linear {
  Numbers w, b, zw, zb;
  Linear(Numbers weights, Numbers bias) : w(std::move(weights)), b(std::move(bias)), zw(w.size()), zb(b.size()) {}
  Numbers of(const Numbers& x) const {
    Numbers y = b;
    for (std::size_t o = 0; o < y.size(); ++o)
      for (std::size_t k = 0; k < x.size(); ++k) y[o] += w[o * x.size() + k] * x[k];
    return y;
  }
  /// Along traces of the gradients `dy` by the output, which is to rise.
  void rise(const Numbers& x, const Numbers& dy, double error, double decay, double bound, bool ends) {
    double norm = 0;
    for (std::size_t o = 0; o < dy.size(); ++o) {
      for (std::size_t k = 0; k < x.size(); ++k) {
        double& z = zw[o * x.size() + k];
        z = decay * z + dy[o] * x[k];
        norm += std::fabs(z);
      }
      zb[o] = decay * zb[o] + dy[o];
      norm += std::fabs(zb[o]);
    }
    const double step = 1 / std::max(1.0, bound * std::max(std::fabs(error), 1.0) * norm) * error;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += step * zw[i];
    for (std::size_t i = 0; i < b.size(); ++i) b[i] += step * zb[i];
    if (!ends) return;
    std::fill(zw.begin(), zw.end(), 0.0);
    std::fill(zb.begin(), zb.end(), 0.0);
  }
};

/// Steps by turns of 1 to 4, markers, and a checkpoint every 15 ticks.
inline std::vector<Call> acting_script(std::uint64_t calls) {
  std::vector<Call> all;
  for (std::uint64_t i = 0; i < calls; ++i) {
    if (i % 5 == 3)
      all.push_back([](Agent& agent) { return agent.mark(); });
    else
      all.push_back([i](Agent& agent) { return agent.act(1 + i % 4); });
  }
  return all;
}

inline Agent::Options options_of(VirtualTime& time, Counter& counter) {
  Agent::Options options = deterministic_options(time, counter, Durability::Mode::tick);
  options.keep = 1000;
  return options;
}

struct Acting {
  VirtualTime time;
  Counter counter;
  Recovery recovery;
  std::unique_ptr<Agent> agent;

  Acting(storage::MemoryFileSystem& files, const mesh::NetworkSpec& spec) {
    agent = mesh::testing_support::must(Agent::open(files, "agent", spec, options_of(time, counter), recovery));
  }
  void run(std::uint64_t until, const std::vector<Call>& calls) {
    while (counter.calls < until) mesh::testing_support::must(calls[counter.calls++](*agent));
  }
};

/// Killed after every so many calls and gone on with, an agent ends as the one that was never killed.
inline void expect_same_end_from_any_call(const mesh::NetworkSpec& spec, const std::vector<Call>& calls,
                                          Agent& unbroken, std::size_t every) {
  for (std::size_t cut = 1; cut < calls.size(); cut += every) {
    storage::MemoryFileSystem files;
    {
      Acting acting(files, spec);
      acting.run(cut, calls);
      files.process_crash();
    }
    Acting acting(files, spec);
    ASSERT_EQ(acting.counter.calls, cut);
    acting.run(calls.size(), calls);
    EXPECT_EQ(acting.agent->hash(), unbroken.hash()) << "cut at " << cut;
    EXPECT_EQ(acting.agent->loop()->mean_return(), unbroken.loop()->mean_return());
    EXPECT_EQ(acting.agent->loop()->steps(), unbroken.loop()->steps());
  }
}

}  // namespace weft::agent::test
