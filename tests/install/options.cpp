// SPDX-License-Identifier: Apache-2.0
// Every set of options can be written by naming the one that matters, without a warning of the others.

#include "learning/learner.hpp"
#include "learning/sample_stream.hpp"

#include "mesh/mesh.hpp"

#include "actors/supervisor.hpp"

#include "scheduler/executor.hpp"

#include "formats/csv/csv.hpp"
#include "storage/checkpoint.hpp"

#include "topology/machine.hpp"
#include "topology/plan.hpp"

using namespace weft;

GridShape grid{.x = 2};
topology::Machine::SyntheticOptions machine{.quota_cpus = 1.5};
topology::Workload workload{.threads = 2};
scheduler::ExecutorOptions executor{.pin = false};
actors::SupervisionRule supervision{.window = 10};
formats::CsvOptions csv{.separator = ';'};
storage::CheckpointOptions checkpoints{.keep = 3};
mesh::MeshOptions options{.sessions = 3};
learning::OptimizerOptions optimizer{.lr = 0.01f};
learning::LearningOptions by_rule{.rule = learning::Rule::dfa};
learning::LearningOptions by_optimizer{.optimizer = {.kind = learning::OptimizerKind::adamw}};
learning::StreamOptions stream{.epochs = 2};
learning::Target labels{.output = "answer", .labels = {}};
learning::Target values{.output = "answer", .values = {}};
