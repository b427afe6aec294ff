// SPDX-License-Identifier: Apache-2.0

#pragma once

// All that a program needs which embeds Weft (docs/embedding.md). Link weft::weft.

#include "agent/agent.hpp"
#include "learning/learner.hpp"
#include "learning/stream_options.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/cell_actor.hpp"

#include "actors/watchdog.hpp"

namespace weft {

using actors::Hang;
using actors::OnHang;
using actors::Watchdog;
using actors::WatchdogOptions;
using agent::Agent;
using kernels::Activation;
using learning::Learner;
using learning::LearningOptions;
using learning::StreamOptions;
using mesh::CellActor;
using mesh::CellActorOf;
using mesh::CellContext;
using mesh::Mesh;
using mesh::MeshOptions;
using mesh::NetworkBuilder;
using mesh::NetworkSpec;

namespace message = mesh::message;

}  // namespace weft
